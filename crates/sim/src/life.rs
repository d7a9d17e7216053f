//! How lives of the hub begin and end: faults are armed, strike, and a new life opens what is left on the disk.

use holdfast_engine::clock::Clock;
use holdfast_hub::OpenError;
use holdfast_hub::tokens::TokenIndex;

use crate::coverage::{End, Phase};
use crate::invariants::{Blame, Invariant, blame, marked_end, names_a_file, tells_damage};
use crate::process::{Process, draw_options, remove_store};
use crate::run::Simulation;

/// Attempts to open the log, of which all but the last few may be broken.
const ATTEMPTS: u32 = 9;
const ATTEMPTS_BROKEN: u32 = 4;

impl Simulation {
    /// Arms a fault, or lets one strike at once.
    pub(crate) fn maybe_break(&mut self) {
        self.medium.step(&self.fs);
        let frames = self.auditors.faults.frames();
        if let Some(said) = self.medium.maybe_lie(&self.fs, frames, &mut self.random) {
            self.trace.note(format_args!("{said}"));
            self.after(Phase::Rest);
        }
        let errors = if self.medium.is_failing() { 20 } else { 11 };
        match self.random.below(100) {
            0..7 => {
                let sync = 1 + self.random.below(4);
                self.trace.note(format_args!("the power will go at sync {sync}"));
                self.fs.freeze_at_sync(sync);
            }
            roll if roll < errors => self.arm_error(),
            20..24 if self.medium.is_failing() => {
                let said = self.medium.trouble(&self.fs, &mut self.random);
                self.trace.note(format_args!("{said}"));
            }
            24..26 => {
                self.tally.crashes_between += 1;
                self.lose_power();
                self.start();
            }
            26..28 => {
                self.tally.kills += 1;
                self.kill();
                self.start();
            }
            28..31 => self.stop_cleanly(),
            _ => {}
        }
    }

    /// Fills the next segment ahead. A failure there costs nothing but the spare.
    pub(crate) fn prepare_spare(&mut self) {
        let Some(hub) = &self.hub else { return };
        let prepared = hub.spare.prepare_if_wanted();
        self.trace.note(format_args!("spare: {:?}", prepared.as_ref().ok()));
        self.tally.spares += u64::from(prepared.is_ok_and(|made| made));
        self.after(Phase::Rotate);
    }

    /// If the hub has stopped or its machine has no power, it is sent some more and then restarted.
    pub(crate) fn mend(&mut self) {
        if !self.goes_on() {
            return;
        }
        let stopped = self.hub.as_ref().is_none_or(Process::has_stopped);
        let restless = self.blind && self.random.chance(30);
        if !stopped && !self.fs.is_frozen() && !self.condemned && !restless {
            return;
        }
        if stopped {
            self.stopped();
            let known = self.diary.entries.len();
            if known > 0 {
                let place = self.random.index(known);
                self.send_to_stopped(place);
            }
            self.turn();
        }
        if self.fs.is_frozen() {
            self.tally.crashes_at_sync += 1;
            self.lose_power();
        } else {
            self.go_down();
        }
        self.start();
    }

    /// A hub stops only when something has struck, and says what.
    fn stopped(&mut self) {
        let Some(reason) = self.hub.as_ref().and_then(Process::stopped) else { return };
        self.trace.note(format_args!("stopped: {reason}"));
        let damaged = tells_damage(&reason);
        if !self.fs.is_frozen() {
            self.tally.stops += 1;
            let named = names_a_file(&reason);
            self.findings.take(Invariant::FaultsAreNeverBelieved, named);
        }
        let excused = if damaged { self.medium.explains(&reason) } else { self.medium.told > 0 };
        if !excused {
            let said = format!("the hub stopped, and nothing had struck: {reason}");
            self.findings.broken(Invariant::FaultsAreNeverBelieved, said);
        }
        if damaged {
            self.medium.found(End::Stopped, &reason);
        } else {
            self.medium.ended(End::Stopped);
        }
        // An operator who reads the reason moves the folder away; another tries once more.
        self.condemned |= damaged && (self.healing || self.random.chance(60));
    }

    /// A hub whose log failed takes nothing, for good.
    fn send_to_stopped(&mut self, place: usize) {
        let Some(hub) = &self.hub else { return };
        let end = hub.core().end();
        let command = self.diary.entries[place].command.clone();
        let taken = hub.submit(0, vec![command]);
        self.tally.refused_stopped += 1;
        if taken.is_ok() {
            let said = format!("a hub that stopped at {end} takes commands");
            self.findings.broken(Invariant::TheHubGoesOn, said);
        }
    }

    /// The machine goes down and comes up: what was not synced is there in part, or not at all.
    fn lose_power(&mut self) {
        let seed = self.random.next();
        self.trace.note(format_args!("power lost"));
        self.end_life();
        self.fs = self.fs.crash(seed);
        self.medium.lost_power(&self.fs);
    }

    /// The process ends; the machine, and what it has cached, stays.
    fn kill(&mut self) {
        self.trace.note(format_args!("killed"));
        self.end_life();
    }

    /// One of both.
    fn go_down(&mut self) {
        if self.random.chance(50) {
            self.lose_power();
        } else {
            self.kill();
        }
    }

    fn end_life(&mut self) {
        self.after(Phase::Rest);
        self.medium.ended(End::NoEffect);
        self.tally.unknown += self.diary.all_lost();
        self.hub = None;
        self.auditors.clock.restarted();
    }

    /// The hub is asked to end: it works off what waits, leaves a checkpoint and marks the end of its log. The next
    /// start has nothing to replay.
    fn stop_cleanly(&mut self) {
        self.turn_until_idle();
        let Some(hub) = self.hub.as_mut().filter(|hub| !hub.has_stopped()) else { return };
        let ended = hub.writer.end_by_hand();
        let end = hub.core().end();
        self.trace.note(format_args!("ended at {end}: {ended}"));
        self.after(Phase::Stop);
        if !ended {
            self.tally.clean_stops_failed += 1;
            if self.medium.told == 0 && !self.medium.has_harmed_store() {
                let said = "a clean stop failed, and nothing had struck";
                self.findings.broken(Invariant::FaultsAreNeverBelieved, said);
            }
            self.medium.ended(End::Stopped);
            return;
        }
        self.tally.clean_stops += 1;
        self.go_down();
        let frames = self.auditors.faults.frames();
        if let Some(said) = self.medium.maybe_rot_at_rest(&self.fs, frames, &mut self.random) {
            self.trace.note(format_args!("{said}"));
            self.after(Phase::Rest);
        }
        // Some operators move the folder away for no reason: what it holds follows from the log.
        self.condemned |= self.random.chance(15);
        self.removed = false;
        let harmed = self.medium.has_harmed_store();
        self.start();
        let whole = !self.removed && !harmed && self.medium.log.is_none();
        if let Some(hub) = self.hub.as_ref().filter(|hub| whole && hub.checkpoint != end) {
            let said = format!("a clean stop at {end}, and the start began at {}", hub.checkpoint);
            self.findings.broken(Invariant::TheHubGoesOn, said);
        }
    }

    /// Opens what is on the disk, through as many failures as strike, and audits what is found.
    pub(crate) fn start(&mut self) {
        for attempt in 0..ATTEMPTS {
            if !self.goes_on() {
                return;
            }
            self.medium.told = 0;
            if attempt >= ATTEMPTS_BROKEN {
                if self.fs.is_frozen() {
                    self.lose_power();
                }
                self.medium.heal(&self.fs);
            }
            if std::mem::take(&mut self.condemned) {
                self.remove_store();
            }
            if attempt < ATTEMPTS_BROKEN && !self.healing {
                self.maybe_break_opening();
            }
            let options = draw_options(&mut self.random);
            let started = Process::start(&self.fs, &self.clock, options, &mut self.random);
            let struck = self.after(Phase::Recover) > 0 || self.medium.told > 0;
            match started {
                Ok(hub) => {
                    self.hub = Some(hub);
                    self.medium.ended(End::NoEffect);
                    self.recovered();
                    return;
                }
                Err(error) if self.fs.is_frozen() => {
                    self.trace.note(format_args!("opening: {error}"));
                    self.tally.crashes_in_recovery += 1;
                    self.medium.ended(End::StartRefused);
                    self.lose_power();
                }
                Err(error) => self.refused(&error, struck && attempt < ATTEMPTS - 1),
            }
        }
        if self.goes_on() && self.hub.is_none() {
            let said = format!("the hub does not start in {ATTEMPTS} attempts");
            self.findings.broken(Invariant::TheHubGoesOn, said);
        }
    }

    /// The hub refuses to start. Was there a reason, and what does its operator do?
    fn refused(&mut self, error: &OpenError, struck: bool) {
        let blame = blame(error);
        self.trace.note(format_args!("refused for the {blame:?}: {error}"));
        let named = names_a_file(&error.to_string());
        self.findings.take(Invariant::FaultsAreNeverBelieved, named);
        let excused = match blame {
            Blame::System => struck,
            Blame::Store => self.medium.explains(&error.to_string()),
            Blame::Log => self.medium.log.is_some(),
        };
        if !excused {
            let said = format!("the hub does not start, and nothing has struck: {error}");
            self.findings.broken(Invariant::FaultsAreNeverBelieved, said);
        }
        if blame == Blame::System {
            self.medium.ended(End::StartRefused);
        } else {
            self.medium.found(End::StartRefused, &error.to_string());
        }
        match blame {
            Blame::System => self.tally.errors_in_recovery += 1,
            Blame::Store => self.condemned = true,
            Blame::Log => {
                self.tally.logs_refused += 1;
                self.over = true;
            }
        }
    }

    /// What is derived from the log is moved away; a start derives it again.
    fn remove_store(&mut self) {
        if self.fs.is_frozen() {
            self.lose_power();
        }
        self.medium.heal(&self.fs);
        self.tally.stores_removed += 1;
        self.removed = true;
        self.trace.note(format_args!("the store is moved away"));
        remove_store(&self.fs).expect("the operator's own tools work");
        self.medium.store_removed();
    }

    fn maybe_break_opening(&mut self) {
        match self.random.below(100) {
            0..12 => {
                let sync = 1 + self.random.below(8);
                self.trace.note(format_args!("the power will go at sync {sync} of opening"));
                self.fs.freeze_at_sync(sync);
            }
            12..20 => self.arm_error(),
            _ => {}
        }
    }

    /// A new life begins: is all there that was promised, and the same as before?
    fn recovered(&mut self) {
        let Some(hub) = &self.hub else { return };
        let (report, at) = (&hub.report, hub.checkpoint);
        self.trace.note(format_args!("started at {at} with {report:?}, {:?}", hub.options));
        self.tally.restarts += 1;
        self.tally.torn_tails += u64::from(report.torn_tail.is_some());
        self.tally.segments = self.tally.segments.max(report.segments as u64);
        let replays = report.end > at;
        self.tally.starts_with_replay += u64::from(at > 0 && replays);
        self.tally.starts_without_replay += u64::from(at > 0 && !replays);
        let now = self.clock.read();
        self.tally.behind_log += u64::from(self.auditors.clock.is_jumped(now));
        let core = hub.core();
        let found = (core.end(), core.chain());
        let mark = marked_end(&self.fs).filter(|_| !self.medium.mark_harmed);
        match self.auditors.faults.came_back(found, self.medium.log, mark) {
            Ok(true) => {}
            Ok(false) => {
                self.trace.note(format_args!("the end of the log is lost beyond proof"));
                self.tally.beyond_proof += 1;
                self.medium.all_ended(End::BeyondProof);
                self.over = true;
                return;
            }
            Err(said) if self.medium.log.is_none() => {
                // The clients say it better, if they miss something.
                self.clients_miss_something();
                if self.findings.is_empty() {
                    self.findings.take(Invariant::FaultsAreNeverBelieved, Err(said));
                }
                return;
            }
            Err(said) => return self.findings.take(Invariant::FaultsAreNeverBelieved, Err(said)),
        }
        if let Some((end, chain)) = self.undurable.take() {
            if end == found.0 && chain != found.1 {
                let said = format!("a restart decides the last frame before {end} otherwise");
                self.findings.broken(Invariant::ReplayChangesNothing, said);
            }
            self.tally.vanished_unacknowledged += u64::from(end > found.0);
        }
        self.blind = false;
        self.tally.survived_unacknowledged += self.witness_frames();
        if self.blind || !self.goes_on() {
            return;
        }
        self.auditors.faults.durable(found.0, found.1);
        for (invariant, said) in self.auditors.restarted(&self.witness.core, &self.diary) {
            self.findings.take(invariant, said);
        }
        self.index_loads();
        if self.auditors.tokens.has_live_lock() {
            self.medium.coverage.vault("restart", "with a live lock");
        }
        if self.auditors.shop.has_open() {
            self.medium.coverage.shop("restart", "with an open checkout");
        }
        if self.auditors.shop.has_charged() {
            self.medium.coverage.shop("restart", "with something held by an open checkout");
        }
        self.inspect();
        self.compare_in_full();
    }

    /// Whoever selects tokens starts from what the store holds: its tokens and locks must go together.
    fn index_loads(&mut self) {
        let Some(hub) = self.hub.as_ref().filter(|_| self.token_share > 0) else { return };
        let index = TokenIndex::of(hub.core().store(), self.clock.read().wall, &hub.options.tokens);
        let loads =
            index.map(drop).map_err(|refusal| format!("the index of tokens does not load: {refusal}"));
        self.findings.take(Invariant::TokensAreHeldOnce, loads);
    }

    /// The log came back shorter: what do those miss who were answered?
    fn clients_miss_something(&mut self) {
        let Some(hub) = &self.hub else { return };
        let mut fresh = crate::witness::Witness::default();
        if fresh.catch_up(&hub.reader, |_| {}).is_ok() {
            for (_, said) in self.auditors.restarted(&fresh.core, &self.diary) {
                self.findings.take(Invariant::AcknowledgedSurvives, said);
            }
        }
    }

    /// The hub is up and no fault is left anywhere but what lies harmed on the disk.
    pub(crate) fn mend_for_good(&mut self) {
        if self.goes_on() {
            self.lose_power();
            self.medium.heal(&self.fs);
            self.start();
        }
    }

    /// Two more lives, with and without a loss of power, that must find the very same state.
    pub(crate) fn restart_for_good(&mut self) {
        for power_goes in [true, false] {
            let Some(hub) = self.hub.as_ref().filter(|_| self.goes_on()) else { return };
            let before = *hub.core().progress();
            if power_goes {
                self.lose_power();
            } else {
                self.kill();
            }
            self.start();
            let Some(hub) = self.hub.as_ref().filter(|_| self.goes_on()) else { return };
            if *hub.core().progress() != before {
                let said = format!("a restart at rest: {:?} for {before:?}", hub.core().progress());
                self.findings.broken(Invariant::ReplayChangesNothing, said);
            }
        }
    }
}
