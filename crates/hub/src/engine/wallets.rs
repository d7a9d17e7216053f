//! The vault of a hub as the port has it. What only looks at the index does so on a thread that may take its time.

use holdfast_engine::{Funded, Kept, SomeLocks, TokenError, Vaulting, Wallets};
use holdfast_tokens::{
    Balance, ConsolidationRequest, Fragmentation, Lease, Name, Scope, SelectRequest, Selection, SpendRequest,
    Token, TokenId, TokenPage, TokenState, Transaction,
};

use crate::tokens::{TokenDesk, stopped};

/// Looks at the index, apart from the threads that serve.
fn looked<'a, T: Send + 'static>(
    vault: &TokenDesk,
    look: impl FnOnce(&TokenDesk) -> Result<T, TokenError> + Send + 'static,
) -> Vaulting<'a, T> {
    let vault = vault.clone();
    Box::pin(async move { tokio::task::spawn_blocking(move || look(&vault)).await.map_err(|_| stopped())? })
}

impl Wallets for TokenDesk {
    fn new_id(&self) -> u128 {
        TokenDesk::new_id(self)
    }

    fn issue(&self, tokens: Vec<Token>) -> Vaulting<'_, ()> {
        Box::pin(TokenDesk::issue(self, tokens))
    }

    fn update(&self, consumed: Vec<TokenId>, produced: Vec<Token>) -> Vaulting<'_, (usize, usize)> {
        Box::pin(TokenDesk::update(self, consumed, produced))
    }

    fn select(&self, request: SelectRequest, wait_ms: i64) -> Vaulting<'_, Selection> {
        Box::pin(TokenDesk::select(self, request, wait_ms))
    }

    fn spend(&self, request: SpendRequest) -> Vaulting<'_, Transaction> {
        Box::pin(TokenDesk::spend(self, request))
    }

    fn consolidate(&self, request: ConsolidationRequest) -> Vaulting<'_, Option<Transaction>> {
        Box::pin(TokenDesk::consolidate(self, request))
    }

    fn renew(&self, spender: Name, fence: Option<u64>, lease_ms: i64) -> Vaulting<'_, Lease> {
        Box::pin(TokenDesk::renew(self, spender, fence, lease_ms))
    }

    fn release(&self, spender: Name, fence: Option<u64>) -> Vaulting<'_, usize> {
        Box::pin(TokenDesk::release(self, spender, fence))
    }

    fn fund<'a>(
        &'a self,
        transfer: &'a str,
        wallet: Name,
        currency: &'a str,
        amount: u64,
    ) -> Vaulting<'a, Funded> {
        Box::pin(async move {
            let claim = TokenDesk::fund(self, transfer, wallet, currency, amount, 0).await?;
            Ok(Funded { ids: claim.ids(), kept: Kept::UntilDecided(Box::new(claim)) })
        })
    }

    fn tokens(
        &self,
        scope: Scope,
        state: Option<TokenState>,
        after: Option<TokenId>,
        limit: usize,
    ) -> Vaulting<'_, TokenPage> {
        looked(self, move |vault| TokenDesk::tokens(vault, &scope, state, after.as_ref(), limit))
    }

    fn holdings(&self, scope: Scope) -> Vaulting<'_, (Balance, Fragmentation)> {
        looked(self, move |vault| Ok((vault.balance(&scope)?, vault.fragmentation(&scope)?)))
    }

    fn locks(&self, scope: Option<Scope>, after: Option<u64>, _: usize) -> Vaulting<'_, SomeLocks> {
        looked(self, move |vault| {
            let mut locks = TokenDesk::locks(vault, scope.as_ref())?;
            locks.retain(|lock| after.is_none_or(|after| lock.fence > after));
            locks.sort_unstable_by_key(|lock| lock.fence);
            Ok(SomeLocks { locks, next: None, now: vault.now() })
        })
    }
}
