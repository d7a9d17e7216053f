//! The state of the database profile in PostgreSQL.
//!
//! A [`Store`] is one connection; a handler owns its thread and its store. Every step is one transaction, the same for all
//! (`step`): lock the guard row of the source, lock and load what the batch names, read the clock, decide with the pure code
//! of the domain, write effects, outbox, audit record and the new offset, commit. Rooms:
//!
//! | room | what happens there |
//! | --- | --- |
//! | `guard`, `lease` | who may work on a partition or shard: epochs |
//! | `hung` | sessions of nodes that hang, ended by those that have their work now |
//! | `step` | the transaction that every handler and every scan goes through |
//! | `transfers`, `positions`, `expiry` | the three steps of a transfer |
//! | `notices` | what participants are told of a transfer that moved |
//! | `callbacks` | notifications become rows, rows are delivered or given up |
//! | `operated` | the operator's messages, each decided once |
//! | `participants` | participants and accounts, in transactions of their own |
//! | `batch` | halving at a message that cannot be stored, bounded retries |
//! | `load`, `loaded`, `write` | rows to domain values and back |
//! | `written` | rows of tokens and of the shop, hashed as they are written |
//! | `incoming`, `outbox` | what comes in, what goes out and in which order; `holdfast-messages` knows what it says |
//! | `reads` | what edges ask, without a lock |
//! | `audit`, `verify` | the chain over all batches, and whether everything still adds up |
//! | `stalled` | transfers that stand half-way, found by a patrol through the history |
//! | `tokens` | tokens that all nodes select from |
//! | `shop` | users, items, orders and their checkouts |
//! | `keys_mark` | that callers need keys |
//! | `generate` | a data set to measure and try with |
//! | `connect`, `session`, `migrate` | the server, the connection and the schema |
//! | `types`, `copy`, `error` | PostgreSQL's values, bytes and refusals |

mod audit;
mod batch;
mod callbacks;
mod connect;
mod copy;
mod error;
mod expiry;
pub mod generate;
mod guard;
mod hung;
mod incoming;
mod keys_mark;
mod lease;
mod load;
mod loaded;
mod migrate;
mod notices;
mod operated;
mod outbox;
mod participants;
mod positions;
mod reads;
mod session;
pub mod shop;
pub mod stalled;
mod step;
pub mod tokens;
mod transfers;
mod types;
mod verify;
mod write;
mod written;

pub use batch::Batch;
pub use callbacks::{CallbackFacts, DeadCallback, DueCallback, Failed, Given};
pub use error::Error;
pub use generate::{DataSet, Generated};
pub use guard::{Claim, Source};
pub use incoming::Incoming;
pub use keys_mark::keys_are_required;
pub use operated::OPERATOR_MESSAGES_KEPT;
pub use outbox::OutboxRow;
pub use reads::{ROWS_LOOKED_AT_MAX, Registered};
pub use session::{BATCH_MESSAGES_MAX, Point, Settings, Store};
pub use stalled::Stalled;
pub use step::{Done, Step};
pub use verify::{Finding, Verified};
