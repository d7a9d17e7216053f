//! The webhook of a cluster: ends of checkouts are rows of the store, written with the end itself, and told by whichever node takes
//! them in hand. In memory is what is under way. A node that dies takes nothing with it: what it had in hand is due for others when
//! its time for it is over.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_database::shop::{Tellings, Told};
use holdfast_postgres::shop::{DueOutcome, FailedTelling};
use hyper::http::Uri;
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout};

use super::kept::Outcome;
use super::{LANE, Meters, Telling, outcome_of, tell};
use crate::callbacks::options::{CONNECTION_IDLE_MAX, CallbackOptions, END_WAIT_MAX, LANE_IN_FLIGHT_MAX};
use crate::callbacks::{Failure, Pauses, Post};
use crate::courier::schedule::{Schedule, at};

/// How often it is looked for ends that are to be told, while nothing ends here.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The pause after the store failed.
const TROUBLE_PAUSE: Duration = Duration::from_millis(250);
/// How much longer than an attempt may take an end is in this node's hand: to write down what became of it.
const LEASE_MARGIN: Duration = Duration::from_secs(5);
/// How often those that wait are counted, and how far.
const COUNT_EVERY: Duration = Duration::from_secs(1);
const COUNT_MAX: u32 = 131_072;

/// An end in this node's hand.
#[derive(Debug, Clone)]
struct Job {
    id: u64,
    outcome: Outcome,
    attempts: u32,
}

/// Tells outcomes to one address.
pub(crate) struct SharedWebhook {
    uri: Uri,
    tellings: Tellings,
    post: Arc<Post<()>>,
    options: CallbackOptions,
    pauses: Pauses,
    schedule: Schedule<Job>,
    under_way: HashMap<Id, Job>,
    /// What is not written down yet.
    told: Told,
    is_troubled: bool,
    meters: Meters,
}

impl SharedWebhook {
    pub(crate) fn new(
        uri: Uri,
        tellings: Tellings,
        post: Post<()>,
        options: CallbackOptions,
    ) -> SharedWebhook {
        SharedWebhook {
            uri,
            tellings,
            post: Arc::new(post),
            options,
            pauses: Pauses::new(&options, LANE),
            schedule: Schedule::new(),
            under_way: HashMap::new(),
            told: Told::default(),
            is_troubled: false,
            meters: Meters::default(),
        }
    }

    /// Tells until `ending` says so; then gives what is under way a while to end, and the rest back.
    pub(crate) async fn run(mut self, mut ending: watch::Receiver<bool>) {
        let mut requests: JoinSet<Result<(), Failure>> = JoinSet::new();
        let mut tidy = tokio::time::interval(CONNECTION_IDLE_MAX);
        let mut counted: Option<Instant> = None;
        while !*ending.borrow() {
            self.look(LANE_IN_FLIGHT_MAX).await;
            while let Some(job) = self.schedule.begin(Instant::now()) {
                self.begin(job, &mut requests);
            }
            if counted.is_none_or(|at| at.elapsed() >= COUNT_EVERY) {
                counted = Some(Instant::now());
                self.count().await;
            }
            let pause = if self.is_troubled { TROUBLE_PAUSE } else { LOOK_EVERY };
            tokio::select! {
                _ = ending.wait_for(|ending| *ending) => {}
                Some(ended) = requests.join_next_with_id() => {
                    self.end(ended);
                    // Whatever else has ended is written down together with it.
                    while let Some(ended) = requests.try_join_next_with_id() {
                        self.end(ended);
                    }
                }
                () = at(self.schedule.next_begin()) => {}
                () = tokio::time::sleep(pause) => {}
                _ = tidy.tick() => self.post.close_idle(),
            }
        }
        let rest = async {
            while let Some(ended) = requests.join_next_with_id().await {
                self.end(ended);
            }
        };
        // What is cut is told again by another node.
        drop(timeout(END_WAIT_MAX, rest).await);
        self.give_back().await;
    }

    /// Writes down what became of attempts, and takes in hand what is to be told, as far as there is room.
    async fn look(&mut self, in_hand_max: usize) {
        let in_hand = self.schedule.len() + self.under_way.len();
        let room = in_hand_max.saturating_sub(in_hand);
        let lease = self.options.attempt_time_max + LEASE_MARGIN;
        match self.tellings.next(self.told.clone(), room, lease).await {
            Ok(due) => {
                self.told = Told::default();
                self.is_troubled = false;
                let now = Instant::now();
                for DueOutcome { id, end, at, attempts } in due {
                    if let Some(outcome) = outcome_of(&end, at) {
                        self.schedule.put(now, Job { id, outcome, attempts });
                    }
                }
            }
            Err(trouble) => {
                if !self.is_troubled {
                    tracing::warn!(
                        ?trouble,
                        "outcomes of checkouts cannot be read; none is told until they can"
                    );
                }
                self.is_troubled = true;
            }
        }
    }

    async fn count(&self) {
        if let Ok(waiting) = self.tellings.count(COUNT_MAX).await {
            self.meters.waiting.set(waiting as f64);
        }
    }

    fn begin(&mut self, job: Job, requests: &mut JoinSet<Result<(), Failure>>) {
        let telling = tell(Arc::clone(&self.post), &self.uri, &job.outcome, self.options.attempt_time_max);
        let request = requests.spawn(telling);
        self.under_way.insert(request.id(), job);
    }

    fn end(&mut self, ended: Result<(Id, Result<(), Failure>), JoinError>) {
        let (id, told) = match ended {
            Ok(ended) => ended,
            Err(error) => (error.id(), Err(Failure::ours(error.to_string()))),
        };
        let Some(Job { id, outcome, attempts }) = self.under_way.remove(&id) else { return };
        let (well, why) = match Telling::of(told, attempts, self.options.attempts_max) {
            Telling::Told => {
                self.meters.told.increment(1);
                self.told.over.push(id);
                (Some(true), String::new())
            }
            Telling::Untried(why) => {
                self.told.failed.push(FailedTelling { id, attempts, pause: super::SHORTAGE_PAUSE });
                (None, why)
            }
            Telling::Failed(attempts, why) => {
                self.meters.failed.increment(1);
                let pause = self.pauses.after(attempts);
                self.told.failed.push(FailedTelling { id, attempts, pause });
                (Some(false), why)
            }
            Telling::GivenUp(why) => {
                self.meters.failed.increment(1);
                self.meters.give_up(&outcome, &why);
                self.told.over.push(id);
                (Some(false), why)
            }
        };
        super::say_turn(self.schedule.ended(well), &why, &self.uri);
    }

    /// What was not told is due for others at once.
    async fn give_back(&mut self) {
        let schedule = std::mem::replace(&mut self.schedule, Schedule::new());
        let jobs = schedule.into_waiting().chain(std::mem::take(&mut self.under_way).into_values());
        let failed =
            jobs.map(|Job { id, attempts, .. }| FailedTelling { id, attempts, pause: Duration::ZERO });
        self.told.failed.extend(failed);
        self.look(0).await;
    }
}
