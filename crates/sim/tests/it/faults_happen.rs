//! A fault that never strikes proves nothing: over some hundred seeds everything that a run can meet is met, and over
//! the ten thousand of CI every fault strikes every kind of file in every phase that is expected.

use holdfast_sim::{run, run_all};

#[test]
fn every_kind_of_event_occurs() {
    let tally = run_all(0..600, 2, run).tally;
    let missing: Vec<_> = tally.entries().into_iter().filter(|(_, count)| *count < 3).collect();
    assert!(missing.is_empty(), "hardly ever seen: {missing:?}");
}
