//! Three nodes of the real binary under load while their servers and they themselves break. A binary to itself: it stops
//! the servers that other tests use.

mod batches;
mod called;
mod charges;
mod disasters;
mod edges;
mod expiring;
mod faults;
mod inbox;
mod judge;
mod keys;
mod lateness;
mod letters;
mod load;
mod offsets;
mod scenarios;
mod servers;
mod shop;
mod stories;
#[allow(dead_code, reason = "not everything is needed here")]
#[path = "../it/support/mod.rs"]
mod support;
mod tokens;
mod transactions;
mod trimmed;
mod warehouse;
mod workers;
mod world;

use std::time::Duration;

use faults::Fault;
use load::Load;
use shop::ShopLoad;
use world::World;

/// How many payments must have ended between two faults, so that each meets work.
const PAYMENTS_BETWEEN: u64 = 300;
/// And how many checkouts.
const CHECKOUTS_BETWEEN: u64 = 10;

/// Runs these faults one after the other under load, and judges what is left.
fn endure(faults: impl IntoIterator<Item = Fault>) {
    let Some(mut world) = World::alone() else { return };
    world.add_nodes(3);
    let (load, shop) = (Load::start(&world), ShopLoad::start(&world));
    load.workers.await_more(PAYMENTS_BETWEEN);
    for fault in faults {
        eprintln!("{fault:?}");
        faults::commit(fault, &mut world);
        load.workers.await_more(PAYMENTS_BETWEEN);
        shop.workers.await_more(CHECKOUTS_BETWEEN);
    }
    let ledger = load.end();
    shop.judge(&world);
    world.await_quiet();
    judge::all(&world, &ledger);
}

#[test]
fn each_fault_in_turn_and_then_mixed() {
    endure(Fault::ALL);
}

/// For `cargo xtask soak`: as long as HOLDFAST_TEST_CLUSTER_SECONDS says.
#[test]
fn faults_at_random_for_as_long_as_asked() {
    let Some(seconds) = std::env::var("HOLDFAST_TEST_CLUSTER_SECONDS").ok() else { return };
    let until = std::time::Instant::now() + Duration::from_secs(seconds.parse().expect("whole seconds"));
    let mut number = u64::from(std::process::id());
    endure(std::iter::from_fn(|| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let fault = Fault::ALL[usize::try_from(number >> 33).expect("31 bits") % Fault::ALL.len()];
        (std::time::Instant::now() < until).then_some(fault)
    }));
}
