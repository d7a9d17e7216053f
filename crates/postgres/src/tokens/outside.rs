//! What an outside ledger tells by the topic `token-updates`: taken over in the transaction that also moves the offset.

use holdfast_domain::effects::Effects;
use holdfast_messages::TokenUpdate;
use holdfast_tokens::TokenId;

use super::supply::{OfTransfers, lock_in_order, update};
use crate::batch::{Batch, Begun, Done, Step};
use crate::load::Loader;
use crate::session::{Point, Store};
use crate::write::{Besides, Writer};
use crate::{Claim, Error};

impl Store {
    /// Takes over a batch of updates; those that cannot be read become dead letters.
    ///
    /// # Errors
    /// As [`Store::transfers`].
    pub fn token_updates(&mut self, claim: &Claim, batch: &Batch<'_, TokenUpdate>) -> Result<Step, Error> {
        let step = self.run(claim, batch, attempt)?;
        if matches!(&step, Step::Done(done) if done.messages > 0) {
            self.tell_token_change();
        }
        Ok(step)
    }
}

fn attempt(
    store: &mut Store,
    claim: &Claim,
    batch: &Batch<'_, TokenUpdate>,
    verdict: Option<&str>,
) -> Result<Step, Error> {
    let Some(Begun { mut tx, guard, statements, settings, watch, .. }) = store.begin(claim, batch.from)?
    else {
        return Ok(Step::Fenced);
    };
    let mut loader = Loader::new(&mut tx, statements);
    let now = loader.clock()?;
    let loaded = loader.loaded;
    watch.reached(Point::Loaded);
    let mut besides = Besides::default();
    let readable = besides.sort_out(claim.source, batch.messages, verdict);
    // Of all messages at once: one after the other they would be locked in no order.
    let consumed = readable.iter().flat_map(|(_, message)| message.consumed.iter().map(TokenId::as_str));
    let locked = lock_in_order(&mut tx, consumed)?;
    for (incoming, TokenUpdate { consumed, produced, .. }) in readable {
        let mut part = tx.transaction()?;
        match update(&mut part, (consumed, &locked), produced, OfTransfers::Remembered, None)? {
            Ok(_) => part.commit()?,
            Err(refusal) => {
                part.rollback()?;
                besides.bury(incoming.dead(claim.source, refusal.to_string()));
            }
        }
    }
    watch.reached(Point::Decided);
    let mut writer = Writer { tx: &mut tx, statements, watch, now, shards: settings.expiry_shards };
    let guard = writer.write(guard, batch.next, loaded, &Effects::default(), &besides, batch.sent)?;
    tx.commit()?;
    watch.reached(Point::Committed);
    Ok(Step::Done(Done::of(batch, besides, &guard, now)))
}
