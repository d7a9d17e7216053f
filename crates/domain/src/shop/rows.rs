//! What is stored of the shop, what changes it, and what is answered.

use std::sync::Arc;

use super::{
    Charge, Charging, Fingerprint, ItemId, Message, Name, Order, OrderId, OrderState, Side, Sides, TrNum,
    UserId, Whole,
};
use crate::ids::Millis;
use crate::numbered::numbered;
use crate::tokens::TokenId;

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRow {
    /// Its id.
    pub id: UserId,
    /// What it can spend.
    pub credit: Whole,
}

/// An item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemRow {
    /// Its id.
    pub id: ItemId,
    /// How many there are.
    pub stock: Whole,
    /// What one costs.
    pub price: Whole,
}

numbered! {
    /// Why a checkout failed, with its name for machines.
    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Why: u8, name {
        /// The payment side refused.
        Pay = 1 => "pay",
        /// The stock side refused.
        Stock = 2 => "stock",
        /// Both did.
        Both = 3 => "both",
        /// An operator cancelled it.
        Cancelled = 4 => "cancelled",
        /// Its deadline passed.
        Deadline = 5 => "deadline",
    }
}

/// An order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderRow {
    /// The order itself.
    pub order: Order,
    /// Why its last try failed, if that is over and has.
    pub failed: Option<Why>,
    /// Its life: the number of the last try of an order that an init has put this one in the place of, 0 if there was none
    /// or it was never tried. Tries go on being counted, so those up to this number were not of this order.
    pub life: u32,
}

impl OrderRow {
    /// Whether it is paid, which is final.
    #[must_use]
    pub const fn is_paid(&self) -> bool {
        matches!(self.order.state, OrderState::Paid(_))
    }

    /// Whether that try was of an order that this one has taken the place of.
    #[must_use]
    pub const fn is_of_an_earlier(&self, tr: TrNum) -> bool {
        tr.get() <= self.life
    }

    /// How that try stands, or a later one, with what is open of the order; `None` if it was not tried so often, or the try was
    /// of an order that this one has taken the place of.
    #[must_use]
    pub fn stands(&self, open: Option<&CheckoutRow>, tr: TrNum) -> Option<CheckoutAnswer> {
        if self.is_of_an_earlier(tr) {
            return None;
        }
        let answer = match (self.order.state, open, self.failed) {
            (_, Some(open), _) => CheckoutAnswer::Open { tr: open.tr, waits: open.waits() },
            (OrderState::Paid(tr), None, _) => CheckoutAnswer::Paid { tr },
            (OrderState::NotPaid(Some(tr)), None, Some(why)) => CheckoutAnswer::Failed { tr, why },
            _ => return None,
        };
        (answer.tr() >= tr).then_some(answer)
    }
}

/// What one side has said about an open try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SideRow {
    /// Its forward outcome, as the coordinator counts it.
    pub said: Option<SideSaid>,
    /// Whether it said that all is given back.
    pub undone: bool,
    /// Its rows, if it is an inside one: what became of the forward message and of the rollback.
    pub branch: Option<SideBranch>,
}

numbered! {
    /// A forward outcome.
    #[allow(missing_docs, reason = "the names say it")]
    pub enum SideSaid: u8 {
        Taken = 1,
        Refused = 2,
    }
}

numbered! {
    /// The rows of an inside side, without their value: that is the order's.
    pub enum SideBranch: u8 {
        /// It took.
        Taken = 1,
        /// It refused.
        Refused = 2,
        /// It took and gave back.
        GivenBack = 3,
        /// It refused and was told to give back.
        RefusedUndone = 4,
        /// It was told to give back before it was asked to take.
        CancelledFirst = 5,
        /// And refused when it was asked.
        CancelledThenRefused = 6,
    }
}

/// A try that is open between frames: not decided, or not given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckoutRow {
    /// The order.
    pub order: OrderId,
    /// Its try.
    pub tr: TrNum,
    /// Where in the log its record lies.
    pub start: u64,
    /// When it was asked for.
    pub started_at: Millis,
    /// It is cancelled after this, if it is not decided by then.
    pub deadline: Millis,
    /// The sides that are outside for this try.
    pub outside: Sides,
    /// The payment side.
    pub pay: SideRow,
    /// The stock side.
    pub stock: SideRow,
    /// What was sent to undo it, if it was decided as failed; `None`: it is not decided.
    pub undo: Option<Sides>,
    /// Why it failed, if it has.
    pub why: Option<Why>,
    /// Since when it waits for those that it waits for.
    pub waits_since: Millis,
    /// The idempotency keys that get its answer.
    pub keys: Vec<Name>,
    /// What pays for it, if that is not credit.
    pub charge: Option<Charge>,
}

impl CheckoutRow {
    /// The sides that it waits for.
    #[must_use]
    pub const fn waits_for(&self) -> Sides {
        match self.undo {
            None => Sides { pay: self.pay.said.is_none(), stock: self.stock.said.is_none() },
            Some(undo) => {
                Sides { pay: undo.pay && !self.pay.undone, stock: undo.stock && !self.stock.undone }
            }
        }
    }

    /// Whether that side may still be asked for something: to take, or to give back what it has taken.
    #[must_use]
    pub const fn may_ask(&self, side: Side) -> bool {
        match self.undo {
            None => !matches!(self.side(side).said, Some(SideSaid::Refused)),
            Some(_) => self.waits_for().has(side),
        }
    }

    /// What it waits for, as it is told to callers.
    #[must_use]
    pub const fn waits(&self) -> Waits {
        Waits {
            sides: self.waits_for(),
            cancelling: self.undo.is_some(),
            since: self.waits_since,
            deadline: self.deadline,
        }
    }

    /// One of its sides.
    #[must_use]
    pub const fn side(&self, side: Side) -> &SideRow {
        match side {
            Side::Pay => &self.pay,
            Side::Stock => &self.stock,
        }
    }
}

/// What an open checkout waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// For whom.
    pub sides: Sides,
    /// It has failed, and what was taken is being given back; else it is not decided.
    pub cancelling: bool,
    /// Since when.
    pub since: Millis,
    /// It is cancelled after this, unless it is decided by then.
    pub deadline: Millis,
}

/// The answer kept under an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// The key.
    pub key: Name,
    /// The content of the request that it came with.
    pub body: Fingerprint,
    /// The order.
    pub order: OrderId,
    /// The answer; `None` while the checkout is open.
    pub answer: Option<CheckoutAnswer>,
    /// From this instant the key is free again.
    pub ends_at: Millis,
}

/// How a checkout stands, and which try it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum CheckoutAnswer {
    /// It is paid, by this try.
    Paid { tr: TrNum },
    /// It was paid before, by this try: nothing was charged.
    AlreadyPaid { tr: TrNum },
    /// It failed, and everything is given back.
    Failed { tr: TrNum, why: Why },
    /// It is under way, and waits for this.
    Open { tr: TrNum, waits: Waits },
}

impl CheckoutAnswer {
    /// The try that it is about.
    #[must_use]
    pub const fn tr(&self) -> TrNum {
        match self {
            CheckoutAnswer::Paid { tr }
            | CheckoutAnswer::AlreadyPaid { tr }
            | CheckoutAnswer::Failed { tr, .. }
            | CheckoutAnswer::Open { tr, .. } => *tr,
        }
    }
}

/// An open checkout came to its end: decided and, if it failed, given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckoutEnd {
    /// The order.
    pub order: OrderId,
    /// How it ended: never open.
    pub answer: CheckoutAnswer,
}

/// A message of a checkout, with the place of the record that led to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShopMessage {
    /// The record's place in the log.
    pub offset: u64,
    /// It is for a side that is outside: nobody here reads it.
    pub outside: bool,
    /// The message. Its body tells the topic.
    pub message: Message,
}

/// One change to the rows. What is named is as it is from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ShopEffect {
    /// A user was made or replaced.
    User(UserRow),
    /// An item was made or replaced.
    Item(ItemRow),
    /// An order was made or replaced, or has another line.
    Order(Box<OrderRow>),
    /// A user's credit is another.
    Credit { user: UserId, credit: Whole },
    /// An item's stock is another.
    Stock { item: ItemId, stock: Whole },
    /// An order stands elsewhere, and its last try has failed so. One that is paid leaves memory when the frame is done.
    Moved { order: OrderId, state: OrderState, failed: Option<Why> },
    /// A checkout is open: the row as it is now.
    Opened(Arc<CheckoutRow>),
    /// An open checkout is over.
    Closed(CheckoutEnd),
    /// A key was taken, or has its answer now.
    KeyPut(Arc<KeyRow>),
    /// A key's time has run out.
    KeyEnded(Name),
    /// These sides are outside from now on.
    Outside(Sides),
    /// The payment side charges these from now on.
    Charging(Charging),
}

/// The answer to a shop command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each answer says what its fields are")]
pub enum ShopOutcome {
    /// The user as it is now.
    User(UserRow),
    /// The item as it is now.
    Item(ItemRow),
    /// The order as it is now.
    Order(Box<OrderRow>),
    /// So many rows were made or replaced.
    Initialised(u32),
    /// How the checkout stands: the answer to checkout, cancel and retry.
    Checkout(CheckoutAnswer),
    /// An outside participant was heard, and so the checkout stands. If that does not count, its try is over, or the same was
    /// said before, and nothing changed.
    Heard { counts: bool, now: CheckoutAnswer },
    /// These sides are outside.
    Outside(Sides),
    /// The payment side charges these.
    Charging(Charging),
    /// No, and nothing was changed.
    Refused(ShopRefusal),
}

/// Why a shop command was refused, with what it was about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each refusal says what its fields are")]
pub enum ShopRefusal {
    /// There is no such user.
    #[error("there is no user {0}")]
    UnknownUser(UserId),
    /// There is no such item.
    #[error("there is no item {0}")]
    UnknownItem(ItemId),
    /// There is no such order.
    #[error("there is no order {0}")]
    UnknownOrder(OrderId),
    /// The id of a `user`, `item` or `order` is taken.
    #[error("there is a {kind} {id} already; choose another id")]
    Exists { kind: &'static str, id: String },
    /// The user has not so much, but this.
    #[error("user {user} has a credit of {credit} only")]
    InsufficientCredit { user: UserId, credit: Whole },
    /// There are not so many, but these.
    #[error("there are only {stock} of item {item}")]
    InsufficientStock { item: ItemId, stock: Whole },
    /// The order does not stand where this can be done.
    #[error("order {order} is {state}: {advice}", state = state.name(), advice = advice(order, *state))]
    NotNow { order: OrderId, state: OrderState },
    /// Rows that are there, `users`, `items` or `orders`, would be replaced while open checkouts, so many, may have taken from them.
    #[error(
        "{open} checkouts are open, so {kind} that are there cannot be replaced now: wait until they have ended, or cancel \
         them (GET /hub/checkouts shows them)"
    )]
    CheckoutsOpen { kind: &'static str, open: usize },
    /// An answer about a try of an order that an init has replaced since.
    #[error("order {0} was made anew after this try: nothing waits for this answer, do not send it again")]
    Replaced(OrderId),
    /// A number would grow too large, or an order too long.
    #[error("{0}")]
    TooLarge(String),
    /// The key came with another request before.
    #[error("the idempotency key was used with another request; choose another key")]
    KeyReused,
    /// There is no room for more of these than the bound.
    #[error("the shop is full: no more than {max} {what}")]
    Full { what: &'static str, max: usize },
    /// The order was tried more often than can be counted.
    #[error("order {0} was tried too often; make a new one")]
    TriesUsedUp(OrderId),
    /// An answer of a side that is inside for this try.
    #[error("the {side} side of this checkout is inside; it takes no answers from outside", side = .0.name())]
    NotOutside(Side),
    /// An answer about a try that was never started.
    #[error("order {0} has had no such try")]
    UnknownTry(OrderId),
    /// It is paid for with tokens, and those that were chosen are not to be had: why, and one that another has locked. Nothing was
    /// tried.
    #[error("order {order} is paid for with tokens, and {why}. Nothing was tried: ask again")]
    ChooseTokens { order: OrderId, why: &'static str, taken: Option<TokenId> },
    /// The request contradicts itself.
    #[error("{0}")]
    Invalid(&'static str),
}

/// What can be done with an order that stands there, for whoever wanted something else. An order that is not paid and has nothing
/// under way takes everything but a cancel and, if it was never tried, a retry.
fn advice(order: &OrderId, state: OrderState) -> String {
    match state {
        OrderState::NotPaid(None) => format!(
            "it was never tried, so there is nothing to cancel or to retry. POST /shop/orders/checkout/{order} checks it out"
        ),
        OrderState::NotPaid(Some(_)) => format!(
            "its last try has ended and all is given back, so there is nothing to cancel. POST /shop/orders/checkout/{order} \
             tries it again"
        ),
        OrderState::Pending(_) => format!(
            "its checkout is under way. Wait for its end, or cancel it (POST /hub/checkouts/{order}/cancel)"
        ),
        OrderState::Cancelling(_) => format!(
            "its checkout is cancelled already, and what was taken is being given back. Wait for that; a retry \
             (POST /hub/checkouts/{order}/retry) asks the side that owes again"
        ),
        OrderState::Paid(_) => {
            "that is final, there is nothing to cancel, to retry or to change. Make a new order".to_owned()
        }
    }
}

/// How many rows of each kind are in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ShopCounts {
    pub users: usize,
    pub items: usize,
    pub orders: usize,
    pub checkouts: usize,
    pub keys: usize,
}
