//! What happened to tokens, in the order of (xid, change_no).
//!
//! A transaction takes its xid when it first writes and shows when it commits, so a lower xid may show later than a higher
//! one. A reader therefore sees all that shows, and goes on from below the oldest transaction that still runs: what lies above
//! is read again. Whoever reads takes each event as often as it comes.

use holdfast_domain::ids::Millis;
use holdfast_messages::{Message as _, TokenEvent};

use super::CHANNEL;
use crate::Error;
use crate::session::Store;
use crate::types::Moment;

/// Up to where changes were read for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// The transaction.
    pub xid: u64,
    /// The change.
    pub change_no: i64,
}

/// What was read.
#[derive(Debug, Default)]
pub struct Changes {
    /// The events, with the place of each.
    pub events: Vec<(Position, TokenEvent)>,
    /// Where the next reading begins.
    pub next: Position,
    /// Whether changes between the position and these were removed: whoever reads must begin anew.
    pub gap: bool,
    /// Whether there may be more than were asked for.
    pub more: bool,
    /// The database's time.
    pub time: Millis,
}

const CHANGES: &str = "
    SELECT (p.removed_xid, p.removed_no) > ($1::text::xid8, $2), hub_clock(), c.xid::text, c.change_no, c.event, c.settled
    FROM token_progress p LEFT JOIN LATERAL (
        SELECT xid, change_no, event, xid < pg_snapshot_xmin(pg_current_snapshot()) AS settled
        FROM token_change WHERE (xid, change_no) > ($1::text::xid8, $2)
        ORDER BY xid, change_no LIMIT $3
    ) c ON true";

pub(super) fn xid_of(text: &str) -> Result<u64, Error> {
    text.parse().map_err(|_| Error::corrupt("token_change", "an xid"))
}

impl Store {
    /// From where on a reader that begins now must read: nothing that is to come lies below. With the database's time.
    ///
    /// # Errors
    /// If the database fails.
    pub fn newest_token_change(&mut self) -> Result<(Position, Millis), Error> {
        let sql = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text, hub_clock()";
        let row = self.client.query_one(sql, &[])?;
        let Moment(time) = row.get(1);
        Ok((Position { xid: xid_of(row.get(0))?, change_no: 0 }, time))
    }

    /// The changes after that position that show now, at most `limit`.
    ///
    /// # Errors
    /// If the database fails, or a change cannot be read.
    pub fn token_changes(&mut self, after: Position, limit: usize) -> Result<Changes, Error> {
        let limit_rows = i64::try_from(limit).unwrap_or(i64::MAX);
        let statement = self.statements.asked.prepared(&mut self.client, CHANGES)?;
        let rows = self.client.query(&statement, &[&after.xid.to_string(), &after.change_no, &limit_rows])?;
        let mut changes = Changes { next: after, ..Changes::default() };
        for row in rows {
            changes.gap = row.get(0);
            let Moment(time) = row.get(1);
            changes.time = time;
            let Some(number) = row.get::<_, Option<&str>>(2) else { continue };
            let place = Position { xid: xid_of(number)?, change_no: row.get(3) };
            let event = TokenEvent::from_json(row.get::<_, &str>(4).as_bytes())
                .map_err(|poison| Error::corrupt("token_change", poison))?;
            changes.events.push((place, event));
            if row.get(5) {
                changes.next = place;
            }
        }
        changes.more = changes.events.len() == limit;
        Ok(changes)
    }

    /// Tells all nodes that there is something to read.
    ///
    /// # Errors
    /// If the database fails.
    pub fn tell_token_change(&mut self) -> Result<(), Error> {
        Ok(self.client.batch_execute(&format!("NOTIFY {CHANNEL}"))?)
    }

    /// From now on this connection hears what others tell.
    ///
    /// # Errors
    /// If the database fails.
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
}
