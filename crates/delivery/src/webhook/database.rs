//! The webhook of the database profile: ends of checkouts are rows of the store, written with the end itself, and told by whichever
//! node takes them in hand. In memory is what is under way. A node that dies takes nothing with it: what it had in hand is due for
//! others when its time for it is over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_database::shop::{Tellings, Told};
use holdfast_postgres::shop::{DueOutcome, FailedTelling};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::{Address, Book, Meters, Outcomes, Telling, outcome_of};
use crate::lanes::{After, Bounds, Census, Lanes, Tries, Verdict};
use crate::options::{CONNECTION_IDLE_MAX, CallbackOptions, HUB_BUSY_PAUSE, LANE_IN_FLIGHT_MAX};

/// How often it is looked for ends that are to be told, while nothing ends here.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The pause after the store failed.
const TROUBLE_PAUSE: Duration = Duration::from_millis(250);
/// How much longer than an attempt may take an end is in this node's hand: to write down what became of it.
const LEASE_MARGIN: Duration = Duration::from_secs(5);
/// How often those that wait are counted, and how far.
const COUNT_EVERY: Duration = Duration::from_secs(1);
const COUNT_MAX: u32 = 131_072;

/// What became of rows that this node has in hand.
#[derive(Default)]
struct Rows {
    /// What is not written down yet.
    told: Mutex<Told>,
    /// There is something to be written down.
    changed: Notify,
}

impl Rows {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book for Rows {
    /// The row remembers when it is due again, so every end leaves this node's hand.
    fn settle(&self, id: u64, Tries { attempts, pause }: Tries, verdict: &Verdict<()>) -> After {
        let pause = match verdict {
            Verdict::Answered(()) | Verdict::Moot | Verdict::GivenUp(_) => None,
            Verdict::Untried(_) => Some(HUB_BUSY_PAUSE),
            Verdict::Failed(_) => Some(pause),
        };
        let mut told = self.told();
        match pause {
            None => told.over.push(id),
            Some(pause) => told.failed.push(FailedTelling { id, attempts, pause }),
        }
        After::Leaves
    }

    fn settled(&self, _: &Meters, _: Census) {
        self.changed.notify_one();
    }
}

/// Takes ends in hand that are due, has them told, and writes down what became of them.
pub(crate) struct StoredEnds {
    lanes: Arc<Lanes<Outcomes<Rows>>>,
    tellings: Tellings,
    options: CallbackOptions,
    is_troubled: bool,
}

impl StoredEnds {
    /// Must be called inside a tokio runtime.
    pub(crate) fn new(address: Address, tellings: Tellings, options: CallbackOptions) -> StoredEnds {
        let lanes = Outcomes::lanes(Rows::default(), address, options, Bounds::default());
        StoredEnds { lanes, tellings, options, is_troubled: false }
    }

    /// Has them told until `ending` says so; then gives what is under way a while to end, and the rest back.
    pub(crate) async fn run(mut self, mut ending: watch::Receiver<bool>) {
        let mut tidy = tokio::time::interval(CONNECTION_IDLE_MAX);
        let mut counted: Option<Instant> = None;
        while !*ending.borrow() {
            self.look(LANE_IN_FLIGHT_MAX).await;
            if counted.is_none_or(|at| at.elapsed() >= COUNT_EVERY) {
                counted = Some(Instant::now());
                self.count().await;
            }
            let pause = if self.is_troubled { TROUBLE_PAUSE } else { LOOK_EVERY };
            tokio::select! {
                _ = ending.wait_for(|ending| *ending) => {}
                () = self.lanes.source.book.changed.notified() => {}
                () = tokio::time::sleep(pause) => {}
                _ = tidy.tick() => self.lanes.source.address.post.close_idle(),
            }
        }
        // What is cut is told again by another node.
        self.lanes.end().await;
        self.give_back().await;
    }

    /// Writes down what became of attempts, and takes in hand what is to be told, as far as there is room.
    async fn look(&mut self, in_hand_max: usize) {
        let room = in_hand_max.saturating_sub(self.lanes.backlog(()));
        let lease = self.options.attempt_time_max + LEASE_MARGIN;
        let told = std::mem::take(&mut *self.lanes.source.book.told());
        match self.tellings.next(told.clone(), room, lease).await {
            Ok(due) => {
                self.is_troubled = false;
                for DueOutcome { id, end, at, attempts } in due {
                    if let Some(outcome) = outcome_of(&end, at) {
                        self.lanes.resume((), Telling::new(id, outcome), attempts);
                    }
                }
            }
            Err(trouble) => {
                let mut later = self.lanes.source.book.told();
                later.over.extend(told.over);
                later.failed.extend(told.failed);
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
            self.lanes.source.meters.waiting.set(waiting as f64);
        }
    }

    /// What was not told is due for others at once.
    async fn give_back(&mut self) {
        let jobs = self.lanes.take_out(()).into_iter();
        let failed = jobs.map(|(telling, attempts)| FailedTelling {
            id: telling.number,
            attempts,
            pause: Duration::ZERO,
        });
        self.lanes.source.book.told().failed.extend(failed);
        self.look(0).await;
    }
}
