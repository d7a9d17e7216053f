//! Durable frames followed: callers that wait are woken, listeners are told, meters move.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_domain::effects::Outcome;
use holdfast_domain::shop::{
    Alarm, CheckoutAnswer, CheckoutEnd, Message, OrderId, OrderState, ShopEffect, ShopMessage, ShopOutcome,
    Side, Tally, Topic, TrNum,
};
use metrics::{Counter, counter};
use tokio::sync::{broadcast, watch};

use super::limits::FRAMES_BEHIND_MAX;

/// What happened in the shop, once it is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShopEvent {
    /// An outside side is asked to take or to give back. The same may be asked again: the message's key and type tell.
    Asked {
        /// Whom.
        side: Side,
        /// What.
        message: Message,
    },
    /// A checkout was decided and, if it failed, given back.
    Ended(CheckoutEnd),
}

/// The events of one frame.
#[derive(Debug, Clone)]
struct Heard {
    events: Arc<[ShopEvent]>,
    /// Ends of checkouts that were told before it.
    ends_before: u64,
}

/// Who tells listeners.
struct Teller {
    frames: broadcast::Sender<Heard>,
    /// Ends of checkouts that were told.
    ends: u64,
}

/// What a listener hears.
pub struct ShopEvents {
    frames: broadcast::Receiver<Heard>,
    /// Ends of checkouts that were told before what comes next.
    ends: u64,
    /// What comes after those that were missed.
    after_missed: Option<Heard>,
}

/// The listener was too slow and has missed some events: what is open tells what is still asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missed {
    /// How many ends of checkouts were among them.
    pub ends: u64,
}

impl ShopEvents {
    /// The events of the next frame that has some; `None`: the hub has ended.
    ///
    /// # Errors
    /// If some were missed. The next call goes on with what is there.
    pub async fn next(&mut self) -> Result<Option<Arc<[ShopEvent]>>, Missed> {
        if let Some(heard) = self.after_missed.take() {
            return Ok(Some(self.hear(heard)));
        }
        match self.frames.recv().await {
            Ok(heard) => Ok(Some(self.hear(heard))),
            Err(broadcast::error::RecvError::Closed) => Ok(None),
            Err(broadcast::error::RecvError::Lagged(_)) => Err(self.missed()),
        }
    }

    fn hear(&mut self, heard: Heard) -> Arc<[ShopEvent]> {
        self.ends = heard.ends_before.saturating_add(ends_of(&heard.events));
        heard.events
    }

    /// The next frame that is left tells how many ends came before it.
    fn missed(&mut self) -> Missed {
        loop {
            match self.frames.try_recv() {
                Ok(heard) => {
                    let ends = heard.ends_before.saturating_sub(self.ends);
                    self.ends = heard.ends_before;
                    self.after_missed = Some(heard);
                    return Missed { ends };
                }
                // More came meanwhile.
                Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                // There is always one after those that were pushed out by it.
                Err(_) => return Missed { ends: 0 },
            }
        }
    }
}

fn ends_of(events: &[ShopEvent]) -> u64 {
    events.iter().filter(|event| matches!(event, ShopEvent::Ended(_))).count() as u64
}

/// The shop's part of a frame.
#[derive(Debug, Default)]
pub(crate) struct ShopNews {
    pub(crate) effects: Vec<ShopEffect>,
    pub(crate) messages: Vec<ShopMessage>,
    pub(crate) alarms: Vec<Alarm>,
}

impl ShopNews {
    pub(crate) const fn is_empty(&self) -> bool {
        self.effects.is_empty() && self.messages.is_empty() && self.alarms.is_empty()
    }
}

/// The last end of a checkout of an order that somebody waits for.
type Ended = Option<CheckoutAnswer>;

/// Those who wait for one order.
struct Waited {
    ended: watch::Sender<Ended>,
    waiters: usize,
}

/// All who wait.
#[derive(Default)]
struct Waiters {
    orders: HashMap<OrderId, Waited>,
    /// The hub is ending, and nobody is to wait any more.
    is_over: bool,
}

/// Follows durable frames.
pub(crate) struct ShopFeed {
    waiting: Mutex<Waiters>,
    /// `None`: the hub is ending.
    events: Mutex<Option<Teller>>,
    meters: Meters,
}

/// Counters of what durable frames did.
struct Meters {
    paid: Counter,
    failed: Counter,
    compensations: Counter,
    alarms: Counter,
    contradictions: Counter,
    repeats: Counter,
}

impl Default for ShopFeed {
    fn default() -> ShopFeed {
        let meters = Meters {
            paid: counter!("holdfast_checkout_decisions_total", "verdict" => "paid"),
            failed: counter!("holdfast_checkout_decisions_total", "verdict" => "failed"),
            compensations: counter!("holdfast_checkout_compensations_total"),
            alarms: counter!("holdfast_checkout_alarms_total"),
            contradictions: counter!("holdfast_checkout_contradictions_total"),
            repeats: counter!("holdfast_checkout_repeats_total"),
        };
        let (frames, _) = broadcast::channel(FRAMES_BEHIND_MAX);
        let teller = Teller { frames, ends: 0 };
        ShopFeed { waiting: Mutex::default(), events: Mutex::new(Some(teller)), meters }
    }
}

impl ShopFeed {
    fn waiting(&self) -> MutexGuard<'_, Waiters> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn listen(&self) -> ShopEvents {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let (frames, ends) = events
            .as_ref()
            .map_or_else(|| (broadcast::channel(1).1, 0), |teller| (teller.frames.subscribe(), teller.ends));
        ShopEvents { frames, ends, after_missed: None }
    }

    /// Ends of this order's open checkouts from now on, until the waiter is dropped.
    pub(super) fn wait_for(self: &Arc<ShopFeed>, order: &OrderId) -> Waiter {
        let mut waiting = self.waiting();
        if waiting.is_over {
            // Nobody holds the other end: the wait is over at once.
            let (_, ended) = watch::channel(None);
            return Waiter { feed: Arc::clone(self), order: order.clone(), ended, is_counted: false };
        }
        let ended = match waiting.orders.entry(order.clone()) {
            Entry::Occupied(mut there) => {
                there.get_mut().waiters += 1;
                there.get().ended.subscribe()
            }
            Entry::Vacant(free) => {
                let (sender, receiver) = watch::channel(None);
                free.insert(Waited { ended: sender, waiters: 1 });
                receiver
            }
        };
        Waiter { feed: Arc::clone(self), order: order.clone(), ended, is_counted: true }
    }

    /// Takes in what a durable frame did.
    pub(crate) fn follow(&self, news: &ShopNews) {
        self.count(news);
        let closed = news.effects.iter().filter_map(|effect| match effect {
            ShopEffect::Closed(end) => Some(end),
            _ => None,
        });
        for end in closed {
            if let Some(waited) = self.waiting().orders.get(&end.order) {
                waited.ended.send_replace(Some(end.answer));
            }
        }
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(teller) = events.as_mut().filter(|teller| teller.frames.receiver_count() > 0) {
            let all: Vec<ShopEvent> = asked(news).chain(ended(news)).collect();
            if !all.is_empty() {
                let ends_before = teller.ends;
                teller.ends = ends_before.saturating_add(ends_of(&all));
                // Whoever listened may have gone meanwhile.
                drop(teller.frames.send(Heard { events: all.into(), ends_before }));
            }
        }
    }

    /// Counts answers to what was asked or said before: a checkout of a paid order, an answer that changed nothing.
    pub(crate) fn count_repeats(&self, outcomes: &[Outcome]) {
        let is_repeat = |outcome: &&Outcome| {
            matches!(
                outcome.shop.as_deref(),
                Some(
                    ShopOutcome::Checkout(CheckoutAnswer::AlreadyPaid { .. })
                        | ShopOutcome::Heard { counts: false, .. }
                )
            )
        };
        match outcomes.iter().filter(is_repeat).count() {
            0 => {}
            repeats => self.meters.repeats.increment(repeats as u64),
        }
    }

    fn count(&self, news: &ShopNews) {
        let mut tally = Tally::default();
        news.messages.iter().for_each(|sent| tally.add(&sent.message.body));
        self.meters.paid.increment(tally.paid);
        self.meters.failed.increment(tally.failed);
        self.meters.compensations.increment(tally.compensations);
        for alarm in &news.alarms {
            tracing::warn!(%alarm, name = alarm.name(), "a checkout needs somebody to look at it");
            self.meters.alarms.increment(1);
            self.meters.contradictions.increment(u64::from(matches!(alarm, Alarm::Contradiction { .. })));
        }
    }

    /// Nobody waits any more, now or later: who does is told by its waiter's end.
    pub(crate) fn end_waiting(&self) {
        let mut waiting = self.waiting();
        waiting.is_over = true;
        waiting.orders.clear();
    }

    /// Nothing will come any more.
    pub(crate) fn end(&self) {
        self.end_waiting();
        self.events.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

fn asked(news: &ShopNews) -> impl Iterator<Item = ShopEvent> {
    news.messages.iter().filter(|message| message.outside).filter_map(|ShopMessage { message, .. }| {
        let side = match message.body.topic() {
            Topic::Pay => Side::Pay,
            Topic::Stock => Side::Stock,
            Topic::Outcomes => return None,
        };
        Some(ShopEvent::Asked { side, message: message.clone() })
    })
}

fn ended(news: &ShopNews) -> impl Iterator<Item = ShopEvent> {
    news.effects.iter().filter_map(|effect| {
        let ShopEffect::Moved { order, state, failed } = effect else { return None };
        let answer = match (*state, *failed) {
            (OrderState::Paid(tr), _) => CheckoutAnswer::Paid { tr },
            (OrderState::NotPaid(Some(tr)), Some(why)) => CheckoutAnswer::Failed { tr, why },
            _ => return None,
        };
        Some(ShopEvent::Ended(CheckoutEnd { order: order.clone(), answer }))
    })
}

/// Somebody waits for an order's open checkout.
pub(super) struct Waiter {
    feed: Arc<ShopFeed>,
    order: OrderId,
    ended: watch::Receiver<Ended>,
    /// It is one of those whom the feed counts.
    is_counted: bool,
}

impl Waiter {
    /// How that try, or a later one, ended; `None`: the hub is ending, and it is not worth waiting.
    pub(super) async fn end_of(&mut self, tr: TrNum) -> Option<CheckoutAnswer> {
        let is_it = |ended: &Ended| ended.is_some_and(|answer| answer.tr() >= tr);
        self.ended.wait_for(is_it).await.ok().and_then(|ended| *ended)
    }

    /// The same, if it has ended by now.
    pub(super) fn ended(&self, tr: TrNum) -> Option<CheckoutAnswer> {
        self.ended.borrow().filter(|answer| answer.tr() >= tr)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiting = self.feed.waiting();
        if self.is_counted
            && let Entry::Occupied(mut there) = waiting.orders.entry(self.order.clone())
        {
            there.get_mut().waiters = there.get().waiters.saturating_sub(1);
            if there.get().waiters == 0 {
                there.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(ends: u32) -> ShopNews {
        let moved = |number: u32| ShopEffect::Moved {
            order: number.to_string().parse().unwrap(),
            state: OrderState::Paid(TrNum::FIRST),
            failed: None,
        };
        ShopNews { effects: (0..ends).map(moved).collect(), ..ShopNews::default() }
    }

    #[tokio::test]
    async fn who_is_too_slow_is_told_how_many_ends_it_missed() {
        let feed = ShopFeed::default();
        feed.follow(&news(9));
        let mut events = feed.listen();
        feed.follow(&news(2));
        assert_eq!(events.next().await.unwrap().unwrap().len(), 2);
        // Three frames more than fit.
        for _ in 0..FRAMES_BEHIND_MAX + 3 {
            feed.follow(&news(5));
        }
        assert_eq!(events.next().await, Err(Missed { ends: 15 }));
        for _ in 0..FRAMES_BEHIND_MAX {
            assert_eq!(events.next().await.unwrap().unwrap().len(), 5);
        }
        feed.end();
        assert_eq!(events.next().await, Ok(None));
    }
}
