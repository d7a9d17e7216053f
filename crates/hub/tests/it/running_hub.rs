//! The hub with its threads: the clock is watched though nobody asks, and a thread that dies hangs nobody.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_domain::records::Sealed;
use holdfast_engine::Refusal;
use holdfast_hub::limits::{CLOCK_LOOK_EVERY, HubOptions};
use holdfast_hub::{Hub, HubHandle, Status, Submission};
use holdfast_log::SimFs;

use crate::support::{self, TestClock, asked, in_business, pay, submission};

const PATIENCE: Duration = Duration::from_secs(20);

fn start(fs: &SimFs, clock: &Arc<TestClock>) -> Hub {
    support::start(fs, clock.clone(), HubOptions::default())
}

fn wait_for(hub: &HubHandle, what: &str, wanted: impl Fn(&Status) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !wanted(&hub.status()) {
        assert!(Instant::now() < deadline, "the hub never became {what}: {:?}", hub.status());
        std::thread::yield_now();
    }
}

#[test]
fn a_jump_on_an_idle_hub_shows_and_heals_without_a_request() {
    let clock = TestClock::new();
    let hub = start(&SimFs::new(1), &clock);
    let handle = hub.handle();
    wait_for(&handle, "ready", |status| *status == Status::Ready);
    // A turn answers questions before it looks at the clock: with the second answer the first look has been taken.
    for _ in 0..2 {
        asked(&handle, |_| ());
    }
    clock.set_by(3_600_000);
    wait_for(&handle, "suspicious", |status| matches!(status, Status::ClockSuspect(_)));
    clock.set_by(-3_600_000);
    wait_for(&handle, "ready again", |status| *status == Status::Ready);
    assert!(CLOCK_LOOK_EVERY < PATIENCE);
}

#[test]
fn a_hub_started_behind_its_log_says_so_at_once() {
    let (fs, clock, by_hand) = in_business(1_000);
    drop(by_hand);
    clock.set_by(-3_600_000);
    let hub = start(&fs, &clock);
    wait_for(&hub.handle(), "suspicious", |status| matches!(status, Status::ClockSuspect(_)));
}

#[test]
fn a_writer_that_dies_leaves_nobody_waiting() {
    let hub = start(&SimFs::new(1), &TestClock::new());
    let handle = hub.handle();
    handle.ask(Box::new(|_| panic!("a broken invariant, for this test"))).unwrap();
    wait_for(&handle, "stopped", |status| matches!(status, Status::Stopped(_)));
    let (late, _answer) = submission(&[pay(1)]);
    assert!(matches!(handle.submit(late), Err(Refusal::Closed(_))));
    hub.stop();
}

#[test]
fn a_journal_that_dies_leaves_nobody_waiting() {
    let hub = start(&SimFs::new(1), &TestClock::new());
    let handle = hub.handle();
    // Answers are called on the journal's thread: this one takes it down.
    let records = Sealed::of(&[pay(1)]);
    let dies = Submission::new(records, Box::new(|_| panic!("a broken invariant, for this test")));
    handle.submit(dies).unwrap();
    wait_for(&handle, "stopped", |status| matches!(status, Status::Stopped(_)));
    let (late, answer) = submission(&[pay(2)]);
    match handle.submit(late) {
        Err(Refusal::Closed(_)) => {}
        other => panic!("a hub without a journal took a command: {other:?}"),
    }
    assert!(answer.recv().is_err());
    hub.stop();
}
