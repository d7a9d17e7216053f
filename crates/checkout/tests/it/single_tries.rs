//! The coordinator of one try does what the coordinator of all does, record by record.

use std::collections::BTreeMap;
use std::time::Instant;

use holdfast_checkout::coordinator::{Coordinator, LogBounds, Orders, Record, Saga, single};
use holdfast_checkout::order::Checkout;
use holdfast_checkout::{Answer, Body, Key, Lookup, Message, Order, OrderId, Verdict};
use proptest::prelude::*;

use crate::world::{items, key, payment};

/// Two orders of the same payment and items.
fn orders() -> BTreeMap<OrderId, Order> {
    let of = |id: &str| {
        let order = Order::new(id.parse().unwrap(), "u".parse().unwrap());
        let (item, one) = ("a".parse().unwrap(), crate::world::whole(1));
        (order.order_id.clone(), order.with_item(item, one, crate::world::whole(5)).unwrap())
    };
    BTreeMap::from([of("o0"), of("o1")])
}

#[derive(Debug, Clone, Copy)]
enum Move {
    Checkout,
    Cancel,
    Retry,
    Outcome(u8),
}

fn moves() -> impl Strategy<Value = Vec<(bool, u64, Move)>> {
    let one = prop_oneof![
        2 => Just(Move::Checkout),
        1 => Just(Move::Cancel),
        1 => Just(Move::Retry),
        10 => (0..8_u8).prop_map(Move::Outcome),
    ];
    proptest::collection::vec((any::<bool>(), 0..2_u64, one), 1..60)
}

fn outcome(number: u8) -> Body {
    let (payment, items) = (payment("u", 5), items(&[("a", 1)]));
    match number {
        0 => Body::Paid(Answer::Taken(payment)),
        1 => Body::Paid(Answer::Refused(payment)),
        2 => Body::Paid(Answer::Undone(payment)),
        3 => Body::Stocked(Answer::Taken(items)),
        4 => Body::Stocked(Answer::Refused(items)),
        5 => Body::Stocked(Answer::Undone(items)),
        6 => Body::Decided(Verdict::Succeeded),
        _ => Body::Decided(Verdict::Failed),
    }
}

proptest! {
    #[test]
    fn one_try_is_coordinated_as_all_are(moves in moves()) {
        let mut orders = orders();
        let mut all = Coordinator::default();
        let mut slots: BTreeMap<Key, Option<Saga>> = BTreeMap::new();
        for (offset, (second, back, one)) in (0..).zip(moves) {
            let id: OrderId = if second { "o1" } else { "o0" }.parse().unwrap();
            let order = orders[&id].clone();
            let last = order.state.tr_num().map_or(1, |tr| u64::from(tr.get()));
            let key = key(id.as_str(), last.saturating_sub(back).max(1));
            let slot = slots.entry(key.clone()).or_default();
            let (whole, own) = match one {
                Move::Checkout => {
                    if let Checkout::Started(moved) = order.checkout() {
                        orders.insert(id, moved.order);
                    }
                    continue;
                }
                Move::Cancel => (all.cancel(&orders, &key), single::cancel(slot, &order, &key)),
                Move::Retry => (all.retry(&orders, &key), single::retry(slot.as_ref(), &order, &key)),
                Move::Outcome(number) => {
                    let record = Record { offset, message: Message { key, body: outcome(number) } };
                    (all.handle(&orders, &record), single::handle(slot, &order, &record))
                }
            };
            prop_assert_eq!(&own.orders, &whole.orders);
            prop_assert_eq!(&own.sent, &whole.sent);
            prop_assert_eq!(&own.alarms, &whole.alarms);
            prop_assert_eq!(own.outcome_offset, None);
            for order in whole.orders {
                orders.insert(order.order_id.clone(), order);
            }
            prop_assert_eq!(slots.values().flatten().count(), all.open_count());
        }
    }
}

struct Hashed(Lookup<OrderId, Order>);

impl Orders for Hashed {
    fn order(&self, id: &OrderId) -> Option<&Order> {
        self.0.get(id)
    }
}

/// Run by hand: `cargo test -p holdfast-checkout --test it -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
#[allow(clippy::disallowed_methods, reason = "it measures")]
fn rebuild_of_a_million_outcomes() {
    const TRIES: u64 = 333_334;
    let mut orders = Lookup::default();
    let mut records = Vec::new();
    let template = orders_template();
    for number in 0..TRIES {
        let id: OrderId = format!("order-{number}").parse().unwrap();
        let order = Order { order_id: id.clone(), ..template.clone() };
        let Checkout::Started(moved) = order.checkout() else { unreachable!() };
        let key = key(id.as_str(), 1);
        for (place, body) in [outcome(0), outcome(3), outcome(6)].into_iter().enumerate() {
            // Every hundredth has no decision yet.
            if place < 2 || !number.is_multiple_of(100) {
                let offset = records.len() as u64;
                records.push(Record { offset, message: Message { key: key.clone(), body } });
            }
        }
        orders.insert(id, moved.order);
    }
    let log = LogBounds { start: 0, end: records.len() as u64 };
    let orders = Hashed(orders);
    let started = Instant::now();
    let (coordinator, effects) = Coordinator::rebuild(&orders, None, log, &records);
    println!("{} outcomes in {:?}", records.len(), started.elapsed());
    assert_eq!((coordinator.open_count(), effects.sent.len()), (3_334, 3_334));
}

fn orders_template() -> Order {
    orders().into_values().next().unwrap()
}
