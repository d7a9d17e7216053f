//! The webhook: whoever wants to know is told how each checkout ended.
//!
//! Ends are heard from durable frames and wait in memory. What a clean stop leaves undelivered is kept in a file and told
//! after the next start; what a crash leaves is not. An outcome that is not taken after so many attempts is given up: the
//! truth is the order, which anybody can ask for. In a cluster ends wait in the store, and a crash loses none (`shared`).

mod kept;
mod lost;
mod shared;

pub(super) use shared::SharedWebhook;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{CheckoutAnswer, CheckoutEnd};
use holdfast_hub::shop::{Missed, ShopDesk, ShopEvent, ShopEvents};
use hyper::http::Uri;
use metrics::{Counter, Gauge, counter, gauge};
use serde_json::{Map, json};
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, timeout};

use crate::callbacks::options::{CONNECTION_IDLE_MAX, CallbackOptions, END_WAIT_MAX};
use crate::callbacks::{Blame, Envelope, Failure, Outgoing, Pauses, Post};
use crate::courier::schedule::{Schedule, Turn, after, at};
use crate::courier::step;
use holdfast_wire::times;
use kept::{Kept, Outcome};
use lost::Lost;

/// Outcomes that wait to be told, those under way not included. More are given up at once.
const OUTCOMES_MAX: usize = 131_072;
/// After a shortage of our own: too many connections, say.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);
/// Sets this webhook's pauses apart from those of the couriers.
const LANE: u32 = 3;

/// An outcome and how often it was told in vain.
#[derive(Debug, Clone)]
struct Job {
    outcome: Outcome,
    attempts: u32,
}

struct Meters {
    told: Counter,
    failed: Counter,
    given_up: Counter,
    waiting: Gauge,
}

impl Default for Meters {
    fn default() -> Meters {
        Meters {
            told: counter!("holdfast_checkout_outcomes_told_total"),
            failed: counter!("holdfast_checkout_outcomes_failed_attempts_total"),
            given_up: counter!("holdfast_checkout_outcomes_given_up_total"),
            waiting: gauge!("holdfast_checkout_outcomes_waiting"),
        }
    }
}

impl Meters {
    fn give_up(&self, outcome: &Outcome, why: &str) {
        let Outcome { order, tr, state, .. } = outcome;
        tracing::warn!(order, tr, state, why, "the outcome of a checkout is given up");
        self.given_up.increment(1);
    }
}

/// What became of an attempt to tell.
enum Telling {
    Told,
    /// It was never sent, and why.
    Untried(String),
    /// It failed so often by now, and why the last time.
    Failed(u32, String),
    GivenUp(String),
}

impl Telling {
    /// After so many attempts that failed before.
    fn of(told: Result<(), Failure>, attempts: u32, attempts_max: u32) -> Telling {
        match told {
            Ok(()) => Telling::Told,
            Err(Failure { why, blame: Blame::Ours }) => Telling::Untried(why),
            Err(Failure { why, blame }) => {
                let attempts = attempts.saturating_add(1);
                match blame == Blame::ForGood || attempts >= attempts_max {
                    true => Telling::GivenUp(why),
                    false => Telling::Failed(attempts, why),
                }
            }
        }
    }
}

/// One attempt to tell.
fn tell(
    post: Arc<Post<()>>,
    uri: &Uri,
    outcome: &Outcome,
    patience: Duration,
) -> impl Future<Output = Result<(), Failure>> + Send + 'static {
    let envelope = Envelope { uri: uri.clone(), message: request(outcome) };
    async move {
        match timeout(patience, post.exchange((), envelope)).await {
            Ok(answer) => answer.map(drop),
            Err(_) => Err(Failure::passing("no answer in time")),
        }
    }
}

/// Says how the address is found, if that has changed.
fn say_turn(turn: Option<Turn>, why: &str, uri: &Uri) {
    match turn {
        Some(Turn::Troubled) => {
            tracing::warn!(why, %uri, "outcomes of checkouts cannot be told; they are tried again");
        }
        Some(Turn::Well) => tracing::info!("outcomes of checkouts are told again"),
        None => {}
    }
}

/// Tells outcomes to one address.
pub(super) struct Webhook {
    uri: Uri,
    desk: ShopDesk,
    post: Arc<Post<()>>,
    options: CallbackOptions,
    pauses: Pauses,
    kept: Kept,
    /// There is a file of what the last stop left.
    has_file: bool,
    events: ShopEvents,
    schedule: Schedule<Job>,
    under_way: HashMap<Id, Job>,
    lost: Lost,
    meters: Meters,
}

impl Webhook {
    /// Takes up what the last clean stop left.
    ///
    /// # Errors
    /// If that cannot be read.
    pub(super) fn open(
        uri: Uri,
        desk: ShopDesk,
        post: Post<()>,
        options: CallbackOptions,
        data: &Path,
    ) -> io::Result<Webhook> {
        let kept = Kept::of(data);
        let left = kept.read()?;
        let mut schedule = Schedule::new();
        let now = Instant::now();
        let has_file = !left.is_empty();
        // From here on no end may be missed.
        let events = desk.listen();
        for outcome in left {
            schedule.put(now, Job { outcome, attempts: 0 });
        }
        Ok(Webhook {
            uri,
            desk,
            post: Arc::new(post),
            options,
            pauses: Pauses::new(&options, LANE),
            kept,
            has_file,
            events,
            schedule,
            under_way: HashMap::new(),
            lost: Lost::default(),
            meters: Meters::default(),
        })
    }

    /// Tells until `ending` says so, listens until the hub has ended, and keeps what is not told.
    pub(super) async fn run(mut self, mut ending: watch::Receiver<bool>) {
        let mut requests: JoinSet<Result<(), Failure>> = JoinSet::new();
        let mut tidy = tokio::time::interval(CONNECTION_IDLE_MAX);
        let mut is_ending = false;
        loop {
            while !is_ending && let Some(job) = self.schedule.begin(Instant::now()) {
                self.begin(job, &mut requests);
            }
            let next = self.schedule.next_begin().filter(|_| !is_ending);
            tokio::select! {
                _ = ending.wait_for(|ending| *ending), if !is_ending => is_ending = true,
                heard = self.events.next() => match heard {
                    Ok(None) => break,
                    Ok(Some(events)) => self.hear(&events),
                    // Too many came for the time that this had.
                    Err(Missed { ends }) => self.lose(ends),
                },
                Some(ended) = requests.join_next_with_id() => self.end(ended),
                () = at(next) => {}
                _ = tidy.tick() => {
                    self.post.close_idle();
                    self.lose(0);
                }
            }
            self.meters.waiting.set(self.schedule.len() as f64);
        }
        let rest = async {
            while let Some(ended) = requests.join_next_with_id().await {
                self.end(ended);
            }
        };
        // What is cut is kept below, and told after the next start.
        drop(timeout(END_WAIT_MAX, rest).await);
        say_lost(self.lost.rest());
        self.keep();
    }

    fn hear(&mut self, events: &[ShopEvent]) {
        let (now, wall) = (Instant::now(), self.desk.now());
        let mut too_many = 0;
        for event in events {
            let ShopEvent::Ended(end) = event else { continue };
            let Some(outcome) = outcome_of(end, wall) else { continue };
            if self.schedule.len() < OUTCOMES_MAX {
                self.schedule.put(now, Job { outcome, attempts: 0 });
            } else {
                too_many += 1;
            }
        }
        self.lose(too_many);
    }

    /// So many outcomes more have no place here. Each counts; they are said together, now and then.
    fn lose(&mut self, outcomes: u64) {
        self.meters.given_up.increment(outcomes);
        say_lost(self.lost.add(outcomes, Instant::now()));
    }

    fn begin(&mut self, job: Job, requests: &mut JoinSet<Result<(), Failure>>) {
        let telling = tell(Arc::clone(&self.post), &self.uri, &job.outcome, self.options.attempt_time_max);
        let request = requests.spawn(telling);
        self.under_way.insert(request.id(), job);
    }

    fn end(&mut self, ended: Result<(Id, Result<(), Failure>), tokio::task::JoinError>) {
        let (id, told) = match ended {
            Ok(ended) => ended,
            Err(error) => (error.id(), Err(Failure::ours(error.to_string()))),
        };
        let Some(mut job) = self.under_way.remove(&id) else { return };
        let now = Instant::now();
        let (well, why) = match Telling::of(told, job.attempts, self.options.attempts_max) {
            Telling::Told => {
                self.meters.told.increment(1);
                self.told();
                (Some(true), String::new())
            }
            Telling::Untried(why) => {
                self.schedule.put(after(now, SHORTAGE_PAUSE), job);
                (None, why)
            }
            Telling::Failed(attempts, why) => {
                self.meters.failed.increment(1);
                job.attempts = attempts;
                self.schedule.put(after(now, self.pauses.after(attempts)), job);
                (Some(false), why)
            }
            Telling::GivenUp(why) => {
                self.meters.failed.increment(1);
                self.meters.give_up(&job.outcome, &why);
                self.told();
                (Some(false), why)
            }
        };
        say_turn(self.schedule.ended(well), &why, &self.uri);
    }

    /// One less is to be told. What the last stop left waits here until it is told, so its file goes when nothing waits.
    fn told(&mut self) {
        if self.has_file && self.schedule.len() == 0 && self.under_way.is_empty() {
            self.has_file = false;
            if let Err(error) = self.kept.write(&[]) {
                tracing::warn!(%error, "outcomes that were told may be told again after the next start");
            }
        }
    }

    /// Keeps what is not told for the next start.
    fn keep(self) {
        let jobs = self.schedule.into_waiting().chain(self.under_way.into_values());
        let outcomes: Vec<Outcome> = jobs.map(|job| job.outcome).collect();
        let count = outcomes.len();
        match self.kept.write(&outcomes) {
            Ok(()) if count > 0 => tracing::info!(count, "outcomes are told after the next start"),
            Ok(()) => {}
            Err(error) => tracing::error!(%error, count, "outcomes that were not told cannot be kept"),
        }
    }
}

fn say_lost(outcomes: u64) {
    if outcomes > 0 {
        tracing::error!(
            outcomes,
            "outcomes of checkouts are told to nobody: more came than the webhook takes. Ask for these orders instead"
        );
    }
}

fn outcome_of(end: &CheckoutEnd, at: Millis) -> Option<Outcome> {
    let (state, why) = match end.answer {
        CheckoutAnswer::Paid { .. } => ("paid", None),
        CheckoutAnswer::Failed { why, .. } => ("not_paid", Some(why.name().to_owned())),
        CheckoutAnswer::AlreadyPaid { .. } | CheckoutAnswer::Open { .. } => return None,
    };
    let (order, tr) = (end.order.as_str().to_owned(), end.answer.tr().get());
    Some(Outcome { order, tr, state: state.to_owned(), why, at })
}

fn request(outcome: &Outcome) -> Outgoing {
    let Outcome { order, tr, state, why, at } = outcome;
    let mut body = Map::new();
    body.insert("order".to_owned(), json!(order));
    body.insert("tr".to_owned(), json!(tr));
    body.insert("state".to_owned(), json!(state));
    if let Some(why) = why {
        body.insert("why".to_owned(), json!(why));
    }
    body.insert("at".to_owned(), json!(times::format(*at)));
    step::post(&body.into())
}

#[cfg(test)]
mod tests {
    use holdfast_domain::shop::{TrNum, Why};

    use super::*;

    #[test]
    fn an_outcome_is_told_as_ever() {
        let told = |answer| {
            let end = CheckoutEnd { order: "o".parse().unwrap(), answer };
            outcome_of(&end, 1_700_000_000_123)
                .map(|outcome| String::from_utf8(request(&outcome).body.to_vec()).unwrap())
        };
        let (tr, at) = (TrNum::FIRST, r#""at":"2023-11-14T22:13:20.123Z""#);
        let paid = told(CheckoutAnswer::Paid { tr }).unwrap();
        assert_eq!(paid, format!(r#"{{"order":"o","tr":1,"state":"paid",{at}}}"#));
        let failed = told(CheckoutAnswer::Failed { tr, why: Why::Deadline }).unwrap();
        assert_eq!(failed, format!(r#"{{"order":"o","tr":1,"state":"not_paid","why":"deadline",{at}}}"#));
        assert_eq!(told(CheckoutAnswer::AlreadyPaid { tr }), None, "nothing ended");
    }
}
