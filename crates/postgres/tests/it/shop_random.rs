//! Random shops against a naive one: whatever is delivered twice, late, lost and sent again, taken over or cut short, in the end
//! the books are those of a shop that did the paid orders one after the other.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::shop_world::*;
use crate::world::*;

const PARTITIONS: u32 = 2;
const USERS: [&str; 3] = ["u0", "u1", "u2"];
const ITEMS: [&str; 2] = ["i0", "i1"];
const START: i64 = 2_000_000_000_000;

#[derive(Debug, Clone)]
enum Happens {
    Checkout(usize),
    Cancel(usize),
    Retry(usize),
    Orders(usize),
    Pay(usize),
    Stock(usize),
    Outcomes(usize),
    Relay,
    /// Published and not noted.
    Forgotten,
    TakeOver(u32),
    /// So many milliseconds pass, and the scan looks.
    Time(i64),
}

fn happens() -> impl Strategy<Value = Happens> {
    let partition = 0..PARTITIONS as usize;
    prop_oneof![
        4 => (0..6_usize).prop_map(Happens::Checkout),
        1 => (0..6_usize).prop_map(Happens::Cancel),
        1 => (0..6_usize).prop_map(Happens::Retry),
        4 => partition.clone().prop_map(Happens::Orders),
        4 => partition.clone().prop_map(Happens::Pay),
        4 => partition.clone().prop_map(Happens::Stock),
        4 => partition.prop_map(Happens::Outcomes),
        5 => Just(Happens::Relay),
        1 => Just(Happens::Forgotten),
        1 => (0..PARTITIONS).prop_map(Happens::TakeOver),
        1 => (1..8_000_i64).prop_map(Happens::Time),
    ]
}

/// Price, credit, stock and the orders: user, item, quantity.
type Case = (u64, [u64; 3], [u64; 2], Vec<(usize, usize, u64)>);

fn case() -> impl Strategy<Value = Case> {
    let orders = prop::collection::vec((0..3_usize, 0..2_usize, 1..4_u64), 6);
    (1..5_u64, prop::array::uniform3(0..20_u64), prop::array::uniform2(0..6_u64), orders)
}

fn run(world: &World, case: &Case, story: &[Happens]) {
    let (price, credits, stocks, orders) = case;
    let mut shop = Shop::new(world, PARTITIONS);
    let mut now = START;
    world.set_clock(now);
    let users: Vec<_> = USERS.into_iter().zip(*credits).collect();
    let items: Vec<_> = ITEMS.into_iter().zip(*stocks).map(|(item, stock)| (item, stock, *price)).collect();
    let names: Vec<String> = (0..orders.len()).map(|number| format!("o{number}")).collect();
    let lines: Vec<_> = names
        .iter()
        .zip(orders)
        .map(|(order, (user, item, quantity))| (order.as_str(), USERS[*user], ITEMS[*item], *quantity))
        .collect();
    shop.stocked(&users, &items, &lines);
    for event in story {
        match event {
            Happens::Checkout(order) => drop(shop.ask(&names[*order], checkout())),
            Happens::Cancel(order) => drop(shop.ask(&names[*order], CANCEL)),
            Happens::Retry(order) => drop(shop.ask(&names[*order], RETRY)),
            Happens::Orders(partition) => drop(shop.turn(*partition, Orders)),
            Happens::Pay(partition) => drop(shop.turn(*partition, Pay)),
            Happens::Stock(partition) => drop(shop.turn(*partition, Stock)),
            Happens::Outcomes(partition) => drop(shop.turn(*partition, Outcomes)),
            Happens::Relay => drop(shop.relay()),
            Happens::Forgotten => shop.publish_all(),
            Happens::TakeOver(partition) => drop(shop.take_over(*partition, 0)),
            Happens::Time(passed) => {
                now += passed;
                world.set_clock(now);
                shop.expire_only();
            }
        }
    }
    world.verify();
    shop.drain();
    // Whoever was silent is over by now.
    world.set_clock(now + i64::from(DEADLINE_MS) + 1);
    shop.expire();
    // The naive shop: every paid order took what it costs, and nothing else happened.
    let mut credit: BTreeMap<&str, i128> =
        users.iter().map(|(user, credit)| (*user, i128::from(*credit))).collect();
    let mut stock: BTreeMap<&str, i128> =
        items.iter().map(|(item, stock, _)| (*item, i128::from(*stock))).collect();
    for (order, user, item, quantity) in &lines {
        let state = shop.state(order);
        assert!(state == "paid" || state == "not_paid", "{order} is {state}");
        let paid = shop
            .ends(order)
            .iter()
            .filter(|end| matches!(end, holdfast_domain::shop::CheckoutAnswer::Paid { .. }))
            .count();
        assert_eq!(paid > 0, state == "paid", "{order}: {:?}", shop.ends(order));
        if state == "paid" {
            *credit.get_mut(user).unwrap() -= i128::from(quantity * price);
            *stock.get_mut(item).unwrap() -= i128::from(*quantity);
        }
    }
    for (user, left) in credit {
        assert_eq!(i128::from(shop.credit(user)), left, "{user}");
    }
    for (item, left) in stock {
        assert_eq!(i128::from(shop.stock_of(item)), left, "{item}");
    }
    assert_eq!(shop.alarms, []);
    shop.is_at_rest(world);
    // What can be paid is paid when it is asked for with nothing else under way.
    for (order, user, item, quantity) in &lines {
        if shop.state(order) == "not_paid" {
            let enough = shop.credit(user) >= quantity * price && shop.stock_of(item) >= *quantity;
            let (_, state) = shop.run(order, checkout());
            assert_eq!(state == "paid", enough, "{order}");
        }
    }
    shop.is_at_rest(world);
}

proptest! {
    // Every case has a database of its own.
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn random_shops_end_as_a_naive_one(case in case(), story in prop::collection::vec(happens(), 40..160)) {
        let Some(world) = World::new() else { return Ok(()) };
        run(&world, &case, &story);
    }
}
