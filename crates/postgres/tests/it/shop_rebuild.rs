//! Starting, and taking over a partition of `outcomes` in mid-flight.

use holdfast_checkout::Coordinator;
use holdfast_checkout::coordinator::LogBounds;
use holdfast_domain::shop::Why;
use holdfast_messages::Topic;
use holdfast_postgres::Source;
use holdfast_postgres::shop::Rebuilt;

use crate::shop_world::*;
use crate::world::*;

fn shop_of(orders: &[&str]) -> Option<(World, Shop)> {
    let (world, mut shop) = Shop::open(1)?;
    let orders: Vec<_> = orders.iter().map(|order| (*order, "u", "i", 1)).collect();
    shop.stocked(&[("u", 1_000)], &[("i", 1_000, 7)], &orders);
    Some((world, shop))
}

/// A try that has both outcomes in the log, and a consumer that died before it decided: whoever comes next decides it.
#[test]
fn what_is_complete_and_undecided_is_decided_at_the_start() {
    let Some((world, mut shop)) = shop_of(&["o", "p"]) else { return };
    shop.ask("o", checkout());
    shop.asks("p", checkout(), &[Orders, Relay, Pay, Relay, Outcomes, Stock, Relay]);
    assert_eq!((shop.outcomes[0].at, shop.outcomes[0].log.len()), (2, 4));
    let step = shop.take_over(0, 0);
    assert_eq!((shop.outcomes[0].at, step.messages, step.alarms), (4, 4, vec![]));
    assert_eq!((shop.state("o").as_str(), shop.state("p").as_str()), ("paid", "paid"));
    // `trsucc` is not in the log yet, so both are still open for whoever comes after.
    assert_eq!(shop.coordinators[0].open_count(), 2);
    shop.drain();
    assert_eq!((shop.coordinators[0].open_count(), shop.offsets[&0].last()), (0, Some(&6)));
    assert_eq!((shop.ends("o").len(), shop.ends("p").len()), (1, 1));
    shop.is_at_rest(&world);
}

/// The one who takes over knows what the one before knew, at any place of the log, and reads no more than what is open.
#[test]
fn a_takeover_after_every_step_changes_nothing() {
    let names: Vec<String> = (0..12).map(|number| format!("o{number}")).collect();
    let orders: Vec<&str> = names.iter().map(String::as_str).collect();
    let Some((world, mut shop)) = shop_of(&orders) else { return };
    // A silent one holds the offset where it began.
    shop.asks("o0", checkout(), &[Orders, Relay, Pay]);
    let lost = shop.stock[0].log.len();
    shop.stock[0].log.clear();
    assert_eq!(lost, 1);
    shop.drain();
    for order in &orders[1..] {
        shop.ask(order, checkout());
        loop {
            let worked = shop.turn(0, Orders) | shop.turn(0, Pay) | shop.turn(0, Stock);
            let before = shop.coordinators[0].clone();
            let stored = shop.store.outcome_offset(0).unwrap();
            shop.take_over(0, 0);
            let after = &shop.coordinators[0];
            assert_eq!(after.outcome_offset(), before.outcome_offset().max(stored));
            if !worked && !shop.relay() && !shop.turn(0, Outcomes) {
                break;
            }
        }
        assert_eq!(shop.state(order), "paid");
    }
    assert_eq!(shop.store.outcome_offset(0).unwrap(), Some(0), "o0 is open, and began there");
    assert_eq!(shop.run("o0", RETRY).1, "paid");
    let end = shop.outcomes[0].log.len() as u64;
    assert_eq!(shop.store.outcome_offset(0).unwrap(), Some(end));
    let step = shop.take_over(0, 0);
    assert_eq!((step.messages, step.outbox.len(), shop.coordinators[0].open_count()), (0, 0, 0));
    assert_eq!(shop.alarms, []);
    shop.is_at_rest(&world);
}

/// A `can` was sent and its answer never came: whoever takes over asks again.
#[test]
fn what_is_owed_is_asked_for_again() {
    let Some((world, mut shop)) = shop_of(&["o"]) else { return };
    shop.asks("o", checkout(), &[Orders, Relay, Pay, Stock]);
    shop.asks("o", CANCEL, &[Orders, Relay]);
    // `can` and `add` are lost on their way.
    for at in [shop.pay[0].at, shop.stock[0].at] {
        assert_eq!(at, 1);
    }
    shop.pay[0].log.truncate(1);
    shop.stock[0].log.truncate(1);
    shop.drain();
    assert_eq!((shop.state("o").as_str(), shop.credit("u")), ("cancelling", 993));
    shop.take_over(0, 0);
    shop.drain();
    assert_eq!((shop.state("o").as_str(), shop.credit("u"), shop.stock_of("i")), ("not_paid", 1_000, 1_000));
    assert_eq!(shop.ends("o"), [failed(Why::Cancelled)]);
    shop.is_at_rest(&world);
}

/// The log was cut beyond what is open. That is reported. What was heard there the row knows, so the other answer decides; what
/// nobody had heard is lost, and the deadline ends that checkout.
#[test]
fn a_log_that_begins_too_late_is_reported_and_survived() {
    let Some((world, mut shop)) = shop_of(&["o", "p", "q"]) else { return };
    world.set_clock(2_000_000_000_000);
    shop.ask("p", checkout());
    shop.drain();
    shop.asks("o", checkout(), &[Orders, Relay, Pay, Relay, Outcomes]);
    let stored = shop.store.outcome_offset(0).unwrap().unwrap();
    assert_eq!((stored, shop.outcomes[0].log.len()), (3, 4));
    shop.asks("q", checkout(), &[Orders, Relay, Pay, Relay]);
    assert_eq!(shop.outcomes[0].log.len(), 5, "of q nobody has heard");
    let step = shop.take_over(0, 5);
    let names: Vec<&str> = step.alarms.iter().map(|alarm| alarm.name()).collect();
    assert_eq!(names, ["offset-below-log"]);
    assert_eq!(shop.coordinators[0].open_count(), 0);
    shop.drain();
    assert_eq!(
        (shop.state("o").as_str(), shop.state("q").as_str(), shop.credit("u")),
        ("paid", "pending", 979)
    );
    world.set_clock(2_000_000_000_000 + i64::from(DEADLINE_MS) + 1);
    assert_eq!(shop.expire(), 1);
    assert_eq!((shop.state("q").as_str(), shop.credit("u"), shop.stock_of("i")), ("not_paid", 986, 998));
    assert_eq!((shop.state("p").as_str(), shop.ends("o").len()), ("paid", 1));
    shop.is_at_rest(&world);
}

/// While cancelling, one side has answered, and that answer is cut away with the log: the order's row still knows it.
#[test]
fn an_answer_that_the_log_has_lost_is_remembered_by_the_row() {
    let Some((world, mut shop)) = shop_of(&["o"]) else { return };
    shop.asks("o", checkout(), &[Orders, Relay]);
    shop.asks("o", CANCEL, &[Orders, Relay]);
    let kept = shop.stock[0].log.clone();
    shop.stock[0].log.clear();
    shop.drain();
    assert_eq!(shop.state("o"), "cancelling");
    let end = shop.outcomes[0].log.len() as u64;
    shop.take_over(0, end);
    shop.stock[0].log = kept;
    shop.drain();
    assert_eq!((shop.state("o").as_str(), shop.credit("u"), shop.stock_of("i")), ("not_paid", 1_000, 1_000));
    shop.is_at_rest(&world);
}

/// The value never falls, whoever tells another.
#[test]
fn the_offset_never_falls() {
    let Some((world, mut shop)) = shop_of(&["o", "p"]) else { return };
    for order in ["o", "p"] {
        assert_eq!(shop.run(order, checkout()).1, "paid");
    }
    assert_eq!(shop.store.outcome_offset(0).unwrap(), Some(6));
    assert!(shop.offsets[&0].is_sorted(), "{:?}", shop.offsets);
    let claim = shop.store.claim(&Source::Consumer(Topic::Outcomes, 0)).unwrap();
    // One that read from the start, as if it knew of no value.
    let log = LogBounds { start: 0, end: 6 };
    let Rebuilt::Done { coordinator, next, done } =
        shop.store.rebuild_outcomes(&claim, log, &shop.outcomes[0].log).unwrap()
    else {
        panic!("fenced")
    };
    assert_eq!((coordinator.outcome_offset(), next, done.outbox.len()), (Some(6), 6, 0));
    // A coordinator that is behind by mistake tells what it knows, and the stored value stays.
    shop.outcomes[0].push(r#"{"order_id":"o","tr_num":1}"#, br#"{"type":"trsucc"}"#);
    world.run("UPDATE outcome_offset SET value = 100");
    (shop.outcomes[0].claim, shop.coordinators[0]) = (claim, Coordinator::default());
    shop.turn(0, Outcomes);
    assert_eq!(shop.store.outcome_offset(0).unwrap(), Some(100));
}

/// Poison that nobody has read yet is put aside by whoever rebuilds over it, once.
#[test]
fn poison_in_the_log_is_buried_once() {
    let Some((world, mut shop)) = shop_of(&["o"]) else { return };
    shop.outcomes[0].push("x", b"nonsense");
    shop.asks("o", checkout(), &[Orders, Relay, Outcomes]);
    assert_eq!(world.rows("dead_letter"), 1);
    shop.turns(0, &[Pay, Relay]);
    shop.outcomes[0].push("y", b"nonsense");
    shop.take_over(0, 0);
    shop.take_over(0, 0);
    assert_eq!(world.rows("dead_letter"), 2);
    shop.drain();
    assert_eq!(shop.state("o"), "paid");
    shop.is_at_rest(&world);
}

/// Who writes to the topic is not ours. An id that no row can have is poison for the consumer, and for whoever takes over.
#[test]
fn an_id_that_no_row_can_have_does_not_keep_anybody_from_taking_over() {
    let Some((world, mut shop)) = shop_of(&["o"]) else { return };
    shop.asks("o", checkout(), &[Orders, Relay, Pay, Relay]);
    let nul = [
        (r#"{"order_id":"a\u0000b","tr_num":1}"#, r#"{"type":"psucc","user_id":"u","amnt":7}"#),
        (r#"{"order_id":"o","tr_num":1}"#, r#"{"type":"psucc","user_id":"a\u0000b","amnt":7}"#),
    ];
    for (key, value) in nul {
        shop.outcomes[0].push(key, value.as_bytes());
    }
    assert_eq!(shop.take_over(0, 0).dead_letters, 2);
    for (key, value) in nul {
        shop.outcomes[0].push(key, value.as_bytes());
    }
    assert!(shop.turn(0, Outcomes));
    assert_eq!(world.rows("dead_letter"), 4);
    // The offset has not passed what is open, so the next one reads them once more.
    assert_eq!(shop.take_over(0, 0).dead_letters, 0);
    shop.drain();
    assert_eq!(shop.state("o"), "paid");
    shop.is_at_rest(&world);
}
