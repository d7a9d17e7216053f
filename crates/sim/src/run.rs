//! A run: steps in which clients, operator, time and faults have their way, then the healing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use holdfast_domain::command::Command;
use holdfast_domain::ids::Millis;
use holdfast_domain::view::Transfers;
use holdfast_engine::Refusal;
use holdfast_engine::clock::Clock;
use holdfast_log::SimFs;
use holdfast_store::Tables;

use crate::charges::Charges;
use crate::clients::Clients;
use crate::clock::SimClock;
use crate::coverage::{Coverage, End};
use crate::diary::{CommandNumber, Diary, Standing};
use crate::invariants::{Auditors, Findings, Invariant, Violation};
use crate::medium::Medium;
use crate::operator::Operator;
use crate::process::{Process, log_bytes};
use crate::random::Random;
use crate::shop_clients::ShopClients;
use crate::tally::Tally;
use crate::trace::Trace;
use crate::vault_clients::VaultClients;
use crate::witness::Witness;
use crate::world::World;

/// Chosen so that seeds that are kept for ever run as they did before there was a shop.
const SHOP_SALT: u32 = 32;
/// Chosen so that seeds that are kept for ever run as they did before it charged positions and wallets.
const CHARGE_SALT: u32 = 16;

/// What came of a run.
#[derive(Debug)]
pub struct Report {
    /// Which one.
    pub seed: u64,
    /// Promises that were broken. A run ends at the first turn that breaks one.
    pub violations: Vec<Violation>,
    /// What happened.
    pub tally: Tally,
    /// Which faults struck what, and how they ended.
    pub coverage: Coverage,
    /// A hash over every event and the log's last bytes.
    pub fingerprint: [u8; 32],
    /// The events, if they were asked for.
    pub trace: Vec<String>,
}

/// Runs a seed.
pub fn run(seed: u64) -> Report {
    run_with(seed, Trace::new(false))
}

/// Runs a seed and keeps its events.
pub fn run_traced(seed: u64) -> Report {
    run_with(seed, Trace::new(true))
}

fn run_with(seed: u64, trace: Trace) -> Report {
    let mut run = Simulation::new(seed, trace);
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run.all())) {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let said = format!("panicked: {}", text.unwrap_or_default());
        run.findings.take(Invariant::TheHubGoesOn, Err(said));
    }
    let mut trace = run.trace;
    log_bytes(&run.fs).iter().for_each(|file| trace.bytes(file));
    let (fingerprint, trace) = trace.finish();
    run.medium.all_ended(if run.blind { End::ViewRefused } else { End::NoEffect });
    let (violations, coverage) = (run.findings.into_list(), run.medium.coverage);
    Report { seed, violations, tally: run.tally, coverage, fingerprint, trace }
}

/// Everything that a run consists of. The rest of what it does is told in `time`, `turn` and `life`.
pub(crate) struct Simulation {
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
    /// Where a hub stood, and its chain, when it failed.
    pub(crate) undurable: Option<(u64, [u8; 32])>,
    pub(crate) medium: Medium,
    pub(crate) eagerness: Eagerness,
    /// The log cannot be read beside the hub any more: the medium has lied about it.
    pub(crate) blind: bool,
    /// What is derived from the log is known to be damaged and will be moved away.
    pub(crate) condemned: bool,
    /// It was moved away.
    pub(crate) removed: bool,
    /// The log is refused, rightly, or has lost its end: only a backup helps.
    pub(crate) over: bool,
    /// No more faults.
    pub(crate) healing: bool,
    /// By how much somebody has set the wall clock wrong.
    pub(crate) skew: i64,
    pub(crate) world: World,
    clients: Clients,
    pub(crate) vault: VaultClients,
    /// How much of what is sent is about tokens, in percent. They have a part of the seeds.
    pub(crate) token_share: u64,
    pub(crate) shop: ShopClients,
    /// How much of the rest is about the shop, in percent. It has another part of the seeds.
    pub(crate) shop_share: u64,
    operator: Operator,
}

/// How often the store's jobs run, in percent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Eagerness {
    /// Jobs that wait.
    pub(crate) jobs: u64,
    /// Checkpoints before they are due.
    pub(crate) checkpoints: u64,
}

impl Simulation {
    fn new(seed: u64, trace: Trace) -> Simulation {
        let token_share = *Random::new(!seed).pick(&[0, 40, 75]);
        let mut of_shop = Random::new(!seed.rotate_left(SHOP_SALT));
        let shop_share = *of_shop.pick(&[0, 0, 50, 90]);
        let charges = Charges::draw(token_share > 0, &mut Random::new(!seed.rotate_left(CHARGE_SALT)));
        let mut random = Random::new(seed);
        let world = World::draw(&mut random);
        let medium = Medium::draw(&mut random);
        let eagerness =
            Eagerness { jobs: *random.pick(&[15, 60, 90, 97]), checkpoints: *random.pick(&[0, 10, 60]) };
        Simulation {
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
            medium,
            eagerness,
            blind: false,
            condemned: false,
            removed: false,
            over: false,
            healing: false,
            skew: 0,
            world,
            clients: Clients::default(),
            vault: VaultClients::default(),
            token_share,
            shop: ShopClients::draw(charges, &mut of_shop),
            shop_share,
            operator: Operator::default(),
        }
    }

    /// Whether nothing was found so far, and there is something to go on with.
    pub(crate) const fn goes_on(&self) -> bool {
        self.findings.is_empty() && !self.over
    }

    /// Whether the run goes on and its witness can read the log.
    pub(crate) const fn sees(&self) -> bool {
        self.goes_on() && !self.blind
    }

    fn all(&mut self) {
        self.start();
        self.found();
        let steps = self.random.size(20, 45);
        for _ in 0..steps {
            if !self.goes_on() {
                return;
            }
            self.step();
        }
        if self.goes_on() {
            self.heal();
        }
    }

    /// The operator makes the world; what goes wrong is sent again until it is there.
    fn found(&mut self) {
        let founding = self.world.founding.clone();
        for batch in founding.chunks(6) {
            let places = self.diary.write(batch.to_vec());
            for _ in 0..20 {
                let missing: Vec<CommandNumber> = places
                    .iter()
                    .copied()
                    .filter(|place| !matches!(self.diary.entries[*place].standing, Standing::Answered(_)))
                    .collect();
                if missing.is_empty() || !self.goes_on() {
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
            let places = self.act();
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
        if self.random.chance(12) {
            self.repeat_old();
        }
        if self.random.chance(6) {
            self.flood();
        }
        self.pass_time();
        self.maybe_break();
        if self.random.chance(30) {
            self.prepare_spare();
        }
        self.keep_store();
        if self.random.chance(85) {
            self.turn();
        }
        self.keep_store();
        if self.random.chance(6) {
            self.check_repeats(12);
        }
        self.mend();
    }

    /// A client writes down what it is about to send.
    fn act(&mut self) -> Vec<CommandNumber> {
        let now = self.believed_now();
        let about_tokens = self.token_share > 0 && self.random.chance(self.token_share);
        if about_tokens && self.random.chance(15) {
            self.witness.core.store().tokens(&mut |row| self.vault.believe(std::slice::from_ref(&row.token)));
        }
        let about_shop = self.shop_share > 0 && !about_tokens && self.random.chance(self.shop_share);
        let commands = if about_shop {
            self.shop.act(&self.world, self.witness.core.store(), &mut self.random)
        } else if about_tokens {
            self.vault.act(now, &mut self.random)
        } else {
            let vault = Some(&self.vault).filter(|_| self.token_share > 0);
            self.clients.act(&self.world, now, vault, &mut self.random)
        };
        self.diary.write(commands)
    }

    /// What a client takes for the time.
    pub(crate) fn believed_now(&self) -> i64 {
        self.auditors.clock.frame_time(self.clock.read())
    }

    /// Sends commands that were sent before: unknown ones, answered ones, anything.
    fn repeat_some(&mut self) {
        let unknown = self.diary.unknown();
        let from_unknown = !unknown.is_empty() && self.random.chance(60);
        let known = self.diary.entries.len();
        let places: Vec<CommandNumber> = (0..self.random.size(1, 5))
            .map(|_| if from_unknown { *self.random.pick(&unknown) } else { self.random.index(known) })
            .collect();
        self.send(&places);
    }

    /// Sends commands about transfers that ended and tokens that went long ago, the latest first.
    fn repeat_old(&mut self) {
        let store = self.witness.core.store();
        let has_ended = |place: &CommandNumber| {
            let entry = &self.diary.entries[*place];
            let id = entry.command.transfer();
            id.and_then(|id| store.transfer(id)).is_some_and(|row| row.state.is_final()) || entry.is_spent()
        };
        let known = self.diary.entries.len();
        let mut old: Vec<CommandNumber> = (0..known / 2).filter(has_ended).collect();
        if old.is_empty() {
            return;
        }
        let wanted = self.random.size(1, 6);
        let mut places = Vec::with_capacity(wanted);
        while places.len() < wanted && !old.is_empty() {
            places.push(old.swap_remove(self.random.index(old.len())));
        }
        places.sort_unstable_by(|one, other| other.cmp(one));
        self.tally.old_repeats += places.len() as u64;
        self.send(&places);
    }

    /// More than the intake can hold.
    fn flood(&mut self) {
        for _ in 0..14 {
            let places = self.act();
            if !self.send(&places) {
                break;
            }
        }
    }

    /// Submits commands under a new ticket; `false` if they were refused at the door.
    pub(crate) fn send(&mut self, places: &[CommandNumber]) -> bool {
        let Some(hub) = &self.hub else { return false };
        let entries = &self.diary.entries;
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
        // What lies harmed on the disk may still come to light, once for each lie.
        for _ in 0..8 {
            self.mend_for_good();
            if !self.sees() {
                return self.must_see();
            }
            self.believe_clock();
            self.learn_everything();
            let lease = if self.token_share > 0 { VaultClients::LONGEST_LEASE } else { 0 };
            let wait = if self.shop_share > 0 { ShopClients::LONGEST_WAIT.max(lease) } else { lease };
            let ahead =
                self.clients.latest_expiration().max(self.believed_now() + wait) - self.clock.read().wall;
            self.clock.pass(ahead.max(0) + 1_000);
            self.turn_until_idle();
            self.outside_gives_back();
            self.compare_in_full();
            self.check_repeats(usize::MAX);
            let stopped = self.hub.as_ref().is_none_or(Process::has_stopped);
            if !stopped && !self.condemned && !self.blind {
                return self.rest();
            }
            if stopped {
                self.mend();
            }
        }
        self.must_see();
    }

    /// Every deadline has passed: nothing is undecided, and whoever is outside gives back what it owes.
    fn outside_gives_back(&mut self) {
        if !self.sees() || self.hub.as_ref().is_none_or(Process::has_stopped) {
            return;
        }
        let past = self.auditors.shop.none_due_at(self.believed_now());
        self.findings.take(Invariant::OrdersArePaidOnce, past);
        let open = self.witness.core.store().open_checkouts(None, usize::MAX);
        let commands = self.shop.give_back(&open);
        for places in self.diary.write(commands).chunks(6) {
            self.send(places);
            self.turn_until_idle();
        }
    }

    /// All is quiet: no hold is open, every answer stands, and two more lives find the same.
    fn rest(&mut self) {
        if self.goes_on() {
            self.findings.take(Invariant::HoldsEndOnce, self.auditors.holds.none_open_before(Millis::MAX));
            self.findings.take(Invariant::TokensAreHeldOnce, self.auditors.tokens.none_open());
            let shop = &self.auditors.shop;
            let honest = self.shop.outside.rows().map_or(Ok(()), |rows| shop.outside_agrees(rows));
            self.findings.take(Invariant::OrdersArePaidOnce, shop.none_open().and(honest));
            if self.findings.is_empty() && !self.diary.unknown().is_empty() {
                let said = "a healed hub leaves commands without an answer";
                self.findings.broken(Invariant::TheHubGoesOn, said);
            }
            self.restart_for_good();
        }
        self.read_it_all();
    }

    /// Reads the log from its first frame on: harm that no start had to read shows now, and nothing else does.
    fn read_it_all(&mut self) {
        let Some(hub) = self.hub.as_ref().filter(|_| self.goes_on()) else { return };
        let mut fresh = Witness::default();
        let said = match fresh.catch_up(&hub.reader, |_| {}) {
            Ok(()) if fresh.core.progress() == self.witness.core.progress() => Ok(()),
            Ok(()) => Err("the log read once more leads elsewhere".to_owned()),
            Err(error) if self.medium.log.is_some() => {
                self.trace.note(format_args!("found late: {error}"));
                self.tally.found_late += 1;
                self.medium.found(End::ViewRefused, &error.to_string());
                Ok(())
            }
            Err(error) => Err(format!("the log cannot be read once more: {error}")),
        };
        self.findings.take(Invariant::ReplayChangesNothing, said);
    }

    /// A healed hub works, unless its log was harmed.
    fn must_see(&mut self) {
        if self.goes_on() && self.medium.log.is_none() {
            self.findings.broken(Invariant::TheHubGoesOn, "the hub cannot be healed");
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
    }
}
