//! The shop: commands through the log, callers that wait for a checkout which stays open, and what goes on told to whoever
//! listens.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `hub_shop` | what goes to the log and what is asked between two frames |
//! | `calls` | what callers ask, as the port has it |
//! | `wallet` | tokens chosen for checkouts that they pay for |
//! | `feed` | durable frames followed: callers woken, listeners told, meters moved |
//! | `owed` | what outside sides are to give back |

mod calls;
mod feed;
mod hub_shop;
mod owed;
mod wallet;

pub use feed::{Missed, ShopEvent, ShopEvents};
pub(crate) use feed::{ShopFeed, ShopNews};
pub use hub_shop::HubShop;
pub use owed::Owed;

/// The defaults.
pub mod limits {
    /// Frames with news that a listener may be behind before it misses some.
    pub const FRAMES_BEHIND_MAX: usize = 1_024;
}
