//! What a shop's programs send and get.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::problem::ProblemHead;
use crate::{Instant, Name, Nullable};

words! {
    /// What the payment side may say about a try.
    PaySaid {
        /// It has taken.
        Taken = "psucc",
        /// It has not and never will.
        Refused = "pfail",
        /// It has given back, or never took and never will.
        Undone = "csucc",
    }
}

words! {
    /// What the stock side may say about a try.
    StockSaid {
        /// It has taken.
        Taken = "ssucc",
        /// It has not and never will.
        Refused = "sfail",
        /// It has given back, or never took and never will.
        Undone = "asucc",
    }
}

words! {
    /// Where an open checkout stands.
    OpenState {
        /// It is not decided.
        Pending = "pending",
        /// It has failed, and is given back.
        Cancelling = "cancelling",
    }
}

/// What the payment side says about a try.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PayOutcome {
    /// It has taken; it has not and never will; it has given back, or never took and never will
    pub outcome: PaySaid,
}

/// What the stock side says about a try.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StockOutcome {
    /// It has taken; it has not and never will; it has given back, or never took and never will
    pub outcome: StockSaid,
}

words! {
    /// A side of a checkout.
    Side {
        /// Who charges.
        Pay = "pay",
        /// Who takes stock.
        Stock = "stock",
    }
}

words! {
    /// Why a try failed.
    Why {
        /// The payment was refused.
        Pay = "pay",
        /// The stock was refused.
        Stock = "stock",
        /// Both were.
        Both = "both",
        /// An operator cancelled it.
        Cancelled = "cancelled",
        /// Its deadline passed.
        Deadline = "deadline",
    }
}

words! {
    /// Where an order stands.
    OrderState {
        /// It can be checked out.
        NotPaid = "not_paid",
        /// A checkout of it is not decided.
        Pending = "pending",
        /// A checkout of it has failed, and is given back.
        Cancelling = "cancelling",
        /// It is paid.
        Paid = "paid",
    }
}

/// What an open checkout waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waits {
    /// Since when it waits for these
    pub since: Instant,
    /// It is cancelled after this, unless it is decided by then
    pub deadline: Instant,
    /// For whom it waits
    pub waits_for: Vec<Side>,
    /// The same in words, such as `waits for stock since 12 s, cancels in 18 s`
    pub detail: String,
}

/// A checkout, whatever became of it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checkout {
    /// In an answer to an outside side: whether what it said changed anything
    pub counted: Option<bool>,
    /// The order
    pub order: Name,
    /// The number of the try
    pub tr: u32,
    /// Where the order stands
    pub state: OrderState,
    /// Where it is paid: by this checkout, and not before it
    pub charged: Option<bool>,
    /// Why its last try failed
    pub why: Option<Why>,
    /// Where it is open.
    #[serde(flatten)]
    pub waits: Option<Waits>,
}

/// An order as its checkouts see it, and the open one if there is one.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckoutStory {
    /// The order
    pub order: Name,
    /// The number of its last try; null: never tried
    pub tr: Nullable<u32>,
    /// Where the order stands
    pub state: OrderState,
    /// Who pays
    pub user: Name,
    /// What it costs
    pub amount: String,
    /// Why its last try failed
    pub why: Option<Why>,
    /// When the checkout began
    pub started_at: Option<Instant>,
    /// The transfer that pays for it, where transfers do
    pub transfer: Option<String>,
    /// In whose name tokens are locked for it, where tokens pay
    pub spender: Option<String>,
    /// Where it is open.
    #[serde(flatten)]
    pub waits: Option<Waits>,
}

/// A page of open checkouts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckoutPage {
    /// Its rows
    #[schemars(length(max = 1_000))]
    pub checkouts: Vec<CheckoutStory>,
    /// For `after` of the next page; null at the end
    pub next: Nullable<String>,
}

/// A user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ShopUser")]
pub struct User {
    /// Its id
    pub user_id: Name,
    /// What it can spend
    pub credit: u64,
}

/// An item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ShopItem")]
pub struct Item {
    /// Its id
    pub item_id: Name,
    /// How many there are
    pub stock: u64,
    /// What one costs
    pub price: u64,
}

/// An order, as both dialects show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CourseOrder")]
pub struct Order {
    /// Its id
    pub order_id: Name,
    /// Whether it is paid
    pub paid: bool,
    /// Lines as they were added: item and quantity
    #[schemars(length(max = 1_000))]
    pub items: Vec<(Name, u64)>,
    /// Who pays
    pub user_id: Name,
    /// What it costs
    pub total_cost: u64,
}

/// An order with where it stands.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ShopOrder")]
pub struct WholeOrder {
    /// The order.
    #[serde(flatten)]
    pub order: Order,
    /// Where it stands
    pub state: OrderState,
    /// The number of its last try; null: never tried
    pub tr: Nullable<u32>,
    /// Why its last try failed
    pub why: Option<Why>,
    /// Where a checkout of it is open.
    #[serde(flatten)]
    pub waits: Option<Waits>,
}

/// What a `batch_init` has made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ShopFilled")]
pub struct Filled {
    /// Rows that were made or replaced
    pub count: u64,
}

/// A problem of RFC 9457, with what a program can go by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ShopProblem")]
pub struct Problem {
    /// What every problem says.
    #[serde(flatten)]
    pub head: ProblemHead,
    /// What it is about.
    #[serde(flatten)]
    pub about: About,
}

/// What a problem of the shop is about.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// Which order
    pub order: Option<Name>,
    /// The number of its last try; null: never tried
    pub tr: Option<Nullable<u32>>,
    /// Where the order stands
    pub state: Option<OrderState>,
    /// Why its last try failed
    pub why: Option<Why>,
    /// Which user
    pub user: Option<Name>,
    /// What the user has
    pub credit: Option<u64>,
    /// Which item
    pub item: Option<Name>,
    /// How many there are of it
    pub stock: Option<u64>,
    /// How many checkouts are open
    pub open: Option<usize>,
    /// Where it is open: since when it waits
    pub since: Option<Instant>,
    /// Where it is open: when it is cancelled
    pub deadline: Option<Instant>,
    /// Where it is open: for whom it waits
    pub waits_for: Option<Vec<Side>>,
}
