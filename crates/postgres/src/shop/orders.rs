//! The topic `orders`: check out, cancel, retry. What is decided is what an embedded shop decides whose two sides are outside:
//! the order moves and the sides are asked, by messages that leave with the step. Their answers come by `outcomes`.

use std::collections::BTreeSet;

use holdfast_domain::shop::{
    CheckoutAnswer, OrderId, OrderState, ShopCommand, ShopOutcome, ShopRefusal, Why, decide_asked,
};
use holdfast_domain::tokens::Name;
use holdfast_messages::{CheckoutNotice, Notice, Notification, OrderCommand, OrderMessage, TraceId};

use super::load::Lock;
use super::rows::ShopRows;
use crate::batch::{Batch, Reading};
use crate::outbox::Outbox;
use crate::session::{Settings, Store};
use crate::step::{Decided, Locked, Opened, Step, Work};
use crate::{Claim, Error};

impl Store {
    /// Decides a batch of commands about orders. Each is answered by a notification under its trace; a checkout that is open
    /// then gets a second one, without trace, when it comes to its end.
    ///
    /// # Errors
    /// As [`Store::transfers`].
    pub fn orders(&mut self, claim: &Claim, batch: &Batch<'_, OrderMessage>) -> Result<Step, Error> {
        self.run(claim, batch, |store, part| part.step(store, Orders(part.read())))
    }
}

struct Orders<'p, 'm>(Reading<'p, 'm, OrderMessage>);

impl<'m> Work<'m> for Orders<'_, 'm> {
    type Known = Locked;
    type Rows = ();

    fn load(&mut self, step: &mut Opened<'_>) -> Result<Locked, Error> {
        let asked = &self.0.messages;
        let orders: BTreeSet<&OrderId> = asked.iter().map(|(_, message)| &message.order).collect();
        let keys = asked.iter().filter_map(|(_, message)| key(message));
        let mut loader = step.loader();
        loader.orders(orders, Lock::Wait)?;
        loader.keys(keys)?;
        loader.finish()
    }

    fn decide(self, (mut loaded, now): Locked, _: &Settings) -> Option<Decided<'m, Self::Rows>> {
        let Reading { part, messages: asked, mut outbox } = self.0;
        let (answered, asked): (Vec<_>, Vec<_>) =
            asked.into_iter().partition(|(_, message)| answer_known(&loaded.shop, message).is_some());
        let commands: Vec<ShopCommand> = asked.iter().map(|(_, message)| message.shop_command()).collect();
        let mut effects = decide_asked(&loaded.shop, (now, part.batch.from), &commands);
        outbox.say_all(&effects);
        let mut repeats = 0;
        for (_, message) in answered {
            let answer = answer_known(&loaded.shop, message).expect("its answer is known");
            repeats += usize::from(answer.is_ok());
            outbox.tell(message, answer);
        }
        for ((_, message), outcome) in asked.iter().zip(effects.all(|step| &step.outcomes)) {
            let outcome = outcome.shop.as_deref().expect("a command about the shop is answered");
            repeats +=
                usize::from(matches!(outcome, ShopOutcome::Checkout(CheckoutAnswer::AlreadyPaid { .. })));
            loaded.shop.note_start(message, outcome);
            outbox.tell(message, answer(outcome));
        }
        let mut decided = part.decided(now, outbox, ());
        (decided.done.alarms, decided.done.repeats) = (effects.take(|step| &mut step.shop_alarms), repeats);
        Some(Decided { loaded, effects, ..decided })
    }
}

const fn key(message: &OrderMessage) -> Option<&Name> {
    match &message.command {
        OrderCommand::Checkout { key: Some(key), .. } => Some(&key.key),
        OrderCommand::Checkout { key: None, .. }
        | OrderCommand::Cancel { .. }
        | OrderCommand::Retry { .. } => None,
    }
}

/// The answer to a command that is not to be decided.
fn answer_known(rows: &ShopRows, message: &OrderMessage) -> Option<Result<CheckoutAnswer, ShopRefusal>> {
    answered_before(rows, message).or_else(|| about_another_try(rows, message).map(Err))
}

/// The refusal of a command that ends another try than the one that waits. What is asked before it in the same batch begins no
/// try while that one is not over, and ends none without the answers of its sides: so the row tells, as it was loaded.
fn about_another_try(rows: &ShopRows, message: &OrderMessage) -> Option<ShopRefusal> {
    let OrderCommand::Cancel { tr: Some(tr) } = message.command else { return None };
    let state = rows.order_row(&message.order)?.order.state;
    let order = message.order.clone();
    (state != OrderState::Pending(tr)).then_some(ShopRefusal::NotNow { order, state })
}

/// The answer to a command that comes again after the try that it began has failed. Decided anew it would begin another, and
/// nobody has asked for that.
fn answered_before(rows: &ShopRows, message: &OrderMessage) -> Option<Result<CheckoutAnswer, ShopRefusal>> {
    let row = rows.order_row(&message.order)?;
    let began = rows.started_by.get(&message.order).filter(|trace| **trace != TraceId::NOBODY)?;
    let OrderState::NotPaid(Some(tr)) = row.order.state else { return None };
    let is_repeat = *began == message.trace && !row.is_of_an_earlier(tr);
    is_repeat.then_some(Ok(CheckoutAnswer::Failed { tr, why: row.failed.unwrap_or(Why::Cancelled) }))
}

impl ShopRows {
    /// Remembers which command began a try.
    fn note_start(&mut self, message: &OrderMessage, outcome: &ShopOutcome) {
        let last = self.order_row(&message.order).and_then(|row| row.order.state.tr_num());
        if let ShopOutcome::Checkout(CheckoutAnswer::Open { tr, .. }) = outcome
            && last < Some(*tr)
            && self.began.insert((message.order.clone(), *tr))
        {
            self.started_by.insert(message.order.clone(), message.trace);
        }
    }
}

fn answer(outcome: &ShopOutcome) -> Result<CheckoutAnswer, ShopRefusal> {
    match outcome {
        ShopOutcome::Checkout(answer) => Ok(*answer),
        ShopOutcome::Refused(refusal) => Err(refusal.clone()),
        other => unreachable!("a command about an order is answered by how it stands, not by {other:?}"),
    }
}

impl Outbox<'_> {
    /// Tells whoever asked.
    fn tell(&mut self, message: &OrderMessage, answer: Result<CheckoutAnswer, ShopRefusal>) {
        let notice = Notice::Checkout(CheckoutNotice { order: message.order.clone(), answer });
        self.send(&Notification { trace: message.trace, notice });
    }
}
