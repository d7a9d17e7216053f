//! The topic `outcomes`: the order consumer. What it knows of open tries lies in a `Coordinator` in the caller's memory; what it
//! decides is written with the offset, and only then is the coordinator moved on.

use std::collections::BTreeSet;

use holdfast_checkout::Coordinator;
use holdfast_checkout::coordinator::Record;
use holdfast_domain::shop::{Message as Said, OrderId};
use holdfast_messages::{OutcomeMessage, OutcomeOffset};

use super::charges::Charged;
use super::load::Lock;
use super::open::follow;
use super::settle::{Settling, candidates};
use crate::batch::{Batch, Reading};
use crate::guard::signed;
use crate::outbox::Outbox;
use crate::session::{Settings, Store};
use crate::step::{Decided, Locked, Opened, Step, Work};
use crate::types::Moment;
use crate::{Claim, Error};

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
        self.run(claim, batch, |store, part| {
            let before = coordinator.before(said(&part.batch).map(|message| &message.key));
            let step = part.step(store, Outcomes { reading: part.read(), coordinator });
            if !matches!(step, Ok(Step::Done(_))) {
                coordinator.take_back(before);
            }
            step
        })
    }
}

/// What can be read of it.
fn said<'m>(batch: &Batch<'m, OutcomeMessage>) -> impl Iterator<Item = &'m Said> {
    batch.messages.iter().filter_map(|incoming| incoming.message.as_ref().ok()).map(OutcomeMessage::said)
}

struct Outcomes<'p, 'c, 'm> {
    reading: Reading<'p, 'm, OutcomeMessage>,
    coordinator: &'c mut Coordinator,
}

impl<'m> Work<'m> for Outcomes<'_, '_, 'm> {
    /// What the tries have reserved that may come to be paid, and all else.
    type Known = (Charged, Locked);
    type Rows = Option<u64>;

    fn load(&mut self, step: &mut Opened<'_>) -> Result<(Charged, Locked), Error> {
        let said = || self.reading.messages.iter().map(|(_, message)| message.said());
        let orders: BTreeSet<&OrderId> = said().map(|said| &said.key.order_id).collect();
        let mut loader = step.loader();
        loader.orders(orders, Lock::Wait)?;
        loader.keys([])?;
        let said = said().map(|said| (&said.key, &said.body));
        let paid = candidates(&loader.loaded.shop, self.coordinator, said);
        let charged = loader.lock_reserved(&paid)?;
        Ok((charged, loader.finish()?))
    }

    fn decide(
        self,
        (charged, (mut loaded, now)): (Charged, Locked),
        _: &Settings,
    ) -> Option<Decided<'m, Self::Rows>> {
        let Outcomes { reading: Reading { part, messages, mut outbox }, coordinator } = self;
        let mut rows = std::mem::take(&mut loaded.shop);
        let mut settling = Settling::new(&charged, &loaded, now);
        let (mut alarms, mut oldest) = (Vec::new(), None);
        for (incoming, message) in messages {
            let record = Record { offset: incoming.offset, message: message.said().clone() };
            settling.before(coordinator, &mut rows, &record, &mut outbox);
            let mut did = coordinator.handle(&rows, &record);
            oldest = did.outcome_offset.or(oldest);
            alarms.append(&mut did.alarms);
            follow(&mut rows, coordinator, did, [&record.message.key], now, &mut outbox);
        }
        let effects = settling.charges.into_effects();
        loaded.shop = rows;
        let mut decided = part.decided(now, outbox, oldest);
        decided.done.alarms = alarms;
        Some(Decided { loaded, effects, ..decided })
    }

    fn write(oldest: Option<u64>, step: &mut Opened<'_>, outbox: &mut Outbox<'m>) -> Result<(), Error> {
        note_oldest(step, oldest, outbox)
    }
}

/// Keeps and tells from where a fresh consumer has to read, if that has risen.
pub(super) fn note_oldest(
    step: &mut Opened<'_>,
    oldest: Option<u64>,
    outbox: &mut Outbox<'_>,
) -> Result<(), Error> {
    let Some(offset) = oldest else { return Ok(()) };
    let (source, now) = (step.source, Moment(step.now));
    let risen = step.writer().execute(
        "INSERT INTO outcome_offset (partition, value, changed_date) VALUES ($1, $2, $3)
         ON CONFLICT (partition) DO UPDATE SET value = excluded.value, changed_date = excluded.changed_date
         WHERE outcome_offset.value < excluded.value",
        &[&source.enumeration(), &signed(offset), &now],
    )?;
    if risen > 0 {
        outbox.send(&OutcomeOffset { partition: source.number(), offset });
    }
    Ok(())
}
