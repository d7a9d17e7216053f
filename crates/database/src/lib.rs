//! A node of the database profile. All nodes are alike and keep nothing: what is asked lies in Kafka, what was decided in
//! PostgreSQL. Any node takes any request, and any node may do any part of the work.
//!
//! The way of a request: its node writes it to `transfers` (or `position`) and, if somebody waits, remembers its trace id;
//! whichever node has the partition decides it in one transaction and puts what follows into the outbox; its relay sends
//! that on; every node reads `notifications` and answers those of its callers whose trace ids come by.
//!
//! Nothing here decides. Who may write the effects of a partition or a shard is told by the epoch of its guard row, so a
//! node that was away for too long writes nothing. Threads are synchronous, every wait has an end, and a server that
//! is gone is waited for: see [`Health`].
//!
//! | room | what happens there |
//! | --- | --- |
//! | `settings`, `roles` | where the servers are, what this node does, every bound with its name |
//! | `node` | start and stop |
//! | `handle` | the handle of a running node |
//! | `engine` | the same as the port has it |
//! | `commands` | commands of any kind, each on its way |
//! | `sender` | requests on their way into Kafka |
//! | `waiting` | who waits for which outcome |
//! | `tail` | notifications, read by every node for those who wait |
//! | `handler`, `worker` | the handlers: who has which partition, and who decides its batches |
//! | `outboxes`, `relay` | what steps have put into the outbox, sent on in order from memory, after a failure from the table |
//! | `shards` | shards held by lease, shared among the nodes |
//! | `expiry` | the expiry scan of this node's shards |
//! | `patrol` | transfers that stand half-way, and accounts per partition |
//! | `tokens` | tokens that all nodes select from |
//! | `shop` | checkouts: what edges ask, the handlers of their topics, sides that are called |
//! | `reads`, `probe` | connections for questions, and one question that is asked all the time |
//! | `health`, `meters`, `stop` | how it goes, in words and in numbers; and that it is over |

mod commands;
mod engine;
mod expiry;
mod handle;
mod handler;
mod health;
mod meters;
mod node;
mod outboxes;
mod patrol;
mod probe;
mod reads;
mod relay;
mod roles;
#[cfg(test)]
mod scene;
mod sender;
mod settings;
mod shards;
pub mod shop;
mod stop;
mod tail;
pub mod tokens;
mod waiting;
mod worker;

pub use engine::DatabaseEngine;
pub use handle::NodeHandle;
pub use health::{Health, Part};
pub use holdfast_engine::Wallets;
pub use holdfast_kafka::TopicSettings;
pub use holdfast_postgres::Settings as StoreSettings;
pub use holdfast_postgres::shop::WantedCharging;
pub use node::{Node, StartError};
pub use reads::ReadError;
pub use roles::{Role, Roles};
pub use settings::{NodeSettings, ShopCharging};
pub use shards::{Change, Shards};
pub use tokens::{TokenVault, VaultSettings};

/// Every bound, with its name.
pub mod limits {
    pub use crate::settings::{
        ACCOUNTS_COUNTED_MAX, BATCH_MESSAGES, COUNT_ACCOUNTS_EVERY, FRESH, IN_FLIGHT_MAX, LEASE, MARK_AFTER,
        NEWER_PAUSE, NODE_SEEN, ONE_BY_ONE_MAX, OUTCOME_WAIT, PATROL_EVERY, POLL_WAIT, PROBE_EVERY,
        READER_WAIT, READERS_MAX, RELAY_MEMORY_ROWS, RELAY_ROWS, REST_MAX, SCAN_EVERY, SCAN_HOLDS,
        SEND_QUEUE_BYTES_MAX, SEND_WAIT, STALLED_AFTER, START_WAIT, TROUBLE_PAUSE, WORKERS,
    };
}
