//! `POST /hub/batch`: thousands of records in one body. A body is taken whole or, with the first bad record
//! named, not at all. `docs/batch.md` has the format.

use std::time::Instant;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use tokio::time::timeout;

use holdfast_domain::command::Command;
use holdfast_domain::records::{self, batch};
use holdfast_hub::Refusal;

use crate::Edge;
use crate::calls::submit_records;
use crate::error::ApiError;
use crate::gate::{Caller, check_sources};
use crate::limits::{BATCH_BODY_MAX, BODY_READ_MAX};

/// Takes a batch and answers when all of it is decided and durable.
pub(crate) async fn batch(
    State(edge): State<Edge>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let (header, mut bytes) =
        timeout(BODY_READ_MAX, read_body(&headers, body)).await.map_err(|_| ApiError::slow_body())??;
    let started = Instant::now();
    let count =
        batch::read_request_header(&header).map_err(|error| ApiError::malformed(error.to_string()))?;
    let commands = seal_records(&mut bytes, count as usize)?;
    edge.parse.increment(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
    check_sources(&edge, caller, &commands).await?;
    let outcomes = submit_records(&edge, bytes, commands).await?;
    Ok(([(CONTENT_TYPE, batch::MEDIA_TYPE)], batch::write_replies(&outcomes)).into_response())
}

/// Fills in the hashes and parses the records.
fn seal_records(bytes: &mut [u8], count: usize) -> Result<Vec<Command>, ApiError> {
    if count > holdfast_hub::limits::BATCH_RECORDS_MAX {
        return Err(Refusal::TooMany(count).into());
    }
    let mut commands = Vec::with_capacity(count);
    let mut at = 0;
    while at < bytes.len() {
        let (command, length) = records::seal(&mut bytes[at..])
            .map_err(|error| ApiError::malformed(format!("record {}: {error}", commands.len())))?;
        commands.push(command);
        at += length;
    }
    if commands.len() != count {
        let found = commands.len();
        return Err(ApiError::malformed(format!("the header counts {count} records, the body has {found}")));
    }
    Ok(commands)
}

/// Reads the body in one copy: the sixteen bytes of its header apart from the records.
async fn read_body(
    headers: &HeaderMap,
    mut body: Body,
) -> Result<([u8; batch::HEADER_LEN], Vec<u8>), ApiError> {
    let too_large = || ApiError::too_large(format!("a batch has at most {BATCH_BODY_MAX} bytes"));
    let announced: Option<usize> =
        headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()).and_then(|text| text.parse().ok());
    if announced.is_some_and(|length| length > BATCH_BODY_MAX) {
        return Err(too_large());
    }
    let mut header = [0; batch::HEADER_LEN];
    let mut header_filled = 0;
    let mut records = Vec::with_capacity(announced.unwrap_or(0).saturating_sub(batch::HEADER_LEN));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ApiError::malformed(format!("the body broke off: {error}")))?;
        let Some(mut chunk) = frame.data_ref().map(|data| &data[..]) else { continue };
        if header_filled < header.len() {
            let taken = chunk.len().min(header.len() - header_filled);
            header[header_filled..header_filled + taken].copy_from_slice(&chunk[..taken]);
            header_filled += taken;
            chunk = &chunk[taken..];
        }
        if records.len() + chunk.len() > BATCH_BODY_MAX - batch::HEADER_LEN {
            return Err(too_large());
        }
        records.extend_from_slice(chunk);
    }
    if header_filled < header.len() {
        return Err(ApiError::malformed(batch::BatchError::NotABatch.to_string()));
    }
    Ok((header, records))
}
