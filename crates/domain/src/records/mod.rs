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

use crate::codec::{Bad, Bytes, Read};
use crate::command::{Command, Expire, Lookup};
use crate::ids::{HUB, ParticipantId};
use crate::numbered::numbered;
use codec::{Writer, take, zeros};

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

numbered! {
    /// What a record says. The numbers are written to disk: they are never given a second meaning.
    #[allow(missing_docs, reason = "each kind is documented at its command")]
    pub enum Kind: u8 {
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
}

impl Kind {
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
        matches!(self as u8, 32..=37)
    }

    /// The flags that have a meaning.
    const fn flags(self) -> u8 {
        match self {
            Kind::Prepare => transfer::FLAG_FUNDED,
            Kind::Fulfil => transfer::FLAG_RESERVE,
            Kind::SetParticipantActive | Kind::SetAccountActive => admin::FLAG_ACTIVE,
            Kind::ShopCheckout => shop::FLAG_KEY | shop::FLAG_CHOSEN,
            _ => 0,
        }
    }

    /// Whether it comes from participants, and not from the hub or its operator.
    const fn is_of_participants(self) -> bool {
        matches!(self, Kind::Prepare | Kind::Fulfil | Kind::Abort | Kind::Lookup)
    }
}

/// Why bytes are not a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each error's text says what its fields are")]
pub enum RecordError {
    /// The bytes end before the record does.
    #[error("the record is cut short: {have} bytes where {need} are needed")]
    CutShort { have: usize, need: usize },
    /// No such kind.
    #[error("{0} is not a kind of record")]
    UnknownKind(u8),
    /// A kind that only the hub itself writes, or that comes by another way.
    #[error("no client may send a {0:?} record in a batch")]
    NotForClients(Kind),
    /// A length that the kind cannot have.
    #[error("a {kind:?} record cannot have a length of {units} units of {UNIT} bytes")]
    WrongLength { kind: Kind, units: usize },
    /// A field, by its name in the docs, holds what it must not.
    #[error("{field} {why}")]
    BadField { field: &'static str, why: &'static str },
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
    Ok((read_whole(kind, Bytes(&bytes[..length]))?, length))
}

fn read_whole(kind: Kind, mut bytes: Bytes<'_>) -> Read<Command> {
    let from = &mut bytes;
    let ([_, flags, _, _], source): ([u8; 4], ParticipantId) = take(from)?;
    if flags & !kind.flags() != 0 {
        return Err(Bad::new("flags", "hold a bit that this kind does not have"));
    }
    if source != HUB && !kind.is_of_participants() {
        return Err(Bad::new("source", "must be 0: only the hub sends this kind"));
    }
    Ok(match kind {
        Kind::Prepare => Command::Prepare(transfer::read_prepare(flags, source, from)?),
        Kind::Fulfil => Command::Fulfil(transfer::read_fulfil(flags, source, from)?),
        Kind::Abort => Command::Abort(transfer::read_abort(source, from)?),
        Kind::Expire => {
            let holds_max = take(from)?;
            zeros(from, 52)?;
            Command::Expire(Expire { holds_max })
        }
        Kind::Lookup => {
            let id = take(from)?;
            zeros(from, 40)?;
            Command::Lookup(Lookup { source, id })
        }
        Kind::SetEndpoint => Command::SetEndpoint(admin::read_endpoint(from)?),
        kind if kind.is_token() => Command::Token(Box::new(tokens::read(kind, from)?)),
        kind if kind.is_shop() => Command::Shop(Box::new(shop::read(kind, flags, from)?)),
        kind => Command::Admin(admin::read(kind, flags, from)?),
    })
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
            return Err(Bad::new("hash", "must be zero: the hub fills it in").into());
        }
        let hash = transfer::payload_hash(&bytes[..PREPARE_LEN], &[0; 32], &[0; 32]);
        bytes[PREPARE_HASH].copy_from_slice(&hash);
    }
    if kind == Kind::Abort && bytes[ABORT_DIGEST].iter().any(|byte| *byte != 0) {
        return Err(Bad::new("reserved bytes", "must be zero").into());
    }
    read(bytes)
}

/// Appends the record of `command` to `out`; for a prepare with the hash that the command carries.
pub fn write(command: &Command, out: &mut Vec<u8>) {
    match command {
        Command::Prepare(prepare) => transfer::write_prepare(prepare, out),
        Command::Fulfil(fulfil) => transfer::write_fulfil(fulfil, out),
        Command::Abort(abort) => transfer::write_abort(abort, out),
        Command::Expire(expire) => Writer::new(out, Kind::Expire, 0, HUB).put(expire.holds_max).finish(),
        Command::Lookup(lookup) => Writer::new(out, Kind::Lookup, 0, lookup.source).put(lookup.id).finish(),
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
