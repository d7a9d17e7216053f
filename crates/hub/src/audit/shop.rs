//! The auditor's shop: what every user and item should have, and what is taken, by the rows of the frames alone. Whatever a
//! checkout takes is either held by an open one or gone with a paid order; nothing else may move.

use std::collections::HashMap;

use holdfast_domain::command::Command;
use holdfast_domain::effects::Step;
use holdfast_domain::shop::{
    Charging, CheckoutRow, ItemId, OrderId, OrderRow, OrderState, ShopCommand, ShopEffect, SideBranch, Sides,
    UserId, Whole,
};
use holdfast_domain::tokens::TokenEffect;
use holdfast_domain::transfers::TransferState;
use holdfast_store::Store;

use super::Findings;

/// Credit and units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Worth {
    credit: i128,
    units: i128,
}

impl Worth {
    const fn plus(self, other: Worth) -> Worth {
        Worth { credit: self.credit + other.credit, units: self.units + other.units }
    }

    const fn minus(self, other: Worth) -> Worth {
        Worth { credit: self.credit - other.credit, units: self.units - other.units }
    }
}

/// An order that is not paid.
#[derive(Debug)]
struct Known {
    worth: Worth,
    state: OrderState,
}

/// What an open checkout holds inside, and which sides are outside for it. A payment by a transfer or with tokens is outside of the shop's books.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    held: Worth,
    outside: Sides,
    /// A transfer or tokens pay for it.
    charged: bool,
}

#[derive(Debug, Default)]
pub(super) struct ShopAudit {
    users: HashMap<UserId, Whole>,
    items: HashMap<ItemId, Whole>,
    orders: HashMap<OrderId, Known>,
    open: HashMap<OrderId, Open>,
    outside: Sides,
    charging: Charging,
}

fn worth_of(row: &OrderRow) -> Worth {
    let units = row.order.items.lines().iter().map(|line| i128::from(line.amnt.get())).sum();
    Worth { credit: i128::from(row.order.amount.get()), units }
}

fn opened(row: &CheckoutRow, worth: Worth) -> Open {
    let charged = row.charge.is_some();
    Open { held: held_by(row, worth), outside: row.outside.and_pay(charged), charged }
}

/// How many transfers and spends of tokens a step has settled.
fn settled(step: &Step) -> usize {
    let transfers = step.state_changes.iter().filter(|change| change.state == TransferState::Committed);
    let spends = step.tokens.iter().filter(|effect| matches!(effect, TokenEffect::Spent(_)));
    transfers.count() + spends.count()
}

fn amount(number: Whole) -> i128 {
    i128::from(number.get())
}

fn held_by(row: &CheckoutRow, worth: Worth) -> Worth {
    let taken = |branch: Option<SideBranch>| branch == Some(SideBranch::Taken);
    Worth {
        credit: if taken(row.pay.branch) && row.charge.is_none() { worth.credit } else { 0 },
        units: if taken(row.stock.branch) { worth.units } else { 0 },
    }
}

/// What the step's command brings in or takes out by its word alone; `None`: it makes or replaces rows.
fn from_outside(command: Option<&Command>) -> Option<Worth> {
    let Some(Command::Shop(command)) = command else { return Some(Worth::default()) };
    let none = Worth::default();
    match &**command {
        ShopCommand::AddFunds { amount: more, .. } => Some(Worth { credit: amount(*more), ..none }),
        ShopCommand::TakeFunds { amount: less, .. } => Some(Worth { credit: -amount(*less), ..none }),
        ShopCommand::AddStock { amount: more, .. } => Some(Worth { units: amount(*more), ..none }),
        ShopCommand::TakeStock { amount: less, .. } => Some(Worth { units: -amount(*less), ..none }),
        ShopCommand::CreateUser { .. }
        | ShopCommand::CreateItem { .. }
        | ShopCommand::InitUsers { .. }
        | ShopCommand::InitItems { .. } => None,
        _ => Some(none),
    }
}

/// Whether an order may stand there after one record.
fn may_follow(before: OrderState, after: OrderState) -> bool {
    let (old, new) = (before.tr_num().map_or(0, |tr| tr.get()), after.tr_num().map_or(0, |tr| tr.get()));
    match before {
        OrderState::Paid(_) => false,
        OrderState::NotPaid(_) => new == old.saturating_add(1),
        OrderState::Pending(_) => new == old && !matches!(after, OrderState::Pending(_)),
        OrderState::Cancelling(_) => new == old && matches!(after, OrderState::NotPaid(_)),
    }
}

impl ShopAudit {
    pub(super) fn from(store: &impl Store) -> ShopAudit {
        let mut audit =
            ShopAudit { outside: store.outside(), charging: store.charging(), ..ShopAudit::default() };
        store.users(&mut |row| {
            audit.users.insert(row.id.clone(), row.credit);
        });
        store.items(&mut |row| {
            audit.items.insert(row.id.clone(), row.stock);
        });
        store.unpaid_orders(&mut |row| audit.put_order(row));
        for row in store.open_checkouts(None, usize::MAX) {
            let worth = audit.orders.get(&row.order).map_or_else(Worth::default, |known| known.worth);
            audit.open.insert(row.order.clone(), opened(&row, worth));
        }
        audit
    }

    fn put_order(&mut self, row: &OrderRow) {
        let known = Known { worth: worth_of(row), state: row.order.state };
        self.orders.insert(row.order.order_id.clone(), known);
    }

    /// Takes in one sub-batch; `command` is its first.
    pub(super) fn step(&mut self, command: Option<&Command>, step: &Step) -> Result<(), String> {
        let is_shop = matches!(command, Some(Command::Shop(_)));
        let settled = if is_shop { settled(step) } else { 0 };
        if step.shop.is_empty() && settled == 0 {
            return Ok(());
        }
        // Paid orders that transfers or tokens had to be settled for.
        let mut charged = 0;
        // What left the shelves, and where it went.
        let (mut left, mut went) = (Worth::default(), Worth::default());
        for effect in &step.shop {
            match effect {
                ShopEffect::User(row) => {
                    self.users.insert(row.id.clone(), row.credit);
                }
                ShopEffect::Item(row) => {
                    self.items.insert(row.id.clone(), row.stock);
                }
                ShopEffect::Order(row) => self.put_order(row),
                ShopEffect::Credit { user, credit } => match self.users.insert(user.clone(), *credit) {
                    Some(before) => left.credit += amount(before) - amount(*credit),
                    None => return Err(format!("credit of user {user}, who was never made")),
                },
                ShopEffect::Stock { item, stock } => match self.items.insert(item.clone(), *stock) {
                    Some(before) => left.units += amount(before) - amount(*stock),
                    None => return Err(format!("stock of item {item}, which was never made")),
                },
                ShopEffect::Moved { order, state, .. } => {
                    let Some(known) = self.orders.get_mut(order) else {
                        return Err(format!("order {order} moves and is not there or paid"));
                    };
                    let before = std::mem::replace(&mut known.state, *state);
                    if !may_follow(before, *state) {
                        return Err(format!("order {order} moves from {before:?} to {state:?}"));
                    }
                    if let OrderState::Paid(_) = state {
                        let by_transfer = !self.outside.pay && !self.charging.is_credit();
                        let at_once = (self.outside.and_pay(by_transfer), by_transfer);
                        let open = self.open.get(order).map(|open| (open.outside, open.charged));
                        let (outside, is_charged) = open.unwrap_or(at_once);
                        charged += usize::from(is_charged && known.worth.credit > 0);
                        went = went.plus(Worth {
                            credit: if outside.pay { 0 } else { known.worth.credit },
                            units: if outside.stock { 0 } else { known.worth.units },
                        });
                        self.orders.remove(order);
                    }
                }
                ShopEffect::Opened(row) => {
                    let worth = self.orders.get(&row.order).map_or_else(Worth::default, |known| known.worth);
                    let open = opened(row, worth);
                    let before = self.open.insert(row.order.clone(), open).unwrap_or_default();
                    went = went.plus(open.held).minus(before.held);
                }
                ShopEffect::Closed(end) => match self.open.remove(&end.order) {
                    Some(before) => went = went.minus(before.held),
                    None => {
                        return Err(format!("the checkout of order {} ends and was not open", end.order));
                    }
                },
                ShopEffect::Outside(outside) => self.outside = *outside,
                ShopEffect::Charging(charging) => self.charging = charging.clone(),
                ShopEffect::KeyPut(_) | ShopEffect::KeyEnded(_) => {}
            }
        }
        if charged != settled {
            return Err(format!(
                "{charged} orders are paid by transfers or tokens and {settled} of those are settled"
            ));
        }
        match from_outside(command) {
            Some(came) if left.plus(came) != went => {
                Err(format!("{left:?} left the shelves and {went:?} is accounted for"))
            }
            _ => Ok(()),
        }
    }

    /// Compares with what is there.
    pub(super) fn finish(mut self, store: &impl Store, findings: &mut Findings) {
        let mut wrong = |row: String| findings.add(format!("the shop has {row}, and its rows say otherwise"));
        store.users(&mut |row| {
            if self.users.remove(&row.id) != Some(row.credit) {
                wrong(format!("user {} with a credit of {}", row.id, row.credit));
            }
        });
        store.items(&mut |row| {
            if self.items.remove(&row.id) != Some(row.stock) {
                wrong(format!("item {} with a stock of {}", row.id, row.stock));
            }
        });
        store.unpaid_orders(&mut |row| {
            let known = self.orders.remove(&row.order.order_id);
            let same = |known: &Known| known.state == row.order.state && known.worth == worth_of(row);
            if !known.is_some_and(|known| same(&known)) {
                wrong(format!("order {} as {}", row.order.order_id, row.order.state.name()));
            }
        });
        self.users.keys().for_each(|id| wrong(format!("no user {id}")));
        self.items.keys().for_each(|id| wrong(format!("no item {id}")));
        self.orders.keys().for_each(|id| wrong(format!("no order {id} that is not paid")));
    }
}
