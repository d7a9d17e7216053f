//! The handlers of the four topics.

use std::sync::Arc;

use holdfast_messages::{OrderMessage, OutcomeMessage, PayMessage, StockMessage, Topic};
use holdfast_postgres::{Batch, Claim, Error, Step, Store};

use super::coordinators::Coordinators;
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
}

/// The order consumer.
pub(crate) struct Outcomes {
    pub(crate) settings: Arc<NodeSettings>,
    pub(crate) coordinators: Coordinators,
}

impl Hop for Outcomes {
    const TOPIC: Topic = Topic::Outcomes;
    const HANDS: usize = HANDS;
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
        let step = store.outcomes(claim, &mut coordinator, batch)?;
        if matches!(step, Step::Done(_)) {
            self.coordinators.put(claim, coordinator);
        }
        Ok(step)
    }

    fn begin(&self, store: &mut Store, partition: u32, claim: Claim) -> Result<Claim, BeginError> {
        self.coordinators.rebuild(&self.settings, store, partition, claim)
    }
}
