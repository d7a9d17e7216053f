//! `POST /hub/batch`: thousands of records in one body. A body is taken whole or, with the first bad record
//! named, not at all. `docs/batch.md` has the format.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::timeout;

use holdfast_domain::command::Command;
use holdfast_domain::effects::Outcome;
use holdfast_domain::records::batch::Reply;
use holdfast_domain::records::{CheckoutReply, SealError, Sealed, batch};
use holdfast_domain::shop::{CheckoutAnswer, OrderId, ShopCommand, ShopOutcome, ShopRefusal};
use holdfast_hub::shop::limits::TOKENS_WAIT_MS;
use holdfast_hub::shop::{CheckoutRequest, ShopDesk};
use holdfast_hub::{Refusal, ShopError};

use crate::Edge;
use crate::calls::submit_records;
use crate::engine::Profile;
use crate::error::ApiError;
use crate::gate::{Caller, check_sources};
use crate::limits::{BATCH_BODY_MAX, BATCH_CHECKOUTS_TOGETHER, BODY_PERMIT_BYTES, BODY_READ_MAX};
use crate::shop::{Failure, answered};

/// Takes a batch and answers when all of it is decided and durable.
pub(crate) async fn batch(
    State(edge): State<Edge>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    expect_batch(&headers)?;
    let room = room_for(&edge, &headers)?;
    let (header, bytes) =
        timeout(BODY_READ_MAX, read_body(&headers, body)).await.map_err(|_| ApiError::slow_body())??;
    let started = Instant::now();
    let count =
        batch::read_request_header(&header).map_err(|error| ApiError::malformed(error.to_string()))?;
    let records = Sealed::from_client(bytes, count as usize).map_err(|error| match error {
        SealError::TooMany(count) => Refusal::TooMany(count).into(),
        SealError::Bad { .. } | SealError::Count { .. } => ApiError::malformed(error.to_string()),
    })?;
    edge.parse.increment(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
    check_profile(&edge, records.commands())?;
    check_sources(&edge, caller, records.commands()).await?;
    // From here on the intake's own bounds hold.
    drop(room);
    let checkouts = checkouts_of(records.commands());
    let mut outcomes = submit_records(&edge, records).await?;
    let unknown = match &edge.hub {
        Some(hub) => pay_with_tokens(hub.shop(), checkouts, &mut outcomes).await,
        None => BTreeSet::new(),
    };
    let told = |(at, outcome): (usize, &Outcome)| {
        if unknown.contains(&at) { CheckoutReply::Unknown.to_reply() } else { Reply::from(outcome) }
    };
    let replies = batch::write_told(outcomes.iter().enumerate().map(told));
    Ok(([(CONTENT_TYPE, batch::MEDIA_TYPE)], replies).into_response())
}

/// Refuses a batch with a record that the engine behind this edge does not decide.
fn check_profile(edge: &Edge, commands: &[Command]) -> Result<(), ApiError> {
    let profile = edge.engine.profile();
    if profile == Profile::Embedded {
        return Ok(());
    }
    match commands.iter().position(|command| !profile.has(command)) {
        None => Ok(()),
        Some(at) => Err(ApiError::malformed(format!(
            "record {at}: in a cluster tokens and the shop are not in batches; they have /tokens and /shop"
        ))),
    }
}

/// Which of a batch are checkouts: their places, orders and deadlines.
fn checkouts_of(commands: &[Command]) -> Vec<(usize, OrderId, u32)> {
    let checkout = |(at, command): (usize, &Command)| match command {
        Command::Shop(command) => match &**command {
            ShopCommand::Checkout(checkout) => Some((at, checkout.order.clone(), checkout.deadline_ms)),
            _ => None,
        },
        _ => None,
    };
    commands.iter().enumerate().filter_map(checkout).collect()
}

/// What is known of a checkout that was asked for anew.
#[derive(Debug, PartialEq, Eq)]
enum Known {
    Told(ShopOutcome),
    NothingTried,
    /// It may have been tried or not.
    Nothing,
}

fn known(answer: Result<CheckoutAnswer, Failure>) -> Known {
    match answer {
        Ok(answer) => Known::Told(ShopOutcome::Checkout(answer)),
        Err(Failure::Shop(ShopError::Refused(refusal))) => Known::Told(ShopOutcome::Refused(refusal)),
        Err(
            Failure::NoAnswer | Failure::Shop(ShopError::Hub(Refusal::Unknown(_)) | ShopError::Unreadable(_)),
        ) => Known::Nothing,
        Err(_) => Known::NothingTried,
    }
}

/// Where tokens pay, a record of a batch names none: the log has refused it, and it is asked for anew with tokens that the hub
/// chooses. One that cannot be asked for keeps its refusal, and nothing was tried of it. Gives the places of those of which that
/// is not known.
async fn pay_with_tokens(
    shop: &ShopDesk,
    checkouts: Vec<(usize, OrderId, u32)>,
    outcomes: &mut [Outcome],
) -> BTreeSet<usize> {
    let wants = |outcome: &Outcome| {
        let shop = outcome.shop.as_deref();
        matches!(shop, Some(ShopOutcome::Refused(ShopRefusal::ChooseTokens { .. })))
    };
    let refused = checkouts.into_iter().filter(|(at, ..)| outcomes.get(*at).is_some_and(wants));
    let refused: Vec<_> = refused.collect();
    // Also what breaks off is not known.
    let mut unknown: BTreeSet<usize> = refused.iter().map(|(at, ..)| *at).collect();
    let (mut waiting, mut together) = (refused.into_iter(), JoinSet::new());
    let mut tokens_wait_ms = Some(TOKENS_WAIT_MS);
    loop {
        while together.len() < BATCH_CHECKOUTS_TOGETHER
            && let Some((at, order, deadline_ms)) = waiting.next()
        {
            let desk = shop.clone();
            let (deadline_ms, wait_ms) = (Some(deadline_ms), Some(0));
            let request =
                CheckoutRequest { deadline_ms, wait_ms, tokens_wait_ms, ..CheckoutRequest::new(order) };
            together.spawn(async move { (at, answered(desk.checkout(request)).await) });
        }
        let Some(joined) = together.join_next().await else { return unknown };
        let Ok((at, answer)) = joined else { continue };
        match known(answer) {
            Known::Nothing => continue,
            Known::NothingTried => {}
            Known::Told(told) => {
                if matches!(told, ShopOutcome::Refused(ShopRefusal::ChooseTokens { .. })) {
                    // One has waited in vain. If each did so, a batch would wait for minutes.
                    tokens_wait_ms = Some(0);
                }
                outcomes[at].shop = Some(Arc::new(told));
            }
        }
        unknown.remove(&at);
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

/// What has been announced is counted before it is read, so that many large bodies at once cannot fill the memory.
fn room_for(edge: &Edge, headers: &HeaderMap) -> Result<OwnedSemaphorePermit, ApiError> {
    let length = announced(headers).unwrap_or(BATCH_BODY_MAX).min(BATCH_BODY_MAX);
    let permits = u32::try_from(length.div_ceil(BODY_PERMIT_BYTES)).unwrap_or(u32::MAX);
    let room = Arc::clone(&edge.bodies).try_acquire_many_owned(permits);
    room.map_err(|_| Refusal::Busy.into())
}

fn announced(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
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

#[cfg(test)]
mod tests {
    use holdfast_domain::shop::TrNum;

    use super::*;

    #[test]
    fn what_may_have_been_tried_is_not_said_to_be_untried() {
        let shop = |error| known(Err(Failure::Shop(error)));
        let hub = |refusal| shop(ShopError::Hub(refusal));
        assert_eq!(known(Err(Failure::NoAnswer)), Known::Nothing);
        assert_eq!(hub(Refusal::Unknown("x".into())), Known::Nothing);
        assert_eq!(shop(ShopError::Unreadable("x".into())), Known::Nothing);
        assert_eq!(hub(Refusal::Busy), Known::NothingTried);
        assert_eq!(hub(Refusal::Closed("x".into())), Known::NothingTried);
        let vault = holdfast_tokens::Refusal::StoreUnavailable("x".into());
        assert_eq!(shop(ShopError::Vault(vault)), Known::NothingTried);
        let refusal = ShopRefusal::TriesUsedUp("o".parse().unwrap());
        assert_eq!(shop(ShopError::Refused(refusal.clone())), Known::Told(ShopOutcome::Refused(refusal)));
        let paid = CheckoutAnswer::Paid { tr: TrNum::FIRST };
        assert_eq!(known(Ok(paid)), Known::Told(ShopOutcome::Checkout(paid)));
    }
}
