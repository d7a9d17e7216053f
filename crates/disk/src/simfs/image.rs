//! The contents of one simulated file: two sparse images and the writes between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::choices::{Choices, Fate};
use super::extents::Extents;
use super::faults::FaultKind;

const CHUNK: usize = 4096;
pub(super) const SECTOR: usize = 512;

/// Sparse contents: a missing chunk is zeros. Chunks are shared between images until one is written.
#[derive(Clone, Default)]
struct Image {
    chunks: BTreeMap<u64, Arc<[u8; CHUNK]>>,
    /// What takes room: a written zero does, though it has no chunk.
    extents: Extents,
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
        self.store(data, position);
        self.reserve(position, data.len() as u64);
    }

    /// Puts bytes there, and leaves room and length as they are.
    fn store(&mut self, data: Data<'_>, position: u64) {
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
    }

    /// Takes room without writing: what was not there reads as zeros.
    fn reserve(&mut self, position: u64, len: u64) {
        if len > 0 {
            self.extents.add(Extents::spanned(position, len));
            self.len = self.len.max(position + len);
        }
    }

    /// Flips bits of a byte; `false` if the file is not that long.
    fn flip(&mut self, position: u64, mask: u8) -> bool {
        let inside = position < self.len;
        if inside {
            let flipped = self.byte(position) ^ mask;
            self.store(Data::Bytes(&[flipped]), position);
        }
        inside
    }

    fn byte(&self, position: u64) -> u8 {
        let mut byte = [0];
        self.read(&mut byte, position);
        byte[0]
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.len).unwrap_or(0)];
        self.read(&mut bytes, 0);
        bytes
    }

    fn set_len(&mut self, len: u64) {
        if len < self.len {
            // Zero to the end of the last chunk kept, so that growing again shows zeros.
            let keep = len.div_ceil(CHUNK as u64);
            self.chunks.split_off(&keep);
            let tail = usize::try_from(keep * CHUNK as u64 - len).unwrap_or(0);
            self.store(Data::Zeros(tail), len);
            self.extents.cut(keep);
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
    Reserve(u64, u64),
    SetLen(u64),
}

impl Unsynced {
    fn of(data: Data<'_>, position: u64) -> Self {
        match data {
            Data::Bytes(bytes) => Unsynced::Bytes(position, bytes.to_vec()),
            Data::Zeros(len) => Unsynced::Zeros(position, len),
        }
    }

    /// The bytes it writes, if it writes any.
    fn data(&self) -> Option<(u64, Data<'_>)> {
        match self {
            Unsynced::Bytes(position, bytes) => Some((*position, Data::Bytes(bytes))),
            Unsynced::Zeros(position, len) => Some((*position, Data::Zeros(*len))),
            Unsynced::Reserve(..) | Unsynced::SetLen(_) => None,
        }
    }

    fn apply(&self, image: &mut Image) {
        match self {
            Unsynced::Bytes(position, bytes) => image.write(Data::Bytes(bytes), *position),
            Unsynced::Zeros(position, len) => image.write(Data::Zeros(*len), *position),
            Unsynced::Reserve(position, len) => image.reserve(*position, *len),
            Unsynced::SetLen(len) => image.set_len(*len),
        }
    }
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

    /// Writes; no bytes are no write, and do not lengthen the file either.
    pub fn write(&mut self, bytes: &[u8], position: u64) {
        if bytes.is_empty() {
            return;
        }
        let data = Data::of(bytes);
        self.live.write(data, position);
        self.unsynced.push(Unsynced::of(data, position));
    }

    /// Takes room for bytes, and lengthens the file to hold them.
    pub fn reserve(&mut self, position: u64, len: u64) {
        self.live.reserve(position, len);
        self.unsynced.push(Unsynced::Reserve(position, len));
    }

    /// A write that the medium never sees. The file system believes it happened: the file is as long, and a cache
    /// shows the bytes.
    pub fn write_lost(&mut self, bytes: &[u8], position: u64, cached: bool) {
        self.reserve(position, bytes.len() as u64);
        if cached {
            self.live.write(Data::of(bytes), position);
        }
    }

    /// A write that lands elsewhere in the file. What would land behind its end meets nothing of ours.
    pub fn write_astray(&mut self, bytes: &[u8], asked: u64, landed: u64, cached: bool) {
        self.write_lost(bytes, asked, cached);
        let data = Data::of(clip(bytes, landed, self.live.len));
        if data.len() > 0 {
            self.unsynced.push(Unsynced::of(data, landed));
        }
        if !cached {
            self.live.write(data, landed);
        }
    }

    /// A write to another file lands here, under this file's cache.
    pub fn overwritten(&mut self, bytes: &[u8], position: u64, cached: bool) {
        self.durable.write(Data::of(clip(bytes, position, self.durable.len)), position);
        if !cached {
            self.live.write(Data::of(clip(bytes, position, self.live.len)), position);
        }
    }

    pub fn set_len(&mut self, len: u64) {
        self.live.set_len(len);
        self.unsynced.push(Unsynced::SetLen(len));
    }

    pub fn live_len(&self) -> u64 {
        self.live.len
    }

    /// The blocks that the file takes.
    pub fn live_blocks(&self) -> u64 {
        self.live.extents.blocks()
    }

    /// How many of `len` bytes at `position` can be written with room for so many new blocks.
    pub fn fitting(&self, position: u64, len: u64, room_blocks: u64) -> u64 {
        let reach = self.live.extents.reach(Extents::spanned(position, len), room_blocks);
        reach.saturating_mul(CHUNK as u64).saturating_sub(position).min(len)
    }

    pub fn live_bytes(&self) -> Vec<u8> {
        self.live.bytes()
    }

    pub fn durable_bytes(&self) -> Vec<u8> {
        self.durable.bytes()
    }

    /// Everything written becomes durable.
    pub fn sync(&mut self) {
        for write in self.unsynced.drain(..) {
            write.apply(&mut self.durable);
        }
    }

    /// A failed sync: the writes will never reach the medium, but reads still see them.
    pub fn forget_writes(&mut self) {
        self.unsynced.clear();
    }

    /// Reads see the medium again, plus what is still waiting to be written.
    pub fn reload(&mut self) {
        self.live = self.durable.clone();
        for write in &self.unsynced {
            write.apply(&mut self.live);
        }
    }

    /// Bit rot in both images; `false` if neither is that long.
    pub fn rot(&mut self, position: u64, mask: u8) -> bool {
        let live = self.live.flip(position, mask);
        self.durable.flip(position, mask) || live
    }

    /// The durable chunks that hold more than zeros.
    pub fn written_chunks(&self) -> impl Iterator<Item = u64> {
        self.durable.chunks.keys().copied()
    }

    /// A byte of a chunk that was written, and not again since the last sync.
    pub fn written_byte(&self, chunk: u64, choices: &mut Choices) -> Option<u64> {
        let data = self.durable.chunks.get(&chunk)?;
        let first = data.iter().position(|&byte| byte != 0)?;
        let last = data.iter().rposition(|&byte| byte != 0)?;
        let position = chunk * CHUNK as u64 + (first + choices.index(last - first + 1)) as u64;
        let same = position < self.live.len && self.live.byte(position) == self.durable.byte(position);
        let covers = |(start, data): (u64, Data<'_>)| (start..start + data.len() as u64).contains(&position);
        (same && !self.unsynced.iter().filter_map(Unsynced::data).any(covers)).then_some(position)
    }

    /// The file as found after a loss of power, and what that did to it, once for each write.
    pub fn survivor(&self, choices: &mut Choices) -> (Inode, Vec<FaultKind>) {
        let mut image = self.durable.clone();
        let mut damage = Vec::new();
        for write in &self.unsynced {
            match write.data() {
                Some((position, data)) => keep_some(&mut image, data, position, choices, &mut damage),
                None if choices.yes() => write.apply(&mut image),
                None => damage.push(FaultKind::UnsyncedLost),
            }
        }
        if image.len < self.live.len {
            damage.push(FaultKind::ShorterFile);
        }
        (Inode { live: image.clone(), durable: image, unsynced: Vec::new() }, damage)
    }
}

/// Writes the sectors of a write that a loss of power left. The length is kept apart from the bytes, so it can
/// survive without them.
fn keep_some(
    image: &mut Image,
    data: Data<'_>,
    position: u64,
    choices: &mut Choices,
    damage: &mut Vec<FaultKind>,
) {
    let (mut kept, mut sectors) = (0_u64, 0_u64);
    match choices.fate() {
        Fate::All => return image.write(data, position),
        Fate::None => sectors = 1,
        Fate::Some => for_pieces(position, data.len(), SECTOR, |sector, within, piece| {
            sectors += 1;
            if choices.yes() {
                kept += 1;
                image.write(data.part(piece), sector * SECTOR as u64 + within as u64);
            }
        }),
    }
    match kept {
        0 => damage.push(FaultKind::UnsyncedLost),
        _ if kept < sectors => damage.push(FaultKind::TornWrite),
        _ => {}
    }
    let end = position + data.len() as u64;
    if end > image.len && choices.yes() {
        image.len = end;
        damage.push(FaultKind::LengthWithoutData);
    }
}

/// The bytes that are still inside a file of that length.
fn clip(bytes: &[u8], position: u64, len: u64) -> &[u8] {
    let inside = usize::try_from(len.saturating_sub(position)).unwrap_or(usize::MAX);
    &bytes[..bytes.len().min(inside)]
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
