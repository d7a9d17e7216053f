//! Each body that a caller gets.

use holdfast_tokens as selector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{Attributes, Count, Instant, Name, Nullable, PublicKey, Sum, Whole};

/// A token; what it does not have is left out.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// Its id
    pub id: Name,
    /// How much it is worth
    pub quantity: Whole,
    /// Who owns it
    pub wallet: Name,
    /// Its type
    #[serde(rename = "type")]
    pub token_type: Name,
    /// Its currency
    pub currency: Name,
    /// If it has one
    pub external_id: Option<Name>,
    /// If it has one
    pub public_key: Option<PublicKey>,
    /// If it has one
    pub issuer: Option<Name>,
    /// If it has one
    pub notary: Option<Name>,
    /// If it has some
    pub attributes: Option<Attributes>,
}

impl From<&selector::Token> for Token {
    fn from(token: &selector::Token) -> Token {
        let kind = &*token.kind;
        Token {
            id: token.id.as_str().into(),
            quantity: token.quantity.into(),
            wallet: (&kind.wallet).into(),
            token_type: (&kind.token_type).into(),
            currency: (&kind.currency).into(),
            external_id: kind.external_id.as_ref().map(Name::from),
            public_key: kind.public_key.as_ref().map(PublicKey::from),
            issuer: kind.issuer.as_ref().map(Name::from),
            notary: kind.notary.as_ref().map(Name::from),
            attributes: kind.attributes.as_deref().cloned().map(Attributes),
        }
    }
}

fn tokens(tokens: &[selector::Token]) -> Vec<Token> {
    tokens.iter().map(Token::from).collect()
}

/// What an issue has made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TokensIssued")]
pub struct Issued {
    /// The tokens with their ids
    #[schemars(length(max = 10_000))]
    pub tokens: Vec<Token>,
}

impl From<&[selector::Token]> for Issued {
    fn from(made: &[selector::Token]) -> Issued {
        Issued { tokens: tokens(made) }
    }
}

/// What a select has locked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TokenSelection")]
pub struct Selection {
    /// For whom
    pub spender: Name,
    /// The locked tokens
    #[schemars(length(max = 10_000))]
    pub tokens: Vec<Token>,
    /// What they are worth together
    pub sum: Sum,
    /// What is left over if exactly the amount is spent
    pub change: Sum,
    /// When the lock ends by itself
    pub expires_at: Instant,
    /// Rises with every selection
    pub fence: Whole,
}

impl From<&selector::Selection> for Selection {
    fn from(chosen: &selector::Selection) -> Selection {
        Selection {
            spender: (&chosen.spender).into(),
            tokens: tokens(&chosen.tokens),
            sum: chosen.sum.into(),
            change: chosen.change().into(),
            expires_at: Instant(chosen.expires_at),
            fence: chosen.fence.into(),
        }
    }
}

/// What a spend has done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TokenTransaction")]
pub struct Transaction {
    /// Its id; null if there was nothing to consolidate
    pub transaction: Nullable<Name>,
    /// The ids of the inputs
    pub consumed: Vec<Name>,
    /// The new tokens
    #[schemars(length(max = 10_000))]
    pub produced: Vec<Token>,
}

/// Nothing was done where there is no transaction.
impl From<Option<&selector::Transaction>> for Transaction {
    fn from(done: Option<&selector::Transaction>) -> Transaction {
        let consumed = done.map_or(&[][..], |done| &done.consumed);
        Transaction {
            transaction: done.map(|done| Name::from(&done.id)).into(),
            consumed: consumed.iter().map(|id| id.as_str().into()).collect(),
            produced: tokens(done.map_or(&[][..], |done| &done.produced)),
        }
    }
}

/// How much an update has changed: what was known already does not count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TokensUpdated")]
pub struct Updated {
    /// Tokens that went
    pub consumed: usize,
    /// Tokens that came
    pub produced: usize,
}

/// A lease with its new end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TokenLease")]
pub struct Lease {
    /// Whose
    pub spender: Name,
    /// Its new end
    pub expires_at: Instant,
    /// Unchanged
    pub fence: Whole,
}

impl Lease {
    /// The lease of a spender.
    #[must_use]
    pub fn of(spender: &selector::Name, lease: selector::Lease) -> Lease {
        Lease { spender: spender.into(), expires_at: Instant(lease.expires_at), fence: lease.fence.into() }
    }
}

/// How many tokens a release has freed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TokensReleased")]
pub struct Released {
    /// How many tokens became free
    pub released: usize,
}

/// What an owner has, and in what pieces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TokenBalance")]
pub struct Balance {
    /// All of it
    pub total: Sum,
    /// What can be selected now
    pub free: Sum,
    /// What is locked
    pub locked: Sum,
    /// In how many tokens
    pub tokens: usize,
    /// How many of them are locked
    pub locked_tokens: usize,
    /// The largest free token
    pub largest_free: Nullable<Whole>,
    /// The smallest free token
    pub smallest_free: Nullable<Whole>,
    /// Free tokens by the number of their decimal digits
    pub fragmentation: Vec<Pieces>,
}

/// Free tokens of so many digits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TokenPieces")]
pub struct Pieces {
    /// The digits of each quantity
    pub digits: Count<1, 20>,
    /// How many
    pub tokens: usize,
    /// What they are worth together
    pub sum: Sum,
}

impl Balance {
    /// What an owner has; ranges of quantities of which it has nothing are left out.
    #[must_use]
    pub fn of(balance: &selector::Balance, pieces: &selector::Fragmentation) -> Balance {
        let counts = (1_u64..).zip(pieces.tokens.iter().zip(pieces.sums));
        let pieces = counts.filter(|(_, (tokens, _))| **tokens > 0).map(|(digits, (tokens, sum))| Pieces {
            digits: digits.into(),
            tokens: *tokens,
            sum: sum.into(),
        });
        Balance {
            total: balance.total.into(),
            free: balance.free.into(),
            locked: balance.locked.into(),
            tokens: balance.tokens,
            locked_tokens: balance.locked_tokens,
            largest_free: balance.largest_free.map(Whole).into(),
            smallest_free: balance.smallest_free.map(Whole).into(),
            fragmentation: pieces.collect(),
        }
    }
}

words! {
    /// Whether a token can be selected.
    State {
        /// It can.
        Free = "free",
        /// A spender holds it.
        Locked = "locked",
    }
}

/// A token with its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// Whether it can be selected
    pub state: State,
}

/// A page of tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TokenPage {
    /// Its tokens
    #[schemars(length(max = 1_000))]
    pub tokens: Vec<ListedToken>,
    /// For `after` of the next page; null at the end
    pub next: Nullable<Name>,
}

impl From<&selector::TokenPage> for TokenPage {
    fn from(page: &selector::TokenPage) -> TokenPage {
        let listed = page.tokens.iter().map(|(token, locked)| ListedToken {
            token: token.into(),
            state: if *locked { State::Locked } else { State::Free },
        });
        TokenPage {
            tokens: listed.collect(),
            next: page.next.as_ref().map(|id| Name::from(id.as_str())).into(),
        }
    }
}

/// A live lock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TokenLock")]
pub struct Lock {
    /// The spender
    pub holder: Name,
    /// Its fence
    pub fence: Whole,
    /// Since when
    pub since: Instant,
    /// For how long, in milliseconds
    pub age_ms: u64,
    /// Until when; null for a transfer's hold
    pub expires_at: Nullable<Instant>,
    /// What it holds
    #[schemars(length(max = 10_000))]
    pub tokens: Vec<Token>,
}

/// A page of locks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TokenLockPage")]
pub struct LockPage {
    /// Its locks
    #[schemars(length(max = 1_000))]
    pub locks: Vec<Lock>,
    /// For `after` of the next page; null at the end
    pub next: Nullable<Whole>,
}

impl LockPage {
    /// Locks as they stand at `now`.
    #[must_use]
    pub fn of(locks: &[selector::LockView], next: Option<u64>, now: i64) -> LockPage {
        let shown = locks.iter().map(|lock| Lock {
            holder: (&lock.spender).into(),
            fence: lock.fence.into(),
            since: Instant(lock.since),
            // A clock that was set back makes nothing younger than new.
            age_ms: u64::try_from(lock.age_ms(now)).unwrap_or(0),
            expires_at: Instant::end(lock.expires_at),
            tokens: tokens(&lock.tokens),
        });
        LockPage { locks: shown.collect(), next: next.map(Whole).into() }
    }
}
