//! The vault of a hub: tokens claimed, their claim decided, what the index shows.

use std::sync::Arc;

use holdfast_domain::ids::Millis;
use holdfast_domain::tokens::{SpendTokens, TokenCommand, TokenOutcome, TokenRefusal};
use holdfast_engine::TokenError;
use holdfast_engine::clock::Clock;
use holdfast_tokens::{
    Balance, Counters, Draws, Fingerprint, LockView, Name, Predicate, Refusal, Scope, SelectRequest,
    Selection, SpendRequest, TokenSelector, Transaction,
};

use super::Timer;
use super::claims::{FundingClaim, Judged, Ready, lock_command};
use super::index::TokenIndex;
use crate::intake::{Intake, stopped};

/// The vault of a hub. Cheap to clone.
#[derive(Clone)]
pub struct HubVault {
    pub(crate) index: Arc<TokenIndex>,
    pub(crate) intake: Arc<Intake>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) timer: Arc<Timer>,
    /// How often tokens are chosen anew at most.
    pub(crate) claim_attempts: usize,
    pub(crate) draws: Arc<Draws>,
}

impl HubVault {
    /// The wall clock.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.clock.read().wall
    }

    /// Chooses and locks tokens, among those that pass the predicate; waits up to `wait_ms` for those that others hold.
    ///
    /// # Errors
    /// With true numbers, if there are none to be had.
    pub async fn select_where(
        &self,
        request: SelectRequest,
        predicate: Option<&Predicate>,
        wait_ms: i64,
    ) -> Result<Selection, TokenError> {
        request.check()?;
        let until = self.now().saturating_add(wait_ms);
        for _ in 0..self.claim_attempts {
            let pending = match self.claim(&request, predicate, until).await? {
                Ready::Held(selection) => return Ok(selection),
                Ready::New(pending) => pending,
            };
            let lock = lock_command(&request, &pending);
            match self.decide_claim(vec![TokenCommand::Lock(lock)], pending).await? {
                Judged::Yes(claim, outcomes) => {
                    let Some(TokenOutcome::Locked(row)) = outcomes.first().map(AsRef::as_ref) else {
                        return Err(stopped().into());
                    };
                    if !row.tokens.iter().eq(claim.tokens.iter().map(|token| &token.id)) {
                        // The log knows the spender's lock from before, and the index had lost sight of it.
                        self.look_at(row.tokens.first()).await;
                        continue;
                    }
                    return Ok(Selection {
                        spender: row.spender.clone(),
                        tokens: claim.tokens,
                        sum: claim.sum,
                        amount: claim.amount,
                        expires_at: row.expires_at,
                        fence: row.fence,
                    });
                }
                Judged::No(refusal) if chooses_anew(&refusal) => self.learn_from(&refusal).await,
                Judged::No(refusal) => return Err(refused(&request.spender, &refusal)),
            }
        }
        Err(Refusal::Contention { attempts: self.claim_attempts }.into())
    }

    /// Sets tokens of a wallet aside for a transfer or a checkout, whose id is their spender. Waits up to `wait_ms` for those
    /// that others hold; that an equal request of a moment ago is decided is waited for in any case.
    ///
    /// # Errors
    /// If there are none to be had, or the transfer holds some already.
    pub async fn fund(
        &self,
        transfer: &str,
        wallet: Name,
        currency: &str,
        amount: u64,
        wait_ms: i64,
    ) -> Result<FundingClaim, TokenError> {
        let request = SelectRequest::new(transfer, Scope::wallet(wallet, currency), amount);
        request.check()?;
        // It will pay out the amount and change. That is later, and cannot be refused then.
        drop(self.index.room_for(2)?);
        match self.claim(&request, None, self.now().saturating_add(wait_ms)).await? {
            Ready::New(pending) => Ok(FundingClaim(pending)),
            Ready::Held(_) => {
                let (spender, reason) = (request.spender, "it holds a selection of its own");
                Err(Refusal::SpenderInUse { spender, reason }.into())
            }
        }
    }

    /// What an owner has.
    ///
    /// # Errors
    /// If the index for that kind of owner cannot be built.
    pub fn balance(&self, scope: &Scope) -> Result<Balance, TokenError> {
        Ok(self.index.selector.balance(scope, self.now())?)
    }

    /// The live locks on an owner's tokens; of everybody without a scope.
    ///
    /// # Errors
    /// As [`HubVault::balance`].
    pub fn locks(&self, scope: Option<&Scope>) -> Result<Vec<LockView>, TokenError> {
        Ok(self.index.selector.locks(scope, self.now())?)
    }

    /// Answers all who wait: the hub is ending.
    pub fn end_waiting(&self) {
        self.index.end_waiting();
    }

    /// Shows the counters of the index to whoever gathers metrics.
    pub fn publish_metrics(&self) {
        super::meters::publish(&self.index, self.now());
    }

    /// What has happened in the index since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.index.selector.counters()
    }

    pub(super) fn spend_under(&self, request: SpendRequest, body: Fingerprint) -> TokenCommand {
        TokenCommand::Spend(SpendTokens { request, body, transaction: self.draws.uuid() })
    }

    /// What the spender has spent under that content, if it has.
    pub(super) async fn stored(
        &self,
        spender: &Name,
        body: Fingerprint,
    ) -> Result<Option<Transaction>, TokenError> {
        // A fence that no lock has: this spends nothing, it can only be a repeat.
        let mut request = SpendRequest::new(spender.clone(), Vec::new());
        request.fence = Some(u64::MAX);
        let outcome = self.decide(self.spend_under(request, body), ()).await?;
        Ok(match &*outcome {
            TokenOutcome::Spent(row) => Some(row.transaction.clone()),
            _ => None,
        })
    }

    pub(super) async fn decide(
        &self,
        command: TokenCommand,
        keep: impl Send + 'static,
    ) -> Result<Arc<TokenOutcome>, TokenError> {
        let outcomes = self.decide_all(vec![command], keep).await?;
        Ok(outcomes.into_iter().next().ok_or_else(stopped)?)
    }
}

/// The index was behind the log: others are worth a try.
pub(super) const fn chooses_anew(refusal: &TokenRefusal) -> bool {
    matches!(refusal, TokenRefusal::Taken(_) | TokenRefusal::Consumed(_) | TokenRefusal::Unknown(_))
}

pub(super) fn unexpected(spender: &str, outcome: &TokenOutcome) -> TokenError {
    match outcome {
        TokenOutcome::Refused(refusal) => refused(spender, refusal),
        _ => stopped().into(),
    }
}

pub(super) fn refused(spender: &str, refusal: &TokenRefusal) -> TokenError {
    let spender = Name::from(spender);
    TokenError::Refused(match refusal {
        TokenRefusal::Taken(_) => Refusal::Contention { attempts: 1 },
        TokenRefusal::Consumed(id) => Refusal::TokenConsumed(id.clone()),
        TokenRefusal::Unknown(id) => Refusal::UnknownToken(id.clone()),
        TokenRefusal::Exists(id) => Refusal::TokenExists(id.clone()),
        TokenRefusal::LeaseLost(reason) => Refusal::LeaseLost { spender, reason },
        TokenRefusal::SpenderInUse(reason) => Refusal::SpenderInUse { spender, reason },
        TokenRefusal::Invalid(why) => Refusal::Invalid(why.clone()),
    })
}
