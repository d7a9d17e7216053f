//! The courier: asks the sides that are outside, over HTTP, until they have answered.
//!
//! An event says that there is something to ask; what it is is read from the state when its turn comes. So a start, an
//! event that was missed and an operator's retry all go the same way, and an order that is over is not asked about. A
//! side is asked about one order by one request at a time: it is never asked to give back while it is still being asked to take,
//! unless that request has run out of time. Each side has a courier of its own, and does not wait for the other.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `shop`, `shared` | what it needs of a shop: the hub's own, or that of a cluster |
//! | `round` | which orders a side is asked about |
//! | `schedule` | what is sent when |
//! | `step` | what is asked, and how an answer is read |
//! | `under_way` | the attempts that are being made |
//! | `overdue` | what the side has owed for too long |

mod overdue;
mod round;
pub(crate) mod schedule;
pub(crate) mod shared;
pub(crate) mod shop;
pub(crate) mod step;
mod under_way;

use std::sync::Arc;
use std::time::Duration;

use holdfast_domain::shop::{OrderId, Side};
use holdfast_hub::ShopError;
use hyper::http::Uri;
use metrics::{Counter, Gauge, counter, gauge};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::callbacks::options::{CONNECTION_IDLE_MAX, CallbackOptions, END_WAIT_MAX, HUB_BUSY_PAUSE};
use crate::callbacks::{Blame, Envelope, Failure, Pauses, Post};
use overdue::Overdue;
use round::Round;
use schedule::{Turn, at};
use shop::{Listens, Owed, Shop, Standing, Taken};
use under_way::UnderWay;

/// Orders that a side is asked about at a time, those that rest between two attempts included. More wait in the store.
pub(super) const ORDERS_MAX: usize = 65_536;

/// How much is shown of why a side gave no answer, beside what a checkout waits for.
const WHY_CHARS_MAX: usize = 160;

/// What became of asking about one order.
#[derive(Debug)]
enum Asked {
    /// There is nothing to ask any more; `sent`: the side was asked and has answered.
    Over { sent: bool },
    /// The side has answered and now has something else to do.
    More,
    /// It has taken the request and will answer later.
    Later,
    /// It was not asked, or gave no answer.
    Failed(Failure),
}

/// What one attempt needs.
struct Way<D> {
    side: Side,
    uri: Uri,
    desk: D,
    post: Post<Side>,
    attempt_time_max: Duration,
}

impl<D: Shop> Way<D> {
    async fn ask(&self, order: &OrderId) -> Asked {
        self.try_ask(order).await.unwrap_or_else(Asked::Failed)
    }

    async fn try_ask(&self, order: &OrderId) -> Result<Asked, Failure> {
        let over = Ok(Asked::Over { sent: false });
        if !self.desk.is_ours(order) {
            return over;
        }
        let Some(Standing { view, time_left }) = self.desk.order(order).await.map_err(ours)? else {
            return over;
        };
        let Some(message) = step::asked(&view, self.side) else { return over };
        let time_left = time_left.filter(|_| !step::gives_back(&message));
        let Some(time_max) = time_for(self.attempt_time_max, time_left) else { return Ok(Asked::Later) };
        let envelope = Envelope { uri: self.uri.clone(), message: step::request(&message) };
        let answer = timeout(time_max, self.post.exchange(self.side, envelope)).await;
        let answer = answer.map_err(|_| Failure::passing("no answer in time"))??;
        let answer =
            answer.ok_or_else(|| Failure::passing("its answer is too long, too slow, or breaks off"))?;
        let Some(said) = step::heard(&message, &answer).map_err(Failure::passing)? else {
            return Ok(Asked::Later);
        };
        let undoing = step::gives_back(&message);
        match self.desk.answer(&view, message.key.tr_num, said, undoing).await {
            Ok(Taken::More) => Ok(Asked::More),
            Ok(Taken::Same) => Ok(Asked::Later),
            Ok(Taken::Over) => Ok(Asked::Over { sent: true }),
            Err(ShopError::Refused(refusal)) => {
                tracing::warn!(%refusal, %order, side = self.side.name(), "an answer from outside was refused");
                Ok(Asked::Over { sent: true })
            }
            Err(error) => Err(ours(error)),
        }
    }
}

/// How long an attempt may take, of which so much is left until the deadline. Whoever hangs is not waited for past that: the way
/// back is asked for then, and needs this turn. `None`: it has passed and its record is on its way, so there is nothing to take any
/// more.
fn time_for(attempt_time_max: Duration, time_left: Option<Duration>) -> Option<Duration> {
    let time = time_left.map_or(attempt_time_max, |left| left.min(attempt_time_max));
    (!time.is_zero()).then_some(time)
}

fn ours(error: ShopError) -> Failure {
    Failure::ours(error.to_string())
}

struct Meters {
    answered: Counter,
    later: Counter,
    failed: Counter,
    orders: Gauge,
    /// Tries for which the side owes something for too long.
    overdue: Gauge,
    alarms: Counter,
}

impl Meters {
    fn of(side: Side) -> Meters {
        let asks =
            |result| counter!("holdfast_checkout_asks_total", "side" => side.name(), "result" => result);
        Meters {
            answered: asks("answered"),
            later: asks("later"),
            failed: asks("failed"),
            orders: gauge!("holdfast_checkout_asks_waiting", "side" => side.name()),
            overdue: gauge!("holdfast_checkout_give_backs_overdue", "side" => side.name()),
            alarms: counter!("holdfast_checkout_alarms_total"),
        }
    }
}

/// The courier of one side.
pub(super) struct Courier<D> {
    way: Arc<Way<D>>,
    round: Round,
    overdue: Overdue,
    pauses: Pauses,
    meters: Meters,
}

impl<D: Shop> Courier<D> {
    pub(super) fn new(
        side: Side,
        uri: Uri,
        desk: D,
        post: Post<Side>,
        options: &CallbackOptions,
    ) -> Courier<D> {
        let attempt_time_max = options.attempt_time_max;
        let way = Arc::new(Way { side, uri, desk, post, attempt_time_max });
        let pauses = Pauses::new(options, side as u32);
        Courier { way, round: Round::new(), overdue: Overdue::default(), pauses, meters: Meters::of(side) }
    }

    /// Asks until the hub has ended or `ending` says so; then gives what is under way a while to end.
    pub(super) async fn run(mut self, mut ending: watch::Receiver<bool>) {
        // Before it is read what is open: what opens in between must not be missed.
        let mut events = self.way.desk.listen();
        let mut under_way = UnderWay::default();
        let mut looking: JoinSet<Page<D>> = JoinSet::new();
        looking.spawn(look(self.way.desk.clone(), None));
        let mut owing: JoinSet<Vec<Owed>> = JoinSet::new();
        let mut look_for_owed = tokio::time::interval(overdue::LOOK_EVERY);
        let mut tidy = tokio::time::interval(CONNECTION_IDLE_MAX);
        loop {
            while let Some(order) = self.round.begin(Instant::now()) {
                let way = Arc::clone(&self.way);
                under_way.begin(order.clone(), async move { way.ask(&order).await });
            }
            if self.round.wants_to_look() {
                looking.spawn(look(self.way.desk.clone(), None));
            }
            self.meters.orders.set(self.round.len() as f64);
            tokio::select! {
                _ = ending.wait_for(|ending| *ending) => break,
                heard = events.next() => match heard {
                    None => break,
                    Some(news) => {
                        self.hear(&news);
                        if news.look {
                            looking.abort_all();
                            looking.spawn(look(self.way.desk.clone(), None));
                        }
                    }
                },
                Some((order, asked)) = under_way.next() => self.end(&order, asked),
                _ = look_for_owed.tick() => if owing.is_empty() {
                    owing.spawn(overdue::look(self.way.desk.clone()));
                },
                Some(Ok(owed)) = owing.join_next() => self.count_overdue(&owed),
                Some(looked) = looking.join_next() => match looked {
                    Ok((waiting, next)) => if self.take_in(&waiting) && let Some(next) = next {
                        looking.spawn(look(self.way.desk.clone(), Some(next)));
                    },
                    Err(error) if error.is_panic() => {
                        tracing::error!(side = self.way.side.name(), "a look for open checkouts panicked; it begins anew");
                        let desk = self.way.desk.clone();
                        looking.spawn(async {
                            sleep(overdue::LOOK_EVERY).await;
                            look(desk, None).await
                        });
                    }
                    // Another look has taken its place.
                    Err(_) => {}
                },
                () = at(self.round.next_begin()) => {}
                _ = tidy.tick() => self.way.post.close_idle(),
            }
        }
        // What is cut is asked again after the next start.
        drop(timeout(END_WAIT_MAX, async { while under_way.next().await.is_some() {} }).await);
    }

    fn hear(&mut self, news: &shop::News) {
        let now = Instant::now();
        if news.lost {
            self.round.leave(|order| !self.way.desk.is_ours(order));
        }
        for order in &news.orders {
            self.round.ask(order, now);
        }
    }

    /// Takes in a page of orders that wait. Whether there was room for all of them.
    fn take_in(&mut self, waiting: &[OrderId]) -> bool {
        let now = Instant::now();
        waiting.iter().all(|order| self.round.find(order, now))
    }

    /// Counts what is owed for too long, and raises an alarm for each that is new.
    fn count_overdue(&mut self, all: &[Owed]) {
        let (side, uri) = (self.way.side.name(), &self.way.uri);
        for Owed { order, tr, seconds } in self.overdue.take_in(all) {
            self.meters.alarms.increment(1);
            tracing::warn!(
                %order, %tr, side, seconds, %uri,
                "an outside side has not given back for long; it is asked until it has, see /hub/checkouts?state=cancelling"
            );
        }
        self.meters.overdue.set(self.overdue.len() as f64);
    }

    /// Notes how the side was found, and says so when it was well before.
    fn note(&self, why: Option<&str>) {
        let why = why.map(|why| shortened(why, WHY_CHARS_MAX));
        if self.way.desk.note_trouble(why.as_deref()) {
            tracing::warn!(
                side = self.way.side.name(), why, uri = %self.way.uri,
                "an outside side gives no answer; it is asked until it does, see /hub/checkouts"
            );
        }
    }

    fn end(&mut self, order: &OrderId, asked: Asked) {
        match &asked {
            Asked::Over { sent: false } | Asked::Failed(Failure { blame: Blame::Ours, .. }) => {}
            Asked::Over { sent: true } | Asked::More | Asked::Later => self.note(None),
            Asked::Failed(Failure { why, .. }) => self.note(Some(why)),
        }
        let (now, pauses, side) = (Instant::now(), &mut self.pauses, self.way.side.name());
        let (turn, why) = match asked {
            Asked::Over { sent } => {
                self.meters.answered.increment(u64::from(sent));
                (self.round.over(order, sent.then_some(true), now), String::new())
            }
            Asked::More => {
                self.meters.answered.increment(1);
                self.round.ask(order, now);
                (self.round.rest(order, Some(true), now, |_| Duration::ZERO), String::new())
            }
            Asked::Later => {
                self.meters.later.increment(1);
                (self.round.rest(order, Some(true), now, |attempts| pauses.after(attempts)), String::new())
            }
            Asked::Failed(Failure { why, blame: Blame::Ours }) => {
                tracing::debug!(%order, side, why, "an outside side could not be asked");
                (self.round.rest(order, None, now, |_| HUB_BUSY_PAUSE), why)
            }
            Asked::Failed(Failure { why, .. }) => {
                tracing::debug!(%order, side, why, "an outside side gave no answer");
                self.meters.failed.increment(1);
                (self.round.rest(order, Some(false), now, |attempts| pauses.after(attempts)), why)
            }
        };
        match turn {
            Some(Turn::Troubled) => tracing::warn!(
                side, why, uri = %self.way.uri,
                "the outside side fails again and again; it is asked until it answers, see /hub/checkouts"
            ),
            Some(Turn::Well) => tracing::info!(side, "the outside side answers again"),
            None => {}
        }
    }
}

/// What somebody else wrote, cut so that it cannot push out what stands beside it.
fn shortened(text: &str, chars_max: usize) -> String {
    let mut cut: String = text.chars().take(chars_max).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

/// Orders that wait for the side, and where the next of them begin.
type Page<D> = (Vec<OrderId>, Option<<D as Shop>::Place>);

/// A page of what is open, however long the hub cannot say.
async fn look<D: Shop>(desk: D, after: Option<D::Place>) -> Page<D> {
    overdue::until_told("what waits for an outside side", || desk.waiting(after.clone())).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_asked_to_take_past_the_deadline() {
        let (short, long) = (Duration::from_millis(1), Duration::from_secs(20));
        assert_eq!(time_for(long, None), Some(long), "no deadline ends a give-back");
        assert_eq!(time_for(long, Some(short)), Some(short));
        assert_eq!(time_for(short, Some(long)), Some(short));
        assert_eq!(time_for(long, Some(Duration::ZERO)), None);
    }
}
