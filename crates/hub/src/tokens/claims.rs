//! A claim on its way: set aside in the index, then decided by the log, or undone.

use std::sync::Arc;

use holdfast_domain::command::Command;
use holdfast_domain::ids::Millis;
use holdfast_domain::records::{RECORD_BYTES_MAX, Sealed};
use holdfast_domain::tokens::{LockTokens, TokenCommand, TokenOutcome, TokenRefusal};
use holdfast_domain::view::{Spenders, Tokens};
use holdfast_engine::{Refusal as EngineRefusal, TokenError, claims};
use holdfast_tokens::{Claim, Predicate, Random, Refusal, SelectRequest, TokenId};
use tokio::sync::oneshot;

use super::hub_vault::HubVault;
use super::index::TokenIndex;
use crate::intake::{Query, stopped};

pub(super) type Ready = claims::Ready<TokenIndex>;
pub(super) type Pending = claims::Pending<TokenIndex>;

/// What the log said to a claim.
pub(super) enum Judged {
    Yes(Claim, Vec<Arc<TokenOutcome>>),
    No(TokenRefusal),
}

/// Tokens that are set aside for a transfer. When it is dropped they are free again, unless the log has made them the
/// transfer's hold by then: the answer of the submission is where to keep it.
#[must_use = "dropped, the tokens are free again"]
pub struct FundingClaim(pub(super) Pending);

impl FundingClaim {
    /// The tokens.
    #[must_use]
    pub fn ids(&self) -> Vec<TokenId> {
        self.0.claim().tokens.iter().map(|token| token.id.clone()).collect()
    }
}

/// The record that makes a claim a lock.
pub(super) fn lock_command(request: &SelectRequest, pending: &Pending) -> LockTokens {
    let claim = pending.claim();
    LockTokens {
        spender: claim.spender.clone(),
        ids: claim.tokens.iter().map(|token| token.id.clone()).collect(),
        amount: claim.amount,
        lease_ms: request.lease_ms,
        body: request.fingerprint(),
    }
}

impl HubVault {
    /// Sets tokens aside, waiting for them until `until`.
    pub(super) async fn claim(
        &self,
        request: &SelectRequest,
        predicate: Option<&Predicate>,
        until: Millis,
    ) -> Result<Ready, TokenError> {
        loop {
            match self.claim_once(request, predicate, until).await {
                Err(refusal) if is_undecided(&refusal) => {}
                other => return Ok(other?),
            }
            // The same request a moment ago is on its way to the disk: its answer is this one's too.
            let followed = self.index.followed();
            tokio::pin!(followed);
            // From here on no news is missed.
            followed.as_mut().enable();
            match self.claim_once(request, predicate, until).await {
                Err(refusal) if is_undecided(&refusal) => followed.await,
                other => return Ok(other?),
            }
        }
    }

    async fn claim_once(
        &self,
        request: &SelectRequest,
        predicate: Option<&Predicate>,
        until: Millis,
    ) -> Result<Ready, Refusal> {
        let random = Random::new(self.draws.draw());
        let ending = || Refusal::StoreUnavailable("the hub is ending".into());
        let (now, waits) = (|| self.now(), || self.timer.look());
        claims::claim_once(&self.index, (request, predicate), until, now, random, waits, ending).await
    }

    /// Has a claim decided. On a yes the log has made it a lock; else it is undone, also if nobody waits any more.
    pub(super) async fn decide_claim(
        &self,
        commands: Vec<TokenCommand>,
        pending: Pending,
    ) -> Result<Judged, TokenError> {
        let claim = pending.claim().clone();
        // Dropped with the answer it is undone, unless following the log has made it a lock.
        let outcomes = self.decide_all(commands, pending).await?;
        match outcomes.first().map(AsRef::as_ref) {
            Some(TokenOutcome::Locked(_)) => Ok(Judged::Yes(claim, outcomes)),
            Some(TokenOutcome::Refused(refusal)) => Ok(Judged::No(refusal.clone())),
            _ => Err(stopped().into()),
        }
    }

    /// The log has said no to a choice: if another's lock was in the way, the index must have lost sight of it.
    pub(crate) async fn learn_from(&self, refusal: &TokenRefusal) {
        self.index.conflict();
        if let TokenRefusal::Taken(id) = refusal {
            self.look_at(Some(id)).await;
        }
    }

    /// Has the index take over the lock that a token is under by the log. Asked between two frames, when the index has followed all.
    pub(super) async fn look_at(&self, id: Option<&TokenId>) {
        let Some(id) = id.cloned() else { return };
        let index = Arc::clone(&self.index);
        let (done, looked) = oneshot::channel::<()>();
        let query: Query = Box::new(move |core| {
            // Dropped at the end, which tells the asker.
            let _done = done;
            let (store, time) = (core.store(), core.last_time());
            let holder = store.token(&id).and_then(|row| row.holder);
            let Some(lock) = holder.and_then(|holder| store.lock(holder)).filter(|lock| lock.is_live(time))
            else {
                return;
            };
            if let Err(refusal) = index.adopt(lock, time) {
                tracing::error!(%refusal, spender = %lock.spender, "the index of tokens cannot take over a lock of the log");
            }
        });
        // If the intake is full the question is dropped. Without an answer the next attempt meets the same lock and asks again.
        drop(self.intake.ask(query));
        drop(looked.await);
    }

    /// Has commands decided together, and keeps something until they are, whether anybody still waits or not.
    pub(super) async fn decide_all(
        &self,
        commands: Vec<TokenCommand>,
        keep: impl Send + 'static,
    ) -> Result<Vec<Arc<TokenOutcome>>, TokenError> {
        let bytes: usize = commands.iter().map(TokenCommand::record_bytes_max).sum();
        if bytes > RECORD_BYTES_MAX {
            return Err(EngineRefusal::TooLarge(bytes).into());
        }
        let plain = commands.iter().all(TokenCommand::is_plain);
        let commands: Vec<Command> =
            commands.into_iter().map(|command| Command::Token(Box::new(command))).collect();
        let records = if plain { Sealed::of_plain(commands) } else { Sealed::of(&commands) };
        let outcomes = self.intake.decide(records, keep).await?;
        Ok(outcomes.into_iter().filter_map(|outcome| outcome.token).collect())
    }
}

fn is_undecided(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::SpenderInUse { reason, .. } if *reason == holdfast_tokens::NOT_DECIDED)
}
