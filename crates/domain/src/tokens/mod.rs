//! Tokens in the hub: what is asked, what is stored, and what a decision does to it.
//!
//! Whoever selects has chosen already, in an index in memory; here it is judged whether the chosen tokens may be locked. A
//! lock has a fence, which is its record's place in the log, and a lease that ends by itself: from that instant its tokens
//! are free for the next one and its holder can neither spend nor renew.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `decide` | issue, lock, renew, unlock, update |
//! | `spend` | inputs to outputs, once |
//! | `digest` | what enters the audit chain |
//! | `overlay` | changes inside a frame |
//! | `rows` | what is stored, and what changes it |

use std::sync::Arc;

mod decide;
mod digest;
mod overlay;
mod rows;
mod spend;

pub use holdfast_tokens::{
    Fingerprint, Kind, Name, Output, Refusal, SpendRequest, Token, TokenId, Transaction,
};
pub use rows::{LockRow, NO_END, SpendRow, TokenEffect, TokenOutcome, TokenRefusal, TokenRow, TokenView};

pub(crate) use decide::{decide_tokens, end_hold, end_leases, hold};
pub(crate) use overlay::TokenChanges;
pub(crate) use spend::transaction_of;
pub use spend::{HOLD_PREFIX, why_reserved};

/// The longest lease.
pub const LEASE_MS_MAX: i64 = holdfast_tokens::limits::LEASE_MS_MAX;

/// What is asked of the vault. A fence names one lock of the spender's, and none whichever it has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each command says what its fields are")]
pub enum TokenCommand {
    /// New tokens, all or none.
    Issue { tokens: Vec<Token> },
    /// Lock tokens that were chosen.
    Lock(LockTokens),
    /// Exchange what a spender has locked for outputs.
    Spend(SpendTokens),
    /// What happened on an outside ledger, in any order: ids that are gone there, and tokens that came there.
    Update { consumed: Vec<TokenId>, produced: Vec<Token> },
    /// Give back what a spender has locked.
    Unlock { spender: Name, fence: Option<u64> },
    /// Move the end of a live lease: so long from now.
    Renew { spender: Name, fence: Option<u64>, lease_ms: i64 },
}

/// The most bytes that numbers, presence marks and lengths of one token, output or command take beside its texts.
const OVERHEAD: usize = 96;

fn token_bytes(token: &Token) -> usize {
    let kind = &*token.kind;
    let optional = [&kind.external_id, &kind.public_key, &kind.issuer, &kind.notary];
    let texts =
        [&kind.wallet, &kind.token_type, &kind.currency].into_iter().chain(optional.into_iter().flatten());
    let attributes =
        kind.attributes.iter().flat_map(|all| all.iter()).map(|(name, value)| name.len() + value.len() + 4);
    OVERHEAD
        + token.id.as_str().len()
        + texts.map(|text| text.len()).sum::<usize>()
        + attributes.sum::<usize>()
}

fn output_bytes(output: &Output) -> usize {
    let texts = [Some(&output.wallet), output.external_id.as_ref(), output.public_key.as_ref()];
    let attributes = output.attributes.iter().map(|(name, value)| name.len() + value.len() + 4);
    OVERHEAD + texts.into_iter().flatten().map(|text| text.len()).sum::<usize>() + attributes.sum::<usize>()
}

impl TokenCommand {
    /// As many bytes as its record may take, or a few more. A record longer than
    /// [`RECORD_BYTES_MAX`](crate::records::RECORD_BYTES_MAX) cannot be written.
    #[must_use]
    pub fn record_bytes_max(&self) -> usize {
        let ids = |ids: &[TokenId]| ids.iter().map(|id| id.as_str().len() + 2).sum::<usize>();
        let texts = match self {
            TokenCommand::Issue { tokens } => tokens.iter().map(token_bytes).sum(),
            TokenCommand::Lock(lock) => lock.spender.len() + ids(&lock.ids),
            TokenCommand::Spend(spend) => {
                spend.request.spender.len() + spend.request.outputs.iter().map(output_bytes).sum::<usize>()
            }
            TokenCommand::Update { consumed, produced } => {
                ids(consumed) + produced.iter().map(token_bytes).sum::<usize>()
            }
            TokenCommand::Unlock { spender, .. } | TokenCommand::Renew { spender, .. } => spender.len(),
        };
        texts + OVERHEAD + 2 * crate::records::UNIT
    }

    /// Whether it consists of names, ids and numbers only.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        match self {
            TokenCommand::Lock(_) | TokenCommand::Unlock { .. } | TokenCommand::Renew { .. } => true,
            TokenCommand::Issue { .. } | TokenCommand::Spend(_) | TokenCommand::Update { .. } => false,
        }
    }

    /// Shows the ids and the spender whose past the decision may read.
    pub fn each_key<'a>(&'a self, show: &mut dyn FnMut(crate::command::Key<'a>)) {
        use crate::command::Key::{Spender, Token};
        match self {
            TokenCommand::Issue { tokens } => tokens.iter().for_each(|token| show(Token(&token.id))),
            TokenCommand::Lock(lock) => {
                show(Spender(&lock.spender));
                lock.ids.iter().for_each(|id| show(Token(id)));
            }
            TokenCommand::Spend(spend) => show(Spender(&spend.request.spender)),
            TokenCommand::Update { consumed, produced } => {
                consumed.iter().for_each(|id| show(Token(id)));
                produced.iter().for_each(|token| show(Token(&token.id)));
            }
            TokenCommand::Unlock { .. } | TokenCommand::Renew { .. } => {}
        }
    }
}

/// Tokens that were chosen for a spender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockTokens {
    /// For whom.
    pub spender: Name,
    /// The tokens.
    pub ids: Arc<[TokenId]>,
    /// What was asked for.
    pub amount: u64,
    /// For how long.
    pub lease_ms: i64,
    /// The content of the request, so that a repeat is known again.
    pub body: Fingerprint,
}

/// A spend of all that a spender has locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendTokens {
    /// What is paid and to whom.
    pub request: SpendRequest,
    /// The content of the request.
    pub body: Fingerprint,
    /// The new transaction's number, drawn at random where the request came in.
    pub transaction: u128,
}
