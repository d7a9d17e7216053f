//! The messages of one try, handed on until none is left: to the participants that are inside, from them to the coordinator,
//! and from it back. Always in the order in which they were sent.

use std::collections::VecDeque;
use std::sync::Arc;

use holdfast_checkout::coordinator::{self, Record, Saga, Said as Heard, Stage, single};
use holdfast_checkout::order::{Moved, Undo};
use holdfast_checkout::participant::{self, Books, Branch, Forward, Pay, Stock};

use super::charge::{Charge, Charger, Means};
use super::hold::ChosenTokens;
use super::{
    Answer, AskedStep, Body, CheckoutAnswer, CheckoutEnd, CheckoutRow, ItemId, Items, KeyRow, Message, Name,
    Order, OrderRow, OrderState, Payment, ShopEffect, ShopMessage, ShopRefusal, SideBranch, SideRow,
    SideSaid, Sides, Topic, TryKey, UserId, Whole, Why,
};
use crate::effects::Step;
use crate::ids::Millis;
use crate::planted::{self, Bug};
use crate::view::{self, Payments, Shop, ShopSettings, Users};

/// When and where: the frame's time, and the record's place in the log.
pub(super) type At = (Millis, u64);

/// The rows by which a payment side pays that may be inside, and how it does.
pub(super) trait Paying: Payments + ShopSettings {}

impl<V: Payments + ShopSettings> Paying for V {}

/// What every decision about checkouts has before it: the rows, and when and where it is taken.
pub(super) struct Deciding<'v, V> {
    pub(super) view: &'v V,
    /// Not there where the payment side is outside for good, and the stock side too: both are asked, and nothing is charged here.
    pub(super) paying: Option<&'v dyn Paying>,
    pub(super) at: At,
}

impl<V> Deciding<'_, V> {
    /// Which sides are outside of a try that begins.
    pub(super) fn outside(&self) -> Sides {
        self.paying.map_or(Sides::BOTH, |view| view.outside())
    }

    /// How a try that begins is to be charged, if not by credit, and by what. Refused if tokens are to be chosen anew.
    fn means(
        &self,
        payment: &Payment,
        key: &TryKey,
        chosen: Option<&ChosenTokens>,
    ) -> Result<Option<(Means, Charge)>, ShopRefusal> {
        match self.paying.filter(|view| !view.outside().pay) {
            Some(view) => Means::of(&view.charging(), view, self.at, payment, key, chosen),
            None => Ok(None),
        }
    }
}

/// One try while its messages are handed on.
pub(super) struct TryRun<'v, V> {
    by: &'v Deciding<'v, V>,
    order: Order,
    /// What the order was before.
    before: OrderState,
    failed_before: Option<Why>,
    /// The open row, if the try was open before.
    open_before: Option<&'v Arc<CheckoutRow>>,
    /// The row as it was, or of a try that begins. What its sides have said is in the saga and the branches meanwhile.
    row: CheckoutRow,
    slot: Option<Saga>,
    pay: Option<Branch<Payment>>,
    stock: Option<Branch<Items>>,
    /// What the user has now, if it was changed.
    credit: Option<Whole>,
    /// What there is now of the items that were changed.
    stocks: Vec<(ItemId, Whole)>,
    /// How it is to be charged, if it begins here and not by credit.
    means: Option<Means>,
    /// What transfer or tokens cover: the amount once it is reserved.
    cover: Whole,
    queue: VecDeque<Message>,
}

impl<'v, V: Shop> TryRun<'v, V> {
    /// A try that begins with this move of the order. Refused if the tokens to pay with must be chosen anew.
    pub(super) fn start(
        by: &'v Deciding<'v, V>,
        row: &OrderRow,
        moved: Moved,
        deadline_ms: u32,
        chosen: Option<&ChosenTokens>,
    ) -> Result<TryRun<'v, V>, ShopRefusal> {
        let (now, start) = by.at;
        let tr = moved.order.state.tr_num().expect("a try that begins has its number");
        let (payment, key) = (moved.order.payment(), moved.order.key(tr));
        let (means, charge) = by.means(&payment, &key, chosen)?.unzip();
        let begun = CheckoutRow {
            order: key.order_id,
            tr,
            start,
            started_at: now,
            deadline: now.saturating_add(i64::from(deadline_ms)),
            outside: by.outside(),
            pay: SideRow::default(),
            stock: SideRow::default(),
            undo: None,
            why: None,
            waits_since: now,
            keys: Vec::new(),
            charge,
        };
        let mut run = TryRun::of(by, row, begun, moved.order);
        (run.means, run.queue) = (means, moved.sent.into());
        Ok(run)
    }

    /// A try that is open.
    pub(super) fn resume(
        by: &'v Deciding<'v, V>,
        order: &OrderRow,
        open: &'v Arc<CheckoutRow>,
    ) -> TryRun<'v, V> {
        let run = TryRun::of(by, order, CheckoutRow::clone(open), order.order.clone());
        TryRun { open_before: Some(open), ..run }
    }

    /// The try of that row, of an order that stood so before and stands so now.
    fn of(by: &'v Deciding<'v, V>, before: &OrderRow, row: CheckoutRow, order: Order) -> TryRun<'v, V> {
        TryRun {
            by,
            before: before.order.state,
            failed_before: before.failed,
            open_before: None,
            slot: saga_of(&row, &order),
            pay: row.pay.branch.map(|branch| branch_of(branch, || order.payment())),
            stock: row.stock.branch.map(|branch| branch_of(branch, || order.items.merged())),
            credit: None,
            stocks: Vec::new(),
            means: None,
            cover: Whole::ZERO,
            queue: VecDeque::new(),
            row,
            order,
        }
    }

    fn key(&self) -> TryKey {
        self.order.key(self.row.tr)
    }

    /// Hands a message in.
    pub(super) fn send(&mut self, message: Message) {
        self.queue.push_back(message);
    }

    /// Ends a try that is not decided.
    pub(super) fn cancel(&mut self, why: Why, effects: &mut Step) {
        let key = self.key();
        // A refusal that is known says more than that the other side was silent.
        let refused = self.slot.as_ref().and_then(why_of).filter(|_| why == Why::Deadline);
        if planted::has(Bug::DecidedTwice) {
            self.order.state = OrderState::Pending(self.row.tr);
        }
        if planted::has(Bug::ForgottenTaker) && why == Why::Deadline {
            self.slot.iter_mut().for_each(forget_takers);
        }
        let did = single::cancel(&mut self.slot, &self.order, &key);
        self.row.why.get_or_insert_with(|| refused.unwrap_or(why));
        self.take_in(did, effects);
    }

    /// Sends again what was not answered.
    pub(super) fn retry(&mut self, effects: &mut Step) {
        let did = single::retry(self.slot.as_ref(), &self.order, &self.key());
        self.take_in(did, effects);
    }

    fn take_in(&mut self, did: coordinator::Effects, effects: &mut Step) {
        self.queue.extend(did.sent);
        effects.shop_alarms.extend(did.alarms);
        if let Some(order) = did.orders.into_iter().next() {
            let fails = !matches!(order.state, OrderState::Paid(_));
            if fails && self.row.why.is_none() {
                self.row.why = self.slot.as_ref().and_then(why_of);
            }
            self.order = order;
        }
    }

    /// Hands messages on until none is left.
    pub(super) fn pump(&mut self, effects: &mut Step) {
        while let Some(message) = self.queue.pop_front() {
            let (outside, message) = match message.body.topic() {
                Topic::Pay => {
                    if !self.row.outside.pay {
                        self.reserve(&message, effects);
                        let held = holds(self.pay.as_ref());
                        let mut did = participant::handle::<Pay>(self, &message);
                        if planted::has(Bug::GivenBackTwice)
                            && matches!(message.body, Body::Pay(AskedStep::Rollback(_)))
                        {
                            self.credit = did.balances.pop().map(|(_, credit)| credit).or(self.credit);
                            did = participant::handle::<Pay>(self, &message);
                        }
                        self.pay = did.branch.map(|(_, branch)| branch).or_else(|| self.pay.take());
                        self.credit =
                            did.balances.into_iter().next().map(|(_, credit)| credit).or(self.credit);
                        self.queue.extend(did.sent);
                        effects.shop_alarms.extend(did.alarms);
                        if held && !holds(self.pay.as_ref()) {
                            self.release(effects);
                        }
                    }
                    (self.row.outside.pay, message)
                }
                Topic::Stock => {
                    if !self.row.outside.stock {
                        let did = participant::handle::<Stock>(self, &message);
                        self.stock = did.branch.map(|(_, branch)| branch).or_else(|| self.stock.take());
                        if !did.balances.is_empty() {
                            // A try moves the same items each time, so the newest balances are all there are.
                            self.stocks = did.balances;
                        }
                        self.queue.extend(did.sent);
                        effects.shop_alarms.extend(did.alarms);
                    }
                    (self.row.outside.stock, message)
                }
                Topic::Outcomes => {
                    let settles = self.completes(&message);
                    let settled = settles && self.settle(effects);
                    if settles && !settled {
                        // It ran out, or its payee has ended it: the order fails before it could be paid.
                        self.cancel(Why::Pay, effects);
                    }
                    let record = Record { offset: self.row.start, message };
                    let did = single::handle(&mut self.slot, &self.order, &record);
                    self.take_in(did, effects);
                    let is_paid = matches!(self.order.state, OrderState::Paid(_));
                    assert!(!settled || is_paid, "{} is charged and not paid", self.order.order_id);
                    (false, record.message)
                }
            };
            effects.shop_messages.push(ShopMessage { offset: self.by.at.1, outside, message });
        }
    }

    fn charger(&self) -> Option<Charger<'v>> {
        let (view, charge) = self.by.paying.zip(self.row.charge)?;
        Some(Charger { view, at: self.by.at, charge })
    }

    /// Has the transfer prepared, or the tokens locked, when `pay` comes for the first time. The payment side then takes what is
    /// covered.
    fn reserve(&mut self, message: &Message, effects: &mut Step) {
        let is_first = self.pay.is_none() && matches!(message.body, Body::Pay(AskedStep::Forward(_)));
        let Some(means) = self.means.take_if(|_| is_first) else { return };
        let Some(charger) = self.charger() else { return };
        if charger.prepare(&means, &self.order.payment(), self.row.deadline, effects) {
            self.cover = self.order.amount;
        }
    }

    /// What was taken is given back.
    fn release(&mut self, effects: &mut Step) {
        if planted::has(Bug::KeptHold) && self.row.why == Some(Why::Deadline) {
            return;
        }
        if let Some(charger) = self.charger() {
            charger.abort(self.order.amount, effects);
        }
    }

    /// Whether the message is the second of two successes, and a transfer or tokens are to be settled before they count.
    fn completes(&self, message: &Message) -> bool {
        let is_open = self.row.charge.is_some() && self.order.state == OrderState::Pending(self.row.tr);
        let Some(saga) = self.slot.as_ref().filter(|_| is_open) else { return false };
        match &message.body {
            Body::Paid(Answer::Taken(_)) => saga.pay.outcome.is_none() && has_taken(&saga.stock),
            Body::Stocked(Answer::Taken(_)) => saga.stock.outcome.is_none() && has_taken(&saga.pay),
            _ => false,
        }
    }

    fn settle(&mut self, effects: &mut Step) -> bool {
        self.charger().is_some_and(|charger| charger.fulfil(self.order.amount, effects))
    }

    /// Writes down what came of it: the rows that changed, and the open row or its end. `key`: under which the caller asked.
    pub(super) fn finish(self, key: Option<Name>, effects: &mut Step) -> CheckoutAnswer {
        let view = self.by.view;
        // What was taken and given back within the run leaves no trace, and is known without looking the rows up again.
        let credit = self.credit.filter(|_| self.row.charge.is_none());
        if let Some(credit) = credit.filter(|_| had_taken(&self.row.pay) != holds(self.pay.as_ref())) {
            effects.shop.push(ShopEffect::Credit { user: self.order.user_id.clone(), credit });
        }
        if had_taken(&self.row.stock) != holds(self.stock.as_ref()) {
            let stock = |(item, stock)| ShopEffect::Stock { item, stock };
            effects.shop.extend(self.stocks.iter().cloned().map(stock));
        }
        let (order, state) = (&self.order.order_id, self.order.state);
        let failed = match state {
            OrderState::NotPaid(_) => self.row.why,
            OrderState::Pending(_) | OrderState::Paid(_) | OrderState::Cancelling(_) => None,
        };
        if state != self.before || failed != self.failed_before {
            effects.shop.push(ShopEffect::Moved { order: order.clone(), state, failed });
        }
        let is_open = matches!(state, OrderState::Pending(_) | OrderState::Cancelling(_));
        if is_open {
            let row = self.open_row(key);
            let answer = CheckoutAnswer::Open { tr: self.row.tr, waits: row.waits() };
            if self.open_before.is_none_or(|before| **before != row) {
                effects.shop.push(ShopEffect::Opened(Arc::new(row)));
            }
            return answer;
        }
        let answer = match state {
            OrderState::Paid(tr) => CheckoutAnswer::Paid { tr },
            _ => CheckoutAnswer::Failed { tr: self.row.tr, why: self.row.why.unwrap_or(Why::Cancelled) },
        };
        if let Some(row) = self.open_before {
            for key in &row.keys {
                let waits = |known: &&Arc<KeyRow>| known.order == *order && known.answer.is_none();
                if let Some(known) = view.request_key(key).filter(waits) {
                    let known = KeyRow { answer: Some(answer), ..KeyRow::clone(known) };
                    effects.shop.push(ShopEffect::KeyPut(Arc::new(known)));
                }
            }
            effects.shop.push(ShopEffect::Closed(CheckoutEnd { order: order.clone(), answer }));
        }
        answer
    }

    fn open_row(&self, key: Option<Name>) -> CheckoutRow {
        let saga = self.slot.as_ref();
        let mut row = CheckoutRow {
            pay: side_row(saga.map(|saga| &saga.pay), self.pay.as_ref()),
            stock: side_row(saga.map(|saga| &saga.stock), self.stock.as_ref()),
            undo: saga.and_then(|saga| match saga.stage {
                Stage::Cancelling { undo, .. } => Some(Sides { pay: undo.can, stock: undo.add }),
                Stage::Gathering | Stage::Paid => None,
            }),
            waits_since: self.by.at.0,
            ..self.row.clone()
        };
        row.keys.extend(key);
        let waits_on = |before: &&&Arc<CheckoutRow>| {
            before.waits_for() == row.waits_for() && before.undo.is_some() == row.undo.is_some()
        };
        if let Some(before) = self.open_before.as_ref().filter(waits_on) {
            row.waits_since = before.waits_since;
        }
        row
    }
}

impl<V: Users> Books<Pay> for TryRun<'_, V> {
    fn branch(&self, _: &TryKey) -> Option<&Branch<Payment>> {
        self.pay.as_ref()
    }

    fn balance(&self, user: &UserId) -> Option<Whole> {
        if self.row.charge.is_some() {
            return Some(self.cover);
        }
        self.credit.or_else(|| self.by.view.user(user).map(|row| row.credit))
    }
}

impl<V: view::Items> Books<Stock> for TryRun<'_, V> {
    fn branch(&self, _: &TryKey) -> Option<&Branch<Items>> {
        self.stock.as_ref()
    }

    fn balance(&self, item: &ItemId) -> Option<Whole> {
        let changed = self.stocks.iter().find(|(changed, _)| changed == item).map(|(_, stock)| *stock);
        changed.or_else(|| self.by.view.item(item).map(|row| row.stock))
    }
}

/// Whether a side had taken, and not given back, before.
fn had_taken(side: &SideRow) -> bool {
    side.branch == Some(SideBranch::Taken)
}

/// Whether a side has taken, and not given back.
const fn holds<V>(branch: Option<&Branch<V>>) -> bool {
    matches!(branch, Some(Branch::Done(Forward::Taken(_))))
}

const fn has_taken<V>(heard: &Heard<V>) -> bool {
    matches!(heard.outcome, Some(Forward::Taken(_)))
}

/// Which sides refused.
const fn why_of(saga: &Saga) -> Option<Why> {
    match (saga.pay.refused(), saga.stock.refused()) {
        (true, true) => Some(Why::Both),
        (true, false) => Some(Why::Pay),
        (false, true) => Some(Why::Stock),
        (false, false) => None,
    }
}

/// The planted fault: who took is put down as one who refused, and is not asked to give back.
fn forget_takers(saga: &mut Saga) {
    fn forget<V: Clone>(heard: &mut Heard<V>) {
        if let Some(Forward::Taken(value)) = &heard.outcome {
            heard.outcome = Some(Forward::Refused(value.clone()));
        }
    }
    forget(&mut saga.pay);
    forget(&mut saga.stock);
}

fn side_row<V>(heard: Option<&Heard<V>>, branch: Option<&Branch<V>>) -> SideRow {
    let said = heard.and_then(|heard| heard.outcome.as_ref()).map(|outcome| match outcome {
        Forward::Taken(_) => SideSaid::Taken,
        Forward::Refused(_) => SideSaid::Refused,
    });
    let branch = branch.map(|branch| match branch {
        Branch::Done(Forward::Taken(_)) => SideBranch::Taken,
        Branch::Done(Forward::Refused(_)) => SideBranch::Refused,
        Branch::Undone(Forward::Taken(_)) => SideBranch::GivenBack,
        Branch::Undone(Forward::Refused(_)) => SideBranch::RefusedUndone,
        Branch::CancelledFirst => SideBranch::CancelledFirst,
        Branch::CancelledThenRefused(_) => SideBranch::CancelledThenRefused,
    });
    SideRow { said, undone: heard.is_some_and(|heard| heard.undone), branch }
}

/// Values are not stored: an order's items do not change while a try is open, so they are the order's.
fn branch_of<V>(branch: SideBranch, value: impl FnOnce() -> V) -> Branch<V> {
    match branch {
        SideBranch::Taken => Branch::Done(Forward::Taken(value())),
        SideBranch::Refused => Branch::Done(Forward::Refused(value())),
        SideBranch::GivenBack => Branch::Undone(Forward::Taken(value())),
        SideBranch::RefusedUndone => Branch::Undone(Forward::Refused(value())),
        SideBranch::CancelledFirst => Branch::CancelledFirst,
        SideBranch::CancelledThenRefused => Branch::CancelledThenRefused(value()),
    }
}

fn saga_of(row: &CheckoutRow, order: &Order) -> Option<Saga> {
    fn heard<V>(side: &SideRow, value: impl FnOnce() -> V) -> Heard<V> {
        let outcome = side.said.map(|said| match said {
            SideSaid::Taken => Forward::Taken(value()),
            SideSaid::Refused => Forward::Refused(value()),
        });
        Heard { outcome, undone: side.undone }
    }
    let silent = row.undo.is_none() && row.pay.said.is_none() && row.stock.said.is_none();
    (!silent).then(|| Saga {
        start: row.start,
        pay: heard(&row.pay, || order.payment()),
        stock: heard(&row.stock, || order.items.merged()),
        stage: row.undo.map_or(Stage::Gathering, |undo| Stage::Cancelling {
            undo: Undo { can: undo.pay, add: undo.stock },
            announced: true,
        }),
    })
}
