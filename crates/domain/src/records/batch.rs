//! The bodies of `POST /hub/batch`: many records in one request, one fixed-size reply for each.
//!
//! Both bodies open with sixteen bytes: a magic, the version (u16), two zero bytes, the count (u32) and four zero
//! bytes. A request then holds `count` records; a reply holds `count` replies of 32 bytes in the same order.

use super::CheckoutReply;
use crate::effects::Outcome;
use crate::money::Balance;
use crate::transfers::TransferState;

/// The media type of both bodies.
pub const MEDIA_TYPE: &str = "application/vnd.holdfast.batch";
/// Records in one request, at most.
pub const RECORDS_MAX: usize = 8_192;
/// Bytes before the first record or reply.
pub const HEADER_LEN: usize = 16;
/// Bytes of one reply.
pub const REPLY_LEN: usize = 32;
const VERSION: u16 = 1;
const REQUEST_MAGIC: [u8; 4] = *b"HFBQ";
const REPLY_MAGIC: [u8; 4] = *b"HFBA";

/// Why bytes are not a batch body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Too short, or another magic.
    #[error("the body does not begin with the sixteen bytes of a batch")]
    NotABatch,
    /// A version that this program does not speak.
    #[error("version {0} of the batch format is not known here; this is version {VERSION}")]
    Version(u16),
    /// The length does not fit the count.
    #[error("the body is longer or shorter than its count says")]
    Length,
}

/// The answer to one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Where the transfer stands; `None`: there is none, or the record was not about one.
    pub state: Option<TransferState>,
    /// The error code; 0: none.
    pub code: u16,
    /// The error in particular; 0: none.
    pub reason: u8,
    /// The number of what the record was about.
    pub subject: u64,
    /// The position (for funds: the settlement balance) after it.
    pub value: Balance,
}

impl From<&Outcome> for Reply {
    fn from(outcome: &Outcome) -> Reply {
        if let Some(told) = outcome.shop.as_deref().and_then(CheckoutReply::of) {
            return told.to_reply();
        }
        Reply {
            state: outcome.state,
            code: outcome.code.map_or(0, |code| code.number()),
            reason: outcome.reason.map_or(0, |reason| reason as u8),
            subject: outcome.subject.number(),
            value: outcome.value,
        }
    }
}

fn header(magic: [u8; 4], count: u32) -> [u8; HEADER_LEN] {
    let mut bytes = [0; HEADER_LEN];
    bytes[..4].copy_from_slice(&magic);
    bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
    bytes[8..12].copy_from_slice(&count.to_le_bytes());
    bytes
}

fn read_header(magic: [u8; 4], body: &[u8]) -> Result<u32, BatchError> {
    let header: &[u8; HEADER_LEN] = body.first_chunk().ok_or(BatchError::NotABatch)?;
    let version = u16::from_le_bytes([header[4], header[5]]);
    if header[..4] != magic || header[6..8] != [0; 2] || header[12..] != [0; 4] {
        return Err(BatchError::NotABatch);
    }
    if version != VERSION {
        return Err(BatchError::Version(version));
    }
    Ok(u32::from_le_bytes([header[8], header[9], header[10], header[11]]))
}

/// The sixteen bytes that open a request of `count` records.
#[must_use]
pub fn request_header(count: u32) -> [u8; HEADER_LEN] {
    header(REQUEST_MAGIC, count)
}

/// How many records a request says it has; they begin after [`HEADER_LEN`] bytes.
///
/// # Errors
/// If the body is not a batch, or of another version.
pub fn read_request_header(body: &[u8]) -> Result<u32, BatchError> {
    read_header(REQUEST_MAGIC, body)
}

/// The whole body of a reply.
#[must_use]
pub fn write_replies(outcomes: &[Outcome]) -> Vec<u8> {
    write_told(outcomes.iter().map(Reply::from))
}

/// The same, of replies that say something else than the outcomes.
#[must_use]
pub fn write_told(replies: impl ExactSizeIterator<Item = Reply>) -> Vec<u8> {
    let count = u32::try_from(replies.len()).expect("the edge bounds a batch");
    let mut body = Vec::with_capacity(HEADER_LEN + replies.len() * REPLY_LEN);
    body.extend_from_slice(&header(REPLY_MAGIC, count));
    for reply in replies {
        let mut bytes = [0; REPLY_LEN];
        bytes[0] = reply.state.map_or(0, TransferState::number);
        bytes[1] = reply.reason;
        bytes[2..4].copy_from_slice(&reply.code.to_le_bytes());
        bytes[8..16].copy_from_slice(&reply.subject.to_le_bytes());
        bytes[16..].copy_from_slice(&reply.value.0.to_le_bytes());
        body.extend_from_slice(&bytes);
    }
    body
}

/// Reads the body of a reply.
///
/// # Errors
/// If it is not one, or cut short.
pub fn read_replies(body: &[u8]) -> Result<Vec<Reply>, BatchError> {
    let count = read_header(REPLY_MAGIC, body)? as usize;
    let (replies, rest) = body[HEADER_LEN..].as_chunks::<REPLY_LEN>();
    if replies.len() != count || !rest.is_empty() {
        return Err(BatchError::Length);
    }
    replies.iter().map(read_reply).collect()
}

fn read_reply(bytes: &[u8; REPLY_LEN]) -> Result<Reply, BatchError> {
    let state = match bytes[0] {
        0 => None,
        number => Some(TransferState::from_number(number).ok_or(BatchError::NotABatch)?),
    };
    let (subject, value) = (bytes[8..16].first_chunk(), bytes[16..].first_chunk());
    Ok(Reply {
        state,
        code: u16::from_le_bytes([bytes[2], bytes[3]]),
        reason: bytes[1],
        subject: u64::from_le_bytes(*subject.expect("eight bytes")),
        value: Balance(i128::from_le_bytes(*value.expect("sixteen bytes"))),
    })
}
