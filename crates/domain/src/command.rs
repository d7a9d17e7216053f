//! Commands: what a record asks for, with everything that can be computed from its bytes alone.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::ids::{AccountId, Currency, Millis, ParticipantId, TransferId};
use crate::money::Amount;
use crate::participants::Name;
use crate::positions::Action;
use crate::shop::{OrderId, ShopCommand};
use crate::tokens::{Name as TokenName, TokenCommand, TokenId};
use crate::transfers::{Completion, CompletionKind};

/// One record of the log, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Reserve the payer's position for a transfer.
    Prepare(Prepare),
    /// Settle it.
    Fulfil(Fulfil),
    /// Release it, because the payee said so.
    Abort(Abort),
    /// Release what ran out. The hub itself logs this; no client may.
    Expire(Expire),
    /// Tell a party where its transfer stands. Logged, so that the answer is delivered whatever happens.
    Lookup(Lookup),
    /// Participants, limits and funds.
    Admin(Admin),
    /// Where a participant wants to be called.
    SetEndpoint(SetEndpoint),
    /// Tokens: issue, lock, spend.
    Token(Box<TokenCommand>),
    /// The shop: users, items, orders, checkout.
    Shop(Box<ShopCommand>),
}

/// Names something that has ended and that a decision may have to know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Key<'a> {
    Transfer(TransferId),
    Token(&'a TokenId),
    Spender(&'a str),
    Order(&'a OrderId),
    /// The order whose id is this number as text.
    OrderNumbered(u64),
}

impl Command {
    /// The transfer that the command is about, if it is about one.
    #[must_use]
    pub const fn transfer(&self) -> Option<TransferId> {
        match self {
            Command::Prepare(prepare) => Some(prepare.id),
            Command::Fulfil(fulfil) => Some(fulfil.id),
            Command::Abort(abort) => Some(abort.id),
            Command::Lookup(lookup) => Some(lookup.id),
            Command::Expire(_)
            | Command::Admin(_)
            | Command::SetEndpoint(_)
            | Command::Token(_)
            | Command::Shop(_) => None,
        }
    }

    /// Whether it is decided alone, seeing all that the commands before it did, and not in one step with its neighbours.
    #[must_use]
    pub const fn stands_alone(&self) -> bool {
        match self {
            // A prepare that tokens pay for must see what the commands before it did to tokens.
            Command::Prepare(prepare) => prepare.funding.is_some(),
            other => other.transfer().is_none(),
        }
    }

    /// Shows all that has perhaps ended and that the decision may have to know of.
    pub fn each_key<'a>(&'a self, show: &mut dyn FnMut(Key<'a>)) {
        match self {
            Command::Token(command) => command.each_key(show),
            Command::Shop(command) => command.each_key(show),
            Command::Prepare(Prepare { id, funding: Some(funding), .. }) => {
                show(Key::Transfer(*id));
                show(Key::Spender(&funding.spender));
                funding.ids.iter().for_each(|id| show(Key::Token(id)));
            }
            other => other.transfer().into_iter().for_each(|id| show(Key::Transfer(id))),
        }
    }
}

/// A payer asks to reserve `amount` on its position for a payee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepare {
    /// Who sent it.
    pub source: ParticipantId,
    /// The transfer's id, chosen by the payer.
    pub id: TransferId,
    /// Whose position is reserved.
    pub payer: ParticipantId,
    /// Who may fulfil or abort.
    pub payee: ParticipantId,
    /// How much.
    pub amount: Amount,
    /// After this instant it can only expire.
    pub expiration: Millis,
    /// In which currency.
    pub currency: Currency,
    /// SHA-256 of the fulfilment that settles it.
    pub condition: [u8; 32],
    /// SHA-256 over all that makes this the same request when it comes again.
    pub hash: [u8; 32],
    /// Opaque bytes that are kept in the log and handed on unread.
    pub tail: Vec<u8>,
    /// The tokens that pay for it, where it moves no position.
    pub funding: Option<Box<Funding>>,
}

/// Tokens of a wallet that pay for a transfer in place of the payer's position. Which ones is no part of what makes two
/// prepares the same: a repeat may well have chosen others, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Funding {
    /// In whose name they are locked: the transfer's id as text. It follows from the transfer and is not written.
    pub spender: TokenName,
    /// Whose tokens they are; change comes back here.
    pub payer_wallet: TokenName,
    /// Who gets the amount.
    pub payee_wallet: TokenName,
    /// The chosen tokens; none if there were none to be had.
    pub ids: Arc<[TokenId]>,
}

impl Funding {
    /// The funding of that transfer.
    #[must_use]
    pub fn new(
        transfer: TransferId,
        payer_wallet: TokenName,
        payee_wallet: TokenName,
        ids: Vec<TokenId>,
    ) -> Funding {
        Funding { spender: transfer.to_string().into(), payer_wallet, payee_wallet, ids: ids.into() }
    }
}

impl Prepare {
    /// This prepare with the hash that a binary record without a tail gets.
    #[must_use]
    pub fn hashed(self) -> Prepare {
        self.hashed_with(&[0; 32], &[0; 32])
    }

    /// This prepare with its hash, given the digests of its ILP packet and extensions (zeros where absent).
    #[must_use]
    pub fn hashed_with(mut self, ilp_packet: &[u8; 32], extensions: &[u8; 32]) -> Prepare {
        self.hash = crate::records::hash_of(&self, ilp_packet, extensions);
        self
    }
}

/// The two ways to fulfil: `commit`, or `reserve`, after which the payee waits to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "said above")]
pub enum FulfilAction {
    Commit,
    Reserve,
}

/// A payee shows the preimage of the condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fulfil {
    /// Who sent it.
    pub source: ParticipantId,
    /// Which transfer.
    pub id: TransferId,
    /// Whether the payee wants to be told of the outcome.
    pub action: FulfilAction,
    /// The preimage.
    pub fulfilment: [u8; 32],
    /// SHA-256 of the preimage, computed where the record is parsed so that the one deciding thread need not.
    pub digest: [u8; 32],
    /// Opaque bytes that are kept in the log and handed on unread.
    pub tail: Vec<u8>,
}

impl FulfilAction {
    /// What the transfer takes.
    #[must_use]
    pub const fn kind(self) -> CompletionKind {
        match self {
            FulfilAction::Commit => CompletionKind::Commit,
            FulfilAction::Reserve => CompletionKind::Reserve,
        }
    }

    /// The position step that settles it.
    #[must_use]
    pub const fn step(self) -> Action {
        match self {
            FulfilAction::Commit => Action::Commit,
            FulfilAction::Reserve => Action::Reserve,
        }
    }
}

impl Fulfil {
    /// What the transfer takes if it is accepted.
    #[must_use]
    pub const fn completion(&self) -> Completion {
        Completion { kind: self.action.kind(), digest: self.fulfilment }
    }

    /// A fulfil with its digest.
    #[must_use]
    pub fn new(source: ParticipantId, id: TransferId, action: FulfilAction, fulfilment: [u8; 32]) -> Fulfil {
        Fulfil { source, id, action, fulfilment, digest: Sha256::digest(fulfilment).into(), tail: Vec::new() }
    }

    /// The same with bytes to hand on.
    #[must_use]
    pub fn with_tail(self, tail: Vec<u8>) -> Fulfil {
        Fulfil { tail, ..self }
    }
}

/// A payee refuses a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abort {
    /// Who sent it.
    pub source: ParticipantId,
    /// Which transfer.
    pub id: TransferId,
    /// The payee's reason, a code of four digits.
    pub code: u16,
    /// Tells a repeat from another abort.
    pub digest: [u8; 32],
    /// Opaque bytes that are kept in the log and handed on unread.
    pub tail: Vec<u8>,
}

impl Abort {
    /// What the transfer takes if it is accepted.
    #[must_use]
    pub const fn completion(&self) -> Completion {
        Completion { kind: CompletionKind::Abort, digest: self.digest }
    }

    /// An abort with its digest.
    #[must_use]
    pub fn new(source: ParticipantId, id: TransferId, code: u16, tail: Vec<u8>) -> Abort {
        let digest = Sha256::new().chain_update(code.to_le_bytes()).chain_update(&tail).finalize().into();
        Abort { source, id, code, digest, tail }
    }

    /// The same, told from other aborts by what matters of its tail: a repeat may well differ in its headers.
    #[must_use]
    pub fn same_as(self, digest: [u8; 32]) -> Abort {
        Abort { digest, ..self }
    }
}

/// End the holds that have run out by the frame's time, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expire {
    /// At most so many.
    pub holds_max: u32,
}

/// What the operator of the hub may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields carry the names of the admin API")]
pub enum Admin {
    /// A participant, or a further currency for one that exists. Makes its position and settlement accounts.
    CreateParticipant { name: Name, currency: Currency },
    /// Inactive participants take part in no new transfer.
    SetParticipantActive { participant: ParticipantId, active: bool },
    /// The same for one position account.
    SetAccountActive { account: AccountId, active: bool },
    /// The first limit and position; activates both accounts.
    InitialPositionAndLimits {
        participant: ParticipantId,
        currency: Currency,
        net_debit_cap: Amount,
        initial_position: Amount,
    },
    /// Another net debit cap, also below what is in use.
    SetLimit { participant: ParticipantId, currency: Currency, net_debit_cap: Amount, alarm_percentage: u16 },
    /// Funds arrive for a participant: its settlement account falls.
    FundsIn { id: TransferId, account: AccountId, currency: Currency, amount: Amount },
    /// Funds are to leave: tested and taken at once.
    FundsOutReserve { id: TransferId, account: AccountId, currency: Currency, amount: Amount },
    /// They have left.
    FundsOutCommit { id: TransferId, account: AccountId },
    /// They come back.
    FundsOutAbort { id: TransferId, account: AccountId },
}

/// A party asks where a transfer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lookup {
    /// Who asks.
    pub source: ParticipantId,
    /// Which transfer.
    pub id: TransferId,
}

/// The longest name of an endpoint type.
pub const ENDPOINT_KIND_BYTES_MAX: usize = 128;
/// The longest value of an endpoint.
pub const ENDPOINT_VALUE_BYTES_MAX: usize = 1_024;

/// Where a participant wants to be called, by the type names of the admin API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetEndpoint {
    participant: ParticipantId,
    kind: String,
    value: String,
}

impl SetEndpoint {
    /// An endpoint, if its texts are neither empty nor too long.
    #[must_use]
    pub fn new(participant: ParticipantId, kind: String, value: String) -> Option<SetEndpoint> {
        let fits = (1..=ENDPOINT_KIND_BYTES_MAX).contains(&kind.len())
            && (1..=ENDPOINT_VALUE_BYTES_MAX).contains(&value.len());
        fits.then_some(SetEndpoint { participant, kind, value })
    }

    /// Whose.
    #[must_use]
    pub const fn participant(&self) -> ParticipantId {
        self.participant
    }

    /// The type, such as `FSPIOP_CALLBACK_URL_TRANSFER_POST`.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The URL template, or an address for mail.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}
