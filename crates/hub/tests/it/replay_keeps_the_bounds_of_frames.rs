//! A frame is a decision batch. What was decided in two frames must not be decided again as one: in one, a credit
//! would make room for a debit that came before it.

use std::sync::Arc;

use holdfast_domain::codes::ErrorCode;
use holdfast_domain::ids::AccountId;
use holdfast_domain::transfers::TransferState;
use holdfast_hub::limits::HubOptions;
use holdfast_log::SimFs;

use crate::support::{PAYEE, PAYER, START, TestClock, TestHub, fulfil, funds_in, in_business, open, prepare};

const CAP: i64 = 100;

/// The payee owes all it may, then is paid (a credit), and wants to pay again (a debit).
fn staged() -> (SimFs, Arc<TestClock>, TestHub) {
    let (fs, clock, mut hub) = in_business(CAP);
    hub.frame(&[funds_in(2, AccountId(4), CAP)]).unwrap();
    hub.frame(&[prepare(PAYEE, PAYER, 1, CAP, START + 60_000)]).unwrap();
    hub.frame(&[prepare(PAYER, PAYEE, 2, CAP, START + 60_000)]).unwrap();
    (fs, clock, hub)
}

type Code = (TransferState, Option<u16>);

fn codes(hub: &TestHub) -> Vec<Code> {
    let rows = (1..=4).filter_map(|id| hub.row(id));
    rows.map(|row| (row.state, row.code.map(|code| code.number()))).collect()
}

/// A start leads to the same.
#[track_caller]
fn is_replayed(fs: &SimFs, clock: &Arc<TestClock>, hub: TestHub, live: &(Vec<Code>, [u8; 32])) {
    drop(hub);
    let replayed = open(fs, clock, HubOptions::default()).unwrap();
    assert_eq!((codes(&replayed), replayed.core().chain()), *live);
}

#[test]
fn two_frames_are_replayed_as_two() {
    let (fs, clock, mut hub) = staged();
    // The debit comes one frame before the credit: refused, and it stays refused.
    hub.frame(&[prepare(PAYEE, PAYER, 3, CAP, START + 60_000)]).unwrap();
    hub.frame(&[fulfil(PAYEE, 2)]).unwrap();
    let live = (codes(&hub), hub.core().chain());
    let refused = ErrorCode::PayerInsufficientLiquidity.number();
    assert_eq!(live.0[2], (TransferState::AbortedRejected, Some(refused)));
    is_replayed(&fs, &clock, hub, &live);
}

#[test]
fn one_frame_is_replayed_as_one() {
    let (fs, clock, mut hub) = staged();
    // Both in one frame, the debit first in the log: the credit is processed before it and makes room.
    hub.frame(&[prepare(PAYEE, PAYER, 3, CAP, START + 60_000), fulfil(PAYEE, 2)]).unwrap();
    let live = (codes(&hub), hub.core().chain());
    assert_eq!(live.0[2], (TransferState::Reserved, None));
    is_replayed(&fs, &clock, hub, &live);
}

#[test]
fn submissions_that_wait_together_make_one_frame() {
    let (_, _, mut hub) = staged();
    let debit = hub.submit(&[prepare(PAYEE, PAYER, 3, CAP, START + 60_000)]).unwrap();
    let credit = hub.submit(&[fulfil(PAYEE, 2)]).unwrap();
    hub.turn();
    assert_eq!(debit.recv().unwrap().unwrap()[0].state, Some(TransferState::Reserved));
    assert_eq!(credit.recv().unwrap().unwrap()[0].state, Some(TransferState::Committed));
}
