//! The messages of one try, handed on until none is left: to the participants that are inside, from them to the coordinator,
//! and from it back. Always in the order in which they were sent.

use std::collections::VecDeque;
use std::sync::Arc;

use holdfast_checkout::coordinator::{self, Record, Saga, Said as Heard, Stage, single};
use holdfast_checkout::order::{Moved, Undo};
use holdfast_checkout::participant::{self, Books, Branch, Forward, Pay, Stock};

use super::charge::{Charge, Charger, Means};
use super::hold::ChosenTokens;
use super::pay_side::{Act, PaySide};
use super::{
    Answer, AskedStep, Body, CheckoutAnswer, CheckoutEnd, CheckoutRow, ItemId, Items, KeyRow, Message, Name,
    Order, OrderRow, OrderState, Payment, ShopEffect, ShopMessage, ShopRefusal, SideBranch, SideRow,
    SideSaid, Sides, Topic, TrNum, TryKey, UserId, Whole, Why,
};
use crate::effects::Step;
use crate::ids::Millis;
use crate::planted;
use crate::view::{self, Shop, Users};

/// When and where: the frame's time, and the record's place in the log.
pub(super) type At = (Millis, u64);

/// One try while its messages are handed on.
pub(super) struct TryRun<'v, V, P> {
    view: &'v V,
    /// How it is paid.
    side: P,
    at: At,
    order: Order,
    tr: TrNum,
    /// What the order was before.
    before: OrderState,
    failed_before: Option<Why>,
    /// The open row, if the try was open before.
    row: Option<&'v Arc<CheckoutRow>>,
    start: u64,
    started_at: Millis,
    deadline: Millis,
    outside: Sides,
    slot: Option<Saga>,
    /// The sides that held something for this try before.
    had_taken: Sides,
    pay: Option<Branch<Payment>>,
    stock: Option<Branch<Items>>,
    /// What the user has now, if it was changed.
    credit: Option<Whole>,
    /// What there is now of the items that were changed.
    stocks: Vec<(ItemId, Whole)>,
    /// How it is to be charged, if it begins here and not by credit.
    means: Option<Means>,
    charge: Option<Charge>,
    /// What transfer or tokens cover: the amount once it is reserved.
    cover: Whole,
    why: Option<Why>,
    queue: VecDeque<Message>,
}

impl<'v, V: Shop, P: PaySide<V>> TryRun<'v, V, P> {
    /// A try that begins with this move of the order. Refused if the tokens to pay with must be chosen anew.
    pub(super) fn start(
        view: &'v V,
        side: P,
        at: At,
        row: &OrderRow,
        moved: Moved,
        deadline_ms: u32,
        chosen: Option<&ChosenTokens>,
    ) -> Result<TryRun<'v, V, P>, ShopRefusal> {
        let (now, offset) = at;
        let tr = moved.order.state.tr_num().expect("a try that begins has its number");
        let outside = side.outside(view);
        let (payment, key) = (moved.order.payment(), moved.order.key(tr));
        let (means, charge) = side.means(view, at, &payment, &key, chosen)?.unzip();
        Ok(TryRun {
            view,
            side,
            at,
            before: row.order.state,
            failed_before: row.failed,
            order: moved.order,
            tr,
            row: None,
            start: offset,
            started_at: now,
            deadline: now.saturating_add(i64::from(deadline_ms)),
            outside,
            slot: None,
            had_taken: Sides::NONE,
            pay: None,
            stock: None,
            credit: None,
            stocks: Vec::new(),
            means,
            charge,
            cover: Whole::ZERO,
            why: None,
            queue: moved.sent.into(),
        })
    }

    /// A try that is open.
    pub(super) fn resume(
        view: &'v V,
        side: P,
        at: At,
        order: &OrderRow,
        row: &'v Arc<CheckoutRow>,
    ) -> TryRun<'v, V, P> {
        let OrderRow { order, failed, .. } = order;
        TryRun {
            view,
            side,
            at,
            before: order.state,
            failed_before: *failed,
            order: order.clone(),
            tr: row.tr,
            row: Some(row),
            start: row.start,
            started_at: row.started_at,
            deadline: row.deadline,
            outside: row.outside,
            slot: saga_of(row, order),
            had_taken: Sides {
                pay: row.pay.branch == Some(SideBranch::Taken),
                stock: row.stock.branch == Some(SideBranch::Taken),
            },
            pay: row.pay.branch.map(|branch| branch_of(branch, || order.payment())),
            stock: row.stock.branch.map(|branch| branch_of(branch, || order.items.merged())),
            credit: None,
            stocks: Vec::new(),
            means: None,
            charge: row.charge,
            cover: Whole::ZERO,
            why: row.why,
            queue: VecDeque::new(),
        }
    }

    fn key(&self) -> TryKey {
        self.order.key(self.tr)
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
        if planted::decided_twice() {
            self.order.state = OrderState::Pending(self.tr);
        }
        if planted::forgotten_taker() && why == Why::Deadline {
            self.slot.iter_mut().for_each(forget_takers);
        }
        let did = single::cancel(&mut self.slot, &self.order, &key);
        self.why.get_or_insert_with(|| refused.unwrap_or(why));
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
            if fails && self.why.is_none() {
                self.why = self.slot.as_ref().and_then(why_of);
            }
            self.order = order;
        }
    }

    /// Hands messages on until none is left.
    pub(super) fn pump(&mut self, effects: &mut Step) {
        while let Some(message) = self.queue.pop_front() {
            let (outside, message) = match message.body.topic() {
                Topic::Pay => {
                    if !self.outside.pay {
                        self.reserve(&message, effects);
                        let held = holds(self.pay.as_ref());
                        let mut did = participant::handle::<Pay>(self, &message);
                        if planted::given_back_twice()
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
                    (self.outside.pay, message)
                }
                Topic::Stock => {
                    if !self.outside.stock {
                        let did = participant::handle::<Stock>(self, &message);
                        self.stock = did.branch.map(|(_, branch)| branch).or_else(|| self.stock.take());
                        if !did.balances.is_empty() {
                            // A try moves the same items each time, so the newest balances are all there are.
                            self.stocks = did.balances;
                        }
                        self.queue.extend(did.sent);
                        effects.shop_alarms.extend(did.alarms);
                    }
                    (self.outside.stock, message)
                }
                Topic::Outcomes => {
                    let settles = self.completes(&message);
                    let settled = settles && self.settle(effects);
                    if settles && !settled {
                        // It ran out, or its payee has ended it: the order fails before it could be paid.
                        self.cancel(Why::Pay, effects);
                    }
                    let record = Record { offset: self.start, message };
                    let did = single::handle(&mut self.slot, &self.order, &record);
                    self.take_in(did, effects);
                    let is_paid = matches!(self.order.state, OrderState::Paid(_));
                    assert!(!settled || is_paid, "{} is charged and not paid", self.order.order_id);
                    (false, record.message)
                }
            };
            effects.shop_messages.push(ShopMessage { offset: self.at.1, outside, message });
        }
    }

    fn charger(&self) -> Option<Charger<'v, V>> {
        self.charge.map(|charge| Charger { view: self.view, at: self.at, charge })
    }

    /// Has the transfer prepared, or the tokens locked, when `pay` comes for the first time. The payment side then takes what is covered.
    fn reserve(&mut self, message: &Message, effects: &mut Step) {
        let is_first = self.pay.is_none() && matches!(message.body, Body::Pay(AskedStep::Forward(_)));
        let Some(means) = self.means.take_if(|_| is_first) else { return };
        let Some(charger) = self.charger() else { return };
        let reserve = Act::Reserve(&means, &self.order.payment(), self.deadline);
        if self.side.act(&charger, reserve, effects) {
            self.cover = self.order.amount;
        }
    }

    /// What was taken is given back.
    fn release(&mut self, effects: &mut Step) {
        if planted::kept_hold() && self.why == Some(Why::Deadline) {
            return;
        }
        if let Some(charger) = self.charger() {
            self.side.act(&charger, Act::GiveBack(self.order.amount), effects);
        }
    }

    /// Whether the message is the second of two successes, and a transfer or tokens are to be settled before they count.
    fn completes(&self, message: &Message) -> bool {
        let is_open = self.charge.is_some() && self.order.state == OrderState::Pending(self.tr);
        let Some(saga) = self.slot.as_ref().filter(|_| is_open) else { return false };
        match &message.body {
            Body::Paid(Answer::Taken(_)) => saga.pay.outcome.is_none() && has_taken(&saga.stock),
            Body::Stocked(Answer::Taken(_)) => saga.stock.outcome.is_none() && has_taken(&saga.pay),
            _ => false,
        }
    }

    fn settle(&mut self, effects: &mut Step) -> bool {
        let amount = self.order.amount;
        let charger = self.charger();
        charger.is_some_and(|charger| self.side.act(&charger, Act::Settle(amount), effects))
    }

    /// Writes down what came of it: the rows that changed, and the open row or its end. `key`: under which the caller asked.
    pub(super) fn finish(self, key: Option<Name>, effects: &mut Step) -> CheckoutAnswer {
        let view = self.view;
        // What was taken and given back within the run leaves no trace, and is known without looking the rows up again.
        let credit = self.credit.filter(|_| self.charge.is_none());
        if let Some(credit) = credit.filter(|_| self.had_taken.pay != holds(self.pay.as_ref())) {
            effects.shop.push(ShopEffect::Credit { user: self.order.user_id.clone(), credit });
        }
        if self.had_taken.stock != holds(self.stock.as_ref()) {
            let stock = |(item, stock)| ShopEffect::Stock { item, stock };
            effects.shop.extend(self.stocks.iter().cloned().map(stock));
        }
        let (order, state) = (&self.order.order_id, self.order.state);
        let failed = match state {
            OrderState::NotPaid(_) => self.why,
            OrderState::Pending(_) | OrderState::Paid(_) | OrderState::Cancelling(_) => None,
        };
        if state != self.before || failed != self.failed_before {
            effects.shop.push(ShopEffect::Moved { order: order.clone(), state, failed });
        }
        let is_open = matches!(state, OrderState::Pending(_) | OrderState::Cancelling(_));
        if is_open {
            let row = self.open_row(key);
            let answer = CheckoutAnswer::Open { tr: self.tr, waits: row.waits() };
            if self.row.is_none_or(|before| **before != row) {
                effects.shop.push(ShopEffect::Opened(Arc::new(row)));
            }
            return answer;
        }
        let answer = match state {
            OrderState::Paid(tr) => CheckoutAnswer::Paid { tr },
            _ => CheckoutAnswer::Failed { tr: self.tr, why: self.why.unwrap_or(Why::Cancelled) },
        };
        if let Some(row) = self.row {
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
        let undo = saga.and_then(|saga| match saga.stage {
            Stage::Cancelling { undo, .. } => Some(Sides { pay: undo.can, stock: undo.add }),
            Stage::Gathering | Stage::Paid => None,
        });
        let mut keys = self.row.map_or_else(Vec::new, |row| row.keys.clone());
        keys.extend(key);
        let mut row = CheckoutRow {
            order: self.order.order_id.clone(),
            tr: self.tr,
            start: self.start,
            started_at: self.started_at,
            deadline: self.deadline,
            outside: self.outside,
            pay: side_row(saga.map(|saga| &saga.pay), self.pay.as_ref()),
            stock: side_row(saga.map(|saga| &saga.stock), self.stock.as_ref()),
            undo,
            why: self.why,
            waits_since: self.at.0,
            keys,
            charge: self.charge,
        };
        if let Some(before) = self.row.filter(|before| {
            before.waits_for() == row.waits_for() && before.undo.is_some() == row.undo.is_some()
        }) {
            row.waits_since = before.waits_since;
        }
        row
    }
}

impl<V: Users, P> Books<Pay> for TryRun<'_, V, P> {
    fn branch(&self, _: &TryKey) -> Option<&Branch<Payment>> {
        self.pay.as_ref()
    }

    fn balance(&self, user: &UserId) -> Option<Whole> {
        if self.charge.is_some() {
            return Some(self.cover);
        }
        self.credit.or_else(|| self.view.user(user).map(|row| row.credit))
    }
}

impl<V: view::Items, P> Books<Stock> for TryRun<'_, V, P> {
    fn branch(&self, _: &TryKey) -> Option<&Branch<Items>> {
        self.stock.as_ref()
    }

    fn balance(&self, item: &ItemId) -> Option<Whole> {
        let changed = self.stocks.iter().find(|(changed, _)| changed == item).map(|(_, stock)| *stock);
        changed.or_else(|| self.view.item(item).map(|row| row.stock))
    }
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
