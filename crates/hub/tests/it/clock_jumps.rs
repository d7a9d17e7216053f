//! A wall clock that jumps is not taken over: nothing expires early, commands wait until it is back or confirmed.

use holdfast_domain::transfers::TransferState;
use holdfast_engine::Refusal;
use holdfast_engine::clock::Clock;
use holdfast_hub::limits::HubOptions;
use holdfast_hub::{Status, Turn};

use crate::support::{PAYEE, PAYER, START, in_business, open, pay, prepare};

const HOUR: i64 = 3_600_000;

#[test]
fn a_jump_forward_expires_nothing_until_it_is_confirmed() {
    let (_, clock, mut hub) = in_business(1_000);
    hub.frame(&[pay(1)]).unwrap();
    clock.set_by(HOUR);
    assert_eq!(hub.turn(), Turn::Idle);
    assert!(matches!(hub.status(), Status::ClockSuspect(_)));
    let refused = hub.frame(&[prepare(PAYER, PAYEE, 2, 1, START + 2 * HOUR)]);
    assert!(matches!(refused, Err(Refusal::Clock(_))), "{refused:?}");
    let state = |hub: &crate::support::TestHub| hub.row(1).unwrap().state;
    assert_eq!(state(&hub), TransferState::Reserved);

    hub.intake.confirm_clock(clock.read());
    assert_eq!(hub.turn(), Turn::Frame(1), "the hold has really run out");
    assert_eq!((state(&hub), hub.status()), (TransferState::ExpiredReserved, Status::Ready));
}

#[test]
fn a_clock_that_comes_back_heals_by_itself() {
    let (_, clock, mut hub) = in_business(1_000);
    clock.set_by(-HOUR);
    assert!(hub.frame(&[pay(1)]).is_err());
    clock.set_by(HOUR);
    hub.frame(&[pay(1)]).unwrap();
    assert_eq!(hub.status(), Status::Ready);
}

#[test]
fn a_clock_far_behind_the_log_is_refused_at_start() {
    let (fs, clock, hub) = in_business(1_000);
    drop(hub);
    clock.set_by(-HOUR);
    let mut hub = open(&fs, &clock, HubOptions::default()).unwrap();
    assert!(matches!(hub.frame(&[prepare(PAYER, PAYEE, 1, 1, START)]), Err(Refusal::Clock(_))));
}

#[test]
fn a_frame_is_never_stamped_before_the_last() {
    let (_, clock, mut hub) = in_business(1_000);
    clock.set_by(-5_000);
    hub.frame(&[pay(1)]).unwrap();
    assert_eq!(hub.core().last_time(), START);
    clock.pass(6_000);
    hub.frame(&[pay(2)]).unwrap();
    assert_eq!(hub.core().last_time(), START + 1_000);
}
