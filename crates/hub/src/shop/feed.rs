//! Durable frames followed: callers that wait are woken, listeners are told, meters move.

use std::sync::Arc;

use holdfast_domain::effects::Outcome;
use holdfast_domain::shop::{
    Alarm, CheckoutAnswer, CheckoutEnd, Message, OrderState, ShopEffect, ShopMessage, ShopOutcome, Side,
    Tally, Topic,
};
use holdfast_engine::{Ends, Monitor, ShopMeters};
use tokio::sync::broadcast;

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

/// Follows durable frames.
pub(crate) struct ShopFeed {
    /// Who waits for the end of a checkout.
    pub(super) ends: Arc<Ends>,
    /// `None`: the hub is ending.
    events: Monitor<Option<Teller>>,
    meters: ShopMeters,
}

impl Default for ShopFeed {
    fn default() -> ShopFeed {
        let (frames, _) = broadcast::channel(FRAMES_BEHIND_MAX);
        let events = Monitor::new(Some(Teller { frames, ends: 0 }));
        // As many as the edge lets in.
        ShopFeed { ends: Arc::new(Ends::new(usize::MAX)), events, meters: ShopMeters::default() }
    }
}

impl ShopFeed {
    pub(super) fn listen(&self) -> ShopEvents {
        let events = self.events.lock();
        let (frames, ends) = events
            .as_ref()
            .map_or_else(|| (broadcast::channel(1).1, 0), |teller| (teller.frames.subscribe(), teller.ends));
        ShopEvents { frames, ends, after_missed: None }
    }

    /// Takes in what a durable frame did.
    pub(crate) fn follow(&self, news: &ShopNews) {
        self.count(news);
        let closed = news.effects.iter().filter_map(|effect| match effect {
            ShopEffect::Closed(end) => Some(end),
            _ => None,
        });
        for end in closed {
            self.ends.tell(&end.order, end.answer);
        }
        let mut events = self.events.lock();
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
        self.meters.count(&tally, &news.alarms);
        for alarm in &news.alarms {
            tracing::warn!(%alarm, name = alarm.name(), "a checkout needs somebody to look at it");
        }
    }

    /// Nothing will come any more, and nobody waits for it.
    pub(crate) fn end(&self) {
        self.ends.close();
        self.events.lock().take();
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

#[cfg(test)]
mod tests {
    use holdfast_domain::shop::TrNum;

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
