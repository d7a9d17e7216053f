//! A spend: inputs go, outputs and change come, in one step that no reader sees half done.

use std::sync::Arc;

use super::hold::lost;
use super::spenders::{Entry, Held, SpenderState};
use super::{After, MemorySelector};
use crate::answer::Transaction;
use crate::limits::BATCH_TOKENS_MAX;
use crate::refusal::Refusal;
use crate::request::{Output, SpendRequest};
use crate::token::{Kind, Name, Token, check_name};

/// What one issuer's inputs still have to give.
struct IssuerRest {
    /// The kind of that issuer's first input: change is of this kind.
    kind: Arc<Kind>,
    left: u128,
}

/// The tokens a spend produces. Outputs are filled issuer by issuer in the order of the inputs; change is one output per
/// issuer, to the owner of that issuer's first input. The produced ids are the transaction's with `.0`, `.1` and so on. Pure;
/// whether the inputs may be spent, and the request itself ([`check_spend`]), are the caller's to check.
pub fn plan_spend(
    inputs: &[Token],
    request: &SpendRequest,
    transaction: &str,
) -> Result<Vec<Token>, Refusal> {
    let mut rests: Vec<IssuerRest> = Vec::new();
    for token in inputs {
        match rests.iter_mut().find(|rest| rest.kind.issuer == token.kind.issuer) {
            Some(rest) => rest.left += u128::from(token.quantity),
            None => rests.push(IssuerRest { kind: token.kind.clone(), left: u128::from(token.quantity) }),
        }
    }
    let sum: u128 = rests.iter().map(|rest| rest.left).sum();
    let paid: u128 = request.outputs.iter().map(|output| u128::from(output.quantity)).sum();
    let asked = paid + u128::from(request.redeem);
    if asked > sum {
        return Err(Refusal::Invalid(format!("the outputs come to {asked}, the inputs to {sum}")));
    }
    let mut produced = Vec::new();
    let mut produce = |kind: Kind, quantity: u64| {
        let id = format!("{transaction}.{}", produced.len());
        produced.push(Token { id: id.into(), quantity, kind: Arc::new(kind) });
    };
    draw(&mut rests, request.redeem, |_, _| {});
    for output in &request.outputs {
        draw(&mut rests, output.quantity, |kind, quantity| produce(paid_kind(kind, output), quantity));
    }
    for rest in &mut rests {
        while rest.left > 0 {
            let quantity = u64::try_from(rest.left).unwrap_or(u64::MAX);
            rest.left -= u128::from(quantity);
            produce(Kind::clone(&rest.kind), quantity);
        }
    }
    Ok(produced)
}

/// Takes a quantity out of the rests, in order.
fn draw(rests: &mut [IssuerRest], quantity: u64, mut part: impl FnMut(&Kind, u64)) {
    let mut missing = quantity;
    for rest in rests {
        let taken = u64::try_from(rest.left.min(u128::from(missing))).expect("at most what is missing");
        if taken > 0 {
            rest.left -= u128::from(taken);
            missing -= taken;
            part(&rest.kind, taken);
        }
    }
}

fn paid_kind(from: &Kind, output: &Output) -> Kind {
    Kind {
        wallet: output.wallet.clone(),
        external_id: output.external_id.clone(),
        public_key: output.public_key.clone(),
        attributes: (!output.attributes.is_empty()).then(|| Arc::new(output.attributes.clone())),
        ..from.clone()
    }
}

/// Refuses a spend that no selection could carry out.
pub fn check_spend(request: &SpendRequest) -> Result<(), Refusal> {
    check_name("the spender", &request.spender)?;
    if request.outputs.len() > BATCH_TOKENS_MAX {
        return Err(Refusal::Invalid(format!("more than {BATCH_TOKENS_MAX} outputs")));
    }
    if request.outputs.is_empty() && request.redeem == 0 {
        return Err(Refusal::Invalid("a spend without outputs and without a redeemed quantity".into()));
    }
    for output in &request.outputs {
        check_name("the wallet of an output", &output.wallet)?;
        if output.quantity == 0 {
            return Err(Refusal::Invalid(format!("an output of 0 to {}", output.wallet)));
        }
        for name in [&output.external_id, &output.public_key].into_iter().flatten() {
            check_name("a name of an output", name)?;
        }
    }
    Ok(())
}

impl MemorySelector {
    pub(crate) fn spend_inner(&self, request: &SpendRequest, now: i64) -> Result<Transaction, Refusal> {
        check_spend(request)?;
        let body = request.fingerprint();
        let spender = &request.spender;
        self.then_finish(now, |after| {
            let mut entries = self.spenders.entries(spender);
            let held = match entries.find(spender) {
                None => return Err(lost(spender, "it holds nothing")),
                Some(entry) => match &entry.state {
                    SpenderState::Spent(done) if entry.body == body => return Ok(Transaction::clone(done)),
                    SpenderState::Spent(_) => {
                        let reason = "it has spent to other outputs";
                        return Err(Refusal::SpenderInUse { spender: spender.clone(), reason });
                    }
                    SpenderState::Held(held) if held.terms.pending => {
                        return Err(lost(spender, "its claim is not confirmed"));
                    }
                    SpenderState::Held(held) => Held::clone(held),
                },
            };
            if request.fence.is_some_and(|fence| fence != held.terms.fence) {
                return Err(lost(spender, "the fence is of another selection"));
            }
            let id: Name = format!("{spender}#{}", held.terms.fence).into();
            let produced = plan_spend(&held.tokens, request, &id).or_else(|refusal| {
                // Who has lost its lease hears that first.
                let mut stripes = self.stripes(Self::part_stripes(&held));
                self.check_live(&mut stripes, spender, &held, now).and(Err(refusal))
            })?;
            let consumed = held.tokens.iter().map(|token| token.id.clone()).collect();
            let mut transaction = Transaction { id, spender: spender.clone(), consumed, produced };
            self.settle(&held, &mut transaction, now, after)?;
            let state = SpenderState::Spent(Arc::new(transaction.clone()));
            entries.put(Entry { spender: spender.clone(), body, state });
            Ok(transaction)
        })
    }

    /// Exchanges a lock's tokens for the produced ones, or changes nothing.
    fn settle(
        &self,
        held: &Held,
        transaction: &mut Transaction,
        now: i64,
        after: &mut After,
    ) -> Result<(), Refusal> {
        let mut numbers = Self::part_stripes(held);
        numbers.extend(transaction.produced.iter().map(|token| self.stripe_of(&token.kind)));
        let mut stripes = self.stripes(numbers);
        self.check_live(&mut stripes, &transaction.spender, held, now)?;
        self.insert_all(&mut stripes, &mut transaction.produced, held.tokens.len(), after)?;
        for (stripe, number) in held.parts.all() {
            let stripe = stripes.get(*stripe);
            let lock = stripe.take_lock(*number);
            for slot in lock.slots.all() {
                self.remove_token(stripe, *slot);
            }
        }
        // What was locked is gone: a waiter who counted on it must hear of that.
        held.tokens.iter().for_each(|token| self.note_freed(&token.kind, after));
        Ok(())
    }
}
