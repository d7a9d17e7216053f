//! What happened to tokens, as the topic is told: in the order of (xid, change_no).
//!
//! A transaction takes its xid when it first writes and shows when it commits, so a lower xid may show later than a higher
//! one. The topic cannot take back what it was told, so it is told only of what lies below the oldest transaction that still
//! runs. Nodes do not wait for that: see `unseen`.
//!
//! Tables may come from another server by a dump, whose transactions had other numbers. Its changes and positions may lie above all
//! that this server will give out for a long time. New changes would count as sent and be removed unsent, and each look of a node
//! would find that it missed something. No change that shows has the number of a transaction that is still to begin, so such
//! rows are told for certain.

use holdfast_messages::{Message as _, TokenEvent};
use postgres::{IsolationLevel, Row};

use super::CHANNEL;
use crate::Error;
use crate::session::Store;
use crate::types::most;

/// The place of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// The transaction.
    pub xid: u64,
    /// The change.
    pub change_no: i64,
}

/// A page ends with the change that goes beyond so many bytes: one may tell of a thousand tokens, and a page of such would be
/// hundreds of megabytes, in memory and on its way.
pub(super) const PAGE_BYTES: i64 = 4 << 20;

const SETTLED: &str = "
    SELECT xid::text, change_no, event FROM (
        SELECT xid, change_no, event,
            sum(octet_length(event)) OVER (ORDER BY xid, change_no) - octet_length(event) AS before
        FROM (
            SELECT xid, change_no, event FROM token_change
            WHERE (xid, change_no) > ($1::text::xid8, $2) AND xid < (SELECT pg_snapshot_xmin(pg_current_snapshot()))
            ORDER BY xid, change_no LIMIT $3) look) page
    WHERE before < $4 ORDER BY xid, change_no";

/// Whether a number of a change, or a position, is still to be given out.
const FROM_ELSEWHERE: &str = "
    SELECT greatest(sent_xid, removed_xid, (SELECT xid FROM token_change ORDER BY xid DESC, change_no DESC LIMIT 1))
        >= pg_snapshot_xmax(pg_current_snapshot())
    FROM token_progress";

pub(super) fn xid_of(text: &str) -> Result<u64, Error> {
    text.parse().map_err(|_| Error::corrupt("token_change", "an xid"))
}

/// Reads an xid, a number and an event, the first of them at `at`.
pub(super) fn change_of(row: &Row, at: usize) -> Result<(Position, TokenEvent), Error> {
    let place = Position { xid: xid_of(row.get(at))?, change_no: row.get(at + 1) };
    let event = TokenEvent::from_json(row.get::<_, &str>(at + 2).as_bytes())
        .map_err(|poison| Error::corrupt("token_change", poison))?;
    Ok((place, event))
}

impl Store {
    /// The changes after that position that nothing older can come before any more, at most `limit` and about 4 MiB, in their
    /// order. Only after an empty page there are no more.
    ///
    /// # Errors
    /// If the database fails, or a change cannot be read.
    pub fn settled_token_changes(
        &mut self,
        after: Position,
        limit: usize,
    ) -> Result<Vec<(Position, TokenEvent)>, Error> {
        let (xid, change_no) = (after.xid.to_string(), after.change_no);
        let rows = self.query(SETTLED, &[&xid, &change_no, &most(limit), &PAGE_BYTES])?;
        rows.iter().map(|row| change_of(row, 0)).collect()
    }

    /// Tells all nodes that there is something to read. It is done already, whether they hear of it at once or when they look.
    pub fn tell_token_change(&mut self) {
        drop(self.try_to_tell_token_change());
    }

    /// The same; whether it could be told.
    pub fn try_to_tell_token_change(&mut self) -> Result<(), Error> {
        Ok(self.client.batch_execute(&format!("NOTIFY {CHANNEL}"))?)
    }

    /// From now on this connection hears what others tell.
    pub fn listen_for_token_changes(&mut self) -> Result<(), Error> {
        Ok(self.client.batch_execute(&format!("LISTEN {CHANNEL}"))?)
    }

    /// Waits until something was told, or for so long; whether something was. All that was told by then counts as heard.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn hear_token_change(&mut self, wait: std::time::Duration) -> Result<bool, Error> {
        use postgres::fallible_iterator::FallibleIterator as _;
        let mut notifications = self.client.notifications();
        let heard = notifications.timeout_iter(wait).next()?.is_some();
        let mut rest = notifications.iter();
        while rest.next()?.is_some() {}
        Ok(heard)
    }

    /// Sets positions and changes of another server right; whether there were any. What the topic has is numbered below all
    /// others, what it has not becomes new. A change that came since, and the topic has, may be sent once more.
    pub fn adopt_token_changes(&mut self) -> Result<bool, Error> {
        if !self.client.query_one(FROM_ELSEWHERE, &[])?.get::<_, bool>(0) {
            return Ok(false);
        }
        self.retrying(Store::adopt_once)
    }

    fn adopt_once(&mut self) -> Result<bool, Error> {
        // One moment: what others write meanwhile is not taken for the old server's.
        let mut tx =
            self.client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start()?;
        tx.execute("SELECT FROM token_progress FOR UPDATE", &[])?;
        if !tx.query_one(FROM_ELSEWHERE, &[])?.get::<_, bool>(0) {
            return Ok(false);
        }
        tx.batch_execute(
            "UPDATE token_change c SET xid = '0' FROM token_progress p
             WHERE c.xid >= (SELECT pg_snapshot_xmax(pg_current_snapshot()))
                 AND (c.xid, c.change_no) <= (p.sent_xid, p.sent_no);
             UPDATE token_change SET xid = pg_current_xact_id()
             WHERE xid >= (SELECT pg_snapshot_xmax(pg_current_snapshot()));
             UPDATE token_progress SET sent_xid = '0', removed_xid = '0', removed_no = 0,
                 sent_no = (SELECT coalesce(max(change_no), 0) FROM token_change WHERE xid = '0')
             WHERE sent_xid >= (SELECT pg_snapshot_xmax(pg_current_snapshot()));
             UPDATE token_progress SET removed_xid = '0', removed_no = 0
             WHERE removed_xid >= (SELECT pg_snapshot_xmax(pg_current_snapshot()))",
        )?;
        tx.commit()?;
        Ok(true)
    }
}
