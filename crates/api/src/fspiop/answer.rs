//! Answers: an empty acknowledgement, or for those who wait the outcome itself.
//!
//! Both go out when the command is durable, never before: an acknowledged message survives whatever happens. In the
//! embedded profile a durable command is a decided one, so the outcome is at hand by then. Where that took longer than
//! the caller wanted to wait, the answer is 202 instead of 200, with the state as it is.

use std::time::Instant;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::Command;
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::TransferId;
use holdfast_domain::transfers::{Code, CompletionKind, Reason, Transfer, TransferState};
use holdfast_wire::fspiop::{error_information, write_preimage};
use serde::Serialize;
use serde_json::Value;

use super::prefer::{PREFERENCE_APPLIED, Wait};
use crate::Edge;
use crate::calls::{Waited, read, submit_keeping, submit_within, take};
use crate::error::ApiError;
use crate::gate::{Caller, Sight};

/// Where a transfer stands, for a caller who waits.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Standing<'a> {
    transfer_id: &'a str,
    /// The internal name.
    state: &'static str,
    /// The name that participants know.
    transfer_state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fulfilment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_information: Option<Value>,
}

/// A command that was decided, and when its sender began to wait.
pub(super) struct Decided {
    outcome: Outcome,
    since: Instant,
}

/// Has a command about a transfer decided, or tells where the transfer stands when the caller's time is up: then the command
/// is durable and will be decided. `id`: as the caller wrote it.
pub(super) async fn decide(
    edge: &Edge,
    caller: Caller,
    command: Command,
    wait: Wait,
    id: &str,
) -> Result<Result<Decided, Response>, ApiError> {
    let since = Instant::now();
    let (transfer, sight) = (command.transfer(), Sight::of(caller, &command));
    match submit_within(edge, command, wait.duration()).await? {
        Waited::Decided(mut outcome) => {
            sight.narrow(&mut outcome);
            Ok(Ok(Decided { outcome, since }))
        }
        Waited::Taken => {
            // If it cannot be read, or is not there yet, there is nothing more to say than that it was taken.
            let row = match transfer {
                Some(transfer) => read(edge.engine.transfer(transfer)).await.ok().flatten(),
                None => None,
            };
            let row = row.filter(|row| sight.shows(row));
            let taken = (StatusCode::ACCEPTED, [(PREFERENCE_APPLIED, wait.applied())]);
            Ok(Err(row.map_or_else(
                || taken.into_response(),
                |row| {
                    let error = row.code.map(|code| (code, row.reason));
                    standing(StatusCode::ACCEPTED, wait, id, row.state, error, fulfilment_of(&row))
                },
            )))
        }
    }
}

/// What a payee says about a transfer: taken, or decided for one who waits. `fulfilment`: what it commits with.
pub(super) async fn complete(
    edge: &Edge,
    caller: Caller,
    command: Command,
    wait: Option<Wait>,
    id: &str,
    fulfilment: Option<[u8; 32]>,
) -> Result<Response, ApiError> {
    let Some(wait) = wait else {
        take(edge, command).await?;
        return Ok(StatusCode::OK.into_response());
    };
    match decide(edge, caller, command, wait, id).await? {
        Ok(decided) => decided.answer(wait, id, fulfilment.filter(|_| decided.is_committed())),
        Err(later) => Ok(later),
    }
}

/// The same as [`decide`]; `keep` is dropped when it is decided, or will never be.
pub(super) async fn decide_keeping(
    edge: &Edge,
    caller: Caller,
    command: Command,
    keep: impl Send + 'static,
) -> Result<Decided, ApiError> {
    let (since, sight) = (Instant::now(), Sight::of(caller, &command));
    let mut outcome = submit_keeping(edge, command, keep).await?;
    sight.narrow(&mut outcome);
    Ok(Decided { outcome, since })
}

impl Decided {
    /// Committed without a refusal, now or before: then it was with the fulfilment of this command.
    pub(super) fn is_committed(&self) -> bool {
        self.outcome.state == Some(TransferState::Committed) && self.outcome.code.is_none()
    }

    /// What the caller who waits is told. `id`: as the caller wrote it.
    pub(super) fn answer(
        &self,
        wait: Wait,
        id: &str,
        fulfilment: Option<[u8; 32]>,
    ) -> Result<Response, ApiError> {
        let Outcome { state, code, reason, .. } = self.outcome;
        let state = state.ok_or_else(|| refusal(id, code, reason))?;
        let in_time = self.since.elapsed() <= wait.duration();
        let status = if in_time { StatusCode::OK } else { StatusCode::ACCEPTED };
        Ok(standing(status, wait, id, state, code.map(|code| (code, reason)), fulfilment))
    }
}

/// The answer with a transfer's state.
pub(super) fn standing(
    status: StatusCode,
    wait: Wait,
    id: &str,
    state: TransferState,
    error: Option<(Code, Option<Reason>)>,
    fulfilment: Option<[u8; 32]>,
) -> Response {
    let body = Standing {
        transfer_id: id,
        state: state.name(),
        transfer_state: state.external(),
        fulfilment: fulfilment.map(|bytes| write_preimage(&bytes)),
        error_information: error.map(|(code, reason)| {
            let detail = reason.map_or("", Reason::text);
            error_information(code.number(), detail, &[])["errorInformation"].take()
        }),
    };
    (status, [(PREFERENCE_APPLIED, wait.applied())], Json(body)).into_response()
}

/// What there is to say where there is no state to show: no such transfer, or none of the caller's business.
pub(super) fn refusal(id: &str, code: Option<Code>, reason: Option<Reason>) -> ApiError {
    let code = code.unwrap_or_else(|| ErrorCode::InternalServerError.into());
    if code == ErrorCode::TransferIdNotFound.into() {
        return ApiError::no_transfer(id);
    }
    let detail = match reason {
        Some(reason) => reason.text(),
        None if code == ErrorCode::ClientError.into() => "the sender is no party to this transfer",
        None => "",
    };
    ApiError::new(StatusCode::BAD_REQUEST, code.number(), detail)
}

/// The fulfilment that a transfer was committed with.
pub(super) fn fulfilment_of(row: &Transfer) -> Option<[u8; 32]> {
    let completion = row.completion().filter(|_| row.state == TransferState::Committed)?;
    matches!(completion.kind, CompletionKind::Commit | CompletionKind::Reserve).then_some(completion.digest)
}

/// The same for a transfer that must be looked up first.
pub(super) async fn stored_fulfilment(edge: &Edge, id: TransferId) -> Result<Option<[u8; 32]>, ApiError> {
    Ok(read(edge.engine.transfer(id)).await?.as_ref().and_then(fulfilment_of))
}
