//! The store's jobs: written blocks, checkpoints and merges, at any moment, in any order that is allowed, and with
//! faults in the middle of them.

use crate::coverage::Phase;
use crate::run::Simulation;

impl Simulation {
    /// Runs some of the store's jobs, or none.
    pub(crate) fn keep_store(&mut self) {
        if self.random.chance(self.eagerness.checkpoints) {
            self.begin_checkpoint();
        }
        for _ in 0..6 {
            if !self.random.chance(self.eagerness.jobs) || !self.run_a_job() {
                return;
            }
        }
    }

    fn begin_checkpoint(&mut self) {
        if let Some(hub) = &mut self.hub {
            let begun = hub.writer.begin_checkpoint();
            self.trace.note(format_args!("checkpoint begun: {begun}"));
        }
    }

    /// Runs one job; `false` if there is none to run.
    fn run_a_job(&mut self) -> bool {
        let wants_merge = self.random.chance(40);
        let Some(hub) = self.hub.as_ref().filter(|hub| !hub.has_stopped()) else { return false };
        let Some(phase) = hub.next_job(wants_merge) else { return false };
        if phase == Phase::Merge && !wants_merge {
            // A merge may be late by any number of checkpoints.
            return false;
        }
        self.maybe_break_job(phase);
        let Some(hub) = &mut self.hub else { return false };
        let done = hub.run_job(wants_merge);
        self.trace.note(format_args!("job {phase:?}: {done}"));
        match phase {
            Phase::Merge => self.tally.merges += u64::from(done),
            Phase::Checkpoint => self.tally.checkpoints += u64::from(done),
            _ => self.tally.block_writes += u64::from(done),
        }
        self.after(phase);
        if !done {
            self.tally.jobs_failed += 1;
            self.tally.crashes_in_jobs += u64::from(self.fs.is_frozen());
        }
        done
    }

    fn maybe_break_job(&mut self, phase: Phase) {
        let chance = if self.medium.is_failing() { 12 } else { 5 };
        if self.healing || !self.random.chance(chance) {
            return;
        }
        match self.random.below(10) {
            0..6 => {
                let sync = 1 + self.random.below(if phase == Phase::Checkpoint { 9 } else { 3 });
                self.trace.note(format_args!("the power will go at sync {sync} of a job"));
                self.fs.freeze_at_sync(sync);
            }
            6 => {
                let said = self.medium.trouble(&self.fs, &mut self.random);
                self.trace.note(format_args!("{said}"));
            }
            _ => self.arm_error(),
        }
    }

    pub(crate) fn arm_error(&mut self) {
        let said = self.medium.arm_error(&self.fs, &mut self.random);
        self.trace.note(format_args!("{said}"));
    }

    /// The hub did something: what struck meanwhile, and how long did it take?
    pub(crate) fn after(&mut self, phase: Phase) -> usize {
        let hits = self.medium.collect(&self.fs, phase, self.auditors.faults.frames());
        for hit in &hits {
            self.trace.note(format_args!("{hit:?}"));
        }
        self.clock.pass(self.medium.time_taken(&self.fs));
        hits.len()
    }
}
