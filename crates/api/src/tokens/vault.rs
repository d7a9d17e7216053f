//! The vault behind the edge: the hub's own, or the one that all nodes of a cluster share. The paths are the same.

use holdfast_database::TokenVault;
use holdfast_hub::TokenError;
use holdfast_hub::tokens::TokenDesk;
use holdfast_tokens::{
    ConsolidationRequest, Lease, LockView, Name, Scope, SelectRequest, Selection, SpendRequest, Token,
    TokenId, TokenPage, TokenState, Transaction,
};

use super::holdings::Holdings;
use super::looked;
use super::refusal::Problem;
use crate::Edge;

/// A vault, of either kind. Cheap to clone.
#[derive(Clone)]
pub enum Vault {
    /// The hub's own.
    Hub(TokenDesk),
    /// The one of a cluster.
    Shared(TokenVault),
}

/// What handlers of the token paths can reach.
#[derive(Clone)]
pub(crate) struct Wallets {
    pub(super) edge: Edge,
    pub(super) desk: Vault,
}

impl Wallets {
    pub(crate) fn of(edge: &Edge) -> Option<Wallets> {
        edge.tokens.clone().map(|desk| Wallets { edge: edge.clone(), desk })
    }
}

/// Live locks in the order of their fences, and the fence behind which there may be more.
pub(super) struct SomeLocks {
    pub(super) locks: Vec<LockView>,
    pub(super) next: Option<u64>,
    pub(super) now: i64,
}

/// Both vaults do it, the one with its own kind of error.
macro_rules! either {
    ($desk:expr, $vault:ident => $call:expr) => {
        match $desk {
            Vault::Hub($vault) => $call.await,
            Vault::Shared($vault) => $call.await.map_err(TokenError::from),
        }
    };
}

impl Vault {
    pub(super) fn new_id(&self) -> u128 {
        match self {
            Vault::Hub(vault) => vault.new_id(),
            Vault::Shared(vault) => vault.new_id(),
        }
    }

    pub(super) async fn issue(&self, tokens: Vec<Token>) -> Result<(), TokenError> {
        either!(self, vault => vault.issue(tokens))
    }

    pub(super) async fn update(
        &self,
        consumed: Vec<TokenId>,
        produced: Vec<Token>,
    ) -> Result<(usize, usize), TokenError> {
        either!(self, vault => vault.update(consumed, produced))
    }

    pub(super) async fn select(&self, request: SelectRequest, wait_ms: i64) -> Result<Selection, TokenError> {
        either!(self, vault => vault.select(request, wait_ms))
    }

    pub(super) async fn spend(&self, request: SpendRequest) -> Result<Transaction, TokenError> {
        either!(self, vault => vault.spend(request))
    }

    pub(super) async fn consolidate(
        &self,
        request: ConsolidationRequest,
    ) -> Result<Option<Transaction>, TokenError> {
        either!(self, vault => vault.consolidate(request))
    }

    pub(super) async fn renew(
        &self,
        spender: Name,
        fence: Option<u64>,
        lease_ms: i64,
    ) -> Result<Lease, TokenError> {
        either!(self, vault => vault.renew(spender, fence, lease_ms))
    }

    pub(super) async fn release(&self, spender: Name, fence: Option<u64>) -> Result<usize, TokenError> {
        either!(self, vault => vault.release(spender, fence))
    }

    pub(super) async fn tokens(
        self,
        scope: Scope,
        state: Option<TokenState>,
        after: Option<TokenId>,
        limit: usize,
    ) -> Result<TokenPage, Problem> {
        match self {
            Vault::Hub(vault) => {
                looked(move || Ok(vault.tokens(&scope, state, after.as_ref(), limit)?)).await
            }
            Vault::Shared(vault) => {
                let page = vault.tokens(&scope, state, after.as_ref(), limit);
                Ok(page.await.map_err(TokenError::from)?)
            }
        }
    }

    pub(super) async fn holdings(self, scope: Scope) -> Result<Holdings, Problem> {
        match self {
            Vault::Hub(vault) => {
                let holdings = looked(move || {
                    let (balance, fragmentation) = (vault.balance(&scope)?, vault.fragmentation(&scope)?);
                    Ok(Holdings { balance, fragmentation })
                });
                holdings.await
            }
            Vault::Shared(vault) => {
                let found = vault.holdings(&scope).await.map_err(TokenError::from)?;
                Ok(Holdings { balance: found.balance, fragmentation: found.fragmentation })
            }
        }
    }

    /// The live locks with higher fences than `after`: of one owner, or of all. A vault that has to ask for them asks for so many.
    pub(super) async fn locks(
        self,
        scope: Option<Scope>,
        after: Option<u64>,
        rows: usize,
    ) -> Result<SomeLocks, Problem> {
        match self {
            Vault::Hub(vault) => {
                let found = looked(move || {
                    let mut locks = vault.locks(scope.as_ref())?;
                    locks.retain(|lock| after.is_none_or(|after| lock.fence > after));
                    locks.sort_unstable_by_key(|lock| lock.fence);
                    Ok(SomeLocks { locks, next: None, now: vault.now() })
                });
                found.await
            }
            Vault::Shared(vault) => {
                let (locks, next) =
                    vault.locks(scope.as_ref(), after, rows).await.map_err(TokenError::from)?;
                Ok(SomeLocks { locks, next, now: vault.now() })
            }
        }
    }
}
