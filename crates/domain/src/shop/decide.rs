//! Users, items and orders: made, filled, changed.

use super::init::init;
use super::limits::{ITEMS_MAX, ORDERS_MAX, USERS_MAX};
use super::run::Deciding;
use super::{
    Charging, ItemId, ItemRow, Order, OrderId, OrderRow, ShopCommand, ShopEffect, ShopOutcome, ShopRefusal,
    UserId, UserRow, Whole,
};
use crate::effects::Step;
use crate::ids::Millis;
use crate::money::Amount;
use crate::view::{Items, Orders, Participants, Shop, ShopSize, Users, View};

pub(super) type Verdict = Result<ShopOutcome, ShopRefusal>;

/// Decides a command whose record lies at `offset`.
pub(crate) fn decide_shop(
    view: &impl View,
    now: Millis,
    offset: u64,
    command: &ShopCommand,
    effects: &mut Step,
) -> ShopOutcome {
    all_or_nothing(effects, |effects| match command {
        ShopCommand::SetOutside { outside } => {
            effects.shop.push(ShopEffect::Outside(*outside));
            Ok(ShopOutcome::Outside(*outside))
        }
        ShopCommand::SetCharging { charging } => set_charging(view, charging, effects),
        _ => Deciding { view, paying: Some(view), at: (now, offset) }.decide(command, effects),
    })
}

/// A refusal leaves nothing behind.
pub(super) fn all_or_nothing(effects: &mut Step, decide: impl FnOnce(&mut Step) -> Verdict) -> ShopOutcome {
    decide(effects).unwrap_or_else(|refusal| {
        *effects = Step::at(effects.first);
        ShopOutcome::Refused(refusal)
    })
}

impl<V: Shop> Deciding<'_, V> {
    /// Decides a command about users, items, orders and checkouts.
    pub(super) fn decide(&self, command: &ShopCommand, effects: &mut Step) -> Verdict {
        let view = self.view;
        match command {
            ShopCommand::Checkout(command) => self.checkout(command, effects),
            ShopCommand::Answer { key, side, said } => self.answer(key, *side, *said, effects),
            ShopCommand::Cancel { order } => self.cancel(order, effects),
            ShopCommand::Retry { order, deadline_ms } => self.retry(order, *deadline_ms, effects),
            ShopCommand::InitUsers { .. }
            | ShopCommand::InitItems { .. }
            | ShopCommand::InitOrders { .. } => init(view, command, effects),
            ShopCommand::CreateUser { id, credit } => create_user(view, id, *credit, effects),
            ShopCommand::CreateItem { id, stock, price } => create_item(view, id, *stock, *price, effects),
            ShopCommand::CreateOrder { id, user } => create_order(view, id, user, effects),
            ShopCommand::AddItem { order, item, quantity } => add_item(view, order, item, *quantity, effects),
            ShopCommand::AddFunds { user, amount } => change_credit(view, user, effects, |row| {
                row.credit.plus(*amount).map_err(|error| ShopRefusal::TooLarge(error.to_string()))
            }),
            ShopCommand::TakeFunds { user, amount } => change_credit(view, user, effects, |row| {
                let short = || ShopRefusal::InsufficientCredit { user: user.clone(), credit: row.credit };
                row.credit.minus(*amount).ok_or_else(short)
            }),
            ShopCommand::AddStock { item, amount } => change_stock(view, item, effects, |row| {
                row.stock.plus(*amount).map_err(|error| ShopRefusal::TooLarge(error.to_string()))
            }),
            ShopCommand::TakeStock { item, amount } => change_stock(view, item, effects, |row| {
                let short = || ShopRefusal::InsufficientStock { item: item.clone(), stock: row.stock };
                row.stock.minus(*amount).ok_or_else(short)
            }),
            ShopCommand::SetOutside { .. } | ShopCommand::SetCharging { .. } => {
                Err(ShopRefusal::Invalid("which sides are outside is settled here"))
            }
        }
    }
}

fn set_charging(view: &impl Participants, charging: &Charging, effects: &mut Step) -> Verdict {
    let is_worthless = match charging {
        Charging::Credit => false,
        Charging::Transfers(by) => by.unit <= Amount::ZERO,
        Charging::Tokens(by) => by.unit == 0,
    };
    if is_worthless {
        return Err(ShopRefusal::Invalid("the unit must be worth more than zero"));
    }
    if let Charging::Transfers(by) = charging {
        let payee = view.participant(by.payee);
        if payee.and_then(|payee| payee.position_account(by.currency)).is_none() {
            return Err(ShopRefusal::Invalid("the payee has no position account in this currency"));
        }
    }
    effects.shop.push(ShopEffect::Charging(charging.clone()));
    Ok(ShopOutcome::Charging(charging.clone()))
}

fn is_new(kind: &'static str, id: &str, known: bool) -> Result<(), ShopRefusal> {
    if known { Err(ShopRefusal::Exists { kind, id: id.to_owned() }) } else { Ok(()) }
}

/// Room for so many rows more.
pub(super) fn room(what: &'static str, there: usize, more: usize, max: usize) -> Result<(), ShopRefusal> {
    if there.saturating_add(more) > max { Err(ShopRefusal::Full { what, max }) } else { Ok(()) }
}

fn create_user(view: &(impl Users + ShopSize), id: &UserId, credit: Whole, effects: &mut Step) -> Verdict {
    is_new("user", id.as_str(), view.user(id).is_some())?;
    room("users", view.shop_counts().users, 1, USERS_MAX)?;
    let row = UserRow { id: id.clone(), credit };
    effects.shop.push(ShopEffect::User(row.clone()));
    Ok(ShopOutcome::User(row))
}

fn create_item(
    view: &(impl Items + ShopSize),
    id: &ItemId,
    stock: Whole,
    price: Whole,
    effects: &mut Step,
) -> Verdict {
    is_new("item", id.as_str(), view.item(id).is_some())?;
    room("items", view.shop_counts().items, 1, ITEMS_MAX)?;
    let row = ItemRow { id: id.clone(), stock, price };
    effects.shop.push(ShopEffect::Item(row.clone()));
    Ok(ShopOutcome::Item(row))
}

fn create_order(view: &(impl Orders + ShopSize), id: &OrderId, user: &UserId, effects: &mut Step) -> Verdict {
    is_new("order", id.as_str(), view.order(id).is_some())?;
    room("orders", view.shop_counts().orders, 1, ORDERS_MAX)?;
    let row = Box::new(OrderRow { order: Order::new(id.clone(), user.clone()), failed: None, life: 0 });
    effects.shop.push(ShopEffect::Order(row.clone()));
    Ok(ShopOutcome::Order(row))
}

fn add_item(
    view: &(impl Orders + Items),
    order: &OrderId,
    item: &ItemId,
    quantity: Whole,
    effects: &mut Step,
) -> Verdict {
    let row = view.order(order).ok_or_else(|| ShopRefusal::UnknownOrder(order.clone()))?;
    let price = view.item(item).ok_or_else(|| ShopRefusal::UnknownItem(item.clone()))?.price;
    let longer = row.order.with_item(item.clone(), quantity, price).map_err(|error| match error {
        holdfast_checkout::order::AddItemError::NotNow(state) => {
            ShopRefusal::NotNow { order: order.clone(), state }
        }
        other => ShopRefusal::TooLarge(other.to_string()),
    })?;
    let row = Box::new(OrderRow { order: longer, ..*row });
    effects.shop.push(ShopEffect::Order(row.clone()));
    Ok(ShopOutcome::Order(row))
}

fn change_credit(
    view: &impl Users,
    user: &UserId,
    effects: &mut Step,
    change: impl FnOnce(&UserRow) -> Result<Whole, ShopRefusal>,
) -> Verdict {
    let row = view.user(user).ok_or_else(|| ShopRefusal::UnknownUser(user.clone()))?;
    let credit = change(row)?;
    effects.shop.push(ShopEffect::Credit { user: user.clone(), credit });
    Ok(ShopOutcome::User(UserRow { id: user.clone(), credit }))
}

fn change_stock(
    view: &impl Items,
    item: &ItemId,
    effects: &mut Step,
    change: impl FnOnce(&ItemRow) -> Result<Whole, ShopRefusal>,
) -> Verdict {
    let row = view.item(item).ok_or_else(|| ShopRefusal::UnknownItem(item.clone()))?;
    let stock = change(row)?;
    effects.shop.push(ShopEffect::Stock { item: item.clone(), stock });
    Ok(ShopOutcome::Item(ItemRow { id: item.clone(), stock, price: row.price }))
}
