//! A node as the port has it. Commands travel through Kafka, questions are read from PostgreSQL on threads that may wait.

mod callbacks;

use std::sync::Arc;
use std::time::Duration;

use holdfast_domain::ids::{Millis, TransferId, TransferNo};
use holdfast_domain::records::Sealed;
use holdfast_domain::registry::Whose;
use holdfast_domain::shop::Side;
use holdfast_domain::transfers::Transfer;
use holdfast_domain::views::{NamedTransfer, TransferFilter, TransferPage, TransferStory};
use holdfast_engine::{
    Answer, Callbacks, Component, Doing, Engine, EngineError, Figures, Health, NodeFigures, Payments,
    Profile, Question, Reading, Refusal, Shop, ShopFigures, Views, Wallets, Written,
};
use holdfast_postgres::shop::Served;
use holdfast_postgres::{Error, Store};
use metrics::gauge;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::commands::is_about_a_transfer;
use crate::handle::NodeHandle;

/// How long gauges that the store tells may hold up `/metrics`.
const GAUGES_WAIT_MAX: Duration = Duration::from_secs(2);

/// The engine of the database profile. Cheap to clone.
#[derive(Clone)]
pub struct DatabaseEngine {
    node: NodeHandle,
    runtime: Handle,
}

impl DatabaseEngine {
    /// The engine of a node. Must be called inside a tokio runtime, on whose waiting threads questions are then read.
    #[must_use]
    pub fn new(node: NodeHandle) -> DatabaseEngine {
        DatabaseEngine { node, runtime: Handle::current() }
    }

    /// Asks the database, on a thread that may wait.
    fn read<R: Send + 'static>(
        &self,
        question: impl Fn(&mut Store) -> Result<R, Error> + Send + 'static,
    ) -> Reading<'_, R> {
        let node = self.node.clone();
        Box::pin(async move {
            let read = self.runtime.spawn_blocking(move || node.ask(question));
            Ok(read.await.map_err(|_| EngineError::Stopped)??)
        })
    }
}

/// The place of a page's end as text.
fn page_end(text: &str) -> Result<TransferNo, EngineError> {
    text.parse().map(TransferNo).map_err(|_| EngineError::NoSuchPage(text.to_owned()))
}

impl Engine for DatabaseEngine {
    fn profile(&self) -> Profile {
        Profile::Database
    }

    fn wallets(&self) -> Option<Arc<dyn Wallets>> {
        Some(Arc::new(self.node.tokens()?.clone()))
    }

    fn shop(&self) -> Option<Arc<dyn Shop>> {
        Some(Arc::new(self.node.shop()?))
    }

    fn callbacks(&self) -> Option<Arc<dyn Callbacks>> {
        Some(Arc::new(self.clone()))
    }
}

impl Payments for DatabaseEngine {
    fn decide(&self, records: Sealed, answer: Answer) -> Result<(), Refusal> {
        let (_, commands) = records.into_parts();
        self.node.decide(commands, None, answer)
    }

    fn decide_telling(&self, records: Sealed, written: Written, answer: Answer) -> Result<(), Refusal> {
        let (_, commands) = records.into_parts();
        self.node.decide(commands, Some(written), answer)
    }

    fn take(&self, records: Sealed, answer: Answer) -> Result<(), Refusal> {
        let (_, commands) = records.into_parts();
        if commands.iter().all(is_about_a_transfer) {
            return self.node.write(commands, answer);
        }
        self.node.decide(commands, None, answer)
    }

    fn ask(&self, whose: Whose, question: Question) -> Result<(), Refusal> {
        let node = self.node.clone();
        // The question answers its asker itself; nobody waits for the task.
        drop(self.runtime.spawn_blocking(move || match node.ask(|store| store.registry(whose)) {
            Ok(registry) => question(Ok(&registry)),
            Err(error) => question(Err(error.into())),
        }));
        Ok(())
    }
}

impl Views for DatabaseEngine {
    fn transfer(&self, id: TransferId) -> Reading<'_, Option<Transfer>> {
        self.read(move |store| store.transfer_now(id))
    }

    fn story(&self, id: TransferId) -> Reading<'_, Option<TransferStory>> {
        self.read(move |store| store.transfer_shown(id))
    }

    fn transfers(
        &self,
        filter: TransferFilter,
        after: Option<String>,
        limit: usize,
    ) -> Reading<'_, TransferPage> {
        Box::pin(async move {
            let after = after.as_deref().map(page_end).transpose()?;
            let (transfers, next) =
                self.read(move |store| store.transfers_page(filter, after, limit)).await?;
            Ok(TransferPage { transfers, next: next.map(|no| no.0.to_string()) })
        })
    }

    fn holds(
        &self,
        before: Millis,
        after: Option<(Millis, TransferNo)>,
        limit: usize,
    ) -> Reading<'_, Vec<NamedTransfer>> {
        self.read(move |store| store.holds_page(before, after, limit))
    }

    fn figures(&self) -> Reading<'_, Figures> {
        let node = NodeFigures {
            roles: self.node.settings().roles.to_string(),
            commands_in_flight: self.node.in_flight(),
        };
        Box::pin(async move {
            let stats = self.read(Store::stats).await?;
            let shop = if self.node.shop().is_some() { Some(self.shop_figures().await?) } else { None };
            Ok(Figures { stats, node: Some(node), shop, log: None })
        })
    }
}

impl DatabaseEngine {
    async fn shop_figures(&self) -> Result<ShopFigures, EngineError> {
        let (open_checkouts, _) = self.read(Store::open_in_short).await?;
        let (charging, serving) = (self.read(Store::charging).await?, self.read(Store::serving).await?);
        let is_inside = |side| serving.of(side) == Served::Inside;
        Ok(ShopFigures {
            users: None,
            items: None,
            unpaid_orders: None,
            open_checkouts,
            payment: if is_inside(Side::Pay) { charging.name() } else { "outside" },
            stock: if is_inside(Side::Stock) { "inside" } else { "outside" },
        })
    }
}

impl Health for DatabaseEngine {
    fn health(&self) -> Vec<Component> {
        let parts = self.node.health().parts();
        parts.iter().map(|part| Component { name: part.name(), fault: part.trouble() }).collect()
    }

    #[allow(clippy::cast_precision_loss, reason = "gauges are for the eye")]
    fn publish_metrics(&self) -> Doing<'_, ()> {
        Box::pin(async move {
            if self.node.settings().topics.shop.is_none() {
                return;
            }
            // If the store cannot say it, or not in time, they stay as they are: the counters are wanted all the same.
            if let Ok(Ok((open, oldest))) = timeout(GAUGES_WAIT_MAX, self.read(Store::open_in_short)).await {
                gauge!("holdfast_checkouts_open").set(open as f64);
                gauge!("holdfast_checkout_oldest_seconds").set(oldest.as_secs_f64());
            }
        })
    }
}
