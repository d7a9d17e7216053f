//! What is stored about tokens, and what changes it.

use std::sync::Arc;

use super::{Fingerprint, Name, Token, TokenId, Transaction};
use crate::ids::Millis;

/// The end of a lock that has none: a transfer or checkout holds it and ends it.
pub const NO_END: Millis = Millis::MAX;

/// A live token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// The token.
    pub token: Token,
    /// Whose lock it is under. The lease may have run out.
    pub holder: Option<Name>,
}

impl TokenRow {
    /// The row as a decision reads it.
    #[must_use]
    pub const fn view(&self) -> TokenView<'_> {
        TokenView { token: &self.token, holder: self.holder.as_ref() }
    }
}

/// A live token, read. Inside a frame its holder may be another than the row's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenView<'a> {
    /// The token.
    pub token: &'a Token,
    /// Whose lock it is under. The lease may have run out.
    pub holder: Option<&'a Name>,
}

/// Tokens that a spender has locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRow {
    /// Who.
    pub spender: Name,
    /// Rises with every lock.
    pub fence: u64,
    /// Since when.
    pub since: Millis,
    /// From this instant the tokens are free; [`NO_END`] while a transfer holds them.
    pub expires_at: Millis,
    /// What was asked for.
    pub amount: u64,
    /// The content of the request.
    pub body: Fingerprint,
    /// The tokens.
    pub tokens: Arc<[TokenId]>,
    /// Who gets them, if they fund a transfer: the payee's wallet.
    pub funding: Option<Name>,
}

impl LockRow {
    /// Whether it still locks anything at `now`.
    #[must_use]
    pub const fn is_live(&self, now: Millis) -> bool {
        self.expires_at > now
    }
}

/// A spend that happened, kept so that a repeat gets the same answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendRow {
    /// What it did.
    pub transaction: Transaction,
    /// The content of the request.
    pub body: Fingerprint,
}

/// One change, to the rows and then to the index of whoever selects.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TokenEffect {
    /// A token lives from now on.
    Produced(Token),
    /// An id is gone for good, whether it ever lived or not.
    Consumed(TokenId),
    /// Its tokens are locked.
    Locked(Arc<LockRow>),
    /// The lock ends; those of its tokens that still live are free.
    Unlocked { spender: Name, fence: u64 },
    /// The lease ends at another time: the lock as it is now.
    Renewed(Arc<LockRow>),
    /// The spend is remembered under its spender.
    Spent(Arc<SpendRow>),
}

/// The answer to a token command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each answer says what its fields are")]
pub enum TokenOutcome {
    /// The tokens live.
    Issued,
    /// The tokens are locked, now or since an earlier request of the same content.
    Locked(Arc<LockRow>),
    /// The spend happened, now or before.
    Spent(Arc<SpendRow>),
    /// So many tokens live now and did not before, and so many lived and are gone now.
    Updated { produced: usize, consumed: usize },
    /// So many tokens are free again.
    Released(usize),
    /// The lease of that lock ends then.
    Renewed { fence: u64, expires_at: Millis },
    /// No, and nothing was changed.
    Refused(TokenRefusal),
}

/// Why a token command was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenRefusal {
    /// Another's live lock is on it.
    Taken(TokenId),
    /// It was spent.
    Consumed(TokenId),
    /// There is none.
    Unknown(TokenId),
    /// There is one already.
    Exists(TokenId),
    /// There is no live lock of that spender and fence.
    LeaseLost(&'static str),
    /// The spender's name is used up or busy.
    SpenderInUse(&'static str),
    /// The request contradicts itself or the inputs.
    Invalid(String),
}
