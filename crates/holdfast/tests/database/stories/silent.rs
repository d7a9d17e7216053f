//! Sides that are away: nobody reads what they are asked until a node with their role comes.

use holdfast_kafka::Topic;
use serde_json::{Value, json};

use super::{CREDIT, LONG_MS, NODES, PRICE, Shop, TOPICS, UNITS};
use crate::shop::begin;
use crate::support::shop::{post, shown};
use crate::world::World;

/// Time enough to begin, and to hear from whoever is there.
const SHORT_MS: u64 = 1_500;

/// Nobody is there for the sides; then for the payments alone; then for both. Deadlines and an operator end what was begun, and
/// whoever comes takes late what it was asked for, and gives it back.
#[test]
fn silent_sides_give_back_when_they_come() {
    let Some(mut world) = World::beside_others() else { return };
    world.add_nodes_with(NODES, &["--roles", "api,expiry,callbacks,order"]);
    world.await_shared(&[Topic::Orders, Topic::Outcomes]);
    let both = {
        let shop = Shop::open(&world, CREDIT);
        let order = shop.order(1);
        begin(world.node(0), &order, SHORT_MS);
        shop.await_order(&order, "state = 'cancelling' AND why_failed = 'deadline'");
        waits_for(&world, &order, &json!(["pay", "stock"]));
        (shop.user, shop.item, order)
    };
    world.add_nodes_with(1, &["--roles", "pay"]);
    let (user, item, both) = both;
    let shop = Shop::of(&world, user, item);
    shop.await_order(&both, "state = 'cancelling' AND pay_undone");
    waits_for(&world, &both, &json!(["stock"]));
    assert_eq!(shop.credit(), CREDIT);

    let one = shop.order(2);
    begin(world.node(1), &one, SHORT_MS);
    shop.await_order(&one, "state = 'cancelling' AND pay_undone");
    let operated = shop.order(3);
    begin(world.node(2), &operated, LONG_MS);
    shop.await_order(&operated, "state = 'pending' AND pay_outcome = 'taken'");
    assert_eq!(shop.credit(), CREDIT - 3 * PRICE);
    shop.takes_no_more_lines(&operated);
    post(world.node(0), &format!("/hub/checkouts/{operated}/cancel"));
    shop.await_order(&operated, "state = 'cancelling' AND pay_undone");
    shop.takes_no_more_lines(&operated);
    for order in [&one, &operated] {
        waits_for(&world, order, &json!(["stock"]));
        let mut words: Vec<String> =
            shop.words(Topic::Outcomes, order).into_iter().map(|(_, word)| word).collect();
        assert_eq!(words.pop().as_deref(), Some("csucc"), "it is given back when it is decided");
        // How a slow payment side and a deadline meet is left open.
        words.sort_unstable();
        assert_eq!(words, ["psucc", "trfail"]);
    }
    assert_eq!((shop.credit(), shop.stock()), (CREDIT, UNITS), "all that was taken is back");

    let (user, item) = (shop.user, shop.item);
    world.add_nodes_with(1, &["--roles", "stock"]);
    let shop = Shop::of(&world, user, item);
    for order in [&both, &one, &operated] {
        shop.await_order(order, "state = 'not_paid' AND tr_num = 1");
        let words = shop.words(Topic::Outcomes, order);
        let at = |wanted: &str| {
            let at = words.iter().position(|(_, word)| word == wanted);
            at.unwrap_or_else(|| panic!("no {wanted}: {words:?}"))
        };
        assert!(
            at("trfail") < at("ssucc") && at("ssucc") < at("asucc"),
            "a late success is given back: {words:?}"
        );
    }
    assert_eq!((shop.credit(), shop.stock()), (CREDIT, UNITS));
    for (node, order) in [both, one, operated].iter().enumerate() {
        let paid = shop.checkout(node, order);
        assert_eq!((paid.status, &paid.json()["tr"]), (200, &json!(2)), "{paid:?}");
    }
    world.await_read(&TOPICS);
    shop.has_sold(1 + 2 + 3, CREDIT);
    world.verify();
}

/// Every node knows for whom an order waits.
fn waits_for(world: &World, order: &str, sides: &Value) {
    for node in 0..NODES {
        let shown = shown(world.node(node), order);
        assert_eq!((&shown["state"], &shown["waitsFor"]), (&json!("cancelling"), sides), "at node {node}");
    }
}
