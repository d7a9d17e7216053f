//! `GET /transfers/{id}`: a party asks where its transfer stands.
//!
//! The answer is a callback, so the question goes into the log like any other message. A caller who waits has the
//! state in the answer already; its question is logged only if it has registered where to be called, so that those
//! who poll without a callback server fill no log.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use holdfast_domain::callbacks::CallbackMessage;
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Command, Lookup};
use holdfast_domain::registry::Whose;

use super::answer::{fulfilment_of, refusal, standing};
use super::headers;
use super::prefer::Wait;
use super::receive::sender;
use super::{PathId, id_in_path};
use crate::Edge;
use crate::calls::{ask, read, take};
use crate::error::ApiError;

/// Takes the question.
pub(crate) async fn get(
    State(edge): State<Edge>,
    path: PathId,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let wait = Wait::of(&headers);
    headers::accept(&headers, wait.is_some())?;
    headers::date(&headers, wait.is_some())?;
    headers::size(&headers)?;
    match wait {
        // There is no body whose type would matter; the peer hub wants one named nevertheless, and so do we of those
        // who speak its protocol.
        Some(_) => headers::content_type_if_any(&headers, true)?,
        None => Some(headers::content_type(&headers, false)?),
    };
    let source_name = headers::source(&headers)?;
    let (id, id_text) = id_in_path(&path)?;
    let source = sender(&edge, source_name).await?;
    let lookup = Command::Lookup(Lookup { source, id });
    let Some(wait) = wait else {
        take(&edge, lookup).await?;
        return Ok(StatusCode::ACCEPTED.into_response());
    };
    let row = read(edge.engine.transfer(id)).await?;
    let row = row.ok_or_else(|| refusal(id_text, Some(ErrorCode::TransferIdNotFound.into()), None))?;
    if !row.has_party(source) {
        return Err(refusal(id_text, Some(ErrorCode::ClientError.into()), None));
    }
    let kind = CallbackMessage::Put(row.state).endpoint_type();
    let is_called =
        ask(&edge, Whose::Numbered(source), move |all| all.endpoint(source, kind).is_some()).await?;
    if is_called {
        take(&edge, lookup).await?;
    }
    let error = row.code.map(|code| (code, row.reason));
    Ok(standing(StatusCode::OK, wait, id_text, row.state, error, fulfilment_of(&row)))
}
