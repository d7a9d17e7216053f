//! The contents of one simulated file: two sparse images and the writes between them.

use std::collections::BTreeMap;
use std::sync::Arc;

const CHUNK: usize = 4096;
const SECTOR: usize = 512;

/// Sparse contents: a missing chunk is zeros. Chunks are shared between images until one is written.
#[derive(Clone, Default)]
struct Image {
    chunks: BTreeMap<u64, Arc<[u8; CHUNK]>>,
    len: u64,
}

impl Image {
    fn read(&self, buf: &mut [u8], position: u64) {
        for_pieces(position, buf.len(), CHUNK, |chunk, within, piece| {
            let out = &mut buf[piece];
            match self.chunks.get(&chunk) {
                Some(data) => out.copy_from_slice(&data[within..within + out.len()]),
                None => out.fill(0),
            }
        });
    }

    fn write(&mut self, data: Data<'_>, position: u64) {
        for_pieces(position, data.len(), CHUNK, |chunk, within, piece| match data {
            Data::Bytes(bytes) => {
                let stored = self.chunks.entry(chunk).or_insert_with(|| Arc::new([0; CHUNK]));
                Arc::make_mut(stored)[within..within + piece.len()].copy_from_slice(&bytes[piece]);
            }
            Data::Zeros(_) if piece.len() == CHUNK => {
                self.chunks.remove(&chunk);
            }
            Data::Zeros(_) => {
                if let Some(stored) = self.chunks.get_mut(&chunk) {
                    Arc::make_mut(stored)[within..within + piece.len()].fill(0);
                }
            }
        });
        self.len = self.len.max(position + data.len() as u64);
    }

    fn set_len(&mut self, len: u64) {
        if len < self.len {
            // Zero to the end of the last chunk kept, so that growing again shows zeros.
            let keep = len.div_ceil(CHUNK as u64);
            self.chunks.split_off(&keep);
            let tail = usize::try_from(keep * CHUNK as u64 - len).unwrap_or(0);
            self.write(Data::Zeros(tail), len);
        }
        self.len = len;
    }
}

/// Bytes, or a number of zeros: filling a segment with zeros costs nothing.
#[derive(Clone, Copy)]
enum Data<'a> {
    Bytes(&'a [u8]),
    Zeros(usize),
}

impl<'a> Data<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        // Comparing a slice with itself, shifted by one, is a memcmp.
        let zero = bytes.first().is_none_or(|&first| first == 0)
            && (bytes.len() < 2 || bytes[1..] == bytes[..bytes.len() - 1]);
        if zero { Data::Zeros(bytes.len()) } else { Data::Bytes(bytes) }
    }

    fn len(&self) -> usize {
        match self {
            Data::Bytes(bytes) => bytes.len(),
            Data::Zeros(len) => *len,
        }
    }

    fn part(&self, piece: std::ops::Range<usize>) -> Data<'a> {
        match self {
            Data::Bytes(bytes) => Data::Bytes(&bytes[piece]),
            Data::Zeros(_) => Data::Zeros(piece.len()),
        }
    }
}

enum Unsynced {
    Bytes(u64, Vec<u8>),
    Zeros(u64, usize),
    SetLen(u64),
}

/// One file.
#[derive(Default)]
pub(super) struct Inode {
    live: Image,
    durable: Image,
    unsynced: Vec<Unsynced>,
}

impl Inode {
    pub fn read(&self, buf: &mut [u8], position: u64) -> usize {
        let left = usize::try_from(self.live.len.saturating_sub(position)).unwrap_or(usize::MAX);
        let n = buf.len().min(left);
        self.live.read(&mut buf[..n], position);
        n
    }

    pub fn write(&mut self, bytes: &[u8], position: u64) {
        let data = Data::of(bytes);
        self.live.write(data, position);
        self.unsynced.push(match data {
            Data::Bytes(bytes) => Unsynced::Bytes(position, bytes.to_vec()),
            Data::Zeros(len) => Unsynced::Zeros(position, len),
        });
    }

    pub fn set_len(&mut self, len: u64) {
        self.live.set_len(len);
        self.unsynced.push(Unsynced::SetLen(len));
    }

    pub fn live_len(&self) -> u64 {
        self.live.len
    }

    pub fn live_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.live.len).unwrap_or(0)];
        self.live.read(&mut bytes, 0);
        bytes
    }

    /// Everything written becomes durable.
    pub fn sync(&mut self) {
        for write in std::mem::take(&mut self.unsynced) {
            match write {
                Unsynced::Bytes(position, bytes) => self.durable.write(Data::Bytes(&bytes), position),
                Unsynced::Zeros(position, len) => self.durable.write(Data::Zeros(len), position),
                Unsynced::SetLen(len) => self.durable.set_len(len),
            }
        }
    }

    /// A failed sync: the writes will never reach the medium, but reads still see them.
    pub fn forget_writes(&mut self) {
        self.unsynced.clear();
    }

    /// Reads see the medium again, plus what is still waiting to be written.
    pub fn reload(&mut self) {
        let mut live = self.durable.clone();
        for write in &self.unsynced {
            match write {
                Unsynced::Bytes(position, bytes) => live.write(Data::Bytes(bytes), *position),
                Unsynced::Zeros(position, len) => live.write(Data::Zeros(*len), *position),
                Unsynced::SetLen(len) => live.set_len(*len),
            }
        }
        self.live = live;
    }

    /// Bit rot in both images.
    pub fn rot(&mut self, position: u64, mask: u8) {
        for image in [&mut self.live, &mut self.durable] {
            let mut byte = [0];
            image.read(&mut byte, position);
            image.write(Data::Bytes(&[byte[0] ^ mask]), position);
        }
    }

    /// The file as found after a loss of power.
    pub fn survivor(&self, choices: &mut Choices) -> Inode {
        let mut image = self.durable.clone();
        for write in &self.unsynced {
            let (position, data) = match write {
                Unsynced::Bytes(position, bytes) => (*position, Data::Bytes(bytes)),
                Unsynced::Zeros(position, len) => (*position, Data::Zeros(*len)),
                Unsynced::SetLen(len) => {
                    if choices.yes() {
                        image.set_len(*len);
                    }
                    continue;
                }
            };
            let fate = choices.fate();
            for_pieces(position, data.len(), SECTOR, |sector, within, piece| {
                if choices.applies(fate) {
                    image.write(data.part(piece), sector * SECTOR as u64 + within as u64);
                }
            });
        }
        Inode { live: image.clone(), durable: image, unsynced: Vec::new() }
    }
}

/// Cuts `len` bytes at `position` at multiples of `unit`: calls with the unit's number, the place within it, and
/// the piece of the data.
fn for_pieces(
    position: u64,
    len: usize,
    unit: usize,
    mut act: impl FnMut(u64, usize, std::ops::Range<usize>),
) {
    let mut done = 0;
    while done < len {
        let here = position + done as u64;
        let within = usize::try_from(here % unit as u64).unwrap_or(0);
        let piece = (unit - within).min(len - done);
        act(here / unit as u64, within, done..done + piece);
        done += piece;
    }
}

/// What becomes of the sectors of one write.
#[derive(Clone, Copy)]
pub(super) enum Fate {
    None,
    All,
    Some,
}

/// Seeded choices (splitmix64).
pub(super) struct Choices(u64);

impl Choices {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn yes(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// All and nothing get a fair share: with many sectors a coin per sector would hardly ever give them.
    pub fn fate(&mut self) -> Fate {
        match self.below(4) {
            0 => Fate::None,
            1 => Fate::All,
            _ => Fate::Some,
        }
    }

    pub fn applies(&mut self, fate: Fate) -> bool {
        match fate {
            Fate::None => false,
            Fate::All => true,
            Fate::Some => self.yes(),
        }
    }
}
