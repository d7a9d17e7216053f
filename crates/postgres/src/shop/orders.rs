//! The topic `orders`: check out, cancel, retry. What is decided is what an embedded shop decides whose two sides are outside:
//! the order moves and the sides are asked, by messages that leave with the step. Their answers come by `outcomes`.

use std::collections::BTreeSet;

use holdfast_domain::command::Command;
use holdfast_domain::effects::Effects;
use holdfast_domain::shop::{CheckoutAnswer, OrderId, OrderState, ShopOutcome, Why};
use holdfast_domain::tokens::Name;
use holdfast_domain::{FrameInput, decide};
use holdfast_messages::{
    CheckoutNotice, CheckoutRefusal, Notice, Notification, OrderCommand, OrderMessage, TraceId,
};

use super::load::{self, Lock};
use super::rows::ShopRows;
use super::{outside, report, write};
use crate::batch::{Batch, Begun, Done, Step};
use crate::load::Loader;
use crate::loaded::Loaded;
use crate::session::{Point, Store};
use crate::write::{Besides, Writer};
use crate::{Claim, Error};

impl Store {
    /// Decides a batch of commands about orders. Each is answered by a notification under its trace; a checkout that is open
    /// then gets a second one, without trace, when it comes to its end.
    ///
    /// # Errors
    /// As [`Store::transfers`].
    pub fn orders(&mut self, claim: &Claim, batch: &Batch<'_, OrderMessage>) -> Result<Step, Error> {
        self.run(claim, batch, attempt)
    }
}

fn attempt(
    store: &mut Store,
    claim: &Claim,
    batch: &Batch<'_, OrderMessage>,
    verdict: Option<&str>,
) -> Result<Step, Error> {
    let Some(Begun { mut tx, guard, statements, settings, watch, .. }) = store.begin(claim, batch.from)?
    else {
        return Ok(Step::Fenced);
    };
    let mut besides = Besides::default();
    let asked = besides.sort_out(claim.source, batch.messages, verdict);

    let mut loaded = Loaded::default();
    let orders: BTreeSet<&OrderId> = asked.iter().map(|(_, message)| &message.order).collect();
    load::orders(&mut tx, statements, &mut loaded.shop, orders, Lock::Wait)?;
    load::keys(&mut tx, statements, &mut loaded.shop, asked.iter().filter_map(|(_, message)| key(message)))?;
    let now = Loader::new(&mut tx, statements).clock()?;
    watch.reached(Point::Loaded);

    let mut repeats = 0;
    let (answered, asked): (Vec<_>, Vec<_>) =
        asked.into_iter().partition(|(_, message)| answer_known(&loaded.shop, message).is_some());
    let commands: Vec<Command> =
        asked.iter().map(|(_, message)| Command::Shop(Box::new(message.shop_command()))).collect();
    let frame = FrameInput { base_offset: batch.from, time: now, order: settings.order, commands: &commands };
    let effects = decide(&loaded, &frame);
    besides.say_all(&effects);
    for (_, message) in answered {
        let answer = answer_known(&loaded.shop, message).expect("its answer is known");
        repeats += usize::from(answer.is_ok());
        besides.tell(message, answer);
    }
    for ((_, message), outcome) in asked.iter().zip(&effects.outcomes) {
        let outcome = outcome.shop.as_deref().expect("a command about the shop is answered");
        repeats += usize::from(matches!(outcome, ShopOutcome::Checkout(CheckoutAnswer::AlreadyPaid { .. })));
        loaded.shop.note_start(message, outcome);
        besides.tell(message, answer(outcome));
    }
    report(&effects.shop_alarms);
    watch.reached(Point::Decided);

    effects.apply(now, &mut loaded);
    write::write(&mut tx, statements, &loaded.shop, settings, now)?;
    outside::mark(&mut tx, statements, &loaded.shop.began, settings.serving())?;
    let mut writer = Writer { tx: &mut tx, statements, watch, now, shards: settings.expiry_shards };
    let none = Effects::default();
    let guard = writer.write(guard, batch.next, Loaded::default(), &none, &besides, batch.sent)?;
    tx.commit()?;
    watch.reached(Point::Committed);
    Ok(Step::Done(Done { alarms: effects.shop_alarms, repeats, ..Done::of(batch, besides, &guard, now) }))
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
fn answer_known(rows: &ShopRows, message: &OrderMessage) -> Option<Result<CheckoutAnswer, CheckoutRefusal>> {
    answered_before(rows, message).or_else(|| about_another_try(rows, message).map(Err))
}

/// The refusal of a command that ends another try than the one that waits. What is asked before it in the same batch begins no
/// try while that one is not over, and ends none without the answers of its sides: so the row tells, as it was loaded.
fn about_another_try(rows: &ShopRows, message: &OrderMessage) -> Option<CheckoutRefusal> {
    let OrderCommand::Cancel { tr: Some(tr) } = message.command else { return None };
    let state = rows.order_row(&message.order)?.order.state;
    (state != OrderState::Pending(tr)).then_some(CheckoutRefusal::NotNow(state))
}

/// The answer to a command that comes again after the try that it began has failed. Decided anew it would begin another, and
/// nobody has asked for that.
fn answered_before(
    rows: &ShopRows,
    message: &OrderMessage,
) -> Option<Result<CheckoutAnswer, CheckoutRefusal>> {
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

fn answer(outcome: &ShopOutcome) -> Result<CheckoutAnswer, CheckoutRefusal> {
    match outcome {
        ShopOutcome::Checkout(answer) => Ok(*answer),
        ShopOutcome::Refused(refusal) => Err(CheckoutRefusal::of(refusal)),
        other => unreachable!("a command about an order is answered by how it stands, not by {other:?}"),
    }
}

impl Besides<'_> {
    /// Tells whoever asked.
    fn tell(&mut self, message: &OrderMessage, answer: Result<CheckoutAnswer, CheckoutRefusal>) {
        let notice = Notice::Checkout(CheckoutNotice { order: message.order.clone(), answer });
        self.send(&Notification { trace: message.trace, to: None, notice });
    }
}
