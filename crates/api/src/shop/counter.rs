//! The shop behind the edge: the hub's own, or the one that all nodes of a cluster share. The paths are the same.

use std::sync::Arc;

use holdfast_database::shop::{Asking, SharedShop};
use holdfast_delivery::troubled;
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{
    CheckoutAnswer, ItemId, ItemRow, OrderId, OrderRow, Said, ShopCommand, ShopOutcome, Side, TryKey, UserId,
    UserRow, Whole, init_in_pieces,
};
use holdfast_engine::{CheckoutTimes, NotedTroubles, Refusal, Troubles};
use holdfast_hub::ShopError;
use holdfast_hub::shop::{CheckoutRequest, CheckoutState, OpenCheckout, OpenCheckouts, OrderView, ShopDesk};
use holdfast_postgres::shop::OpenState;

use crate::Edge;

/// A shop, of either kind. Cheap to clone.
#[derive(Clone)]
pub enum Counter {
    /// The hub's own.
    Hub(ShopDesk),
    /// The one of a cluster, how long its callers wait, and what this node knows of sides that are outside.
    Shared(SharedShop, CheckoutTimes, NotedTroubles),
}

/// What handlers of the shop's paths can reach.
#[derive(Clone)]
pub(crate) struct Shop(pub(super) Counter);

impl Shop {
    pub(crate) fn of(edge: &Edge) -> Option<Shop> {
        edge.shop.clone().map(Shop)
    }
}

/// Where a page of open checkouts begins.
pub(super) enum Cursor {
    /// Behind the checkout whose record lies there.
    Record(u64),
    /// Behind the checkout of that order, which began then.
    Started(Millis, OrderId),
}

/// A page of open checkouts.
pub(super) struct Page {
    /// The oldest first.
    pub(super) checkouts: Vec<OpenCheckout>,
    /// Where the next page begins; `None`: there is none.
    pub(super) next: Option<String>,
    /// The time, to tell ages by.
    pub(super) now: Millis,
}

fn unexpected(outcome: &ShopOutcome) -> ShopError {
    match outcome {
        ShopOutcome::Refused(refusal) => ShopError::Refused(refusal.clone()),
        other => ShopError::Hub(Refusal::Unknown(format!("another outcome than asked for: {other:?}"))),
    }
}

impl Counter {
    pub(super) fn new_id(&self) -> String {
        match self {
            Counter::Hub(desk) => desk.new_id(),
            Counter::Shared(shop, ..) => shop.new_id(),
        }
    }

    pub(crate) const fn options(&self) -> &CheckoutTimes {
        match self {
            Counter::Hub(desk) => desk.options(),
            Counter::Shared(_, options, _) => options,
        }
    }

    pub(super) fn now(&self) -> Millis {
        match self {
            Counter::Hub(desk) => desk.now(),
            Counter::Shared(shop, ..) => shop.now(),
        }
    }

    /// What is wrong with sides that are outside.
    pub(super) fn troubles(&self) -> Troubles {
        match self {
            Counter::Hub(desk) => desk.troubles(),
            Counter::Shared(.., troubles) => troubles.seen(),
        }
    }

    async fn decide(&self, command: ShopCommand) -> Result<ShopOutcome, ShopError> {
        match self {
            Counter::Hub(desk) => desk.decide(command).await,
            Counter::Shared(shop, ..) => shop.decide(command).await.map_err(troubled),
        }
    }

    async fn user_after(&self, command: ShopCommand) -> Result<UserRow, ShopError> {
        match self.decide(command).await? {
            ShopOutcome::User(row) => Ok(row),
            other => Err(unexpected(&other)),
        }
    }

    async fn item_after(&self, command: ShopCommand) -> Result<ItemRow, ShopError> {
        match self.decide(command).await? {
            ShopOutcome::Item(row) => Ok(row),
            other => Err(unexpected(&other)),
        }
    }

    async fn order_after(&self, command: ShopCommand) -> Result<OrderRow, ShopError> {
        match self.decide(command).await? {
            ShopOutcome::Order(row) => Ok(*row),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn create_user(&self, id: UserId, credit: Whole) -> Result<UserRow, ShopError> {
        self.user_after(ShopCommand::CreateUser { id, credit }).await
    }

    pub(super) async fn add_funds(&self, user: UserId, amount: Whole) -> Result<UserRow, ShopError> {
        self.user_after(ShopCommand::AddFunds { user, amount }).await
    }

    pub(super) async fn take_funds(&self, user: UserId, amount: Whole) -> Result<UserRow, ShopError> {
        self.user_after(ShopCommand::TakeFunds { user, amount }).await
    }

    pub(super) async fn create_item(
        &self,
        id: ItemId,
        stock: Whole,
        price: Whole,
    ) -> Result<ItemRow, ShopError> {
        self.item_after(ShopCommand::CreateItem { id, stock, price }).await
    }

    pub(super) async fn add_stock(&self, item: ItemId, amount: Whole) -> Result<ItemRow, ShopError> {
        self.item_after(ShopCommand::AddStock { item, amount }).await
    }

    pub(super) async fn take_stock(&self, item: ItemId, amount: Whole) -> Result<ItemRow, ShopError> {
        self.item_after(ShopCommand::TakeStock { item, amount }).await
    }

    pub(super) async fn create_order(&self, id: OrderId, user: UserId) -> Result<OrderRow, ShopError> {
        self.order_after(ShopCommand::CreateOrder { id, user }).await
    }

    pub(super) async fn add_item(
        &self,
        order: OrderId,
        item: ItemId,
        quantity: Whole,
    ) -> Result<OrderRow, ShopError> {
        self.order_after(ShopCommand::AddItem { order, item, quantity }).await
    }

    /// A number drawn at random, for orders that are made at random.
    pub(super) fn draw(&self) -> u64 {
        match self {
            Counter::Hub(desk) => desk.draw(),
            Counter::Shared(shop, ..) => shop.draw(),
        }
    }

    /// Rows `0` to `count`, not included, made or replaced. If it fails, some may have been made.
    pub(super) async fn init(
        &self,
        count: u64,
        command: impl Fn(u64, u32) -> ShopCommand,
    ) -> Result<(), ShopError> {
        for piece in init_in_pieces(count, command) {
            match self.decide(piece).await? {
                ShopOutcome::Initialised(_) => {}
                other => return Err(unexpected(&other)),
            }
        }
        Ok(())
    }

    pub(crate) async fn checkout(&self, request: CheckoutRequest) -> Result<CheckoutAnswer, ShopError> {
        match self {
            Counter::Hub(desk) => desk.checkout(request).await,
            Counter::Shared(shop, options, _) => {
                let CheckoutRequest { order, deadline_ms, wait_ms, key, .. } = request;
                let asking = Asking {
                    order,
                    deadline_ms: deadline_ms.unwrap_or(options.deadline_ms),
                    wait_ms: wait_ms.unwrap_or(options.wait_ms),
                    key,
                };
                shop.checkout(asking).await.map_err(troubled)
            }
        }
    }

    pub(super) async fn cancel(&self, order: OrderId) -> Result<CheckoutAnswer, ShopError> {
        match self {
            Counter::Hub(desk) => desk.cancel(order).await,
            Counter::Shared(shop, ..) => shop.cancel(order).await.map_err(troubled),
        }
    }

    pub(super) async fn retry(&self, order: OrderId) -> Result<CheckoutAnswer, ShopError> {
        match self {
            Counter::Hub(desk) => desk.retry(order).await,
            Counter::Shared(shop, options, _) => {
                shop.retry(order, options.deadline_ms).await.map_err(troubled)
            }
        }
    }

    /// An outside side answers about a try. Gives whether that counted, and how the checkout stands.
    pub(super) async fn answer(
        &self,
        key: TryKey,
        side: Side,
        said: Said,
    ) -> Result<(bool, CheckoutAnswer), ShopError> {
        match self {
            Counter::Hub(desk) => desk.answer(key, side, said).await,
            Counter::Shared(shop, ..) => shop.answer(key, side, said).await.map_err(troubled),
        }
    }

    pub(super) async fn user(&self, id: UserId) -> Result<Option<UserRow>, ShopError> {
        match self {
            Counter::Hub(desk) => desk.user(id).await,
            Counter::Shared(shop, ..) => shop.user(id).await.map_err(troubled),
        }
    }

    pub(super) async fn item(&self, id: ItemId) -> Result<Option<ItemRow>, ShopError> {
        match self {
            Counter::Hub(desk) => desk.item(id).await,
            Counter::Shared(shop, ..) => shop.item(id).await.map_err(troubled),
        }
    }

    pub(super) async fn order(&self, id: OrderId) -> Result<Option<OrderView>, ShopError> {
        match self {
            Counter::Hub(desk) => desk.order(id).await,
            Counter::Shared(shop, ..) => {
                let found = shop.order(id).await.map_err(troubled)?;
                Ok(found.map(|(row, open)| OrderView { row, open: open.map(Arc::new) }))
            }
        }
    }

    /// The place that the `next` of a page names.
    pub(super) fn cursor(&self, text: &str) -> Option<Cursor> {
        match self {
            Counter::Hub(_) => text.parse().ok().map(Cursor::Record),
            Counter::Shared(..) => {
                let (started, order) = text.split_once(' ')?;
                let order = Some(order).filter(|order| !order.contains('\0'))?;
                Some(Cursor::Started(started.parse().ok()?, order.parse().ok()?))
            }
        }
    }

    pub(super) async fn open_checkouts(
        &self,
        state: Option<CheckoutState>,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page, ShopError> {
        match self {
            Counter::Hub(desk) => {
                let after = after.and_then(|after| match after {
                    Cursor::Record(record) => Some(record),
                    Cursor::Started(..) => None,
                });
                let OpenCheckouts { checkouts, next, now } = desk.open_checkouts(state, after, limit).await?;
                Ok(Page { checkouts, next: next.map(|next| next.to_string()), now })
            }
            Counter::Shared(shop, ..) => {
                let after = after.and_then(|after| match after {
                    Cursor::Started(started, order) => Some((started, order)),
                    Cursor::Record(_) => None,
                });
                let state = state.map(|state| match state {
                    CheckoutState::Pending => OpenState::Pending,
                    CheckoutState::Cancelling => OpenState::Cancelling,
                });
                let page = shop.open_checkouts(state, after, limit).await.map_err(troubled)?;
                let checkouts = page.checkouts.into_iter();
                let checkouts =
                    checkouts.map(|open| OpenCheckout { order: open.order, row: open.row }).collect();
                let next = page.next.map(|(started, order)| format!("{started} {order}"));
                Ok(Page { checkouts, next, now: page.now })
            }
        }
    }
}
