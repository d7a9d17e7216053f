//! The port between those who ask and the engine that decides: what an edge needs of whatever stands behind it, and nothing
//! else. So the same paths stand before the hub of the embedded profile and before a node of the database profile.
//!
//! Commands and questions about participants go in with a function that is called once with the answer: that is how a hub's
//! writer and a node's consumers work, and it costs the way of a payment nothing. What is rare comes as a future. How long a
//! caller waits is the edge's business, not the engine's.
//!
//! An engine that takes nothing for now, as a node does while none leads, refuses with [`Refusal::Closed`]: its callers hear
//! 503 and when to come again.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `refusal` | why something was not taken, or cannot be told |
//! | `payments` | commands, and questions about participants |
//! | `views` | transfers, holds and figures, to look at |
//! | `shop` | users, items, orders and checkouts |
//! | `health` | how the parts of an engine are |
//! | `clock` | both clocks, and why the wall clock is not believed |

pub mod clock;
mod health;
mod payments;
mod refusal;
mod shop;
mod views;

use std::pin::Pin;

pub use health::{Component, Health};
pub use payments::{Answer, Payments, Profile, Question, Written};
pub use refusal::{EngineError, Refusal};
pub use shop::{
    CheckoutRequest, CheckoutTimes, NotedTroubles, OrderView, Shop, ShopError, Shopping, Troubles,
};
pub use views::{Figures, LogFigures, NodeFigures, ShopFigures, Views};

/// What an engine does for a caller that waits.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What an engine reads, when it is there.
pub type Reading<'a, T> = Doing<'a, Result<T, EngineError>>;
