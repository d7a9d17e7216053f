//! What an engine shows of its state. A view sees what is durable, and no part of a batch.

use holdfast_domain::ids::{Millis, TransferId, TransferNo};
use holdfast_domain::transfers::Transfer;
use holdfast_domain::views::{NamedTransfer, Stats, TransferFilter, TransferPage, TransferStory};

use crate::Reading;

/// What was done, and what is held now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// What every engine counts.
    pub stats: Stats,
    /// The program that was asked, where there may be several.
    pub node: Option<NodeFigures>,
    /// The shop, where there is one.
    pub shop: Option<ShopFigures>,
    /// The log, where an engine keeps one of its own.
    pub log: Option<LogFigures>,
}

/// One node of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFigures {
    /// What it does.
    pub roles: String,
    /// Commands of its callers that are on their way.
    pub commands_in_flight: usize,
}

/// What a shop holds, what its checkouts charge and where they take stock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShopFigures {
    /// Users; `None` where counting them would take too long.
    pub users: Option<u64>,
    /// Items; `None` as above.
    pub items: Option<u64>,
    /// Orders that are not paid; `None` as above.
    pub unpaid_orders: Option<u64>,
    /// Checkouts that are open.
    pub open_checkouts: u64,
    /// What the payment side charges, or that it is outside.
    pub payment: &'static str,
    /// Where the stock side is.
    pub stock: &'static str,
}

/// A log of an engine's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFigures {
    /// Frames that it ever held.
    pub frames: u64,
    /// Records that it ever held.
    pub records: u64,
    /// The offset at which the next record will lie.
    pub end: u64,
    /// The time of the last frame.
    pub last_time: Millis,
    /// The audit chain after it.
    pub chain: [u8; 32],
}

/// Shows transfers, holds and figures.
pub trait Views {
    /// The transfer of that id, open or ended.
    fn transfer(&self, id: TransferId) -> Reading<'_, Option<Transfer>>;

    /// The same with its past.
    fn story(&self, id: TransferId) -> Reading<'_, Option<TransferStory>>;

    /// A page of at most `limit` transfers. `after`: the `next` of the page before.
    fn transfers(
        &self,
        filter: TransferFilter,
        after: Option<String>,
        limit: usize,
    ) -> Reading<'_, TransferPage>;

    /// Open holds that run out before `before`, by expiration and number, after the one given, at most `limit`.
    fn holds(
        &self,
        before: Millis,
        after: Option<(Millis, TransferNo)>,
        limit: usize,
    ) -> Reading<'_, Vec<NamedTransfer>>;

    /// What was done, and what is held now.
    fn figures(&self) -> Reading<'_, Figures>;
}
