//! The vault: tokens of wallets, selected, locked and spent.

use holdfast_tokens::{
    Balance, ConsolidationRequest, Fragmentation, Lease, LockView, Name, Refusal as TokenRefusal, Scope,
    SelectRequest, Selection, SpendRequest, Token, TokenId, TokenPage, TokenState, Transaction,
};

use crate::{Doing, Refusal};

/// Why a token request was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The vault says no.
    #[error(transparent)]
    Refused(#[from] TokenRefusal),
    /// The engine takes nothing, or it is not known whether it did.
    #[error(transparent)]
    Hub(#[from] Refusal),
}

impl TokenError {
    /// The name of what the vault refused. An engine that takes nothing is as good as a store that is away.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            TokenError::Refused(refusal) => refusal.name(),
            TokenError::Hub(_) => "store-unavailable",
        }
    }
}

/// The most live locks that one page shows.
pub const LOCKS_SHOWN: usize = 1_000;

/// What a vault is asked, when it is answered.
pub type Vaulting<'a, T> = Doing<'a, Result<T, TokenError>>;

/// Live locks in the order of their fences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SomeLocks {
    /// The locks.
    pub locks: Vec<LockView>,
    /// The fence behind which there may be more; `None`: these are all.
    pub next: Option<u64>,
    /// The vault's time, to tell by what is left of a lease.
    pub now: i64,
}

/// Tokens that are set aside for a prepare.
pub struct Funded {
    /// The tokens.
    pub ids: Vec<TokenId>,
    /// What keeps them from others until the prepare is decided.
    pub kept: Kept,
}

/// What keeps tokens from others until a prepare is decided.
pub enum Kept {
    /// None were chosen, or an earlier prepare of the same transfer has locked them and may still want them.
    Nothing,
    /// As long as this lives. It is to be dropped when the prepare is decided, and not before.
    UntilDecided(Box<dyn Send>),
    /// A lease, which the prepare's own step makes a hold, or ends. Called if the prepare went nowhere, this ends it.
    ByLease(Box<dyn FnOnce() -> Doing<'static, ()> + Send>),
}

/// A vault: the hub's own, or the one that all nodes share.
pub trait Wallets: Send + Sync {
    /// A UUID that nobody has and nobody can guess.
    fn new_id(&self) -> u128;

    /// Whether the store of this vault can hold such a text.
    fn can_hold(&self, _text: &str) -> bool {
        true
    }

    /// Adds new tokens, all or none.
    fn issue(&self, tokens: Vec<Token>) -> Vaulting<'_, ()>;

    /// Takes over what happened on an outside ledger, in any order. Answers how many tokens came and went.
    fn update(&self, consumed: Vec<TokenId>, produced: Vec<Token>) -> Vaulting<'_, (usize, usize)>;

    /// Chooses and locks tokens, all or nothing; waits up to `wait_ms` for those that others hold.
    fn select(&self, request: SelectRequest, wait_ms: i64) -> Vaulting<'_, Selection>;

    /// Consumes what the spender has selected; what outputs and redeemed part leave over returns.
    fn spend(&self, request: SpendRequest) -> Vaulting<'_, Transaction>;

    /// Brings the small tokens of an owner into few; `None` if that would not leave fewer.
    fn consolidate(&self, request: ConsolidationRequest) -> Vaulting<'_, Option<Transaction>>;

    /// Moves the end of a live lease to `lease_ms` from now.
    fn renew(&self, spender: Name, fence: Option<u64>, lease_ms: i64) -> Vaulting<'_, Lease>;

    /// Frees what a spender has locked; how many tokens that were.
    fn release(&self, spender: Name, fence: Option<u64>) -> Vaulting<'_, usize>;

    /// Sets tokens of a wallet aside for a transfer, whose id is their spender.
    fn fund<'a>(
        &'a self,
        transfer: &'a str,
        wallet: Name,
        currency: &'a str,
        amount: u64,
    ) -> Vaulting<'a, Funded>;

    /// Some of an owner's tokens, after the one given.
    fn tokens(
        &self,
        scope: Scope,
        state: Option<TokenState>,
        after: Option<TokenId>,
        limit: usize,
    ) -> Vaulting<'_, TokenPage>;

    /// What an owner has, and in what pieces.
    fn holdings(&self, scope: Scope) -> Vaulting<'_, (Balance, Fragmentation)>;

    /// The live locks with higher fences than `after`: of one owner, or of all. A vault that has to ask for them asks for
    /// so many.
    fn locks(&self, scope: Option<Scope>, after: Option<u64>, rows: usize) -> Vaulting<'_, SomeLocks>;
}
