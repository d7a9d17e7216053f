//! A shop without messages: what a checkout should come to, told in the plainest way.

use std::collections::{BTreeMap, VecDeque};

use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{Said, Side, Sides, Why};

/// One side of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Half {
    pub outside: bool,
    /// What it said first.
    pub took: Option<bool>,
    /// It is asked to give back.
    pub owes: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Try {
    pub halves: [Half; 2],
    pub cancelled: Option<Why>,
    pub deadline: Millis,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    NotPaid(Option<Why>),
    Open(Try),
    /// With which sides inside.
    Paid([bool; 2]),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NaiveOrder {
    pub user: String,
    pub lines: Vec<(String, u64)>,
    pub amount: u64,
    pub tr: u32,
    /// Tries up to this one were of orders that an init replaced.
    pub life: u32,
    pub standing: Standing,
}

/// What a key keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NaiveKey {
    pub order: String,
    pub answer: Option<Told>,
    pub ends: Millis,
    /// The try that it is about.
    pub tr: u32,
}

/// What a checkout is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    Paid,
    AlreadyPaid,
    Failed(Why),
    Open,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Naive {
    pub credit: BTreeMap<String, u64>,
    pub stock: BTreeMap<String, (u64, u64)>,
    pub orders: BTreeMap<String, NaiveOrder>,
    pub keys: BTreeMap<String, NaiveKey>,
    pub outside: Sides,
    /// All that ever came in less what was taken out other than by a checkout.
    pub credit_in: i128,
    pub units_in: i128,
    /// What paid orders took inside. Kept apart: an init may put another order in their place.
    pub credit_gone: i128,
    pub units_gone: i128,
}

impl NaiveOrder {
    fn sums(&self) -> BTreeMap<&String, u64> {
        let mut sums = BTreeMap::new();
        self.lines.iter().for_each(|(item, amount)| *sums.entry(item).or_default() += amount);
        sums
    }

    pub fn units(&self) -> i128 {
        self.lines.iter().map(|(_, amount)| i128::from(*amount)).sum()
    }
}

impl Naive {
    fn take(&mut self, side: usize, order: &NaiveOrder) -> bool {
        if side == 0 {
            let Some(credit) = self.credit.get_mut(&order.user).filter(|credit| **credit >= order.amount)
            else {
                return false;
            };
            *credit -= order.amount;
            return true;
        }
        let sums = order.sums();
        if !sums.iter().all(|(item, sum)| self.stock.get(*item).is_some_and(|(stock, _)| stock >= sum)) {
            return false;
        }
        sums.into_iter().for_each(|(item, sum)| self.stock.get_mut(item).unwrap().0 -= sum);
        true
    }

    fn give_back(&mut self, side: usize, order: &NaiveOrder) {
        if side == 0 {
            *self.credit.get_mut(&order.user).unwrap() += order.amount;
        } else {
            for (item, sum) in order.sums() {
                self.stock.get_mut(item).unwrap().0 += sum;
            }
        }
    }

    /// `None`: there is no such order.
    pub fn checkout(&mut self, id: &str, deadline: Millis) -> Option<Told> {
        let mut order = self.orders.get(id)?.clone();
        match order.standing {
            Standing::Paid(_) => return Some(Told::AlreadyPaid),
            Standing::Open(_) => return Some(Told::Open),
            Standing::NotPaid(_) => {}
        }
        order.tr += 1;
        let mut halves =
            [self.outside.pay, self.outside.stock].map(|outside| Half { outside, took: None, owes: false });
        for (side, half) in halves.iter_mut().enumerate() {
            if !half.outside {
                half.took = Some(self.take(side, &order));
            }
        }
        order.standing = Standing::Open(Try { halves, cancelled: None, deadline });
        self.orders.insert(id.to_owned(), order);
        Some(self.settle(id))
    }

    /// Decides what can be decided, and gives back what can be given back.
    fn settle(&mut self, id: &str) -> Told {
        let mut order = self.orders[id].clone();
        let Standing::Open(attempt) = &mut order.standing else { panic!("{order:?}") };
        if attempt.cancelled.is_none() {
            let told = match attempt.halves.map(|half| half.took) {
                [Some(true), Some(true)] => {
                    let inside = attempt.halves.map(|half| !half.outside);
                    self.credit_gone += if inside[0] { i128::from(order.amount) } else { 0 };
                    self.units_gone += if inside[1] { order.units() } else { 0 };
                    order.standing = Standing::Paid(inside);
                    Told::Paid
                }
                [Some(pay), Some(stock)] => {
                    let why = match (pay, stock) {
                        (false, false) => Why::Both,
                        (false, true) => Why::Pay,
                        _ => Why::Stock,
                    };
                    self.orders.insert(id.to_owned(), order);
                    return self.fail(id, why);
                }
                _ => Told::Open,
            };
            self.orders.insert(id.to_owned(), order);
            self.close_keys(id, told);
            return told;
        }
        if attempt.halves.iter().any(|half| half.owes) {
            return Told::Open;
        }
        let why = attempt.cancelled.unwrap();
        order.standing = Standing::NotPaid(Some(why));
        self.orders.insert(id.to_owned(), order);
        self.close_keys(id, Told::Failed(why));
        Told::Failed(why)
    }

    pub fn fail(&mut self, id: &str, why: Why) -> Told {
        let mut order = self.orders[id].clone();
        let copy = order.clone();
        let Standing::Open(attempt) = &mut order.standing else { panic!("{order:?}") };
        attempt.cancelled = Some(why);
        for (side, half) in attempt.halves.iter_mut().enumerate() {
            half.owes = half.outside && half.took != Some(false);
            if !half.outside && half.took == Some(true) {
                self.give_back(side, &copy);
            }
        }
        self.orders.insert(id.to_owned(), order);
        self.settle(id)
    }

    pub fn has_open(&self) -> bool {
        self.orders.values().any(|order| matches!(order.standing, Standing::Open(_)))
    }

    fn close_keys(&mut self, id: &str, told: Told) {
        if told != Told::Open {
            let waiting = self.keys.values_mut().filter(|key| key.order == id && key.answer.is_none());
            waiting.for_each(|key| key.answer = Some(told));
        }
    }

    /// An outside side speaks about a try.
    pub fn hear(&mut self, id: &str, tr: u32, side: Side, said: Said) {
        let Some(order) = self.orders.get_mut(id).filter(|order| order.tr == tr) else { return };
        let Standing::Open(attempt) = &mut order.standing else { return };
        let half = &mut attempt.halves[side as usize - 1];
        if !half.outside {
            return;
        }
        match said {
            Said::Undone => half.owes &= attempt.cancelled.is_none(),
            Said::Taken | Said::Refused => {
                half.took.get_or_insert(said == Said::Taken);
            }
        }
        self.settle(id);
    }

    /// The oldest that are due, at most so many, checkouts and keys in turn. Of the four kinds that an expiry ends, these are
    /// the third and the fourth; the place in the log says whose turn is first. How many it were.
    pub fn expire(&mut self, now: Millis, max: usize, by_age: &[String], offset: u64) -> usize {
        let is_due = |order: &NaiveOrder| matches!(&order.standing, Standing::Open(t) if t.cancelled.is_none() && t.deadline < now);
        let mut due: VecDeque<String> =
            by_age.iter().filter(|id| is_due(&self.orders[*id])).cloned().collect();
        let mut keys: Vec<_> = self.keys.iter().filter(|(_, row)| row.ends <= now).collect();
        keys.sort_by_key(|(key, row)| (row.ends, (*key).clone()));
        let mut keys: VecDeque<String> = keys.into_iter().map(|(key, _)| key.clone()).collect();
        let mut keys_turn = offset % 4 == 3;
        let mut ended = 0;
        while ended < max && !(due.is_empty() && keys.is_empty()) {
            if keys_turn || due.is_empty() {
                if let Some(key) = keys.pop_front() {
                    // A key that an ending checkout has answered meanwhile is over all the same.
                    self.keys.remove(&key);
                    ended += 1;
                }
            } else if let Some(id) = due.pop_front() {
                let Standing::Open(attempt) = &self.orders[&id].standing else { panic!("it is due") };
                // Who has refused is the reason, though the other side was silent.
                let why = match attempt.halves.map(|half| half.took) {
                    [Some(false), _] => Why::Pay,
                    [_, Some(false)] => Why::Stock,
                    _ => Why::Deadline,
                };
                self.fail(&id, why);
                ended += 1;
            }
            keys_turn = !keys_turn;
        }
        ended
    }
}
