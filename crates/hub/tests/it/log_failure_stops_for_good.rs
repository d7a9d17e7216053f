//! When the log fails, nothing is acknowledged, nothing more is taken, and nothing undurable is shown.

use std::sync::mpsc;

use holdfast_engine::Refusal;
use holdfast_hub::limits::HubOptions;
use holdfast_hub::{Status, Turn};

use crate::support::{in_business, open, pay, start, submitted};

#[test]
fn a_failed_sync_answers_unknown_and_then_refuses() {
    let (fs, clock, mut hub) = in_business(1_000);
    hub.frame(&[pay(1)]).unwrap();
    let waiting = hub.submit(&[pay(2)]).unwrap();
    fs.fail_next_sync();
    assert_eq!(hub.turn(), Turn::Stopped);
    assert!(matches!(waiting.recv().unwrap(), Err(Refusal::Unknown(_))));
    let Status::Stopped(reason) = hub.status() else { panic!("{}", hub.status()) };
    assert!(
        reason.contains("cannot sync") && reason.contains("simulated sync failure"),
        "with the cause: {reason}"
    );
    assert!(matches!(hub.submit(&[pay(3)]).err(), Some(Refusal::Closed(_))));
    assert!(hub.intake.ask(Box::new(|_| panic!("the state may be ahead of the log"))).is_err());
    drop(hub);
    // What was acknowledged before is there; the unknown one may be repeated with the same id.
    let mut hub = open(&fs.crash(3), &clock, HubOptions::default()).unwrap();
    assert!(hub.row(1).is_some());
    hub.frame(&[pay(2)]).unwrap();
}

#[test]
fn a_question_that_waited_is_not_answered_from_undurable_state() {
    let (fs, _, mut hub) = in_business(1_000);
    let waiting = hub.submit(&[pay(1)]).unwrap();
    fs.fail_next_write();
    assert_eq!(hub.turn(), Turn::Stopped);
    assert!(waiting.recv().unwrap().is_err());
    let (send, receive) = mpsc::channel::<u64>();
    let asked = hub.intake.ask(Box::new(move |core| send.send(core.counts().frames).unwrap()));
    assert!(asked.is_err(), "a stopped hub takes no question");
    hub.turn();
    assert!(receive.recv().is_err(), "the question was dropped, not answered");
}

/// The journal fails on its own thread while nobody else waits: the hub must not end with a checkpoint of a frame that
/// the log does not have.
#[test]
fn a_failed_log_leaves_no_checkpoint_ahead_of_it() {
    let (fs, clock, by_hand) = in_business(1_000);
    drop(by_hand);
    let hub = start(&fs, clock.clone(), HubOptions::default());
    fs.fail_syncs_of(|path| path.extension().is_some_and(|kind| kind == "seg"));
    let answer = submitted(&hub.handle(), &[pay(1)]);
    assert!(matches!(answer.recv().unwrap(), Err(Refusal::Unknown(_))));
    hub.stop();
    for seed in 0..50 {
        let again = open(&fs.crash(seed), &clock, HubOptions::default());
        assert!(again.is_ok(), "seed {seed}: {:?}", again.err().map(|error| error.to_string()));
    }
}
