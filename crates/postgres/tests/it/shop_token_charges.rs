//! Checkouts that tokens pay for: locked by a node before the step, held by the step, spent by whoever decides, given back by
//! everything else.

use holdfast_domain::shop::{CheckoutAnswer, Secret, TrNum, Why};
use holdfast_postgres::Error;
use holdfast_postgres::shop::{Pledges, WantedCharging};
use holdfast_tokens::Token;

use crate::shop_charges::NOW;
use crate::shop_world::*;
use crate::world::*;

pub fn tokens() -> WantedCharging {
    WantedCharging::Tokens { wallet: "till".into(), currency: usd(), unit: 1 }
}

/// `rich` has tokens of 60 and 40, `poor` one of 5.
pub fn market(partitions: u32) -> Option<(World, Shop)> {
    let (world, mut shop) = Shop::open(partitions)?;
    world.set_clock(NOW);
    shop.store.agree_on_charging(&tokens(), Secret([9; 32]), 1).unwrap();
    let issued = [("r60", "rich", 60), ("r40", "rich", 40), ("p5", "poor", 5)]
        .map(|(id, wallet, quantity)| Token::new(id, wallet, "USD", quantity));
    shop.store.issue_tokens(&issued, None).unwrap().unwrap();
    shop.seeker = Some(world.sql());
    shop.stocked(
        &[],
        &[("i", 10, 7), ("gone", 0, 1), ("free", 10, 0)],
        &[
            ("o", "rich", "i", 3),
            ("by-want", "poor", "i", 1),
            ("by-stock", "rich", "gone", 1),
            ("nobody", "nobody", "i", 1),
            ("costs-nothing", "nobody", "free", 2),
        ],
    );
    Some((world, shop))
}

/// What a wallet has, and what of it is under a live lock.
pub fn wallet(world: &World, wallet: &str) -> (i64, i64) {
    let row = world.sql().query_one(
        "SELECT coalesce(sum(t.quantity), 0)::bigint, coalesce(sum(t.quantity)
             FILTER (WHERE l.spender_tx_id IS NOT NULL AND l.expires_at > hub_clock()), 0)::bigint
         FROM token t JOIN token_lock l USING (token_id) WHERE NOT l.spent AND t.wallet = $1",
        &[&wallet],
    );
    let row = row.unwrap();
    (row.get(0), row.get(1))
}

#[test]
fn a_checkout_spends_tokens_and_gives_change() {
    for delivery in [Delivery::Once, Delivery::TwiceAndLate] {
        let Some((world, mut shop)) = market(2) else { return };
        shop.delivery = delivery;
        assert_eq!(shop.run("o", checkout()).1, "paid");
        assert_eq!((wallet(&world, "rich"), wallet(&world, "till")), ((79, 0), (21, 0)));
        let (again, _) = shop.run("o", checkout());
        assert_eq!(again, Ok(CheckoutAnswer::AlreadyPaid { tr: TrNum::FIRST }));
        assert_eq!((wallet(&world, "till"), shop.stock_of("i")), ((21, 0), 7));
        shop.is_at_rest(&world);
    }
}

#[test]
fn what_is_refused_gives_the_tokens_back() {
    for delivery in [Delivery::Once, Delivery::TwiceAndLate] {
        let Some((world, mut shop)) = market(2) else { return };
        shop.delivery = delivery;
        for (order, why) in [("by-want", Why::Pay), ("by-stock", Why::Stock), ("nobody", Why::Pay)] {
            let (_, state) = shop.run(order, checkout());
            assert_eq!((state.as_str(), shop.ends(order)), ("not_paid", vec![failed(why)]), "{order}");
        }
        assert_eq!(shop.run("costs-nothing", checkout()).1, "paid");
        assert_eq!((wallet(&world, "rich"), wallet(&world, "poor")), ((100, 0), (5, 0)));
        assert_eq!((wallet(&world, "till"), shop.stock_of("i")), ((0, 0), 10));
        assert_eq!(shop.alarms, []);
        shop.is_at_rest(&world);
    }
}

/// The hold has no end: only the try ends it, here by its deadline.
#[test]
fn a_deadline_gives_the_tokens_back() {
    let Some((world, mut shop)) = market(1) else { return };
    shop.asks("o", checkout(), &[Orders, Relay, Pay]);
    world.set_clock(NOW + 3_600_000);
    assert_eq!(wallet(&world, "rich"), (100, 40), "the lease of the claim does not count any more");
    world.verify();
    assert_eq!(shop.expire(), 1);
    assert_eq!((shop.ends("o"), wallet(&world, "rich")), (vec![failed(Why::Deadline)], (100, 0)));
    shop.is_at_rest(&world);
}

/// A try that was cancelled before its step takes nothing, and what was locked for it goes back with the step.
#[test]
fn what_the_step_does_not_take_is_given_back_with_it() {
    let Some((world, mut shop)) = market(1) else { return };
    shop.asks("o", checkout(), &[Orders, Relay]);
    let bills = shop.store.bills(shop.pay[0].pending()).unwrap();
    assert_eq!(bills.len(), 1);
    // What is locked for a step that never comes is locked hardly longer than the try has time.
    assert_eq!(bills[0].time_ms, i64::from(DEADLINE_MS));
    let pledges = pledge(&mut shop.store, &mut world.sql(), &bills);
    assert_eq!(wallet(&world, "rich"), (100, 40));
    shop.asks("o", CANCEL, &[Orders]);
    assert_eq!(shop.store.bills(shop.pay[0].pending()).unwrap(), [], "nobody waits for it any more");
    shop.pay[0].take(|claim, batch| shop.store.pay_with(claim, batch, &pledges));
    assert_eq!(wallet(&world, "rich"), (100, 0));
    shop.drain();
    assert_eq!(shop.ends("o"), [failed(Why::Cancelled)]);
    shop.is_at_rest(&world);
}

/// Whoever waits for tokens of others is put behind, comes again, and is not refused.
#[test]
fn a_try_whose_tokens_others_hold_comes_again() {
    let Some((world, mut shop)) = market(1) else { return };
    shop.stocked(&[], &[], &[("p", "rich", "i", 8), ("q", "rich", "i", 2)]);
    shop.asks("o", checkout(), BOTH_TAKE);
    // 21 of the 40 are held with it, so 56 take the 60, and for 14 nothing is free.
    shop.ask("p", checkout());
    shop.asks("q", checkout(), &[Orders, Relay, Pay]);
    assert_eq!(world.rows("pay_transaction"), 2);
    shop.relay();
    assert_eq!(shop.pay[0].pending().len(), 1, "it lies in the topic once more");
    shop.turn(0, Pay);
    assert_eq!(world.rows("pay_transaction"), 2, "still others'");
    shop.drain();
    // 10 units are too few for 3 and 8, so `p` was refused by the stock side.
    let states = [shop.state("o"), shop.state("p"), shop.state("q")];
    assert_eq!(states, ["paid", "not_paid", "paid"]);
    assert_eq!((wallet(&world, "rich"), wallet(&world, "till")), ((65, 0), (35, 0)));
    shop.is_at_rest(&world);
}

/// Who waits for long rests in between: the topic does not grow by ten messages a second until a deadline of hours. The scan for
/// deadlines asks again, and forgets who no longer waits.
#[test]
fn a_try_that_waits_for_long_rests() {
    let Some((world, mut shop)) = market(1) else { return };
    let now = 2_000_000_000_000;
    world.set_clock(now);
    shop.stocked(&[], &[], &[("p", "rich", "i", 8), ("q", "rich", "i", 2)]);
    shop.asks("o", checkout(), BOTH_TAKE);
    shop.asks("p", checkout(), &[Orders, Relay, Pay]);
    shop.asks("q", checkout(), &[Orders, Relay, Pay, Relay]);
    world.set_clock(now + 2_000);
    assert_eq!(shop.store.due_checkout_shards().unwrap(), [0_i16; 0]);
    assert!(shop.turn(0, Pay), "it was put behind");
    assert!(!shop.relay() && shop.pay[0].pending().is_empty(), "it is not in the topic again");
    assert_eq!(shop.expire_only(), 0, "it rests");
    assert!(!shop.relay());
    world.set_clock(now + 3_001);
    assert_eq!(shop.store.due_checkout_shards().unwrap().len(), 1);
    assert_eq!(shop.expire_only(), 0, "it is asked for and not ended");
    assert!(shop.relay());
    assert_eq!(shop.pay[0].pending().len(), 1, "it has rested");
    shop.turn(0, Pay);
    assert_eq!(world.rows("pay_again"), 1, "still others'");
    // The others come to their ends; when the next rest is over it is paid.
    shop.drain();
    assert_eq!((shop.state("o").as_str(), shop.state("q").as_str()), ("paid", "pending"));
    world.set_clock(now + 5_000);
    shop.expire_only();
    shop.drain();
    assert_eq!((shop.state("q").as_str(), wallet(&world, "till")), ("paid", (35, 0)));
    assert_eq!(world.rows("pay_again"), 0);
    shop.is_at_rest(&world);
}

#[test]
fn who_rests_and_is_cancelled_is_forgotten() {
    let Some((world, mut shop)) = market(1) else { return };
    let now = 2_000_000_000_000;
    world.set_clock(now);
    shop.stocked(&[], &[], &[("q", "rich", "i", 2)]);
    // The whole wallet is held by others.
    world.run("UPDATE token_lock SET spender_tx_id = 'x', expires_at = 'infinity'");
    shop.asks("q", checkout(), &[Orders, Relay]);
    world.set_clock(now + 2_000);
    shop.turn(0, Pay);
    assert_eq!(world.rows("pay_again"), 1);
    assert!(shop.run("q", CANCEL).0.is_ok());
    assert_eq!(shop.state("q"), "not_paid");
    world.set_clock(now + 4_000);
    shop.expire_only();
    assert!(!shop.relay(), "nobody is asked");
    assert_eq!(world.rows("pay_again"), 0);
}

/// A lease that has ended, or a claim of other tokens, is not taken; the try comes again.
#[test]
fn only_the_claim_itself_is_taken() {
    let Some((world, mut shop)) = market(1) else { return };
    shop.asks("o", checkout(), &[Orders, Relay]);
    let bills = shop.store.bills(shop.pay[0].pending()).unwrap();
    let pledges = pledge(&mut shop.store, &mut world.sql(), &bills);
    world.run("UPDATE token_selection SET expires_at = hub_clock()");
    world.run("UPDATE token_lock SET expires_at = hub_clock() WHERE expires_at IS NOT NULL");
    shop.pay[0].take(|claim, batch| shop.store.pay_with(claim, batch, &pledges));
    assert_eq!(world.rows("pay_transaction"), 0);
    shop.drain();
    assert_eq!((shop.state("o").as_str(), wallet(&world, "till")), ("paid", (21, 0)));
    shop.is_at_rest(&world);
}

#[test]
fn a_rebuild_spends_what_it_decides() {
    let Some((world, mut shop)) = market(1) else { return };
    shop.asks("o", checkout(), BOTH_TAKE);
    shop.take_over(0, 0);
    assert_eq!((shop.state("o").as_str(), wallet(&world, "till")), ("paid", (21, 0)));
    shop.drain();
    shop.take_over(0, 0);
    shop.drain();
    assert_eq!((wallet(&world, "rich"), wallet(&world, "till")), ((79, 0), (21, 0)));
    shop.is_at_rest(&world);
}

/// A node that was started to charge something else does nothing, and says so.
#[test]
fn without_a_vault_nothing_is_done() {
    let Some((world, mut shop)) = market(1) else { return };
    shop.asks("o", checkout(), &[Orders, Relay]);
    let (queue, batch) = (&shop.pay[0], shop.pay[0].batch());
    match shop.store.pay(&queue.claim, &batch) {
        Err(Error::Charging(why)) => assert!(why.contains("restart it"), "{why}"),
        other => panic!("{other:?}"),
    }
    done(shop.store.pay_with(&queue.claim, &batch, &Pledges::new()).unwrap());
    assert_eq!(world.rows("pay_transaction"), 0, "without tokens it waits");
}

#[test]
fn tampering_with_tokens_of_checkouts_is_found() {
    for tamper in [
        "UPDATE token_selection SET state = 'RELEASED'
         WHERE spender_tx_id = (SELECT charge_id::text FROM checkout_charge WHERE order_id = 'o')",
        "UPDATE token_selection SET state = 'RELEASED'
         WHERE spender_tx_id = (SELECT charge_id::text FROM checkout_charge WHERE order_id = 'open')",
        "UPDATE token_selection SET state = 'HELD', payee_wallet = 'till'
         WHERE spender_tx_id = (SELECT charge_id::text FROM checkout_charge WHERE order_id = 'by-stock')",
    ] {
        let Some((world, mut shop)) = market(1) else { return };
        shop.stocked(&[], &[], &[("open", "rich", "i", 1)]);
        assert_eq!(shop.run("o", checkout()).1, "paid");
        assert_eq!(shop.run("by-stock", checkout()).1, "not_paid");
        shop.asks("open", checkout(), BOTH_TAKE);
        world.verify();
        world.notices(tamper, "checkout_charge");
    }
}

/// Whoever is paid cannot pay: it would get goods for nothing.
#[test]
fn the_shop_does_not_pay_itself() {
    let Some((world, mut shop)) = market(1) else { return };
    shop.store.issue_tokens(&[Token::new("t", "till", "USD", 50)], None).unwrap().unwrap();
    shop.stocked(&[], &[], &[("own", "till", "i", 3)]);
    let (_, state) = shop.run("own", checkout());
    assert_eq!((state.as_str(), wallet(&world, "till"), shop.stock_of("i")), ("not_paid", (50, 0), 10));
    world.verify();
}
