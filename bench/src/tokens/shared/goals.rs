//! What has to be reached, held against what was found.

use super::node::{HOLDFAST, SHERDLOCK};
use super::report::{Shape, SharedReport};
use crate::goal::Goal;

/// Rounds of one input in a second.
const RATE: (f64, f64) = (1_500.0, 3_000.0);
/// How many times as fast as sherdlock in the same run.
const ONE_INPUT_TIMES: f64 = 1.5;
const MANY_INPUTS_TIMES: f64 = 10.0;
const HOT_TIMES: f64 = 10.0;
/// At half load.
const P99_MS_MAX: u64 = 50;
const SHORTAGE_MS_MAX: u64 = 5;

/// All of them.
pub(super) fn goals(report: &SharedReport) -> Vec<Goal> {
    let rate = |engine, shape| report.median(engine, shape).map_or(0.0, |speed| speed.rounds_per_second);
    let times = |what, shape, must: f64| {
        let (ours, theirs) = (rate(HOLDFAST, shape), rate(SHERDLOCK, shape));
        let found = if theirs > 0.0 { ours / theirs } else { f64::INFINITY };
        Goal {
            what,
            must: format!("{must} times sherdlock's"),
            aim: None,
            found: format!("{found:.1} times"),
            holds: ours > 0.0 && found >= must,
            reached: None,
        }
    };
    let of_hot: Vec<_> = report.speeds.iter().filter(|run| run.is(HOLDFAST, Shape::HotToken)).collect();
    let asked: u64 = of_hot.len() as u64 * report.requests * report.nodes as u64;
    let done: u64 = of_hot.iter().map(|run| run.rounds).sum();
    let served = asked > 0 && done == asked;
    let hot = times("one hot token", Shape::HotToken, HOT_TIMES);
    let half = report.half_loads.iter().filter(|run| run.engine == HOLDFAST);
    let shortage = report.shortages.iter().filter(|run| run.engine == HOLDFAST);
    vec![
        Goal::per_second("select and spend, one input", rate(HOLDFAST, Shape::OneInput), RATE),
        times("the same, against sherdlock", Shape::OneInput, ONE_INPUT_TIMES),
        times("many inputs", Shape::ManyInputs, MANY_INPUTS_TIMES),
        // Who refuses most of them is quickly done with the rest.
        Goal { holds: hot.holds && served, ..hot },
        Goal {
            what: "requests for the hot token",
            must: "all served".to_owned(),
            aim: None,
            found: format!("{done} of {asked}"),
            holds: served,
            reached: None,
        },
        Goal::p99_under(
            "p99 of select and spend at half load",
            P99_MS_MAX,
            half.map(|run| run.round_us.p99).max().unwrap_or(0),
        ),
        Goal::p99_under(
            "p99 of a plain shortage",
            SHORTAGE_MS_MAX,
            shortage.map(|run| run.took_us.p99).max().unwrap_or(0),
        ),
    ]
}
