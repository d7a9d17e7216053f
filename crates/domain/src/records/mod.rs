//! The records of the log and of `/hub/batch`: every command in a fixed layout of 64-byte units.
//!
//! All numbers are little-endian. Every record opens with the same eight bytes:
//!
//! | bytes | field |
//! | --- | --- |
//! | 0 | kind |
//! | 1 | flags (meaning depends on the kind; unused bits are zero) |
//! | 2..4 | length of the whole record in units of 64 bytes |
//! | 4..8 | source: the participant on whose behalf it was sent (0 = the hub or its operator) |
//!
//! `docs/batch.md` has the layouts byte by byte; `tests/it/golden_records.rs` keeps them from changing.

mod admin;
pub mod batch;
mod checkout_reply;
mod codec;
mod sealed;
mod shop;
mod tokens;
mod transfer;

pub use checkout_reply::CheckoutReply;
pub use sealed::{SealError, Sealed};
pub use shop::CHECKOUT_ORDER_BYTES_MAX;
pub(crate) use transfer::hash_of;

use crate::codec::Bad;
use crate::command::Command;
use codec::Cursor;

/// Bytes in one unit of record length.
pub const UNIT: usize = 64;
/// Bytes of a prepare record without a tail.
pub const PREPARE_LEN: usize = 2 * UNIT;
/// Where a prepare keeps the SHA-256 that tells a repeat from a modified request.
pub const PREPARE_HASH: std::ops::Range<usize> = 96..128;
/// Where an abort of the log may keep a digest of its own that tells a repeat from another abort.
pub const ABORT_DIGEST: std::ops::Range<usize> = 32..64;
/// The longest record: what a u16 of units can say.
pub const RECORD_BYTES_MAX: usize = u16::MAX as usize * UNIT;

/// What a record says. The numbers are written to disk: they are never given a second meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "each kind is documented at its command")]
pub enum Kind {
    Prepare = 1,
    Fulfil = 2,
    Abort = 3,
    Expire = 4,
    Lookup = 5,
    CreateParticipant = 16,
    SetParticipantActive = 17,
    SetAccountActive = 18,
    InitialPositionAndLimits = 19,
    SetLimit = 20,
    FundsIn = 21,
    FundsOutReserve = 22,
    FundsOutCommit = 23,
    FundsOutAbort = 24,
    SetEndpoint = 25,
    TokenIssue = 32,
    TokenLock = 33,
    TokenSpend = 34,
    TokenUpdate = 35,
    TokenUnlock = 36,
    TokenRenew = 37,
    ShopCreateUser = 48,
    ShopCreateItem = 49,
    ShopCreateOrder = 50,
    ShopInitUsers = 51,
    ShopInitItems = 52,
    ShopInitOrders = 53,
    ShopAddItem = 54,
    ShopAddFunds = 55,
    ShopTakeFunds = 56,
    ShopAddStock = 57,
    ShopTakeStock = 58,
    ShopCheckout = 59,
    ShopAnswer = 60,
    ShopCancel = 61,
    ShopRetry = 62,
    ShopSetOutside = 63,
    ShopSetCharging = 64,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 38] = [
        Kind::Prepare,
        Kind::Fulfil,
        Kind::Abort,
        Kind::Expire,
        Kind::Lookup,
        Kind::CreateParticipant,
        Kind::SetParticipantActive,
        Kind::SetAccountActive,
        Kind::InitialPositionAndLimits,
        Kind::SetLimit,
        Kind::FundsIn,
        Kind::FundsOutReserve,
        Kind::FundsOutCommit,
        Kind::FundsOutAbort,
        Kind::SetEndpoint,
        Kind::TokenIssue,
        Kind::TokenLock,
        Kind::TokenSpend,
        Kind::TokenUpdate,
        Kind::TokenUnlock,
        Kind::TokenRenew,
        Kind::ShopCreateUser,
        Kind::ShopCreateItem,
        Kind::ShopCreateOrder,
        Kind::ShopInitUsers,
        Kind::ShopInitItems,
        Kind::ShopInitOrders,
        Kind::ShopAddItem,
        Kind::ShopAddFunds,
        Kind::ShopTakeFunds,
        Kind::ShopAddStock,
        Kind::ShopTakeStock,
        Kind::ShopCheckout,
        Kind::ShopAnswer,
        Kind::ShopCancel,
        Kind::ShopRetry,
        Kind::ShopSetOutside,
        Kind::ShopSetCharging,
    ];

    fn from_number(number: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// The length in units that the fixed part of this kind has.
    #[must_use]
    pub const fn fixed_units(self) -> usize {
        match self {
            Kind::Prepare => 2,
            _ => 1,
        }
    }

    /// Whether bytes of any length may follow the fixed part.
    const fn may_have_tail(self) -> bool {
        matches!(self, Kind::Prepare | Kind::Fulfil | Kind::Abort | Kind::SetEndpoint)
            || self.is_token()
            || self.is_shop()
    }

    /// Whether it is about the shop.
    const fn is_shop(self) -> bool {
        matches!(self as u8, 48..=64)
    }

    /// Whether it is about tokens.
    const fn is_token(self) -> bool {
        matches!(
            self,
            Kind::TokenIssue
                | Kind::TokenLock
                | Kind::TokenSpend
                | Kind::TokenUpdate
                | Kind::TokenUnlock
                | Kind::TokenRenew
        )
    }
}

/// Why bytes are not a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The bytes end before the record does.
    #[error("the record is cut short: {have} bytes where {need} are needed")]
    CutShort {
        /// Bytes that are there.
        have: usize,
        /// Bytes that the record needs.
        need: usize,
    },
    /// No such kind.
    #[error("{0} is not a kind of record")]
    UnknownKind(u8),
    /// A kind that only the hub itself writes, or that comes by another way.
    #[error("no client may send a {0:?} record in a batch")]
    NotForClients(Kind),
    /// A length that the kind cannot have.
    #[error("a {kind:?} record cannot have a length of {units} units of {UNIT} bytes")]
    WrongLength {
        /// The record's kind.
        kind: Kind,
        /// The length it claims.
        units: usize,
    },
    /// A field holds what it must not.
    #[error("{field} {why}")]
    BadField {
        /// The field's name, as the docs have it.
        field: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl From<Bad> for RecordError {
    fn from(Bad { field, why }: Bad) -> RecordError {
        RecordError::BadField { field, why }
    }
}

/// Reads the record that `bytes` begins with: the command and its length in bytes.
///
/// # Errors
/// Says what is wrong with the bytes; nothing is read past the end that they claim.
pub fn read(bytes: &[u8]) -> Result<(Command, usize), RecordError> {
    let (kind, length) = frame_of(bytes)?;
    let mut cursor = Cursor::new(&bytes[..length]);
    let command = match kind {
        Kind::Prepare => transfer::read_prepare(&mut cursor).map(Command::Prepare),
        Kind::Fulfil => transfer::read_fulfil(&mut cursor).map(Command::Fulfil),
        Kind::Abort => transfer::read_abort(&mut cursor).map(Command::Abort),
        Kind::Expire => transfer::read_expire(&mut cursor).map(Command::Expire),
        Kind::Lookup => transfer::read_lookup(&mut cursor).map(Command::Lookup),
        Kind::SetEndpoint => admin::read_endpoint(&mut cursor).map(Command::SetEndpoint),
        kind if kind.is_token() => {
            tokens::read(kind, &mut cursor).map(|command| Command::Token(Box::new(command)))
        }
        kind if kind.is_shop() => {
            shop::read(kind, &mut cursor).map(|command| Command::Shop(Box::new(command)))
        }
        _ => admin::read(kind, &mut cursor),
    }?;
    Ok((command, length))
}

/// Reads every record of a frame's payload.
///
/// # Errors
/// The first bad record, with its index.
pub fn read_all(payload: &[u8]) -> Result<Vec<Command>, (usize, RecordError)> {
    let mut commands = Vec::with_capacity(payload.len() / UNIT);
    let mut rest = payload;
    while !rest.is_empty() {
        let (command, length) = read(rest).map_err(|error| (commands.len(), error))?;
        commands.push(command);
        rest = &rest[length..];
    }
    Ok(commands)
}

/// Takes the record that a client's batch body begins with, as [`read`], but more strictly: it may have no tail
/// and must leave the hash to us. Its hash is filled into `bytes`, which then are what the log keeps.
///
/// # Errors
/// As [`read`]; also for kinds that no client may send.
pub fn seal(bytes: &mut [u8]) -> Result<(Command, usize), RecordError> {
    let (kind, length) = frame_of(bytes)?;
    let is_for_hub = kind.is_token() || (kind.is_shop() && kind != Kind::ShopCheckout);
    if matches!(kind, Kind::Expire | Kind::SetEndpoint) || is_for_hub {
        return Err(RecordError::NotForClients(kind));
    }
    if length != kind.fixed_units() * UNIT {
        return Err(RecordError::WrongLength { kind, units: length / UNIT });
    }
    if kind == Kind::Prepare {
        if bytes[PREPARE_HASH].iter().any(|byte| *byte != 0) {
            return Err(codec::bad("hash", "must be zero: the hub fills it in"));
        }
        let hash = transfer::payload_hash(&bytes[..PREPARE_LEN], &[0; 32], &[0; 32]);
        bytes[PREPARE_HASH].copy_from_slice(&hash);
    }
    if kind == Kind::Abort && bytes[ABORT_DIGEST].iter().any(|byte| *byte != 0) {
        return Err(codec::bad("reserved bytes", "must be zero"));
    }
    read(bytes)
}

/// Appends the record of `command` to `out`; for a prepare with the hash that the command carries.
pub fn write(command: &Command, out: &mut Vec<u8>) {
    match command {
        Command::Prepare(prepare) => transfer::write_prepare(prepare, out),
        Command::Fulfil(fulfil) => transfer::write_fulfil(fulfil, out),
        Command::Abort(abort) => transfer::write_abort(abort, out),
        Command::Expire(expire) => transfer::write_expire(*expire, out),
        Command::Lookup(lookup) => transfer::write_lookup(*lookup, out),
        Command::SetEndpoint(endpoint) => admin::write_endpoint(endpoint, out),
        Command::Admin(admin) => admin::write(admin, out),
        Command::Token(command) => tokens::write(command, out),
        Command::Shop(command) => shop::write(command, out),
    }
}

fn frame_of(bytes: &[u8]) -> Result<(Kind, usize), RecordError> {
    if bytes.len() < UNIT {
        return Err(RecordError::CutShort { have: bytes.len(), need: UNIT });
    }
    let kind = Kind::from_number(bytes[0]).ok_or(RecordError::UnknownKind(bytes[0]))?;
    let units = usize::from(u16::from_le_bytes([bytes[2], bytes[3]]));
    let fits = if kind.may_have_tail() { units >= kind.fixed_units() } else { units == kind.fixed_units() };
    if !fits {
        return Err(RecordError::WrongLength { kind, units });
    }
    let length = units * UNIT;
    if bytes.len() < length {
        return Err(RecordError::CutShort { have: bytes.len(), need: length });
    }
    Ok((kind, length))
}
