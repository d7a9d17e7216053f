//! What is said of seeds that broke a promise.

use holdfast_sim::Report;

/// Fails with every broken seed and how to see it again.
pub fn expect_none_broken(broken: &[Report]) {
    let lines: Vec<String> = broken
        .iter()
        .map(|report| {
            let seed = report.seed;
            let violations: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
            format!(
                "seed {seed}: {}\n  replay: cargo run -p holdfast-sim --release -- --seed {seed} --trace\n  \
                 keep:   echo {seed} >> crates/sim/seeds/regressions.txt",
                violations.join("\n  ")
            )
        })
        .collect();
    assert!(lines.is_empty(), "{} seeds broke a promise:\n{}", lines.len(), lines.join("\n"));
}
