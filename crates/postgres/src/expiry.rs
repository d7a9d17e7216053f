//! The expiry scan of one shard. It reads what is due by its index, so its cost follows the holds that end.

use holdfast_domain::codes::ErrorCode;
use holdfast_domain::effects::Outcome;
use holdfast_domain::hops::end_due_holds;
use holdfast_domain::money::Balance;
use holdfast_domain::positions::Action;
use holdfast_domain::transfers::TransferState;
use holdfast_messages::{PositionMessage, PositionWork, Step as PositionStep, TraceId};

use crate::batch::{Done, Step};
use crate::guard::Guard;
use crate::load::Loader;
use crate::notices::Moved;
use crate::session::{Point, Store};
use crate::write::{Besides, Writer};
use crate::{Claim, Error};

/// The most holds that one scan ends.
pub const HOLDS_MAX: u32 = 1_000;

impl Store {
    /// The shards in which something is due, whoever owns them: one look that tells a worker which of its shards are worth a
    /// scan. It locks nothing.
    ///
    /// # Errors
    /// If the database fails.
    pub fn due_shards(&mut self) -> Result<Vec<i16>, Error> {
        let shards = i32::from(self.settings.expiry_shards);
        let rows = self.client.query(&self.statements.due_shards, &[&shards])?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Ends up to `holds_max` holds of a shard that ran out; the claim is one of [`Source::timeout`](crate::Source::timeout)
    /// with that shard.
    ///
    /// # Errors
    /// As [`Store::transfers`]. A scan that others were in the way of is simply done again.
    pub fn expire(&mut self, claim: &Claim, shard: i16, holds_max: u32) -> Result<Step, Error> {
        let Store { client, statements, settings, watch, .. } = self;
        let holds_max = holds_max.min(HOLDS_MAX);
        let mut tx = client.transaction()?;
        watch.reached(Point::Begun);
        let Some(guard) = Guard::lock(&mut tx, statements, claim)? else { return Ok(Step::Fenced) };
        watch.reached(Point::GuardLocked);
        // Unlocked: what has left its waiting state meanwhile is noticed when it is looked at again under the lock.
        let due: Vec<i64> = tx
            .query(&statements.due, &[&shard, &i64::from(holds_max)])?
            .iter()
            .map(|row| row.get(0))
            .collect();
        if due.is_empty() {
            tx.rollback()?;
            return Ok(Step::Done(Done::default()));
        }
        let mut loader = Loader::new(&mut tx, statements);
        loader.lock_unlocked_transfers(&due)?;
        let funded = loader.loaded.transfers.values().filter(|row| row.is_funded());
        let funded = funded.map(|row| row.id.to_string().into()).collect();
        loader.lock_pledged(&funded)?;
        let now = loader.clock()?;
        let loaded = loader.loaded;
        watch.reached(Point::Loaded);

        let (effects, messages) = end_due_holds(&loaded, now, holds_max);
        if effects.state_changes.is_empty() {
            tx.rollback()?;
            return Ok(Step::Done(Done::default()));
        }
        let mut besides = Besides::default();
        for message in &messages {
            let transfer = &loaded.transfers[&message.transfer];
            let work = PositionWork::Step(PositionStep {
                action: message.action,
                transfer: transfer.id,
                amount: message.amount,
                error: None,
                origin: None,
            });
            besides.send(&PositionMessage { trace: TraceId::NOBODY, account: message.account, work });
        }
        for notification in &effects.notifications {
            let transfer = &loaded.transfers[&notification.transfer];
            let (state, action) = match transfer.state {
                TransferState::ReceivedPrepare => (TransferState::ExpiredPrepared, None),
                // Tokens were held, and are free again.
                _ => (TransferState::ExpiredReserved, Some(Action::TimeoutReserved)),
            };
            let outcome = Outcome {
                state: Some(state),
                code: Some(ErrorCode::TransferExpired.into()),
                reason: None,
                subject: transfer.no.0,
                value: Balance::ZERO,
                token: None,
                shop: None,
            };
            let (trace, completion, origin) = (TraceId::NOBODY, None, None);
            Moved { transfer, completion, action, outcome: &outcome, trace, origin }
                .tell(notification, &mut besides);
        }
        watch.reached(Point::Decided);
        let ended = effects.state_changes.len();
        let offset = guard.offset + ended as u64;
        let mut writer = Writer { tx: &mut tx, statements, watch, now, shards: settings.expiry_shards };
        let guard = writer.write(guard, offset, loaded, &effects, &besides, 0)?;
        tx.commit()?;
        watch.reached(Point::Committed);
        if !effects.tokens.is_empty() {
            self.tell_token_change();
        }
        Ok(Step::Done(Done {
            messages: ended,
            more: due.len() >= holds_max as usize,
            outbox: besides.numbered(&guard),
            transactions: 1,
            time: now,
            ..Done::default()
        }))
    }
}
