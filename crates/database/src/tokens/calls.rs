//! What callers of the vault ask, as the port has it.

use holdfast_engine::{Doing, Funded, Kept, LOCKS_SHOWN, SomeLocks, Vaulting, Wallets};
use holdfast_messages::TokenEvent;
use holdfast_postgres::tokens::StoredSelection;
use holdfast_tokens::{
    Balance, Consolidation, ConsolidationRequest, Fragmentation, Lease, Name, Refusal, Scope, SelectRequest,
    Selection, SpendRequest, Token, TokenId, TokenPage, TokenState, Transaction, check_lease, check_name,
    check_spend,
};

use super::limits::FUNDING_LEASE_MS;
use super::vault::{TokenVault, check_text, check_tokens};

/// The name of a spender.
fn check_spender(spender: &Name) -> Result<(), Refusal> {
    check_name("the spender", spender)?;
    check_text("the spender", spender)
}

impl Wallets for TokenVault {
    fn new_id(&self) -> u128 {
        self.draws.uuid()
    }

    /// PostgreSQL's texts cannot hold every character.
    fn can_hold(&self, text: &str) -> bool {
        !text.contains('\0')
    }

    fn issue(&self, tokens: Vec<Token>) -> Vaulting<'_, ()> {
        Box::pin(async move {
            check_tokens(&tokens)?;
            let told = self.clock.told();
            Ok(self.changed(move |store| Ok(((), Some(store.issue_tokens(&tokens, told)??)))).await?)
        })
    }

    fn update(&self, consumed: Vec<TokenId>, produced: Vec<Token>) -> Vaulting<'_, (usize, usize)> {
        Box::pin(async move {
            for id in &consumed {
                check_name("a consumed id", id.as_str())?;
                check_text("a consumed id", id.as_str())?;
            }
            check_tokens(&produced)?;
            let told = self.clock.told();
            let updated = self.changed(move |store| {
                let event = store.update_tokens(&consumed, &produced, told)??;
                let counts = match &event {
                    Some(TokenEvent::Updated { consumed, produced, .. }) => (produced.len(), consumed.len()),
                    _ => (0, 0),
                };
                Ok((counts, event))
            });
            Ok(updated.await?)
        })
    }

    fn select(&self, request: SelectRequest, wait_ms: i64) -> Vaulting<'_, Selection> {
        Box::pin(async move { Ok(self.select_where(request, None, wait_ms).await?) })
    }

    fn spend(&self, request: SpendRequest) -> Vaulting<'_, Transaction> {
        Box::pin(async move {
            check_spend(&request)?;
            check_text("the spender", &request.spender)?;
            for output in &request.outputs {
                let names = [Some(&output.wallet), output.external_id.as_ref(), output.public_key.as_ref()];
                for name in names.into_iter().flatten() {
                    check_text("a name of an output", name)?;
                }
                for (name, value) in &output.attributes {
                    check_text("an attribute", name)?;
                    check_text("an attribute", value)?;
                }
            }
            let body = request.fingerprint();
            Ok(self.spend_under(&request, body).await?)
        })
    }

    fn consolidate(&self, request: ConsolidationRequest) -> Vaulting<'_, Option<Transaction>> {
        Box::pin(async move {
            request.check()?;
            let (select, predicate) = Consolidation::select_request(&request);
            let body = Consolidation::fingerprint(&request);
            let selection = match self.select_where(select, predicate.as_ref(), 0).await {
                Ok(selection) => selection,
                Err(Refusal::InsufficientFunds(_) | Refusal::FundsLocked(_)) => return Ok(None),
                Err(refusal @ Refusal::SpenderInUse { .. }) => {
                    return match self.stored(&request.spender).await? {
                        Some(StoredSelection::Spent { body: known, transaction }) if known == body => {
                            Ok(Some(transaction))
                        }
                        _ => Err(refusal.into()),
                    };
                }
                Err(refusal) => return Err(refusal.into()),
            };
            let fence = Some(selection.fence);
            match Consolidation::spend_of(&request, &selection.tokens, selection.sum, fence) {
                Some(spend) => Ok(Some(self.spend_under(&spend, body).await?)),
                None => self.release(request.spender, fence).await.map(|_| None),
            }
        })
    }

    fn renew(&self, spender: Name, fence: Option<u64>, lease_ms: i64) -> Vaulting<'_, Lease> {
        Box::pin(async move {
            check_lease(lease_ms)?;
            check_spender(&spender)?;
            let (holder, told) = (spender.clone(), self.clock.told());
            let lease = self.changed(move |store| store.renew_tokens(&holder, fence, lease_ms, told)).await?;
            let (cache, now) = (self.feed.cache(), self.clock.now());
            // Where the cache has seen the end already, the next claim on these tokens learns that they are held.
            drop(cache.selector.apply_renew(&spender, lease.fence, lease.expires_at, now));
            Ok(lease)
        })
    }

    fn release(&self, spender: Name, fence: Option<u64>) -> Vaulting<'_, usize> {
        Box::pin(async move {
            check_spender(&spender)?;
            let told = self.clock.told();
            Ok(self.changed(move |store| store.release_tokens(&spender, fence, told)).await?)
        })
    }

    /// Locks the tokens for as long as the transfer's prepare may be on the way. The step that decides the prepare makes a hold of
    /// it, or gives it back. The same again finds the same tokens.
    fn fund<'a>(
        &'a self,
        transfer: &'a str,
        wallet: Name,
        currency: &'a str,
        amount: u64,
    ) -> Vaulting<'a, Funded> {
        Box::pin(async move {
            let found = self.fund_for(FUNDING_LEASE_MS, transfer, wallet, currency, amount).await?;
            let selection = found.selection;
            let ids = selection.tokens.iter().map(|token| token.id.clone()).collect();
            if !found.made {
                return Ok(Funded { ids, kept: Kept::Nothing });
            }
            let vault = self.clone();
            let give_back = move || -> Doing<'static, ()> {
                Box::pin(async move {
                    // If that fails, the lease ends it.
                    drop(vault.release(selection.spender, Some(selection.fence)).await);
                })
            };
            Ok(Funded { ids, kept: Kept::ByLease(Box::new(give_back)) })
        })
    }

    /// By rising id.
    fn tokens(
        &self,
        scope: Scope,
        state: Option<TokenState>,
        after: Option<TokenId>,
        limit: usize,
    ) -> Vaulting<'_, TokenPage> {
        Box::pin(async move {
            let (told, limit) = (self.clock.told(), limit.max(1));
            let page = self.asked(move |store| store.token_page(&scope, state, after.as_ref(), limit, told));
            let tokens = page.await?;
            let next = tokens.last().filter(|_| tokens.len() == limit).map(|(token, _)| token.id.clone());
            Ok(TokenPage { tokens, next })
        })
    }

    fn holdings(&self, scope: Scope) -> Vaulting<'_, (Balance, Fragmentation)> {
        Box::pin(async move {
            let told = self.clock.told();
            let found = self.asked(move |store| store.token_holdings(&scope, told)).await?;
            Ok((found.balance, found.fragmentation))
        })
    }

    fn locks(&self, scope: Option<Scope>, after: Option<u64>, rows: usize) -> Vaulting<'_, SomeLocks> {
        Box::pin(async move {
            let (told, rows) = (self.clock.told(), rows.min(LOCKS_SHOWN));
            let locks = self.asked(move |store| store.token_lock_views(scope.as_ref(), after, rows, told));
            let (locks, next) = locks.await?;
            Ok(SomeLocks { locks, next, now: self.now() })
        })
    }
}
