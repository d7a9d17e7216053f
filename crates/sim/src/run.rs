//! A run: steps in which clients, operator, time and faults have their way, then the healing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use holdfast_domain::command::Command;
use holdfast_domain::effects::Outcome;
use holdfast_hub::clock::Clock;
use holdfast_hub::{Refusal, Turn};
use holdfast_log::SimFs;

use crate::census;
use crate::clients::Clients;
use crate::clock::SimClock;
use crate::diary::{Diary, Place, Standing};
use crate::invariants::{Auditors, Findings, Invariant, ReplayChangesNothing, Violation};
use crate::operator::Operator;
use crate::process::{Arrival, CLOCK_JUMP_MAX, Process, log_bytes};
use crate::random::Random;
use crate::tally::Tally;
use crate::trace::Trace;
use crate::witness::Witness;
use crate::world::World;

/// What came of a run.
#[derive(Debug)]
pub struct Report {
    /// Which one.
    pub seed: u64,
    /// Promises that were broken. A run ends at the first turn that breaks one.
    pub violations: Vec<Violation>,
    /// What happened.
    pub tally: Tally,
    /// A hash over every event and the log's last bytes.
    pub fingerprint: [u8; 32],
    /// The events, if they were asked for.
    pub trace: Vec<String>,
}

/// Runs a seed.
#[must_use]
pub fn run(seed: u64) -> Report {
    run_with(seed, Trace::new(false))
}

/// Runs a seed and keeps its events.
#[must_use]
pub fn run_traced(seed: u64) -> Report {
    run_with(seed, Trace::new(true))
}

fn run_with(seed: u64, trace: Trace) -> Report {
    let mut run = Run::new(seed, trace);
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run.all())) {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let said = format!("panicked: {}", text.unwrap_or_default());
        run.findings.take(Invariant::TheHubGoesOn, Err(said));
    }
    let mut trace = run.trace;
    log_bytes(&run.fs).iter().for_each(|file| trace.bytes(file));
    let (fingerprint, trace) = trace.finish();
    Report { seed, violations: run.findings.into_list(), tally: run.tally, fingerprint, trace }
}

/// Everything that a run consists of. How lives of the hub begin and end is told in `life`.
pub(crate) struct Run {
    pub(crate) random: Random,
    pub(crate) trace: Trace,
    pub(crate) tally: Tally,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) fs: SimFs,
    pub(crate) hub: Option<Process>,
    pub(crate) diary: Diary,
    pub(crate) witness: Witness,
    pub(crate) auditors: Auditors,
    pub(crate) findings: Findings,
    /// The state that a hub had decided when its log failed.
    pub(crate) undurable: Option<ReplayChangesNothing>,
    /// No more faults.
    pub(crate) healing: bool,
    /// By how much somebody has set the wall clock wrong.
    skew: i64,
    world: World,
    clients: Clients,
    operator: Operator,
}

impl Run {
    fn new(seed: u64, trace: Trace) -> Run {
        let mut random = Random::new(seed);
        let world = World::draw(&mut random);
        Run {
            fs: SimFs::new(random.next()),
            random,
            trace,
            tally: Tally::default(),
            clock: Arc::new(SimClock::default()),
            hub: None,
            diary: Diary::default(),
            witness: Witness::default(),
            auditors: Auditors::default(),
            findings: Findings::default(),
            undurable: None,
            healing: false,
            skew: 0,
            world,
            clients: Clients::default(),
            operator: Operator::default(),
        }
    }

    fn all(&mut self) {
        self.start();
        self.found();
        let steps = self.random.size(20, 45);
        for _ in 0..steps {
            if !self.findings.is_empty() {
                return;
            }
            self.step();
        }
        if self.findings.is_empty() {
            self.heal();
        }
    }

    /// The operator makes the world; what goes wrong is sent again until it is there.
    fn found(&mut self) {
        let founding = self.world.founding.clone();
        for batch in founding.chunks(6) {
            let places = self.diary.write(batch.iter().copied().map(Command::Admin).collect());
            for _ in 0..20 {
                let missing: Vec<Place> = places
                    .iter()
                    .copied()
                    .filter(|place| !matches!(self.diary.entries()[*place].standing, Standing::Answered(_)))
                    .collect();
                if missing.is_empty() || !self.findings.is_empty() {
                    break;
                }
                self.send(&missing);
                self.turn();
                self.mend();
            }
        }
    }

    fn step(&mut self) {
        for _ in 0..self.random.below(4) {
            let now = self.believed_now();
            let commands = self.clients.act(&self.world, now, &mut self.random);
            let places = self.diary.write(commands);
            self.send(&places);
        }
        if self.random.chance(20) {
            let command = self.operator.act(&self.world, &mut self.random);
            let places = self.diary.write(vec![command]);
            self.send(&places);
        }
        if self.random.chance(15) {
            self.repeat_some();
        }
        if self.random.chance(6) {
            self.flood();
        }
        self.pass_time();
        self.maybe_break();
        if self.random.chance(30) {
            self.prepare_spare();
        }
        if self.random.chance(85) {
            self.turn();
        }
        if self.random.chance(6) {
            self.check_repeats(12);
        }
        self.mend();
    }

    /// What a client takes for the time.
    fn believed_now(&self) -> i64 {
        self.auditors.clock.frame_time(self.clock.read())
    }

    /// Sends commands that were sent before: unknown ones, answered ones, anything.
    fn repeat_some(&mut self) {
        let unknown = self.diary.unknown();
        let from_unknown = !unknown.is_empty() && self.random.chance(60);
        let known = self.diary.entries().len();
        let places: Vec<Place> = (0..self.random.size(1, 5))
            .map(|_| if from_unknown { *self.random.pick(&unknown) } else { self.random.index(known) })
            .collect();
        self.send(&places);
    }

    /// More than the intake can hold.
    fn flood(&mut self) {
        for _ in 0..14 {
            let now = self.believed_now();
            let commands = self.clients.act(&self.world, now, &mut self.random);
            let places = self.diary.write(commands);
            if !self.send(&places) {
                break;
            }
        }
    }

    /// Submits commands under a new ticket; `false` if they were refused at the door.
    fn send(&mut self, places: &[Place]) -> bool {
        let Some(hub) = &self.hub else { return false };
        let entries = self.diary.entries();
        self.tally.repeats += places.iter().filter(|place| entries[**place].sent > 0).count() as u64;
        let commands: Vec<Command> = places.iter().map(|place| entries[*place].command.clone()).collect();
        let ticket = self.diary.send(places);
        let taken = hub.submit(ticket, commands);
        self.trace.note(format_args!("send {ticket}: {places:?} -> {taken:?}"));
        match &taken {
            Ok(()) => self.diary.let_in(ticket),
            Err(refusal) => {
                self.count_refusal(refusal);
                self.diary.refused(ticket);
            }
        }
        taken.is_ok()
    }

    fn count_refusal(&mut self, refusal: &Refusal) {
        match refusal {
            Refusal::Busy => self.tally.busy += 1,
            Refusal::Clock(_) => self.tally.refused_clock += 1,
            Refusal::Closed(_) => self.tally.refused_stopped += 1,
            Refusal::Unknown(_) | Refusal::TooMany(_) => {}
        }
    }

    /// Time goes on by a little or by a lot; now and then somebody sets the wall clock.
    fn pass_time(&mut self) {
        let ms = match self.random.below(20) {
            0..4 => 0,
            4..15 => self.random.between(1, 250),
            15..19 => self.random.between(250, 1_500),
            _ => self.random.between(1_500, 9_000),
        };
        self.clock.pass(ms);
        if self.skew == 0 && self.random.chance(4) {
            let far = if self.random.chance(70) { CLOCK_JUMP_MAX + 1 } else { 1 };
            let by = self.random.between(far, 60_000) * if self.random.chance(50) { 1 } else { -1 };
            self.clock.jump(by);
            self.skew = by;
        } else if self.skew != 0 && self.random.chance(40) {
            self.settle_clock();
        }
        self.trace.note(format_args!("clock {:?}, set wrong by {}", self.clock.read(), self.skew));
    }

    /// The wall clock is set right again, or the operator says that it is right as it is.
    fn settle_clock(&mut self) {
        let now = self.clock.read();
        let jumped = self.auditors.clock.is_jumped(now);
        let skew = std::mem::take(&mut self.skew);
        if self.random.chance(50) {
            self.clock.jump(-skew);
            self.tally.jumps_undone += u64::from(jumped);
        }
        self.believe_clock();
    }

    /// If the hub still finds fault with the clock, the operator confirms it.
    fn believe_clock(&mut self) {
        let now = self.clock.read();
        if self.auditors.clock.is_jumped(now)
            && let Some(hub) = &self.hub
        {
            hub.confirm_clock();
            self.auditors.clock.confirmed(now);
            self.tally.jumps_confirmed += 1;
            self.trace.note(format_args!("clock confirmed"));
            // The confirmation wakes the writer: what it says is about the clock as it stands now.
            self.turn();
        }
    }

    /// One turn of the hub, looked at from all sides.
    pub(crate) fn turn(&mut self) {
        if !self.findings.is_empty() {
            return;
        }
        let Some(hub) = &mut self.hub else { return };
        let stopped_before = hub.has_stopped();
        let syncs = self.fs.counters().syncs;
        let now = self.clock.read();
        let (turn, arrivals) = hub.turn();
        let end = hub.core().end();
        self.trace.note(format_args!("turn at {}: {turn:?}, end {end}, {:?}", now.wall, hub.core().chain()));
        self.receive(&arrivals, end);
        let hub = self.hub.as_ref().expect("it has just turned");
        if turn == Turn::Stopped {
            if !hub.has_stopped() {
                let said = Err("a turn says that the log has failed, and the health does not".to_owned());
                self.findings.take(Invariant::TheHubGoesOn, said);
            }
            if !stopped_before {
                let (sync, write) = hub.failed_at();
                self.tally.sync_errors += u64::from(sync && !self.fs.is_frozen());
                self.tally.write_errors += u64::from(write && !self.fs.is_frozen());
                self.undurable = Some(ReplayChangesNothing::remember(hub.core(), self.diary.funds()));
                if self.fs.is_frozen() && self.fs.counters().syncs > syncs + 1 {
                    self.tally.crashes_in_rotation += 1;
                }
            }
            return;
        }
        let judged = self.auditors.clock.turned(now, turn, &arrivals);
        self.findings.take(Invariant::JumpedClockIsRefused, judged);
        self.witness_frames();
        if let Turn::Frame(_) = turn {
            let agree = self.auditors.acknowledged.answers_agree(&arrivals);
            self.findings.take(Invariant::AcknowledgedSurvives, agree);
            self.inspect();
        } else if !self.auditors.clock.is_jumped(now) {
            let overdue = self.auditors.none_overdue(self.auditors.clock.frame_time(now));
            self.findings.take(Invariant::HoldsEndOnce, overdue);
        }
    }

    /// Shows the auditors what has become durable; returns how many frames that were.
    pub(crate) fn witness_frames(&mut self) -> u64 {
        let Some(hub) = &self.hub else { return 0 };
        let mut frames = 0;
        let latecomer = self.world.latecomer.account;
        let witnessed = self.witness.catch_up(hub.reader(), |frame| {
            frames += 1;
            census::count(&frame, &mut self.tally);
            let first_limit = frame.effects.accounts.iter().any(|row| {
                row.id == latecomer && row.net_debit_cap.is_some() && self.auditors.waits_for_limit(latecomer)
            });
            self.tally.late_initial_positions += u64::from(first_limit);
            self.auditors.see(&frame, &mut self.findings);
        });
        let witnessed = witnessed.map_err(|error| format!("the log beside the hub: {error}"));
        self.findings.take(Invariant::ReplayChangesNothing, witnessed);
        frames
    }

    /// Compares the live state with the books and with the witness.
    pub(crate) fn inspect(&mut self) {
        let Some(hub) = &self.hub else { return };
        self.auditors.inspect(hub.core(), &mut self.findings);
        let live = ReplayChangesNothing::remember(hub.core(), self.diary.funds());
        let witnessed = ReplayChangesNothing::remember(self.witness.core(), self.diary.funds());
        let same = live.same_state(&witnessed, "the log decided again beside the hub");
        self.findings.take(Invariant::ReplayChangesNothing, same);
    }

    /// Hands the answers to their senders.
    fn receive(&mut self, arrivals: &[Arrival], end: u64) {
        for (ticket, answer) in arrivals {
            self.trace.note(format_args!("answer {ticket}: {}", in_short(answer)));
            match answer {
                Ok(outcomes) if !outcomes.is_empty() => self.auditors.acknowledged.acknowledged(end),
                Ok(_) => {}
                Err(Refusal::Unknown(_)) => self.tally.unknown += 1,
                Err(refusal) => self.count_refusal(refusal),
            }
            for (place, before, now) in self.diary.answered(*ticket, answer) {
                let command = &self.diary.entries()[place].command;
                match before {
                    Standing::Answered(before) => {
                        let said = self.auditors.acknowledged.answer_again(command, &before, &now);
                        self.findings.take(Invariant::AcknowledgedSurvives, said);
                    }
                    Standing::Unknown => self.tally.learned += 1,
                    Standing::NotTaken => {}
                }
            }
        }
    }

    /// Sends again what was accepted under an id, alone in its frames, and expects that no row changes.
    fn check_repeats(&mut self, most: usize) {
        self.turn_until_idle();
        let Some(hub) = self.hub.as_ref().filter(|hub| !hub.has_stopped() && self.findings.is_empty()) else {
            return;
        };
        if self.auditors.clock.is_jumped(self.clock.read()) {
            return;
        }
        let store = hub.core().store();
        let settled: Vec<Place> = self.diary.settled(store);
        let first = self.random.index(settled.len().saturating_sub(most) + 1);
        let some: Vec<Place> = settled.into_iter().skip(first).take(most).collect();
        let before = ReplayChangesNothing::remember(hub.core(), self.diary.funds());
        let mut sent = false;
        for places in some.chunks(12) {
            sent |= self.send(places);
            self.turn_until_idle();
        }
        let Some(hub) = self.hub.as_ref().filter(|hub| sent && !hub.has_stopped()) else { return };
        let after = ReplayChangesNothing::remember(hub.core(), self.diary.funds());
        self.findings.take(Invariant::ReplayChangesNothing, before.same_rows(&after));
        self.tally.replays_checked += 1;
    }

    fn turn_until_idle(&mut self) {
        for _ in 0..200 {
            let before = self.hub.as_ref().map(|hub| hub.core().end());
            self.turn();
            let Some(hub) = &self.hub else { return };
            if hub.has_stopped() || Some(hub.core().end()) == before {
                return;
            }
        }
    }

    /// No more faults: everything unknown is learned, everything open runs out, and every promise holds.
    fn heal(&mut self) {
        self.healing = true;
        self.trace.note(format_args!("heal"));
        if self.skew != 0 {
            self.settle_clock();
        }
        self.mend_for_good();
        self.believe_clock();
        for _ in 0..40 {
            let unknown = self.diary.unknown();
            if unknown.is_empty() || !self.findings.is_empty() {
                break;
            }
            for places in unknown.chunks(10) {
                self.send(places);
                self.turn_until_idle();
            }
        }
        if !self.diary.unknown().is_empty() {
            let said = Err("a healed hub leaves commands without an answer".to_owned());
            self.findings.take(Invariant::TheHubGoesOn, said);
        }
        let ahead = self.clients.latest_expiration().max(self.believed_now()) - self.clock.read().wall;
        self.clock.pass(ahead.max(0) + 1_000);
        self.turn_until_idle();
        self.findings.take(Invariant::HoldsEndOnce, self.auditors.none_open());
        self.check_repeats(usize::MAX);
        self.restart_for_good();
    }
}

fn in_short(answer: &Result<Vec<Outcome>, Refusal>) -> String {
    match answer {
        Ok(outcomes) => outcomes
            .iter()
            .map(|outcome| {
                let state = outcome.state.map_or("-", |state| state.name());
                let code = outcome.code.map_or(0, |code| code.number());
                format!("{state}/{code}/{} ", outcome.value)
            })
            .collect(),
        Err(refusal) => format!("{refusal:?}"),
    }
}
