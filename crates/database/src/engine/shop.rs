//! The shop that all nodes share, as the port has it.

use std::sync::Arc;

use holdfast_domain::ids::Millis;
use holdfast_domain::shop::callers::{CheckoutState, OpenCheckouts};
use holdfast_domain::shop::{
    CheckoutAnswer, ItemId, ItemRow, OrderId, Said, ShopCommand, ShopOutcome, Side, TryKey, UserId, UserRow,
};
use holdfast_engine::{CheckoutRequest, CheckoutTimes, OrderView, Shop, ShopError, Shopping, Troubles};

use crate::shop::SharedShop;

impl Shop for SharedShop {
    fn times(&self) -> CheckoutTimes {
        SharedShop::times(self)
    }

    fn now(&self) -> Millis {
        SharedShop::now(self)
    }

    fn draw(&self) -> u64 {
        SharedShop::draw(self)
    }

    fn new_id(&self) -> String {
        SharedShop::new_id(self)
    }

    fn troubles(&self) -> Troubles {
        self.node.troubles().seen()
    }

    fn decide(&self, command: ShopCommand) -> Shopping<'_, ShopOutcome> {
        Box::pin(SharedShop::decide(self, command))
    }

    fn checkout(&self, request: CheckoutRequest) -> Shopping<'_, CheckoutAnswer> {
        Box::pin(SharedShop::checkout(self, request))
    }

    fn cancel(&self, order: OrderId) -> Shopping<'_, CheckoutAnswer> {
        Box::pin(SharedShop::cancel(self, order))
    }

    fn retry(&self, order: OrderId) -> Shopping<'_, CheckoutAnswer> {
        Box::pin(SharedShop::retry(self, order))
    }

    fn answer(&self, key: TryKey, side: Side, said: Said) -> Shopping<'_, (bool, CheckoutAnswer)> {
        Box::pin(SharedShop::answer(self, key, side, said))
    }

    fn user(&self, id: UserId) -> Shopping<'_, Option<UserRow>> {
        Box::pin(SharedShop::user(self, id))
    }

    fn item(&self, id: ItemId) -> Shopping<'_, Option<ItemRow>> {
        Box::pin(SharedShop::item(self, id))
    }

    fn order(&self, id: OrderId) -> Shopping<'_, Option<OrderView>> {
        Box::pin(async move {
            let found = SharedShop::order(self, id).await?;
            Ok(found.map(|(row, open)| OrderView { row, open: open.map(Arc::new) }))
        })
    }

    /// A place is when the last checkout before it began, and its order.
    fn open_checkouts(
        &self,
        state: Option<CheckoutState>,
        after: Option<String>,
        limit: usize,
    ) -> Shopping<'_, OpenCheckouts<String>> {
        Box::pin(async move {
            let place = |text: String| place_of(&text).ok_or(ShopError::NoSuchPage(text));
            let after = after.map(place).transpose()?;
            let OpenCheckouts { checkouts, next, now } =
                SharedShop::open_checkouts(self, state, after, limit).await?;
            Ok(OpenCheckouts { checkouts, next: next.map(|(began, order)| format!("{began} {order}")), now })
        })
    }
}

fn place_of(text: &str) -> Option<(Millis, OrderId)> {
    let (began, order) = text.split_once(' ')?;
    let order = Some(order).filter(|order| !order.contains('\0'))?;
    Some((began.parse().ok()?, order.parse().ok()?))
}
