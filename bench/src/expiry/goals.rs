//! What has to be reached, held against what was found.

use super::report::ExpiryReport;
use crate::goal::Goal;
use crate::report::median;

const IDLE_US_MUST: u64 = 2_000;
const IDLE_US_AIM: u64 = 1_000;
const DUE_MS_MUST: f64 = 200.0;
const DUE_MS_AIM: f64 = 100.0;
const SUSTAINED_MUST: f64 = 5_000.0;
const SUSTAINED_AIM: f64 = 10_000.0;

/// Looks of a fraction of a millisecond differ by so much from run to run.
const GROWTH_MAX: u64 = 2;

/// All of them. The goal for what is due is for 1,000 of a million; other numbers are held to the same.
pub(super) fn goals(report: &ExpiryReport) -> Vec<Goal> {
    let mut goals = Vec::new();
    if let Some(growth) = report.growth.iter().find(|growth| growth.transfers == report.transfers) {
        let look = &growth.ours.look_us;
        goals.push(idle("nothing due: one look at all shards, p50", look.p50));
        goals.push(idle("the same, p99", look.p99));
    }
    let by_size = |growth: &&super::report::Growth| growth.transfers;
    if let (Some(few), Some(many)) =
        (report.growth.iter().min_by_key(by_size), report.growth.iter().max_by_key(by_size))
        && few.transfers < many.transfers
    {
        goals.push(not_growing(few.ours.look_us.p50, many.ours.look_us.p50));
    }
    let look = &report.finished.scans.look_us;
    goals.push(idle("nothing due, after payments that ended and without VACUUM, p50", look.p50));
    goals.push(idle("the same, p99", look.p99));
    let ended = median(&report.due.ours_ms);
    goals.push(Goal {
        what: "all that is due ended",
        must: format!("under {DUE_MS_MUST:.0} ms"),
        aim: Some(format!("{DUE_MS_AIM:.0} ms")),
        found: format!("{ended:.0} ms"),
        holds: ended < DUE_MS_MUST,
        reached: Some(ended < DUE_MS_AIM),
    });
    let rate = report.sustained.per_second;
    goals.push(Goal::per_second(
        "expirations, position step included",
        rate,
        (SUSTAINED_MUST, SUSTAINED_AIM),
    ));
    goals
}

/// From the smallest size to the largest, p50 of a look.
fn not_growing(few: u64, many: u64) -> Goal {
    Goal {
        what: "nothing due: does not grow with the number of transfers",
        must: format!("at most {GROWTH_MAX} times"),
        aim: None,
        found: format!("{few} us, {many} us"),
        holds: few > 0 && many <= few * GROWTH_MAX,
        reached: None,
    }
}

fn idle(what: &'static str, micros: u64) -> Goal {
    Goal {
        what,
        must: format!("under {} ms", IDLE_US_MUST / 1_000),
        aim: Some(format!("{} ms", IDLE_US_AIM / 1_000)),
        found: format!("{}.{:02} ms", micros / 1_000, micros % 1_000 / 10),
        holds: micros < IDLE_US_MUST,
        reached: Some(micros < IDLE_US_AIM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_grows_is_told() {
        assert!(not_growing(100, 200).holds);
        assert!(!not_growing(100, 201).holds);
        assert!(!not_growing(0, 0).holds, "nothing was measured");
    }
}
