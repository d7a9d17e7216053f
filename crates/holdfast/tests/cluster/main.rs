//! Three nodes of the real binary under load while their servers and they themselves break. A binary to itself: it stops
//! the servers that other tests use.

mod called;
mod charges;
mod expiring;
mod faults;
mod inbox;
mod judge;
mod letters;
mod load;
mod shop;
#[allow(dead_code, reason = "not everything is needed here")]
#[path = "../it/support/mod.rs"]
mod support;
mod tokens;
mod trimmed;
mod world;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use faults::Fault;
use load::Load;
use shop::ShopLoad;
use world::World;

/// How many payments must have ended between two faults, so that each meets work.
const PAYMENTS_BETWEEN: u64 = 300;
/// And how many checkouts.
const CHECKOUTS_BETWEEN: u64 = 10;

/// The servers belong to one test at a time: some stop them.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs these faults one after the other under load, and judges what is left.
fn endure(faults: &[Fault]) {
    let Some(mut world) = World::new() else { return };
    world.add_nodes(3);
    let (load, shop) = (Load::start(&world), ShopLoad::start(&world));
    load.await_more(PAYMENTS_BETWEEN);
    for fault in faults {
        eprintln!("{fault:?}");
        faults::commit(*fault, &mut world);
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
    endure(&Fault::ALL);
}

/// For `cargo xtask soak`: as long as HOLDFAST_TEST_CLUSTER_SECONDS says.
#[test]
fn faults_at_random_for_as_long_as_asked() {
    let Some(seconds) = std::env::var("HOLDFAST_TEST_CLUSTER_SECONDS").ok() else { return };
    let _alone = alone();
    let Some(mut world) = World::new() else { return };
    let until = std::time::Instant::now() + Duration::from_secs(seconds.parse().expect("whole seconds"));
    world.add_nodes(3);
    let (load, shop) = (Load::start(&world), ShopLoad::start(&world));
    let mut number = u64::from(std::process::id());
    while std::time::Instant::now() < until {
        load.await_more(PAYMENTS_BETWEEN);
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let fault = Fault::ALL[usize::try_from(number >> 33).expect("31 bits") % Fault::ALL.len()];
        eprintln!("{fault:?}");
        faults::commit(fault, &mut world);
    }
    load.await_more(PAYMENTS_BETWEEN);
    shop.await_more(CHECKOUTS_BETWEEN);
    let ledger = load.end();
    shop.judge(&world);
    world.await_quiet();
    judge::all(&world, &ledger);
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
    let _alone = alone();
    tokens::a_killed_nodes_tokens_are_free_at_the_end_of_their_lease();
}

#[test]
fn a_stopped_node_has_lost_its_lease() {
    let _alone = alone();
    tokens::a_stopped_node_has_lost_its_lease();
}

#[test]
fn nodes_recover_from_a_restarted_postgresql() {
    let _alone = alone();
    tokens::nodes_recover_from_a_restarted_postgresql();
}

#[test]
fn another_ledger_tells_by_kafka() {
    let _alone = alone();
    tokens::another_ledger_tells_by_kafka();
}

#[test]
fn tokens_pay_for_transfers_through_any_node() {
    let _alone = alone();
    tokens::tokens_pay_for_transfers_through_any_node();
}

#[test]
fn a_hold_survives_the_node_that_made_it() {
    let _alone = alone();
    tokens::a_hold_survives_the_node_that_made_it();
}

#[test]
fn shattered_wallets_are_brought_together() {
    let _alone = alone();
    tokens::shattered_wallets_are_brought_together();
}

#[test]
fn a_thousand_orders_on_a_hundred_units() {
    let _alone = alone();
    shop::a_thousand_orders_on_a_hundred_units();
}

#[test]
fn checkouts_charge_positions_through_any_node() {
    let _alone = alone();
    charges::checkouts_charge_positions_through_any_node();
}

#[test]
fn checkouts_charge_tokens_through_any_node() {
    let _alone = alone();
    charges::checkouts_charge_tokens_through_any_node();
}

#[test]
fn a_warehouse_in_another_language() {
    let _alone = alone();
    shop::a_warehouse_in_another_language();
}

#[test]
fn topics_are_deleted_down_to_the_committed_offset() {
    let _alone = alone();
    trimmed::topics_are_deleted_down_to_the_committed_offset();
}

#[test]
fn a_dead_letter_is_tried_again() {
    let _alone = alone();
    letters::a_dead_letter_is_tried_again();
}

#[test]
fn a_called_warehouse_sells_no_more_than_it_has() {
    let _alone = alone();
    called::a_called_warehouse_sells_no_more_than_it_has();
}

#[test]
fn a_called_warehouse_hangs_fails_and_answers_later() {
    let _alone = alone();
    called::a_called_warehouse_hangs_fails_and_answers_later();
}

#[test]
fn the_node_that_asks_is_killed_and_another_goes_on() {
    let _alone = alone();
    called::the_node_that_asks_is_killed_and_another_goes_on();
}

#[test]
fn a_called_bank_charges_once_or_gives_back() {
    let _alone = alone();
    called::a_called_bank_charges_once_or_gives_back();
}

#[test]
fn ends_are_told_although_the_node_that_tells_is_killed() {
    let _alone = alone();
    called::ends_are_told_although_the_node_that_tells_is_killed();
}

#[test]
fn all_nodes_call_the_same_sides() {
    let _alone = alone();
    called::all_nodes_call_the_same_sides();
}

#[test]
fn a_node_is_killed_while_many_check_out() {
    let _alone = alone();
    called::a_node_is_killed_while_many_check_out();
}
