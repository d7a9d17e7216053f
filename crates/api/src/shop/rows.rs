//! What handlers of the shop's paths can reach: the engine's shop, and its commands with the rows that they answer.

use std::ops::Deref;
use std::sync::Arc;

use holdfast_domain::shop::{
    ItemId, ItemRow, OrderId, OrderRow, ShopCommand, ShopOutcome, UserId, UserRow, Whole, init_in_pieces,
};
use holdfast_engine::{Refusal, ShopError};

/// The shop behind the edge. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shop(pub(crate) Arc<dyn holdfast_engine::Shop>);

impl Deref for Shop {
    type Target = dyn holdfast_engine::Shop;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

fn unexpected(outcome: &ShopOutcome) -> ShopError {
    match outcome {
        ShopOutcome::Refused(refusal) => ShopError::Refused(refusal.clone()),
        other => ShopError::Hub(Refusal::Unknown(format!("another outcome than asked for: {other:?}"))),
    }
}

impl Shop {
    async fn user_after(&self, command: ShopCommand) -> Result<UserRow, ShopError> {
        match self.0.decide(command).await? {
            ShopOutcome::User(row) => Ok(row),
            other => Err(unexpected(&other)),
        }
    }

    async fn item_after(&self, command: ShopCommand) -> Result<ItemRow, ShopError> {
        match self.0.decide(command).await? {
            ShopOutcome::Item(row) => Ok(row),
            other => Err(unexpected(&other)),
        }
    }

    async fn order_after(&self, command: ShopCommand) -> Result<OrderRow, ShopError> {
        match self.0.decide(command).await? {
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

    /// Rows `0` to `count`, not included, made or replaced. If it fails, some may have been made.
    pub(super) async fn init(
        &self,
        count: u64,
        command: impl Fn(u64, u32) -> ShopCommand,
    ) -> Result<(), ShopError> {
        for piece in init_in_pieces(count, command) {
            match self.0.decide(piece).await? {
                ShopOutcome::Initialised(_) => {}
                other => return Err(unexpected(&other)),
            }
        }
        Ok(())
    }
}
