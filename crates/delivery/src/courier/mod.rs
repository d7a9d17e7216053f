//! The courier: asks the sides that are outside, over HTTP, until they have answered.
//!
//! An event says that there is something to ask; what it is is read from the state when its turn comes. So a start, an
//! event that was missed and an operator's retry all go the same way, and an order that is over is not asked about. A
//! side is asked about one order by one request at a time: it is never asked to give back while it is still being asked to take,
//! unless that request has run out of time. Each side has a courier of its own, and does not wait for the other.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `shop`, `shared` | what it needs of a shop: the hub's own, or that of the database profile |
//! | `step` | what is asked, and how an answer is read |
//! | `overdue` | what the side has owed for too long |

mod overdue;
pub(crate) mod shared;
pub(crate) mod shop;
pub(crate) mod step;

use std::sync::Arc;
use std::time::Duration;

use holdfast_database::shop::{News, OwedByCall};
use holdfast_domain::shop::{OrderId, Side};
use holdfast_engine::ShopError;
use hyper::http::Uri;
use metrics::{Counter, Gauge, counter, gauge};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::lanes::{After, Bounds, Census, Health, Job, Lanes, Source, Tries, Verdict};
use crate::options::{CONNECTION_IDLE_MAX, CallbackOptions, HUB_BUSY_PAUSE, LANE_IN_FLIGHT_MAX};
use crate::post::Post;
use crate::request::{Envelope, Failure};
use overdue::Overdue;
use shop::{Listens, Shop, Standing, Taken};

/// Orders that a side is asked about at a time, those that rest between two attempts included. More wait in the store.
pub(super) const ORDERS_MAX: usize = 65_536;

/// How much is shown of why a side gave no answer, beside what a checkout waits for.
const WHY_CHARS_MAX: usize = 160;

/// An order that a side is asked about. What it is asked is read when its turn comes, so an order stands in the lane once, whatever
/// has become of it meanwhile.
#[derive(Debug, Clone)]
struct Asking(OrderId);

impl Job for Asking {
    type Key = OrderId;

    fn key(&self) -> OrderId {
        self.0.clone()
    }
}

/// How the side has answered about one order.
#[derive(Debug, Clone, Copy)]
enum Reply {
    /// There is nothing to ask any more.
    Over,
    /// It has something else to do now.
    More,
    /// It has taken the request and will answer later.
    Later,
}

/// One side, with what asking it needs.
struct OutsideSide<D> {
    side: Side,
    uri: Uri,
    shop: D,
    post: Post<Side>,
    attempt_time_max: Duration,
    meters: Meters,
}

impl<D: Shop> Source for OutsideSide<D> {
    type Receiver = Side;
    type Job = Asking;
    type Answer = Reply;

    /// However many orders get no answer, there is room for those that are new.
    const REPEATS_IN_FLIGHT_MAX: usize = LANE_IN_FLIGHT_MAX / 2;
    const NEWEST_ONLY: bool = true;

    fn lane_number(side: Side) -> u32 {
        side as u32
    }

    async fn attempt(&self, _: Side, Asking(order): &Asking) -> Result<Option<Reply>, Failure> {
        if !self.shop.is_ours(order) {
            return Ok(None);
        }
        let Some(Standing { view, time_left }) = self.shop.order(order).await.map_err(ours)? else {
            return Ok(None);
        };
        let Some(message) = step::asked(&view, self.side) else { return Ok(None) };
        let time_left = time_left.filter(|_| !step::gives_back(&message));
        let Some(time_max) = time_for(self.attempt_time_max, time_left) else {
            return Ok(Some(Reply::Later));
        };
        let envelope = Envelope { uri: self.uri.clone(), message: step::request(&message) };
        let answer = timeout(time_max, self.post.exchange(self.side, envelope)).await;
        let answer = answer.map_err(|_| Failure::passing("no answer in time"))??;
        let answer =
            answer.ok_or_else(|| Failure::passing("its answer is too long, too slow, or breaks off"))?;
        let Some(said) = step::heard(&message, &answer).map_err(Failure::passing)? else {
            return Ok(Some(Reply::Later));
        };
        let undoing = step::gives_back(&message);
        match self.shop.answer(&view, message.key.tr_num, said, undoing).await {
            Ok(Taken::More) => Ok(Some(Reply::More)),
            Ok(Taken::Same) => Ok(Some(Reply::Later)),
            Ok(Taken::Over) => Ok(Some(Reply::Over)),
            Err(ShopError::Refused(refusal)) => {
                tracing::warn!(%refusal, %order, side = self.side.name(), "an answer from outside was refused");
                Ok(Some(Reply::Over))
            }
            Err(error) => Err(ours(error)),
        }
    }

    fn settle(&self, side: Side, Asking(order): &Asking, tries: Tries, verdict: Verdict<Reply>) -> After {
        let side = side.name();
        match verdict {
            Verdict::Moot => After::Leaves,
            Verdict::Answered(reply) => {
                self.note(None);
                let (meter, after) = match reply {
                    Reply::Over => (&self.meters.answered, After::Leaves),
                    Reply::More => (&self.meters.answered, After::Anew),
                    Reply::Later => (&self.meters.later, After::RestsFor(tries.pause)),
                };
                meter.increment(1);
                after
            }
            Verdict::Untried(Failure { why, .. }) => {
                tracing::debug!(%order, side, why, "an outside side could not be asked");
                After::RestsFor(HUB_BUSY_PAUSE)
            }
            // However often it was in vain: an outside side is asked until it answers.
            Verdict::Failed(Failure { why, .. }) | Verdict::GivenUp(Failure { why, .. }) => {
                self.note(Some(&why));
                tracing::debug!(%order, side, why, "an outside side gave no answer");
                self.meters.failed.increment(1);
                After::RestsFor(tries.pause)
            }
        }
    }

    fn settled(&self, _: Side, census: Census) {
        self.show(census);
    }

    fn found(&self, side: Side, health: Health, why: &str) {
        let side = side.name();
        match health {
            Health::Troubled => tracing::warn!(
                side, why, uri = %self.uri,
                "the outside side fails again and again; it is asked until it answers, see /hub/checkouts"
            ),
            Health::Well => tracing::info!(side, "the outside side answers again"),
        }
    }
}

impl<D: Shop> OutsideSide<D> {
    /// Notes how the side was found, and says so when it was well before.
    fn note(&self, why: Option<&str>) {
        let why = why.map(|why| shortened(why, WHY_CHARS_MAX));
        if self.shop.note_trouble(why.as_deref()) {
            tracing::warn!(
                side = self.side.name(), why, uri = %self.uri,
                "an outside side gives no answer; it is asked until it does, see /hub/checkouts"
            );
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "a gauge is for the eye")]
    fn show(&self, Census { waiting, resting, in_flight }: Census) {
        self.meters.orders.set((waiting + resting + in_flight) as f64);
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
pub(super) struct Courier<D: Shop> {
    lanes: Arc<Lanes<OutsideSide<D>>>,
    overdue: Overdue,
}

impl<D: Shop> Courier<D> {
    /// Must be called inside a tokio runtime.
    pub(super) fn new(
        side: Side,
        uri: Uri,
        shop: D,
        post: Post<Side>,
        options: &CallbackOptions,
    ) -> Courier<D> {
        let (attempt_time_max, meters) = (options.attempt_time_max, Meters::of(side));
        let asked = OutsideSide { side, uri, shop, post, attempt_time_max, meters };
        let lanes = Lanes::new(asked, *options, Bounds::of_one_lane(ORDERS_MAX));
        Courier { lanes, overdue: Overdue::default() }
    }

    /// Asks until the hub has ended or `ending` says so; then gives what is under way a while to end.
    pub(super) async fn run(mut self, mut ending: watch::Receiver<bool>) {
        let (shop, side) = (self.lanes.source.shop.clone(), self.lanes.source.side);
        // Before it is read what is open: what opens in between must not be missed.
        let mut events = shop.listen();
        let mut looking: JoinSet<Page<D>> = JoinSet::new();
        looking.spawn(look(shop.clone(), None));
        let mut owing: JoinSet<Vec<OwedByCall>> = JoinSet::new();
        let mut look_for_owed = tokio::time::interval(overdue::LOOK_EVERY);
        let mut tidy = tokio::time::interval(CONNECTION_IDLE_MAX);
        loop {
            tokio::select! {
                _ = ending.wait_for(|ending| *ending) => break,
                heard = events.next() => match heard {
                    None => break,
                    Some(news) => {
                        self.hear(&news);
                        if news.look {
                            looking.abort_all();
                            looking.spawn(look(shop.clone(), None));
                        }
                    }
                },
                () = self.lanes.bell.notified() => if self.lanes.is_wanting(side) {
                    self.lanes.set_behind(side, false);
                    looking.spawn(look(shop.clone(), None));
                },
                _ = look_for_owed.tick() => if owing.is_empty() {
                    owing.spawn(overdue::look(shop.clone()));
                },
                Some(Ok(owed)) = owing.join_next() => self.count_overdue(&owed),
                Some(looked) = looking.join_next() => match looked {
                    Ok((waiting, next)) => if self.take_in(waiting) && let Some(next) = next {
                        looking.spawn(look(shop.clone(), Some(next)));
                    },
                    Err(error) if error.is_panic() => {
                        tracing::error!(side = side.name(), "a look for open checkouts panicked; it begins anew");
                        let shop = shop.clone();
                        looking.spawn(async {
                            sleep(overdue::LOOK_EVERY).await;
                            look(shop, None).await
                        });
                    }
                    // Another look has taken its place.
                    Err(_) => {}
                },
                _ = tidy.tick() => self.lanes.source.post.close_idle(),
            }
        }
        // What is cut is asked again after the next start.
        self.lanes.end().await;
        self.lanes.take_out(side);
    }

    fn hear(&self, news: &News) {
        let OutsideSide { side, shop, .. } = &self.lanes.source;
        if news.lost {
            self.lanes.leave(*side, |order| !shop.is_ours(order));
        }
        for order in &news.orders {
            self.lanes.hasten(*side, Asking(order.clone()));
        }
        self.lanes.source.show(self.lanes.census());
    }

    /// Takes in a page of orders that wait. Whether there was room for all of them.
    fn take_in(&self, waiting: Vec<OrderId>) -> bool {
        let side = self.lanes.source.side;
        let has_room = waiting.into_iter().all(|order| self.lanes.find(side, Asking(order)));
        self.lanes.source.show(self.lanes.census());
        has_room
    }

    /// Counts what is owed for too long, and raises an alarm for each that is new.
    fn count_overdue(&mut self, all: &[OwedByCall]) {
        let OutsideSide { side, uri, meters, .. } = &self.lanes.source;
        for OwedByCall { order, tr, age_ms } in self.overdue.take_in(all) {
            meters.alarms.increment(1);
            tracing::warn!(
                %order, %tr, side = side.name(), seconds = age_ms / 1_000, %uri,
                "an outside side has not given back for long; it is asked until it has, see /hub/checkouts?state=cancelling"
            );
        }
        meters.overdue.set(self.overdue.len() as f64);
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
type Page<D> = (Vec<OrderId>, Option<<D as Shop>::PageStart>);

/// A page of what is open, however long the hub cannot say.
async fn look<D: Shop>(shop: D, after: Option<D::PageStart>) -> Page<D> {
    overdue::until_told("what waits for an outside side", || shop.waiting(after.clone())).await
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
