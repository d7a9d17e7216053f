//! The bytes of a frame.
//!
//! ```text
//!  0  magic "HFfr"        24  time_ms i64          72  reserved, zero (16 bytes)
//!  4  version u16         32  options u32          88  CRC-32C of log id + bytes 0..88
//!  6  header length u16   36  rules version u32    92  CRC-32C of log id + bytes 0..92 + payload
//!  8  base offset u64     40  running hash         96  payload, then zeros up to a multiple of BLOCK
//! 16  count u32
//! 20  payload length u32
//! ```
//!
//! Both checksums begin with the log id, which clients never see: bytes that a client chose cannot be taken for a
//! frame. The header has a checksum of its own so that its length can be trusted before the payload is read, and
//! because a sound header is already proof that everything before it had been durable.

use holdfast_disk::{AlignedBuf, LogId};

/// Frames start at multiples of this and are padded to it, so a write never touches a block that holds
/// acknowledged data.
pub const BLOCK: usize = 4096;
/// [`BLOCK`] as a file position.
pub(crate) const BLOCK_U64: u64 = 4096;
/// Length of a frame header in bytes.
pub const FRAME_HEADER: usize = 96;
/// The largest payload of one frame, in bytes.
pub const FRAME_PAYLOAD_MAX: usize = 16 * 1024 * 1024;

const MAGIC: [u8; 4] = *b"HFfr";
const VERSION: u16 = 1;
const HEADER_LENGTH: u16 = 96;
const RESERVED: std::ops::Range<usize> = 72..88;
const HEADER_CRC: usize = 88;
const FRAME_CRC: usize = 92;

/// Where both checksums of a frame begin.
fn checksum_seed(log_id: &LogId) -> u32 {
    crc32c::crc32c(&log_id.0)
}

/// What a frame says about its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameHeader {
    /// Offset of the first record.
    pub base_offset: u64,
    /// Number of records, at least 1.
    pub count: u32,
    /// The one time of all records, UTC milliseconds.
    pub time_ms: i64,
    /// Processing options in force, as bits.
    pub options: u32,
    /// Version of the rules that decided the frame.
    pub rules_version: u32,
    /// Hash over the frames and effects before this one: the audit chain.
    pub running_hash: [u8; 32],
}

impl FrameHeader {
    /// The offset after the last record.
    pub fn end_offset(&self) -> u64 {
        self.base_offset + u64::from(self.count)
    }
}

/// A frame as read back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The header.
    pub header: FrameHeader,
    /// The records, as they were pushed.
    pub payload: Vec<u8>,
}

/// A frame being built: room for the header, then the records. The same buffer is what is written.
#[derive(Clone, Debug)]
pub struct FrameBuf {
    /// Header, payload and, when sealed, padding. Aligned, so that it can go to the disk without a copy.
    buf: AlignedBuf,
    /// End of the payload in `buf`.
    filled: usize,
}

impl Default for FrameBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameBuf {
    /// An empty frame with room for a few records.
    pub fn new() -> Self {
        Self::with_capacity(BLOCK - FRAME_HEADER)
    }

    /// An empty frame with room for `payload` bytes.
    pub fn with_capacity(payload: usize) -> Self {
        let mut buf = AlignedBuf::with_capacity((FRAME_HEADER + payload).next_multiple_of(BLOCK));
        buf.set_len(FRAME_HEADER);
        Self { buf, filled: FRAME_HEADER }
    }

    /// Adds bytes to the payload. A sealed frame is open again afterwards.
    pub fn push(&mut self, record: &[u8]) {
        self.buf.set_len(self.filled);
        self.buf.extend_from_slice(record);
        self.filled = self.buf.len();
    }

    /// What was pushed since the last [`clear`](Self::clear).
    pub fn payload(&self) -> &[u8] {
        &self.buf[FRAME_HEADER..self.filled]
    }

    /// Length of the payload in bytes.
    pub fn payload_len(&self) -> usize {
        self.filled - FRAME_HEADER
    }

    /// Empties the frame and keeps its memory.
    pub fn clear(&mut self) {
        self.buf.set_len(FRAME_HEADER);
        self.filled = FRAME_HEADER;
    }

    /// Fills in the header and both checksums and pads with zeros to a multiple of [`BLOCK`].
    ///
    /// # Panics
    /// If the payload is above [`FRAME_PAYLOAD_MAX`]; [`Log::append`](crate::Log::append) refuses it before.
    pub fn seal(&mut self, header: &FrameHeader, log_id: &LogId) {
        assert!(self.payload_len() <= FRAME_PAYLOAD_MAX, "payload above the limit");
        let payload_len = u32::try_from(self.payload_len()).unwrap_or(u32::MAX);
        self.buf.set_len(self.filled);
        self.buf.set_len(self.filled.next_multiple_of(BLOCK));

        let h = &mut self.buf[..FRAME_HEADER];
        h.fill(0);
        h[0..4].copy_from_slice(&MAGIC);
        h[4..6].copy_from_slice(&VERSION.to_le_bytes());
        h[6..8].copy_from_slice(&HEADER_LENGTH.to_le_bytes());
        h[8..16].copy_from_slice(&header.base_offset.to_le_bytes());
        h[16..20].copy_from_slice(&header.count.to_le_bytes());
        h[20..24].copy_from_slice(&payload_len.to_le_bytes());
        h[24..32].copy_from_slice(&header.time_ms.to_le_bytes());
        h[32..36].copy_from_slice(&header.options.to_le_bytes());
        h[36..40].copy_from_slice(&header.rules_version.to_le_bytes());
        h[40..72].copy_from_slice(&header.running_hash);
        let header_crc = crc32c::crc32c_append(checksum_seed(log_id), &h[..HEADER_CRC]);
        h[HEADER_CRC..FRAME_CRC].copy_from_slice(&header_crc.to_le_bytes());
        let crc = crc32c::crc32c_append(checksum_seed(log_id), &h[..FRAME_CRC]);
        let crc = crc32c::crc32c_append(crc, &self.buf[FRAME_HEADER..self.filled]);
        self.buf[FRAME_CRC..FRAME_HEADER].copy_from_slice(&crc.to_le_bytes());
    }

    /// Header and payload, without padding. Means something after [`seal`](Self::seal).
    pub fn bytes(&self) -> &[u8] {
        &self.buf[..self.filled]
    }

    /// The sealed frame with its padding: what goes to the disk.
    pub(crate) fn padded(&self) -> &[u8] {
        &self.buf
    }
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// The first bytes are not a frame's.
    #[error("no frame begins there")]
    Magic,
    /// The header's checksum is wrong.
    #[error("the frame header fails its checksum")]
    HeaderChecksum,
    /// The header's checksum is right, but the fields cannot be.
    #[error("the frame header says what no release writes")]
    HeaderFields,
    /// The frame would end after its segment.
    #[error("the frame would reach past the end of its segment")]
    PastEnd,
    /// The checksum over header and payload is wrong.
    #[error("the frame fails its checksum")]
    Checksum,
    /// A sound frame that does not belong here.
    #[error("a frame of offset {found} stands there")]
    WrongOffset {
        /// Its base offset.
        found: u64,
    },
}

/// A header that passed its own checksum.
#[derive(Clone, Debug)]
pub(crate) struct SoundHeader {
    pub header: FrameHeader,
    pub payload_len: usize,
    crc: u32,
    crc_of_header: u32,
}

impl SoundHeader {
    /// Bytes of the frame on disk, padding included.
    pub fn padded_len(&self) -> u64 {
        (FRAME_HEADER + self.payload_len).next_multiple_of(BLOCK) as u64
    }

    /// Checks the payload against the frame's checksum.
    pub fn check_payload(&self, payload: &[u8]) -> Result<(), FrameFault> {
        debug_assert_eq!(payload.len(), self.payload_len);
        if crc32c::crc32c_append(self.crc_of_header, payload) == self.crc {
            Ok(())
        } else {
            Err(FrameFault::Checksum)
        }
    }
}

/// Reads a frame header. `bytes` may be longer than the header.
pub(crate) fn parse_header(bytes: &[u8], log_id: &LogId) -> Result<SoundHeader, FrameFault> {
    if bytes.len() < FRAME_HEADER || bytes[0..4] != MAGIC {
        return Err(FrameFault::Magic);
    }
    let h = &bytes[..FRAME_HEADER];
    let seed = checksum_seed(log_id);
    if crc32c::crc32c_append(seed, &h[..HEADER_CRC]) != u32_at(h, HEADER_CRC) {
        return Err(FrameFault::HeaderChecksum);
    }
    let header = FrameHeader {
        base_offset: u64_at(h, 8),
        count: u32_at(h, 16),
        time_ms: i64::from_le_bytes(array_at(h, 24)),
        options: u32_at(h, 32),
        rules_version: u32_at(h, 36),
        running_hash: array_at(h, 40),
    };
    let payload_len = u32_at(h, 20) as usize;
    let sound = u16_at(h, 4) == VERSION
        && u16_at(h, 6) == HEADER_LENGTH
        && payload_len <= FRAME_PAYLOAD_MAX
        && header.count > 0
        && header.base_offset.checked_add(u64::from(header.count)).is_some()
        && h[RESERVED].iter().all(|&byte| byte == 0);
    if !sound {
        return Err(FrameFault::HeaderFields);
    }
    Ok(SoundHeader {
        header,
        payload_len,
        crc: u32_at(h, FRAME_CRC),
        crc_of_header: crc32c::crc32c_append(seed, &h[..FRAME_CRC]),
    })
}

pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}
