//! The order consumer: folds the topic `outcomes` of one partition and decides each try that has both
//! outcomes, through the order's compare-and-set.
//!
//! What it knows of a try (`saga`) is derived from the log, so a crash loses nothing:
//! [`Coordinator::rebuild`] folds the log again from `outcome_offset`, the start of the oldest try that is
//! still open. A try is open until its decision is in the log and, after a `trfail`, the `csucc` and `asucc`
//! of every `can` and `add` that was sent.
//!
//! The order row tells about tries that are over: a late repeat of their messages opens nothing again.
//!
//! A handler's effects are written in one step. If that step fails, the coordinator is ahead of what is
//! stored: take the step back ([`Coordinator::take_back`]), or, if nobody knows whether it failed, drop it and rebuild.

mod before;
mod ended;
mod fold;
mod operator;
mod rebuild;
mod saga;
pub mod single;

use std::collections::BTreeMap;

use crate::alarm::Alarm;
use crate::ids::{Key, Offset, OrderId, TrNum};
use crate::lookup::Lookup;
use crate::message::Message;
use crate::order::{Moved, Order, OrderState};
use crate::participant::Forward;

pub use before::Before;
pub use ended::Told;
pub use rebuild::LogBounds;
pub use saga::{Saga, Said, Stage};

/// A message at its place in the log of `outcomes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its place.
    pub offset: Offset,
    /// The message.
    pub message: Message,
}

/// The order rows, as the handlers read them.
pub trait Orders {
    /// An order; `None` if it is not there.
    fn order(&self, id: &OrderId) -> Option<&Order>;

    /// Whether a try may succeed with two successes. Where the payment side reserves and whoever decides settles, it may not
    /// if that was in vain; then it fails, and both sides are told to give back.
    fn is_settled(&self, _: &Key) -> bool {
        true
    }

    /// What the row remembers of the answers that were heard about an undecided try. A host whose rows do so loses none of them
    /// with the head of its log.
    fn remembered(&self, _: &Key) -> Remembered {
        Remembered::default()
    }
}

/// What is known of the sides' forward outcomes without the log. Their values are what the order asks for: others do not count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Remembered {
    /// Of the payment side.
    pub pay: Option<Forward<()>>,
    /// Of the stock side.
    pub stock: Option<Forward<()>>,
}

impl Orders for BTreeMap<OrderId, Order> {
    fn order(&self, id: &OrderId) -> Option<&Order> {
        self.get(id)
    }
}

/// What a handler does, in one step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effects {
    /// The order rows that change, by ascending order id.
    pub orders: Vec<Order>,
    /// The messages to send, in this order.
    pub sent: Vec<Message>,
    /// The new value of `outcome-offsets`, if it rises.
    pub outcome_offset: Option<Offset>,
    /// What somebody has to look at.
    pub alarms: Vec<Alarm>,
}

/// The order consumer of one partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coordinator {
    /// The tries that are open. Their order reaches no output.
    open: Lookup<Key, Saga>,
    /// Where in the log each of them starts.
    starts: BTreeMap<Offset, Key>,
    /// The place after the last record that was read.
    next: Option<Offset>,
    /// The value of `outcome-offsets`. It never falls.
    outcome_offset: Option<Offset>,
}

impl Coordinator {
    /// Folds the next record of the log, and decides if that makes a try complete.
    #[must_use]
    pub fn handle(&mut self, orders: &impl Orders, record: &Record) -> Effects {
        let mut effects = StepEffects::new(orders);
        self.fold(&mut effects, record, fold::Mode::Live);
        self.close(effects)
    }

    /// Whether the record, if it were handled now, would make its order paid: then what was reserved is to be settled before.
    #[must_use]
    pub fn pays(&self, orders: &impl Orders, record: &Record) -> bool {
        let key = &record.message.key;
        let is_paid =
            |order: Option<&Order>| order.is_some_and(|order| order.state == OrderState::Paid(key.tr_num));
        let mut effects = StepEffects::new(orders);
        fold::fold_one(&mut effects, &mut self.open.get(key).cloned(), record, fold::Mode::Live);
        is_paid(effects.order(&key.order_id)) && !is_paid(orders.order(&key.order_id))
    }

    /// How many tries are open.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    /// What is known of a try, if it is open.
    #[must_use]
    pub fn saga(&self, key: &Key) -> Option<&Saga> {
        self.open.get(key)
    }

    /// The start of the oldest try that is open, or the end of what was read. `None` if nothing was ever
    /// read.
    #[must_use]
    pub const fn outcome_offset(&self) -> Option<Offset> {
        self.outcome_offset
    }

    fn close<O: Orders>(&mut self, effects: StepEffects<'_, O>) -> Effects {
        let oldest = self.starts.first_key_value().map(|(start, _)| *start).or(self.next);
        let rises = oldest > self.outcome_offset;
        if rises {
            self.outcome_offset = oldest;
        }
        Effects { outcome_offset: self.outcome_offset.filter(|_| rises), ..effects.into_effects() }
    }
}

/// Orders that a step has changed: nearly always one at most, and in a rebuild perhaps all.
enum Changed {
    None,
    One(Order),
    Many(Lookup<OrderId, Order>),
}

impl Changed {
    fn get(&self, id: &OrderId) -> Option<&Order> {
        match self {
            Changed::None => None,
            Changed::One(order) => Some(order).filter(|order| order.order_id == *id),
            Changed::Many(orders) => orders.get(id),
        }
    }

    fn put(&mut self, order: Order) {
        match std::mem::replace(self, Changed::None) {
            Changed::None => *self = Changed::One(order),
            Changed::One(before) if before.order_id == order.order_id => *self = Changed::One(order),
            Changed::One(before) => {
                let mut both = Lookup::default();
                for order in [before, order] {
                    both.insert(order.order_id.clone(), order);
                }
                *self = Changed::Many(both);
            }
            Changed::Many(mut orders) => {
                orders.insert(order.order_id.clone(), order);
                *self = Changed::Many(orders);
            }
        }
    }

    fn sorted(self) -> Vec<Order> {
        match self {
            Changed::None => Vec::new(),
            Changed::One(order) => vec![order],
            Changed::Many(orders) => orders.into_sorted(),
        }
    }
}

/// The effects of a step while it is made. It sees its own changes.
struct StepEffects<'a, O> {
    orders: &'a O,
    changed: Changed,
    sent: Vec<Message>,
    alarms: Vec<Alarm>,
}

impl<'a, O: Orders> StepEffects<'a, O> {
    const fn new(orders: &'a O) -> StepEffects<'a, O> {
        StepEffects { orders, changed: Changed::None, sent: Vec::new(), alarms: Vec::new() }
    }

    fn order(&self, id: &OrderId) -> Option<&Order> {
        self.changed.get(id).or_else(|| self.orders.order(id))
    }

    fn put(&mut self, order: Order) {
        self.changed.put(order);
    }

    fn into_effects(self) -> Effects {
        let (orders, sent, alarms) = (self.changed.sorted(), self.sent, self.alarms);
        Effects { orders, sent, outcome_offset: None, alarms }
    }

    /// A move that won its compare-and-set, with its messages.
    fn make(&mut self, moved: Moved) {
        self.sent.extend(moved.sent);
        self.put(moved.order);
    }
}

/// How a try stands in the eyes of its order row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It was never started.
    NeverStarted,
    /// It is not decided.
    Pending,
    /// It succeeded.
    Paid,
    /// It failed, and is being undone.
    Cancelling,
    /// It failed, and everything was given back.
    Over,
}

impl Standing {
    fn of(order: &Order, tr: TrNum) -> Standing {
        let last = order.state.tr_num();
        if last < Some(tr) {
            return Standing::NeverStarted;
        }
        if last > Some(tr) {
            return Standing::Over;
        }
        match order.state {
            OrderState::NotPaid(_) => Standing::Over,
            OrderState::Pending(_) => Standing::Pending,
            OrderState::Paid(_) => Standing::Paid,
            OrderState::Cancelling(_) => Standing::Cancelling,
        }
    }
}
