//! The webhook: whoever wants to know is told how each checkout ended.
//!
//! In the embedded profile ends are heard from durable frames and wait in memory. What a clean stop leaves undelivered is kept in a
//! file and told after the next start; what a crash leaves is not. In the database profile ends are rows, and a crash loses none. An
//! outcome that is not taken after so many attempts is given up: the truth is the order, which anybody can ask for.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `embedded`, `database` | the source of each profile |
//! | `kept` | the file of what a clean stop leaves |
//! | `lost` | outcomes that had no place, said together |

mod database;
mod embedded;
mod kept;
mod lost;

pub(super) use database::StoredEnds;
pub(super) use embedded::HeardEnds;

use std::sync::Arc;
use std::time::Duration;

use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{CheckoutAnswer, CheckoutEnd};
use hyper::http::Uri;
use metrics::{Counter, Gauge, counter, gauge};
use serde_json::{Map, json};
use tokio::time::timeout;

use crate::courier::step;
use crate::lanes::{After, Bounds, Census, Health, Job, Lanes, Source, Tries, Verdict};
use crate::options::CallbackOptions;
use crate::post::Post;
use crate::request::{Envelope, Failure, Outgoing};
use holdfast_wire::times;
use kept::Outcome;

/// Sets this webhook's pauses apart from those of the couriers.
const LANE: u32 = 3;

/// An outcome that is to be told, by a number of its own.
#[derive(Debug, Clone)]
struct Telling {
    number: u64,
    outcome: Arc<Outcome>,
}

impl Telling {
    fn new(number: u64, outcome: Outcome) -> Telling {
        Telling { number, outcome: Arc::new(outcome) }
    }
}

impl Job for Telling {
    type Key = u64;

    fn key(&self) -> u64 {
        self.number
    }
}

/// Where outcomes come from and what becomes of them is written down.
trait Book: Send + Sync + 'static {
    /// Writes down what became of an attempt, and says what becomes of the outcome.
    fn settle(&self, number: u64, tries: Tries, verdict: &Verdict<()>) -> After;

    /// After an attempt things stand so.
    fn settled(&self, meters: &Meters, census: Census);
}

/// The one address that is told.
pub(super) struct Address {
    pub(super) uri: Uri,
    pub(super) post: Post<()>,
}

/// The source of either profile: outcomes out of a book.
struct Outcomes<B> {
    book: B,
    address: Address,
    attempt_time_max: Duration,
    meters: Meters,
}

impl<B: Book> Outcomes<B> {
    fn lanes(book: B, address: Address, options: CallbackOptions, bounds: Bounds) -> Arc<Lanes<Outcomes<B>>> {
        let (attempt_time_max, meters) = (options.attempt_time_max, Meters::default());
        Lanes::new(Outcomes { book, address, attempt_time_max, meters }, options, bounds)
    }
}

impl<B: Book> Source for Outcomes<B> {
    type Receiver = ();
    type Job = Telling;
    type Answer = ();

    fn lane_number((): ()) -> u32 {
        LANE
    }

    async fn attempt(&self, (): (), telling: &Telling) -> Result<Option<()>, Failure> {
        let Address { uri, post } = &self.address;
        let envelope = Envelope { uri: uri.clone(), message: request(&telling.outcome) };
        match timeout(self.attempt_time_max, post.send((), envelope)).await {
            Ok(told) => told.map(Some),
            Err(_) => Err(Failure::passing("no answer in time")),
        }
    }

    fn settle(&self, (): (), telling: &Telling, tries: Tries, verdict: Verdict<()>) -> After {
        self.meters.count(&telling.outcome, &verdict);
        self.book.settle(telling.number, tries, &verdict)
    }

    fn settled(&self, (): (), census: Census) {
        self.book.settled(&self.meters, census);
    }

    fn found(&self, (): (), health: Health, why: &str) {
        match health {
            Health::Troubled => {
                tracing::warn!(why, uri = %self.address.uri, "outcomes of checkouts cannot be told; they are tried again");
            }
            Health::Well => tracing::info!("outcomes of checkouts are told again"),
        }
    }
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
    /// Counts what became of an attempt to tell.
    fn count(&self, outcome: &Outcome, verdict: &Verdict<()>) {
        match verdict {
            Verdict::Answered(()) => self.told.increment(1),
            Verdict::Failed(_) => self.failed.increment(1),
            Verdict::GivenUp(Failure { why, .. }) => {
                let Outcome { order, tr, state, .. } = outcome;
                tracing::warn!(order, tr, state, why, "the outcome of a checkout is given up");
                self.failed.increment(1);
                self.given_up.increment(1);
            }
            Verdict::Untried(_) | Verdict::Moot => {}
        }
    }

    /// Shows how many are to be told, those under way not included.
    fn show(&self, census: Census) {
        self.waiting.set((census.waiting + census.resting) as f64);
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
