//! `/payment/…` and `/shop/payment/…`: users and their credit.

use axum::extract::State;
use holdfast_domain::shop::limits::USERS_MAX;
use holdfast_domain::shop::{ShopCommand, ShopRefusal, UserId, Whole};

use super::dialect::{Answer, Dialect, Done};
use super::path::{self, Place};
use super::rows::Shop;
use super::{answered, filled};
use crate::limits::SHOP_INIT_MAX;

/// A new user without credit.
pub(crate) async fn create_user<D: Dialect>(State(shop): State<Shop>) -> Answer<D> {
    let id = shop.new_id().parse().expect("a UUID is an id");
    let row = shop.row_after(ShopCommand::CreateUser { id, credit: Whole::ZERO }).await?;
    Ok(Done::UserMade(row).into())
}

/// Users `0` to `n`, not included, with this credit each.
pub(crate) async fn batch_init<D: Dialect>(
    State(shop): State<Shop>,
    place: Place<(String, String)>,
) -> Answer<D> {
    let (n, starting_money) = path::texts(place)?;
    let count = path::count("n", &n, SHOP_INIT_MAX.min(USERS_MAX as u64))?;
    let credit = path::number("starting_money", &starting_money)?;
    filled(shop.init(count, |first, count| ShopCommand::InitUsers { first, count, credit })).await?;
    Ok(Done::Filled { what: "users", count }.into())
}

/// A user.
pub(crate) async fn find_user<D: Dialect>(State(shop): State<Shop>, place: Place<String>) -> Answer<D> {
    let id: UserId = path::id("user_id", &path::texts(place)?)?;
    let row = answered(shop.user(id.clone())).await?;
    Ok(Done::User(row.ok_or(ShopRefusal::UnknownUser(id))?).into())
}

/// More credit.
pub(crate) async fn add_funds<D: Dialect>(
    State(shop): State<Shop>,
    place: Place<(String, String)>,
) -> Answer<D> {
    let (user, amount) = path::amount_for("user_id", place)?;
    Ok(Done::CreditChanged(shop.row_after(ShopCommand::AddFunds { user, amount }).await?).into())
}

/// Less credit, if there is so much.
pub(crate) async fn pay<D: Dialect>(State(shop): State<Shop>, place: Place<(String, String)>) -> Answer<D> {
    let (user, amount) = path::amount_for("user_id", place)?;
    Ok(Done::CreditChanged(shop.row_after(ShopCommand::TakeFunds { user, amount }).await?).into())
}
