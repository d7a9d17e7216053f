//! Transfers: one, one with its past, a page of them, and the open holds.

use holdfast_domain::ids::{Millis, TransferId, TransferNo};
use holdfast_domain::transfers::Transfer;
use holdfast_domain::transfers::TransferState::{ReceivedPrepare, Reserved};
use holdfast_domain::views::{NamedChange, NamedTransfer, TransferFilter, TransferStory};
use postgres::Row;

use super::Snapshot;
use crate::guard::unsigned;
use crate::load::{name_of, state_of, transfer_of};
use crate::session::transfer_columns;
use crate::types::{Moment, Uuid, most};
use crate::{Error, Store};

/// Rows that one page looks at, at most: a filter that few match must not read the whole table.
pub const ROWS_LOOKED_AT_MAX: usize = 10_000;

/// Transfers with the names of their parties, as far as the rest of the question says.
macro_rules! named_transfers {
    ($rest:expr) => {
        concat!(
            transfer_columns!(
                "SELECT ",
                ", payer.name, payee.name FROM transfer t
             LEFT JOIN participant payer ON payer.participant_id = t.payer_id
             LEFT JOIN participant payee ON payee.participant_id = t.payee_id "
            ),
            $rest
        )
    };
}

/// After this number, up to that one, in this state or any, of this participant or anybody.
macro_rules! page {
    ($from:literal) => {
        named_transfers!(concat!(
            $from,
            " AND ($3::smallint IS NULL OR t.current_state = $3)
              AND ($4::bigint IS NULL OR t.payer_id = $4 OR t.payee_id = $4)
              ORDER BY t.transfer_no LIMIT $5"
        ))
    };
}

/// The page over all transfers, and the last one that it looks at if there may be more.
const OF_ALL: (&str, &str) = (
    page!("WHERE t.transfer_no > $1 AND t.transfer_no <= $2"),
    "SELECT transfer_no FROM transfer WHERE transfer_no > $1 ORDER BY transfer_no OFFSET $2 LIMIT 1",
);
/// The same over those that can still run out: few, however many have ended.
const OF_OPEN: (&str, &str) = (
    page!(
        "WHERE t.transfer_no IN (SELECT o.transfer_no FROM transfer_timeout o
             WHERE o.transfer_no > $1 AND o.transfer_no <= $2)"
    ),
    "SELECT transfer_no FROM transfer_timeout WHERE transfer_no > $1 ORDER BY transfer_no OFFSET $2 LIMIT 1",
);

impl Store {
    /// The transfer of that id, open or ended.
    pub fn transfer_now(&mut self, id: TransferId) -> Result<Option<Transfer>, Error> {
        Ok(by_id(&mut Snapshot::of(self)?, id)?.map(|found| found.row))
    }

    /// The same with its parties' names, its history and what it did to positions.
    pub fn transfer_shown(&mut self, id: TransferId) -> Result<Option<TransferStory>, Error> {
        let mut snapshot = Snapshot::of(self)?;
        let Some(transfer) = by_id(&mut snapshot, id)? else { return Ok(None) };
        let history = snapshot.query(
            "SELECT transfer_state_id, created_date FROM transfer_state_change
             WHERE transfer_no = $1 ORDER BY transfer_state_change_id",
            &[&number_of(transfer.row.no)],
        )?;
        let history = history.iter().map(|row| {
            let Moment(at) = row.get(1);
            Ok((state_of("transfer_state_change", row.get(0))?, at))
        });
        let history = history.collect::<Result<Vec<_>, Error>>()?;
        // The running values stand in the transfer too: its rows among the changes of an account are found by no index.
        let row = &transfer.row;
        let changes = row.position_changes().into_iter().map(|(account, change, value)| {
            let participant =
                if row.payer_account == Some(account) { transfer.payer } else { transfer.payee };
            NamedChange { participant, change, value }
        });
        Ok(Some(TransferStory { history, changes: changes.collect(), archived: false, transfer }))
    }

    /// At most `limit` transfers after the one of that number, in the order of their numbers, and where to go on if there
    /// may be more. All that were there before the first page are shown; of what came meanwhile some may not be, since
    /// nodes take numbers in blocks.
    pub fn transfers_page(
        &mut self,
        filter: TransferFilter,
        after: Option<TransferNo>,
        limit: usize,
    ) -> Result<(Vec<NamedTransfer>, Option<TransferNo>), Error> {
        self.transfers_page_within(filter, after, limit, ROWS_LOOKED_AT_MAX)
    }

    /// The same with another bound, for tests.
    #[doc(hidden)]
    pub fn transfers_page_within(
        &mut self,
        filter: TransferFilter,
        after: Option<TransferNo>,
        limit: usize,
        look_at: usize,
    ) -> Result<(Vec<NamedTransfer>, Option<TransferNo>), Error> {
        let open = matches!(filter.state, Some(ReceivedPrepare | Reserved));
        let (page, bound) = if open { OF_OPEN } else { OF_ALL };
        let after = after.map_or(-1, number_of);
        let state = filter.state.map(|state| i16::from(state as u8));
        let participant = filter.participant.map(|id| i64::from(id.0));
        let mut snapshot = Snapshot::of(self)?;
        let bound = snapshot.query(bound, &[&after, &most(look_at.saturating_sub(1))])?;
        let bound: Option<i64> = bound.first().map(|row| row.get(0));
        let upto = bound.unwrap_or(i64::MAX);
        let rows = snapshot.query(page, &[&after, &upto, &state, &participant, &most(limit)])?;
        let rows = rows.iter().map(named_of).collect::<Result<Vec<_>, Error>>()?;
        let next = match rows.last() {
            Some(last) if rows.len() == limit => Some(last.row.no),
            _ => bound.map(|bound| unsigned("transfer", bound).map(TransferNo)).transpose()?,
        };
        Ok((rows, next))
    }

    /// Open holds that run out before `before`, by expiration and number, after the one given, at most `limit`. Each shard
    /// gives its first ones by its index, and the first of those are the page.
    pub fn holds_page(
        &mut self,
        before: Millis,
        after: Option<(Millis, TransferNo)>,
        limit: usize,
    ) -> Result<Vec<NamedTransfer>, Error> {
        let shards = i32::from(self.settings.expiry_shards);
        let (expiration, no) =
            after.map_or((Millis::MIN, -1), |(expiration, no)| (expiration, number_of(no)));
        let rows = Snapshot::of(self)?.query(
            named_transfers!(
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
            &[&shards, &Moment(before), &Moment(expiration), &no, &most(limit)],
        )?;
        rows.iter().map(named_of).collect()
    }
}

fn by_id(snapshot: &mut Snapshot<'_>, id: TransferId) -> Result<Option<NamedTransfer>, Error> {
    let sql = named_transfers!("WHERE t.transfer_id = $1");
    snapshot.query(sql, &[&Uuid(id.0)])?.first().map(named_of).transpose()
}

/// Numbers beyond what can be stored are nobody's.
fn number_of(no: TransferNo) -> i64 {
    i64::try_from(no.0).unwrap_or(i64::MAX)
}

/// Reads a row of [`named_transfers`].
fn named_of(row: &Row) -> Result<NamedTransfer, Error> {
    let name = |at: usize| row.get::<_, Option<&str>>(at).map(name_of).transpose();
    Ok(NamedTransfer { row: transfer_of(row)?, payer: name(21)?, payee: name(22)? })
}
