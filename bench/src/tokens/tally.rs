//! Rounds of select and spend or release, counted.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::drive::new_histogram;
use crate::report::add_counts;

/// What a worker, or all of them, have counted.
pub(crate) struct Tally {
    pub(crate) rounds: u64,
    pub(crate) done: u64,
    pub(crate) selections: u64,
    pub(crate) inputs: u64,
    pub(crate) refused: BTreeMap<String, u64>,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) round_us: Histogram<u64>,
    pub(crate) select_us: Histogram<u64>,
    pub(crate) second_us: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            rounds: 0,
            done: 0,
            selections: 0,
            inputs: 0,
            refused: BTreeMap::new(),
            errors: BTreeMap::new(),
            round_us: new_histogram(),
            select_us: new_histogram(),
            second_us: new_histogram(),
        }
    }
}

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        self.rounds += other.rounds;
        self.done += other.done;
        self.selections += other.selections;
        self.inputs += other.inputs;
        add_counts(&mut self.refused, other.refused);
        add_counts(&mut self.errors, other.errors);
        for (sum, part) in [
            (&mut self.round_us, &other.round_us),
            (&mut self.select_us, &other.select_us),
            (&mut self.second_us, &other.second_us),
        ] {
            sum.add(part).expect("all histograms have the same bounds");
        }
    }

    /// A round that came to its end: its select, what followed, and both from the round's place in time.
    pub(crate) fn record(&mut self, select_us: u64, second_us: u64, round_us: u64) {
        self.done += 1;
        self.select_us.saturating_record(select_us);
        self.second_us.saturating_record(second_us);
        self.round_us.saturating_record(round_us);
    }
}
