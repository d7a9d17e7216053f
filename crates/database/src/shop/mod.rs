//! The shop of the database profile. An order's way is that of the topics: `orders` starts a checkout, `pay` and `stock` take, `outcomes`
//! decides; what edges change otherwise is a transaction at the node that is asked.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `shared`, `trouble` | what the edges call, and why something was not done |
//! | `answers` | what sides outside answer over HTTP |
//! | `hops`, `misplaced` | the handlers of the four topics; messages in another partition than their order's are passed over |
//! | `asks`, `side` | a side that is called over HTTP: whom to ask about, and where its answers go |
//! | `tellings` | ends that the webhook is to be told of |
//! | `token_charges` | tokens are locked for the tries of a batch, where tokens pay |
//! | `coordinators` | what the order consumers of this node's partitions know, rebuilt from the log when one is taken over |

mod answers;
mod asks;
mod coordinators;
mod hops;
mod misplaced;
mod shared;
mod side;
mod tellings;
mod token_charges;
mod trouble;

pub use asks::News;
pub use shared::SharedShop;
pub use side::{CalledSide, OwedByCall, PageStart};
pub use tellings::{Tellings, Told};

pub(crate) use asks::Asks;
pub(crate) use hops::{called, orders, outcomes, pay, stock};
pub(crate) use token_charges::TokenCharges;

use std::sync::Arc;

use holdfast_domain::shop::Side;
use holdfast_messages::Topic;

/// The topic that a side reads.
pub(crate) const fn topic_of(side: Side) -> Topic {
    match side {
        Side::Pay => Topic::Pay,
        Side::Stock => Topic::Stock,
    }
}

/// The sides that this node calls over HTTP.
#[derive(Clone, Default)]
pub(crate) struct Called {
    pub(crate) pay: Option<Arc<Asks>>,
    pub(crate) stock: Option<Arc<Asks>>,
}

impl Called {
    pub(crate) const fn of(&self, side: Side) -> Option<&Arc<Asks>> {
        match side {
            Side::Pay => self.pay.as_ref(),
            Side::Stock => self.stock.as_ref(),
        }
    }

    /// The node ends.
    pub(crate) fn close(&self) {
        [&self.pay, &self.stock].into_iter().flatten().for_each(|asks| asks.close());
    }
}

/// Every bound of the shop of a node.
pub mod limits {
    use std::time::Duration;

    /// Callers that wait at a node for the end of a checkout.
    pub const CALLERS_MAX: usize = 50_000;
    /// So long, or for as long as its caller waits if that is longer, a checkout may take to begin: who does not want to wait for its
    /// end wants to hear that it has begun.
    pub const BEGIN_WAIT_MIN: Duration = Duration::from_secs(5);
    /// Orders that a courier has not heard of yet. More are looked for in the store.
    pub const ASKS_MAX: usize = 65_536;
    /// Checkouts that are being given back, among which is looked for what a called side owes.
    pub const OWED_LOOKED_AT_MAX: usize = 20_000;
    /// How long an outside side's answer may take from the log to the order's row, for whoever waits to see it there.
    pub const HEARD_WAIT: Duration = Duration::from_secs(5);
    /// How soon the row is looked at meanwhile; each time twice as late, up to the second.
    pub const HEARD_LOOK_EVERY: Duration = Duration::from_millis(20);
    /// As above.
    pub const HEARD_LOOK_EVERY_MAX: Duration = Duration::from_millis(320);
    /// How long Kafka may be silent while the log is read of a partition that is taken over.
    pub const REBUILD_WAIT: Duration = Duration::from_secs(10);
    /// How long the partitions of `outcomes` that are given to a node at once may take to be rebuilt: longer, and the group
    /// takes it for dead.
    pub const TAKEOVER_MAX: Duration = Duration::from_secs(900);
    /// Records of the log read at a time.
    pub const REBUILD_RECORDS: usize = 10_000;
    /// So many times as many wait to be understood while more are read.
    pub const REBUILD_PIECES: usize = 4;
}
