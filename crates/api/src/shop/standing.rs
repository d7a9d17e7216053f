//! How a checkout stands, as JSON and in words: the same under `/shop` and `/hub`.

use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{self as domain, CheckoutAnswer, OrderId, Side, Sides, TrNum};
use holdfast_engine::Troubles;
use holdfast_wire::Instant;
use holdfast_wire::shop::{self as wire, Checkout, OrderState, Waits, Why};

use super::rows::Shop;

/// What the hub knows when a checkout is told of: the time, to tell ages by, and what is wrong with sides that are outside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Seen {
    pub(super) now: Millis,
    pub(super) troubles: Troubles,
}

impl Seen {
    pub(super) fn at(shop: &Shop) -> Seen {
        Seen { now: shop.now(), troubles: shop.troubles() }
    }
}

/// A checkout, whatever became of it.
pub(super) fn answer(order: &OrderId, answer: &CheckoutAnswer, seen: &Seen) -> Checkout {
    match answer {
        CheckoutAnswer::Paid { tr } => paid(order, *tr, true),
        CheckoutAnswer::AlreadyPaid { tr } => paid(order, *tr, false),
        CheckoutAnswer::Failed { tr, why } => failed(order, *tr, *why),
        CheckoutAnswer::Open { tr, waits } => open(order, *tr, waits, seen),
    }
}

/// One that is paid. `charged`: by this call, and not before it.
pub(super) fn paid(order: &OrderId, tr: TrNum, charged: bool) -> Checkout {
    Checkout { charged: Some(charged), ..checkout(order, tr, OrderState::Paid) }
}

/// One that failed.
pub(super) fn failed(order: &OrderId, tr: TrNum, why: domain::Why) -> Checkout {
    Checkout { why: Some(shown_why(why)), ..checkout(order, tr, OrderState::NotPaid) }
}

/// One that is open.
pub(super) fn open(order: &OrderId, tr: TrNum, waits: &domain::Waits, seen: &Seen) -> Checkout {
    Checkout { waits: Some(shown_waits(waits, seen)), ..checkout(order, tr, state_of(waits)) }
}

fn checkout(order: &OrderId, tr: TrNum, state: OrderState) -> Checkout {
    let order = order.as_str().into();
    Checkout { counted: None, order, tr: tr.get(), state, charged: None, why: None, waits: None }
}

/// What an open checkout waits for.
pub(super) fn shown_waits(waits: &domain::Waits, seen: &Seen) -> Waits {
    Waits {
        since: Instant(waits.since),
        deadline: Instant(waits.deadline),
        waits_for: sides_of(waits.sides),
        detail: in_words(waits, seen),
    }
}

/// The state of the order of an open checkout.
pub(super) const fn state_of(waits: &domain::Waits) -> OrderState {
    if waits.cancelling { OrderState::Cancelling } else { OrderState::Pending }
}

/// Where an order stands.
pub(super) const fn shown_state(state: domain::OrderState) -> OrderState {
    match state {
        domain::OrderState::NotPaid(_) => OrderState::NotPaid,
        domain::OrderState::Pending(_) => OrderState::Pending,
        domain::OrderState::Cancelling(_) => OrderState::Cancelling,
        domain::OrderState::Paid(_) => OrderState::Paid,
    }
}

/// Why a try failed.
pub(super) const fn shown_why(why: domain::Why) -> Why {
    match why {
        domain::Why::Pay => Why::Pay,
        domain::Why::Stock => Why::Stock,
        domain::Why::Both => Why::Both,
        domain::Why::Cancelled => Why::Cancelled,
        domain::Why::Deadline => Why::Deadline,
    }
}

/// For whom it waits.
pub(super) fn sides_of(sides: Sides) -> Vec<wire::Side> {
    let shown = |side: Side| match side {
        Side::Pay => wire::Side::Pay,
        Side::Stock => wire::Side::Stock,
    };
    Side::ALL.into_iter().filter(|side| sides.has(*side)).map(shown).collect()
}

/// `waits for stock since 12 s (cannot connect: connection refused), cancels in 18 s`.
pub(super) fn in_words(waits: &domain::Waits, seen: &Seen) -> String {
    let names: Vec<&str> = sides_of(waits.sides).into_iter().map(wire::Side::word).collect();
    let whom = if names.is_empty() { "nobody".to_owned() } else { names.join(" and ") };
    let (since, trouble) = (span(seen.now.saturating_sub(waits.since)), trouble(waits.sides, &seen.troubles));
    if waits.cancelling {
        return format!("has failed and waits for {whom} to give back since {since}{trouble}");
    }
    match waits.deadline.saturating_sub(seen.now) {
        left if left >= 0 => format!("waits for {whom} since {since}{trouble}, cancels in {}", span(left)),
        _ => format!("waits for {whom} since {since}{trouble}, cancels now"),
    }
}

/// What is wrong with those it waits for, in brackets; nothing if nothing is. Which side, if it waits for both.
fn trouble(sides: Sides, troubles: &Troubles) -> String {
    let waited = || Side::ALL.into_iter().filter(|side| sides.has(*side));
    let is_one = waited().count() == 1;
    let wrong = waited().filter_map(|side| {
        let why = troubles.of(side)?;
        Some(if is_one { why.to_owned() } else { format!("{}: {why}", side.name()) })
    });
    match wrong.collect::<Vec<String>>().as_slice() {
        [] => String::new(),
        wrong => format!(" ({})", wrong.join("; ")),
    }
}

/// A span of time as people say it. One that began after now, by a clock that was set back, is none.
fn span(ms: Millis) -> String {
    const SECOND: Millis = 1_000;
    const MINUTE: Millis = 60 * SECOND;
    const HOUR: Millis = 60 * MINUTE;
    match ms.max(0) {
        ms if ms < 2 * MINUTE => format!("{} s", ms / SECOND),
        ms if ms < 2 * HOUR => format!("{} min", ms / MINUTE),
        ms => format!("{} h", ms / HOUR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOCK: Sides = Sides { pay: false, stock: true };

    fn said(sides: Sides, cancelling: bool, now: Millis, troubles: Troubles) -> String {
        let waits = domain::Waits { sides, cancelling, since: 1_000, deadline: 31_000 };
        in_words(&waits, &Seen { now, troubles })
    }

    #[test]
    fn what_it_waits_for_in_words() {
        for (sides, cancelling, now, words) in [
            (STOCK, false, 13_000, "waits for stock since 12 s, cancels in 18 s"),
            (Sides::BOTH, false, 31_000, "waits for pay and stock since 30 s, cancels in 0 s"),
            (Sides::BOTH, false, 31_001, "waits for pay and stock since 30 s, cancels now"),
            (STOCK, true, 601_000, "has failed and waits for stock to give back since 10 min"),
            (STOCK, true, 36_001_000, "has failed and waits for stock to give back since 10 h"),
            (STOCK, false, 0, "waits for stock since 0 s, cancels in 31 s"),
        ] {
            assert_eq!(said(sides, cancelling, now, Troubles::default()), words);
        }
    }

    #[test]
    fn what_is_wrong_with_a_side_stands_beside_what_it_is_waited_for() {
        let refused = Troubles::default().with(Side::Stock, Some("cannot connect: refused"));
        let both = refused.clone().with(Side::Pay, Some("503"));
        let pay = Sides { pay: true, stock: false };
        let of_stock = "waits for stock since 5 s (cannot connect: refused), cancels in 25 s";
        let given_back = "has failed and waits for stock to give back since 5 s (cannot connect: refused)";
        let of_both = "waits for pay and stock since 5 s (stock: cannot connect: refused), cancels in 25 s";
        let both_wrong =
            "waits for pay and stock since 5 s (pay: 503; stock: cannot connect: refused), cancels in 25 s";
        for (sides, cancelling, troubles, words) in [
            (STOCK, false, &refused, of_stock),
            (STOCK, false, &both, of_stock),
            (STOCK, true, &refused, given_back),
            (Sides::BOTH, false, &refused, of_both),
            (Sides::BOTH, false, &both, both_wrong),
            (pay, false, &refused, "waits for pay since 5 s, cancels in 25 s"),
        ] {
            assert_eq!(said(sides, cancelling, 6_000, troubles.clone()), words);
        }
    }
}
