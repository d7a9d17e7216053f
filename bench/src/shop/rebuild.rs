//! The order consumer's start: a log of outcomes folded again, without a hub and without a disk.
//!
//! Of five orders one has failed and was undone. The tries of a block run side by side, as those of one frame do. The last
//! block has both outcomes and no decision: rebuilding must decide it, and nothing else.

use std::collections::HashMap;
use std::time::Instant;

use holdfast_checkout::coordinator::{LogBounds, Orders, Record};
use holdfast_checkout::{
    Answer, Body, Coordinator, Items, Line, Message, Order, OrderId, OrderState, TrNum, Verdict, Whole,
};

use super::report::RebuildReport;
use crate::BenchError;
use crate::report::median;

/// Orders whose tries run side by side.
const BLOCK: u64 = 1_000;
/// One order of so many fails.
const FAILING: u64 = 5;

pub(super) struct Rows(pub(super) HashMap<OrderId, Order>);

impl Orders for Rows {
    fn order(&self, id: &OrderId) -> Option<&Order> {
        self.0.get(id)
    }
}

/// A log of at most that many outcomes, and the orders that it is about.
pub(super) struct World {
    pub(super) rows: Rows,
    pub(super) records: Vec<Record>,
    pub(super) undecided: usize,
}

impl World {
    pub(super) fn of(outcomes: u64) -> World {
        let mut world = World { rows: Rows(HashMap::new()), records: Vec::new(), undecided: 0 };
        let mut number = 0;
        // A decided order takes three outcomes, or four; an undecided one two.
        while world.end() + 6 * BLOCK <= outcomes {
            world.add_block(&mut number, BLOCK, true);
        }
        let undecided = (outcomes.saturating_sub(world.end()) / 2).min(BLOCK);
        world.undecided = usize::try_from(undecided).expect("a block");
        world.add_block(&mut number, undecided, false);
        world
    }

    const fn end(&self) -> u64 {
        self.records.len() as u64
    }

    fn add_block(&mut self, number: &mut u64, orders: u64, decided: bool) {
        let tr = TrNum::FIRST;
        let block: Vec<(Order, bool)> = (*number..*number + orders)
            .map(|number| {
                let fails = decided && number % FAILING == 0;
                let state = match (decided, fails) {
                    (false, _) => OrderState::Pending(tr),
                    (true, false) => OrderState::Paid(tr),
                    (true, true) => OrderState::NotPaid(Some(tr)),
                };
                (order(number, state), fails)
            })
            .collect();
        *number += orders;
        for (order, fails) in &block {
            let payment = order.payment();
            let said = if *fails { Answer::Refused(payment) } else { Answer::Taken(payment) };
            self.push(order, Body::Paid(said));
        }
        for (order, _) in &block {
            self.push(order, Body::Stocked(Answer::Taken(order.items.clone())));
        }
        for (order, fails) in block.iter().filter(|_| decided) {
            self.push(order, Body::Decided(if *fails { Verdict::Failed } else { Verdict::Succeeded }));
        }
        for (order, _) in block.iter().filter(|(_, fails)| *fails) {
            self.push(order, Body::Stocked(Answer::Undone(order.items.clone())));
        }
        self.rows.0.extend(block.into_iter().map(|(order, _)| (order.order_id.clone(), order)));
    }

    fn push(&mut self, order: &Order, body: Body) {
        let message = Message { key: order.key(TrNum::FIRST), body };
        self.records.push(Record { offset: self.end(), message });
    }
}

fn order(number: u64, state: OrderState) -> Order {
    let whole = |number: u64| Whole::new(number).expect("small");
    let line = |item: u64| Line { id: item.to_string().parse().expect("digits"), amnt: whole(1) };
    let lines = vec![line(number % 9_973), line(10_000 + number % 7_919)];
    Order {
        order_id: number.to_string().parse().expect("digits"),
        user_id: (number % 10_007).to_string().parse().expect("digits"),
        items: Items::new(lines).expect("two lines"),
        amount: whole(6),
        state,
    }
}

/// Folds the same log as often as asked for.
pub(super) fn rebuild(outcomes: u64, runs: u32) -> Result<RebuildReport, BenchError> {
    let World { rows, records, undecided } = World::of(outcomes);
    let log = LogBounds { start: 0, end: records.len() as u64 };
    let mut seconds = Vec::new();
    for _ in 0..runs {
        let started = Instant::now();
        let (coordinator, effects) = Coordinator::rebuild(&rows, Some(0), log, &records);
        seconds.push(started.elapsed().as_secs_f64());
        let decided =
            effects.sent.iter().filter(|sent| sent.body == Body::Decided(Verdict::Succeeded)).count();
        if decided != undecided || effects.sent.len() != undecided || !effects.alarms.is_empty() {
            return Err(BenchError::Refused(format!(
                "the rebuild decided {decided} of {undecided} tries, sent {} messages and raised {} alarms",
                effects.sent.len(),
                effects.alarms.len()
            )));
        }
        drop(coordinator);
    }
    Ok(RebuildReport {
        outcomes: records.len() as u64,
        orders: rows.0.len() as u64,
        undecided: undecided as u64,
        median_seconds: median(&seconds),
        seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_as_long_as_asked_for_and_its_end_is_decided() {
        let report = rebuild(20_000, 2).unwrap();
        assert!((18_000..=20_000).contains(&report.outcomes), "{report:?}");
        assert_eq!((report.undecided, report.seconds.len()), (BLOCK, 2));
        assert!(rebuild(1_000, 1).unwrap().undecided == 500, "all of a short log is undecided");
    }
}
