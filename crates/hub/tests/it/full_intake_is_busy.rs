//! Overload gives a clear "busy", and nothing of what was refused is stored.

use holdfast_engine::Refusal;
use holdfast_hub::Turn;
use holdfast_hub::limits::{HubOptions, SUBMISSION_RECORDS_MAX};
use holdfast_log::SimFs;

use crate::support::{TestClock, open, pay, reopen};

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let options = HubOptions { intake_records_max: 5, ..HubOptions::default() };
    let mut hub = open(&SimFs::new(1), &TestClock::new(), options).unwrap();
    hub.open_for_business(1_000);
    let taken = hub.submit(&[pay(1), pay(2), pay(3)]).unwrap();
    assert_eq!(hub.submit(&[pay(4), pay(5), pay(6)]).err(), Some(Refusal::Busy));
    assert_eq!(hub.turn(), Turn::Frame(3));
    assert_eq!(taken.recv().unwrap().unwrap().len(), 3);
    assert!(hub.row(4).is_none());
    hub.frame(&[pay(4), pay(5), pay(6)]).expect("there is room again");
}

#[test]
fn each_bound_holds() {
    for options in [
        HubOptions { intake_bytes_max: 300, ..HubOptions::default() },
        HubOptions { intake_items_max: 2, ..HubOptions::default() },
    ] {
        let hub = open(&SimFs::new(1), &TestClock::new(), options).unwrap();
        let first = hub.submit(&[pay(1)]).unwrap();
        let second = hub.submit(&[pay(2)]).unwrap();
        assert_eq!(hub.submit(&[pay(3)]).err(), Some(Refusal::Busy), "{options:?}");
        drop((first, second));
    }
    let hub = reopen(&SimFs::new(1));
    let many: Vec<_> = (0..=SUBMISSION_RECORDS_MAX as u128).map(pay).collect();
    assert_eq!(hub.submit(&many).err(), Some(Refusal::TooMany(SUBMISSION_RECORDS_MAX + 1)));
}

#[test]
fn a_frame_is_closed_at_its_size_and_the_rest_waits_for_the_next() {
    let options = HubOptions { frame_bytes_max: 256, ..HubOptions::default() };
    let mut hub = open(&SimFs::new(1), &TestClock::new(), options).unwrap();
    hub.open_for_business(1_000);
    let answers: Vec<_> = (1..=5).map(|id| hub.submit(&[pay(id)]).unwrap()).collect();
    assert_eq!(
        [hub.turn(), hub.turn(), hub.turn(), hub.turn()],
        [Turn::Frame(2), Turn::Frame(2), Turn::Frame(1), Turn::Idle]
    );
    assert!(answers.iter().all(|answer| answer.recv().unwrap().is_ok()));
}
