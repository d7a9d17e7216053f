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
mod shop;
mod stories;
#[allow(dead_code, reason = "not everything is needed here")]
#[path = "../it/support/mod.rs"]
mod support;
mod tokens;
mod transactions;
mod trimmed;
mod warehouse;
mod world;

use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use faults::Fault;
use load::Load;
use shop::ShopLoad;
use world::World;

/// How many payments must have ended between two faults, so that each meets work.
const PAYMENTS_BETWEEN: u64 = 300;
/// And how many checkouts.
const CHECKOUTS_BETWEEN: u64 = 10;

/// Those who stop servers, measure time or start many nodes have the servers to themselves.
static SERVERS: RwLock<()> = RwLock::new(());

fn alone() -> RwLockWriteGuard<'static, ()> {
    SERVERS.write().unwrap_or_else(PoisonError::into_inner)
}

/// So many of the others at a time, however many threads there are: each starts three nodes.
const BESIDE_MAX: usize = 3;

static BESIDE: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// The servers stay until this is dropped.
struct Beside {
    _servers: RwLockReadGuard<'static, ()>,
}

impl Drop for Beside {
    fn drop(&mut self) {
        *BESIDE.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        BESIDE.1.notify_one();
    }
}

/// The others only need them to stay: they wait for leases and sessions to end most of the time.
fn beside_others() -> Beside {
    let places = BESIDE.0.lock().unwrap_or_else(PoisonError::into_inner);
    let full = |taken: &mut usize| *taken >= BESIDE_MAX;
    *BESIDE.1.wait_while(places, full).unwrap_or_else(PoisonError::into_inner) += 1;
    Beside { _servers: SERVERS.read().unwrap_or_else(PoisonError::into_inner) }
}

/// Runs these faults one after the other under load, and judges what is left.
fn endure(faults: impl IntoIterator<Item = Fault>) {
    let Some(mut world) = World::new() else { return };
    world.add_nodes(3);
    let (load, shop) = (Load::start(&world), ShopLoad::start(&world));
    load.await_more(PAYMENTS_BETWEEN);
    for fault in faults {
        eprintln!("{fault:?}");
        faults::commit(fault, &mut world);
        load.await_more(PAYMENTS_BETWEEN);
        shop.await_more(CHECKOUTS_BETWEEN);
    }
    let ledger = load.end();
    shop.judge(&world);
    world.await_quiet();
    judge::all(&world, &ledger);
}

#[test]
fn each_fault_in_turn_and_then_mixed() {
    let _alone = alone();
    endure(Fault::ALL);
}

/// For `cargo xtask soak`: as long as HOLDFAST_TEST_CLUSTER_SECONDS says.
#[test]
fn faults_at_random_for_as_long_as_asked() {
    let Some(seconds) = std::env::var("HOLDFAST_TEST_CLUSTER_SECONDS").ok() else { return };
    let _alone = alone();
    let until = std::time::Instant::now() + Duration::from_secs(seconds.parse().expect("whole seconds"));
    let mut number = u64::from(std::process::id());
    endure(std::iter::from_fn(|| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let fault = Fault::ALL[usize::try_from(number >> 33).expect("31 bits") % Fault::ALL.len()];
        (std::time::Instant::now() < until).then_some(fault)
    }));
}

#[test]
fn the_expiring_node_is_killed_in_the_middle_of_it() {
    let _alone = alone();
    expiring::killed_in_the_middle();
}

#[test]
fn one_hot_token_serves_everybody() {
    let _alone = alone();
    tokens::one_hot_token_serves_everybody();
}

#[test]
fn two_nodes_want_four_of_two_threes() {
    let _alone = alone();
    tokens::two_nodes_want_four_of_two_threes();
}

#[test]
fn twenty_nodes_and_a_thousand_requests() {
    let _alone = alone();
    tokens::twenty_nodes_and_a_thousand_requests();
}

#[test]
fn a_killed_nodes_tokens_are_free_at_the_end_of_their_lease() {
    let _servers = beside_others();
    tokens::a_killed_nodes_tokens_are_free_at_the_end_of_their_lease();
}

#[test]
fn a_stopped_node_has_lost_its_lease() {
    let _servers = beside_others();
    tokens::a_stopped_node_has_lost_its_lease();
}

#[test]
fn nodes_recover_from_a_restarted_postgresql() {
    let _alone = alone();
    tokens::nodes_recover_from_a_restarted_postgresql();
}

#[test]
fn another_ledger_tells_by_kafka() {
    let _servers = beside_others();
    tokens::another_ledger_tells_by_kafka();
}

#[test]
fn tokens_pay_for_transfers_through_any_node() {
    let _servers = beside_others();
    tokens::tokens_pay_for_transfers_through_any_node();
}

#[test]
fn a_hold_survives_the_node_that_made_it() {
    let _servers = beside_others();
    tokens::a_hold_survives_the_node_that_made_it();
}

#[test]
fn shattered_wallets_are_brought_together() {
    let _servers = beside_others();
    tokens::shattered_wallets_are_brought_together();
}

#[test]
fn a_thousand_orders_on_a_hundred_units() {
    let _alone = alone();
    shop::a_thousand_orders_on_a_hundred_units();
}

#[test]
fn checkouts_go_into_batches_at_any_node() {
    let _servers = beside_others();
    batches::checkouts_go_into_batches_at_any_node();
}

/// Shops that charge positions, charge tokens, and call a warehouse; beside each other, so that the servers are restarted once.
#[test]
fn three_shops_live_through_kills_and_restarts() {
    let _alone = alone();
    disasters::live_through_it(&[charges::positions, charges::tokens, called::a_warehouse_in_a_crowd]);
}

#[test]
fn a_warehouse_in_another_language() {
    let _alone = alone();
    warehouse::a_warehouse_in_another_language();
}

#[test]
fn a_side_that_answers_in_transactions() {
    let _servers = beside_others();
    transactions::a_side_that_answers_in_transactions();
}

#[test]
fn topics_are_deleted_down_to_the_committed_offset() {
    let _servers = beside_others();
    trimmed::topics_are_deleted_down_to_the_committed_offset();
}

#[test]
fn a_dead_letter_is_tried_again() {
    let _servers = beside_others();
    letters::a_dead_letter_is_tried_again();
}

#[test]
fn a_called_warehouse_sells_no_more_than_it_has() {
    let _servers = beside_others();
    called::a_called_warehouse_sells_no_more_than_it_has();
}

#[test]
fn a_called_warehouse_hangs_fails_and_answers_later() {
    let _servers = beside_others();
    called::a_called_warehouse_hangs_fails_and_answers_later();
}

#[test]
fn the_node_that_asks_is_killed_and_another_goes_on() {
    let _servers = beside_others();
    called::the_node_that_asks_is_killed_and_another_goes_on();
}

#[test]
fn a_called_bank_charges_once_or_gives_back() {
    let _servers = beside_others();
    called::a_called_bank_charges_once_or_gives_back();
}

#[test]
fn ends_are_told_although_the_node_that_tells_is_killed() {
    let _servers = beside_others();
    called::ends_are_told_although_the_node_that_tells_is_killed();
}

#[test]
fn all_nodes_call_the_same_sides() {
    let _servers = beside_others();
    called::all_nodes_call_the_same_sides();
}

#[test]
fn a_participant_sees_its_own_at_any_node() {
    let _servers = beside_others();
    keys::a_participant_sees_its_own_at_any_node();
}

#[test]
fn a_node_asks_for_keys_from_the_first_one_on() {
    let _servers = beside_others();
    keys::a_node_asks_for_keys_from_the_first_one_on();
}

#[test]
fn callers_of_the_shop_are_answered() {
    let _servers = beside_others();
    edges::callers_of_the_shop_are_answered();
}

#[test]
fn every_scenario_is_played() {
    scenarios::every_scenario_is_played();
}

#[test]
fn the_sides_play_their_scenarios() {
    let _servers = beside_others();
    scenarios::the_sides_play_their_scenarios();
}

#[test]
fn the_order_side_plays_its_scenarios() {
    let _servers = beside_others();
    scenarios::the_order_side_plays_its_scenarios();
}

#[test]
fn orders_at_three_nodes() {
    let _servers = beside_others();
    stories::orders_at_three_nodes();
}

#[test]
fn silent_sides_give_back_when_they_come() {
    let _servers = beside_others();
    stories::silent_sides_give_back_when_they_come();
}
