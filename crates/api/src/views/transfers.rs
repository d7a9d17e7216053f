//! `GET /hub/transfers?state=&participant=&after=&limit=`: first the open transfers in order of arrival, then those
//! that have ended in the order in which they ended.
//!
//! In that order nothing is missed between two pages: what ends meanwhile comes again at the end. One request looks at
//! a bounded number of rows; with a filter that few match, a page can be short or empty and still have a `next`. Only
//! `"next": null` is the end.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::ids::{ParticipantId, TransferNo};
use holdfast_domain::participants::Name;
use holdfast_domain::transfers::{Transfer, TransferState};
use holdfast_domain::view::View;
use holdfast_store::{History, LocalStore, Store, StoreError};
use serde_json::{Value, json};

use super::Shown;
use super::filters::{self, Parameters, filters};
use crate::Edge;
use crate::calls::{ask, beside};
use crate::error::ApiError;
use crate::limits::{PAGE_ROWS_MAX, ROWS_LOOKED_AT_MAX};

/// `state`: only transfers that stand in it. `participant`: only those that it pays or is paid by. `after`: the `next`
/// of the page before. `limit`: rows of the page.
pub(crate) async fn transfers(
    State(edge): State<Edge>,
    parameters: Parameters,
) -> Result<Json<Value>, ApiError> {
    let [state, participant, after, limit] = filters(parameters, ["state", "participant", "after", "limit"])?;
    let state = state.as_deref().map(read_state).transpose()?;
    let from = after.as_deref().map_or(Ok(Cursor::Open(TransferNo(0))), read_cursor)?;
    let limit = filters::limit(limit.as_deref())?.clamp(1, PAGE_ROWS_MAX);
    let answer = ask(&edge, move |core| {
        let store = core.store();
        let participant = match &participant {
            None => None,
            Some(name) => {
                let row = Name::new(name).and_then(|name| store.participant_named(name));
                Some(row.ok_or_else(|| no_participant(name))?.id)
            }
        };
        let mut page = Page { wanted: Wanted { state, participant }, limit, rows: Vec::new(), looked_at: 0 };
        let next = page.open(store, from);
        Ok::<_, ApiError>((page, next, store.history(), store.history().end(), store.roster()))
    });
    let (mut page, next, history, end, roster) = answer.await??;
    let (page, next) = match next {
        Some(Cursor::Ended(from)) if page.has_room() => {
            let read = beside(move || page.ended(&history, from, end).map(|next| (page, next))).await?;
            read.map_err(|error| ApiError::store(&error))?
        }
        next => (page, next),
    };
    let shown = page.rows.into_iter().map(|row| Value::Object(Shown::of(&roster, row).summary()));
    let transfers: Vec<Value> = shown.collect();
    Ok(Json(json!({"transfers": transfers, "next": next.map(write_cursor)})))
}

/// Where the next page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cursor {
    /// With the first open transfer of at least this number.
    Open(TransferNo),
    /// At this place among those that have ended.
    Ended(u64),
}

/// Which transfers are shown.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    state: Option<TransferState>,
    participant: Option<ParticipantId>,
}

impl Wanted {
    fn matches(self, row: &Transfer) -> bool {
        self.state.is_none_or(|state| row.state == state)
            && self.participant.is_none_or(|party| row.payer == party || row.payee == party)
    }
}

struct Page {
    wanted: Wanted,
    limit: usize,
    rows: Vec<Transfer>,
    looked_at: usize,
}

impl Page {
    const fn has_room(&self) -> bool {
        self.rows.len() < self.limit && self.looked_at < ROWS_LOOKED_AT_MAX
    }

    fn look_at(&mut self, row: &Transfer) {
        self.looked_at += 1;
        if self.wanted.matches(row) {
            self.rows.push(row.clone());
        }
    }

    /// Fills the page with open transfers; says where to go on.
    fn open(&mut self, store: &LocalStore, from: Cursor) -> Option<Cursor> {
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
    fn ended(&mut self, history: &History, from: u64, end: u64) -> Result<Option<Cursor>, StoreError> {
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

fn read_state(text: &str) -> Result<TransferState, ApiError> {
    let found = TransferState::ALL.into_iter().find(|state| state.name() == text);
    found.ok_or_else(|| ApiError::malformed(format!("state: '{text}' is not a state such as RESERVED")))
}

/// Cursors of those that have ended have a letter in front.
fn write_cursor(cursor: Cursor) -> String {
    match cursor {
        Cursor::Open(no) => no.0.to_string(),
        Cursor::Ended(place) => format!("e{place}"),
    }
}

fn read_cursor(text: &str) -> Result<Cursor, ApiError> {
    let cursor = match text.strip_prefix('e') {
        Some(place) => place.parse().map(Cursor::Ended),
        None => text.parse().map(|no| Cursor::Open(TransferNo(no))),
    };
    cursor.map_err(|_| ApiError::malformed(format!("after: '{text}' is not the 'next' of an earlier page")))
}

fn no_participant(name: &str) -> ApiError {
    let detail = format!("participant: there is no {name}");
    ApiError::new(StatusCode::BAD_REQUEST, ErrorCode::IdNotFound.number(), detail)
}
