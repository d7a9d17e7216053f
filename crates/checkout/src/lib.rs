//! The checkout saga: an order's money and stock are both taken, or neither is.
//!
//! Four kinds of handler, all pure: what they read comes in through a view, and what they do goes out as
//! data.
//!
//! - [`participant`]: the payment and the stock side, which take and give back.
//! - [`order`]: the order row. Its compare-and-set on (state, tr#) **is** the decision of a checkout.
//! - [`coordinator`]: the order consumer, which folds the `outcomes` topic and decides through that row.
//! - [`codec`]: the messages as JSON, for topics that people read.
//!
//! Messages may come twice, late or in the wrong order; effects happen once. Nothing here reads a clock,
//! draws a random number, does IO or waits.

#![deny(clippy::float_arithmetic)]

pub mod alarm;
pub mod codec;
pub mod coordinator;
pub mod ids;
pub mod items;
pub mod limits;
pub mod lookup;
pub mod message;
pub mod number;
pub mod order;
pub mod participant;

pub use alarm::Alarm;
pub use coordinator::Coordinator;
pub use ids::{ItemId, Key, Offset, OrderId, TrNum, UserId};
pub use items::{Items, Line};
pub use lookup::Lookup;
pub use message::{Answer, Body, Message, Payment, Step, Topic, Verdict};
pub use number::Whole;
pub use order::{Order, OrderState};
