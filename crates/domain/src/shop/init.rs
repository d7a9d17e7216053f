//! Many rows at once: their ids are numbers as text, and what is there under them is replaced.

use super::decide::{Verdict, room};
use super::limits::{INIT_ROWS_MAX, ITEMS_MAX, ORDERS_MAX, USERS_MAX};
use super::{
    ItemRow, Items, Line, Order, OrderId, OrderRow, OrderState, ShopCommand, ShopEffect, ShopOutcome,
    ShopRefusal, UserRow, Whole,
};
use crate::effects::Effects;
use crate::view::View;

/// Lines of an order that is made here.
const LINES: u64 = 2;

pub(super) fn init(view: &impl View, command: &ShopCommand, effects: &mut Effects) -> Verdict {
    let (first, count) = match command {
        ShopCommand::InitUsers { first, count, .. }
        | ShopCommand::InitItems { first, count, .. }
        | ShopCommand::InitOrders { first, count, .. } => (*first, *count),
        _ => unreachable!("only inits come here"),
    };
    if count > INIT_ROWS_MAX {
        return Err(ShopRefusal::Full { what: "rows in one record", max: INIT_ROWS_MAX as usize });
    }
    let end = first.checked_add(u64::from(count)).ok_or(ShopRefusal::Invalid("the numbers are too large"))?;
    let counts = view.shop_counts();
    let mut new = 0;
    match command {
        ShopCommand::InitUsers { credit, .. } => {
            for number in first..end {
                let id = numbered(number);
                new += usize::from(view.user(&id).is_none());
                effects.shop.push(ShopEffect::User(UserRow { id, credit: *credit }));
            }
            room("users", counts.users, new, USERS_MAX)?;
        }
        ShopCommand::InitItems { stock, price, .. } => {
            for number in first..end {
                let id = numbered(number);
                new += usize::from(view.item(&id).is_none());
                effects.shop.push(ShopEffect::Item(ItemRow { id, stock: *stock, price: *price }));
            }
            room("items", counts.items, new, ITEMS_MAX)?;
        }
        ShopCommand::InitOrders { items, users, price, seed, .. } => {
            let amount =
                price.times(whole(LINES)).map_err(|error| ShopRefusal::TooLarge(error.to_string()))?;
            if count > 0 && (*items == 0 || *users == 0) {
                return Err(ShopRefusal::Invalid(
                    "orders need at least one user and one item to choose from",
                ));
            }
            for number in first..end {
                let id: OrderId = numbered(number);
                let before = view.order(&id);
                new += usize::from(before.is_none_or(OrderRow::is_paid));
                let (state, life) = begins(before)?;
                let mut draw = Draw::of(*seed, number);
                let user_id = numbered(draw.below(*users));
                let mut line = || Line { id: numbered(draw.below(*items)), amnt: whole(1) };
                let lines =
                    Items::new(vec![line(), line()]).expect("two lines of one each are within bounds");
                let order = Order { order_id: id, user_id, items: lines, amount, state };
                effects.shop.push(ShopEffect::Order(Box::new(OrderRow { order, failed: None, life })));
            }
            room("orders", counts.orders, new, ORDERS_MAX)?;
        }
        _ => unreachable!("only inits come here"),
    }
    Ok(ShopOutcome::Initialised(count))
}

/// Where an order begins that takes the place of another. Its tries are counted on, so that no late message of the one before
/// is taken for one of it.
fn begins(before: Option<&OrderRow>) -> Result<(OrderState, u32), ShopRefusal> {
    let Some(before) = before else { return Ok((OrderState::NotPaid(None), 0)) };
    match before.order.state {
        OrderState::NotPaid(last) => Ok((OrderState::NotPaid(last), before.life)),
        OrderState::Paid(last) => {
            let life = before.life.checked_add(1);
            let life = life.ok_or_else(|| ShopRefusal::TriesUsedUp(before.order.order_id.clone()))?;
            Ok((OrderState::NotPaid(Some(last)), life))
        }
        state @ (OrderState::Pending(_) | OrderState::Cancelling(_)) => {
            Err(ShopRefusal::NotNow { order: before.order.order_id.clone(), state })
        }
    }
}

fn numbered<T: std::str::FromStr<Err: std::fmt::Debug>>(number: u64) -> T {
    number.to_string().parse().expect("a number is a short text")
}

fn whole(number: u64) -> Whole {
    Whole::new(number).expect("a small number")
}

/// Numbers that follow from a seed and a row's number: splitmix64.
struct Draw(u64);

impl Draw {
    fn of(seed: u64, number: u64) -> Draw {
        let mut draw = Draw(seed ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03));
        draw.next();
        draw
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
