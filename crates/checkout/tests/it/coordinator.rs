//! The order consumer: deadlines and operators, crashes after each step, and what was lost on the way.

use std::collections::BTreeMap;

use holdfast_checkout::coordinator::{Coordinator, LogBounds, Orders, Record, Remembered};
use holdfast_checkout::order::Checkout;
use holdfast_checkout::participant::Forward;
use holdfast_checkout::{Key, Order, OrderId, OrderState, TrNum};

use crate::world::{Shop, key, message, types, whole};

/// One order of 3 units at price 1.
fn shop(credit: u64, stock: u64) -> Shop {
    let mut shop = Shop::with(&[("u1", credit)], &[("a", stock)]);
    shop.add_order("o1", "u1", &[("a", 3)]);
    shop.checkout("o1");
    shop
}

const PAID: OrderState = OrderState::Paid(TrNum::FIRST);
const NOT_PAID: OrderState = OrderState::NotPaid(Some(TrNum::FIRST));

/// (credit, stock) before, the state after, and what is left.
type Ending = ((u64, u64), OrderState, (u64, u64));

const ENDINGS: [Ending; 4] = [
    ((9, 9), PAID, (6, 6)),
    ((1, 9), NOT_PAID, (1, 9)),
    ((9, 1), NOT_PAID, (9, 1)),
    ((1, 1), NOT_PAID, (1, 1)),
];

fn assert_at_rest(shop: &Shop, state: OrderState, (credit, stock): (u64, u64), after: &str) {
    assert_eq!(shop.order("o1").state, state, "{after}");
    assert_eq!((shop.credit("u1"), shop.stock_of("a")), (credit, stock), "{after}");
    assert_eq!(shop.decisions[&key("o1", 1)].len(), 1, "{after}: {:?}", shop.decisions);
    assert_eq!(shop.coordinator.open_count(), 0, "{after}");
    assert_eq!(shop.outcome_offset, Some(shop.log.len() as u64), "{after}");
    assert_eq!(shop.alarms, [], "{after}");
}

#[test]
fn a_failure_at_any_side_unwinds_fully() {
    for ((credit, stock), state, left) in ENDINGS {
        let mut shop = shop(credit, stock);
        shop.run();
        assert_at_rest(&shop, state, left, "once");
    }
}

/// One step of the whole machinery: a delivery, or a record read.
fn step(shop: &mut Shop, stock_first: bool) -> bool {
    if shop.read < shop.log.len() {
        shop.read_next();
    } else if !shop.to_participants.is_empty() {
        shop.deliver_next(usize::from(stock_first));
    } else {
        return false;
    }
    true
}

#[test]
fn a_crash_after_any_step_changes_nothing() {
    for stock_first in [false, true] {
        for ((credit, stock), state, left) in ENDINGS {
            for crash_after in 0..12 {
                let mut shop = shop(credit, stock);
                let mut steps = 0;
                loop {
                    if steps == crash_after {
                        shop.crash();
                    }
                    if !step(&mut shop, stock_first) {
                        break;
                    }
                    steps += 1;
                }
                assert_at_rest(&shop, state, left, &format!("crash after {crash_after}, {stock_first}"));
            }
        }
    }
}

fn next_record(shop: &Shop) -> Option<Record> {
    let message = shop.log.get(shop.read)?.clone();
    Some(Record { offset: shop.read as u64, message })
}

/// Whoever settles before the decision must be told of it exactly when it comes: neither before, nor twice.
#[test]
fn what_pays_is_known_before_it_is_handled() {
    for stock_first in [false, true] {
        for ((credit, stock), state, _) in ENDINGS {
            let mut shop = shop(credit, stock);
            let mut told = 0;
            loop {
                let (before, record) = (shop.order("o1").state, next_record(&shop));
                let pays = record.is_some_and(|record| shop.coordinator.pays(&shop.orders, &record));
                if !step(&mut shop, stock_first) {
                    break;
                }
                told += usize::from(pays);
                assert_eq!(pays, before != PAID && shop.order("o1").state == PAID);
            }
            assert_eq!(told, usize::from(state == PAID));
            // All of it once more.
            let again: Vec<_> = shop.log.clone();
            shop.log.extend(again);
            while let Some(record) = next_record(&shop) {
                assert!(!shop.coordinator.pays(&shop.orders, &record));
                shop.read_next();
            }
        }
    }
}

/// Orders of which nothing that was reserved can be settled.
struct Unsettled<'a>(&'a BTreeMap<OrderId, Order>);

impl Orders for Unsettled<'_> {
    fn order(&self, id: &OrderId) -> Option<&Order> {
        self.0.get(id)
    }

    fn is_settled(&self, _: &Key) -> bool {
        false
    }
}

#[test]
fn two_successes_fail_if_they_cannot_be_settled() {
    for rebuilt in [false, true] {
        let mut shop = shop(9, 9);
        shop.deliver_next(0);
        shop.deliver_next(0);
        shop.read_next();
        let effects = if rebuilt {
            let records: Vec<Record> = (0..)
                .zip(&shop.log)
                .map(|(offset, message)| Record { offset, message: message.clone() })
                .collect();
            let log = LogBounds { start: 0, end: records.len() as u64 };
            let (coordinator, effects) =
                Coordinator::rebuild(&Unsettled(&shop.orders), shop.outcome_offset, log, &records);
            (shop.coordinator, shop.read) = (coordinator, records.len());
            effects
        } else {
            let record = next_record(&shop).unwrap();
            shop.read += 1;
            assert!(!shop.coordinator.pays(&Unsettled(&shop.orders), &record));
            shop.coordinator.handle(&Unsettled(&shop.orders), &record)
        };
        assert_eq!(types(&shop.keep(effects)), ["trfail", "can", "add"], "{rebuilt}");
        shop.run();
        assert_at_rest(&shop, NOT_PAID, (9, 9), "given back");
    }
}

/// Orders whose rows remember what the payment side said.
struct Remembering<'a>(&'a BTreeMap<OrderId, Order>, Forward<()>);

impl Orders for Remembering<'_> {
    fn order(&self, id: &OrderId) -> Option<&Order> {
        self.0.get(id)
    }

    fn remembered(&self, _: &Key) -> Remembered {
        Remembered { pay: Some(self.1.clone()), stock: None }
    }
}

/// The log begins behind the answer of the payment side, and the row knows it: the answer of the stock side decides, whether it
/// is there already or comes later.
#[test]
fn what_the_log_has_lost_and_the_row_knows_counts() {
    for (said, sent) in [(Forward::Taken(()), vec!["trsucc"]), (Forward::Refused(()), vec!["trfail", "add"])]
    {
        for rebuilt in [false, true] {
            let mut shop = shop(9, 9);
            shop.deliver_next(0);
            shop.deliver_next(0);
            let (log, stored) = (LogBounds { start: 1, end: 1 + u64::from(rebuilt) }, Some(0));
            let message =
                shop.log.iter().find(|message| message.body.type_name() == "ssucc").unwrap().clone();
            let record = Record { offset: 1, message };
            let orders = Remembering(&shop.orders, said.clone());
            let there: &[Record] = if rebuilt { std::slice::from_ref(&record) } else { &[] };
            let (mut coordinator, mut effects) = Coordinator::rebuild(&orders, stored, log, there);
            if !rebuilt {
                assert_eq!(coordinator.pays(&orders, &record), sent == ["trsucc"]);
                effects = coordinator.handle(&orders, &record);
            }
            assert_eq!(types(&effects.sent), sent, "{rebuilt}");
        }
    }
}

#[test]
fn every_step_twice_changes_nothing() {
    for ((credit, stock), state, left) in ENDINGS {
        let mut shop = shop(credit, stock);
        loop {
            if let Some(message) = shop.to_participants.first().cloned() {
                shop.deliver(&message);
                shop.deliver_next(0);
            } else if let Some(message) = shop.log.get(shop.read).cloned() {
                shop.read_next();
                if shop.log[..shop.read].iter().filter(|other| **other == message).count() < 2 {
                    shop.log.push(message);
                }
            } else {
                break;
            }
        }
        assert_at_rest(&shop, state, left, "twice");
    }
}

#[test]
fn a_try_of_a_participant_that_never_answers_is_cancelled() {
    let mut shop = shop(9, 9);
    shop.deliver_next(0);
    let never_answered = shop.to_participants.remove(0);
    shop.run();
    assert_eq!(shop.order("o1").state, OrderState::Pending(TrNum::FIRST));
    assert_eq!((shop.credit("u1"), shop.outcome_offset), (6, Some(0)));

    let effects = shop.coordinator.cancel(&shop.orders, &key("o1", 1));
    assert_eq!(types(&shop.keep(effects)), ["trfail", "can", "add"]);
    shop.run();
    assert_at_rest(&shop, NOT_PAID, (9, 9), "cancelled");

    // The rollback came first, so its forward message is refused, however late it comes.
    shop.deliver(&never_answered);
    shop.run();
    assert_at_rest(&shop, NOT_PAID, (9, 9), "the late one is refused");
}

#[test]
fn both_silent_ends_at_the_deadline() {
    let mut shop = shop(9, 9);
    let lost = std::mem::take(&mut shop.to_participants);
    assert_eq!(
        shop.crash(),
        [],
        "a try without any outcome is not in the log: the order row has its deadline"
    );
    assert_eq!(types(&shop.cancel(&key("o1", 1))), ["trfail", "can", "add"]);
    assert_eq!(shop.cancel(&key("o1", 1)), [], "the loser sends nothing");
    for message in &lost {
        shop.deliver(message);
    }
    shop.run();
    assert_at_rest(&shop, NOT_PAID, (9, 9), "cancelled");
}

/// The failure was in the log when the operator cancelled, and had not been read: both sides were asked to undo.
#[test]
fn every_answer_to_what_was_sent_is_waited_for() {
    let mut shop = shop(1, 9);
    shop.deliver_next(0);
    assert_eq!(types(&shop.cancel(&key("o1", 1))), ["trfail", "can", "add"]);
    let can = shop.to_participants.remove(1);
    shop.run();
    assert_eq!(shop.order("o1").state, OrderState::Cancelling(TrNum::FIRST));
    shop.to_participants.push(can);
    shop.run();
    assert_at_rest(&shop, NOT_PAID, (1, 9), "both answered");
}

#[test]
fn a_side_that_failed_is_not_asked_to_undo() {
    let mut shop = shop(1, 9);
    shop.deliver_next(0);
    shop.read_next();
    assert_eq!(types(&shop.cancel(&key("o1", 1))), ["trfail", "add"]);
}

/// Success arrives just after the operator has cancelled: it is taken back, and never counts.
#[test]
fn a_late_success_after_cancel_is_given_back() {
    let mut shop = shop(9, 9);
    shop.deliver_next(0);
    shop.deliver_next(0);
    assert_eq!((shop.credit("u1"), shop.stock_of("a")), (6, 6));
    assert_eq!(types(&shop.cancel(&key("o1", 1))), ["trfail", "can", "add"]);
    shop.run();
    assert_at_rest(&shop, NOT_PAID, (9, 9), "cancelled");
}

#[test]
fn fails_gets_funds_and_succeeds_despite_late_messages_of_the_first_try() {
    let mut shop = shop(1, 9);
    let first_try = shop.to_participants.clone();
    shop.run();
    assert_at_rest(&shop, NOT_PAID, (1, 9), "first try");
    shop.pay.balances.insert("u1".parse().unwrap(), whole(5));
    assert!(matches!(shop.checkout("o1"), Checkout::Started(_)));
    for message in &first_try {
        shop.deliver(message);
    }
    shop.run();
    for message in &first_try {
        shop.deliver(message);
    }
    shop.run();
    assert_eq!(shop.order("o1").state, OrderState::Paid(TrNum::try_from(2).unwrap()));
    assert_eq!((shop.credit("u1"), shop.stock_of("a")), (2, 6));
    assert_eq!((shop.alarms.as_slice(), shop.coordinator.open_count()), (&[][..], 0));
}

/// Without this, a `can` that was lost on its way would leave the order cancelling for ever.
#[test]
fn a_rebuild_sends_again_what_was_never_answered_and_nothing_else() {
    let mut shop = shop(9, 9);
    shop.cancel(&key("o1", 1));
    // Of pay, sub, can and add, the can is lost.
    shop.to_participants.remove(2);
    shop.run();
    assert_eq!(shop.order("o1").state, OrderState::Cancelling(TrNum::FIRST));
    assert_eq!((shop.credit("u1"), shop.stock_of("a")), (6, 9));
    assert_eq!(types(&shop.crash()), ["can"]);
    assert_eq!(types(&shop.crash()), ["can"], "it may be lost again");
    shop.run();
    assert_at_rest(&shop, NOT_PAID, (9, 9), "sent again");
    assert_eq!(shop.crash(), [], "answered: nothing to send");
}

#[test]
fn an_operator_retries_what_was_lost() {
    let mut shop = shop(9, 9);
    let key = key("o1", 1);
    shop.to_participants.remove(1);
    shop.run();
    assert_eq!(types(&shop.retry(&key)), ["sub"], "pay has answered");
    shop.to_participants.clear();
    shop.cancel(&key);
    shop.to_participants.remove(0);
    shop.run();
    assert_eq!(shop.order("o1").state, OrderState::Cancelling(TrNum::FIRST));
    assert_eq!(types(&shop.retry(&key)), ["can"], "add has been answered");
    shop.run();
    assert_at_rest(&shop, NOT_PAID, (9, 9), "retried");
    assert_eq!(types(&shop.retry(&key)), ["pay", "sub"], "and checks out anew");
    assert_eq!(shop.retry(&key), [], "the try that was meant is over");
    shop.run();
    assert_eq!(shop.credit("u1"), 6);
    let second = shop.last_try("o1").unwrap();
    assert_eq!((shop.retry(&second), shop.cancel(&second)), (vec![], vec![]), "paid is final");
}

#[test]
fn poison_in_the_log_stops_nothing() {
    let mut shop = shop(9, 9);
    shop.log.push(message(&key("o9", 1), r#"{"type":"psucc","user_id":"u1","amnt":3}"#));
    shop.log.push(message(&key("o1", 7), r#"{"type":"trfail"}"#));
    shop.log.push(message(&key("o1", 1), r#"{"type":"pay","user_id":"u1","amnt":3}"#));
    shop.log.push(message(&key("o1", 1), r#"{"type":"csucc","user_id":"u1","amnt":3}"#));
    shop.log.push(message(&key("o1", 1), r#"{"type":"psucc","user_id":"u1","amnt":2}"#));
    shop.run();
    let names: Vec<&str> = shop.alarms.iter().map(|alarm| alarm.name()).collect();
    assert_eq!(names, ["unknown-order", "never-started", "misplaced", "unasked", "other-value"]);
    shop.alarms.clear();
    assert_at_rest(&shop, PAID, (6, 6), "with poison");
}

#[test]
fn what_goes_against_the_decision_raises_an_alarm() {
    let after = |state: (u64, u64), value: &str| {
        let mut shop = shop(state.0, state.1);
        shop.run();
        shop.log.push(message(&key("o1", 1), value));
        shop.run();
        let names: Vec<&str> = shop.alarms.iter().map(|alarm| alarm.name()).collect();
        assert_eq!(shop.coordinator.open_count(), 0);
        names.join(" ")
    };
    let pfail = r#"{"type":"pfail","tr_type":"pay","user_id":"u1","amnt":3}"#;
    assert_eq!(after((9, 9), pfail), "contradiction");
    assert_eq!(after((9, 9), r#"{"type":"trfail"}"#), "contradiction");
    assert_eq!(after((9, 9), r#"{"type":"asucc","items":[{"id":"a","amnt":3}]}"#), "contradiction");
    assert_eq!(after((9, 9), r#"{"type":"trsucc"}"#), "");
    assert_eq!(after((1, 9), r#"{"type":"trsucc"}"#), "contradiction");
    assert_eq!(after((1, 9), r#"{"type":"trfail"}"#), "");
}
