//! Claims on tokens on their way: set aside in a selector in memory, then judged where the truth lies, or undone. Every vault has its
//! own judge; what comes before it is the same.

use std::sync::Arc;

use holdfast_domain::ids::Millis;
use holdfast_tokens::{
    Claim, ClaimAnswer, Claimed, MemorySelector, Predicate, Random, Refusal, SelectRequest, Selecting,
    Selection, Ticket,
};
use tokio::sync::oneshot;

/// Where claims are set aside.
pub trait ClaimsTokens: Send + Sync + 'static {
    /// The selector.
    fn selector(&self) -> &MemorySelector;

    /// A claim has come to its end; whether it was `undone` by that. Those who wait for its outcome look for themselves now.
    fn claim_ended(&self, undone: bool);
}

/// A claim that is undone when this is dropped, unless it was made a lock by then.
pub struct Pending<C: ClaimsTokens> {
    claims: Arc<C>,
    claim: Claim,
    now: Millis,
}

impl<C: ClaimsTokens> Pending<C> {
    /// A claim that was set aside there at that time.
    pub fn new(claims: &Arc<C>, claim: Claim, now: Millis) -> Pending<C> {
        Pending { claims: Arc::clone(claims), claim, now }
    }

    /// The claim.
    pub const fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Where it is set aside.
    pub const fn claims(&self) -> &Arc<C> {
        &self.claims
    }
}

impl<C: ClaimsTokens> Drop for Pending<C> {
    fn drop(&mut self) {
        let undone = self.claims.selector().undo(&self.claim, self.now);
        self.claims.claim_ended(undone);
    }
}

/// What a claim came to.
pub enum Ready<C: ClaimsTokens> {
    /// Tokens are set aside.
    New(Pending<C>),
    /// The spender has a selection of that request.
    Held(Selection),
}

impl<C: ClaimsTokens> Ready<C> {
    /// What was claimed there at that time.
    pub fn of(claimed: Claimed, claims: &Arc<C>, now: Millis) -> Ready<C> {
        match claimed {
            Claimed::New(claim) => Ready::New(Pending::new(claims, claim, now)),
            Claimed::Held(selection) => Ready::Held(selection),
        }
    }
}

/// A request that waits; called off if its asker goes away before the answer.
struct WaitingRequest<'a, C: ClaimsTokens, N: Fn() -> Millis> {
    claims: &'a C,
    ticket: Option<Ticket>,
    now: &'a N,
}

impl<C: ClaimsTokens, N: Fn() -> Millis> Drop for WaitingRequest<'_, C, N> {
    fn drop(&mut self) {
        if let Some(ticket) = &self.ticket {
            self.claims.selector().call_off(ticket, (self.now)());
        }
    }
}

/// Sets tokens aside, waiting for them until `until`; `waits` is called if that is so. If nobody answers any more, the engine is
/// `ending`.
///
/// # Errors
/// As [`MemorySelector::claim_or_wait`].
pub async fn claim_once<C: ClaimsTokens>(
    claims: &Arc<C>,
    (request, predicate): (&SelectRequest, Option<&Predicate>),
    until: Millis,
    now: impl Fn() -> Millis,
    random: Random,
    waits: impl FnOnce(),
    ending: fn() -> Refusal,
) -> Result<Ready<C>, Refusal> {
    let began = now();
    let mut receive = None;
    let later = || -> ClaimAnswer {
        let (send, answer) = oneshot::channel();
        receive = Some(answer);
        let claims = Arc::clone(claims);
        Box::new(move |outcome: Result<Claimed, Refusal>| {
            // If the asker has gone the claim is dropped here, and undone.
            drop(send.send(outcome.map(|claimed| Ready::of(claimed, &claims, began))));
        })
    };
    let asked = claims.selector().claim_or_wait(request, predicate, until, began, random, later);
    let ticket = match asked {
        Selecting::Answered(outcome) => return outcome.map(|claimed| Ready::of(claimed, claims, began)),
        Selecting::Waits(ticket) => ticket,
    };
    waits();
    let mut waiting = WaitingRequest { claims: &**claims, ticket: Some(ticket), now: &now };
    let outcome = receive.expect("who waits has an answer to wait for").await;
    waiting.ticket = None;
    outcome.unwrap_or_else(|_| Err(ending()))
}
