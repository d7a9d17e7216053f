//! The shop of a cluster. An order's way is that of the topics: `orders` starts a checkout, `pay` and `stock` take, `outcomes`
//! decides; what edges change otherwise is a transaction at the node that is asked.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `desk` | what the edges call |
//! | `ends` | who waits at this node for the end of which checkout |
//! | `hops` | the handlers of the four topics |
//! | `purse` | tokens are locked for the tries of a batch, where tokens pay |
//! | `coordinators` | what the order consumers of this node's partitions know, rebuilt from the log when one is taken over |

mod coordinators;
mod desk;
mod ends;
mod hops;
mod purse;

pub use desk::{Asking, SharedShop, ShopTrouble};

pub(crate) use coordinators::Coordinators;
pub(crate) use ends::Ends;
pub(crate) use hops::{Orders, Outcomes, Pay, Stock};
pub(crate) use purse::Purse;

/// Every bound of the shop of a node.
pub mod limits {
    use std::time::Duration;

    /// Callers that wait at a node for the end of a checkout.
    pub const CALLERS_MAX: usize = 50_000;
    /// The longest that a caller waits.
    pub const WAIT_MS_MAX: u32 = 60_000;
    /// How long reading the log may take when a partition is taken over.
    pub const REBUILD_WAIT: Duration = Duration::from_secs(120);
    /// Records of the log read at a time.
    pub const REBUILD_RECORDS: usize = 10_000;
}
