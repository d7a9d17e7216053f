//! The handlers of the four topics.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use holdfast_domain::shop::{Alarm, Message as Said, Side};
use holdfast_messages::{Message, OrderMessage, OutcomeMessage, PayMessage, StockMessage, Topic};
use holdfast_postgres::shop::report;
use holdfast_postgres::{Batch, Claim, Error, Incoming, Step, Store};

use super::asks::Asks;
use super::coordinators::{Coordinators, misplaced, partition_of};
use super::limits::TAKEOVER_MAX;
use super::purse::Purse;
use crate::handler::{BeginError, Hop};
use crate::settings::{HANDS, NodeSettings};

/// Check out, cancel, retry.
pub(crate) struct Orders;

impl Hop for Orders {
    const TOPIC: Topic = Topic::Orders;
    const HANDS: usize = HANDS;
    type Message = OrderMessage;

    fn step(&self, store: &mut Store, claim: &Claim, batch: &Batch<'_, OrderMessage>) -> Result<Step, Error> {
        store.orders(claim, batch)
    }
}

/// The payment side.
pub(crate) struct Pay {
    /// Where tokens pay.
    pub(crate) purse: Option<Purse>,
}

impl Hop for Pay {
    const TOPIC: Topic = Topic::Pay;
    const HANDS: usize = HANDS;
    type Message = PayMessage;

    fn step(&self, store: &mut Store, claim: &Claim, batch: &Batch<'_, PayMessage>) -> Result<Step, Error> {
        let Some(purse) = &self.purse else { return store.pay(claim, batch) };
        let pledges = purse.pledge(store.bills(batch.messages)?)?;
        store.pay_with(claim, batch, &pledges)
    }

    fn begin(&self, store: &mut Store, _: u32, claim: Claim) -> Result<Claim, BeginError> {
        agreed(store, Side::Pay, false).map(|()| claim)
    }
}

/// The stock side.
pub(crate) struct Stock;

impl Hop for Stock {
    const TOPIC: Topic = Topic::Stock;
    const HANDS: usize = HANDS;
    type Message = StockMessage;

    fn step(&self, store: &mut Store, claim: &Claim, batch: &Batch<'_, StockMessage>) -> Result<Step, Error> {
        store.stock(claim, batch)
    }

    fn begin(&self, store: &mut Store, _: u32, claim: Claim) -> Result<Claim, BeginError> {
        agreed(store, Side::Stock, false).map(|()| claim)
    }
}

/// All nodes must have agreed that a side is called, or that it is not. If they agree otherwise by now, this node must take
/// none of its messages.
fn agreed(store: &mut Store, side: Side, called: bool) -> Result<(), BeginError> {
    if store.outside()?.has(side) == called {
        return Ok(());
    }
    let setting = match side {
        Side::Pay => "shop.payment",
        Side::Stock => "shop.stock",
    };
    let (ours, theirs) = if called { ("a URL", "inside") } else { ("inside", "a URL") };
    Err(format!("{setting} is {ours} here and {theirs} for the nodes that started later; end this node, or set it alike").into())
}

/// A side where it is called over HTTP: what lies in its topic is told to the courier, once it is passed by.
pub(crate) struct CalledHop<M> {
    pub(crate) side: Side,
    pub(crate) asks: Arc<Asks>,
    pub(crate) said: fn(&M) -> &Said,
}

impl<M: Message + 'static> Hop for CalledHop<M> {
    const TOPIC: Topic = M::TOPIC;
    const HANDS: usize = HANDS;
    type Message = M;

    fn step(&self, store: &mut Store, claim: &Claim, batch: &Batch<'_, M>) -> Result<Step, Error> {
        let step = store.pass(claim, batch)?;
        if matches!(step, Step::Done(_)) {
            let readable = batch.messages.iter().filter_map(|incoming| incoming.message.as_ref().ok());
            self.asks.note(readable.map(|message| (self.said)(message).key.order_id.clone()));
        }
        Ok(step)
    }

    fn begin(&self, store: &mut Store, partition: u32, claim: Claim) -> Result<Claim, BeginError> {
        agreed(store, self.side, true)?;
        self.asks.take(partition);
        Ok(claim)
    }

    fn lost(&self, partition: u32) {
        self.asks.lose(partition);
    }
}

/// The order consumer.
pub(crate) struct Outcomes {
    pub(crate) settings: Arc<NodeSettings>,
    pub(crate) coordinators: Coordinators,
}

impl Outcomes {
    /// The messages without those of orders of other partitions, which are passed over: nearly always all of them.
    fn ours<'b>(
        &self,
        claim: &Claim,
        batch: &Batch<'b, OutcomeMessage>,
    ) -> (Cow<'b, [Incoming<OutcomeMessage>]>, Vec<Alarm>) {
        let alarm = |message| misplaced(&self.settings, partition_of(claim)?, message);
        let alarms: Vec<Alarm> = batch.messages.iter().filter_map(alarm).collect();
        if alarms.is_empty() {
            return (Cow::Borrowed(batch.messages), alarms);
        }
        let ours = batch.messages.iter().filter(|message| alarm(message).is_none()).cloned().collect();
        (Cow::Owned(ours), alarms)
    }
}

impl Hop for Outcomes {
    const TOPIC: Topic = Topic::Outcomes;
    const HANDS: usize = HANDS;
    const TAKEOVER_MAX: Option<Duration> = Some(TAKEOVER_MAX);
    type Message = OutcomeMessage;

    fn step(
        &self,
        store: &mut Store,
        claim: &Claim,
        batch: &Batch<'_, OutcomeMessage>,
    ) -> Result<Step, Error> {
        // Without one the last step has failed, and nobody knows whether it was committed: the partition is claimed anew, and
        // what is open rebuilt.
        let Some(mut coordinator) = self.coordinators.take(claim) else { return Ok(Step::Fenced) };
        let (ours, mut alarms) = self.ours(claim, batch);
        let mut step = store.outcomes(claim, &mut coordinator, &Batch { messages: &ours, ..*batch })?;
        if let Step::Done(done) = &mut step {
            report(&alarms);
            done.messages += alarms.len();
            done.alarms.append(&mut alarms);
            self.coordinators.put(claim, coordinator);
        }
        Ok(step)
    }

    fn begin(&self, store: &mut Store, partition: u32, claim: Claim) -> Result<Claim, BeginError> {
        self.coordinators.rebuild(&self.settings, store, partition, claim)
    }
}
