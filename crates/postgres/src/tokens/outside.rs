//! What an outside ledger tells by the topic `token-updates`: taken over in the transaction that also moves the offset.

use holdfast_domain::ids::Millis;
use holdfast_messages::TokenUpdate;
use holdfast_tokens::TokenId;

use super::supply::{OfTransfers, lock_in_order, update};
use crate::batch::{Batch, Readable, Reading};
use crate::outbox::Outbox;
use crate::session::{Settings, Store};
use crate::step::{Decided, Opened, Step, Work};
use crate::{Claim, Error};

impl Store {
    /// Takes over a batch of updates; those that cannot be read become dead letters.
    ///
    /// # Errors
    /// As [`Store::transfers`].
    pub fn token_updates(&mut self, claim: &Claim, batch: &Batch<'_, TokenUpdate>) -> Result<Step, Error> {
        let step = self.run(claim, batch, |store, part| part.step(store, Updates(part.read())))?;
        if matches!(&step, Step::Done(done) if done.messages > 0) {
            self.tell_token_change();
        }
        Ok(step)
    }
}

/// Updates, which the database itself judges: that is done where they are written.
struct Updates<'p, 'm>(Reading<'p, 'm, TokenUpdate>);

impl<'m> Work<'m> for Updates<'_, 'm> {
    type Known = Millis;
    type Rows = Vec<Readable<'m, TokenUpdate>>;

    fn load(&mut self, step: &mut Opened<'_>) -> Result<Millis, Error> {
        step.loader().clock()
    }

    fn decide(self, now: Millis, _: &Settings) -> Option<Decided<'m, Self::Rows>> {
        let Reading { part, messages, outbox } = self.0;
        Some(part.decided(now, outbox, messages))
    }

    fn write(
        updates: Vec<Readable<'m, TokenUpdate>>,
        step: &mut Opened<'_>,
        outbox: &mut Outbox<'m>,
    ) -> Result<(), Error> {
        // Of all messages at once: one after the other they would be locked in no order.
        let consumed = updates.iter().flat_map(|(_, message)| message.consumed.iter().map(TokenId::as_str));
        let locked = lock_in_order(&mut step.tx, consumed)?;
        for (incoming, TokenUpdate { consumed, produced, .. }) in updates {
            let mut part = step.tx.transaction()?;
            match update(&mut part, (consumed, &locked), produced, OfTransfers::Remembered, None)? {
                Ok(event) => {
                    part.commit()?;
                    event.iter().for_each(|event| step.written.token_event(event));
                }
                Err(refusal) => {
                    part.rollback()?;
                    outbox.bury(incoming.dead(step.source, refusal.to_string()));
                }
            }
        }
        Ok(())
    }
}
