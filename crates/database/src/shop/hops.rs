//! The handlers of the four topics.

use std::sync::Arc;
use std::time::Duration;

use holdfast_domain::shop::{Message as Said, Side};
use holdfast_messages::{Message, OrderMessage, OutcomeMessage, PayMessage, StockMessage, Topic};
use holdfast_postgres::shop::{Served, setting_of};
use holdfast_postgres::{Batch, Claim, Error, Step, Store};

use super::asks::Asks;
use super::coordinators::Coordinators;
use super::limits::TAKEOVER_MAX;
use super::misplaced::handle_ours;
use super::token_charges::TokenCharges;
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
    pub(crate) settings: Arc<NodeSettings>,
    /// Where tokens pay.
    pub(crate) token_charges: Option<TokenCharges>,
}

impl Hop for Pay {
    const TOPIC: Topic = Topic::Pay;
    const HANDS: usize = HANDS;
    type Message = PayMessage;

    fn step(&self, store: &mut Store, claim: &Claim, batch: &Batch<'_, PayMessage>) -> Result<Step, Error> {
        handle_ours(&self.settings, claim, batch, PayMessage::said, |ours| {
            let Some(token_charges) = &self.token_charges else { return store.pay(claim, ours) };
            let pledges = token_charges.pledge(store.bills(ours.messages)?)?;
            store.pay_with(claim, ours, &pledges)
        })
    }

    fn begin(&self, store: &mut Store, _: u32, claim: Claim) -> Result<Claim, BeginError> {
        agreed(store, Side::Pay, Served::Inside).map(|()| claim)
    }
}

/// The stock side.
pub(crate) struct Stock {
    pub(crate) settings: Arc<NodeSettings>,
}

impl Hop for Stock {
    const TOPIC: Topic = Topic::Stock;
    const HANDS: usize = HANDS;
    type Message = StockMessage;

    fn step(&self, store: &mut Store, claim: &Claim, batch: &Batch<'_, StockMessage>) -> Result<Step, Error> {
        handle_ours(&self.settings, claim, batch, StockMessage::said, |ours| store.stock(claim, ours))
    }

    fn begin(&self, store: &mut Store, _: u32, claim: Claim) -> Result<Claim, BeginError> {
        agreed(store, Side::Stock, Served::Inside).map(|()| claim)
    }
}

/// All nodes must have agreed on who serves a side. If they agree otherwise by now, this node must take none of its messages.
fn agreed(store: &mut Store, side: Side, here: Served) -> Result<(), BeginError> {
    let theirs = store.serving()?.of(side);
    if theirs == here {
        return Ok(());
    }
    let (setting, ours, theirs) = (setting_of(side), here.setting(), theirs.setting());
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
        agreed(store, self.side, Served::Called)?;
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
        let step = handle_ours(&self.settings, claim, batch, OutcomeMessage::said, |ours| {
            store.outcomes(claim, &mut coordinator, ours)
        })?;
        if matches!(step, Step::Done(_)) {
            self.coordinators.put(claim, coordinator);
        }
        Ok(step)
    }

    fn begin(&self, store: &mut Store, partition: u32, claim: Claim) -> Result<Claim, BeginError> {
        self.coordinators.rebuild(&self.settings, store, partition, claim)
    }

    fn lost(&self, partition: u32) {
        self.coordinators.forget(partition);
    }
}
