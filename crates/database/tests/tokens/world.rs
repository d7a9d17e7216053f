//! Vaults on one database.

use std::sync::atomic::{AtomicUsize, Ordering};

use holdfast_database::NodeSettings;
use holdfast_database::tokens::TokenVault;
use holdfast_database::tokens::alone::Alone;
use holdfast_postgres::{Settings, Store};
use holdfast_services::Database;
use tokio::runtime::{Builder, Runtime};

/// Where callers run.
pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a runtime")
}

/// Nodes that share a database.
pub(crate) struct World {
    pub(crate) nodes: Vec<Alone>,
    next: AtomicUsize,
    now: Option<i64>,
    pub(crate) database: Database,
}

pub(crate) fn settings(database: &Database, number: u64) -> NodeSettings {
    NodeSettings::new("kafka://nobody:1".parse().expect("an address"), database.url(), number)
}

impl World {
    /// So many nodes on a database of their own; `None` without a server.
    pub(crate) fn start(name: &str, nodes: usize, now: Option<i64>) -> Option<World> {
        let database = Database::new(name)?;
        // Makes the tables, before anybody looks for them.
        drop(Store::open(database.url(), Settings::default()).expect("a fresh database"));
        Some(World::on(database, nodes, now))
    }

    pub(crate) fn on(database: Database, nodes: usize, now: Option<i64>) -> World {
        let numbers = 1..=u64::try_from(nodes).expect("few nodes");
        let nodes = numbers.map(|number| Alone::start(settings(&database, number), now)).collect();
        World { nodes, next: AtomicUsize::new(0), now, database }
    }

    /// The next node in turn.
    pub(crate) fn node(&self) -> &TokenVault {
        self.nodes[self.next.fetch_add(1, Ordering::Relaxed) % self.nodes.len()].vault()
    }

    pub(crate) fn at(&self, now: i64) {
        self.nodes.iter().for_each(|node| node.at(now));
    }

    /// The same nodes before empty tables, at that time. Nobody may be at work.
    pub(crate) fn empty(&self, now: i64) {
        let tables = "TRUNCATE token, token_lock, token_selection, token_change";
        self.database.sql().batch_execute(tables).expect("emptied");
        self.nodes.iter().for_each(|node| node.begin_anew(now));
    }

    /// All nodes end, and as many begin on the same database.
    pub(crate) fn restart(self, now: i64) -> World {
        let World { nodes, database, now: stands, .. } = self;
        let count = nodes.len();
        drop(nodes);
        World::on(database, count, stands.map(|_| now))
    }
}
