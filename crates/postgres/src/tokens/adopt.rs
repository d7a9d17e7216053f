//! Tables that came from another server by a dump: its transactions had other numbers.
//!
//! Changes and positions of the old server may lie above all that this one will give out for a long time. New changes would
//! count as sent and be removed unsent, and each look of a node would find that it missed something. No change that shows has
//! the number of a transaction that is still to begin, so such rows are told for certain.

use postgres::IsolationLevel;

use crate::Error;
use crate::session::Store;

/// Whether a number of a change, or a position, is still to be given out.
const FROM_ELSEWHERE: &str = "
    SELECT greatest(sent_xid, removed_xid, (SELECT xid FROM token_change ORDER BY xid DESC, change_no DESC LIMIT 1))
        >= pg_snapshot_xmax(pg_current_snapshot())
    FROM token_progress";

impl Store {
    /// Sets positions and changes of another server right; whether there were any. What the topic has is numbered below all
    /// others, what it has not becomes new. A change that came since, and the topic has, may be sent once more.
    ///
    /// # Errors
    /// If the database fails.
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
