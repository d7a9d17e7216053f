//! Where the servers are, what this node does, and every bound with its name.

use std::time::Duration;

use holdfast_domain::shop::Secret;
use holdfast_engine::CheckoutTimes;
use holdfast_kafka::{Brokers, TopicSettings};
use holdfast_postgres::shop::WantedCharging;
use holdfast_postgres::{Error, Settings, Store};

use crate::Roles;
use crate::tokens::VaultSettings;

/// The most messages that a handler takes into one transaction.
pub const BATCH_MESSAGES: usize = 1_000;
/// How many partitions of a topic a node decides at once: while one waits for the disk, another goes on.
pub const WORKERS: usize = 2;
/// The most commands on their way through the hub for callers of this node.
pub const IN_FLIGHT_MAX: usize = 50_000;
/// The most bytes of commands that wait to be written to Kafka.
pub const SEND_QUEUE_BYTES_MAX: usize = 64 << 20;
/// How long Kafka may take to acknowledge before it is called down.
pub const SEND_WAIT: Duration = Duration::from_secs(10);
/// How long a caller's outcome is waited for.
pub const OUTCOME_WAIT: Duration = Duration::from_secs(25);
/// How long it is waited for when the node was asked to end. The edge cuts its connections some seconds later.
pub const OUTCOME_GRACE: Duration = Duration::from_secs(5);
/// How long a handler waits for messages before it looks around.
pub const POLL_WAIT: Duration = Duration::from_millis(200);
/// The pause after a server failed.
pub const TROUBLE_PAUSE: Duration = Duration::from_millis(250);
/// How long a partition that could not be begun with is left alone: other partitions go on meanwhile, and the pause doubles each time,
/// up to the second.
pub const BEGIN_PAUSE: Duration = Duration::from_secs(1);
/// As above.
pub const BEGIN_PAUSE_MAX: Duration = Duration::from_secs(15);
/// A partition rests after a batch for as long as that took, so that the next one is larger; at most so long.
pub const REST_MAX: Duration = Duration::from_millis(25);
/// After a batch of so many messages a partition rests for [`REST_MAX`] in any case: there is load, and the batch was too small for
/// what a batch costs. After fewer there is little load, after more it is large enough: then it rests for
/// as long as that took.
pub const WORTH_GATHERING: std::ops::Range<u64> = 8..100;
/// Who sends to Kafka for several callers rests afterwards for as long as that took, so that the next are more; at most so long.
pub const SEND_REST_MAX: Duration = Duration::from_millis(5);
/// After notifications that nobody is called about, the next may wait for so long: a shop sends many of them.
pub const QUIET_REST: Duration = Duration::from_millis(50);
/// The pause before a partition is looked at again whose next message is newer than this program.
pub const NEWER_PAUSE: Duration = Duration::from_secs(2);
/// How long topics may take to be there when a node starts.
pub const START_WAIT: Duration = Duration::from_secs(30);
/// How many rows a relay reads and sends at a time.
pub const RELAY_ROWS: usize = 2_000;
/// How many messages of one source a relay keeps in memory; more are read from the outbox.
pub const RELAY_MEMORY_ROWS: usize = 20_000;
/// What was committed longer ago is not sent from memory: somebody else may have the source by now, and the outbox tells.
/// Far below the session timeout of a group and the lease of a shard.
pub const FRESH: Duration = Duration::from_secs(1);
/// So long after sending, what no step of the source has marked as sent is marked by the relay.
pub const MARK_AFTER: Duration = Duration::from_millis(500);
/// For how long a shard of the expiry scan is held. A node that says nothing for so long loses its shards.
pub const LEASE: Duration = Duration::from_secs(3);
/// How often shards are looked at, and leases renewed.
pub const SCAN_EVERY: Duration = Duration::from_millis(500);
/// The most holds, or checkouts, that one scan of a shard ends.
pub const SCAN_HOLDS: u32 = 1_000;
/// Connections for questions.
pub const READERS_MAX: usize = 4;
/// How many callers may have commands decided one after the other at once: operators, mostly.
pub const ONE_BY_ONE_MAX: usize = 32;
/// How often PostgreSQL is asked whether it is there.
pub const PROBE_EVERY: Duration = Duration::from_secs(1);
/// A node that says nothing for so long lives no more: then all others may agree on something else.
pub const NODE_SEEN: Duration = Duration::from_secs(10);
/// How long a question waits for a connection.
pub const READER_WAIT: Duration = Duration::from_secs(5);
/// A transfer that stands half-way between two hops for so long is told.
pub const STALLED_AFTER: Duration = Duration::from_secs(60);
/// How often is looked for such transfers. A look reads what PostgreSQL has not summarized yet, up to a minute of history.
pub const PATROL_EVERY: Duration = Duration::from_secs(30);
/// How often the accounts of each partition are counted.
pub const COUNT_ACCOUNTS_EVERY: Duration = Duration::from_secs(60);
/// The most accounts that are counted.
pub const ACCOUNTS_COUNTED_MAX: u32 = 1_000_000;

/// How a node runs.
#[derive(Debug, Clone)]
pub struct NodeSettings {
    /// Where Kafka is.
    pub brokers: Brokers,
    /// Its topics.
    pub topics: TopicSettings,
    /// Where PostgreSQL is.
    pub store_url: String,
    /// How connections to it behave.
    pub store: Settings,
    /// What this node does.
    pub roles: Roles,
    /// Tells this run of this node from all others: a random number.
    pub node_id: u64,
    /// The most messages that a handler takes into one transaction.
    pub batch_messages: usize,
    /// How this node chooses tokens.
    pub tokens: VaultSettings,
    /// What checkouts charge, the same at all nodes.
    pub charging: ShopCharging,
    /// How long checkouts and their callers have, unless a caller says otherwise.
    pub checkout: CheckoutTimes,
}

/// What checkouts charge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShopCharging {
    /// As the settings say it.
    pub wanted: WantedCharging,
    /// Drawn at random. That of the node that is the first to say it counts.
    pub secret: Secret,
}

/// Credit, for which nothing is secret.
impl Default for ShopCharging {
    fn default() -> ShopCharging {
        ShopCharging { wanted: WantedCharging::Credit, secret: Secret([0; 32]) }
    }
}

impl NodeSettings {
    /// As usual.
    #[must_use]
    pub fn new(brokers: Brokers, store_url: impl Into<String>, node_id: u64) -> NodeSettings {
        NodeSettings {
            brokers,
            topics: TopicSettings::default(),
            store_url: store_url.into(),
            store: Settings::default(),
            roles: Roles::default(),
            node_id,
            batch_messages: BATCH_MESSAGES,
            tokens: VaultSettings::default(),
            charging: ShopCharging::default(),
            checkout: CheckoutTimes::default(),
        }
    }

    /// A connection of one's own.
    pub(crate) fn connect(&self) -> Result<Store, Error> {
        Store::open(&self.store_url, self.store.clone())
    }

    /// The connection that is there, or a new one.
    pub(crate) fn connected<'a>(&self, store: &'a mut Option<Store>) -> Result<&'a mut Store, Error> {
        match store {
            Some(store) => Ok(store),
            none => Ok(none.insert(self.connect()?)),
        }
    }

    /// A connection for questions.
    pub(crate) fn connect_to_ask(&self) -> Result<Store, Error> {
        Store::open_for_questions(&self.store_url, self.store.clone())
    }

    pub(crate) fn connect_for_changes(&self) -> Result<Store, Error> {
        Store::open_for_changes(&self.store_url, self.store.clone())
    }

    /// The group of all nodes' handlers of one topic.
    pub(crate) fn group(&self, topic: holdfast_messages::Topic) -> String {
        format!("{}-handler", self.topics.name(topic))
    }

    /// The node as the database counts it.
    pub(crate) fn node_number(&self) -> i64 {
        self.node_id.cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The promise is five seconds. A node may die right after it has renewed, and another has just looked.
    #[test]
    fn shards_of_a_dead_node_are_taken_over_in_time() {
        assert!(LEASE + 2 * SCAN_EVERY + TROUBLE_PAUSE < Duration::from_secs(5));
        assert!(FRESH < LEASE, "what a node sends from memory is its own");
    }
}
