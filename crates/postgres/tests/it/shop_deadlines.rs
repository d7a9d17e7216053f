//! Deadlines, cancel and retry: who ends a try that nobody decided, and how one that stands still goes on.

use std::sync::Arc;

use holdfast_domain::shop::callers::CheckoutState;
use holdfast_domain::shop::{CheckoutAnswer, OrderState, ShopCommand, ShopRefusal, TrNum, Why};
use holdfast_messages::OrderCommand;
use holdfast_postgres::Point;

use crate::shop_world::*;
use crate::world::*;

const NOW: i64 = 2_000_000_000_000;
const PAST: i64 = NOW + DEADLINE_MS as i64 + 1;

fn shop_of_one() -> Option<(World, Shop)> {
    let (world, shop) = Shop::with_an_order(2)?;
    world.set_clock(NOW);
    Some((world, shop))
}

fn untouched(shop: &mut Shop, world: &World, why: Why) {
    assert_eq!((shop.state("o").as_str(), shop.credit("u"), shop.stock_of("i")), ("not_paid", 100, 10));
    assert_eq!(shop.ends("o"), [failed(why)]);
    shop.is_at_rest(world);
}

/// The stock side never answers: what the payment side took comes back when the deadline has passed, and not before.
#[test]
fn a_side_that_is_silent_ends_the_checkout_at_its_deadline() {
    for delivery in [Delivery::Once, Delivery::TwiceAndLate] {
        let Some((world, mut shop)) = shop_of_one() else { return };
        shop.delivery = delivery;
        shop.asks("o", checkout(), &[Orders, Relay, Pay, Relay, Outcomes]);
        assert_eq!(shop.credit("u"), 79);
        world.set_clock(PAST - 1);
        assert_eq!((shop.expire_only(), shop.store.due_checkout_shards().unwrap()), (0, vec![]));
        let page = shop.store.open_checkouts(Some(CheckoutState::Pending), None, 10).unwrap();
        let waits = page.checkouts[0].row.waits();
        assert!(!waits.sides.pay && waits.sides.stock && !waits.cancelling, "{waits:?}");
        assert_eq!((waits.deadline, page.now), (NOW + i64::from(DEADLINE_MS), PAST - 1));
        world.set_clock(PAST);
        assert_eq!(shop.store.due_checkout_shards().unwrap().len(), 1);
        assert_eq!(shop.expire_only(), 1);
        assert_eq!(shop.store.due_checkout_shards().unwrap(), [0_i16; 0]);
        assert_eq!(shop.state("o"), "cancelling");
        assert_eq!(shop.credit("u"), 79, "not before it is given back");
        let page = shop.store.open_checkouts(Some(CheckoutState::Cancelling), None, 10).unwrap();
        assert!(page.checkouts[0].row.waits().cancelling);
        assert_eq!(shop.ends("o"), []);
        // The stock side gets its `sub` only now, and its `add` in front of it or behind it.
        shop.drain();
        untouched(&mut shop, &world, Why::Deadline);
        assert_eq!(shop.alarms, []);
    }
}

/// A refusal that was heard says more than that the other side was silent, and who refused is not asked to give back.
#[test]
fn a_known_refusal_is_told_at_the_deadline() {
    let Some((world, mut shop)) = shop_of_one() else { return };
    shop.does(&ShopCommand::TakeFunds { user: id("u"), amount: whole(90) });
    shop.asks("o", checkout(), &[Orders, Relay, Pay, Relay, Outcomes]);
    world.set_clock(PAST);
    assert_eq!(shop.expire(), 1);
    assert_eq!(shop.ends("o"), [failed(Why::Pay)]);
    assert_eq!(world.rows("pay_transaction WHERE is_rollback"), 0);
    shop.is_at_rest(&world);
}

/// Nobody has answered at all, not even a consumer has heard of the try.
#[test]
fn a_checkout_that_nobody_heard_of_ends_too() {
    let Some((world, mut shop)) = shop_of_one() else { return };
    shop.ask("o", checkout());
    shop.turn(partition_of("o", 2) as usize, Orders);
    world.set_clock(PAST);
    assert_eq!(shop.expire(), 1);
    untouched(&mut shop, &world, Why::Deadline);
}

/// The scan and the consumer decide the same try at the same time: the row's lock lets one of them be first, and the other
/// sends nothing.
#[test]
fn the_scan_and_the_consumer_cannot_both_decide() {
    let Some((world, mut shop)) = shop_of_one() else { return };
    let at = partition_of("o", 2) as usize;
    shop.asks("o", checkout(), BOTH_TAKE);
    world.set_clock(PAST);
    // The consumer has decided and not committed when the scan looks.
    let (ended, shards) = (Arc::new(std::sync::Mutex::new(None)), shop.shards.clone());
    let (mut scan, ended_in) = (world.store(), Arc::clone(&ended));
    shop.store.watch(move |point| {
        if point == Point::EffectsWritten && ended_in.lock().unwrap().is_none() {
            let count = (0..)
                .zip(&shards)
                .map(|(shard, claim)| done(scan.expire_checkouts(claim, shard, 10).unwrap()).messages);
            *ended_in.lock().unwrap() = Some(count.sum::<usize>());
        }
    });
    shop.turn(at, Outcomes);
    assert_eq!(*ended.lock().unwrap(), Some(0), "a locked order is passed over");
    assert_eq!(shop.expire(), 0);
    assert_eq!((shop.state("o").as_str(), shop.credit("u"), shop.stock_of("i")), ("paid", 79, 7));
    shop.is_at_rest(&world);

    // And the other way round: the scan was first, and the consumer hears both successes.
    let Some((world, mut shop)) = shop_of_one() else { return };
    shop.asks("o", checkout(), BOTH_TAKE);
    world.set_clock(PAST);
    assert_eq!(shop.expire_only(), 1);
    shop.turn(at, Outcomes);
    assert_eq!(shop.state("o"), "cancelling");
    shop.drain();
    untouched(&mut shop, &world, Why::Deadline);
}

/// Whoever has locked what is due first, and keeps it, does not keep the scan from those behind.
#[test]
fn what_is_locked_does_not_hide_what_is_due_behind_it() {
    let Some((world, mut shop)) = Shop::open(1) else { return };
    world.set_clock(NOW);
    // Two of one shard, whichever that is.
    let ids: Vec<String> = (0..9).map(|number| format!("o{number}")).collect();
    let orders: Vec<_> = ids.iter().map(|order| (order.as_str(), "u", "i", 1)).collect();
    shop.stocked(&[("u", 100)], &[("i", 10, 7)], &orders);
    for (at, order) in (0..).zip(&ids) {
        world.set_clock(NOW + at);
        shop.asks(order, checkout(), &[Orders]);
    }
    let mut sql = world.sql();
    let shards = "SELECT shard, min(order_id), max(order_id) FROM orders GROUP BY shard HAVING count(*) > 1";
    let row = sql.query(shards, &[]).unwrap().remove(0);
    let (shard, first, last): (i16, String, String) = (row.get(0), row.get(1), row.get(2));
    world.set_clock(PAST + 10);
    let mut tx = sql.transaction().unwrap();
    tx.execute("SELECT 1 FROM orders WHERE shard = $1 AND order_id <> $2 FOR UPDATE", &[&shard, &last])
        .unwrap();
    let claim = shop.shards[usize::try_from(shard).unwrap()];
    let ended = |shop: &mut Shop| done(shop.store.expire_checkouts(&claim, shard, 1).unwrap()).messages;
    assert_eq!((ended(&mut shop), shop.state(&last).as_str()), (1, "cancelling"));
    assert_eq!((ended(&mut shop), shop.state(&first).as_str()), (0, "pending"), "it is locked");
    tx.rollback().unwrap();
    assert_eq!((ended(&mut shop), shop.state(&first).as_str()), (1, "cancelling"));
}

/// The operator meant the try that was open then. Whenever the command comes, and however often, it ends no other.
#[test]
fn a_cancel_that_comes_late_ends_no_later_try() {
    let Some((world, mut shop)) = shop_of_one() else { return };
    let at = partition_of("o", 2) as usize;
    let second = TrNum::FIRST.next().unwrap();
    let cancel = |tr| OrderCommand::Cancel { tr: Some(tr) };
    shop.asks("o", checkout(), &[Orders]);
    let (answer, state) = shop.run("o", cancel(TrNum::FIRST));
    assert!(matches!(answer, Ok(CheckoutAnswer::Open { .. })), "{answer:?}");
    assert_eq!(state, "not_paid");
    // In one batch with the checkout that begins the next try, and in one after it.
    shop.ask("o", checkout());
    let beside = shop.ask("o", cancel(TrNum::FIRST));
    shop.turn(at, Orders);
    let after = shop.ask("o", cancel(TrNum::FIRST));
    shop.turns(at, &[Orders, Relay]);
    let refused = |state| Err(ShopRefusal::NotNow { order: id("o"), state });
    let (over, later) =
        (refused(OrderState::NotPaid(Some(TrNum::FIRST))), refused(OrderState::Pending(second)));
    assert_eq!((shop.answered(beside), shop.answered(after)), (over, later));
    assert_eq!(shop.state("o"), "pending");
    let meant = shop.ask("o", cancel(second));
    shop.turns(at, &[Orders, Relay]);
    assert!(shop.answered(meant).is_ok());
    shop.drain();
    assert_eq!(shop.state("o"), "not_paid");
    shop.is_at_rest(&world);
}

#[test]
fn an_operator_cancels_what_is_not_decided() {
    for delivery in [Delivery::Once, Delivery::TwiceAndLate] {
        let Some((world, mut shop)) = shop_of_one() else { return };
        shop.asks("o", checkout(), &[Orders, Relay, Stock, Relay, Outcomes]);
        shop.delivery = delivery;
        let cancel = shop.ask("o", CANCEL);
        shop.drain();
        let answer = shop.answered(cancel);
        let Ok(CheckoutAnswer::Open { waits, .. }) = answer else { panic!("{answer:?}") };
        assert!(waits.cancelling && waits.sides.pay && waits.sides.stock, "{waits:?}");
        untouched(&mut shop, &world, Why::Cancelled);
    }
}

/// A message to a side was lost for good. Retry asks those again that have not answered, and no other.
#[test]
fn a_retry_asks_again_who_has_not_answered() {
    let Some((world, mut shop)) = shop_of_one() else { return };
    let at = partition_of("o", 2) as usize;
    shop.asks("o", checkout(), &[Orders, Relay]);
    let lost = std::mem::take(&mut shop.stock[at].log);
    assert_eq!(lost.len(), 1);
    shop.drain();
    assert_eq!((shop.state("o").as_str(), shop.credit("u")), ("pending", 79));
    let asked = shop.pay[at].log.len();
    let (answer, state) = shop.run("o", RETRY);
    assert!(matches!(answer, Ok(CheckoutAnswer::Open { .. })), "{answer:?}");
    assert_eq!((state.as_str(), shop.pay[at].log.len()), ("paid", asked));
    shop.is_at_rest(&world);
}

/// A failed order is checked out anew by a retry.
#[test]
fn a_retry_of_a_failed_order_is_a_new_try() {
    let Some((world, mut shop)) = shop_of_one() else { return };
    shop.does(&ShopCommand::TakeFunds { user: id("u"), amount: whole(90) });
    assert_eq!(shop.run("o", checkout()).1, "not_paid");
    shop.does(&ShopCommand::AddFunds { user: id("u"), amount: whole(90) });
    let (_, state) = shop.run("o", RETRY);
    assert_eq!((state.as_str(), shop.credit("u")), ("paid", 79));
    assert_eq!(shop.ends("o").last(), Some(&CheckoutAnswer::Paid { tr: TrNum::try_from(2).unwrap() }));
    shop.is_at_rest(&world);
}

/// While cancelling, a lost `can` is sent again by a retry.
#[test]
fn a_retry_while_cancelling_asks_who_owes() {
    let Some((world, mut shop)) = shop_of_one() else { return };
    let at = partition_of("o", 2) as usize;
    shop.asks("o", checkout(), &[Orders, Relay, Pay, Relay]);
    shop.asks("o", CANCEL, &[Orders, Relay]);
    let kept = usize::try_from(shop.pay[at].at).unwrap();
    shop.pay[at].log.truncate(kept);
    shop.drain();
    assert_eq!((shop.state("o").as_str(), shop.credit("u")), ("cancelling", 79));
    let (_, state) = shop.run("o", RETRY);
    assert_eq!((state.as_str(), shop.credit("u")), ("not_paid", 100));
    shop.is_at_rest(&world);
}

/// The scan reads what is due by its index, not every open checkout.
#[test]
fn the_scan_follows_its_index() {
    let Some((world, _shop)) = shop_of_one() else { return };
    let mut client = world.sql();
    client.batch_execute("SET enable_seqscan = off; SET enable_bitmapscan = off").unwrap();
    let plan = client.query(
        "EXPLAIN SELECT order_id FROM orders
         WHERE shard = 1::smallint AND state = 'pending' AND deadline < (SELECT hub_clock()) ORDER BY deadline LIMIT 10",
        &[],
    );
    let plan: Vec<String> = plan.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(plan.iter().any(|line| line.contains("orders_due")), "{plan:#?}");
    assert!(!plan.iter().any(|line| line.contains("Sort")), "{plan:#?}");
}
