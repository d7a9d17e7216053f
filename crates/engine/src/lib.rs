//! The port between those who ask and the engine that decides: what an edge needs of whatever stands behind it, and nothing
//! else. So the same paths stand before the hub of the embedded profile (`hub::EmbeddedEngine`) and before a node of the
//! database profile (`database::DatabaseEngine`).
//!
//! Commands and questions about participants go in with a function that is called once with the answer: that is how a hub's
//! writer and a node's consumers work, and it costs the way of a payment nothing. What is rare comes as a future. How long a
//! caller waits is the edge's business, not the engine's.
//!
//! An engine that takes nothing for now refuses with [`Refusal::Closed`]: its callers hear 503 and when to come again.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `engine` | all of it together, and which program it is |
//! | `refusal` | why something was not taken, or cannot be told |
//! | `payments` | commands, and questions about participants |
//! | `views` | transfers, holds and figures, to look at |
//! | `wallets` | tokens: selected, locked and spent |
//! | `shop` | users, items, orders and checkouts |
//! | `claims`, `ends` | what engines have alike: claims on tokens on their way, who waits for ends of checkouts |
//! | `meters`, `monitor` | counters of checkouts; a state that threads share and wait for |
//! | `callbacks` | callbacks that were given up, and another try for them |
//! | `upkeep` | backups, and a word on the clock |
//! | `health` | how the parts of an engine are |
//! | `clock` | both clocks, and why the wall clock is not believed |

pub mod callbacks;
pub mod claims;
pub mod clock;
mod ends;
mod engine;
mod health;
mod meters;
mod monitor;
mod payments;
mod refusal;
mod shop;
mod upkeep;
mod views;
mod wallets;

use std::pin::Pin;

pub use callbacks::{Callbacks, DeadLetter, RETRIED_AT_ONCE_MAX, Retried, Retry};
pub use ends::{EndWaiter, Ends};
pub use engine::{Engine, Profile};
pub use health::{Component, Health};
pub use meters::ShopMeters;
pub use monitor::Monitor;
pub use payments::{Answer, Payments, Question, Written};
pub use refusal::{EngineError, Refusal};
pub use shop::{
    CheckoutRequest, CheckoutTimes, NotedTroubles, OrderView, Shop, ShopError, Shopping, Troubles,
};
pub use upkeep::{BackupRefusal, BackupStatus, Upkeep};
pub use views::{Figures, LogFigures, NodeFigures, ShopFigures, Views};
pub use wallets::{Funded, Kept, LOCKS_SHOWN, SomeLocks, TokenError, Vaulting, Wallets};

/// What an engine does for a caller that waits.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What an engine reads, when it is there.
pub type Reading<'a, T> = Doing<'a, Result<T, EngineError>>;
