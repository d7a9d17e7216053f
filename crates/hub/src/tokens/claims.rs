//! A claim on its way: set aside in the index, then decided by the log, or undone.

use std::sync::Arc;

use holdfast_domain::command::Command;
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::Millis;
use holdfast_domain::records::{RECORD_BYTES_MAX, Sealed};
use holdfast_domain::tokens::{LockTokens, TokenCommand, TokenOutcome, TokenRefusal};
use holdfast_engine::{Refusal as EngineRefusal, TokenError};
use holdfast_tokens::{
    Claim, ClaimAnswer, Claimed, Predicate, Random, Refusal, SelectRequest, Selecting, Selection, Ticket,
    TokenId,
};
use tokio::sync::oneshot;

use super::hub_vault::{HubVault, stopped};
use super::index::{Pending, TokenIndex};
use crate::intake::Submission;

/// What a claim came to.
pub(super) enum Ready {
    New(Pending),
    Held(Selection),
}

impl Ready {
    fn of(claimed: Claimed, index: &Arc<TokenIndex>, now: Millis) -> Ready {
        match claimed {
            Claimed::New(claim) => Ready::New(Pending::new(index, claim, now)),
            Claimed::Held(selection) => Ready::Held(selection),
        }
    }
}

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

/// A request that may wait; called off if its asker goes away before the answer.
struct WaitingRequest<'a> {
    vault: &'a HubVault,
    ticket: Option<Ticket>,
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = &self.ticket {
            self.vault.index.selector().call_off(ticket, self.vault.now());
        }
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
        let now = self.now();
        let mut receive = None;
        let later = || -> ClaimAnswer {
            let (send, answer) = oneshot::channel();
            receive = Some(answer);
            let index = Arc::clone(&self.index);
            Box::new(move |outcome: Result<Claimed, Refusal>| {
                // If the asker has gone the claim is dropped here, and undone.
                drop(send.send(outcome.map(|claimed| Ready::of(claimed, &index, now))));
            })
        };
        let random = Random::new(self.draw());
        let ticket = match self.index.selector().claim_or_wait(request, predicate, until, now, random, later)
        {
            Selecting::Answered(outcome) => {
                return outcome.map(|claimed| Ready::of(claimed, &self.index, now));
            }
            Selecting::Waits(ticket) => ticket,
        };
        self.timer.look();
        let mut waiting = WaitingRequest { vault: self, ticket: Some(ticket) };
        let outcome = receive.expect("who waits has an answer to wait for").await;
        waiting.ticket = None;
        outcome.unwrap_or_else(|_| Err(Refusal::StoreUnavailable("the hub is ending".into())))
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
            _ => Err(stopped()),
        }
    }

    /// The log has said no to a choice: if another's lock was in the way, the index must have lost sight of it.
    pub(crate) async fn learn_from(&self, refusal: &TokenRefusal) {
        self.index.conflict();
        if let TokenRefusal::Taken(id) = refusal {
            self.look_at(Some(id)).await;
        }
    }

    /// Has the index take over the lock that a token is under by the log.
    pub(super) async fn look_at(&self, id: Option<&TokenId>) {
        if let Some(id) = id {
            // Without an answer the next attempt meets the same lock and asks again.
            drop((self.look_again)(id.clone()).await);
        }
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
        let (send, receive) = oneshot::channel();
        let answer = Box::new(move |outcomes: Result<Vec<Outcome>, EngineRefusal>| {
            drop(keep);
            drop(send.send(outcomes));
        });
        (self.submit)(Submission::new(records, answer))?;
        let outcomes = receive.await.map_err(|_| stopped())??;
        Ok(outcomes.into_iter().filter_map(|outcome| outcome.token).collect())
    }
}

fn is_undecided(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::SpenderInUse { reason, .. } if *reason == holdfast_tokens::NOT_DECIDED)
}
