//! Checkout, answers from outside, cancel, retry, deadlines: whatever moves a try.

use std::sync::Arc;

use holdfast_checkout::coordinator::{Record, single};
use holdfast_checkout::order::Checkout;

use super::decide::{Verdict, room};
use super::limits::{CHECKOUTS_MAX, KEY_MS, KEYS_MAX, KEYS_PER_CHECKOUT_MAX};
use super::run::{At, Deciding, TryRun};
use super::{
    Answer, Body, CheckoutAnswer, CheckoutOrder, CheckoutRow, IdempotencyKey, KeyRow, Message, Order,
    OrderId, OrderRow, OrderState, Said, ShopEffect, ShopMessage, ShopOutcome, ShopRefusal, Side, TryKey,
    Why,
};
use crate::effects::Step;
use crate::ids::Millis;
use crate::overlay::Overlay;
use crate::planted::{self, Bug};
use crate::view::{Checkouts, Orders, Shop, View};

impl<V: Shop> Deciding<'_, V> {
    pub(super) fn checkout(&self, command: &CheckoutOrder, effects: &mut Step) -> Verdict {
        let view = self.view;
        let CheckoutOrder { order, deadline_ms, key, chosen } = command;
        if let Some(key) = key
            && let Some(stored) = stored(view, self.at.0, order, key)?
        {
            return Ok(ShopOutcome::Checkout(stored));
        }
        let row = known(view, order)?;
        if let Some(key) = key {
            // Before anything is charged.
            let is_new = view.request_key(&key.key).is_none();
            room("idempotency keys", view.shop_counts().keys, usize::from(is_new), KEYS_MAX)?;
        }
        let answer = match row.order.checkout() {
            Checkout::Started(moved) => {
                if !self.outside().is_none() {
                    room("open checkouts", view.shop_counts().checkouts, 1, CHECKOUTS_MAX)?;
                }
                let mut run = TryRun::start(self, row, moved, *deadline_ms, chosen.as_deref())?;
                run.pump(effects);
                run.finish(key.as_ref().map(|key| key.key.clone()), effects)
            }
            Checkout::AlreadyPaid => CheckoutAnswer::AlreadyPaid { tr: last_try(row) },
            Checkout::Joins(tr) => {
                let open = opened(view, order);
                if let Some(key) = key {
                    room("keys for one checkout", open.keys.len(), 1, KEYS_PER_CHECKOUT_MAX)?;
                    let mut joined = CheckoutRow::clone(open);
                    joined.keys.push(key.key.clone());
                    effects.shop.push(ShopEffect::Opened(Arc::new(joined)));
                }
                CheckoutAnswer::Open { tr, waits: open.waits() }
            }
            Checkout::TriesUsedUp => return Err(ShopRefusal::TriesUsedUp(order.clone())),
        };
        if let Some(IdempotencyKey { key, body }) = key {
            let (ends_at, decided) =
                (self.at.0.saturating_add(KEY_MS), !matches!(answer, CheckoutAnswer::Open { .. }));
            let (key, body, order) = (key.clone(), *body, order.clone());
            let row = KeyRow { key, body, order, answer: decided.then_some(answer), ends_at };
            effects.shop.push(ShopEffect::KeyPut(Arc::new(row)));
        }
        Ok(ShopOutcome::Checkout(answer))
    }

    pub(super) fn answer(&self, key: &TryKey, side: Side, said: Said, effects: &mut Step) -> Verdict {
        let (view, offset) = (self.view, self.at.1);
        let row = known(view, &key.order_id)?;
        if row.order.state.tr_num() < Some(key.tr_num) {
            return Err(ShopRefusal::UnknownTry(key.order_id.clone()));
        }
        if row.is_of_an_earlier(key.tr_num) {
            return Err(ShopRefusal::Replaced(key.order_id.clone()));
        }
        let message = Message { key: key.clone(), body: spoken(&row.order, side, said) };
        let Some(open) = view.checkout(&key.order_id).filter(|open| open.tr == key.tr_num) else {
            // The try is over. It is heard for what contradicts its end, and changes nothing.
            let record = Record { offset, message };
            let did = single::handle(&mut None, &row.order, &record);
            assert!(did.orders.is_empty() && did.sent.is_empty(), "{key} is over");
            effects.shop_alarms.extend(did.alarms);
            let message = record.message;
            effects.shop_messages.push(ShopMessage { offset, outside: false, message });
            return Ok(ShopOutcome::Heard { counts: false, now: standing(view, row) });
        };
        if !open.outside.has(side) {
            return Err(ShopRefusal::NotOutside(side));
        }
        let before = effects.shop.len();
        let mut run = TryRun::resume(self, row, open);
        run.send(message);
        run.pump(effects);
        let now = run.finish(None, effects);
        Ok(ShopOutcome::Heard { counts: effects.shop.len() > before, now })
    }

    pub(super) fn cancel(&self, order: &OrderId, effects: &mut Step) -> Verdict {
        let view = self.view;
        let row = known(view, order)?;
        let is_pending = matches!(row.order.state, OrderState::Pending(_));
        let again = planted::has(Bug::DecidedTwice) && matches!(row.order.state, OrderState::Cancelling(_));
        if !is_pending && !again {
            return Err(not_now(row));
        }
        let answer = self.end(row, opened(view, order), Why::Cancelled, effects);
        Ok(ShopOutcome::Checkout(answer))
    }

    pub(super) fn end(
        &self,
        row: &OrderRow,
        open: &Arc<CheckoutRow>,
        why: Why,
        effects: &mut Step,
    ) -> CheckoutAnswer {
        let mut run = TryRun::resume(self, row, open);
        run.cancel(why, effects);
        run.pump(effects);
        run.finish(None, effects)
    }

    pub(super) fn retry(&self, order: &OrderId, deadline_ms: u32, effects: &mut Step) -> Verdict {
        let view = self.view;
        let row = known(view, order)?;
        match row.order.state {
            OrderState::Pending(_) | OrderState::Cancelling(_) => {
                let mut run = TryRun::resume(self, row, opened(view, order));
                run.retry(effects);
                run.pump(effects);
                Ok(ShopOutcome::Checkout(run.finish(None, effects)))
            }
            OrderState::NotPaid(Some(_)) => {
                let command = CheckoutOrder { order: order.clone(), deadline_ms, key: None, chosen: None };
                self.checkout(&command, effects)
            }
            OrderState::NotPaid(None) | OrderState::Paid(_) => Err(not_now(row)),
        }
    }
}

/// The answer that is stored under a key, or where its open checkout stands.
fn stored(
    view: &impl Shop,
    now: Millis,
    order: &OrderId,
    key: &IdempotencyKey,
) -> Result<Option<CheckoutAnswer>, ShopRefusal> {
    let Some(row) = view.request_key(&key.key).filter(|row| row.ends_at > now) else { return Ok(None) };
    if row.body != key.body || row.order != *order {
        return Err(ShopRefusal::KeyReused);
    }
    let now = known_row(view, order);
    match row.answer {
        // What was answered about an order that another has taken the place of is no answer about that one.
        Some(answer) if now.is_of_an_earlier(answer.tr()) => Ok(None),
        Some(answer) => Ok(Some(answer)),
        None => Ok(Some(standing(view, now))),
    }
}

fn known<'v>(view: &'v impl Orders, order: &OrderId) -> Result<&'v OrderRow, ShopRefusal> {
    view.order(order).ok_or_else(|| ShopRefusal::UnknownOrder(order.clone()))
}

pub(super) fn known_row<'v>(view: &'v impl Orders, order: &OrderId) -> &'v OrderRow {
    view.order(order).expect("an order with a key or a try is there")
}

fn opened<'v>(view: &'v impl Checkouts, order: &OrderId) -> &'v Arc<CheckoutRow> {
    view.checkout(order).expect("an order that is pending or cancelling has its open row")
}

fn last_try(row: &OrderRow) -> super::TrNum {
    row.order.state.tr_num().expect("a paid order was tried")
}

/// How an order's last try stands.
fn standing(view: &impl Checkouts, row: &OrderRow) -> CheckoutAnswer {
    match row.order.state {
        OrderState::Paid(tr) => CheckoutAnswer::Paid { tr },
        OrderState::Pending(tr) | OrderState::Cancelling(tr) => {
            CheckoutAnswer::Open { tr, waits: opened(view, &row.order.order_id).waits() }
        }
        OrderState::NotPaid(last) => CheckoutAnswer::Failed {
            tr: last.expect("only orders that were tried are asked for"),
            why: row.failed.unwrap_or(Why::Cancelled),
        },
    }
}

/// What an outside side says, as its message: it speaks of what the order asked for.
#[must_use]
pub fn spoken(order: &Order, side: Side, said: Said) -> Body {
    fn with<V>(said: Said, value: V) -> Answer<V> {
        match said {
            Said::Taken => Answer::Taken(value),
            Said::Refused => Answer::Refused(value),
            Said::Undone => Answer::Undone(value),
        }
    }
    match side {
        Side::Pay => Body::Paid(with(said, order.payment())),
        Side::Stock => Body::Stocked(with(said, order.items.merged())),
    }
}

fn not_now(row: &OrderRow) -> ShopRefusal {
    ShopRefusal::NotNow { order: row.order.order_id.clone(), state: row.order.state }
}

/// Ends checkouts whose deadline has passed, and then keys whose time is over.
pub(crate) fn end_due(
    view: &impl View,
    at: At,
    due: &[Arc<CheckoutRow>],
    keys: &[Arc<KeyRow>],
    effects: &mut Step,
) {
    if !due.is_empty() {
        // Two of them may give back to the same user or item: each must see the one before it.
        let mut seen = Overlay::over(view);
        if due.iter().any(|row| row.charge.is_some()) {
            // The transfer of one may have run out in this very record.
            effects.apply(at.0, &mut seen);
        }
        for row in due {
            let mut of_try = Step::at(effects.cause());
            let order = known_row(&seen, &row.order);
            assert!(row.deadline < at.0 && row.undo.is_none(), "{} is not due", row.order);
            Deciding { view: &seen, paying: Some(&seen), at }.end(order, row, Why::Deadline, &mut of_try);
            of_try.apply(at.0, &mut seen);
            effects.append(of_try);
        }
    }
    effects.shop.extend(keys.iter().map(|row| ShopEffect::KeyEnded(row.key.clone())));
}
