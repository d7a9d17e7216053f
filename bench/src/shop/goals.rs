//! What has to be reached, held against what was found.

use super::report::{CaseReport, CheckoutReport, Kind, Way};
use crate::goal::Goal;

const BATCHED_MUST: f64 = 50_000.0;
const BATCHED_AIM: f64 = 150_000.0;
const HTTP_MUST: f64 = 15_000.0;
const HTTP_AIM: f64 = 30_000.0;
/// At half load.
const P99_MS_MAX: u64 = 30;
/// Twenty of a hundred failing may make the same number of checkouts take this many times as long.
const FAILING_TIMES_MAX: f64 = 2.0;
/// Two runs of the same case differ by about as much.
const NOISE: f64 = 0.05;
/// For a million outcomes.
const REBUILD_SECONDS_MAX: f64 = 2.0;

/// All that were measured.
pub(super) fn goals(report: &CheckoutReport) -> Vec<Goal> {
    let batched = find(report, Kind::Many, false, |way| matches!(way, Way::Batches { .. }));
    let http = find(report, Kind::Many, false, |way| matches!(way, Way::Http));
    let mut goals = Vec::new();
    goals.extend(
        batched.map(|case| rate("checkouts through the client, in batches", case, BATCHED_MUST, BATCHED_AIM)),
    );
    goals.extend(http.map(|case| rate("checkouts over HTTP, one by one", case, HTTP_MUST, HTTP_AIM)));
    let half = find(report, Kind::Many, true, |way| matches!(way, Way::Batches { .. }));
    goals.extend(half.and_then(|case| p99("p99 of a batch at half load", case)));
    let half = find(report, Kind::Many, true, |way| matches!(way, Way::Http));
    goals.extend(half.and_then(|case| p99("p99 over HTTP at half load", case)));
    let beside = |kind| batched.zip(find(report, kind, false, |way| matches!(way, Way::Batches { .. })));
    goals.extend(beside(Kind::Failing).map(|(many, failing)| {
        let times =
            many.median_checkouts_per_second / failing.median_checkouts_per_second.max(f64::MIN_POSITIVE);
        Goal {
            what: "time of as many checkouts with 20 % failing",
            must: format!("at most {FAILING_TIMES_MAX:.0} times"),
            aim: None,
            found: format!("{times:.2} times"),
            holds: times <= FAILING_TIMES_MAX,
            reached: None,
        }
    }));
    goals.extend(beside(Kind::Hot).map(|(many, hot)| {
        let share = hot.median_checkouts_per_second / many.median_checkouts_per_second.max(f64::MIN_POSITIVE);
        Goal {
            what: "one hot item against many",
            must: format!("not slower (within {:.0} %)", NOISE * 100.0),
            aim: None,
            found: format!("{:.0} % of the rate", share * 100.0),
            holds: share >= 1.0 - NOISE,
            reached: None,
        }
    }));
    goals.extend(report.rebuild.as_ref().map(|rebuild| rebuild.goal(REBUILD_SECONDS_MAX)));
    goals
}

fn find(report: &CheckoutReport, kind: Kind, half: bool, way: impl Fn(Way) -> bool) -> Option<&CaseReport> {
    report
        .cases
        .iter()
        .find(|case| case.case.kind == kind && case.case.half_load == half && way(case.case.way))
}

fn rate(what: &'static str, case: &CaseReport, must: f64, aim: f64) -> Goal {
    Goal::per_second(what, case.median_checkouts_per_second, (must, aim))
}

fn p99(what: &'static str, case: &CaseReport) -> Option<Goal> {
    Some(Goal::p99_under(what, P99_MS_MAX, case.median()?.latency_us.p99))
}
