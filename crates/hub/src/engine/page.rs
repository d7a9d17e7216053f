//! A page of transfers: first the open ones in order of arrival, then those that have ended in the order in which they
//! ended.
//!
//! In that order nothing is missed between two pages: what ends meanwhile comes again at the end. One page looks at a
//! bounded number of rows.

use holdfast_domain::ids::TransferNo;
use holdfast_domain::transfers::{Transfer, TransferState};
use holdfast_domain::views::TransferFilter;
use holdfast_engine::EngineError;
use holdfast_store::{History, LocalStore, StoreError, Tables};

use crate::limits::ROWS_LOOKED_AT_MAX;

/// Where the next page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cursor {
    /// With the first open transfer of at least this number.
    Open(TransferNo),
    /// At this place among those that have ended.
    Ended(u64),
}

impl Cursor {
    /// Cursors of those that have ended have a letter in front.
    pub(super) fn write(self) -> String {
        match self {
            Cursor::Open(no) => no.0.to_string(),
            Cursor::Ended(place) => format!("e{place}"),
        }
    }

    pub(super) fn read(text: Option<&str>) -> Result<Cursor, EngineError> {
        let Some(text) = text else { return Ok(Cursor::Open(TransferNo(0))) };
        let cursor = match text.strip_prefix('e') {
            Some(place) => place.parse().map(Cursor::Ended),
            None => text.parse().map(|no| Cursor::Open(TransferNo(no))),
        };
        cursor.map_err(|_| EngineError::NoSuchPage(text.to_owned()))
    }
}

pub(super) struct Page {
    wanted: TransferFilter,
    limit: usize,
    pub(super) rows: Vec<Transfer>,
    looked_at: usize,
}

impl Page {
    pub(super) const fn new(wanted: TransferFilter, limit: usize) -> Page {
        Page { wanted, limit, rows: Vec::new(), looked_at: 0 }
    }

    pub(super) const fn has_room(&self) -> bool {
        self.rows.len() < self.limit && self.looked_at < ROWS_LOOKED_AT_MAX
    }

    fn look_at(&mut self, row: &Transfer) {
        self.looked_at += 1;
        if self.wanted.lets_through(row) {
            self.rows.push(row.clone());
        }
    }

    /// Fills the page with open transfers; says where to go on.
    pub(super) fn open(&mut self, store: &LocalStore, from: Cursor) -> Option<Cursor> {
        let Cursor::Open(from) = from else { return Some(from) };
        if self.wanted.state.is_some_and(TransferState::is_final) {
            return Some(Cursor::Ended(0));
        }
        let open = store.open_transfers(from, ROWS_LOOKED_AT_MAX);
        for (at, row) in open.iter().enumerate() {
            self.look_at(row);
            if !self.has_room() && at + 1 < open.len() {
                return Some(Cursor::Open(TransferNo(row.no.0 + 1)));
            }
        }
        match open.last() {
            Some(last) if !self.has_room() => Some(Cursor::Open(TransferNo(last.no.0 + 1))),
            _ => self.wanted.state.is_none_or(TransferState::is_final).then_some(Cursor::Ended(0)),
        }
    }

    /// Fills the page with transfers that have ended before `end`; says where to go on.
    pub(super) fn ended(
        &mut self,
        history: &History,
        from: u64,
        end: u64,
    ) -> Result<Option<Cursor>, StoreError> {
        for row in history.scan(from, end) {
            let (after, row) = row?;
            self.look_at(&row);
            if !self.has_room() {
                return Ok((after < end).then_some(Cursor::Ended(after)));
            }
        }
        Ok(None)
    }
}
