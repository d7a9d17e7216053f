//! The handlers of the four topics.

use std::sync::Arc;

use holdfast_domain::shop::{Message as Said, Side};
use holdfast_messages::{Message, OrderMessage, OutcomeMessage, PayMessage, StockMessage};
use holdfast_postgres::shop::{Served, setting_of};
use holdfast_postgres::{Batch, Claim, Error, Step, Store};

use super::asks::Asks;
use super::coordinators::Coordinators;
use super::limits::TAKEOVER_MAX;
use super::misplaced::handle_ours;
use super::token_charges::TokenCharges;
use crate::handler::{Begin, BeginError, Hop};
use crate::settings::NodeSettings;

/// Check out, cancel, retry.
pub(crate) fn orders() -> Hop<OrderMessage> {
    Hop::new(Store::orders)
}

/// The payment side; with `token_charges` where tokens pay.
pub(crate) fn pay(settings: Arc<NodeSettings>, token_charges: Option<TokenCharges>) -> Hop<PayMessage> {
    let step = move |store: &mut Store, claim: &Claim, batch: &Batch<'_, PayMessage>| {
        handle_ours(&settings, claim, batch, PayMessage::said, |ours| {
            let Some(token_charges) = &token_charges else { return store.pay(claim, ours) };
            let pledges = token_charges.pledge(store.bills(ours.messages)?)?;
            store.pay_with(claim, ours, &pledges)
        })
    };
    Hop { begin: inside(Side::Pay), ..Hop::new(step) }
}

/// The stock side.
pub(crate) fn stock(settings: Arc<NodeSettings>) -> Hop<StockMessage> {
    let step = move |store: &mut Store, claim: &Claim, batch: &Batch<'_, StockMessage>| {
        handle_ours(&settings, claim, batch, StockMessage::said, |ours| store.stock(claim, ours))
    };
    Hop { begin: inside(Side::Stock), ..Hop::new(step) }
}

/// Begins with partitions of a side that is inside.
fn inside(side: Side) -> Begin {
    Box::new(move |store, _, claim| agreed(store, side, Served::Inside).map(|()| claim))
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
pub(crate) fn called<M: Message + 'static>(side: Side, asks: &Arc<Asks>, said: fn(&M) -> &Said) -> Hop<M> {
    let [asks, takes, loses] = [asks, asks, asks].map(Arc::clone);
    let step = move |store: &mut Store, claim: &Claim, batch: &Batch<'_, M>| -> Result<Step, Error> {
        let step = store.pass(claim, batch)?;
        if matches!(step, Step::Done(_)) {
            let readable = batch.messages.iter().filter_map(|incoming| incoming.message.as_ref().ok());
            asks.note(readable.map(|message| said(message).key.order_id.clone()));
        }
        Ok(step)
    };
    let begin = move |store: &mut Store, partition: u32, claim: Claim| -> Result<Claim, BeginError> {
        agreed(store, side, Served::Called)?;
        takes.take(partition);
        Ok(claim)
    };
    let lost = move |partition: u32| loses.lose(partition);
    Hop { begin: Box::new(begin), lost: Box::new(lost), ..Hop::new(step) }
}

/// The order consumer.
pub(crate) fn outcomes(settings: Arc<NodeSettings>) -> Hop<OutcomeMessage> {
    let coordinators = Arc::<Coordinators>::default();
    let (rebuilt, forgotten) = (Arc::clone(&coordinators), Arc::clone(&coordinators));
    let rebuilds_by = Arc::clone(&settings);
    let step =
        move |store: &mut Store, claim: &Claim, batch: &Batch<'_, OutcomeMessage>| -> Result<Step, Error> {
            // Without one the last step has failed, and nobody knows whether it was committed: the partition is claimed anew, and
            // what is open rebuilt.
            let Some(mut coordinator) = coordinators.take(claim) else { return Ok(Step::Fenced) };
            let step = handle_ours(&settings, claim, batch, OutcomeMessage::said, |ours| {
                store.outcomes(claim, &mut coordinator, ours)
            })?;
            if matches!(step, Step::Done(_)) {
                coordinators.put(claim, coordinator);
            }
            Ok(step)
        };
    let begin = move |store: &mut Store, partition: u32, claim: Claim| {
        rebuilt.rebuild(&rebuilds_by, store, partition, claim)
    };
    let lost = move |partition: u32| forgotten.forget(partition);
    let takeover_max = Some(TAKEOVER_MAX);
    Hop { takeover_max, begin: Box::new(begin), lost: Box::new(lost), ..Hop::new(step) }
}
