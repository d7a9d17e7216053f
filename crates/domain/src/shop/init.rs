//! Many rows at once: their ids are numbers as text, and what is there under them is replaced.
//!
//! Nothing is replaced while a checkout is open, whichever it is: it may hold some of a row's credit or stock, and what it gave
//! back later would come on top of the new row's.

use super::decide::{Verdict, room};
use super::limits::{INIT_ROWS_MAX, ITEMS_MAX, ORDERS_MAX, USERS_MAX};
use super::{
    ItemRow, Items, Line, Order, OrderId, OrderRow, OrderState, ShopCommand, ShopEffect, ShopOutcome,
    ShopRefusal, TrNum, UserRow, Whole,
};
use crate::effects::Step;
use crate::view::{Items as ItemTable, Orders, ShopSize, Users};

/// Lines of an order that is made here.
const LINES: u64 = 2;

/// An init of so many rows from `0` on, as commands of which each may make so many as it may.
pub fn init_in_pieces(
    count: u64,
    command: impl Fn(u64, u32) -> ShopCommand,
) -> impl Iterator<Item = ShopCommand> {
    let starts = (0..count).step_by(INIT_ROWS_MAX as usize);
    starts.map(move |first| {
        let some = u32::try_from(count - first).unwrap_or(u32::MAX).min(INIT_ROWS_MAX);
        command(first, some)
    })
}

pub(super) fn init(
    view: &(impl Users + ItemTable + Orders + ShopSize),
    command: &ShopCommand,
    effects: &mut Step,
) -> Verdict {
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
    let (mut new, mut replaced) = (0, 0_usize);
    match command {
        ShopCommand::InitUsers { credit, .. } => {
            for number in first..end {
                let id = numbered(number);
                let is_new = view.user(&id).is_none();
                new += usize::from(is_new);
                replaced += usize::from(!is_new);
                effects.shop.push(ShopEffect::User(UserRow { id, credit: *credit }));
            }
            none_open("users", counts.checkouts, replaced)?;
            room("users", counts.users, new, USERS_MAX)?;
        }
        ShopCommand::InitItems { stock, price, .. } => {
            for number in first..end {
                let id = numbered(number);
                let is_new = view.item(&id).is_none();
                new += usize::from(is_new);
                replaced += usize::from(!is_new);
                effects.shop.push(ShopEffect::Item(ItemRow { id, stock: *stock, price: *price }));
            }
            none_open("items", counts.checkouts, replaced)?;
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
                replaced += usize::from(before.is_some());
                let (state, life) = begins(before)?;
                let mut draw = Draw::of(*seed, number);
                let user_id = numbered(draw.below(*users));
                let mut line = || Line { id: numbered(draw.below(*items)), amnt: whole(1) };
                let lines =
                    Items::new(vec![line(), line()]).expect("two lines of one each are within bounds");
                let order = Order { order_id: id, user_id, items: lines, amount, state };
                effects.shop.push(ShopEffect::Order(Box::new(OrderRow { order, failed: None, life })));
            }
            none_open("orders", counts.checkouts, replaced)?;
            room("orders", counts.orders, new, ORDERS_MAX)?;
        }
        _ => unreachable!("only inits come here"),
    }
    Ok(ShopOutcome::Initialised(count))
}

fn none_open(kind: &'static str, open: usize, replaced: usize) -> Result<(), ShopRefusal> {
    if open > 0 && replaced > 0 { Err(ShopRefusal::CheckoutsOpen { kind, open }) } else { Ok(()) }
}

/// Where an order begins that takes the place of another. Its tries are counted on, so that no late message of the one before
/// is taken for one of it, and it is known after which try it began.
fn begins(before: Option<&OrderRow>) -> Result<(OrderState, u32), ShopRefusal> {
    let Some(before) = before else { return Ok((OrderState::NotPaid(None), 0)) };
    match before.order.state {
        OrderState::NotPaid(last) => Ok((OrderState::NotPaid(last), last.map_or(0, TrNum::get))),
        OrderState::Paid(last) => Ok((OrderState::NotPaid(Some(last)), last.get())),
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
        crate::series::next(&mut self.0)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
