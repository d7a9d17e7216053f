//! Tries whose tokens others hold come again. At first at once, behind the others of their partition; a try that has waited for
//! longer rests, and the scan for deadlines asks for it: else one wallet that is held for hours would fill the topic.

use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{AskedStep, Body, Message as Said, Payment, TryKey};
use holdfast_messages::PayMessage;

use super::load::{id, try_of, whole};
use super::write::try_lists;
use crate::Error;
use crate::load::Loader;
use crate::types::{Moment, list};
use crate::written::RowWriter;

/// A try rests for this part of the time for which it is open: the pauses grow by half.
const REST_PART: Millis = 2;
/// Shorter, and it does not rest: the scan looks no more often.
const REST_MIN_MS: Millis = 500;
/// The longest rest: a wallet that is free again is found in that time.
const REST_MAX_MS: Millis = 5_000;

/// Until when a try rests that began then; `None`: it comes again at once.
pub(super) fn rests_until(started_at: Millis, now: Millis) -> Option<Millis> {
    let rest = (now.saturating_sub(started_at) / REST_PART).min(REST_MAX_MS);
    (rest >= REST_MIN_MS).then_some(now.saturating_add(rest))
}

/// Writes down when tries are to be asked for again.
pub(super) fn put(writer: &mut RowWriter<'_, '_>, resting: &[(&TryKey, Millis)]) -> Result<(), Error> {
    if resting.is_empty() {
        return Ok(());
    }
    let (orders, tries) = try_lists(resting.iter().map(|(key, _)| *key));
    let until = list(resting, |(_, until)| Moment(*until));
    writer.execute(
        "INSERT INTO pay_again (order_id, tr_num, shard, again_at)
         SELECT o.order_id, o.tr_num, o.shard, max(u.until)
         FROM unnest($1::text[], $2::bigint[], $3::timestamptz[]) AS u (order_id, tr_num, until)
         CROSS JOIN LATERAL (SELECT * FROM orders WHERE order_id = u.order_id OFFSET 0) o
         WHERE o.tr_num = u.tr_num AND o.state = 'pending'
         GROUP BY o.order_id, o.tr_num, o.shard ORDER BY o.order_id
         ON CONFLICT (order_id, tr_num) DO UPDATE SET again_at = excluded.again_at",
        &[&orders, &tries, &until],
    )?;
    Ok(())
}

impl Loader<'_, '_> {
    /// Takes up to `max` tries of a shard that have rested; what the payment side is to be asked about those that still wait.
    pub(super) fn take_rested(&mut self, shard: i16, max: u32) -> Result<Vec<PayMessage>, Error> {
        const TABLE: &str = "orders";
        let rested = self.query(
            "WITH rested AS (
                 DELETE FROM pay_again WHERE (order_id, tr_num) IN (
                     SELECT order_id, tr_num FROM pay_again WHERE shard = $1 AND again_at < (SELECT hub_clock())
                     ORDER BY again_at LIMIT $2 FOR UPDATE SKIP LOCKED)
                 RETURNING order_id, tr_num
             )
             SELECT o.order_id, o.tr_num, o.user_id, o.amount FROM rested r
             CROSS JOIN LATERAL (SELECT * FROM orders WHERE order_id = r.order_id OFFSET 0) o
             WHERE o.tr_num = r.tr_num AND o.state = 'pending'
             ORDER BY o.order_id",
            &[&shard, &i64::from(max)],
        )?;
        let asked = rested.iter().map(|row| {
            let key = try_of(TABLE, row)?;
            let payment = Payment { user_id: id(TABLE, row.get(2))?, amnt: whole(TABLE, row.get(3))? };
            let asked = Said { key, body: Body::Pay(AskedStep::Forward(payment)) };
            Ok(PayMessage::new(asked).expect("the payment side is asked on pay"))
        });
        asked.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_with_the_age_of_the_try_and_are_bounded() {
        assert_eq!(rests_until(0, 0), None);
        assert_eq!(rests_until(0, 999), None);
        assert_eq!(rests_until(0, 1_000), Some(1_500));
        assert_eq!(rests_until(0, 6_000), Some(9_000));
        assert_eq!(rests_until(0, 3_600_000), Some(3_605_000));
        assert_eq!(rests_until(10, 0), None, "a clock that went back");
    }
}
