//! A run: steps in which clients, operator, time and faults have their way, then the healing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use holdfast_domain::command::Command;
use holdfast_hub::Refusal;
use holdfast_hub::clock::Clock;
use holdfast_log::SimFs;

use crate::clients::Clients;
use crate::clock::SimClock;
use crate::diary::{Diary, Place, Standing};
use crate::invariants::{Auditors, Findings, Invariant, ReplayChangesNothing, Violation};
use crate::operator::Operator;
use crate::process::{Process, log_bytes};
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

/// Everything that a run consists of. The rest of what it does is told in `time`, `turn` and `life`.
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
    pub(crate) skew: i64,
    pub(crate) world: World,
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
    pub(crate) fn believed_now(&self) -> i64 {
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
    pub(crate) fn send(&mut self, places: &[Place]) -> bool {
        let Some(hub) = &self.hub else { return false };
        let entries = self.diary.entries();
        self.tally.repeats += places.iter().filter(|place| entries[**place].sent > 0).count() as u64;
        let commands: Vec<Command> = places.iter().map(|place| entries[*place].command.clone()).collect();
        let ticket = self.diary.send(places);
        let taken = hub.submit(ticket, commands);
        self.trace.note(format_args!("send {ticket}: {places:?} -> {taken:?}"));
        if let Err(refusal) = &taken {
            self.count_refusal(refusal);
            self.diary.refused(ticket);
        }
        taken.is_ok()
    }

    pub(crate) fn count_refusal(&mut self, refusal: &Refusal) {
        match refusal {
            Refusal::Busy => self.tally.busy += 1,
            Refusal::Clock(_) => self.tally.refused_clock += 1,
            Refusal::Closed(_) => self.tally.refused_stopped += 1,
            Refusal::Unknown(_) | Refusal::TooMany(_) | Refusal::TooLarge(_) => {}
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
        self.learn_everything();
        let ahead = self.clients.latest_expiration().max(self.believed_now()) - self.clock.read().wall;
        self.clock.pass(ahead.max(0) + 1_000);
        self.turn_until_idle();
        if self.findings.is_empty() {
            self.findings.take(Invariant::HoldsEndOnce, self.auditors.none_open());
            self.check_repeats(usize::MAX);
            self.restart_for_good();
        }
    }

    /// Sends what is unknown until it is answered.
    fn learn_everything(&mut self) {
        for most in [10, 1, 1] {
            for places in self.diary.unknown().chunks(most) {
                self.send(places);
                self.turn_until_idle();
            }
        }
        if self.findings.is_empty() && !self.diary.unknown().is_empty() {
            let said = Err("a healed hub leaves commands without an answer".to_owned());
            self.findings.take(Invariant::TheHubGoesOn, said);
        }
    }
}
