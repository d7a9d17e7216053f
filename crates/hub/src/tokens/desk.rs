//! What the edges call: claim, have it decided, answer.

use std::sync::Arc;

use holdfast_domain::ids::Millis;
use holdfast_domain::tokens::{SpendTokens, TokenCommand, TokenOutcome, TokenRefusal};
use holdfast_engine::clock::Clock;
use holdfast_engine::{Refusal as EngineRefusal, TokenError};
use holdfast_tokens::{
    Balance, Consolidation, ConsolidationRequest, Counters, Draws, Fingerprint, Fragmentation, Lease,
    LockView, Name, Predicate, Refusal, Scope, SelectRequest, Selection, SpendRequest, Token, TokenId,
    TokenPage, TokenSelector, TokenState, Transaction, check_lease, check_name, check_spend,
};
use tokio::sync::oneshot;

use super::Timer;
use super::claims::{FundingClaim, Judged, Ready, lock_command};
use super::index::TokenIndex;
use crate::intake::Submission;

/// Takes submissions: the intake, without its type.
pub(crate) type Submit = Arc<dyn Fn(Submission) -> Result<(), EngineRefusal> + Send + Sync>;

/// Lets the index see again who holds a token by the log, and tells when it has.
pub(crate) type LookAgain = Arc<dyn Fn(TokenId) -> oneshot::Receiver<()> + Send + Sync>;

/// The vault, for the edges. Cheap to clone.
#[derive(Clone)]
pub struct TokenDesk {
    pub(super) index: Arc<TokenIndex>,
    pub(super) submit: Submit,
    clock: Arc<dyn Clock>,
    pub(super) timer: Arc<Timer>,
    claim_attempts: usize,
    pub(super) look_again: LookAgain,
    draws: Arc<Draws>,
}

impl TokenDesk {
    pub(crate) fn new(
        index: Arc<TokenIndex>,
        submit: Submit,
        clock: Arc<dyn Clock>,
        timer: Arc<Timer>,
        claim_attempts: usize,
        look_again: LookAgain,
    ) -> TokenDesk {
        TokenDesk { index, submit, clock, timer, claim_attempts, look_again, draws: Arc::default() }
    }

    /// The wall clock.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.clock.read().wall
    }

    /// How often tokens are chosen anew at most.
    pub(crate) const fn claim_attempts(&self) -> usize {
        self.claim_attempts
    }

    pub(super) fn draw(&self) -> u64 {
        self.draws.draw()
    }

    /// A UUID that nobody has and nobody can guess.
    #[must_use]
    pub fn new_id(&self) -> u128 {
        self.draws.uuid()
    }

    /// Adds new tokens, all or none.
    ///
    /// # Errors
    /// If one is there already or was consumed, or there is no room.
    pub async fn issue(&self, tokens: Vec<Token>) -> Result<(), TokenError> {
        tokens.iter().try_for_each(Token::check)?;
        let room = self.index.room_for(tokens.len())?;
        let outcome = self.decide(TokenCommand::Issue { tokens }, room).await?;
        match &*outcome {
            TokenOutcome::Issued => Ok(()),
            other => Err(unexpected("", other)),
        }
    }

    /// Chooses and locks tokens, all or nothing; waits up to `wait_ms` for those that others hold.
    ///
    /// # Errors
    /// With true numbers, if there are none to be had.
    pub async fn select(&self, request: SelectRequest, wait_ms: i64) -> Result<Selection, TokenError> {
        self.select_where(request, None, wait_ms).await
    }

    /// The same, among the tokens that pass the predicate.
    ///
    /// # Errors
    /// As [`TokenDesk::select`].
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
                        return Err(stopped());
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

    /// Consumes what the spender has selected; what outputs and redeemed part leave over returns.
    ///
    /// # Errors
    /// If the lease is lost, or the outputs are more than the inputs.
    pub async fn spend(&self, request: SpendRequest) -> Result<Transaction, TokenError> {
        check_spend(&request)?;
        // Change comes on top of the outputs. A repeat holds nothing any more and adds nothing.
        let room = match self.index.selector().held_tokens(&request.spender) {
            0 => self.index.room_for(0)?,
            inputs => self.index.room_for((request.outputs.len() + 1).saturating_sub(inputs))?,
        };
        let spender = request.spender.clone();
        let outcome = self.decide(self.spend_command(request), room).await?;
        match &*outcome {
            TokenOutcome::Spent(row) => Ok(row.transaction.clone()),
            other => Err(unexpected(&spender, other)),
        }
    }

    /// Takes over what happened on an outside ledger, in any order. Returns how many tokens came and went.
    ///
    /// # Errors
    /// If a token is there already and is another one, or a transfer holds a consumed one.
    pub async fn update(
        &self,
        consumed: Vec<TokenId>,
        produced: Vec<Token>,
    ) -> Result<(usize, usize), TokenError> {
        consumed.iter().try_for_each(|id| check_name("a consumed id", id.as_str()))?;
        produced.iter().try_for_each(Token::check)?;
        let room = self.index.room_for(produced.len().saturating_sub(consumed.len()))?;
        let outcome = self.decide(TokenCommand::Update { consumed, produced }, room).await?;
        match &*outcome {
            TokenOutcome::Updated { produced, consumed } => Ok((*produced, *consumed)),
            other => Err(unexpected("", other)),
        }
    }

    /// Brings the small tokens of an owner into few; `None` if that would not leave fewer.
    ///
    /// # Errors
    /// As [`TokenDesk::select`] and [`TokenDesk::spend`].
    pub async fn consolidate(
        &self,
        request: ConsolidationRequest,
    ) -> Result<Option<Transaction>, TokenError> {
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
                        None => Err(stopped()),
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

    /// Moves the end of a live lease to `lease_ms` from now.
    ///
    /// # Errors
    /// If the lease is lost.
    pub async fn renew(&self, spender: Name, fence: Option<u64>, lease_ms: i64) -> Result<Lease, TokenError> {
        check_lease(lease_ms)?;
        check_name("the spender", &spender)?;
        let command = TokenCommand::Renew { spender: spender.clone(), fence, lease_ms };
        match &*self.decide(command, ()).await? {
            TokenOutcome::Renewed { fence, expires_at } => {
                Ok(Lease { expires_at: *expires_at, fence: *fence })
            }
            other => Err(unexpected(&spender, other)),
        }
    }

    /// Frees what a spender has locked; how many tokens that were.
    ///
    /// # Errors
    /// If a transfer holds them.
    pub async fn release(&self, spender: Name, fence: Option<u64>) -> Result<usize, TokenError> {
        check_name("the spender", &spender)?;
        let command = TokenCommand::Unlock { spender: spender.clone(), fence };
        match &*self.decide(command, ()).await? {
            TokenOutcome::Released(count) => Ok(*count),
            other => Err(unexpected(&spender, other)),
        }
    }

    /// What an owner has.
    ///
    /// # Errors
    /// If the index for that kind of owner cannot be built.
    pub fn balance(&self, scope: &Scope) -> Result<Balance, TokenError> {
        Ok(self.index.selector().balance(scope, self.now())?)
    }

    /// How shattered an owner's free tokens are.
    ///
    /// # Errors
    /// As [`TokenDesk::balance`].
    pub fn fragmentation(&self, scope: &Scope) -> Result<Fragmentation, TokenError> {
        Ok(self.index.selector().fragmentation(scope, self.now())?)
    }

    /// The live locks on an owner's tokens; of everybody without a scope.
    ///
    /// # Errors
    /// As [`TokenDesk::balance`].
    pub fn locks(&self, scope: Option<&Scope>) -> Result<Vec<LockView>, TokenError> {
        Ok(self.index.selector().locks(scope, self.now())?)
    }

    /// Answers all who wait: the hub is ending.
    pub fn end_waiting(&self) {
        self.index.end_waiting();
    }

    /// Shows the counters of the index to whoever gathers metrics.
    pub fn publish_metrics(&self) {
        super::meters::publish(&self.index, self.now());
    }

    /// Some of an owner's tokens, after the one given, in an order of the index's own.
    ///
    /// # Errors
    /// As [`TokenDesk::balance`].
    pub fn tokens(
        &self,
        scope: &Scope,
        state: Option<TokenState>,
        after: Option<&TokenId>,
        limit: usize,
    ) -> Result<TokenPage, TokenError> {
        Ok(self.index.selector().tokens(scope, state, after, limit, self.now())?)
    }

    /// What has happened in the index since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.index.selector().counters()
    }

    /// From place `from` on, up to `max` owners with at least `tokens_min` free tokens; and where to look next.
    pub(super) fn fragmented(&self, tokens_min: usize, from: usize, max: usize) -> (Vec<Scope>, usize) {
        self.index.selector().fragmented(tokens_min, from, max)
    }

    fn spend_command(&self, request: SpendRequest) -> TokenCommand {
        let body = request.fingerprint();
        self.spend_under(request, body)
    }

    fn spend_under(&self, request: SpendRequest, body: Fingerprint) -> TokenCommand {
        TokenCommand::Spend(SpendTokens { request, body, transaction: self.new_id() })
    }

    /// What the spender has spent under that content, if it has.
    async fn stored(&self, spender: &Name, body: Fingerprint) -> Result<Option<Transaction>, TokenError> {
        // A fence that no lock has: this spends nothing, it can only be a repeat.
        let mut request = SpendRequest::new(spender.clone(), Vec::new());
        request.fence = Some(u64::MAX);
        let outcome = self.decide(self.spend_under(request, body), ()).await?;
        Ok(match &*outcome {
            TokenOutcome::Spent(row) => Some(row.transaction.clone()),
            _ => None,
        })
    }

    async fn decide(
        &self,
        command: TokenCommand,
        keep: impl Send + 'static,
    ) -> Result<Arc<TokenOutcome>, TokenError> {
        let outcomes = self.decide_all(vec![command], keep).await?;
        outcomes.into_iter().next().ok_or_else(stopped)
    }
}

/// The index was behind the log: others are worth a try.
const fn chooses_anew(refusal: &TokenRefusal) -> bool {
    matches!(refusal, TokenRefusal::Taken(_) | TokenRefusal::Consumed(_) | TokenRefusal::Unknown(_))
}

pub(crate) fn stopped() -> TokenError {
    TokenError::Hub(EngineRefusal::Unknown("the hub stopped".to_owned()))
}

fn unexpected(spender: &str, outcome: &TokenOutcome) -> TokenError {
    match outcome {
        TokenOutcome::Refused(refusal) => refused(spender, refusal),
        _ => stopped(),
    }
}

fn refused(spender: &str, refusal: &TokenRefusal) -> TokenError {
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
