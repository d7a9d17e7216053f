//! The way from an HTTP task to the hub's writer and back.

use holdfast_domain::command::Command;
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::TransferId;
use holdfast_domain::records::Sealed;
use holdfast_domain::transfers::Transfer;
use holdfast_hub::{Core, Refusal, Submission};
use holdfast_store::{LocalStore, Roster, Sought};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::Edge;
use crate::error::ApiError;
use crate::limits::ANSWER_WAIT_MAX;

/// Has records decided together; answers when they are durable.
pub(crate) async fn submit_records(edge: &Edge, records: Sealed) -> Result<Vec<Outcome>, ApiError> {
    submit_records_keeping(edge, records, ()).await
}

/// The same; `keep` is dropped when they are decided, or will never be, whether the caller still waits or not.
async fn submit_records_keeping(
    edge: &Edge,
    records: Sealed,
    keep: impl Send + 'static,
) -> Result<Vec<Outcome>, ApiError> {
    let (send, receive) = oneshot::channel();
    let answer = Box::new(move |outcomes| {
        drop(keep);
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
    outcomes.into_iter().next().ok_or_else(ApiError::hub_stopped)
}

/// The same; `keep` is dropped when it is decided, or will never be, whether the caller still waits or not.
pub(crate) async fn submit_keeping(
    edge: &Edge,
    command: Command,
    keep: impl Send + 'static,
) -> Result<Outcome, ApiError> {
    let records = Sealed::of(std::slice::from_ref(&command));
    let outcomes = submit_records_keeping(edge, records, keep).await?;
    outcomes.into_iter().next().ok_or_else(ApiError::hub_stopped)
}

/// The transfer of that id, open or ended, and all participants. The disk is read beside the writer.
pub(crate) async fn find(edge: &Edge, id: TransferId) -> Result<(Option<Transfer>, Roster), ApiError> {
    let (sought, roster) = ask(edge, move |core| (core.store().seek(id), core.store().roster())).await?;
    Ok((found(sought).await?, roster))
}

async fn found(sought: Sought) -> Result<Option<Transfer>, ApiError> {
    if sought.is_on_disk() { beside(|| sought.get()).await? } else { sought.get() }
        .map_err(|error| ApiError::store(&error))
}

/// Runs what may read the disk on a thread that may wait.
pub(crate) async fn beside<R: Send + 'static>(
    read: impl FnOnce() -> R + Send + 'static,
) -> Result<R, ApiError> {
    tokio::task::spawn_blocking(read).await.map_err(|_| ApiError::hub_stopped())
}

/// Asks about the state, between two frames.
pub(crate) async fn ask<R: Send + 'static>(
    edge: &Edge,
    question: impl FnOnce(&Core<LocalStore>) -> R + Send + 'static,
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
