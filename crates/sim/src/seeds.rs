//! Many seeds on several threads. Each run is as deterministic as alone.

use std::ops::Range;
use std::thread;

use crate::coverage::Coverage;
use crate::run::Report;
use crate::tally::Tally;

/// What many runs came to.
#[derive(Debug, Default)]
pub struct Sum {
    /// Everything that happened.
    pub tally: Tally,
    /// Which faults struck what.
    pub coverage: Coverage,
    /// Runs that broke a promise.
    pub broken: Vec<Report>,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.tally.add(&other.tally);
        self.coverage.add(&other.coverage);
        self.broken.extend(other.broken);
    }
}

/// Has `run` run every seed, each thread its share of them.
pub fn run_all(seeds: Range<u64>, threads: usize, run: impl Fn(u64) -> Report + Sync) -> Sum {
    let share = |first: usize| {
        let mut sum = Sum::default();
        for report in seeds.clone().skip(first).step_by(threads).map(&run) {
            sum.tally.add(&report.tally);
            sum.coverage.add(&report.coverage);
            sum.broken.extend((!report.violations.is_empty()).then_some(report));
        }
        sum
    };
    thread::scope(|scope| {
        let shares: Vec<_> = (0..threads).map(|first| scope.spawn(move || share(first))).collect();
        let mut sum = Sum::default();
        for share in shares {
            sum.add(share.join().expect("a run catches its own panics"));
        }
        sum
    })
}
