//! A checkout takes both, or neither. Credit that is gone is what paid orders cost and open ones hold; units likewise; positions
//! and tokens that are charged in place of credit are settled with the order, or given back. No
//! order is paid twice, no decision changes, nothing is undecided past its deadline, and what was acknowledged stays so.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_domain::command::{Command, Expire};
use holdfast_domain::effects::Step;
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::limits::KEY_MS;
use holdfast_domain::shop::{
    CheckoutAnswer, CheckoutOrder, CheckoutRow, KeyRow, OrderId, OrderState, ShopCommand, ShopEffect,
    ShopOutcome, ShopRefusal, Side, SideSaid, TryKey, Verdict, Why,
};
use holdfast_domain::tokens::Name;
use holdfast_domain::view::{Checkouts, Items, KeyEnds, Orders, ShopSettings, Users};
use holdfast_store::{MemoryStore, Tables};

use super::expect;
use super::shop_books::ShopBooks;
use super::shop_charges::ShopCharges;
use super::shop_tries::ShopTries;
use crate::diary::{Diary, Standing};
use crate::outside_sides::Branch;
use crate::witness::Decided;

/// The books, the tries, and when they were last written.
#[derive(Debug, Default)]
pub struct OrdersArePaidOnce {
    books: ShopBooks,
    tries: ShopTries,
    charges: ShopCharges,
    time: Millis,
}

/// Where and when a command was decided.
type At = (Millis, u64);

impl OrdersArePaidOnce {
    /// Books a frame.
    pub fn see(&mut self, frame: &Decided<'_>) -> Result<(), String> {
        self.time = frame.header.time_ms;
        let mut used_up = false;
        for (offset, commands, step) in frame.steps() {
            let at = (self.time, offset);
            let booked = match (commands, &step.outcomes[..]) {
                ([Command::Shop(command)], [outcome]) => match outcome.shop.as_deref() {
                    Some(outcome) => self.command(at, command, outcome, step),
                    None => Err("has no answer".to_owned()),
                },
                ([Command::Expire(expire)], [outcome]) => {
                    used_up = outcome.subject.ended() == u64::from(expire.holds_max);
                    self.expiry(at, *expire, outcome.subject.ended(), step)
                }
                _ if step.shop.is_empty() && step.shop_messages.is_empty() => self.charges.others(step),
                _ => Err("is not about the shop and changed it".to_owned()),
            };
            booked.map_err(|said| format!("at {}, offset {offset}: {commands:?} {said}", self.time))?;
        }
        // A frame ends all that is due, unless it is told to end less. What it opens itself is never due in it.
        if used_up { Ok(()) } else { self.none_due_at(self.time) }
    }

    fn command(
        &mut self,
        at: At,
        command: &ShopCommand,
        outcome: &ShopOutcome,
        step: &Step,
    ) -> Result<(), String> {
        let key = self.stored(at.0, command);
        if let ShopOutcome::Refused(refusal) = outcome {
            expect(changes_nothing(step), || {
                format!("was refused for {refusal} and changed {:?}", step.shop)
            })?;
            let reused = *refusal == ShopRefusal::KeyReused;
            return expect(reused == matches!(key, Some(None)), || format!("was refused: {refusal}"));
        }
        match &key {
            Some(None) => return Err(format!("uses the key of another request, and was told {outcome:?}")),
            Some(Some(row)) => {
                let stored = row.answer.map(ShopOutcome::Checkout);
                let same = stored.as_ref().is_none_or(|stored| stored == outcome);
                expect(same, || format!("was told {outcome:?}, and stored is {row:?}"))?;
                expect(changes_nothing(step), || {
                    format!("is a repeat under its key and changed {:?}", step.shop)
                })?;
            }
            None => {}
        }
        self.rows_go_on(at, Some(command), step)?;
        self.tries.read(&step.shop_messages, &self.books)?;
        self.books.by_hand(command)?;
        self.take_down(step, Some(command))?;
        self.charges.see(at.0, Some(command), &self.books, step)?;
        self.told(at.0, command, outcome, step, key.is_some())
    }

    /// What is stored under the key of a checkout: nothing; the row of this very request; `Some(None)`, that of another.
    fn stored(&self, now: Millis, command: &ShopCommand) -> Option<Option<Arc<KeyRow>>> {
        let ShopCommand::Checkout(CheckoutOrder { order, key: Some(key), .. }) = command else { return None };
        let row = self.books.keys.get(&key.key).filter(|row| row.ends_at > now)?;
        if row.body != key.body || row.order != *order {
            return Some(None);
        }
        (!self.is_of_an_earlier_order(row)).then(|| Some(Arc::clone(row)))
    }

    /// Whether the answer under a key is about an order that an init has replaced since.
    fn is_of_an_earlier_order(&self, row: &KeyRow) -> bool {
        let life = self.books.orders.get(&row.order).map_or(0, |paper| paper.life);
        row.answer.is_some_and(|answer| answer.tr().get() <= life)
    }

    fn take_down(&mut self, step: &Step, command: Option<&ShopCommand>) -> Result<(), String> {
        self.books.changes(&step.shop, command)?;
        for effect in &step.shop {
            if let ShopEffect::Moved { order, state, .. } = effect {
                self.tries.moved(order, *state)?;
            }
        }
        for effect in &step.shop {
            let order = match effect {
                ShopEffect::Moved { order, .. } => order,
                ShopEffect::Opened(row) => &row.order,
                ShopEffect::Closed(end) => {
                    self.is_told_as_it_stands(&end.order, &end.answer)?;
                    let forgotten = |row: &&Arc<KeyRow>| row.order == end.order && row.answer.is_none();
                    let key = self.books.keys.values().find(forgotten);
                    expect(key.is_none(), || format!("ended {end:?}, of which {key:?} was not told"))?;
                    &end.order
                }
                _ => continue,
            };
            self.is_open_as_it_stands(order)?;
        }
        Ok(())
    }

    /// An order has an open row while it is pending or cancelling, and only then.
    fn is_open_as_it_stands(&self, order: &OrderId) -> Result<(), String> {
        let state = self.books.orders.get(order).map(|paper| paper.state);
        let open = self.books.open.get(order);
        let fits = match (state, open) {
            (Some(OrderState::Pending(tr)), Some(row)) => row.tr == tr && row.undo.is_none(),
            (Some(OrderState::Cancelling(tr)), Some(row)) => row.tr == tr && row.undo.is_some(),
            (Some(OrderState::NotPaid(_) | OrderState::Paid(_)), None) => true,
            _ => false,
        };
        expect(fits, || format!("left {order} at {state:?} with {open:?}"))
    }

    /// Rows of open checkouts and of keys change only as they may. Asked before the books take them down.
    fn rows_go_on(&self, at: At, command: Option<&ShopCommand>, step: &Step) -> Result<(), String> {
        for effect in &step.shop {
            match effect {
                ShopEffect::Opened(row) => match self.books.open.get(&row.order) {
                    Some(before) => expect(goes_on(before, row), || format!("made {row:?} of {before:?}"))?,
                    None => expect(self.begins(at, command, row), || format!("opened {row:?}"))?,
                },
                ShopEffect::KeyPut(row) => {
                    // A key whose time is over may wait for its expiry; it still gets its answer, or is taken anew.
                    let before = self.books.keys.get(&row.key);
                    // One of an earlier order is taken anew even within the same millisecond.
                    let same = |before: &&Arc<KeyRow>| {
                        (&before.order, before.body, before.ends_at) == (&row.order, row.body, row.ends_at)
                            && !self.is_of_an_earlier_order(before)
                    };
                    let fits = match before.filter(same) {
                        Some(before) => before.answer.is_none() && row.answer.is_some(),
                        None => {
                            let is_free = |before: &Arc<KeyRow>| {
                                before.ends_at <= at.0 || self.is_of_an_earlier_order(before)
                            };
                            row.ends_at == at.0 + KEY_MS && before.is_none_or(is_free)
                        }
                    };
                    expect(fits, || format!("put {row:?} in the place of {before:?}"))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn begins(&self, (now, offset): At, command: Option<&ShopCommand>, row: &CheckoutRow) -> bool {
        let (order, deadline_ms) = match command {
            Some(ShopCommand::Checkout(CheckoutOrder { order, deadline_ms, .. })) => (order, *deadline_ms),
            Some(ShopCommand::Retry { order, deadline_ms }) => (order, *deadline_ms),
            _ => return false,
        };
        (&row.order, row.start, row.started_at) == (order, offset, now)
            && row.deadline == now + i64::from(deadline_ms)
            && row.outside == self.books.outside
            && row.charge.is_some() == (!row.outside.pay && !self.books.charging.is_credit())
            && !row.outside.is_none()
    }

    /// Whoever asked is told how it stands.
    fn told(
        &self,
        now: Millis,
        command: &ShopCommand,
        outcome: &ShopOutcome,
        step: &Step,
        repeat: bool,
    ) -> Result<(), String> {
        match (command, outcome) {
            (ShopCommand::Checkout(CheckoutOrder { order, key, .. }), ShopOutcome::Checkout(answer)) => {
                let is_open = matches!(answer, CheckoutAnswer::Open { .. });
                // A stored answer tells of its own try; the order may have had others since.
                if !repeat || is_open {
                    self.is_told_as_it_stands(order, answer)?;
                }
                let Some(key) = key.as_ref().filter(|_| !repeat) else { return Ok(()) };
                let row = self.books.keys.get(&key.key);
                let kept = row.is_some_and(|row| {
                    (&row.order, row.body, row.ends_at) == (order, key.body, now + KEY_MS)
                        && row.answer == Some(*answer).filter(|_| !is_open)
                });
                expect(kept, || format!("was told {answer:?}, and under its key is {row:?}"))
            }
            (
                ShopCommand::Cancel { order } | ShopCommand::Retry { order, .. },
                ShopOutcome::Checkout(answer),
            ) => self.is_told_as_it_stands(order, answer),
            (ShopCommand::Answer { key, .. }, ShopOutcome::Heard { counts, now: answer }) => {
                expect(*counts != step.shop.is_empty(), || format!("was told {outcome:?}"))?;
                self.is_told_as_it_stands(&key.order_id, answer)
            }
            (
                ShopCommand::CreateUser { id, .. }
                | ShopCommand::AddFunds { user: id, .. }
                | ShopCommand::TakeFunds { user: id, .. },
                ShopOutcome::User(row),
            ) => {
                let there = self.books.users.get(id).map(|holder| holder.there);
                expect(row.id == *id && there == Some(i128::from(row.credit.get())), || {
                    format!("was told {row:?}")
                })
            }
            (
                ShopCommand::CreateItem { id, .. }
                | ShopCommand::AddStock { item: id, .. }
                | ShopCommand::TakeStock { item: id, .. },
                ShopOutcome::Item(row),
            ) => {
                let there = self.books.items.get(id).map(|holder| holder.there);
                expect(row.id == *id && there == Some(i128::from(row.stock.get())), || {
                    format!("was told {row:?}")
                })
            }
            (ShopCommand::CreateOrder { .. } | ShopCommand::AddItem { .. }, ShopOutcome::Order(row)) => {
                self.books.is_as_on_paper(row)
            }
            (
                ShopCommand::InitUsers { .. }
                | ShopCommand::InitItems { .. }
                | ShopCommand::InitOrders { .. },
                ShopOutcome::Initialised(_),
            )
            | (ShopCommand::SetOutside { .. }, ShopOutcome::Outside(_))
            | (ShopCommand::SetCharging { .. }, ShopOutcome::Charging(_)) => Ok(()),
            _ => Err(format!("was told {outcome:?}")),
        }
    }

    fn is_told_as_it_stands(&self, order: &OrderId, answer: &CheckoutAnswer) -> Result<(), String> {
        let state = self.books.orders.get(order).map(|paper| paper.state);
        let right = match answer {
            CheckoutAnswer::Paid { tr } | CheckoutAnswer::AlreadyPaid { tr } => {
                state == Some(OrderState::Paid(*tr))
            }
            CheckoutAnswer::Failed { tr, .. } => state == Some(OrderState::NotPaid(Some(*tr))),
            CheckoutAnswer::Open { tr, waits } => self
                .books
                .open
                .get(order)
                .is_some_and(|row| row.tr == *tr && row.waits() == *waits && !waits.sides.is_none()),
        };
        expect(right, || format!("told {answer:?} of {order}, which stands at {state:?}"))
    }

    /// An expiry ends what is due, oldest first, and all of it if it has not ended as much as it may. Checkouts and keys have
    /// a quarter of that each, whatever else is due.
    fn expiry(&mut self, at: At, expire: Expire, ended: u64, step: &Step) -> Result<(), String> {
        let (due, keys) = (self.books.due(at.0), self.books.keys_due(at.0));
        let orders: Vec<&OrderId> = step.shop.iter().filter_map(moved).collect();
        let ended_keys: Vec<&Name> = step.shop.iter().filter_map(ended_key).collect();
        let oldest = due.iter().map(|(_, _, order)| order).take(orders.len()).eq(orders.iter().copied());
        expect(oldest, || format!("ended {orders:?}; due are {due:?}"))?;
        let first = keys.iter().map(|(_, key)| key).take(ended_keys.len()).eq(ended_keys.iter().copied());
        expect(first, || format!("ended {ended_keys:?}; due are {keys:?}"))?;
        let part = expire.holds_max as usize / 4;
        let fair = orders.len() >= part.min(due.len()) && ended_keys.len() >= part.min(keys.len());
        expect(fair, || format!("ended {orders:?} and {ended_keys:?}; due are {due:?} and {keys:?}"))?;
        let all = orders.len() == due.len() && ended_keys.len() == keys.len();
        expect(all || ended == u64::from(expire.holds_max), || {
            format!("ended {ended} and left some of {due:?} and {keys:?}")
        })?;
        // Whoever has refused is the reason, though the other side was silent.
        let whys: BTreeMap<OrderId, Why> =
            self.books.open.iter().map(|(id, row)| (id.clone(), late(row))).collect();
        self.rows_go_on(at, None, step)?;
        self.tries.read(&step.shop_messages, &self.books)?;
        self.take_down(step, None)?;
        self.charges.see(at.0, None, &self.books, step)?;
        let late = |effect: &ShopEffect| match effect {
            ShopEffect::Moved { order, failed, state: OrderState::NotPaid(_), .. } => {
                failed.as_ref() == whys.get(order)
            }
            ShopEffect::Opened(row) => row.why.as_ref() == whys.get(&row.order),
            _ => true,
        };
        expect(step.shop.iter().all(late), || format!("gave another reason: {:?}", step.shop))
    }

    /// Compares what is stored with the books, and the indexes with the rows.
    pub fn inspect(&self, store: &MemoryStore) -> Result<(), String> {
        let books = &self.books;
        let (mut users, mut items) = (BTreeMap::new(), BTreeMap::new());
        store.users(&mut |row| users.extend([(row.id.clone(), i128::from(row.credit.get()))]));
        store.items(&mut |row| items.extend([(row.id.clone(), i128::from(row.stock.get()))]));
        let credit = books.users.iter().map(|(id, holder)| (id, &holder.there));
        expect(credit.eq(users.iter()), || format!("{users:?} are stored, by the books {:?}", books.users))?;
        let stock = books.items.iter().map(|(id, holder)| (id, &holder.there));
        expect(stock.eq(items.iter()), || format!("{items:?} are stored, by the books {:?}", books.items))?;
        let (mut unpaid, mut said) = (0, Ok(()));
        store.unpaid_orders(&mut |row| {
            unpaid += 1;
            if said.is_ok() {
                said = books.is_as_on_paper(row);
            }
        });
        said?;
        for (id, paper) in &books.orders {
            let row = store.order(id).ok_or_else(|| format!("{id} is not found; by the books {paper:?}"))?;
            books.is_as_on_paper(row)?;
            self.is_open_as_it_stands(id)?;
        }
        let paid = books.orders.values().filter(|paper| matches!(paper.state, OrderState::Paid(_))).count();
        expect(unpaid + paid == books.orders.len(), || format!("{unpaid} orders are stored as not paid"))?;
        expect(store.outside() == books.outside, || format!("{:?} are outside", store.outside()))?;
        expect(store.charging() == books.charging, || format!("{:?} are charged", store.charging()))?;
        self.charges.inspect(store)?;
        self.inspect_open(store)
    }

    fn inspect_open(&self, store: &MemoryStore) -> Result<(), String> {
        let books = &self.books;
        let mut open: Vec<&Arc<CheckoutRow>> = books.open.values().collect();
        open.sort_by_key(|row| row.start);
        let stored = store.open_checkouts(None, usize::MAX);
        expect(open.into_iter().eq(stored.iter()), || {
            format!("open are {stored:?}, by the books {:?}", books.open)
        })?;
        let due = store.due_checkouts(Millis::MAX, usize::MAX);
        let due: Vec<_> = due.iter().map(|row| (row.deadline, row.start, row.order.clone())).collect();
        expect(due == books.due(Millis::MAX), || format!("{due:?} will be due, by the books other"))?;
        let keys = store.due_keys(Millis::MAX, usize::MAX);
        let same = keys.iter().all(|row| books.keys.get(&row.key) == Some(row));
        expect(same && keys.len() == books.keys.len(), || format!("{keys:?} are kept, by the books other"))
    }

    /// Nothing is undecided past its deadline at `time`, and no key has outlived its time.
    pub fn none_due_at(&self, time: Millis) -> Result<(), String> {
        let (due, keys) = (self.books.due(time), self.books.keys_due(time));
        expect(due.is_empty(), || format!("at {time} these are past their deadline: {due:?}"))?;
        expect(keys.is_empty(), || format!("at {time} the time of these keys is over: {keys:?}"))
    }

    /// Whether a checkout was open at the last frame.
    pub fn has_open(&self) -> bool {
        !self.books.open.is_empty()
    }

    /// Whether an open checkout held a position or tokens at the last frame.
    pub fn has_charged(&self) -> bool {
        self.charges.has_any()
    }

    /// No checkout is open at all.
    pub fn none_open(&self) -> Result<(), String> {
        expect(self.books.open.is_empty(), || format!("these are still open: {:?}", self.books.open))
    }

    /// Outside sides that kept honest rows hold something for paid orders, and for nothing else.
    pub fn outside_agrees(&self, rows: &BTreeMap<(TryKey, Side), Branch>) -> Result<(), String> {
        for ((key, side), branch) in rows {
            let verdict = self.tries.verdict(key);
            let is_paid = verdict == Some(Verdict::Succeeded);
            let fits = match branch {
                Branch::Taken => is_paid,
                Branch::GivenBack => !is_paid,
                Branch::Refused => true,
            };
            let side = side.name();
            expect(fits, || format!("{key} is decided as {verdict:?}, and outside {side} is {branch:?}"))?;
        }
        Ok(())
    }

    /// A hub came back. What its clients were told is there, or what may follow it.
    pub fn restarted(&self, store: &MemoryStore, diary: &Diary) -> Result<(), String> {
        for entry in &diary.entries {
            let (Command::Shop(command), Standing::Answered(answer)) = (&entry.command, &entry.standing)
            else {
                continue;
            };
            let there = match (&**command, answer.shop.as_deref()) {
                (ShopCommand::CreateUser { id, .. }, Some(ShopOutcome::User(_))) => store.user(id).is_some(),
                (ShopCommand::CreateItem { id, .. }, Some(ShopOutcome::Item(_))) => store.item(id).is_some(),
                (ShopCommand::CreateOrder { id, .. }, Some(ShopOutcome::Order(_))) => {
                    store.order(id).is_some()
                }
                (
                    ShopCommand::Checkout(CheckoutOrder { order, .. })
                    | ShopCommand::Cancel { order }
                    | ShopCommand::Retry { order, .. }
                    | ShopCommand::Answer { key: TryKey { order_id: order, .. }, .. },
                    Some(ShopOutcome::Checkout(answer) | ShopOutcome::Heard { now: answer, .. }),
                ) => may_follow(store, order, answer),
                _ => true,
            };
            expect(there, || format!("{command:?} was answered {answer:?}, and that is not there"))?;
        }
        Ok(())
    }
}

fn changes_nothing(step: &Step) -> bool {
    step.shop.is_empty()
        && step.shop_messages.is_empty()
        && step.transfers.is_empty()
        && step.tokens.is_empty()
}

const fn moved(effect: &ShopEffect) -> Option<&OrderId> {
    match effect {
        ShopEffect::Moved { order, .. } => Some(order),
        _ => None,
    }
}

const fn ended_key(effect: &ShopEffect) -> Option<&Name> {
    match effect {
        ShopEffect::KeyEnded(key) => Some(key),
        _ => None,
    }
}

/// Why a try fails that its deadline ends.
fn late(row: &CheckoutRow) -> Why {
    match (row.pay.said, row.stock.said) {
        (Some(SideSaid::Refused), _) => Why::Pay,
        (_, Some(SideSaid::Refused)) => Why::Stock,
        _ => Why::Deadline,
    }
}

/// Whether an open row may become the other: the same try, and what was said or decided stays.
fn goes_on(before: &CheckoutRow, row: &CheckoutRow) -> bool {
    let same_try =
        (before.tr, before.start, before.started_at, before.deadline, before.outside, before.charge)
            == (row.tr, row.start, row.started_at, row.deadline, row.outside, row.charge);
    let said = Side::ALL.into_iter().all(|side| {
        let (was, is) = (before.side(side), row.side(side));
        (was.said.is_none() || was.said == is.said) && was.undone <= is.undone
    });
    let decided = before.undo.is_none() || (before.undo, before.why) == (row.undo, row.why);
    same_try && said && decided && row.keys.starts_with(&before.keys)
}

/// Whether an order of which this was told may stand where it does. An init may have put another in its place.
fn may_follow(store: &MemoryStore, order: &OrderId, answer: &CheckoutAnswer) -> bool {
    let Some(row) = store.order(order) else { return false };
    let (state, tr) = (row.order.state, answer.tr());
    let replaced = row.is_of_an_earlier(tr);
    if state.tr_num() != Some(tr) {
        return state.tr_num() > Some(tr) && (replaced || !is_paid(answer));
    }
    match answer {
        CheckoutAnswer::Paid { .. } | CheckoutAnswer::AlreadyPaid { .. } => {
            state == OrderState::Paid(tr) || replaced
        }
        CheckoutAnswer::Failed { .. } => state == OrderState::NotPaid(Some(tr)),
        CheckoutAnswer::Open { waits, .. } => {
            !(waits.cancelling && matches!(state, OrderState::Paid(_) | OrderState::Pending(_)))
        }
    }
}

const fn is_paid(answer: &CheckoutAnswer) -> bool {
    matches!(answer, CheckoutAnswer::Paid { .. } | CheckoutAnswer::AlreadyPaid { .. })
}

/// What is answered to the same command later goes with what was answered first: a paid order stays paid by the same try, and
/// a word from outside counts once.
pub(super) fn shop_again(command: &ShopCommand, before: &ShopOutcome, now: &ShopOutcome) -> bool {
    let made_anew = |order: &OrderId| order.as_str().parse::<u64>().is_ok();
    match (command, before, now) {
        (
            ShopCommand::CreateUser { .. } | ShopCommand::CreateItem { .. } | ShopCommand::CreateOrder { .. },
            ShopOutcome::User(_) | ShopOutcome::Item(_) | ShopOutcome::Order(_),
            now,
        ) => matches!(now, ShopOutcome::Refused(ShopRefusal::Exists { .. })),
        (ShopCommand::Checkout(asked), ShopOutcome::Checkout(before), ShopOutcome::Checkout(now)) => {
            now.tr() >= before.tr()
                && (!is_paid(before) || made_anew(&asked.order) || (is_paid(now) && now.tr() == before.tr()))
        }
        (ShopCommand::Answer { .. }, ShopOutcome::Heard { counts: true, .. }, now) => {
            matches!(
                now,
                ShopOutcome::Heard { counts: false, .. } | ShopOutcome::Refused(ShopRefusal::Replaced(_))
            )
        }
        _ => true,
    }
}
