//! The shop: users with credit, items with stock, orders, and their checkout.

use std::sync::Arc;

use holdfast_domain::ids::Millis;
use holdfast_domain::shop::callers::{CheckoutState, OpenCheckouts, WAIT_MS_DEFAULT};
use holdfast_domain::shop::limits::DEADLINE_MS_DEFAULT;
use holdfast_domain::shop::{
    CheckoutAnswer, CheckoutRow, IdempotencyKey, ItemId, ItemRow, OrderId, OrderRow, Said, ShopCommand,
    ShopOutcome, ShopRefusal, Side, TryKey, UserId, UserRow,
};

use crate::{Doing, Monitor, Refusal};

/// Why a request to the shop was not done. Nothing was, except perhaps after [`Refusal::Unknown`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShopError {
    /// The shop says no.
    #[error(transparent)]
    Refused(#[from] ShopRefusal),
    /// The engine takes nothing, or it is not known whether it did.
    #[error(transparent)]
    Hub(#[from] Refusal),
    /// What is stored cannot be read: what, and what to do.
    #[error("{0}")]
    Unreadable(String),
    /// Tokens pay, and the vault cannot say which.
    #[error("no tokens could be chosen to pay with: {0}")]
    Vault(holdfast_tokens::Refusal),
    /// The text is not the `next` of a page of open checkouts.
    #[error("'{0}' is not the 'next' of an earlier page")]
    NoSuchPage(String),
}

/// What a shop is asked, when it is answered.
pub type Shopping<'a, T> = Doing<'a, Result<T, ShopError>>;

/// A call to check out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckoutRequest {
    /// The order.
    pub order: OrderId,
    /// How long it may stay undecided; `None`: as the engine is set.
    pub deadline_ms: Option<u32>,
    /// How long the caller waits if it stays open; `None`: as the engine is set; 0: not at all.
    pub wait_ms: Option<u32>,
    /// How long it waits for tokens that others hold, where they are chosen before it is tried, up to a bound of the engine's
    /// own. `None`: as long as the caller waits.
    pub tokens_wait_ms: Option<u32>,
    /// Under which key it is asked for.
    pub key: Option<IdempotencyKey>,
}

impl CheckoutRequest {
    /// That order, with the engine's deadline and wait.
    #[must_use]
    pub const fn new(order: OrderId) -> CheckoutRequest {
        CheckoutRequest { order, deadline_ms: None, wait_ms: None, tokens_wait_ms: None, key: None }
    }
}

/// An order and, if one is under way, its open checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderView {
    /// The order.
    pub row: OrderRow,
    /// Its open checkout.
    pub open: Option<Arc<CheckoutRow>>,
}

/// A shop: the hub's own, or the one that all nodes share.
pub trait Shop: Send + Sync {
    /// The times of checkouts whose callers name none.
    fn times(&self) -> CheckoutTimes;

    /// The shop's time, to tell ages by.
    fn now(&self) -> Millis;

    /// A number drawn at random.
    fn draw(&self) -> u64;

    /// A UUID as text, for a new user, item or order.
    fn new_id(&self) -> String;

    /// What is wrong with sides that are outside.
    fn troubles(&self) -> Troubles;

    /// Has a command decided that is no checkout. A refusal is an outcome.
    fn decide(&self, command: ShopCommand) -> Shopping<'_, ShopOutcome>;

    /// Checks an order out, or joins the try that is under way. Answers when it is decided and, if it failed, everything is
    /// given back; or, as [`CheckoutAnswer::Open`], when the caller's wait ends first.
    fn checkout(&self, request: CheckoutRequest) -> Shopping<'_, CheckoutAnswer>;

    /// Ends a try that is not decided, and does not wait until what it took is given back.
    fn cancel(&self, order: OrderId) -> Shopping<'_, CheckoutAnswer>;

    /// Has what was not answered sent again, or a failed order checked out anew. Does not wait for its end.
    fn retry(&self, order: OrderId) -> Shopping<'_, CheckoutAnswer>;

    /// An outside side answers about a try. Gives whether that counted, and how the checkout stands.
    fn answer(&self, key: TryKey, side: Side, said: Said) -> Shopping<'_, (bool, CheckoutAnswer)>;

    /// A user; `None` if there is none of that id.
    fn user(&self, id: UserId) -> Shopping<'_, Option<UserRow>>;

    /// An item; `None` if there is none of that id.
    fn item(&self, id: ItemId) -> Shopping<'_, Option<ItemRow>>;

    /// An order, paid or not; `None` if there is none of that id.
    fn order(&self, id: OrderId) -> Shopping<'_, Option<OrderView>>;

    /// Open checkouts, the oldest first. `after`: the `next` of the page before. With a state a page may hold fewer than
    /// `limit`, or none, and yet have a next one.
    fn open_checkouts(
        &self,
        state: Option<CheckoutState>,
        after: Option<String>,
        limit: usize,
    ) -> Shopping<'_, OpenCheckouts<String>>;
}

/// How long checkouts take whose callers say nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckoutTimes {
    /// How long a checkout may stay undecided (`shop.deadline_ms`).
    pub deadline_ms: u32,
    /// How long a caller waits for a checkout that stays open (`shop.wait_ms`).
    pub wait_ms: u32,
}

impl Default for CheckoutTimes {
    fn default() -> CheckoutTimes {
        CheckoutTimes { deadline_ms: DEADLINE_MS_DEFAULT, wait_ms: WAIT_MS_DEFAULT }
    }
}

/// Why each side gave no answer when it was last asked; `None`: it did, or was not asked since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Troubles {
    pay: Option<Arc<str>>,
    stock: Option<Arc<str>>,
}

impl Troubles {
    /// That of one side.
    #[must_use]
    pub fn of(&self, side: Side) -> Option<&str> {
        match side {
            Side::Pay => self.pay.as_deref(),
            Side::Stock => self.stock.as_deref(),
        }
    }

    /// The same, with that of one side replaced.
    #[must_use]
    pub fn with(mut self, side: Side, why: Option<&str>) -> Troubles {
        let place = match side {
            Side::Pay => &mut self.pay,
            Side::Stock => &mut self.stock,
        };
        *place = why.map(Arc::from);
        self
    }
}

/// Where it is noted. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct NotedTroubles(Arc<Monitor<Troubles>>);

impl NotedTroubles {
    /// What is wrong with the sides that are outside.
    #[must_use]
    pub fn seen(&self) -> Troubles {
        self.0.lock().clone()
    }

    /// Notes that a side gave no answer, and why; or, with `None`, that it did. Whether that is a change from well to not well.
    pub fn note(&self, side: Side, why: Option<&str>) -> bool {
        let mut troubles = self.0.lock();
        let is_new = why.is_some() && troubles.of(side).is_none();
        if troubles.of(side) != why {
            *troubles = std::mem::take(&mut *troubles).with(side, why);
        }
        is_new
    }
}
