//! The tries of checkouts by their messages alone: what each side was asked and said, and what was decided. A decision is
//! sent once and never changes; a failure undoes every side that has not refused; a success has both sides' word.

use std::collections::BTreeMap;

use holdfast_domain::shop::{
    Answer, AskedStep, Body, ItemId, OrderId, OrderState, ShopMessage, Side, TrNum, TryKey, Verdict,
};

use super::expect;
use super::shop_books::{Paper, ShopBooks};

/// One side of a try.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Half {
    asked: bool,
    /// Whether it took, by its first word before the decision.
    took: Option<bool>,
    undoes: bool,
    undone: bool,
}

/// A try that is not over.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Try {
    tr: TrNum,
    halves: [Half; 2],
}

/// All tries.
#[derive(Debug, Default)]
pub struct ShopTries {
    open: BTreeMap<OrderId, Try>,
    decided: BTreeMap<TryKey, Verdict>,
}

const fn at(side: Side) -> usize {
    match side {
        Side::Pay => 0,
        Side::Stock => 1,
    }
}

/// What a message is, whichever side it is about.
enum Says {
    Asks,
    Undoes,
    Took(bool),
    Undone,
}

fn step_of<V>(step: &AskedStep<V>) -> (Says, &V) {
    match step {
        AskedStep::Forward(value) => (Says::Asks, value),
        AskedStep::Rollback(value) => (Says::Undoes, value),
    }
}

fn answer_of<V>(answer: &Answer<V>) -> (Says, &V) {
    match answer {
        Answer::Taken(value) => (Says::Took(true), value),
        Answer::Refused(value) => (Says::Took(false), value),
        Answer::Undone(value) => (Says::Undone, value),
    }
}

impl ShopTries {
    /// Reads the messages of one command, or of an expiry, before the books take its changes down.
    pub fn read(&mut self, messages: &[ShopMessage], books: &ShopBooks) -> Result<(), String> {
        for ShopMessage { message, outside, .. } in messages {
            let key = &message.key;
            let paper = books.orders.get(&key.order_id);
            let paper = paper.ok_or_else(|| format!("sent a message about {key}, which nobody made"))?;
            let (says, side, fits) = match &message.body {
                Body::Decided(verdict) => {
                    self.decide(key, *verdict)?;
                    continue;
                }
                Body::Pay(step) => {
                    let (says, value) = step_of(step);
                    (says, Side::Pay, value.user_id == paper.user && value.amnt.get() == paper.amount)
                }
                Body::Stock(step) => {
                    let (says, value) = step_of(step);
                    (
                        says,
                        Side::Stock,
                        sums(value.lines().iter().map(|line| (&line.id, line.amnt.get()))) == paper.sums(),
                    )
                }
                Body::Paid(answer) => (answer_of(answer).0, Side::Pay, true),
                Body::Stocked(answer) => (answer_of(answer).0, Side::Stock, true),
            };
            expect(fits, || format!("sent {message:?}; the order is {paper:?}"))?;
            let sides = books.open.get(&key.order_id).map_or(books.outside, |row| row.outside);
            let step = matches!(says, Says::Asks | Says::Undoes);
            expect(!step || *outside == sides.has(side), || format!("sent {message:?} to the wrong place"))?;
            self.hear(key, side, &says)?;
        }
        Ok(())
    }

    fn hear(&mut self, key: &TryKey, side: Side, says: &Says) -> Result<(), String> {
        let decided = self.decided.get(key).copied();
        if let Says::Asks = says
            && decided.is_none()
        {
            let new = || Try { tr: key.tr_num, halves: [Half::default(); 2] };
            self.open.entry(key.order_id.clone()).or_insert_with(new);
        }
        let known = self.open.get_mut(&key.order_id).filter(|known| known.tr == key.tr_num);
        let half = known.map(|known| &mut known.halves[at(side)]);
        match (says, half) {
            (Says::Asks, Some(half)) if decided.is_none() => half.asked = true,
            (Says::Undoes, Some(half)) if decided == Some(Verdict::Failed) => half.undoes = true,
            (Says::Asks | Says::Undoes, _) => {
                return Err(format!("sent the wrong step of {key} to {}: {decided:?}", side.name()));
            }
            // Words about a try that is over, or against what was said first, count for nothing.
            (Says::Took(took), Some(half)) if decided.is_none() => {
                half.took.get_or_insert(*took);
            }
            (Says::Undone, Some(half)) => half.undone |= half.undoes,
            (Says::Took(_) | Says::Undone, _) => {}
        }
        Ok(())
    }

    fn decide(&mut self, key: &TryKey, verdict: Verdict) -> Result<(), String> {
        if let Some(before) = self.decided.get(key) {
            return Err(format!("decided {key} as {verdict:?}, and before as {before:?}"));
        }
        let known = self.open.get(&key.order_id).filter(|known| known.tr == key.tr_num);
        let known = known.ok_or_else(|| format!("decided {key}, which nobody began"))?;
        let took = known.halves.map(|half| half.took == Some(true));
        expect(verdict == Verdict::Failed || took == [true; 2], || {
            format!("decided {key} as paid; the sides said {:?}", known.halves)
        })?;
        self.decided.insert(key.clone(), verdict);
        Ok(())
    }

    /// The order moved: it must be as its try was decided, and a try that is over owes nothing.
    pub fn moved(&mut self, order: &OrderId, state: OrderState) -> Result<(), String> {
        let Some(tr_num) = state.tr_num() else { return Err(format!("took the tries of {order} away")) };
        let key = TryKey { order_id: order.clone(), tr_num };
        let verdict = self.decided.get(&key).copied();
        let right = match state {
            OrderState::Pending(_) => None,
            OrderState::Paid(_) => Some(Verdict::Succeeded),
            OrderState::Cancelling(_) | OrderState::NotPaid(_) => Some(Verdict::Failed),
        };
        expect(verdict == right, || format!("moved {key} to {state:?}, decided as {verdict:?}"))?;
        let known = self.open.get(order).filter(|known| known.tr == tr_num);
        let known = known.ok_or_else(|| format!("moved {key}, which nobody began"))?;
        let fine = |half: &Half| match state {
            OrderState::Pending(_) => half.asked,
            OrderState::Paid(_) => half.took == Some(true),
            OrderState::Cancelling(_) => half.took == Some(false) || half.undoes,
            OrderState::NotPaid(_) => half.took == Some(false) || half.undone,
        };
        expect(known.halves.iter().all(fine), || format!("moved {key} to {state:?} with {known:?}"))?;
        if matches!(state, OrderState::Paid(_) | OrderState::NotPaid(_)) {
            self.open.remove(order);
        }
        Ok(())
    }

    /// How a try was decided.
    pub fn verdict(&self, key: &TryKey) -> Option<Verdict> {
        self.decided.get(key).copied()
    }
}

fn sums<'a>(lines: impl Iterator<Item = (&'a ItemId, u64)>) -> BTreeMap<&'a ItemId, u64> {
    let mut sums = BTreeMap::new();
    lines.for_each(|(item, amount)| *sums.entry(item).or_default() += amount);
    sums
}

impl Paper {
    fn sums(&self) -> BTreeMap<&ItemId, u64> {
        sums(self.lines.iter().map(|(item, amount)| (item, *amount)))
    }
}
