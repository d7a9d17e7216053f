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
use holdfast_domain::ids::{ParticipantId, TransferId};
use holdfast_domain::transfers::{Code, Reason, TransferState};
use holdfast_domain::view::View;
use holdfast_hub::Core;
use holdfast_store::{MemoryStore, Store};

use super::answer::{decide, fulfilment_of, refusal, standing};
use super::headers;
use super::prefer::Wait;
use super::receive::sender;
use super::{PathId, id_in_path};
use crate::Edge;
use crate::calls::ask;
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
        decide(&edge, lookup).await?;
        return Ok(StatusCode::ACCEPTED.into_response());
    };
    let seen = ask(&edge, move |core| look(core, source, id)).await?;
    let Seen { state, error, fulfilment, is_called } =
        seen.map_err(|code| refusal(id_text, Some(code), None))?;
    if is_called {
        decide(&edge, lookup).await?;
    }
    Ok(standing(StatusCode::OK, wait, id_text, state, error, fulfilment))
}

/// What a party sees of its transfer.
struct Seen {
    state: TransferState,
    error: Option<(Code, Option<Reason>)>,
    fulfilment: Option<[u8; 32]>,
    /// Whether the asker has said where it wants to be told.
    is_called: bool,
}

fn look(core: &Core<MemoryStore>, source: ParticipantId, id: TransferId) -> Result<Seen, Code> {
    let store = core.store();
    let row = store.transfer(id).ok_or(ErrorCode::TransferIdNotFound)?;
    if source != row.payer && source != row.payee {
        return Err(ErrorCode::ClientError.into());
    }
    Ok(Seen {
        state: row.state,
        error: row.code.map(|code| (code, row.reason)),
        fulfilment: fulfilment_of(row),
        is_called: store.endpoint(source, CallbackMessage::Put(row.state).endpoint_type()).is_some(),
    })
}
