//! The order consumer's start: a log of outcomes folded again, without a hub and without a disk.
//!
//! Of five orders one has failed and was undone. The tries of a block run side by side, as those of one frame do. The last
//! block has both outcomes and no decision: rebuilding must decide it, and nothing else.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use holdfast_checkout::coordinator::{LogBounds, Orders, Record};
use holdfast_checkout::{
    Answer, Body, Coordinator, Items, Line, Message, Order, OrderId, OrderState, TrNum, Verdict, Whole,
};

use holdfast_load::LoadError;
use holdfast_load::figures::{median, per};
use holdfast_load::options::{RUNS_DEFAULT, RUNS_MAX, check_range, parse_count};
use holdfast_load::report::{Report, Row};

/// Orders whose tries run side by side.
const BLOCK: u64 = 1_000;
/// One order of so many fails.
const FAILING: u64 = 5;

pub(crate) struct Rows(pub(crate) HashMap<OrderId, Order>);

impl Orders for Rows {
    fn order(&self, id: &OrderId) -> Option<&Order> {
        self.0.get(id)
    }
}

/// A log of at most that many outcomes, and the orders that it is about.
pub(crate) struct World {
    pub(crate) rows: Rows,
    pub(crate) records: Vec<Record>,
    pub(crate) undecided: usize,
}

impl World {
    pub(crate) fn of(outcomes: u64) -> World {
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

/// The most outcomes: they are kept in memory.
pub(crate) const OUTCOMES_MAX: u64 = 10_000_000;

/// The order consumer's start: a log of outcomes folded again, without a hub and without a disk.
#[derive(Debug, Clone, clap::Args)]
pub struct RebuildBench {
    /// Outcomes that are rebuilt from
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "1m")]
    outcomes: u64,
    /// Runs; the median is the figure
    #[arg(long, default_value_t = RUNS_DEFAULT)]
    runs: u32,
}

/// Rebuilds as often as asked for.
///
/// # Errors
/// If the options make no sense, or the rebuild decides something else than it must.
pub fn bench_rebuild(options: &RebuildBench) -> Result<Report, LoadError> {
    check_range("--outcomes", options.outcomes, 1_000, OUTCOMES_MAX)?;
    check_range("--runs", options.runs.into(), 1, RUNS_MAX.into())?;
    let world = World::of(options.outcomes);
    let seconds = (0..options.runs).map(|_| fold(&world)).collect::<Result<Vec<f64>, LoadError>>()?;
    let mut report = Report::measured("outcomes of checkouts folded again, without a hub", Path::new("."));
    report.table("", [world.row(&seconds)]);
    Ok(report)
}

impl World {
    /// What it took to rebuild it, each time.
    pub(crate) fn row(&self, seconds: &[f64]) -> Row {
        let outcomes = self.records.len() as u64;
        Row::default()
            .count("outcomes", outcomes)
            .count("orders", self.rows.0.len() as u64)
            .count("undecided", self.undecided as u64)
            .number("s", median(seconds), 2)
            .each("every run", seconds, 2)
            .number("s for a million", median(seconds) * 1e6 / per(outcomes, 1), 2)
    }
}

/// The seconds that it took.
fn fold(world: &World) -> Result<f64, LoadError> {
    let World { rows, records, undecided } = world;
    let log = LogBounds { start: 0, end: records.len() as u64 };
    let started = Instant::now();
    let (coordinator, effects) = Coordinator::rebuild(rows, Some(0), log, records);
    let seconds = started.elapsed().as_secs_f64();
    drop(coordinator);
    let decided = effects.sent.iter().filter(|sent| sent.body == Body::Decided(Verdict::Succeeded)).count();
    if decided != *undecided || effects.sent.len() != *undecided || !effects.alarms.is_empty() {
        return Err(LoadError::Refused(format!(
            "the rebuild decided {decided} of {undecided} tries, sent {} messages and raised {} alarms",
            effects.sent.len(),
            effects.alarms.len()
        )));
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_as_long_as_asked_for_and_its_end_is_decided() {
        let world = World::of(20_000);
        assert!((18_000..=20_000).contains(&world.end()), "{}", world.end());
        assert_eq!(world.undecided as u64, BLOCK);
        assert!(fold(&world).is_ok() && fold(&world).is_ok(), "the same log again");
        let short = World::of(1_000);
        assert_eq!(short.undecided, 500, "all of a short log is undecided");
        assert!(fold(&short).is_ok());
    }
}
