//! The vault that all nodes share, as the port has it.

use holdfast_engine::{Funded, Kept, SomeLocks, Vaulting, Wallets};
use holdfast_tokens::{
    Balance, ConsolidationRequest, Fragmentation, Lease, Name, Scope, SelectRequest, Selection, SpendRequest,
    Token, TokenId, TokenPage, TokenState, Transaction,
};

use crate::tokens::TokenVault;

impl Wallets for TokenVault {
    fn new_id(&self) -> u128 {
        TokenVault::new_id(self)
    }

    /// PostgreSQL's texts cannot hold every character.
    fn can_hold(&self, text: &str) -> bool {
        !text.contains('\0')
    }

    fn issue(&self, tokens: Vec<Token>) -> Vaulting<'_, ()> {
        Box::pin(async move { Ok(TokenVault::issue(self, tokens).await?) })
    }

    fn update(&self, consumed: Vec<TokenId>, produced: Vec<Token>) -> Vaulting<'_, (usize, usize)> {
        Box::pin(async move { Ok(TokenVault::update(self, consumed, produced).await?) })
    }

    fn select(&self, request: SelectRequest, wait_ms: i64) -> Vaulting<'_, Selection> {
        Box::pin(async move { Ok(TokenVault::select(self, request, wait_ms).await?) })
    }

    fn spend(&self, request: SpendRequest) -> Vaulting<'_, Transaction> {
        Box::pin(async move { Ok(TokenVault::spend(self, request).await?) })
    }

    fn consolidate(&self, request: ConsolidationRequest) -> Vaulting<'_, Option<Transaction>> {
        Box::pin(async move { Ok(TokenVault::consolidate(self, request).await?) })
    }

    fn renew(&self, spender: Name, fence: Option<u64>, lease_ms: i64) -> Vaulting<'_, Lease> {
        Box::pin(async move { Ok(TokenVault::renew(self, spender, fence, lease_ms).await?) })
    }

    fn release(&self, spender: Name, fence: Option<u64>) -> Vaulting<'_, usize> {
        Box::pin(async move { Ok(TokenVault::release(self, spender, fence).await?) })
    }

    fn fund<'a>(
        &'a self,
        transfer: &'a str,
        wallet: Name,
        currency: &'a str,
        amount: u64,
    ) -> Vaulting<'a, Funded> {
        Box::pin(async move {
            let found = TokenVault::fund(self, transfer, wallet, currency, amount).await?;
            let selection = found.selection;
            let ids = selection.tokens.iter().map(|token| token.id.clone()).collect();
            if !found.made {
                return Ok(Funded { ids, kept: Kept::Nothing });
            }
            let vault = self.clone();
            let give_back = move || -> holdfast_engine::Doing<'static, ()> {
                Box::pin(async move {
                    // If that fails, the lease ends it.
                    drop(vault.release(selection.spender, Some(selection.fence)).await);
                })
            };
            Ok(Funded { ids, kept: Kept::ByLease(Box::new(give_back)) })
        })
    }

    fn tokens(
        &self,
        scope: Scope,
        state: Option<TokenState>,
        after: Option<TokenId>,
        limit: usize,
    ) -> Vaulting<'_, TokenPage> {
        Box::pin(async move { Ok(TokenVault::tokens(self, &scope, state, after.as_ref(), limit).await?) })
    }

    fn holdings(&self, scope: Scope) -> Vaulting<'_, (Balance, Fragmentation)> {
        Box::pin(async move {
            let found = TokenVault::holdings(self, &scope).await?;
            Ok((found.balance, found.fragmentation))
        })
    }

    fn locks(&self, scope: Option<Scope>, after: Option<u64>, rows: usize) -> Vaulting<'_, SomeLocks> {
        Box::pin(async move {
            let (locks, next) = TokenVault::locks(self, scope.as_ref(), after, rows).await?;
            Ok(SomeLocks { locks, next, now: self.now() })
        })
    }
}
