//! The engine of the cluster profile: a node. Commands travel through Kafka, questions are read from PostgreSQL on threads
//! that may wait.

use std::pin::Pin;
use std::time::Duration;

use holdfast_database::{CheckoutTimes, NodeHandle, ReadError, Refusal as NodeRefusal, is_about_a_transfer};
use holdfast_domain::ids::{Millis, ParticipantId, TransferId, TransferNo};
use holdfast_domain::records::Sealed;
use holdfast_domain::registry::Whose;
use holdfast_domain::shop::Side;
use holdfast_domain::transfers::Transfer;
use holdfast_domain::views::{NamedTransfer, TransferFilter, TransferPage, TransferStory};
use holdfast_hub::shop::{NotedTroubles, ShopOptions};
use holdfast_postgres::shop::Served;
use holdfast_postgres::{DeadCallback, Error, Given, Store};
use metrics::gauge;
use serde_json::{Map, json};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::{Answer, Component, Engine, EngineError, Figures, Profile, Question, Reading, Refusal, Written};
use crate::shop::Counter;
use crate::tokens::Vault;

/// How long gauges that the store tells may hold up `/metrics`.
const GAUGES_WAIT_MAX: Duration = Duration::from_secs(2);

/// A node as the edge sees it.
pub struct ClusterEngine {
    node: NodeHandle,
    runtime: Handle,
    troubles: NotedTroubles,
}

impl ClusterEngine {
    /// The engine of a node. Must be called inside a tokio runtime, on whose waiting threads questions are then read.
    #[must_use]
    pub fn new(node: NodeHandle) -> ClusterEngine {
        ClusterEngine { node, runtime: Handle::current(), troubles: NotedTroubles::default() }
    }

    /// The same, with what is noted there of sides that are outside.
    #[must_use]
    pub fn with_troubles(self, troubles: NotedTroubles) -> ClusterEngine {
        ClusterEngine { troubles, ..self }
    }

    fn read<R: Send + 'static>(
        &self,
        question: impl Fn(&mut Store) -> Result<R, Error> + Send + 'static,
    ) -> Reading<'_, R> {
        let node = self.node.clone();
        Box::pin(async move {
            let read = self.runtime.spawn_blocking(move || node.ask(question));
            read.await.map_err(|_| EngineError::Stopped)?.map_err(unreadable)
        })
    }
}

fn unreadable(error: ReadError) -> EngineError {
    match error {
        ReadError::Busy => EngineError::Refused(Refusal::Busy),
        ReadError::Store(error) => EngineError::Unreadable(error.to_string()),
    }
}

fn refusal(refusal: NodeRefusal) -> Refusal {
    match refusal {
        NodeRefusal::Busy => Refusal::Busy,
        NodeRefusal::TooLarge(bytes) => Refusal::TooLarge(bytes),
        NodeRefusal::Closed(why) => Refusal::Closed(why.to_owned()),
        NodeRefusal::Unknown(why) => Refusal::Unknown(why),
    }
}

fn answering(answer: Answer) -> holdfast_database::Answer {
    Box::new(move |outcomes| answer(outcomes.map_err(refusal)))
}

/// The place of a page's end as text.
fn page_end(text: &str) -> Result<TransferNo, EngineError> {
    text.parse().map(TransferNo).map_err(|_| EngineError::NoSuchPage(text.to_owned()))
}

impl Engine for ClusterEngine {
    fn profile(&self) -> Profile {
        Profile::Cluster
    }

    fn decide(&self, records: Sealed, answer: Answer) -> Result<(), Refusal> {
        let (_, commands) = records.into_parts();
        self.node.decide(commands, answering(answer)).map_err(refusal)
    }

    fn decide_telling(&self, records: Sealed, written: Written, answer: Answer) -> Result<(), Refusal> {
        let (_, commands) = records.into_parts();
        self.node.decide_telling(commands, Some(written), answering(answer)).map_err(refusal)
    }

    fn take(&self, records: Sealed, answer: Answer) -> Result<(), Refusal> {
        let (_, commands) = records.into_parts();
        if commands.iter().all(is_about_a_transfer) {
            return self.node.write(commands, answering(answer)).map_err(refusal);
        }
        self.node.decide(commands, answering(answer)).map_err(refusal)
    }

    fn ask(&self, whose: Whose, question: Question) -> Result<(), Refusal> {
        let node = self.node.clone();
        // The question answers its asker itself; nobody waits for the task.
        drop(self.runtime.spawn_blocking(move || match node.ask(|store| store.registry(whose)) {
            Ok(registry) => question(Ok(&registry)),
            Err(error) => question(Err(unreadable(error))),
        }));
        Ok(())
    }

    fn vault(&self) -> Option<Vault> {
        self.node.tokens().cloned().map(Vault::Shared)
    }

    fn shop(&self) -> Option<Counter> {
        let CheckoutTimes { deadline_ms, wait_ms } = self.node.settings().checkout;
        let options = ShopOptions { deadline_ms, wait_ms };
        self.node.shop().map(|shop| Counter::Shared(shop, options, self.troubles.clone()))
    }

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
        let in_flight = self.node.in_flight();
        let roles = self.node.settings().roles.to_string();
        Box::pin(async move {
            let stats = self.read(Store::stats).await?;
            let node = json!({"roles": roles, "commandsInFlight": in_flight});
            let mut more = Map::from_iter([("node".to_owned(), node)]);
            if self.node.shop().is_some() {
                let (open, _) = self.read(Store::open_in_short).await?;
                let (charging, serving) =
                    (self.read(Store::charging).await?, self.read(Store::serving).await?);
                let is_inside = |side| serving.of(side) == Served::Inside;
                let payment = if is_inside(Side::Pay) { charging.name() } else { "outside" };
                let stock = if is_inside(Side::Stock) { "inside" } else { "outside" };
                let shop = json!({"openCheckouts": open, "payment": payment, "stock": stock});
                more.insert("shop".to_owned(), shop);
            }
            Ok(Figures { stats, more })
        })
    }

    fn dead_letters(
        &self,
        to: Option<ParticipantId>,
        after: Option<u64>,
        limit: usize,
    ) -> Reading<'_, Vec<DeadCallback>> {
        self.read(move |store| store.dead_callbacks(to, after, limit))
    }

    fn retry_dead_letter(&self, number: u64) -> Reading<'_, bool> {
        self.read(move |store| Ok(store.retry_callback(number)? != Given::Nothing))
    }

    fn retry_dead_letters(&self, to: Option<ParticipantId>, max: usize) -> Reading<'_, u64> {
        self.read(move |store| store.retry_callbacks(to, max))
    }

    fn health(&self) -> Vec<Component> {
        let parts = self.node.health().parts();
        parts.iter().map(|part| Component { name: part.name(), fault: part.trouble() }).collect()
    }

    #[allow(clippy::cast_precision_loss, reason = "gauges are for the eye")]
    fn publish_metrics(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
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
