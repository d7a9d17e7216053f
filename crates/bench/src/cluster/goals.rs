//! What has to be reached, held against what was found.

use super::report::{ClusterReport, Depth};
use crate::options::Payers;
use crate::report::median;
use crate::shop::Goal;
use crate::table::thousands;

const RATE: (f64, f64) = (4_000.0, 7_000.0);
/// Of a hundred of the floor.
const OF_FLOOR: (f64, f64) = (15.0, 30.0);
const POSITION: (f64, f64) = (15_000.0, 30_000.0);
/// At half load.
const P99_MS_MAX: u64 = 250;
/// Two runs of the same case differ by about as much.
const NOISE: f64 = 0.05;
/// How much more a payment may cost among ten times as many, of a hundred.
const GROWTH_MAX: f64 = 25.0;

/// All that were measured.
pub(super) fn goals(report: &ClusterReport) -> Vec<Goal> {
    let rate = median(&report.rates(Payers::Uniform));
    let hot = median(&report.rates(Payers::Hot));
    let floor = median(&report.floor.payments_per_second);
    let percent = if floor > 0.0 { 100.0 * rate / floor } else { 0.0 };
    let mut goals = vec![
        per_second("two-phase payments through all hops", rate, RATE),
        Goal {
            what: "the same, of the floor",
            must: format!("{:.0} %", OF_FLOOR.0),
            aim: Some(format!("{:.0} %", OF_FLOOR.1)),
            found: format!("{percent:.1} %"),
            holds: percent >= OF_FLOOR.0,
            reached: Some(percent >= OF_FLOOR.1),
        },
        per_second("messages of the position handler alone", report.position.messages_per_second, POSITION),
        p99("p99 of a prepare at half load", report.half_load.prepare_us.p99),
        p99("p99 of a fulfil at half load", report.half_load.second_us.p99),
        Goal {
            what: "one hot payer is not slower",
            must: format!("{}/s, less {:.0} %", thousands(rate), 100.0 * NOISE),
            aim: None,
            found: format!("{}/s", thousands(hot)),
            holds: hot >= rate * (1.0 - NOISE),
            reached: None,
        },
    ];
    if let [first, .., last] = &report.depths[..] {
        // Processes that cannot be looked into would be missing from both.
        let cpu = |depth: &Depth| if report.sees_all { depth.costs.cpu_us() } else { 0.0 };
        goals.push(growth("CPU of all processes", first, last, cpu));
        goals.push(growth("PostgreSQL's log", first, last, |depth| depth.costs.wal_bytes));
    }
    goals
}

fn per_second(what: &'static str, found: f64, (must, aim): (f64, f64)) -> Goal {
    Goal {
        what,
        must: format!("{}/s", thousands(must)),
        aim: Some(format!("{}/s", thousands(aim))),
        found: format!("{}/s", thousands(found)),
        holds: found >= must,
        reached: Some(found >= aim),
    }
}

fn p99(what: &'static str, micros: u64) -> Goal {
    Goal {
        what,
        must: format!("under {P99_MS_MAX} ms"),
        aim: None,
        found: format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100),
        // Nothing measured is nothing reached.
        holds: micros > 0 && micros < P99_MS_MAX * 1_000,
        reached: None,
    }
}

fn growth(what: &'static str, first: &Depth, last: &Depth, cost: impl Fn(&Depth) -> f64) -> Goal {
    let more = percent_more(cost(first), cost(last));
    let measured = cost(first) > 0.0;
    Goal {
        what,
        must: format!("at most {GROWTH_MAX:.0} % more"),
        aim: None,
        found: if measured { format!("{more:+.1} %") } else { "not measured".to_owned() },
        holds: measured && more <= GROWTH_MAX,
        reached: None,
    }
}

fn percent_more(first: f64, last: f64) -> f64 {
    if first > 0.0 { 100.0 * (last - first) / first } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn musts_and_aims_are_told_apart() {
        let words = |found| per_second("x", found, RATE).word();
        assert_eq!((words(3_999.0), words(4_000.0), words(7_000.0)), ("MISSED", "holds", "aim reached"));
    }

    #[test]
    fn a_latency_that_was_not_measured_holds_nothing() {
        assert_eq!(p99("x", 0).word(), "MISSED");
        assert_eq!((p99("x", 249_999).word(), p99("x", 250_000).word()), ("holds", "MISSED"));
        assert_eq!(p99("x", 123_456).found, "123.4 ms");
    }

    #[test]
    fn growth_is_measured_from_the_first() {
        assert!((percent_more(100.0, 125.0) - 25.0).abs() < 1e-9);
        assert!((percent_more(100.0, 90.0) + 10.0).abs() < 1e-9);
        assert!(percent_more(0.0, 5.0).abs() < 1e-9);
    }
}
