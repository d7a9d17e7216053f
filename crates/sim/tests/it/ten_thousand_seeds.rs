//! Ten thousand runs, and no promise broken in any of them, though every fault has struck.

use holdfast_sim::{run, run_all};

use crate::seeds::expect_none_broken;

#[test]
fn ten_thousand_seeds_break_no_promise() {
    let sum = run_all(0..10_000, 2, run);
    expect_none_broken(&sum.broken);
    let missing = sum.coverage.missing();
    assert!(missing.is_empty(), "never struck: {missing:?}\n{}", sum.coverage);
}
