//! The loop with a scripted source: what a panic costs, what makes way, and what is taken out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use super::{After, Bounds, Census, Health, Job, Lanes, NotNow, Source, Tries, Verdict};
use crate::options::{CallbackOptions, TROUBLED_AFTER_FAILURES};
use crate::request::Failure;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Order(u32);

impl Job for Order {
    type Key = u32;

    fn key(&self) -> u32 {
        self.0
    }
}

/// Whenever its request is written, that breaks off.
const CANNOT_BE_WRITTEN: Order = Order(666);

/// How an attempt goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Fails,
    PanicsPreparing,
    Panics,
    PanicsSettling,
    /// Until it is let go.
    Hangs,
}

/// Plays steps, one for each attempt of a lane in its order; without any all is well.
#[derive(Default)]
struct Script {
    steps: Mutex<VecDeque<Step>>,
    /// Orders and their attempts, as they were settled.
    settled: Mutex<Vec<(u32, u32, &'static str)>>,
    found: Mutex<Vec<Health>>,
    let_go: Notify,
}

impl Script {
    fn of(steps: impl IntoIterator<Item = Step>) -> Script {
        Script { steps: Mutex::new(steps.into_iter().collect()), ..Script::default() }
    }

    fn next(&self, is_wanted: impl Fn(Step) -> bool) -> Option<Step> {
        let mut steps = self.steps.lock().unwrap();
        steps.pop_front_if(|step| is_wanted(*step))
    }
}

impl Source for Script {
    type Receiver = u32;
    type Job = Order;
    type Answer = ();

    const NEWEST_ONLY: bool = true;

    fn lane_number(to: u32) -> u32 {
        to
    }

    async fn prepare(&self, orders: &mut [Order]) -> Result<(), NotNow> {
        assert!(!orders.contains(&CANNOT_BE_WRITTEN), "a planted fault");
        assert!(self.next(|step| step == Step::PanicsPreparing).is_none(), "a planted fault");
        Ok(())
    }

    async fn attempt(&self, to: u32, _: &Order) -> Result<Option<()>, Failure> {
        if to != 1 {
            return Ok(Some(()));
        }
        match self.next(|step| step != Step::PanicsSettling) {
            Some(Step::Panics) => panic!("a planted fault"),
            Some(Step::Fails) => Err(Failure::passing("bad")),
            Some(Step::Hangs) => {
                self.let_go.notified().await;
                Ok(Some(()))
            }
            _ => Ok(Some(())),
        }
    }

    fn settle(&self, _: u32, order: &Order, tries: Tries, verdict: Verdict<()>) -> After {
        assert!(self.next(|step| step == Step::PanicsSettling).is_none(), "a planted fault");
        let (how, after) = match verdict {
            Verdict::Answered(()) => ("answered", After::Leaves),
            Verdict::Failed(_) => ("failed", After::RestsFor(tries.pause)),
            Verdict::GivenUp(_) => ("given up", After::Leaves),
            Verdict::Moot | Verdict::Untried(_) => ("not sent", After::Leaves),
        };
        self.settled.lock().unwrap().push((order.0, tries.attempts, how));
        after
    }

    fn found(&self, _: u32, health: Health, _: &str) {
        self.found.lock().unwrap().push(health);
    }
}

fn lanes(steps: impl IntoIterator<Item = Step>) -> Arc<Lanes<Script>> {
    let options = CallbackOptions { attempts_max: 3, ..CallbackOptions::default() };
    Lanes::new(Script::of(steps), options, Bounds::default())
}

/// Long enough for all attempts: the time of these tests is no real one.
const LONG: Duration = Duration::from_secs(600);

#[tokio::test(start_paused = true)]
async fn a_panic_costs_an_attempt_of_its_own_job_only() {
    let lanes = lanes([Step::PanicsPreparing, Step::Panics]);
    lanes.resume(1, Order(7), 0);
    lanes.resume(2, Order(8), 0);
    sleep(LONG).await;
    let mut settled = lanes.source.settled.lock().unwrap().clone();
    settled.sort_by_key(|(order, ..)| *order);
    assert_eq!(settled, [(7, 1, "failed"), (7, 2, "failed"), (7, 3, "answered"), (8, 1, "answered")]);
    assert_eq!(lanes.census(), Census::default());
}

/// They are written together, and one of them can never be: the others are not glued to it, and it is given up.
#[tokio::test(start_paused = true)]
async fn a_job_that_cannot_be_written_holds_up_no_other() {
    let lanes = lanes([Step::Hangs]);
    lanes.resume(1, Order(7), 0);
    sleep(Duration::from_millis(1)).await;
    for order in [Order(8), CANNOT_BE_WRITTEN, Order(9)] {
        lanes.resume(1, order, 0);
    }
    lanes.source.let_go.notify_one();
    sleep(LONG).await;
    let mut settled = lanes.source.settled.lock().unwrap().clone();
    settled.sort_unstable();
    let broken = [(666, 1, "failed"), (666, 2, "failed"), (666, 3, "given up")];
    assert_eq!(settled[..3], [(7, 1, "answered"), (8, 1, "answered"), (9, 1, "answered")]);
    assert_eq!(settled[3..], broken);
    assert_eq!(lanes.census(), Census::default());
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_end_could_not_be_written_down_is_tried_again() {
    let lanes = lanes([Step::PanicsSettling]);
    lanes.resume(1, Order(7), 0);
    lanes.resume(1, Order(7), 0);
    sleep(LONG).await;
    let settled = lanes.source.settled.lock().unwrap().clone();
    assert_eq!(settled.last(), Some(&(7, 1, "answered")));
    assert_eq!(lanes.census(), Census::default());
}

#[tokio::test(start_paused = true)]
async fn after_so_many_attempts_a_job_is_given_up() {
    let lanes = lanes([Step::Fails; 3]);
    lanes.resume(1, Order(7), 0);
    sleep(LONG).await;
    let settled = lanes.source.settled.lock().unwrap().clone();
    assert_eq!(settled, [(7, 1, "failed"), (7, 2, "failed"), (7, 3, "given up")]);
}

#[tokio::test(start_paused = true)]
async fn what_is_newer_takes_the_place_of_what_would_be_repeated() {
    let lanes = lanes([Step::Hangs, Step::Fails]);
    lanes.hasten(1, Order(7));
    sleep(Duration::from_millis(1)).await;
    lanes.hasten(1, Order(7));
    assert_eq!(lanes.backlog(1), 2);
    lanes.source.let_go.notify_one();
    sleep(LONG).await;
    let settled = lanes.source.settled.lock().unwrap().clone();
    assert_eq!(settled, [(7, 1, "answered"), (7, 1, "failed"), (7, 2, "answered")]);
}

#[tokio::test(start_paused = true)]
async fn of_a_lane_that_was_taken_out_nothing_ends_here() {
    let lanes = lanes([Step::Hangs]);
    lanes.resume(1, Order(7), 2);
    lanes.resume(1, Order(7), 0);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(lanes.take_out(1), [(Order(7), 2), (Order(7), 0)]);
    // Another lane of the same receiver: what was begun before does not end in it.
    lanes.resume(1, Order(9), 0);
    lanes.source.let_go.notify_one();
    sleep(LONG).await;
    assert_eq!(*lanes.source.settled.lock().unwrap(), [(9, 1, "answered")]);
    assert_eq!(lanes.census(), Census::default());
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_fails_for_long_is_said_to_once() {
    let failures = usize::try_from(TROUBLED_AFTER_FAILURES).unwrap() + 4;
    let lanes = lanes(vec![Step::Fails; failures]);
    (0..40).for_each(|order| lanes.resume(1, Order(order), 0));
    sleep(LONG).await;
    assert_eq!(*lanes.source.found.lock().unwrap(), [Health::Troubled, Health::Well]);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_looked_for_when_there_is_room() {
    let lanes = Lanes::new(Script::of([Step::Hangs; 4]), CallbackOptions::default(), Bounds::of_one_lane(4));
    assert!((0..4).all(|order| lanes.find(1, Order(order))));
    assert!(!lanes.is_wanting(1));
    lanes.hasten(1, Order(4));
    assert!(!lanes.find(1, Order(5)) && lanes.find(1, Order(0)), "one is there, and one is not");
    assert_eq!(lanes.backlog(1), 4);
    sleep(Duration::from_millis(1)).await;
    for wants in [false, true] {
        assert!(!lanes.is_wanting(1));
        lanes.source.let_go.notify_one();
        sleep(Duration::from_millis(1)).await;
        assert_eq!(lanes.is_wanting(1), wants);
    }
    lanes.bell.notified().await;
    lanes.set_behind(1, false);
    assert!(!lanes.is_wanting(1), "once");
}
