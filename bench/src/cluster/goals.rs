//! What has to be reached, held against what was found.

use super::report::{ClusterReport, Depth};
use crate::goal::Goal;
use crate::options::Payers;
use crate::report::median;
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
        Goal::per_second("two-phase payments through all hops", rate, RATE),
        Goal {
            what: "the same, of the floor",
            must: format!("{:.0} %", OF_FLOOR.0),
            aim: Some(format!("{:.0} %", OF_FLOOR.1)),
            found: format!("{percent:.1} %"),
            holds: percent >= OF_FLOOR.0,
            reached: Some(percent >= OF_FLOOR.1),
        },
        Goal::per_second(
            "messages of the position handler alone",
            report.position.messages_per_second,
            POSITION,
        ),
        Goal::p99_under("p99 of a prepare at half load", P99_MS_MAX, report.half_load.prepare_us.p99),
        Goal::p99_under("p99 of a fulfil at half load", P99_MS_MAX, report.half_load.second_us.p99),
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

fn growth(what: &'static str, first: &Depth, last: &Depth, cost: impl Fn(&Depth) -> f64) -> Goal {
    let more = percent_more(cost(first), cost(last));
    Goal {
        what,
        must: format!("at most {GROWTH_MAX:.0} % more"),
        aim: None,
        found: more.map_or_else(|| "not measured".to_owned(), |more| format!("{more:+.1} %")),
        holds: more.is_some_and(|more| more <= GROWTH_MAX),
        reached: None,
    }
}

/// Of nothing there is no more and no less.
fn percent_more(first: f64, last: f64) -> Option<f64> {
    (first > 0.0).then(|| 100.0 * (last - first) / first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_measured_from_the_first() {
        assert_eq!(percent_more(100.0, 125.0), Some(25.0));
        assert_eq!(percent_more(100.0, 90.0), Some(-10.0));
        assert_eq!(percent_more(0.0, 5.0), None);
    }
}
