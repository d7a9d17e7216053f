//! Running many seeds on both cores.

use std::ops::Range;
use std::thread;

use holdfast_sim::{Coverage, Report, Tally, run};

/// What a range of seeds came to.
#[derive(Default)]
pub struct Sum {
    /// Everything that happened.
    pub tally: Tally,
    /// Which faults struck what.
    pub coverage: Coverage,
    /// Runs that broke a promise.
    pub broken: Vec<Report>,
}

/// Runs the even seeds on one thread and the odd ones on another. Each run is as deterministic as alone.
pub fn run_all(seeds: Range<u64>) -> Sum {
    let half = |from: u64| {
        let mut sum = Sum::default();
        for seed in (from..seeds.end).step_by(2) {
            let report = run(seed);
            sum.tally.add(&report.tally);
            sum.coverage.add(&report.coverage);
            if !report.violations.is_empty() {
                sum.broken.push(report);
            }
        }
        sum
    };
    thread::scope(|scope| {
        let odd = scope.spawn(|| half(seeds.start + 1));
        let mut sum = half(seeds.start);
        let odd = odd.join().expect("a run catches its own panics");
        sum.tally.add(&odd.tally);
        sum.coverage.add(&odd.coverage);
        sum.broken.extend(odd.broken);
        sum
    })
}

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
