//! Ten thousand runs, and no promise broken in any of them.

use crate::seeds::{expect_none_broken, run_all};

#[test]
fn ten_thousand_seeds_break_no_promise() {
    expect_none_broken(&run_all(0..10_000).broken);
}
