//! A participant takes once, gives back once, and answers a repeat with what it answered first.

use holdfast_checkout::participant::{Branch, Forward, Ledger, Pay, Stock};
use holdfast_checkout::{Alarm, Message, Whole, codec};

use crate::world::{key, message, payment, whole};

fn bank(credit: u64) -> Ledger<Pay> {
    let mut ledger = Ledger::default();
    ledger.balances.insert("u1".parse().unwrap(), whole(credit));
    ledger
}

fn shelves() -> Ledger<Stock> {
    let mut ledger = Ledger::default();
    ledger.balances.insert("a".parse().unwrap(), whole(5));
    ledger.balances.insert("b".parse().unwrap(), whole(1));
    ledger
}

fn credit(bank: &Ledger<Pay>) -> u64 {
    bank.balances.values().map(|credit| credit.get()).sum()
}

fn pay(amnt: u64) -> Message {
    message(&key("o1", 1), &format!(r#"{{"type":"pay","user_id":"u1","amnt":{amnt}}}"#))
}

fn can(amnt: u64) -> Message {
    message(&key("o1", 1), &format!(r#"{{"type":"can","user_id":"u1","amnt":{amnt}}}"#))
}

/// The answer, which raises these alarms.
fn alarmed(answered: (Option<Message>, Vec<Alarm>), alarms: &[Alarm]) -> String {
    assert_eq!(answered.1, alarms);
    codec::body_to_json(&answered.0.unwrap().body).to_string()
}

fn answer(answered: (Option<Message>, Vec<Alarm>)) -> String {
    alarmed(answered, &[])
}

const PSUCC: &str = r#"{"type":"psucc","user_id":"u1","amnt":3}"#;
const PFAIL: &str = r#"{"type":"pfail","tr_type":"pay","user_id":"u1","amnt":3}"#;
const CSUCC: &str = r#"{"type":"csucc","user_id":"u1","amnt":3}"#;

#[test]
fn takes_once_and_answers_each_repeat_alike() {
    let mut bank = bank(5);
    for _ in 0..3 {
        assert_eq!(answer(bank.take(&pay(3))), PSUCC);
        assert_eq!(credit(&bank), 2);
    }
    for _ in 0..3 {
        assert_eq!(answer(bank.take(&can(3))), CSUCC);
        assert_eq!(credit(&bank), 5);
    }
    assert_eq!(answer(bank.take(&pay(3))), PSUCC, "what was answered first is answered for ever");
    assert_eq!(credit(&bank), 5);
    assert_eq!(bank.branches[&key("o1", 1)], Branch::Undone(Forward::Taken(payment("u1", 3))));
}

/// The origin of this design published a fresh outcome: funds added in between turned a failure into a
/// success.
#[test]
fn a_refusal_stays_one_after_funds_are_added() {
    let mut bank = bank(2);
    assert_eq!(answer(bank.take(&pay(3))), PFAIL);
    bank.balances.insert("u1".parse().unwrap(), whole(100));
    assert_eq!(answer(bank.take(&pay(3))), PFAIL);
    assert_eq!(answer(bank.take(&can(3))), CSUCC, "there is nothing to give back");
    assert_eq!(credit(&bank), 100);
}

/// The origin credited the user and then took the late payment too.
#[test]
fn a_rollback_that_comes_first_moves_nothing_and_shuts_the_door() {
    let mut bank = bank(5);
    assert_eq!(answer(bank.take(&can(3))), CSUCC);
    assert_eq!(bank.branches[&key("o1", 1)], Branch::CancelledFirst);
    assert_eq!(answer(bank.take(&pay(3))), PFAIL);
    assert_eq!(answer(bank.take(&can(3))), CSUCC);
    assert_eq!(answer(bank.take(&pay(3))), PFAIL);
    assert_eq!(credit(&bank), 5);
    assert_eq!(bank.branches[&key("o1", 1)], Branch::CancelledThenRefused(payment("u1", 3)));
}

#[test]
fn tries_are_apart() {
    let mut bank = bank(5);
    assert_eq!(answer(bank.take(&can(3))), CSUCC);
    let second = message(&key("o1", 2), r#"{"type":"pay","user_id":"u1","amnt":3}"#);
    assert_eq!(answer(bank.take(&second)), PSUCC);
    assert_eq!(credit(&bank), 2);
}

#[test]
fn what_differs_from_the_record_raises_an_alarm_and_the_record_counts() {
    let differs = |message| [Alarm::Differs { key: key("o1", 1), message }];
    let mut bank = bank(9);
    assert_eq!(answer(bank.take(&pay(3))), PSUCC);
    assert_eq!(alarmed(bank.take(&pay(4)), &differs("pay")), PSUCC);
    assert_eq!(alarmed(bank.take(&can(8)), &differs("can")), CSUCC);
    assert_eq!(credit(&bank), 9, "what was taken was given back, not what the message says");
    let other_user = message(&key("o1", 1), r#"{"type":"can","user_id":"u2","amnt":3}"#);
    assert_eq!(bank.take(&other_user).1, differs("can"));
}

#[test]
fn stock_is_taken_for_all_lines_or_for_none() {
    let mut shelves = shelves();
    let sub = |tr, lines| message(&key("o1", tr), &format!(r#"{{"type":"sub","items":[{lines}]}}"#));
    let short = sub(1, r#"{"id":"a","amnt":2},{"id":"b","amnt":2}"#);
    assert!(answer(shelves.take(&short)).starts_with(r#"{"type":"sfail""#));
    let summed = sub(2, r#"{"id":"b","amnt":1},{"id":"b","amnt":1}"#);
    assert!(answer(shelves.take(&summed)).starts_with(r#"{"type":"sfail""#));
    let unknown = sub(3, r#"{"id":"a","amnt":1},{"id":"c","amnt":0}"#);
    assert!(answer(shelves.take(&unknown)).starts_with(r#"{"type":"sfail""#));
    assert_eq!(shelves.balances, self::shelves().balances);
    let fits = sub(4, r#"{"id":"a","amnt":2},{"id":"b","amnt":1},{"id":"a","amnt":3}"#);
    assert!(answer(shelves.take(&fits)).starts_with(r#"{"type":"ssucc""#));
    assert!(shelves.balances.values().all(|stock| *stock == Whole::ZERO));
    let regrouped = r#"{"type":"add","items":[{"id":"b","amnt":1},{"id":"a","amnt":5}]}"#;
    assert!(answer(shelves.take(&message(&key("o1", 4), regrouped))).starts_with(r#"{"type":"asucc""#));
    assert_eq!(shelves.balances, self::shelves().balances);
}

/// Nothing wraps: the rollback waits until there is room, and then works.
#[test]
fn what_cannot_be_given_back_now_is_not_lost() {
    let mut bank = bank(5);
    assert_eq!(answer(bank.take(&pay(3))), PSUCC);
    bank.balances.insert("u1".parse().unwrap(), Whole::MAX);
    for _ in 0..2 {
        let stuck = Alarm::Stuck { key: key("o1", 1), message: "can", holder: "u1".to_owned() };
        assert_eq!(bank.take(&can(3)), (None, vec![stuck]));
        assert_eq!(bank.branches[&key("o1", 1)], Branch::Done(Forward::Taken(payment("u1", 3))));
    }
    bank.balances.insert("u1".parse().unwrap(), whole(1));
    assert_eq!(answer(bank.take(&can(3))), CSUCC);
    assert_eq!(credit(&bank), 4);
}

#[test]
fn a_message_of_another_topic_is_passed_over() {
    let mut bank = bank(5);
    let sub = message(&key("o1", 1), r#"{"type":"sub","items":[]}"#);
    let (sent, alarms) = bank.take(&sub);
    assert_eq!((sent, alarms[0].name()), (None, "misplaced"));
    assert_eq!(answer(bank.take(&pay(3))), PSUCC, "and stops nothing");
    let mut shelves = shelves();
    let (sent, alarms) = shelves.take(&message(&key("o1", 1), r#"{"type":"trfail"}"#));
    assert_eq!((sent, alarms[0].name()), (None, "misplaced"));
}
