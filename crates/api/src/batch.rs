//! `POST /hub/batch`: thousands of records in one body. A body is taken whole or, with the first bad record
//! named, not at all. `docs/batch.md` has the format.

mod checkouts;

use std::collections::BTreeSet;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use tokio::time::timeout;

use holdfast_domain::command::Command;
use holdfast_domain::effects::Outcome;
use holdfast_domain::records::batch::Reply;
use holdfast_domain::records::{CheckoutReply, SealError, Sealed, batch};
use holdfast_engine::Refusal;

use crate::Edge;
use crate::bodies::{announced, room_for};
use crate::calls::submit_records;
use crate::error::ApiError;
use crate::gate::{Caller, Sight, check_sources};
use crate::limits::{BATCH_BODY_MAX, BODY_READ_MAX};
use crate::shop::Shop;
use checkouts::{Wanted, check_out_each, checkouts_of, pay_with_tokens};
use holdfast_engine::Profile;

/// Takes a batch and answers when all of it is decided and durable.
pub(crate) async fn batch(
    State(edge): State<Edge>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    expect_batch(&headers)?;
    let length = announced(&headers).unwrap_or(BATCH_BODY_MAX).min(BATCH_BODY_MAX);
    let room = room_for(&edge, length)?;
    let (header, bytes) =
        timeout(BODY_READ_MAX, read_body(&headers, body)).await.map_err(|_| ApiError::slow_body())??;
    let started = Instant::now();
    let count =
        batch::read_request_header(&header).map_err(|error| ApiError::malformed(error.to_string()))?;
    let records = Sealed::from_client(bytes, count as usize).map_err(|error| match error {
        SealError::TooMany(count) => Refusal::TooMany(count).into(),
        SealError::Bad { .. } | SealError::Count { .. } => ApiError::malformed(error.to_string()),
    })?;
    edge.note_parsed(started);
    let checkouts = checkouts_of(records.commands());
    check_profile(&edge, records.commands(), &checkouts)?;
    check_sources(&edge, caller, records.commands()).await?;
    let sights = Sight::of_each(caller, records.commands());
    // From here on the intake's own bounds hold.
    drop(room);
    let replies = match &edge.shop {
        Some(shop) if edge.engine.profile() != Profile::Embedded && !checkouts.is_empty() => {
            // An operator's: no participant may send a checkout.
            at_a_node(&edge, shop, records, checkouts).await?
        }
        _ => at_once(&edge, records, checkouts, &sights).await?,
    };
    Ok(([(CONTENT_TYPE, batch::MEDIA_TYPE)], replies).into_response())
}

/// Has all records decided by the engine.
async fn at_once(
    edge: &Edge,
    records: Sealed,
    checkouts: Vec<Wanted>,
    sights: &[Sight],
) -> Result<Vec<u8>, ApiError> {
    let mut outcomes = submit_records(edge, records).await?;
    outcomes.iter_mut().zip(sights).for_each(|(outcome, sight)| sight.narrow(outcome));
    let unknown = match &edge.shop {
        Some(shop) => pay_with_tokens(shop, checkouts, &mut outcomes).await,
        None => BTreeSet::new(),
    };
    let told = |(at, outcome): (usize, &Outcome)| {
        if unknown.contains(&at) { CheckoutReply::Unknown.to_reply() } else { Reply::from(outcome) }
    };
    Ok(batch::write_told(outcomes.iter().enumerate().map(told)))
}

/// The checkouts of a batch after all else that is in it: as long as that is refused as a whole, none is tried.
async fn at_a_node(
    edge: &Edge,
    shop: &Shop,
    records: Sealed,
    checkouts: Vec<Wanted>,
) -> Result<Vec<u8>, ApiError> {
    let places: BTreeSet<usize> = checkouts.iter().map(|(at, ..)| *at).collect();
    let (_, commands) = records.into_parts();
    let count = commands.len();
    let others = commands.into_iter().enumerate().filter(|(at, _)| !places.contains(at));
    let others: Vec<Command> = others.map(|(_, command)| command).collect();
    let outcomes = match others.is_empty() {
        true => Vec::new(),
        false => submit_records(edge, Sealed::of(&others)).await?,
    };
    let mut told = check_out_each(shop, checkouts).await;
    let mut others = outcomes.iter().map(Reply::from);
    let in_order =
        (0..count).map(|at| told.remove(&at).or_else(|| others.next()).expect("each record has an outcome"));
    Ok(batch::write_told(in_order))
}

/// Refuses a batch with a record that the engine behind this edge does not decide.
fn check_profile(edge: &Edge, commands: &[Command], checkouts: &[Wanted]) -> Result<(), ApiError> {
    let profile = edge.engine.profile();
    if profile == Profile::Embedded {
        return Ok(());
    }
    if let Some((at, ..)) = checkouts.iter().find(|(_, order, _)| order.as_str().contains('\0')) {
        return Err(ApiError::malformed(format!("record {at}: an id must not contain NUL")));
    }
    let is_there = |command: &Command| match command {
        Command::Shop(_) => edge.shop.is_some(),
        command => !matches!(command, Command::Token(_)),
    };
    match commands.iter().position(|command| !is_there(command)) {
        None => Ok(()),
        Some(at) => Err(ApiError::malformed(format!(
            "record {at}: this node has no shop, or it is a token's, which are not in batches of the database profile; see /tokens"
        ))),
    }
}

/// A media type of our own cannot be sent by a foreign page without asking first.
fn expect_batch(headers: &HeaderMap) -> Result<(), ApiError> {
    let sent = headers.get(CONTENT_TYPE).map_or(b"".as_slice(), |value| value.as_bytes());
    if sent == batch::MEDIA_TYPE.as_bytes() {
        return Ok(());
    }
    Err(ApiError::malformed(format!("a batch has the Content-Type {}", batch::MEDIA_TYPE)))
}

/// Reads the body in one copy: the sixteen bytes of its header apart from the records.
async fn read_body(
    headers: &HeaderMap,
    mut body: Body,
) -> Result<([u8; batch::HEADER_LEN], Vec<u8>), ApiError> {
    let too_large = || ApiError::too_large(format!("a batch has at most {BATCH_BODY_MAX} bytes"));
    let announced = announced(headers);
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
