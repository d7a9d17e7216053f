//! The shop: commands through the log, callers that wait for a checkout which stays open, and what goes on told to whoever
//! listens.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `desk` | what the edges call |
//! | `wallet` | tokens chosen for checkouts that they pay for |
//! | `feed` | durable frames followed: callers woken, listeners told, meters moved |
//! | `owed` | what outside sides are to give back |
//! | `trouble` | what is wrong with an outside side |

mod desk;
mod feed;
mod owed;
mod trouble;
mod wallet;

pub use desk::ShopDesk;
pub(crate) use desk::{Ask, Submit};
pub use feed::{Missed, ShopEvent, ShopEvents};
pub(crate) use feed::{ShopFeed, ShopNews};
pub use holdfast_engine::{OrderView, ShopError};
pub use owed::Owed;

/// The defaults.
pub mod limits {
    /// Frames with news that a listener may be behind before it misses some.
    pub const FRAMES_BEHIND_MAX: usize = 1_024;
}
