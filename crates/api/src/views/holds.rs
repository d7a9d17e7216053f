//! `GET /hub/holds?before=&after=&limit=`: open holds, the next to run out first.

use axum::Json;
use axum::extract::State;
use holdfast_domain::ids::{Millis, TransferNo};
use holdfast_wire::views::HoldPage;

use super::filters::{self, Parameters, filters};
use super::transfers::row;
use crate::Edge;
use crate::calls::read;
use crate::error::ApiError;
use crate::times;

/// `before`: only holds that run out before this instant. `after`: the `next` of the page before. `limit`: rows of the
/// page.
pub(crate) async fn holds(
    State(edge): State<Edge>,
    parameters: Parameters,
) -> Result<Json<HoldPage>, ApiError> {
    let [before, after, limit] = filters(parameters, ["before", "after", "limit"])?;
    let before = match before.as_deref() {
        None => Millis::MAX,
        Some(text) => times::parse(text).ok_or_else(|| {
            ApiError::malformed(format!("before: '{text}' is not a time such as 2026-11-15T08:24:36.000Z"))
        })?,
    };
    let after = match after.as_deref() {
        None => None,
        Some(text) => Some(read_cursor(text).ok_or_else(|| {
            ApiError::malformed(format!("after: '{text}' is not the 'next' of an earlier page"))
        })?),
    };
    let limit = filters::rows(limit.as_deref())?;
    let page = read(edge.engine.holds(before, after, limit)).await?;
    let last = page.last().filter(|_| page.len() == limit);
    let next = last.map(|shown| write_cursor(shown.row.expiration, shown.row.no));
    Ok(Json(HoldPage { holds: page.iter().map(row).collect(), next: next.into() }))
}

fn write_cursor(expiration: Millis, no: TransferNo) -> String {
    format!("{expiration}-{}", no.0)
}

fn read_cursor(text: &str) -> Option<(Millis, TransferNo)> {
    let (expiration, no) = text.split_once('-')?;
    Some((expiration.parse().ok()?, TransferNo(no.parse().ok()?)))
}
