//! What callers of the shop may ask for, in whichever profile. These bounds decide nothing, so they may change at any time.

use std::sync::Arc;

use super::{CheckoutRow, OrderRow};
use crate::ids::Millis;

/// How long a caller waits for a checkout that stays open, unless it says otherwise.
pub const WAIT_MS_DEFAULT: u32 = 15_000;
/// The longest that a caller may ask to wait.
pub const WAIT_MS_MAX: u32 = 60_000;
/// How long a checkout waits at most for tokens that others hold, before it is tried.
pub const TOKENS_WAIT_MS: u32 = 5_000;
/// Open checkouts that one page shows at most.
pub const PAGE_MAX: usize = 1_000;

/// Which open checkouts are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckoutState {
    /// Not decided.
    Pending,
    /// Failed, and being given back.
    Cancelling,
}

/// A checkout that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCheckout {
    /// Its row: what it waits for, since when, and when it is cancelled. In the database profile both sides are outside in its
    /// eyes, as in those of every decision there.
    pub row: Arc<CheckoutRow>,
    /// Its order.
    pub order: OrderRow,
}

/// A page of open checkouts. `Start`: how is told where one begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCheckouts<Start> {
    /// The checkouts, the oldest first.
    pub checkouts: Vec<OpenCheckout>,
    /// Where the next page begins (`after`); `None`: there is none.
    pub next: Option<Start>,
    /// The time of who was asked, to tell ages by.
    pub now: Millis,
}
