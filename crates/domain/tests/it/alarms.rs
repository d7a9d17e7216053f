//! An alarm goes off when usage first passes the alarm percentage of the cap, and not again until it was back.

use holdfast_domain::callbacks::{CallbackMessage, NO_TRANSFER, alarms};

use crate::world::*;

/// A payer with a cap of 100 that wants to hear at `percentage`.
fn alarmed_at(percentage: u16) -> World {
    let mut world = World::with(100, 1000);
    world.frame(&[set_limit(PAYER, 100, percentage)]);
    world
}

fn alarm(value: i128) -> LimitAlarm {
    LimitAlarm { account: PAYER_POSITION, value: Balance(value), net_debit_cap: Amount(100) }
}

#[test]
fn reaching_the_percentage_is_not_passing_it() {
    let mut world = alarmed_at(50);
    assert_eq!(world.frame(&[prepare(0, 50)]).alarms(), []);
    assert_eq!(world.frame(&[prepare(1, 1)]).alarms(), [alarm(51)]);
}

#[test]
fn it_goes_off_once_per_passing() {
    let mut world = alarmed_at(50);
    let effects = world.frame(&[prepare(0, 40), prepare(1, 20), prepare(2, 20)]);
    assert_eq!(effects.alarms(), [alarm(60)], "within a bin");
    assert_eq!(world.frame(&[prepare(3, 5)]).alarms(), [], "and from frame to frame");
    world.frame(&[abort(1), abort(2)]);
    assert_eq!(world.frame(&[prepare(4, 10)]).alarms(), [alarm(55)], "again after it had come back");
}

#[test]
fn a_refused_prepare_raises_none() {
    let mut world = alarmed_at(50);
    assert_eq!(world.frame(&[prepare(0, 101)]).alarms(), []);
}

#[test]
fn credits_raise_none() {
    let mut world = alarmed_at(50);
    world.frame(&[prepare(0, 80)]);
    assert_eq!(world.frame(&[abort(0)]).alarms(), []);
}

#[test]
fn what_is_reserved_beside_the_position_is_usage() {
    let mut world = alarmed_at(50);
    world.memory.accounts.get_mut(&PAYER_POSITION).unwrap().reserved = Balance(45);
    assert_eq!(world.frame(&[prepare(0, 5)]).alarms(), []);
    assert_eq!(world.frame(&[prepare(1, 1)]).alarms(), [alarm(6)], "the value told is the position's");
}

#[test]
fn at_nought_percent_any_usage_is_told_and_at_a_hundred_none() {
    assert_eq!(alarmed_at(0).frame(&[prepare(0, 1)]).alarms(), [alarm(1)]);
    assert_eq!(alarmed_at(100).frame(&[prepare(0, 100)]).alarms(), []);
}

#[test]
fn a_lowered_limit_waits_for_the_next_passing() {
    let mut world = alarmed_at(50);
    world.frame(&[prepare(0, 40)]);
    let effects = world.frame(&[set_limit(PAYER, 60, 50), prepare(1, 1)]);
    assert_eq!(effects.alarms(), [], "usage stood above the new threshold already");
}

#[test]
fn whoever_holds_the_account_is_told() {
    let mut world = alarmed_at(50);
    let commands = [prepare(0, 60), prepare(1, 1)];
    let effects = world.frame(&commands);
    let message =
        CallbackMessage::Alarm { account: PAYER_POSITION, value: Balance(60), net_debit_cap: Amount(100) };
    assert_eq!(
        alarms(&effects, &world.memory),
        [Callback { to: PAYER, transfer: NO_TRANSFER, message, origin: 1 }]
    );
    assert_eq!(message.endpoint_type(), "ALARM_NOTIFICATION_URL");
}
