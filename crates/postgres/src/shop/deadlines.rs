//! Checkouts that nobody decided in time are cancelled, by shards as holds are ended; the payment side is asked again about those
//! that were put off; and idempotency keys whose time is over go.

use holdfast_domain::shop::{OrderId, cancel_due};
use holdfast_domain::view::Checkouts;
use holdfast_messages::PayMessage;

use super::load::{Lock, id};
use crate::expiry::Due;
use crate::outbox::Outbox;
use crate::session::{Settings, Store};
use crate::step::{Decided, Done, Opened, Step, Work};
use crate::{Claim, Error};

/// The most checkouts that one scan cancels, and asks again for.
const DUE_AT_ONCE_MAX: u32 = 1_000;

impl Store {
    /// The shards in which a checkout is due, or has rested, whoever owns them. It locks nothing.
    pub fn due_checkout_shards(&mut self) -> Result<Vec<i16>, Error> {
        let shards = i32::from(self.settings.expiry_shards);
        let rows = self.query(
            "SELECT s::smallint FROM generate_series(0, $1::int - 1) AS s CROSS JOIN LATERAL (
                 (SELECT 1 FROM orders
                 WHERE shard = s::smallint AND state = 'pending' AND deadline < (SELECT hub_clock()) LIMIT 1)
                 UNION ALL
                 (SELECT 1 FROM pay_again WHERE shard = s::smallint AND again_at < (SELECT hub_clock()) LIMIT 1)
                 LIMIT 1
             ) AS due ORDER BY s",
            &[&shards],
        )?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Cancels up to `max` checkouts of a shard whose deadline has passed, and asks again for as many that were put off; the claim is one of
    /// [`Source::Deadline`](crate::Source::Deadline) with that shard.
    ///
    /// # Errors
    /// As [`Store::transfers`]. A scan that others were in the way of is simply done again.
    pub fn expire_checkouts(&mut self, claim: &Claim, shard: i16, max: u32) -> Result<Step, Error> {
        let max = max.min(DUE_AT_ONCE_MAX);
        self.step(claim, None, 0, Deadlines { shard, max })
    }

    /// Removes up to `max` idempotency keys whose time is over, and tells how many. Until then they count for nothing.
    pub fn remove_ended_keys(&mut self, max: u32) -> Result<u64, Error> {
        self.execute(
            "DELETE FROM idempotency_key WHERE idempotency_key = ANY(ARRAY(
                 SELECT idempotency_key FROM idempotency_key WHERE ends_at <= (SELECT hub_clock())
                 ORDER BY ends_at LIMIT $1 FOR UPDATE SKIP LOCKED))",
            &[&i64::from(max)],
        )
    }
}

/// The checkouts of a shard that are to be ended, or asked about again.
struct Deadlines {
    shard: i16,
    max: u32,
}

impl<'m> Work<'m> for Deadlines {
    /// And what the payment side is asked again.
    type Known = (Due, Vec<PayMessage>);
    type Rows = ();

    fn load(&mut self, step: &mut Opened<'_>) -> Result<Self::Known, Error> {
        let Deadlines { shard, max } = *self;
        // What others have locked is passed over before it is counted: however many they have, those behind are found. It waits
        // for none of them, so the order of the locks does not matter.
        let due = step.query(
            "SELECT order_id FROM orders
             WHERE shard = $1 AND state = 'pending' AND deadline < (SELECT hub_clock()) ORDER BY deadline LIMIT $2
             FOR UPDATE SKIP LOCKED",
            &[&shard, &i64::from(max)],
        )?;
        let due: Vec<OrderId> = due.iter().map(|row| id("orders", row.get(0))).collect::<Result<_, _>>()?;
        let offset = step.guard.offset;
        let mut loader = step.loader();
        loader.orders(&due, Lock::Wait)?;
        loader.keys([])?;
        // Of those that have rested none may wait any more. Then that they go is all there is to commit.
        let rested = loader.take_rested(shard, max)?;
        let more = due.len().max(rested.len()) >= max as usize;
        let (loaded, now) = loader.finish()?;
        Ok((Due { loaded, now, offset, more }, rested))
    }

    fn decide(self, (due, rested): Self::Known, _: &Settings) -> Option<Decided<'m, Self::Rows>> {
        let Due { loaded, now, offset, more } = due;
        let ended = loaded.shop.due_checkouts(now, self.max as usize).len();
        let mut effects = cancel_due(&loaded.shop, (now, offset), self.max as usize);
        let mut outbox = Outbox::default();
        outbox.say_all(&effects);
        rested.iter().for_each(|asked| outbox.send(asked));
        if ended == 0 && outbox.outgoing.is_empty() {
            return None;
        }
        let alarms = effects.take(|step| &mut step.shop_alarms);
        let done = Done { messages: ended, more, alarms, ..Done::default() };
        Some(Decided { loaded, effects, done, ..Decided::new(now, offset + ended as u64, outbox, ()) })
    }
}
