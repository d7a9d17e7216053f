//! How lives of the hub begin and end: faults are armed, strike, and a new life opens what is left on the disk.

use holdfast_hub::OpenError;

use crate::invariants::{Invariant, ReplayChangesNothing};
use crate::process::{Process, draw_options};
use crate::run::Run;

/// Attempts to open the log, of which all but the last few may be broken.
const ATTEMPTS: u32 = 8;
const ATTEMPTS_BROKEN: u32 = 4;

impl Run {
    /// Arms a fault, or lets one strike at once.
    pub(crate) fn maybe_break(&mut self) {
        match self.random.below(100) {
            0..7 => {
                let sync = 1 + self.random.below(4);
                self.trace.note(format_args!("the power will go at sync {sync}"));
                self.fs.freeze_at_sync(sync);
            }
            7..9 => {
                self.trace.note(format_args!("the next sync will fail"));
                self.fs.fail_next_sync();
            }
            9..11 => {
                self.trace.note(format_args!("the next write will fail"));
                self.fs.fail_next_write();
            }
            11..13 => {
                self.tally.crashes_between += 1;
                self.lose_power();
                self.start();
            }
            13..15 => {
                self.tally.kills += 1;
                self.kill();
                self.start();
            }
            _ => {}
        }
    }

    /// Fills the next segment ahead. A failure there costs nothing but the spare.
    pub(crate) fn prepare_spare(&mut self) {
        let Some(hub) = &self.hub else { return };
        let prepared = hub.prepare_spare();
        self.trace.note(format_args!("spare: {:?}", prepared.as_ref().ok()));
        self.tally.spares += u64::from(prepared.is_ok_and(|made| made));
    }

    /// If the hub has stopped or its machine has no power, it is sent some more and then restarted.
    pub(crate) fn mend(&mut self) {
        let stopped = self.hub.as_ref().is_none_or(Process::has_stopped);
        if !stopped && !self.fs.is_frozen() {
            return;
        }
        if stopped {
            let known = self.diary.entries().len();
            if known > 0 {
                let place = self.random.index(known);
                self.send_to_stopped(place);
            }
            self.turn();
        }
        if self.fs.is_frozen() {
            self.tally.crashes_at_sync += 1;
            self.lose_power();
        } else if self.random.chance(50) {
            self.lose_power();
        } else {
            self.kill();
        }
        self.start();
    }

    /// A hub whose log failed takes nothing, for good.
    fn send_to_stopped(&mut self, place: usize) {
        let Some(hub) = &self.hub else { return };
        let end = hub.core().end();
        let command = self.diary.entries()[place].command.clone();
        let taken = hub.submit(0, vec![command]);
        self.tally.refused_stopped += 1;
        if taken.is_ok() {
            let said = Err(format!("a hub that stopped at {end} takes commands"));
            self.findings.take(Invariant::TheHubGoesOn, said);
        }
    }

    /// The machine goes down and comes up: what was not synced is there in part, or not at all.
    fn lose_power(&mut self) {
        let seed = self.random.next();
        self.trace.note(format_args!("power lost"));
        self.end_life();
        self.fs = self.fs.crash(seed);
    }

    /// The process ends; the machine, and what it has cached, stays.
    fn kill(&mut self) {
        self.trace.note(format_args!("killed"));
        self.end_life();
    }

    fn end_life(&mut self) {
        self.tally.unknown += self.diary.all_lost();
        self.hub = None;
        self.auditors.clock.restarted();
    }

    /// Opens what is on the disk, through as many failures as strike, and audits what is found.
    pub(crate) fn start(&mut self) {
        for attempt in 0..ATTEMPTS {
            if attempt < ATTEMPTS_BROKEN && !self.healing {
                self.maybe_break_opening();
            }
            if attempt == ATTEMPTS_BROKEN && self.fs.is_frozen() {
                self.lose_power();
            }
            let options = draw_options(&mut self.random);
            match Process::start(&self.fs, &self.clock, options, &mut self.random) {
                Ok(hub) => {
                    self.hub = Some(hub);
                    self.recovered();
                    return;
                }
                Err(error) if self.fs.is_frozen() => {
                    self.trace.note(format_args!("opening: {error}"));
                    self.tally.crashes_in_recovery += 1;
                    self.lose_power();
                }
                Err(OpenError::Log(holdfast_log::LogError::Io { op, .. })) if attempt < ATTEMPTS - 1 => {
                    self.trace.note(format_args!("opening: cannot {op}"));
                    self.tally.errors_in_recovery += 1;
                }
                Err(error) => {
                    let said = Err(format!("the hub does not start: {error}"));
                    self.findings.take(Invariant::TheHubGoesOn, said);
                    return;
                }
            }
        }
    }

    fn maybe_break_opening(&mut self) {
        match self.random.below(100) {
            0..12 => {
                let sync = 1 + self.random.below(4);
                self.trace.note(format_args!("the power will go at sync {sync} of opening"));
                self.fs.freeze_at_sync(sync);
            }
            12..16 => self.fs.fail_next_sync(),
            16..18 => self.fs.fail_next_write(),
            _ => {}
        }
    }

    /// A new life begins: is all there that was promised, and the same as before?
    fn recovered(&mut self) {
        let Some(hub) = &self.hub else { return };
        let report = &hub.report;
        self.trace.note(format_args!("started with {report:?}, {:?}", hub.options));
        self.tally.restarts += 1;
        self.tally.torn_tails += u64::from(report.torn_tail.is_some());
        self.tally.segments = self.tally.segments.max(report.segments as u64);
        let now = holdfast_hub::clock::Clock::read(&*self.clock);
        self.tally.behind_log += u64::from(self.auditors.clock.is_jumped(now));
        let survives = self.auditors.acknowledged.restarted(hub.core(), &self.diary);
        self.findings.take(Invariant::AcknowledgedSurvives, survives);
        self.tally.survived_unacknowledged += self.witness_frames();
        let Some(hub) = &self.hub else { return };
        let found = ReplayChangesNothing::remember(hub.core(), self.diary.funds());
        if let Some(undurable) = self.undurable.take() {
            if undurable.end() == found.end() {
                let same = undurable.same_state(&found, "a restart");
                self.findings.take(Invariant::ReplayChangesNothing, same);
            } else {
                self.tally.vanished_unacknowledged += 1;
            }
        }
        self.inspect();
    }

    /// The hub is up and no fault is left anywhere.
    pub(crate) fn mend_for_good(&mut self) {
        if self.findings.is_empty() {
            self.lose_power();
            self.start();
        }
    }

    /// Two more lives, with and without a loss of power, that must find the very same state.
    pub(crate) fn restart_for_good(&mut self) {
        let Some(hub) = self.hub.as_ref().filter(|_| self.findings.is_empty()) else { return };
        let before = ReplayChangesNothing::remember(hub.core(), self.diary.funds());
        for power_goes in [true, false] {
            if power_goes {
                self.lose_power();
            } else {
                self.kill();
            }
            self.start();
            let Some(hub) = &self.hub else { return };
            let after = ReplayChangesNothing::remember(hub.core(), self.diary.funds());
            let same = before.same_state(&after, "a restart at rest");
            self.findings.take(Invariant::ReplayChangesNothing, same);
        }
    }
}
