//! The shop on paper: what is there by the effects alone, and what should be there by what came in and what was paid.
//! Rows are taken down as they are told; sums are worked out beside them and must agree after every command.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::str::FromStr;
use std::sync::Arc;

use holdfast_domain::shop::{
    Charging, CheckoutRow, ItemId, ItemRow, KeyRow, OrderId, OrderRow, OrderState, ShopCommand, ShopEffect,
    Side, SideBranch, Sides, TrNum, UserId, UserRow, Whole,
};
use holdfast_domain::tokens::Name;

use super::expect;

/// Credit or units of one holder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HolderBooks {
    /// What came in, less what was taken out by hand.
    came: i128,
    /// What paid orders took.
    sold: i128,
    /// What there is.
    pub(super) there: i128,
}

/// An order as it was put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paper {
    pub(super) user: UserId,
    pub(super) lines: Vec<(ItemId, u64)>,
    pub(super) amount: u64,
    pub(super) state: OrderState,
    pub(super) life: u32,
}

/// The books.
#[derive(Debug, Default)]
pub struct ShopBooks {
    pub(super) users: BTreeMap<UserId, HolderBooks>,
    pub(super) items: BTreeMap<ItemId, HolderBooks>,
    pub(super) prices: BTreeMap<ItemId, u64>,
    pub(super) orders: BTreeMap<OrderId, Paper>,
    pub(super) open: BTreeMap<OrderId, Arc<CheckoutRow>>,
    pub(super) keys: BTreeMap<Name, Arc<KeyRow>>,
    pub(super) outside: Sides,
    pub(super) charging: Charging,
}

impl HolderBooks {
    fn with(came: Whole, sold: i128) -> HolderBooks {
        HolderBooks { came: number(came) + sold, sold, there: 0 }
    }
}

fn number(whole: Whole) -> i128 {
    i128::from(whole.get())
}

impl ShopBooks {
    /// Takes down what a command brings in or takes out by hand. It was not refused.
    pub fn by_hand(&mut self, command: &ShopCommand) -> Result<(), String> {
        match command {
            ShopCommand::CreateUser { id, credit } => {
                let twice = self.users.insert(id.clone(), HolderBooks::with(*credit, 0)).is_some();
                expect(!twice, || format!("made {id} twice"))
            }
            ShopCommand::CreateItem { id, stock, price } => {
                self.prices.insert(id.clone(), price.get());
                let twice = self.items.insert(id.clone(), HolderBooks::with(*stock, 0)).is_some();
                expect(!twice, || format!("made {id} twice"))
            }
            ShopCommand::CreateOrder { id, user } => {
                let state = OrderState::NotPaid(None);
                let paper = Paper { user: user.clone(), lines: Vec::new(), amount: 0, state, life: 0 };
                expect(self.orders.insert(id.clone(), paper).is_none(), || format!("made {id} twice"))
            }
            ShopCommand::AddItem { order, item, quantity } => {
                let price = self.prices.get(item).copied();
                match (self.orders.get_mut(order), price) {
                    (Some(paper), Some(price)) => {
                        paper.lines.push((item.clone(), quantity.get()));
                        paper.amount += price * quantity.get();
                        let now = matches!(paper.state, OrderState::NotPaid(_));
                        expect(now, || format!("changed an order that stands at {:?}", paper.state))
                    }
                    _ => Err("added to an order, or an item, that is not there".to_owned()),
                }
            }
            ShopCommand::AddFunds { user: id, amount } => came(&mut self.users, id, number(*amount)),
            ShopCommand::TakeFunds { user: id, amount } => came(&mut self.users, id, -number(*amount)),
            ShopCommand::AddStock { item: id, amount } => came(&mut self.items, id, number(*amount)),
            ShopCommand::TakeStock { item: id, amount } => came(&mut self.items, id, -number(*amount)),
            ShopCommand::InitUsers { first, count, credit } => {
                self.may_replace(&self.users, *first, *count)?;
                replace(&mut self.users, *first, *count, *credit);
                Ok(())
            }
            ShopCommand::InitItems { first, count, stock, price } => {
                self.may_replace(&self.items, *first, *count)?;
                self.prices.extend(numbered(*first, *count).map(|id| (id, price.get())));
                replace(&mut self.items, *first, *count, *stock);
                Ok(())
            }
            ShopCommand::InitOrders { first, count, .. } => self.may_replace(&self.orders, *first, *count),
            // Orders are taken down from what an init drew; checkouts and settings bring nothing in.
            _ => Ok(()),
        }
    }

    /// What is there is replaced only while no checkout is open, that may have taken from it.
    fn may_replace<Id: Ord + FromStr + Debug, T>(
        &self,
        there: &BTreeMap<Id, T>,
        first: u64,
        count: u32,
    ) -> Result<(), String> {
        let replaced = numbered(first, count).find(|id| !self.open.is_empty() && there.contains_key(id));
        expect(replaced.is_none(), || format!("replaced {replaced:?} while checkouts are open"))
    }

    /// An init put an order where another was, or none. It draws users and items; nothing else is left to it.
    fn init_order(&mut self, row: &OrderRow, command: &ShopCommand) -> Result<(), String> {
        let ShopCommand::InitOrders { first, count, items, users, price, .. } = command else {
            return Err(format!("put an order {row:?} in place"));
        };
        let order = &row.order;
        let below = |text: &str, bound: u64| text.parse::<u64>().is_ok_and(|number| number < bound);
        let before = self.orders.get(&order.order_id);
        let (last, life) = match before.map(|paper| paper.state) {
            None => (None, 0),
            Some(OrderState::NotPaid(last)) => (last, last.map_or(0, TrNum::get)),
            Some(OrderState::Paid(last)) => (Some(last), last.get()),
            Some(state) => return Err(format!("replaced an order that stands at {state:?}")),
        };
        let lines: Vec<(ItemId, u64)> =
            order.items.lines().iter().map(|line| (line.id.clone(), line.amnt.get())).collect();
        let right = below(order.user_id.as_str(), *users)
            && lines.len() == 2
            && lines.iter().all(|(item, amount)| below(item.as_str(), *items) && *amount == 1)
            && numbered(*first, *count).any(|id: OrderId| id == order.order_id);
        expect(right, || format!("drew {row:?}"))?;
        let (user, amount) = (order.user_id.clone(), 2 * price.get());
        let paper = Paper { user, lines, amount, state: OrderState::NotPaid(last), life };
        self.orders.insert(order.order_id.clone(), paper);
        Ok(())
    }

    /// Takes down the changes of one command, or of an expiry. `command`: what was asked, if somebody did.
    pub fn changes(&mut self, effects: &[ShopEffect], command: Option<&ShopCommand>) -> Result<(), String> {
        for effect in effects {
            match effect {
                ShopEffect::User(UserRow { id, credit }) | ShopEffect::Credit { user: id, credit } => {
                    let books = self.users.get_mut(id).ok_or_else(|| format!("nobody made user {id}"))?;
                    books.there = number(*credit);
                }
                ShopEffect::Item(ItemRow { id, stock, .. }) | ShopEffect::Stock { item: id, stock } => {
                    let books = self.items.get_mut(id).ok_or_else(|| format!("nobody made item {id}"))?;
                    books.there = number(*stock);
                }
                ShopEffect::Order(row) => {
                    if matches!(command, Some(ShopCommand::InitOrders { .. })) {
                        self.init_order(row, command.expect("just seen"))?;
                    }
                    self.is_as_on_paper(row)?;
                }
                ShopEffect::Moved { order, state, .. } => self.moves(order, *state)?,
                ShopEffect::Opened(row) => drop(self.open.insert(row.order.clone(), Arc::clone(row))),
                ShopEffect::Closed(end) => {
                    let was_open = self.open.remove(&end.order).is_some();
                    expect(was_open, || format!("closed a checkout that was not open: {end:?}"))?;
                }
                ShopEffect::KeyPut(row) => drop(self.keys.insert(Arc::clone(&row.key), Arc::clone(row))),
                ShopEffect::KeyEnded(key) => {
                    expect(self.keys.remove(key).is_some(), || format!("ended {key}, which was not there"))?;
                }
                ShopEffect::Outside(outside) => self.outside = *outside,
                ShopEffect::Charging(charging) => self.charging = charging.clone(),
            }
        }
        self.adds_up()
    }

    fn moves(&mut self, order: &OrderId, state: OrderState) -> Result<(), String> {
        let (sides, by_credit) = match self.open.get(order) {
            Some(row) => (row.outside, row.charge.is_none()),
            None => (self.outside, self.charging.is_credit()),
        };
        let paper = self.orders.get_mut(order).ok_or_else(|| format!("nobody made order {order}"))?;
        let before = std::mem::replace(&mut paper.state, state);
        expect(may_move(before, state), || format!("moved {order} from {before:?} to {state:?}"))?;
        if !matches!(state, OrderState::Paid(_)) {
            return Ok(());
        }
        if !sides.pay && by_credit {
            let user = self.users.get_mut(&paper.user);
            user.ok_or_else(|| format!("nobody pays {order}"))?.sold += i128::from(paper.amount);
        }
        if !sides.stock {
            for (item, amount) in &paper.lines {
                let item = self.items.get_mut(item);
                item.ok_or_else(|| format!("{order} sold what is not there"))?.sold += i128::from(*amount);
            }
        }
        Ok(())
    }

    /// The row of an order agrees with its paper.
    pub fn is_as_on_paper(&self, row: &OrderRow) -> Result<(), String> {
        let order = &row.order;
        let lines = order.items.lines().iter().map(|line| (line.id.clone(), line.amnt.get()));
        let found = Paper {
            user: order.user_id.clone(),
            lines: lines.collect(),
            amount: order.amount.get(),
            state: order.state,
            life: row.life,
        };
        let paper = self.orders.get(&order.order_id);
        expect(paper == Some(&found), || format!("{row:?} is on paper {paper:?}"))
    }

    /// Credit that open checkouts hold of a user.
    fn held_of(&self, user: &UserId) -> i128 {
        let by_credit =
            self.holding(Side::Pay).filter(|(row, paper)| row.charge.is_none() && paper.user == *user);
        by_credit.map(|(_, paper)| i128::from(paper.amount)).sum()
    }

    /// Units that they hold of an item.
    fn units_held(&self, item: &ItemId) -> i128 {
        let lines = self.holding(Side::Stock).flat_map(|(_, paper)| &paper.lines);
        lines.filter(|(of, _)| of == item).map(|(_, amount)| i128::from(*amount)).sum()
    }

    /// Orders whose open checkout has taken at that side and not given back.
    fn holding(&self, side: Side) -> impl Iterator<Item = (&CheckoutRow, &Paper)> {
        let holds = move |row: &&Arc<CheckoutRow>| row.side(side).branch == Some(SideBranch::Taken);
        self.open.values().filter(holds).filter_map(|row| Some((&**row, self.orders.get(&row.order)?)))
    }

    /// What came in is there, is held by an open checkout, or was paid with.
    fn adds_up(&self) -> Result<(), String> {
        let users = self.users.iter().map(|(id, books)| (books, self.held_of(id), "credit", id.as_str()));
        let items = self.items.iter().map(|(id, books)| (books, self.units_held(id), "stock", id.as_str()));
        for (books, held, what, id) in users.chain(items) {
            expect(books.came == books.there + held + books.sold && books.there >= 0, || {
                format!("left the {what} of {id} at {books:?} with {held} held by open checkouts")
            })?;
        }
        Ok(())
    }

    /// Undecided checkouts whose deadline is past at `now`: by deadline, then by age.
    pub fn due(&self, now: i64) -> Vec<(i64, u64, OrderId)> {
        let due = self.open.values().filter(|row| row.undo.is_none() && row.deadline < now);
        let mut due: Vec<_> = due.map(|row| (row.deadline, row.start, row.order.clone())).collect();
        due.sort();
        due
    }

    /// Keys whose time is over at `now`, in the order of their ends.
    pub fn keys_due(&self, now: i64) -> Vec<(i64, Name)> {
        let due = self.keys.values().filter(|row| row.ends_at <= now);
        let mut due: Vec<_> = due.map(|row| (row.ends_at, Arc::clone(&row.key))).collect();
        due.sort();
        due
    }
}

/// The ids that an init makes.
fn numbered<Id: FromStr>(first: u64, count: u32) -> impl Iterator<Item = Id> {
    (first..).take(count as usize).filter_map(|number| number.to_string().parse().ok())
}

/// Credit or stock changed by hand.
fn came<Id: Ord + Display>(books: &mut BTreeMap<Id, HolderBooks>, id: &Id, by: i128) -> Result<(), String> {
    let books = books.get_mut(id).ok_or_else(|| format!("changed what {id} has, and nobody made it"))?;
    books.came += by;
    Ok(())
}

/// An init gives each of its holders that much; what they had paid with before stays sold.
fn replace<Id: Ord + FromStr>(books: &mut BTreeMap<Id, HolderBooks>, first: u64, count: u32, each: Whole) {
    for id in numbered(first, count) {
        let sold = books.get(&id).map_or(0, |books| books.sold);
        books.insert(id, HolderBooks::with(each, sold));
    }
}

fn after(last: Option<TrNum>, tr: TrNum) -> bool {
    tr.get() == last.map_or(0, TrNum::get) + 1
}

/// Whether an order may get from one state to the other within a command: a paid one never moves, and a try ends once.
fn may_move(from: OrderState, to: OrderState) -> bool {
    use OrderState::{Cancelling, NotPaid, Paid, Pending};
    match (from, to) {
        (NotPaid(last), Pending(tr) | Paid(tr) | Cancelling(tr) | NotPaid(Some(tr))) => after(last, tr),
        (Pending(tr), Paid(next) | Cancelling(next) | NotPaid(Some(next)))
        | (Cancelling(tr), NotPaid(Some(next))) => tr == next,
        _ => false,
    }
}
