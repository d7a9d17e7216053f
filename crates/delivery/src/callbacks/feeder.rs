//! From the store into the lanes, as far as there is room.
//!
//! Two readers share the work. One reads each new row once and puts it into its participant's lane; a participant whose
//! lane is full falls **behind**, and its rows are passed over from then on. The other reads again for those that are
//! behind, a page at a time and each in its turn, when their lanes have drained to the half; whoever has come up to the
//! first reader is behind no more. So a participant that is gone costs the others nothing, and memory holds no more
//! than the lanes do.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_domain::ids::ParticipantId;
use holdfast_hub::{CallbackFeed, CallbackRow};
use holdfast_store::StoreError;

use super::callback::Callback;
use super::ends::Step;
use super::logged::CallbackLanes;
use super::requests::Requests;
use crate::options::ROWS_READ_MAX;

/// Rows in the order of their numbers; the hub's, or those of a test.
pub(super) trait Rows: Send + Sync + 'static {
    /// Why they cannot be read.
    type Error: Display;

    /// How many are durable.
    fn durable(&self) -> u64;

    /// Those with numbers from `from` to `to`, without the ones that were removed.
    fn read(&self, from: u64, to: u64) -> Result<Vec<CallbackRow>, Self::Error>;
}

impl Rows for Arc<CallbackFeed> {
    type Error = StoreError;

    fn durable(&self) -> u64 {
        CallbackFeed::durable(self)
    }

    fn read(&self, from: u64, to: u64) -> Result<Vec<CallbackRow>, StoreError> {
        self.rows(from, to).collect()
    }
}

/// Fills lanes with rows.
pub(super) struct Feeder<D: Requests, R> {
    pub(super) lanes: Arc<CallbackLanes<D>>,
    rows: R,
    /// Who was served last of those that are behind. Held while lanes and what is remembered change together.
    turn: Mutex<Option<ParticipantId>>,
}

impl<D: Requests, R: Rows> Feeder<D, R> {
    pub(super) fn new(lanes: Arc<CallbackLanes<D>>, rows: R) -> Feeder<D, R> {
        lanes.source.ended.cut_to(rows.durable());
        Feeder { lanes, rows, turn: Mutex::default() }
    }

    fn turn(&self) -> MutexGuard<'_, Option<ParticipantId>> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts back into lanes what an earlier run had there; a page of it, from `from` on. Gives where to go on, until
    /// there is no more. Must come first: these are the oldest.
    pub(super) fn restore(&self, from: u64) -> Result<Option<u64>, R::Error> {
        let lanes = &self.lanes;
        let mut open = lanes.source.ended.open_within(from, ROWS_READ_MAX);
        let (Some(first), Some(last)) = (open.first().copied(), open.last().copied()) else {
            lanes.source.ended.behind().keys().for_each(|to| lanes.set_behind(*to, true));
            return Ok(None);
        };
        for row in self.rows.read(first, last + 1)? {
            if open.remove(&row.number) {
                lanes.resume(row.to, Callback::new(row), 0);
            }
        }
        missing(open.len() as u64, first);
        open.into_iter().for_each(|number| lanes.source.ended.was_removed(number));
        Ok(Some(last + 1))
    }

    /// Takes up the next page of new rows; `false` if there are none. `before` is called with each row that goes into
    /// a lane.
    pub(super) fn take(&self, mut before: impl FnMut(&CallbackRow)) -> Result<bool, R::Error> {
        let lanes = &self.lanes;
        let from = lanes.source.ended.mark();
        let mark = self.rows.durable().min(from + ROWS_READ_MAX);
        if from >= mark {
            return Ok(false);
        }
        let rows = self.rows.read(from, mark)?;
        missing((mark - from).saturating_sub(rows.len() as u64), from);
        let _turn = self.turn();
        let mut behind: BTreeSet<ParticipantId> = lanes.source.ended.behind().into_keys().collect();
        let had_ended = lanes.source.ended.ended_ahead(&rows);
        let mut step = Step { mark, ..Step::default() };
        let mut taken = Vec::new();
        for row in rows {
            if behind.contains(&row.to) {
                continue;
            }
            if had_ended.contains(&row.number) {
                step.passed.push((row.to, row.number));
            } else if lanes.reserve(row.to) {
                step.taken.push(row.number);
                taken.push(row);
            } else {
                behind.insert(row.to);
                step.behind.push((row.to, row.number));
            }
        }
        let fallen: Vec<ParticipantId> = step.behind.iter().map(|(to, _)| *to).collect();
        lanes.source.ended.apply(step);
        for row in taken {
            before(&row);
            lanes.put(row.to, Callback::new(row), 0);
        }
        fallen.into_iter().for_each(|to| lanes.set_behind(to, true));
        Ok(true)
    }

    /// Reads one page for the next participant that is behind and has room in its lane, and for all others whose turn
    /// it is there; `false` if there is none.
    pub(super) fn refill(&self) -> Result<bool, R::Error> {
        let lanes = &self.lanes;
        let (mut wanting, mark) = (lanes.source.ended.behind(), lanes.source.ended.mark());
        wanting.retain(|to, _| lanes.is_wanting(*to));
        let Some((next, from)) = after(&wanting, *self.turn()) else { return Ok(false) };
        let end = mark.min(from + ROWS_READ_MAX);
        let rows = self.rows.read(from, end)?;
        let mut turn = self.turn();
        *turn = Some(next);
        wanting.retain(|_, at| (from..end).contains(at));
        let had_ended = lanes.source.ended.ended_ahead(&rows);
        let mut step = Step::default();
        let mut taken = Vec::new();
        for row in rows {
            // What is full is taken out, and so are those that are not behind.
            let Some(at) = wanting.get(&row.to) else { continue };
            if row.number < *at {
                continue;
            }
            if had_ended.contains(&row.number) {
                step.passed.push((row.to, row.number));
            } else if lanes.reserve(row.to) {
                step.taken.push(row.number);
                taken.push(row);
            } else {
                wanting.remove(&row.to);
                step.behind.push((row.to, row.number));
            }
        }
        step.behind.extend(wanting.keys().map(|to| (*to, end)));
        lanes.source.ended.apply(step);
        for row in taken {
            lanes.put(row.to, Callback::new(row), 0);
        }
        let behind = lanes.source.ended.behind();
        for to in wanting.into_keys().filter(|to| !behind.contains_key(to)) {
            lanes.set_behind(to, false);
        }
        Ok(true)
    }
}

/// The next after the one that was served last, and from the first again.
fn after(
    wanting: &BTreeMap<ParticipantId, u64>,
    last: Option<ParticipantId>,
) -> Option<(ParticipantId, u64)> {
    let later = last.and_then(|last| wanting.range((Bound::Excluded(last), Bound::Unbounded)).next());
    later.or_else(|| wanting.first_key_value()).map(|(to, from)| (*to, *from))
}

/// Rows that had not ended are gone: a file of the store is missing, or the memory of ends is older than the rows.
fn missing(count: u64, from: u64) {
    if count > 0 {
        tracing::error!(
            count,
            from,
            "callbacks that had not ended are not on the disk and cannot be delivered"
        );
        metrics::counter!("holdfast_callbacks_missing_total").increment(count);
    }
}
