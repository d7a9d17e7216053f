//! A hub as the port has it. Questions run between two frames on the writer's thread;
//! they copy what they need, and the rest is done on the caller's, since the writer's time belongs to payments.

mod figures;
mod page;

use std::sync::Arc;

use holdfast_domain::ids::{Millis, TransferId, TransferNo};
use holdfast_domain::records::Sealed;
use holdfast_domain::registry::Whose;
use holdfast_domain::transfers::Transfer;
use holdfast_domain::views::{NamedChange, NamedTransfer, TransferFilter, TransferPage, TransferStory};
use holdfast_engine::{
    Answer, Component, Doing, Engine, EngineError, Figures, Health, Payments, Profile, Question, Reading,
    Refusal, Shop, Upkeep, Views, Wallets,
};
use holdfast_store::{LocalStore, Roster, Sought, StoreError, Tables};

use crate::core::Core;
use crate::health::Status;
use crate::hub::HubHandle;
use crate::intake::Submission;

/// The engine of the embedded profile.
pub struct EmbeddedEngine {
    hub: HubHandle,
}

impl EmbeddedEngine {
    /// The engine of a hub in this process.
    #[must_use]
    pub const fn new(hub: HubHandle) -> EmbeddedEngine {
        EmbeddedEngine { hub }
    }

    /// Asks about the state, between two frames.
    async fn read<R: Send + 'static>(
        &self,
        question: impl FnOnce(&Core<LocalStore>) -> R + Send + 'static,
    ) -> Result<R, EngineError> {
        self.hub.intake.read(question).await?.ok_or(EngineError::Stopped)
    }

    /// The transfer of that id, open or ended, and all participants. The disk is read beside the writer.
    async fn find(&self, id: TransferId) -> Result<(Option<Transfer>, Roster), EngineError> {
        let (sought, roster) = self.read(move |core| (core.store().seek(id), core.store().roster())).await?;
        Ok((found(sought).await?, roster))
    }
}

async fn found(sought: Sought) -> Result<Option<Transfer>, EngineError> {
    if sought.is_on_disk() { beside(|| sought.get()).await? } else { sought.get() }
        .map_err(|error| unreadable(&error))
}

/// Runs what may read the disk on a thread that may wait.
async fn beside<R: Send + 'static>(read: impl FnOnce() -> R + Send + 'static) -> Result<R, EngineError> {
    tokio::task::spawn_blocking(read).await.map_err(|_| EngineError::Stopped)
}

fn unreadable(error: &StoreError) -> EngineError {
    EngineError::Unreadable(error.to_string())
}

fn named(roster: &Roster, row: Transfer) -> NamedTransfer {
    let name = |participant| roster.participant(participant).map(|row| row.name);
    NamedTransfer { payer: name(row.payer), payee: name(row.payee), row }
}

fn story(transfer: NamedTransfer, archived: bool) -> TransferStory {
    let row = &transfer.row;
    let changes = row.position_changes().into_iter().map(|(account, change, value)| {
        let participant = if row.payer_account == Some(account) { transfer.payer } else { transfer.payee };
        NamedChange { participant, change, value }
    });
    TransferStory { history: row.history(), changes: changes.collect(), archived, transfer }
}

impl Engine for EmbeddedEngine {
    fn profile(&self) -> Profile {
        Profile::Embedded
    }

    fn wallets(&self) -> Option<Arc<dyn Wallets>> {
        Some(Arc::new(self.hub.tokens().clone()))
    }

    fn shop(&self) -> Option<Arc<dyn Shop>> {
        Some(Arc::new(self.hub.shop().clone()))
    }

    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        Some(Arc::new(self.hub.clone()))
    }
}

impl Payments for EmbeddedEngine {
    fn decide(&self, records: Sealed, answer: Answer) -> Result<(), Refusal> {
        self.hub.submit(Submission::new(records, answer))
    }

    fn ask(&self, _: Whose, question: Question) -> Result<(), Refusal> {
        self.hub.ask(Box::new(move |core| question(Ok(core.store().books()))))
    }
}

impl Views for EmbeddedEngine {
    fn transfer(&self, id: TransferId) -> Reading<'_, Option<Transfer>> {
        Box::pin(async move { self.find(id).await.map(|(row, _)| row) })
    }

    fn story(&self, id: TransferId) -> Reading<'_, Option<TransferStory>> {
        Box::pin(async move {
            let (row, roster) = self.find(id).await?;
            let log_start = self.hub.log_start();
            Ok(row.map(|row| {
                let archived = row.offset < log_start;
                story(named(&roster, row), archived)
            }))
        })
    }

    fn transfers(
        &self,
        filter: TransferFilter,
        after: Option<String>,
        limit: usize,
    ) -> Reading<'_, TransferPage> {
        Box::pin(async move {
            let from = page::Cursor::read(after.as_deref())?;
            let (mut page, next, history, end, roster) = self
                .read(move |core| {
                    let store = core.store();
                    let mut page = page::Page::new(filter, limit);
                    let next = page.open(store, from);
                    (page, next, store.history(), store.history().end(), store.roster())
                })
                .await?;
            let (page, next) = match next {
                Some(page::Cursor::Ended(from)) if page.has_room() => {
                    let read = beside(move || page.ended(&history, from, end).map(|next| (page, next)));
                    read.await?.map_err(|error| unreadable(&error))?
                }
                next => (page, next),
            };
            let transfers = page.rows.into_iter().map(|row| named(&roster, row)).collect();
            Ok(TransferPage { transfers, next: next.map(page::Cursor::write) })
        })
    }

    fn holds(
        &self,
        before: Millis,
        after: Option<(Millis, TransferNo)>,
        limit: usize,
    ) -> Reading<'_, Vec<NamedTransfer>> {
        Box::pin(async move {
            let (rows, roster) = self
                .read(move |core| {
                    let rows = core.store().holds(before, after, limit).into_iter().cloned();
                    (rows.collect::<Vec<_>>(), core.store().roster())
                })
                .await?;
            Ok(rows.into_iter().map(|row| named(&roster, row)).collect())
        })
    }

    fn figures(&self) -> Reading<'_, Figures> {
        Box::pin(self.read(figures::of))
    }
}

impl Health for EmbeddedEngine {
    fn health(&self) -> Vec<Component> {
        let (log, clock, process) = match self.hub.status() {
            Status::Ready => (None, None, None),
            Status::ClockSuspect(fault) => (None, Some(fault.to_string()), None),
            Status::Stopped(reason) => (Some(reason), None, None),
            Status::ShuttingDown => (None, None, Some("shutting down".to_owned())),
        };
        let part = |name, fault| Component { name, fault };
        vec![part("log", log), part("clock", clock), part("process", process)]
    }

    fn publish_metrics(&self) -> Doing<'_, ()> {
        Box::pin(async {
            self.hub.tokens().publish_metrics();
            // A hub that has stopped takes no questions; its other figures are wanted all the more.
            let _ = self.hub.shop().publish_metrics().await;
        })
    }
}
