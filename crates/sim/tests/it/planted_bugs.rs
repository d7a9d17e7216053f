//! The simulator must bite: each fault planted in the hub is found soon, and by the promise that it breaks.
//! Run with `--features planted-bugs`.

#![cfg(feature = "planted-bugs")]

use holdfast_domain::planted::{Bug, plant};
use holdfast_sim::{Invariant, Report, run};

const SEEDS: u64 = 1_000;

/// The first seed that finds the bug, which must be found by `expected`, and by which no other seed is hurt.
fn first_found(bug: Bug, expected: Invariant) -> Report {
    plant(Some(bug));
    let found = (0..SEEDS).map(run).find(|report| !report.violations.is_empty());
    plant(None);
    let found = found.unwrap_or_else(|| panic!("{bug:?} is not found in {SEEDS} seeds"));
    let by: Vec<Invariant> = found.violations.iter().map(|violation| violation.invariant).collect();
    assert!(by.contains(&expected), "{bug:?} is found by {by:?} and not by {expected:?}");
    println!("{bug:?}: seed {} by {by:?}", found.seed);
    assert!(run(found.seed).violations.is_empty(), "seed {} passes without the bug", found.seed);
    found
}

#[test]
fn a_forgotten_running_position_breaks_the_limits() {
    first_found(Bug::ForgottenRunningPosition, Invariant::LimitsHold);
}

#[test]
fn a_kept_position_does_not_end_its_hold() {
    first_found(Bug::KeptPosition, Invariant::HoldsEndOnce);
}

#[test]
fn an_answer_despite_a_failed_log_does_not_survive() {
    first_found(Bug::AnswerDespiteFailure, Invariant::AcknowledgedSurvives);
}

#[test]
fn without_a_bug_the_same_seeds_pass() {
    plant(None);
    for seed in 0..SEEDS {
        assert!(run(seed).violations.is_empty(), "seed {seed}");
    }
}
