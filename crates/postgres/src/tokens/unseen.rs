//! What happened to tokens and a node has not seen yet.
//!
//! Transactions commit in any order, so no number says how far a reader has come. What it has seen is a set of transactions:
//! all that showed at one moment. What it has not seen are those that ran at that moment and all that came later; each shows
//! once, whenever it commits, and is read then. What stays open for long is not read again and again, and delays nobody.

use holdfast_domain::ids::Millis;
use holdfast_messages::TokenEvent;

use super::changes::{PAGE_BYTES, Position, change_of, xid_of};
use crate::session::Store;
use crate::types::{Moment, list, most};
use crate::{Error, Settings};

/// The changes that a reader has seen: all of transactions below `next`, but for those that ran.
///
/// `next` follows the changes that were read and not the numbers that were given out: after a crash the server may give out
/// again what left no trace, but never the number of a change that showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    next: u64,
    /// In rising order; as many as the server has connections, at most.
    running: Vec<u64>,
}

impl Seen {
    /// As PostgreSQL writes a snapshot: `xmin:xmax:xip,xip,…`. Subtransactions are not in it, nor in a change's xid.
    fn of_snapshot(text: &str) -> Result<Seen, Error> {
        let wrong = || Error::corrupt("token_change", format!("the snapshot '{text}'"));
        let mut parts = text.splitn(3, ':').skip(1);
        let (next, running) = (parts.next().ok_or_else(wrong)?, parts.next().ok_or_else(wrong)?);
        let numbers = running.split(',').filter(|number| !number.is_empty());
        let mut running = numbers.map(xid_of).collect::<Result<Vec<u64>, Error>>()?;
        running.sort_unstable();
        Ok(Seen { next: xid_of(next)?, running })
    }

    fn has(&self, xid: u64) -> bool {
        xid < self.next && self.running.binary_search(&xid).is_err()
    }

    /// The same, if there are no changes of transactions from `next` on.
    fn up_to(self, next: u64) -> Seen {
        let next = next.min(self.next);
        Seen { next, running: self.running.into_iter().filter(|xid| *xid < next).collect() }
    }

    /// Whether a change that was not seen may be among those that were removed. `removed`: the last of those; `read`: up to
    /// where this reading has come.
    fn misses(&self, removed: Position, read: Position) -> bool {
        let may_be_gone = |xid: &u64| (read.xid..=removed.xid).contains(xid);
        removed > read && (removed.xid >= self.next || self.running.iter().any(may_be_gone))
    }

    /// The place before the first change of a transaction that was to come.
    fn end(&self) -> Position {
        self.next.checked_sub(1).map_or_else(Position::default, |xid| Position { xid, change_no: i64::MAX })
    }
}

/// A reading that is on its way.
#[derive(Debug, Clone)]
pub struct Page {
    /// What showed when it began: it ends there, however much comes meanwhile.
    until: Seen,
    /// The last change that was read.
    after: Position,
}

/// How a reading goes on.
#[derive(Debug)]
pub enum Next {
    /// All was read: this is seen now.
    Seen(Seen),
    /// There is more.
    Page(Page),
}

/// Changes that were not seen yet.
#[derive(Debug)]
pub struct Unseen {
    /// The changes, in an order in which nothing was spent before it came.
    pub events: Vec<TokenEvent>,
    /// How the reading goes on.
    pub next: Next,
    /// Whether changes were removed that this reader has not seen, or the tables are of another server: whoever reads must
    /// begin anew.
    pub gap: bool,
    /// The database's time.
    pub time: Millis,
}

/// Both parts are read from the key, whatever is planned: what has come to its end since, and what is new. The moment stands
/// in a query of its own, or it would be asked for row by row.
const UNSEEN: &str = "
    WITH present AS MATERIALIZED (SELECT pg_current_snapshot()::text AS snapshot, hub_clock() AS time)
    SELECT m.snapshot, m.time, p.removed_xid::text, p.removed_no, c.xid::text, c.change_no, c.event
    FROM present m CROSS JOIN token_progress p LEFT JOIN LATERAL (
        SELECT *, sum(octet_length(event)) OVER (ORDER BY xid, change_no) - octet_length(event) AS before FROM (
            (SELECT xid, change_no, event FROM token_change
             WHERE xid = ANY($1::text[]::xid8[]) AND (xid, change_no) > ($2::text::xid8, $3)
             ORDER BY xid, change_no LIMIT $6)
            UNION ALL
            (SELECT xid, change_no, event FROM token_change WHERE (xid, change_no) > ($4::text::xid8, $5)
             ORDER BY xid, change_no LIMIT $6)
            ORDER BY xid, change_no LIMIT $6) look
    ) c ON c.before < $7";

impl Store {
    /// A connection that looks for changes again and again: the look is planned once and for all.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_for_changes(url: &str, settings: Settings) -> Result<Store, Error> {
        let mut store = Store::open(url, settings)?;
        store.client.batch_execute("SET plan_cache_mode = force_generic_plan")?;
        Ok(store)
    }

    /// What a reader that begins now has no need to see. With the database's time.
    pub fn all_token_changes_seen(&mut self) -> Result<(Seen, Millis), Error> {
        let row = self.client.query_one(
            "SELECT pg_current_snapshot()::text, hub_clock(), greatest(p.removed_xid,
                 (SELECT xid FROM token_change ORDER BY xid DESC, change_no DESC LIMIT 1))::text
             FROM token_progress p",
            &[],
        )?;
        let Moment(time) = row.get(1);
        let last = xid_of(row.get(2))?;
        Ok((Seen::of_snapshot(row.get(0))?.up_to(last.saturating_add(1)), time))
    }

    /// Changes that show and were not seen, at most `limit` rows and about 4 MiB; `page`: where this reading has come to, `None` at its
    /// beginning. Each comes once, if the reading comes to its end.
    ///
    /// # Errors
    /// If the database fails, or a change cannot be read.
    pub fn unseen_token_changes(
        &mut self,
        seen: &Seen,
        page: Option<&Page>,
        limit: usize,
    ) -> Result<Unseen, Error> {
        let after = page.map_or_else(Position::default, |page| page.after);
        let from = after.max(seen.end());
        let rows = self.query(
            UNSEEN,
            &[
                &list(&seen.running, u64::to_string),
                &after.xid.to_string(),
                &after.change_no,
                &from.xid.to_string(),
                &from.change_no,
                &most(limit),
                &PAGE_BYTES,
            ],
        )?;
        let first = rows.first().ok_or_else(|| Error::corrupt("token_progress", "no row"))?;
        let Moment(time) = first.get(1);
        let shows = Seen::of_snapshot(first.get(0))?;
        let removed = Position { xid: xid_of(first.get(2))?, change_no: first.get(3) };
        // Numbers of transactions rise: where they have fallen, it is not the server of before.
        let gap = seen.misses(removed, after) || shows.next < seen.next;
        let until = page.map_or(shows, |page| page.until.clone());
        let (mut last, mut read, mut bytes, mut changes) = (after, 0, 0, Vec::new());
        for row in rows.iter().filter(|row| row.get::<_, Option<&str>>(4).is_some()) {
            let (place, event) = change_of(row, 4)?;
            (last, read, bytes) = (last.max(place), read + 1, bytes + row.get::<_, &str>(6).len());
            if until.has(place.xid) {
                changes.push((place.change_no, event));
            }
        }
        // What needs another's doing was numbered after it, though its transaction may have begun before.
        changes.sort_by_key(|(change_no, _)| *change_no);
        let events = changes.into_iter().map(|(_, event)| event).collect();
        let full = read == limit || i64::try_from(bytes).is_ok_and(|bytes| bytes >= PAGE_BYTES);
        let next = if full && last.xid < until.next {
            Next::Page(Page { until, after: last })
        } else {
            Next::Seen(until.up_to(seen.next.max(last.xid.saturating_add(1))))
        };
        Ok(Unseen { events, next, gap, time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> Seen {
        Seen::of_snapshot(text).unwrap()
    }

    const fn place(xid: u64, change_no: i64) -> Position {
        Position { xid, change_no }
    }

    #[test]
    fn a_snapshot_is_read_as_the_server_writes_it() {
        let snapshot = seen("10:20:10,14");
        let shown: Vec<u64> = (8..22).filter(|xid| snapshot.has(*xid)).collect();
        assert_eq!(shown, [8, 9, 11, 12, 13, 15, 16, 17, 18, 19]);
        assert_eq!(seen("7:7:"), Seen { next: 7, running: Vec::new() });
        for wrong in ["", "7", "7:8", "7:x:", "7:8:y"] {
            assert!(Seen::of_snapshot(wrong).is_err(), "{wrong}");
        }
    }

    /// Numbers that left no change may be given out again; those of changes may not.
    #[test]
    fn what_is_seen_ends_at_the_last_change() {
        let read = seen("10:20:10,14,18").up_to(16);
        assert_eq!(read, Seen { next: 16, running: vec![10, 14] });
        assert_eq!(read.clone().up_to(30), read, "nothing is seen that did not show");
        assert_eq!(read.end(), place(15, i64::MAX));
        assert_eq!(seen("0:0:").end(), place(0, 0));
    }

    #[test]
    fn only_what_was_not_seen_is_missed() {
        let read = seen("10:20:10,14");
        let nothing = place(0, 0);
        assert!(!read.misses(place(9, 5), nothing), "all of it was seen");
        assert!(read.misses(place(10, 1), nothing), "it ran, and has come and gone");
        assert!(read.misses(place(12, 1), nothing), "what ran below may be gone with it");
        assert!(read.misses(place(20, 1), nothing), "it was to come");
        // In the middle of a reading, what it has read may go.
        assert!(!read.misses(place(20, 1), place(20, 1)));
        assert!(!read.misses(place(16, 1), place(15, 1)));
        assert!(read.misses(place(20, 2), place(20, 1)));
        assert!(read.misses(place(14, 9), place(14, 8)), "the rest of a transaction");
    }
}
