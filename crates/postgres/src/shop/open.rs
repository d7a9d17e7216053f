//! An open try as its order's row keeps it, brought up to what the order consumer has heard.

use std::sync::Arc;

use holdfast_checkout::Coordinator;
use holdfast_checkout::coordinator::{Effects, Saga, Said, Stage};
use holdfast_checkout::participant::Forward;
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{
    CheckoutAnswer, CheckoutEnd, CheckoutRow, KeyRow, OrderId, OrderState, ShopEffect, SideSaid, Sides,
    TryKey, Why,
};
use holdfast_domain::view::{Checkouts, Keys};

use super::rows::ShopRows;
use super::write::is_open;
use crate::outbox::Outbox;

/// What the coordinator did is taken over: its messages, the orders that moved, and what their rows tell of open tries.
/// `keys` are the tries that it has heard of.
pub(super) fn follow<'k>(
    rows: &mut ShopRows,
    coordinator: &Coordinator,
    did: Effects,
    keys: impl IntoIterator<Item = &'k TryKey>,
    now: Millis,
    outbox: &mut Outbox<'_>,
) {
    for message in did.sent {
        outbox.say(message);
    }
    for key in keys {
        let moved = did.orders.binary_search_by(|order| order.order_id.cmp(&key.order_id));
        let moved = moved.ok().map(|at| &did.orders[at]);
        let Some(before) = rows.order_row(&key.order_id) else { continue };
        let state = moved.map_or(before.order.state, |order| order.state);
        if state.tr_num() == Some(key.tr_num) {
            follow_one(rows, key, coordinator.saga(key), state, now, outbox);
        }
    }
}

fn follow_one(
    rows: &mut ShopRows,
    key: &TryKey,
    saga: Option<&Saga>,
    state: OrderState,
    now: Millis,
    outbox: &mut Outbox<'_>,
) {
    let order = &key.order_id;
    let Some(open) = rows.checkout(order).filter(|open| open.tr == key.tr_num) else { return };
    let mut heard = heard(open, saga, state, now);
    if rows.unsettled.contains(key) && !matches!(state, OrderState::Pending(_)) {
        // Both have taken, and what the one had reserved was gone.
        heard.why.get_or_insert(Why::Pay);
    }
    let mut state = state;
    // The row remembers what was given back also where the log was cut before it.
    if matches!(state, OrderState::Cancelling(_)) && heard.undo.is_some() && heard.waits_for().is_none() {
        state = OrderState::NotPaid(Some(key.tr_num));
    }
    let before = rows.order_row(order).expect("an open try has its order");
    let (was, failed_before) = (before.order.state, before.failed);
    let why = heard.why.unwrap_or(Why::Cancelled);
    let answer = match state {
        OrderState::Pending(_) | OrderState::Cancelling(_) => None,
        OrderState::Paid(tr) => Some(CheckoutAnswer::Paid { tr }),
        OrderState::NotPaid(_) => Some(CheckoutAnswer::Failed { tr: key.tr_num, why }),
    };
    let failed = matches!(state, OrderState::NotPaid(_)).then_some(why);
    let mut effects = Vec::new();
    if state != was || failed != failed_before {
        assert!(state == was || was.may_become(state), "{key}: {was:?} cannot become {state:?}");
        effects.push(ShopEffect::Moved { order: order.clone(), state, failed });
    }
    match answer {
        None if heard == **open => {}
        None => effects.push(ShopEffect::Opened(Arc::new(heard))),
        Some(answer) => {
            effects.extend(answered(rows, open, order, answer));
            effects.push(ShopEffect::Closed(CheckoutEnd { order: order.clone(), answer }));
            outbox.tell_end(order, answer);
        }
    }
    effects.iter().for_each(|effect| rows.change(effect));
}

/// The keys that get the answer.
fn answered(rows: &ShopRows, open: &CheckoutRow, order: &OrderId, answer: CheckoutAnswer) -> Vec<ShopEffect> {
    let waits = |known: &&Arc<KeyRow>| known.order == *order && known.answer.is_none();
    let known = open.keys.iter().filter_map(|key| rows.request_key(key).filter(waits));
    known
        .map(|known| ShopEffect::KeyPut(Arc::new(KeyRow { answer: Some(answer), ..KeyRow::clone(known) })))
        .collect()
}

/// The row with what the consumer knows. What was recorded first counts, in the row as in the log.
fn heard(open: &CheckoutRow, saga: Option<&Saga>, state: OrderState, now: Millis) -> CheckoutRow {
    let mut heard = open.clone();
    if let Some(saga) = saga {
        heard.pay.said = heard.pay.said.or_else(|| said(&saga.pay));
        heard.stock.said = heard.stock.said.or_else(|| said(&saga.stock));
        heard.pay.undone |= saga.pay.undone;
        heard.stock.undone |= saga.stock.undone;
        if let Stage::Cancelling { undo, .. } = saga.stage {
            heard.undo = heard.undo.or(Some(Sides { pay: undo.can, stock: undo.add }));
        }
    }
    if !matches!(state, OrderState::Pending(_) | OrderState::Paid(_)) {
        heard.why = heard.why.or_else(|| why(&heard));
    }
    let waits_alike = heard.waits_for() == open.waits_for() && heard.undo.is_some() == open.undo.is_some();
    if is_open(state) && !waits_alike {
        heard.waits_since = now;
    }
    heard
}

fn said<V>(side: &Said<V>) -> Option<SideSaid> {
    side.outcome.as_ref().map(|outcome| match outcome {
        Forward::Taken(_) => SideSaid::Taken,
        Forward::Refused(_) => SideSaid::Refused,
    })
}

/// Which sides refused.
fn why(row: &CheckoutRow) -> Option<Why> {
    let refused = |said| said == Some(SideSaid::Refused);
    match (refused(row.pay.said), refused(row.stock.said)) {
        (true, true) => Some(Why::Both),
        (true, false) => Some(Why::Pay),
        (false, true) => Some(Why::Stock),
        (false, false) => None,
    }
}
