//! Checkouts that nobody decided in time are cancelled, by shards as holds are ended; the payment side is asked again about those
//! that were put off; and idempotency keys whose time is over go.

use holdfast_domain::command::{Command, Expire};
use holdfast_domain::effects::Effects;
use holdfast_domain::shop::OrderId;
use holdfast_domain::{FrameInput, decide};

use super::load::{self, Lock, id};
use super::{again, report, write};
use crate::batch::{Done, Step};
use crate::guard::Guard;
use crate::load::Loader;
use crate::loaded::Loaded;
use crate::session::{Point, Store};
use crate::write::{Besides, Writer};
use crate::{Claim, Error};

/// The most checkouts that one scan cancels, and asks again for.
const DUE_AT_ONCE_MAX: u32 = 1_000;

impl Store {
    /// The shards in which a checkout is due, or has rested, whoever owns them. It locks nothing.
    ///
    /// # Errors
    /// If the database fails.
    pub fn due_checkout_shards(&mut self) -> Result<Vec<i16>, Error> {
        let statement = self.statements.asked.prepared(
            &mut self.client,
            "SELECT s::smallint FROM generate_series(0, $1::int - 1) AS s CROSS JOIN LATERAL (
                 (SELECT 1 FROM orders
                 WHERE shard = s::smallint AND state = 'pending' AND deadline < (SELECT hub_clock()) LIMIT 1)
                 UNION ALL
                 (SELECT 1 FROM pay_again WHERE shard = s::smallint AND again_at < (SELECT hub_clock()) LIMIT 1)
                 LIMIT 1
             ) AS due ORDER BY s",
        )?;
        let rows = self.client.query(&statement, &[&i32::from(self.settings.expiry_shards)])?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Cancels up to `max` checkouts of a shard whose deadline has passed, and asks again for as many that were put off; the claim is one of
    /// [`Source::deadline`](crate::Source::deadline) with that shard.
    ///
    /// # Errors
    /// As [`Store::transfers`]. A scan that others were in the way of is simply done again.
    pub fn expire_checkouts(&mut self, claim: &Claim, shard: i16, max: u32) -> Result<Step, Error> {
        let Store { client, statements, settings, watch, .. } = self;
        let max = max.min(DUE_AT_ONCE_MAX);
        let mut tx = client.transaction()?;
        watch.reached(Point::Begun);
        let Some(guard) = Guard::lock(&mut tx, statements, claim)? else { return Ok(Step::Fenced) };
        watch.reached(Point::GuardLocked);
        // What others have locked is passed over before it is counted: however many they have, those behind are found. It waits
        // for none of them, so the order of the locks does not matter.
        let statement = statements.asked.prepared(
            &mut tx,
            "SELECT order_id FROM orders
             WHERE shard = $1 AND state = 'pending' AND deadline < (SELECT hub_clock()) ORDER BY deadline LIMIT $2
             FOR UPDATE SKIP LOCKED",
        )?;
        let due = tx.query(&statement, &[&shard, &i64::from(max)])?;
        let due: Vec<OrderId> = due.iter().map(|row| id("orders", row.get(0))).collect::<Result<_, _>>()?;
        let mut loaded = Loaded::default();
        load::orders(&mut tx, statements, &mut loaded.shop, &due, Lock::Wait)?;
        load::keys(&mut tx, statements, &mut loaded.shop, [])?;
        let now = Loader::new(&mut tx, statements).clock()?;
        watch.reached(Point::Loaded);

        let commands = [Command::Expire(Expire { holds_max: max })];
        let frame =
            FrameInput { base_offset: guard.offset, time: now, order: settings.order, commands: &commands };
        let ended = loaded.shop.due_checkouts(now, max as usize).len();
        let effects = decide(&loaded, &frame);
        let mut besides = Besides::default();
        besides.say_all(&effects);
        let rested = again::take(&mut tx, statements, shard, max)?;
        rested.iter().for_each(|asked| besides.send(asked));
        let more = due.len().max(rested.len()) >= max as usize;
        if ended == 0 && besides.outgoing.is_empty() {
            // Of those that have rested none waits any more: that is all there is to write.
            tx.commit()?;
            return Ok(Step::Done(Done { more, ..Done::default() }));
        }
        report(&effects.shop_alarms);
        watch.reached(Point::Decided);

        effects.apply(now, &mut loaded);
        write::write(&mut tx, statements, &loaded.shop, settings, now)?;
        let offset = guard.offset + ended as u64;
        let mut writer = Writer { tx: &mut tx, statements, watch, now, shards: settings.expiry_shards };
        let guard = writer.write(guard, offset, Loaded::default(), &Effects::default(), &besides, 0)?;
        tx.commit()?;
        watch.reached(Point::Committed);
        let (tally, alarms) = (besides.tally, effects.shop_alarms);
        let outbox = besides.numbered(&guard);
        Ok(Step::Done(Done {
            messages: ended,
            more,
            outbox,
            transactions: 1,
            time: now,
            alarms,
            tally,
            ..Done::default()
        }))
    }

    /// Removes up to `max` idempotency keys whose time is over, and tells how many. Until then they count for nothing.
    ///
    /// # Errors
    /// If the database fails.
    pub fn remove_ended_keys(&mut self, max: u32) -> Result<u64, Error> {
        let statement = self.statements.asked.prepared(
            &mut self.client,
            "DELETE FROM idempotency_key WHERE idempotency_key = ANY(ARRAY(
                 SELECT idempotency_key FROM idempotency_key WHERE ends_at <= (SELECT hub_clock())
                 ORDER BY ends_at LIMIT $1 FOR UPDATE SKIP LOCKED))",
        )?;
        Ok(self.client.execute(&statement, &[&i64::from(max)])?)
    }
}
