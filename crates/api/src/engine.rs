//! What the edge needs of an engine besides the port: callbacks that were given up, the vault and the shop.

use std::sync::Arc;

use holdfast_database::DatabaseEngine;
use holdfast_domain::ids::ParticipantId;
use holdfast_engine::{Health, Payments, Profile, Reading, Shop, Views};
use holdfast_hub::EmbeddedEngine;
use holdfast_postgres::{DeadCallback, Given};

use crate::tokens::Vault;

/// What stands behind the edge.
pub trait Engine: Payments + Views + Health + Send + Sync + 'static {
    /// Which program this is.
    fn profile(&self) -> Profile;

    /// Callbacks that were given up, by number, after the one given: of one participant, or of all; at most `limit`. Of an
    /// engine that keeps them itself; a hub's are kept by the edge.
    fn dead_letters(
        &self,
        _to: Option<ParticipantId>,
        _after: Option<u64>,
        _limit: usize,
    ) -> Reading<'_, Vec<DeadCallback>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Has one of them tried again; `false`: there is none of that number.
    fn retry_dead_letter(&self, _number: u64) -> Reading<'_, bool> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Has up to `max` of one participant, or of all, tried again; how many.
    fn retry_dead_letters(&self, _to: Option<ParticipantId>, _max: usize) -> Reading<'_, u64> {
        Box::pin(std::future::ready(Ok(0)))
    }

    /// The vault: the hub's own, or the one that all nodes share. `None` where there is none, as on a node that takes no
    /// requests.
    fn vault(&self) -> Option<Vault> {
        None
    }

    /// The shop: the hub's own, or the one that all nodes share. `None` where there is none.
    fn shop(&self) -> Option<Arc<dyn Shop>> {
        None
    }
}

impl Engine for EmbeddedEngine {
    fn profile(&self) -> Profile {
        Profile::Embedded
    }

    fn vault(&self) -> Option<Vault> {
        Some(Vault::Hub(self.hub().tokens().clone()))
    }

    fn shop(&self) -> Option<Arc<dyn Shop>> {
        Some(Arc::new(self.hub().shop().clone()))
    }
}

impl Engine for DatabaseEngine {
    fn profile(&self) -> Profile {
        Profile::Database
    }

    fn vault(&self) -> Option<Vault> {
        self.node().tokens().cloned().map(Vault::Shared)
    }

    fn shop(&self) -> Option<Arc<dyn Shop>> {
        Some(Arc::new(self.node().shop()?))
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
}
