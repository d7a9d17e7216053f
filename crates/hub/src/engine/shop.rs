//! The shop of a hub as the port has it.

use holdfast_domain::ids::Millis;
use holdfast_domain::shop::callers::{CheckoutState, OpenCheckouts};
use holdfast_domain::shop::{
    CheckoutAnswer, ItemId, ItemRow, OrderId, Said, ShopCommand, ShopOutcome, Side, TryKey, UserId, UserRow,
};
use holdfast_engine::{CheckoutRequest, CheckoutTimes, OrderView, Shop, ShopError, Shopping, Troubles};

use crate::shop::ShopDesk;

impl Shop for ShopDesk {
    fn times(&self) -> CheckoutTimes {
        *self.options()
    }

    fn now(&self) -> Millis {
        ShopDesk::now(self)
    }

    fn draw(&self) -> u64 {
        ShopDesk::draw(self)
    }

    fn new_id(&self) -> String {
        ShopDesk::new_id(self)
    }

    fn troubles(&self) -> Troubles {
        ShopDesk::troubles(self)
    }

    fn decide(&self, command: ShopCommand) -> Shopping<'_, ShopOutcome> {
        Box::pin(ShopDesk::decide(self, command))
    }

    fn checkout(&self, request: CheckoutRequest) -> Shopping<'_, CheckoutAnswer> {
        Box::pin(ShopDesk::checkout(self, request))
    }

    fn cancel(&self, order: OrderId) -> Shopping<'_, CheckoutAnswer> {
        Box::pin(ShopDesk::cancel(self, order))
    }

    fn retry(&self, order: OrderId) -> Shopping<'_, CheckoutAnswer> {
        Box::pin(ShopDesk::retry(self, order))
    }

    fn answer(&self, key: TryKey, side: Side, said: Said) -> Shopping<'_, (bool, CheckoutAnswer)> {
        Box::pin(ShopDesk::answer(self, key, side, said))
    }

    fn user(&self, id: UserId) -> Shopping<'_, Option<UserRow>> {
        Box::pin(ShopDesk::user(self, id))
    }

    fn item(&self, id: ItemId) -> Shopping<'_, Option<ItemRow>> {
        Box::pin(ShopDesk::item(self, id))
    }

    fn order(&self, id: OrderId) -> Shopping<'_, Option<OrderView>> {
        Box::pin(ShopDesk::order(self, id))
    }

    /// A place is the record that began the last checkout before it.
    fn open_checkouts(
        &self,
        state: Option<CheckoutState>,
        after: Option<String>,
        limit: usize,
    ) -> Shopping<'_, OpenCheckouts<String>> {
        Box::pin(async move {
            let place = |text: String| text.parse().map_err(|_| ShopError::NoSuchPage(text));
            let after: Option<u64> = after.map(place).transpose()?;
            let OpenCheckouts { checkouts, next, now } =
                ShopDesk::open_checkouts(self, state, after, limit).await?;
            Ok(OpenCheckouts { checkouts, next: next.map(|record| record.to_string()), now })
        })
    }
}
