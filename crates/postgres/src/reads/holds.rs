//! Open holds, the next to run out first.

use holdfast_domain::ids::{Millis, TransferNo};
use holdfast_domain::views::NamedTransfer;

use super::transfers::number_of;
use super::{Snapshot, named_of, named_transfers};
use crate::types::Moment;
use crate::{Error, Store};

impl Store {
    /// Open holds that run out before `before`, by expiration and number, after the one given, at most `limit`. Each shard
    /// gives its first ones by its index, and the first of those are the page.
    ///
    /// # Errors
    /// If the database fails.
    pub fn holds_page(
        &mut self,
        before: Millis,
        after: Option<(Millis, TransferNo)>,
        limit: usize,
    ) -> Result<Vec<NamedTransfer>, Error> {
        let shards = i32::from(self.settings.expiry_shards);
        let (expiration, no) =
            after.map_or((Millis::MIN, -1), |(expiration, no)| (expiration, number_of(no)));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut snapshot = Snapshot::of(self)?;
        let rows = snapshot.query(
            concat!(
                named_transfers!(),
                "WHERE t.transfer_no = ANY(ARRAY(
                     SELECT first.transfer_no FROM generate_series(0, $1::int - 1) AS s (shard)
                     CROSS JOIN LATERAL (
                         SELECT o.transfer_no, o.expiration_date FROM transfer_timeout o
                         WHERE o.shard = s.shard AND o.expiration_date < $2 AND o.expiration_date >= $3
                             AND (o.expiration_date > $3 OR o.transfer_no > $4)
                         ORDER BY o.expiration_date, o.transfer_no LIMIT $5
                     ) first
                     ORDER BY first.expiration_date, first.transfer_no LIMIT $5
                 )) ORDER BY t.expiration_date, t.transfer_no"
            ),
            &[&shards, &Moment(before), &Moment(expiration), &no, &limit],
        )?;
        snapshot.end()?;
        rows.iter().map(named_of).collect()
    }
}
