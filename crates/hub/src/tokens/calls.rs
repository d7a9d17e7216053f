//! What callers of the vault ask, as the port has it. What only looks at the index does so on a thread that may take its time.

use holdfast_domain::tokens::{TokenCommand, TokenOutcome};
use holdfast_engine::{Funded, Kept, SomeLocks, TokenError, Vaulting, Wallets};
use holdfast_tokens::{
    Balance, Consolidation, ConsolidationRequest, Fragmentation, Lease, Name, Refusal, Scope, SelectRequest,
    Selection, SpendRequest, Token, TokenId, TokenPage, TokenSelector as _, TokenState, Transaction,
    check_lease, check_name, check_spend,
};

use super::claims::{Judged, Ready, lock_command};
use super::hub_vault::{HubVault, chooses_anew, refused, unexpected};
use crate::intake::stopped;

/// Looks at the index, apart from the threads that serve.
fn looked<'a, T: Send + 'static>(
    vault: &HubVault,
    look: impl FnOnce(&HubVault) -> Result<T, Refusal> + Send + 'static,
) -> Vaulting<'a, T> {
    let vault = vault.clone();
    Box::pin(
        async move { Ok(tokio::task::spawn_blocking(move || look(&vault)).await.map_err(|_| stopped())??) },
    )
}

impl Wallets for HubVault {
    fn new_id(&self) -> u128 {
        self.draws.uuid()
    }

    fn issue(&self, tokens: Vec<Token>) -> Vaulting<'_, ()> {
        Box::pin(async move {
            tokens.iter().try_for_each(Token::check)?;
            let room = self.index.room_for(tokens.len())?;
            let outcome = self.decide(TokenCommand::Issue { tokens }, room).await?;
            match &*outcome {
                TokenOutcome::Issued => Ok(()),
                other => Err(unexpected("", other)),
            }
        })
    }

    fn update(&self, consumed: Vec<TokenId>, produced: Vec<Token>) -> Vaulting<'_, (usize, usize)> {
        Box::pin(async move {
            consumed.iter().try_for_each(|id| check_name("a consumed id", id.as_str()))?;
            produced.iter().try_for_each(Token::check)?;
            let room = self.index.room_for(produced.len().saturating_sub(consumed.len()))?;
            let outcome = self.decide(TokenCommand::Update { consumed, produced }, room).await?;
            match &*outcome {
                TokenOutcome::Updated { produced, consumed } => Ok((*produced, *consumed)),
                other => Err(unexpected("", other)),
            }
        })
    }

    fn select(&self, request: SelectRequest, wait_ms: i64) -> Vaulting<'_, Selection> {
        Box::pin(self.select_where(request, None, wait_ms))
    }

    fn spend(&self, request: SpendRequest) -> Vaulting<'_, Transaction> {
        Box::pin(async move {
            check_spend(&request)?;
            // Change comes on top of the outputs. A repeat holds nothing any more and adds nothing.
            let room = match self.index.selector.held_tokens(&request.spender) {
                0 => self.index.room_for(0)?,
                inputs => self.index.room_for((request.outputs.len() + 1).saturating_sub(inputs))?,
            };
            let (spender, body) = (request.spender.clone(), request.fingerprint());
            let outcome = self.decide(self.spend_under(request, body), room).await?;
            match &*outcome {
                TokenOutcome::Spent(row) => Ok(row.transaction.clone()),
                other => Err(unexpected(&spender, other)),
            }
        })
    }

    fn consolidate(&self, request: ConsolidationRequest) -> Vaulting<'_, Option<Transaction>> {
        Box::pin(self.bring_together(request))
    }

    fn renew(&self, spender: Name, fence: Option<u64>, lease_ms: i64) -> Vaulting<'_, Lease> {
        Box::pin(async move {
            check_lease(lease_ms)?;
            check_name("the spender", &spender)?;
            let command = TokenCommand::Renew { spender: spender.clone(), fence, lease_ms };
            match &*self.decide(command, ()).await? {
                TokenOutcome::Renewed { fence, expires_at } => {
                    Ok(Lease { expires_at: *expires_at, fence: *fence })
                }
                other => Err(unexpected(&spender, other)),
            }
        })
    }

    fn release(&self, spender: Name, fence: Option<u64>) -> Vaulting<'_, usize> {
        Box::pin(async move {
            check_name("the spender", &spender)?;
            let command = TokenCommand::Unlock { spender: spender.clone(), fence };
            match &*self.decide(command, ()).await? {
                TokenOutcome::Released(count) => Ok(*count),
                other => Err(unexpected(&spender, other)),
            }
        })
    }

    fn fund<'a>(
        &'a self,
        transfer: &'a str,
        wallet: Name,
        currency: &'a str,
        amount: u64,
    ) -> Vaulting<'a, Funded> {
        Box::pin(async move {
            let claim = HubVault::fund(self, transfer, wallet, currency, amount, 0).await?;
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
        looked(self, move |vault| {
            vault.index.selector.tokens(&scope, state, after.as_ref(), limit, vault.now())
        })
    }

    fn holdings(&self, scope: Scope) -> Vaulting<'_, (Balance, Fragmentation)> {
        looked(self, move |vault| {
            let (selector, now) = (&vault.index.selector, vault.now());
            Ok((selector.balance(&scope, now)?, selector.fragmentation(&scope, now)?))
        })
    }

    fn locks(&self, scope: Option<Scope>, after: Option<u64>, _: usize) -> Vaulting<'_, SomeLocks> {
        looked(self, move |vault| {
            let now = vault.now();
            let mut locks = vault.index.selector.locks(scope.as_ref(), now)?;
            locks.retain(|lock| after.is_none_or(|after| lock.fence > after));
            locks.sort_unstable_by_key(|lock| lock.fence);
            Ok(SomeLocks { locks, next: None, now })
        })
    }
}

impl HubVault {
    async fn bring_together(&self, request: ConsolidationRequest) -> Result<Option<Transaction>, TokenError> {
        request.check()?;
        let (select, predicate) = Consolidation::select_request(&request);
        select.check()?;
        let body = Consolidation::fingerprint(&request);
        for _ in 0..self.claim_attempts {
            let pending = match self.claim(&select, predicate.as_ref(), self.now()).await {
                Ok(Ready::New(pending)) => pending,
                Ok(Ready::Held(_)) => {
                    let (spender, reason) = (request.spender, "it holds a selection of another request");
                    return Err(Refusal::SpenderInUse { spender, reason }.into());
                }
                Err(error @ TokenError::Refused(Refusal::SpenderInUse { .. })) => {
                    return self.stored(&request.spender, body).await?.map(Some).ok_or(error);
                }
                Err(TokenError::Refused(Refusal::InsufficientFunds(_) | Refusal::FundsLocked(_))) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            let claim = pending.claim();
            let Some(spend) = Consolidation::spend_of(&request, &claim.tokens, claim.sum, None) else {
                return Ok(None);
            };
            // Two records of one submission are decided in one frame: nobody comes between lock and spend.
            let commands =
                vec![TokenCommand::Lock(lock_command(&select, &pending)), self.spend_under(spend, body)];
            match self.decide_claim(commands, pending).await? {
                Judged::Yes(_, outcomes) => {
                    return match outcomes.get(1).map(AsRef::as_ref) {
                        Some(TokenOutcome::Spent(row)) => Ok(Some(row.transaction.clone())),
                        Some(other) => Err(unexpected(&request.spender, other)),
                        None => Err(stopped().into()),
                    };
                }
                Judged::No(refusal) if chooses_anew(&refusal) => self.learn_from(&refusal).await,
                Judged::No(refusal) => {
                    let error = refused(&request.spender, &refusal);
                    return self.stored(&request.spender, body).await?.map(Some).ok_or(error);
                }
            }
        }
        Err(Refusal::Contention { attempts: self.claim_attempts }.into())
    }
}
