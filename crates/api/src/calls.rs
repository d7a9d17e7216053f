//! The way from an HTTP task to the hub's writer and back.

use holdfast_domain::command::Command;
use holdfast_domain::effects::Outcome;
use holdfast_domain::records::Sealed;
use holdfast_hub::{Core, Refusal, Submission};
use holdfast_store::MemoryStore;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::Edge;
use crate::error::ApiError;
use crate::limits::ANSWER_WAIT_MAX;

/// Has records decided together; answers when they are durable.
pub(crate) async fn submit_records(edge: &Edge, records: Sealed) -> Result<Vec<Outcome>, ApiError> {
    let (send, receive) = oneshot::channel();
    let answer = Box::new(move |outcomes| {
        // A caller that has gone away misses its answer and will ask again.
        let _: Result<(), _> = send.send(outcomes);
    });
    edge.hub.submit(Submission::new(records, answer))?;
    let outcomes = timeout(ANSWER_WAIT_MAX, receive).await.map_err(|_| ApiError::no_answer())?;
    Ok(outcomes.map_err(|_| Refusal::Unknown("the hub stopped".to_owned()))??)
}

/// Has one command decided; answers when it is durable.
pub(crate) async fn submit(edge: &Edge, command: Command) -> Result<Outcome, ApiError> {
    let outcomes = submit_records(edge, Sealed::of(std::slice::from_ref(&command))).await?;
    outcomes.first().copied().ok_or_else(ApiError::hub_stopped)
}

/// Asks about the state, between two frames.
pub(crate) async fn ask<R: Send + 'static>(
    edge: &Edge,
    question: impl FnOnce(&Core<MemoryStore>) -> R + Send + 'static,
) -> Result<R, ApiError> {
    let (send, receive) = oneshot::channel();
    edge.hub.ask(Box::new(move |core| {
        // An asker that has gone away needs no answer.
        if !send.is_closed() {
            let _: Result<(), R> = send.send(question(core));
        }
    }))?;
    timeout(ANSWER_WAIT_MAX, receive)
        .await
        .map_err(|_| ApiError::no_answer())?
        .map_err(|_| ApiError::hub_stopped())
}
