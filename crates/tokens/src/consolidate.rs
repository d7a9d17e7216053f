//! Bringing a shattered wallet back to few tokens: many small inputs into N outputs. Never into one by default, because
//! each output can be locked by one spender only.

use std::time::Duration;

use crate::answer::{Selection, Transaction};
use crate::contract::TokenSelector;
use crate::fingerprint::{Canonical, Fingerprint};
use crate::limits::{BATCH_TOKENS_MAX, CONSOLIDATE_INPUTS_DEFAULT, CONSOLIDATE_LEASE_MS, LEASE_MS_DEFAULT};
use crate::memory::MemorySelector;
use crate::random::Random;
use crate::refusal::Refusal;
use crate::request::{Output, Policy, Predicate, Scope, SelectRequest, SpendRequest};
use crate::token::{Kind, Name, Token};

/// When a wallet is shattered, and what is done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsolidationOptions {
    /// Between two looks.
    pub every: Duration,
    /// Wallets with fewer free tokens are left alone.
    pub tokens_min: usize,
    /// Tokens that are left: as many payments can go on side by side.
    pub outputs: usize,
    /// Tokens that are taken at most.
    pub inputs_max: usize,
}

impl ConsolidationOptions {
    /// What is asked for a shattered wallet that nobody asked about. Whoever pays meanwhile must find enough, so at most half
    /// of the tokens that make it shattered are taken, the smallest, and for seconds if whoever took them dies. Tokens that
    /// are also somebody's by another name, or have attributes, are left as they are.
    #[must_use]
    pub fn request(&self, spender: impl Into<Name>, scope: Scope) -> ConsolidationRequest {
        let half = (self.tokens_min / 2).max(self.outputs.saturating_add(1));
        ConsolidationRequest {
            max_inputs: self.inputs_max.min(half),
            lease_ms: CONSOLIDATE_LEASE_MS,
            plain_only: true,
            ..ConsolidationRequest::new(spender, scope, self.outputs)
        }
    }
}

/// What to bring together, and into how many tokens.
#[derive(Clone, Debug)]
pub struct ConsolidationRequest {
    /// For whom the inputs are locked.
    pub spender: Name,
    /// Whose tokens.
    pub scope: Scope,
    /// Into how many outputs.
    pub outputs: usize,
    /// Most inputs.
    pub max_inputs: usize,
    /// Only tokens of at most this quantity.
    pub quantity_max: u64,
    /// For how long the inputs are locked.
    pub lease_ms: i64,
    /// Only tokens without external id, public key and attributes: all others are somebody's in particular.
    pub plain_only: bool,
}

impl ConsolidationRequest {
    /// The smallest tokens of a scope into `outputs` tokens.
    #[must_use]
    pub fn new(spender: impl Into<Name>, scope: Scope, outputs: usize) -> Self {
        ConsolidationRequest {
            spender: spender.into(),
            scope,
            outputs,
            max_inputs: CONSOLIDATE_INPUTS_DEFAULT,
            quantity_max: u64::MAX,
            lease_ms: LEASE_MS_DEFAULT,
            plain_only: false,
        }
    }

    /// Refuses what no consolidation can do. The select it leads to has its own check.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.outputs == 0 || self.outputs > BATCH_TOKENS_MAX {
            let what =
                format!("a consolidation into {} outputs; ask for 1 to {BATCH_TOKENS_MAX}", self.outputs);
            return Err(Refusal::Invalid(what));
        }
        Ok(())
    }
}

/// A consolidation ready to be spent.
#[derive(Clone, Debug)]
pub struct Consolidation {
    /// The inputs, locked.
    pub selection: Selection,
    /// The spend that carries it out.
    pub spend: SpendRequest,
}

impl Consolidation {
    /// Locks the smallest tokens and plans their spend into equal outputs. `None`, with nothing locked, if that would not
    /// leave fewer tokens than before.
    pub fn plan<S: TokenSelector + ?Sized>(
        selector: &S,
        request: &ConsolidationRequest,
        now: i64,
        random: &mut Random,
    ) -> Result<Option<Self>, Refusal> {
        request.check()?;
        let (select, small) = Self::select_request(request);
        let selection = match selector.select_where(&select, small.as_ref(), now, random) {
            Ok(selection) => selection,
            Err(Refusal::InsufficientFunds(_) | Refusal::FundsLocked(_)) => return Ok(None),
            Err(refusal) => return Err(refusal),
        };
        match Self::spend_of(request, &selection.tokens, selection.sum, Some(selection.fence)) {
            Some(spend) => Ok(Some(Consolidation { selection, spend })),
            None => {
                selector.release(&request.spender, Some(selection.fence), now)?;
                Ok(None)
            }
        }
    }

    /// The select that gathers the inputs, for a host that claims and journals by itself. `insufficient-funds` and
    /// `funds-locked` in answer to it mean that there is nothing to gather now. See [`ConsolidationRequest::check`] first.
    #[must_use]
    pub fn select_request(request: &ConsolidationRequest) -> (SelectRequest, Option<Predicate>) {
        let mut select = SelectRequest::new(request.spender.clone(), request.scope.clone(), 1);
        select.policy = Policy::Consolidate;
        select.max_inputs = Some(request.max_inputs);
        select.lease_ms = request.lease_ms;
        let (quantity_max, plain_only) = (request.quantity_max, request.plain_only);
        let fits = move |token: &Token| {
            token.quantity <= quantity_max && (!plain_only || is_of_its_wallet_alone(&token.kind))
        };
        let small: Option<Predicate> =
            (quantity_max < u64::MAX || plain_only).then(|| -> Predicate { std::sync::Arc::new(fits) });
        (select, small)
    }

    /// What is asked for, as a number: knows a repeat again, whatever inputs it would find by then.
    #[must_use]
    pub fn fingerprint(request: &ConsolidationRequest) -> Fingerprint {
        let (select, _) = Consolidation::select_request(request);
        let mut bytes = Canonical::new(b"consolidate");
        let Fingerprint(content) = select.fingerprint();
        for part in content.to_le_bytes() {
            bytes.choice(part);
        }
        bytes.count(request.outputs);
        bytes.number(request.quantity_max);
        bytes.fingerprint()
    }

    /// The spend of what was gathered into equal outputs, to the owner of the first input. `None` if that would not leave
    /// fewer tokens than before: give the inputs back.
    #[must_use]
    pub fn spend_of(
        request: &ConsolidationRequest,
        tokens: &[Token],
        sum: u128,
        fence: Option<u64>,
    ) -> Option<SpendRequest> {
        let owner = &tokens.first()?.kind;
        let quantities = equal_parts(sum, request.outputs.max(1));
        let mut issuers: Vec<&Option<Name>> = tokens.iter().map(|token| &token.kind.issuer).collect();
        issuers.sort_unstable();
        issuers.dedup();
        // Each further issuer can split one output in two.
        if tokens.len() < quantities.len() + issuers.len() {
            return None;
        }
        let output = |quantity: u64| Output {
            wallet: owner.wallet.clone(),
            external_id: owner.external_id.clone(),
            public_key: owner.public_key.clone(),
            quantity,
            attributes: owner.attributes.as_deref().cloned().unwrap_or_default(),
        };
        let outputs = quantities.into_iter().map(output).collect();
        let mut spend = SpendRequest::new(request.spender.clone(), outputs);
        spend.fence = fence;
        Some(spend)
    }

    /// Plans and spends in one go.
    pub fn run<S: TokenSelector + ?Sized>(
        selector: &S,
        request: &ConsolidationRequest,
        now: i64,
        random: &mut Random,
    ) -> Result<Option<Transaction>, Refusal> {
        match Self::plan(selector, request, now, random)? {
            Some(plan) => selector.spend(&plan.spend, now).map(Some),
            None => Ok(None),
        }
    }
}

fn is_of_its_wallet_alone(kind: &Kind) -> bool {
    kind.external_id.is_none() && kind.public_key.is_none() && kind.attributes.is_none()
}

/// A sum in parts that differ by at most one, none of them 0 or more than a token can hold.
fn equal_parts(sum: u128, parts: usize) -> Vec<u64> {
    let fewest = sum.div_ceil(u128::from(u64::MAX));
    let parts = u128::try_from(parts).expect("a usize fits").min(sum).max(fewest);
    let (part, larger) = (sum / parts, sum % parts);
    let sizes = (0..parts).map(|place| part + u128::from(place < larger));
    sizes.map(|size| u64::try_from(size).expect("there are parts enough")).collect()
}

/// A job that looks for shattered wallets and consolidates them, a little at each step. The host calls
/// [`ConsolidationJob::step`] as often as it likes.
#[derive(Clone, Debug)]
pub struct ConsolidationJob {
    /// Wallets with fewer free tokens are left alone.
    pub tokens_min: usize,
    /// Into how many outputs.
    pub outputs: usize,
    /// Most inputs of one consolidation.
    pub max_inputs: usize,
    /// Only tokens of at most this quantity.
    pub quantity_max: u64,
    /// Most wallets per step.
    pub wallets_per_step: usize,
    /// Begins the names of its spenders.
    pub name: Name,
    next_stripe: usize,
    done: u64,
}

/// What one step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsolidationReport {
    /// Wallets consolidated.
    pub wallets: usize,
    /// Tokens consumed.
    pub inputs: usize,
    /// Tokens produced.
    pub outputs: usize,
}

impl ConsolidationJob {
    /// A job with careful limits. The name must be new with each start of the program: it begins the spenders' names.
    #[must_use]
    pub fn new(name: impl Into<Name>) -> Self {
        ConsolidationJob {
            tokens_min: 1_000,
            outputs: 8,
            max_inputs: 256,
            quantity_max: u64::MAX,
            wallets_per_step: 16,
            name: name.into(),
            next_stripe: 0,
            done: 0,
        }
    }

    /// Consolidates the next shattered wallets. A wallet whose tokens are needed elsewhere is passed over.
    pub fn step(
        &mut self,
        selector: &MemorySelector,
        now: i64,
        random: &mut Random,
    ) -> Result<ConsolidationReport, Refusal> {
        let (scopes, next) = selector.fragmented(self.tokens_min, self.next_stripe, self.wallets_per_step);
        self.next_stripe = next;
        let mut report = ConsolidationReport::default();
        for scope in scopes.into_iter().take(self.wallets_per_step) {
            self.done += 1;
            let spender = format!("{}-{}", self.name, self.done);
            let mut request = ConsolidationRequest::new(spender, scope, self.outputs);
            request.max_inputs = self.max_inputs;
            request.quantity_max = self.quantity_max;
            if let Some(transaction) = Consolidation::run(selector, &request, now, random)? {
                report.wallets += 1;
                report.inputs += transaction.consumed.len();
                report.outputs += transaction.produced.len();
            }
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::equal_parts;

    #[test]
    fn parts_are_equal_and_complete() {
        assert_eq!(equal_parts(10, 3), [4, 3, 3]);
        assert_eq!(equal_parts(2, 5), [1, 1]);
        let huge = u128::from(u64::MAX) * 3;
        assert_eq!(equal_parts(huge, 1), [u64::MAX; 3]);
    }
}
