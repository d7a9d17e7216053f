//! `/stock/…` and `/shop/stock/…`: items and how many there are.

use axum::extract::State;
use holdfast_domain::shop::limits::ITEMS_MAX;
use holdfast_domain::shop::{ItemId, ShopCommand, ShopRefusal, Whole};

use super::dialect::{Answer, Dialect, Done};
use super::path::{self, Place};
use super::rows::Shop;
use super::{answered, filled};
use crate::limits::SHOP_INIT_MAX;

/// A new item of this price, of which there are none yet.
pub(crate) async fn create<D: Dialect>(State(shop): State<Shop>, place: Place<String>) -> Answer<D> {
    let price = path::number("price", &path::texts(place)?)?;
    let id = shop.new_id().parse().expect("a UUID is an id");
    let row = shop.row_after(ShopCommand::CreateItem { id, stock: Whole::ZERO, price }).await?;
    Ok(Done::ItemMade(row).into())
}

/// Items `0` to `n`, not included, with this stock and price each.
pub(crate) async fn batch_init<D: Dialect>(
    State(shop): State<Shop>,
    place: Place<(String, String, String)>,
) -> Answer<D> {
    let (n, starting_stock, item_price) = path::texts(place)?;
    let count = path::count("n", &n, SHOP_INIT_MAX.min(ITEMS_MAX as u64))?;
    let stock = path::number("starting_stock", &starting_stock)?;
    let price = path::number("item_price", &item_price)?;
    let command = |first, count| ShopCommand::InitItems { first, count, stock, price };
    filled(shop.init(count, command)).await?;
    Ok(Done::Filled { what: "items", count }.into())
}

/// An item.
pub(crate) async fn find<D: Dialect>(State(shop): State<Shop>, place: Place<String>) -> Answer<D> {
    let id: ItemId = path::id("item_id", &path::texts(place)?)?;
    let row = answered(shop.item(id.clone())).await?;
    Ok(Done::Item(row.ok_or(ShopRefusal::UnknownItem(id))?).into())
}

/// More of it.
pub(crate) async fn add<D: Dialect>(State(shop): State<Shop>, place: Place<(String, String)>) -> Answer<D> {
    let (item, amount) = path::amount_for("item_id", place)?;
    Ok(Done::StockChanged(shop.row_after(ShopCommand::AddStock { item, amount }).await?).into())
}

/// Less of it, if there is so much.
pub(crate) async fn subtract<D: Dialect>(
    State(shop): State<Shop>,
    place: Place<(String, String)>,
) -> Answer<D> {
    let (item, amount) = path::amount_for("item_id", place)?;
    Ok(Done::StockChanged(shop.row_after(ShopCommand::TakeStock { item, amount }).await?).into())
}
