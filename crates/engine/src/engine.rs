//! An engine: everything that stands behind an edge.

use std::sync::Arc;

use crate::{Callbacks, Health, Payments, Shop, Upkeep, Views, Wallets};

/// Which program an engine is; it says which paths there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// One hub with its own log and state.
    Embedded,
    /// A node before Kafka and PostgreSQL.
    Database,
}

/// What stands behind the edge. What an engine has not is `None`, and its paths are not there.
pub trait Engine: Payments + Views + Health + Send + Sync + 'static {
    /// Which program this is.
    fn profile(&self) -> Profile;

    /// The vault: the hub's own, or the one that all nodes share. `None` on a node that takes no requests.
    fn wallets(&self) -> Option<Arc<dyn Wallets>> {
        None
    }

    /// The shop: the hub's own, or the one that all nodes share.
    fn shop(&self) -> Option<Arc<dyn Shop>> {
        None
    }

    /// Callbacks that were given up, where the engine keeps them itself. Those of a hub are kept by its delivery.
    fn callbacks(&self) -> Option<Arc<dyn Callbacks>> {
        None
    }

    /// What an operator does with the engine's own data.
    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        None
    }
}
