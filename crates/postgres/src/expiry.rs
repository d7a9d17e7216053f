//! The expiry scan of one shard. It reads what is due by its index, so its cost follows the holds that end.

use holdfast_domain::codes::ErrorCode;
use holdfast_domain::effects::{Notification, Outcome, Subject};
use holdfast_domain::hops::end_due_holds;
use holdfast_domain::ids::Millis;
use holdfast_domain::money::Balance;
use holdfast_domain::transfers::{Transfer, TransferState};
use holdfast_messages::{PositionMessage, PositionWork, Step as PositionStep, TraceId};

use crate::loaded::Loaded;
use crate::notices::ToldTransfer;
use crate::outbox::Outbox;
use crate::session::{Settings, Store};
use crate::step::{Decided, Done, Opened, Step, Work};
use crate::types::list;
use crate::{Claim, Error};

/// The most holds that one scan ends.
pub const HOLDS_MAX: u32 = 1_000;

impl Store {
    /// The shards in which something is due, whoever owns them: one look that tells a worker which of its shards are worth a
    /// scan. It locks nothing.
    pub fn due_shards(&mut self) -> Result<Vec<i16>, Error> {
        let shards = i32::from(self.settings.expiry_shards);
        let rows = self.query(
            "SELECT s::smallint FROM generate_series(0, $1::int - 1) AS s CROSS JOIN LATERAL (
                 SELECT 1 FROM transfer_timeout
                 WHERE shard = s::smallint AND expiration_date < (SELECT hub_clock()) LIMIT 1
             ) AS due ORDER BY s",
            &[&shards],
        )?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Ends up to `holds_max` holds of a shard that ran out; the claim is one of [`Source::Timeout`](crate::Source::Timeout)
    /// with that shard.
    ///
    /// # Errors
    /// As [`Store::transfers`]. A scan that others were in the way of is simply done again.
    pub fn expire(&mut self, claim: &Claim, shard: i16, holds_max: u32) -> Result<Step, Error> {
        let holds_max = holds_max.min(HOLDS_MAX);
        self.step(claim, None, 0, Expiry { shard, holds_max })
    }
}

/// The holds of a shard that ran out.
struct Expiry {
    shard: i16,
    holds_max: u32,
}

/// What a scan has found under its locks.
pub(crate) struct Due {
    pub(crate) loaded: Loaded,
    pub(crate) now: Millis,
    /// Where the source stands.
    pub(crate) offset: u64,
    /// It has stopped at its bound.
    pub(crate) more: bool,
}

impl<'m> Work<'m> for Expiry {
    type Known = Due;
    type Rows = ();

    fn load(&mut self, step: &mut Opened<'_>) -> Result<Due, Error> {
        // Unlocked: what has left its waiting state meanwhile is noticed when it is looked at again under the lock.
        // The clock stands in a query of its own: read once, its value can bound the index. Called row by row it could not, and
        // every open hold would be looked at.
        let due = step.query(
            "SELECT transfer_no FROM transfer_timeout
             WHERE shard = $1 AND expiration_date < (SELECT hub_clock()) ORDER BY expiration_date LIMIT $2",
            &[&self.shard, &i64::from(self.holds_max)],
        )?;
        let due = list(&due, |row| row.get(0));
        let (offset, more) = (step.guard.offset, due.len() >= self.holds_max as usize);
        let mut loader = step.loader();
        loader.lock_unlocked_transfers(&due)?;
        let funded = loader.loaded.funded();
        loader.lock_pledged(&funded)?;
        let (loaded, now) = loader.finish()?;
        Ok(Due { loaded, now, offset, more })
    }

    fn decide(self, due: Due, _: &Settings) -> Option<Decided<'m, Self::Rows>> {
        let Due { loaded, now, offset, more } = due;
        let (effects, messages) = end_due_holds(&loaded, now, self.holds_max);
        let ended = effects.all(|step| &step.state_changes).count();
        if ended == 0 {
            return None;
        }
        let mut outbox = Outbox::default();
        for message in &messages {
            let transfer = &loaded.transfers[&message.transfer];
            let work = PositionWork::Step(PositionStep {
                action: message.action,
                transfer: transfer.id,
                amount: message.amount,
                error: None,
                origin: None,
            });
            outbox.send(&PositionMessage { trace: TraceId::NOBODY, account: message.account, work });
        }
        for notification in effects.all(|step| &step.notifications) {
            tell_expired(&loaded.transfers[&notification.transfer], notification, &mut outbox);
        }
        let done = Done { messages: ended, more, ..Done::default() };
        Some(Decided { loaded, effects, done, ..Decided::new(now, offset + ended as u64, outbox, ()) })
    }
}

fn tell_expired(transfer: &Transfer, notification: &Notification, outbox: &mut Outbox<'_>) {
    let state = match transfer.state {
        TransferState::ReceivedPrepare => TransferState::ExpiredPrepared,
        // Tokens were held, and are free again.
        _ => TransferState::ExpiredReserved,
    };
    let outcome = Outcome {
        state: Some(state),
        code: Some(ErrorCode::TransferExpired.into()),
        reason: None,
        subject: Subject::Transfer(transfer.no),
        value: Balance::ZERO,
        token: None,
        shop: None,
    };
    ToldTransfer { transfer, outcome: &outcome, trace: TraceId::NOBODY, origin: None }
        .tell(notification, outbox);
}
