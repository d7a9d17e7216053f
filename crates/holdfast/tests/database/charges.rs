//! Checkouts of three nodes that charge positions or tokens: more are wanted than there are units and money, and in the middle a
//! node dies and both servers are restarted. Whoever is told that it is paid has paid; everybody else has everything back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use holdfast_domain::money::Amount;

use crate::called::refused_for;
use crate::disasters::{Crowd, insist};
use crate::servers::Servers;
use crate::shop::at_once;
use crate::support::http::get;
use crate::support::server::set;
use crate::support::shop::{item, order};
use crate::support::world::participants;
use crate::tokens::wallet::issue;
use crate::world::{PARTITIONS, World};

const PRICE: u64 = 2;
const CHECKOUT: &str = "/orders/checkout";

/// Orders of one unit each: so many of each user.
fn orders(world: &World, item: &str, users: &[(&str, usize)]) -> Vec<String> {
    let all: Vec<&str> = users.iter().flat_map(|(user, count)| std::iter::repeat_n(*user, *count)).collect();
    at_once(world, &all, |node, user| order(node, user, item, 1))
}

/// All orders at once, at all nodes, while a node is killed and both servers restarted. How many were paid.
fn buy_all(world: &mut World, crowd: &Crowd, orders: &[String]) -> usize {
    let paid = AtomicUsize::new(0);
    let addresses = Arc::clone(&world.addresses);
    let ask = |place: usize, order: &str| {
        paid.fetch_add(usize::from(insist(&addresses, CHECKOUT, order, place)), Ordering::SeqCst);
    };
    crowd.run(orders, ask, || world.take_node().kill());
    paid.into_inner()
}

/// Nothing is open, nothing reserved, and so many are paid.
fn is_at_rest(world: &World, item: &str, units: u64, paid: usize) {
    world.await_no_open_checkout();
    let paid = i64::try_from(paid).expect("few");
    assert_eq!(world.count("SELECT count(*) FROM orders WHERE paid"), paid);
    assert_eq!(world.count(&format!("SELECT {units} - stock FROM items WHERE item_id = '{item}'")), paid);
    assert_eq!(world.count("SELECT count(*) FROM transfer WHERE current_state IN (1, 3, 4, 6, 9)"), 0);
    assert_eq!(
        world.count("SELECT count(*) FROM token_selection WHERE state = 'HELD' AND payee_wallet IS NOT NULL"),
        0
    );
    world.verify();
}

/// Those that were refused, one after the other, until all units are sold.
fn sell_out(world: &World, orders: &[String], paid: usize, units: u64) -> usize {
    let mut paid = paid;
    let unpaid: Vec<String> = world
        .sql()
        .query("SELECT order_id FROM orders WHERE NOT paid", &[])
        .expect("rows")
        .iter()
        .map(|row| row.get(0))
        .collect();
    for (at, order) in orders.iter().filter(|order| unpaid.contains(order)).enumerate() {
        if paid as u64 == units {
            break;
        }
        paid += usize::from(insist(&world.addresses, CHECKOUT, order, at));
    }
    paid
}

pub fn positions(crowd: &Crowd) {
    const UNITS: u64 = 60;
    let Some(mut world) = World::of(Servers::default(), PARTITIONS) else { return };
    // Participants first; then all nodes are started anew, with what checkouts charge.
    world.add_nodes(1);
    let fifty = Amount::whole(50).expect("fifty");
    participants(world.node(0), 4, fifty, fifty);
    world.take_node().stop();
    let settings = ["shop.payment=transfers", "shop.payee=FSP4", "shop.currency=USD"];
    world.add_nodes_with(3, &set(&settings));
    let item = item(world.node(0), PRICE, UNITS);
    assert_eq!(get(world.node(2), "/hub/stats").json()["shop"]["payment"], "positions");
    // Whoever says something else is not let in, and told what the others say.
    refused_for(&world, "the other nodes charge transfers");
    // Each has the money for 25.
    let orders = orders(&world, &item, &[("fsp1", 40), ("fsp2", 40), ("fsp3", 20), ("nobody", 5)]);
    let paid = buy_all(&mut world, crowd, &orders);
    assert!(paid as u64 <= UNITS, "{paid} were paid");
    is_at_rest(&world, &item, UNITS, paid);
    let paid = sell_out(&world, &orders, paid, UNITS);
    assert_eq!(paid as u64, UNITS, "all are sold in the end");
    is_at_rest(&world, &item, UNITS, paid);
    let rows = world
        .sql()
        .query(
            "SELECT a.name, p.value::bigint FROM participant a JOIN participant_currency c USING (participant_id)
             JOIN participant_position p USING (participant_currency_id)
             WHERE c.ledger_account_type = 'POSITION' AND a.name LIKE 'fsp%' ORDER BY a.name",
            &[],
        )
        .expect("rows");
    let positions: Vec<i64> = rows.iter().map(|row| row.get(1)).collect();
    let [first, second, third, shop] = positions[..] else { panic!("{positions:?}") };
    assert!([first, second, third].iter().all(|owed| (0..=50).contains(owed)), "{positions:?}");
    let taken = i64::try_from(UNITS * PRICE).expect("few");
    assert_eq!((first + second + third, shop), (taken, -taken));
    assert_eq!(world.count("SELECT count(*) FROM users"), 0, "nobody's credit was needed");
}

pub fn tokens(crowd: &Crowd) {
    const UNITS: u64 = 55;
    let Some(mut world) = World::of(Servers::default(), PARTITIONS) else { return };
    let settings = ["shop.payment=tokens", "shop.wallet=shop", "shop.currency=EUR"];
    world.add_nodes_with(3, &set(&settings));
    let item = item(world.node(0), PRICE, UNITS);
    // Alice has the money for 50 in ten pieces, bob for 15 in one: his orders wait for each other's change.
    issue(world.node(0).address, "alice", &[10; 10]);
    issue(world.node(1).address, "bob", &[30]);
    let orders = orders(&world, &item, &[("alice", 60), ("bob", 20), ("nobody", 5)]);
    let paid = buy_all(&mut world, crowd, &orders);
    assert!(paid as u64 <= UNITS, "{paid} were paid");
    is_at_rest(&world, &item, UNITS, paid);
    let paid = sell_out(&world, &orders, paid, UNITS);
    assert_eq!(paid as u64, UNITS, "all are sold in the end");
    is_at_rest(&world, &item, UNITS, paid);
    let sum = |wallet: &str| {
        world.count(&format!(
            "SELECT coalesce(sum(t.quantity), 0)::bigint FROM token t JOIN token_lock l USING (token_id)
             WHERE NOT l.spent AND t.wallet = '{wallet}'"
        ))
    };
    let taken = i64::try_from(UNITS * PRICE).expect("few");
    assert_eq!((sum("shop"), sum("alice") + sum("bob")), (taken, 130 - taken));
}
