//! The topic `outcomes`: the order consumer. What it knows of open tries lies in a `Coordinator` in the caller's memory; what it
//! decides is written with the offset, and only then is the coordinator moved on.

use std::collections::BTreeSet;

use holdfast_checkout::Coordinator;
use holdfast_checkout::coordinator::Record;
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{Message as Said, OrderId};
use holdfast_messages::{OutcomeMessage, OutcomeOffset};
use postgres::Transaction;

use super::load::{self, Lock};
use super::open::follow;
use super::rows::ShopRows;
use super::settle::{Settling, candidates};
use super::{report, write};
use crate::batch::{Batch, Begun, Done, Step};
use crate::guard::signed;
use crate::load::Loader;
use crate::session::{Point, Statements, Store};
use crate::types::Moment;
use crate::write::{Besides, Writer};
use crate::{Claim, Error, Source};

impl Store {
    /// Folds a batch of outcomes and decides what became complete. The coordinator is that of the claim's partition, from
    /// [`Store::rebuild_outcomes`]. It is as it was if the transaction is not committed. After an error or [`Step::Fenced`] it
    /// may be behind what is stored: drop it, claim anew and rebuild.
    ///
    /// # Errors
    /// As [`Store::transfers`].
    pub fn outcomes(
        &mut self,
        claim: &Claim,
        coordinator: &mut Coordinator,
        batch: &Batch<'_, OutcomeMessage>,
    ) -> Result<Step, Error> {
        self.run(claim, batch, |store, claim, batch, verdict| {
            let before = coordinator.before(said(batch).map(|message| &message.key));
            let step = attempt(store, claim, coordinator, batch, verdict);
            if !matches!(step, Ok(Step::Done(_))) {
                coordinator.take_back(before);
            }
            step
        })
    }
}

/// What can be read of it.
fn said<'b>(batch: &Batch<'b, OutcomeMessage>) -> impl Iterator<Item = &'b Said> {
    batch.messages.iter().filter_map(|incoming| incoming.message.as_ref().ok()).map(OutcomeMessage::said)
}

fn attempt(
    store: &mut Store,
    claim: &Claim,
    coordinator: &mut Coordinator,
    batch: &Batch<'_, OutcomeMessage>,
    verdict: Option<&str>,
) -> Result<Step, Error> {
    let Some(Begun { mut tx, guard, statements, settings, watch, .. }) = store.begin(claim, batch.from)?
    else {
        return Ok(Step::Fenced);
    };
    let mut besides = Besides::default();
    let outcomes = besides.sort_out(claim.source, batch.messages, verdict);
    let mut rows = ShopRows::default();
    let orders: BTreeSet<&OrderId> =
        outcomes.iter().map(|(_, message)| &message.said().key.order_id).collect();
    load::orders(&mut tx, statements, &mut rows, orders, Lock::Wait)?;
    load::keys(&mut tx, statements, &mut rows, [])?;
    let mut loader = Loader::new(&mut tx, statements);
    let said = outcomes.iter().map(|(_, message)| (&message.said().key, &message.said().body));
    let charged = loader.lock_reserved(&candidates(&rows, coordinator, said))?;
    let now = loader.clock()?;
    let loaded = loader.loaded;
    watch.reached(Point::Loaded);

    let mut settling = Settling::new(&charged, &loaded, now);
    let (mut alarms, mut oldest) = (Vec::new(), None);
    for (incoming, message) in outcomes {
        let record = Record { offset: incoming.offset, message: message.said().clone() };
        settling.before(coordinator, &mut rows, &record, &mut besides);
        let mut did = coordinator.handle(&rows, &record);
        oldest = did.outcome_offset.or(oldest);
        alarms.append(&mut did.alarms);
        follow(&mut rows, coordinator, did, [&record.message.key], now, &mut besides);
    }
    let effects = settling.charges.into_effects();
    report(&alarms);
    watch.reached(Point::Decided);

    write::write(&mut tx, statements, &rows, settings, now)?;
    note_oldest(&mut tx, statements, claim.source, oldest, now, &mut besides)?;
    let mut writer = Writer { tx: &mut tx, statements, watch, now, shards: settings.expiry_shards };
    let moves_tokens = loaded.pledged.moves(&effects);
    let guard = writer.write(guard, batch.next, loaded, &effects, &besides, batch.sent)?;
    tx.commit()?;
    watch.reached(Point::Committed);
    if moves_tokens {
        store.tell_token_change();
    }
    Ok(Step::Done(Done { alarms, ..Done::of(batch, besides, &guard, now) }))
}

/// Keeps and tells from where a fresh consumer has to read, if that has risen.
pub(super) fn note_oldest(
    tx: &mut Transaction<'_>,
    statements: &Statements,
    source: Source,
    oldest: Option<u64>,
    now: Millis,
    besides: &mut Besides<'_>,
) -> Result<(), Error> {
    let Some(offset) = oldest else { return Ok(()) };
    let statement = statements.asked.prepared(
        tx,
        "INSERT INTO outcome_offset (partition, value, changed_date) VALUES ($1, $2, $3)
         ON CONFLICT (partition) DO UPDATE SET value = excluded.value, changed_date = excluded.changed_date
         WHERE outcome_offset.value < excluded.value",
    )?;
    let risen = tx.execute(&statement, &[&source.enumeration(), &signed(offset), &Moment(now)])?;
    if risen > 0 {
        besides.send(&OutcomeOffset { partition: source.number(), offset });
    }
    Ok(())
}
