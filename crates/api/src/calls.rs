//! The way from an HTTP task to the engine and back.

use std::time::Duration;

use holdfast_domain::command::Command;
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::ParticipantId;
use holdfast_domain::participants::Name;
use holdfast_domain::records::Sealed;
use holdfast_domain::registry::{Registry, Whose};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::Edge;
use crate::error::ApiError;
use crate::limits::ANSWER_WAIT_MAX;
use holdfast_engine::{Answer, Engine, EngineError, Payments, Reading, Refusal};

/// Has records decided together; answers when they are durable.
pub(crate) async fn submit_records(edge: &Edge, records: Sealed) -> Result<Vec<Outcome>, ApiError> {
    submitted(edge, records, (), Payments::decide).await
}

/// Gives records to the engine and waits. `keep` is dropped when it has answered, or never will, whether the caller still
/// waits or not.
async fn submitted(
    edge: &Edge,
    records: Sealed,
    keep: impl Send + 'static,
    give: fn(&dyn Engine, Sealed, Answer) -> Result<(), Refusal>,
) -> Result<Vec<Outcome>, ApiError> {
    let (send, receive) = oneshot::channel();
    let answer = Box::new(move |outcomes| {
        drop(keep);
        // A caller that has gone away misses its answer and will ask again.
        let _: Result<(), _> = send.send(outcomes);
    });
    give(&*edge.engine, records, answer)?;
    let outcomes = timeout(ANSWER_WAIT_MAX, receive).await.map_err(|_| ApiError::no_answer())?;
    Ok(outcomes.map_err(|_| Refusal::Unknown("the hub stopped".to_owned()))??)
}

/// Has one command decided; answers when it is durable.
pub(crate) async fn submit(edge: &Edge, command: Command) -> Result<Outcome, ApiError> {
    submit_keeping(edge, command, ()).await
}

/// The same; `keep` is dropped when it is decided, or will never be, whether the caller still waits or not.
pub(crate) async fn submit_keeping(
    edge: &Edge,
    command: Command,
    keep: impl Send + 'static,
) -> Result<Outcome, ApiError> {
    let records = Sealed::of(std::slice::from_ref(&command));
    let outcomes = submitted(edge, records, keep, Payments::decide).await?;
    outcomes.into_iter().next().ok_or_else(ApiError::hub_stopped)
}

/// What a caller who waits only for a while hears.
pub(crate) enum Waited {
    /// The outcome.
    Decided(Outcome),
    /// The time is up, and the command is durable: it will be decided.
    Taken,
}

/// Has one command decided. After `wait` the caller need only know that it was taken.
pub(crate) async fn submit_within(edge: &Edge, command: Command, wait: Duration) -> Result<Waited, ApiError> {
    let records = Sealed::of(std::slice::from_ref(&command));
    let (send, mut receive) = oneshot::channel();
    let (wrote, written) = oneshot::channel();
    // A caller that has gone away misses its answer and will ask again.
    let told = Box::new(move || {
        let _: Result<(), ()> = wrote.send(());
    });
    let answer = Box::new(move |outcomes| {
        let _: Result<(), _> = send.send(outcomes);
    });
    edge.engine.decide_telling(records, told, answer)?;
    let mut outcomes = timeout(wait, &mut receive).await.ok();
    if outcomes.is_none() {
        tokio::select! {
            biased;
            late = &mut receive => outcomes = Some(late),
            Ok(()) = written => return Ok(Waited::Taken),
            () = tokio::time::sleep(ANSWER_WAIT_MAX) => return Err(ApiError::no_answer()),
        }
    }
    let outcomes = outcomes.and_then(Result::ok).unwrap_or_else(|| {
        // Dropped without being called.
        Err(Refusal::Unknown("the hub stopped".to_owned()))
    });
    outcomes?.into_iter().next().map(Waited::Decided).ok_or_else(ApiError::hub_stopped)
}

/// Has one command taken; answers when it is durable, whether it is decided by then or not.
pub(crate) async fn take(edge: &Edge, command: Command) -> Result<(), ApiError> {
    let records = Sealed::of(std::slice::from_ref(&command));
    submitted(edge, records, (), Payments::take).await.map(drop)
}

/// Waits for a view, and no longer than is sensible.
pub(crate) async fn read<T>(reading: Reading<'_, T>) -> Result<T, ApiError> {
    Ok(timeout(ANSWER_WAIT_MAX, reading).await.map_err(|_| ApiError::no_answer())??)
}

/// Runs what may read the disk on a thread that may wait.
pub(crate) async fn beside<R: Send + 'static>(
    read: impl FnOnce() -> R + Send + 'static,
) -> Result<R, ApiError> {
    tokio::task::spawn_blocking(read).await.map_err(|_| ApiError::hub_stopped())
}

/// The number of the participant of that name, if there is one.
pub(crate) async fn number_of(edge: &Edge, name: Name) -> Result<Option<ParticipantId>, ApiError> {
    ask(edge, Whose::Named(name), move |all| all.participant_named(name).map(|row| row.id)).await
}

/// Asks about participants; `whose` says which rows the question needs.
pub(crate) async fn ask<R: Send + 'static>(
    edge: &Edge,
    whose: Whose,
    question: impl FnOnce(&dyn Registry) -> R + Send + 'static,
) -> Result<R, ApiError> {
    let (send, receive) = oneshot::channel();
    edge.engine.ask(
        whose,
        Box::new(move |rows| {
            // An asker that has gone away needs no answer.
            if !send.is_closed() {
                let _: Result<(), _> = send.send(rows.map(question));
            }
        }),
    )?;
    let answer = timeout(ANSWER_WAIT_MAX, receive).await.map_err(|_| ApiError::no_answer())?;
    Ok(answer.unwrap_or(Err(EngineError::Stopped))?)
}
