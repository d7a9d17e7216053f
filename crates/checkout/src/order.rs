//! The order row. A checkout is decided by a compare-and-set on its (state, tr#) and by nothing else: whoever
//! wins it sends the messages that belong to it in the same step, and whoever loses sends nothing.
//!
//! `not_paid -> pending(tr#) -> paid | cancelling -> not_paid`. The tr# rises on the first arrow only, and
//! the items change in `not_paid` only. A failure with nothing to undo passes through `cancelling` within its
//! step.

use crate::ids::{ItemId, Key, OrderId, TrNum, UserId};
use crate::items::{Items, ItemsError, Line};
use crate::message::{Body, Message, Payment, Step, Verdict};
use crate::number::{TooLarge, Whole};

/// Where an order stands, with the number of its last try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderState {
    /// Not paid, and nothing under way. `None`: never tried.
    NotPaid(Option<TrNum>),
    /// A checkout is under way.
    Pending(TrNum),
    /// Paid. This is final.
    Paid(TrNum),
    /// The checkout failed, and what it took is being given back.
    Cancelling(TrNum),
}

impl OrderState {
    /// The state's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            OrderState::NotPaid(_) => "not_paid",
            OrderState::Pending(_) => "pending",
            OrderState::Paid(_) => "paid",
            OrderState::Cancelling(_) => "cancelling",
        }
    }

    /// The last try, if there was one.
    #[must_use]
    pub const fn tr_num(self) -> Option<TrNum> {
        match self {
            OrderState::NotPaid(last) => last,
            OrderState::Pending(tr) | OrderState::Paid(tr) | OrderState::Cancelling(tr) => Some(tr),
        }
    }

    /// Whether a state may follow another. The row never makes another move.
    #[must_use]
    pub fn may_become(self, next: OrderState) -> bool {
        match (self, next) {
            (OrderState::NotPaid(last), OrderState::Pending(tr)) => {
                last.map_or(Some(TrNum::FIRST), TrNum::next) == Some(tr)
            }
            (OrderState::Pending(tr), OrderState::Paid(next) | OrderState::Cancelling(next)) => tr == next,
            (OrderState::Pending(tr) | OrderState::Cancelling(tr), OrderState::NotPaid(next)) => {
                next == Some(tr)
            }
            _ => false,
        }
    }
}

/// An order. `paid` is its state's name: nothing else says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Its id.
    pub order_id: OrderId,
    /// Who pays.
    pub user_id: UserId,
    /// Its lines, as they were added.
    pub items: Items,
    /// What they cost.
    pub amount: Whole,
    /// Where it stands.
    pub state: OrderState,
}

/// Which sides a failed checkout has to be undone at: those without a recorded failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undo {
    /// Send `can`.
    pub can: bool,
    /// Send `add`.
    pub add: bool,
}

impl Undo {
    /// At both sides.
    pub const BOTH: Undo = Undo { can: true, add: true };

    /// At neither.
    #[must_use]
    pub const fn is_nothing(self) -> bool {
        !self.can && !self.add
    }
}

/// A move of the order that won its compare-and-set: the row after it, and the messages of the same step in
/// their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The row.
    pub order: Order,
    /// The messages.
    pub sent: Vec<Message>,
}

/// What a call to check out gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checkout {
    /// It starts a try: `pay`, then `sub`.
    Started(Moved),
    /// The order is paid: a success that charges nothing.
    AlreadyPaid,
    /// A try is under way, and the caller gets its result.
    Joins(TrNum),
    /// The order was tried more often than can be counted.
    TriesUsedUp,
}

/// Why an order's items were not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddItemError {
    /// They change in `not_paid` only.
    #[error("the order is {state}: its items change only while it is not_paid", state = .0.name())]
    NotNow(OrderState),
    /// It would cost, or hold, too much.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// Too many lines.
    #[error(transparent)]
    Items(#[from] ItemsError),
}

impl Order {
    /// A new order without items.
    #[must_use]
    pub fn new(order_id: OrderId, user_id: UserId) -> Order {
        let state = OrderState::NotPaid(None);
        Order { order_id, user_id, items: Items::default(), amount: Whole::ZERO, state }
    }

    /// The order with a line more.
    ///
    /// # Errors
    /// If it is not the time for it, or a number would grow too large.
    pub fn with_item(&self, id: ItemId, quantity: Whole, price: Whole) -> Result<Order, AddItemError> {
        match self.state {
            OrderState::NotPaid(_) => {
                let amount = self.amount.plus(quantity.times(price)?)?;
                let mut lines = self.items.lines().to_vec();
                lines.push(Line { id, amnt: quantity });
                Ok(Order { items: Items::new(lines)?, amount, ..self.clone() })
            }
            OrderState::Pending(_) | OrderState::Paid(_) | OrderState::Cancelling(_) => {
                Err(AddItemError::NotNow(self.state))
            }
        }
    }

    /// Starts a try, if none is under way and the order is not paid.
    #[must_use]
    pub fn checkout(&self) -> Checkout {
        match self.state {
            OrderState::NotPaid(last) => match last.map_or(Some(TrNum::FIRST), TrNum::next) {
                Some(tr) => {
                    let sent = self.asked(tr, Undo::BOTH).collect();
                    Checkout::Started(Moved { order: self.at(OrderState::Pending(tr)), sent })
                }
                None => Checkout::TriesUsedUp,
            },
            OrderState::Paid(_) => Checkout::AlreadyPaid,
            OrderState::Pending(tr) | OrderState::Cancelling(tr) => Checkout::Joins(tr),
        }
    }

    /// **The decision**: `pending(tr)` becomes `paid`, with `trsucc`. `None` if the row does not stand at
    /// `pending(tr)`.
    #[must_use]
    pub fn succeed(&self, tr: TrNum) -> Option<Moved> {
        let order = self.leave_pending(tr, OrderState::Paid(tr))?;
        Some(Moved { order, sent: vec![self.decided(tr, Verdict::Succeeded)] })
    }

    /// **The decision**: `pending(tr)` becomes `cancelling`, with `trfail` and then `can` and `add` where
    /// they are needed. Where nothing needs undoing, the order is `not_paid` at once. `None` if the row does
    /// not stand at `pending(tr)`.
    #[must_use]
    pub fn fail(&self, tr: TrNum, undo: Undo) -> Option<Moved> {
        let next = if undo.is_nothing() { OrderState::NotPaid(Some(tr)) } else { OrderState::Cancelling(tr) };
        let order = self.leave_pending(tr, next)?;
        let mut sent = vec![self.decided(tr, Verdict::Failed)];
        sent.extend(self.undoing(tr, undo));
        Some(Moved { order, sent })
    }

    /// All is given back: `cancelling(tr)` becomes `not_paid`. `None` if the row does not stand at
    /// `cancelling(tr)`.
    #[must_use]
    pub fn cancelled(&self, tr: TrNum) -> Option<Order> {
        match self.state {
            OrderState::Cancelling(now) if now == tr => Some(self.at(OrderState::NotPaid(Some(tr)))),
            _ => None,
        }
    }

    /// `pay` and `sub` of a try, to the sides that are asked for.
    pub(crate) fn asked(&self, tr: TrNum, sides: Undo) -> impl Iterator<Item = Message> + use<> {
        let pay = sides.can.then(|| Body::Pay(Step::Forward(self.payment())));
        let sub = sides.add.then(|| Body::Stock(Step::Forward(self.items.merged())));
        let key = self.key(tr);
        pay.into_iter().chain(sub).map(move |body| Message { key: key.clone(), body })
    }

    /// `can` and `add` of a try, to the sides that need them.
    pub(crate) fn undoing(&self, tr: TrNum, undo: Undo) -> impl Iterator<Item = Message> + use<> {
        let can = undo.can.then(|| Body::Pay(Step::Rollback(self.payment())));
        let add = undo.add.then(|| Body::Stock(Step::Rollback(self.items.merged())));
        let key = self.key(tr);
        can.into_iter().chain(add).map(move |body| Message { key: key.clone(), body })
    }

    /// What the payment side is asked for.
    #[must_use]
    pub fn payment(&self) -> Payment {
        Payment { user_id: self.user_id.clone(), amnt: self.amount }
    }

    /// The key of one of its tries.
    #[must_use]
    pub fn key(&self, tr_num: TrNum) -> Key {
        Key { order_id: self.order_id.clone(), tr_num }
    }

    fn decided(&self, tr: TrNum, verdict: Verdict) -> Message {
        Message { key: self.key(tr), body: Body::Decided(verdict) }
    }

    fn leave_pending(&self, tr: TrNum, next: OrderState) -> Option<Order> {
        match self.state {
            OrderState::Pending(now) if now == tr => Some(self.at(next)),
            _ => None,
        }
    }

    fn at(&self, state: OrderState) -> Order {
        assert!(self.state.may_become(state), "{:?} cannot become {state:?}", self.state);
        Order { state, ..self.clone() }
    }
}
