//! One turn of the hub, looked at from all sides.

use holdfast_domain::effects::Outcome;
use holdfast_engine::Refusal;
use holdfast_engine::clock::Clock;
use holdfast_hub::Turn;

use holdfast_store::StoreError;

use crate::census;
use crate::coverage::{End, Phase};
use crate::diary::{CommandNumber, Standing};
use crate::invariants::{
    Invariant, ReplayChangesNothing, every_id_is_found, every_order_is_found, same_in_memory,
};
use crate::process::Arrival;
use crate::run::Simulation;
use crate::{shop_cells, vault_cells};

/// Errors of the medium that a question about the state may meet, one after the other.
const VIEW_ATTEMPTS: usize = 6;

impl Simulation {
    /// Lets the hub take a turn, hands out its answers and has the auditors look at what came of it.
    pub(crate) fn turn(&mut self) {
        if !self.goes_on() {
            return;
        }
        let Some(hub) = &mut self.hub else { return };
        let stopped_before = hub.has_stopped();
        let syncs = self.fs.counters().syncs;
        let now = self.clock.read();
        let (turn, arrivals) = hub.turn();
        let (end, chain) = (hub.core().end(), hub.core().chain());
        self.trace.note(format_args!("turn at {}: {turn:?}, end {end}, {chain:?}", now.wall));
        self.receive(&arrivals, end);
        self.after(Phase::Append);
        let hub = self.hub.as_ref().expect("it has just turned");
        if turn == Turn::Stopped {
            if !hub.has_stopped() {
                let said = "a turn says that the log has failed, and the health does not";
                self.findings.broken(Invariant::TheHubGoesOn, said);
            }
            if !stopped_before {
                self.undurable = Some((end, chain));
                if self.fs.is_frozen() && self.fs.counters().syncs > syncs + 1 {
                    self.tally.crashes_in_rotation += 1;
                }
            }
            return;
        }
        if let Turn::Frame(_) = turn {
            self.auditors.faults.durable(end, chain);
        }
        if self.blind {
            return;
        }
        let judged = self.auditors.clock.turned(now, turn, &arrivals);
        self.findings.take(Invariant::JumpedClockIsRefused, judged);
        self.witness_frames();
        if self.blind {
            return;
        }
        if let Turn::Frame(_) = turn {
            let agree = self.auditors.acknowledged.answers_agree(&arrivals);
            self.findings.take(Invariant::AcknowledgedSurvives, agree);
            self.inspect();
            if self.random.chance(8) {
                self.compare_in_full();
            }
        } else if !self.auditors.clock.is_jumped(now) {
            for (invariant, said) in self.auditors.overdue(self.auditors.clock.frame_time(now)) {
                self.findings.take(invariant, said);
            }
        }
    }

    /// Shows the auditors what has become durable; returns how many frames that were.
    pub(crate) fn witness_frames(&mut self) -> u64 {
        let Some(hub) = self.hub.as_ref().filter(|_| !self.blind) else { return 0 };
        let mut frames = 0;
        let latecomer = self.world.latecomer.account;
        let mut witnessed = Ok(());
        for _ in 0..VIEW_ATTEMPTS {
            witnessed = self.witness.catch_up(&hub.reader, |frame| {
                frames += 1;
                census::count(&frame, &mut self.tally);
                vault_cells::count(&frame, &mut self.tally, &mut self.medium.coverage);
                shop_cells::count(&frame, &mut self.tally, &mut self.medium.coverage);
                self.shop.see(frame.effects);
                self.shop.charges.named(frame.effects).for_each(|name| self.vault.hear_of(name));
                let first_limit = frame.effects.all(|step| &step.accounts).any(|row| {
                    row.id == latecomer
                        && row.net_debit_cap.is_some()
                        && self.auditors.positions.waits_for_limit(latecomer)
                });
                self.tally.late_initial_positions += u64::from(first_limit);
                self.auditors.see(&frame, &mut self.findings);
            });
            // An error that was armed for the hub may strike who reads beside it.
            if self.medium.collect(&self.fs, Phase::View, self.auditors.faults.frames()).is_empty() {
                break;
            }
            self.medium.ended(End::ViewRefused);
        }
        if let Err(error) = witnessed {
            let said = format!("the log beside the hub: {error}");
            self.trace.note(format_args!("{said}"));
            if self.medium.log.is_some() {
                // What was harmed cannot be read, and says so. The hub goes on until it is restarted.
                self.blind = true;
            } else {
                self.findings.take(Invariant::ReplayChangesNothing, Err(said));
            }
        }
        frames
    }

    /// Compares the state in memory with the books and with the witness.
    pub(crate) fn inspect(&mut self) {
        let Some(hub) = &self.hub else { return };
        self.auditors.inspect(&self.witness.core, &mut self.findings);
        let same = same_in_memory(hub.core(), &self.witness);
        let same = same.map_err(|said| format!("the log decided again beside the hub: {said}"));
        self.findings.take(Invariant::ReplayChangesNothing, same);
    }

    /// Compares all that the hub has, in memory and on the disk, with what the log says.
    pub(crate) fn compare_in_full(&mut self) {
        for _ in 0..VIEW_ATTEMPTS {
            if self.blind || self.fs.is_frozen() || !self.goes_on() {
                return;
            }
            let compared = self.compare();
            let struck = self.after(Phase::View) > 0;
            let error = match compared {
                Ok(()) => return,
                Err(error) => error,
            };
            self.trace.note(format_args!("a view: {error}"));
            self.tally.views_refused += 1;
            let damaged = !matches!(error, StoreError::Io { .. });
            let excused = if damaged { self.medium.explains(&error.to_string()) } else { struck };
            if !excused {
                let said = format!("a view is refused, and nothing has struck: {error}");
                self.findings.broken(Invariant::FaultsAreNeverBelieved, said);
                return;
            }
            self.medium.ended(End::ViewRefused);
            if damaged {
                self.medium.found(End::ViewRefused, &error.to_string());
                // Whoever reads that moves the folder away.
                self.condemned = true;
                return;
            }
        }
    }

    fn compare(&mut self) -> Result<(), StoreError> {
        let Some(hub) = &self.hub else { return Ok(()) };
        let named = self.diary.transfers();
        let (ours, theirs) = (hub.core().store(), self.witness.core.store());
        let found = every_id_is_found(ours, theirs, &named)?;
        self.findings.take(Invariant::EveryIdIsFound, found);
        let found = every_order_is_found(ours, theirs, &self.diary.named.orders)?;
        self.findings.take(Invariant::EveryIdIsFound, found);
        let live = ReplayChangesNothing::by_the_hub(hub.core(), &self.diary.named)?;
        let witnessed = ReplayChangesNothing::by_the_log(&self.witness, &self.diary.named);
        let same = live.same_state(&witnessed, "the whole state beside the log");
        self.findings.take(Invariant::ReplayChangesNothing, same);
        Ok(())
    }

    /// Hands the answers to their senders.
    fn receive(&mut self, arrivals: &[Arrival], end: u64) {
        for (ticket, answer) in arrivals {
            self.trace.note(format_args!("answer {ticket}: {}", in_short(answer)));
            match answer {
                Ok(outcomes) if !outcomes.is_empty() => self.auditors.acknowledged.acknowledged(end),
                Ok(_) => {}
                Err(Refusal::Unknown(_)) => self.tally.unknown += self.diary.waiting(*ticket),
                Err(refusal) => self.count_refusal(refusal),
            }
            for (place, before, now) in self.diary.answered(*ticket, answer) {
                let command = &self.diary.entries[place].command;
                self.vault.learn(command, &now);
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
    pub(crate) fn check_repeats(&mut self, most: usize) {
        self.turn_until_idle();
        let Some(_) = self.hub.as_ref().filter(|hub| !hub.has_stopped() && self.sees()) else { return };
        if self.auditors.clock.is_jumped(self.clock.read()) {
            return;
        }
        let settled: Vec<CommandNumber> = self.diary.settled(self.witness.core.store());
        let first = self.random.index(settled.len().saturating_sub(most) + 1);
        let some: Vec<CommandNumber> = settled.into_iter().skip(first).take(most).collect();
        let before = ReplayChangesNothing::by_the_log(&self.witness, &self.diary.named);
        let (began, now) = (self.clock.read().monotonic, self.believed_now());
        let nothing_due = self.auditors.overdue(now).iter().all(|(_, said)| said.is_ok());
        let mut sent = false;
        for places in some.chunks(12) {
            sent |= self.send(places);
            self.turn_until_idle();
        }
        let Some(_) = self.hub.as_ref().filter(|hub| sent && !hub.has_stopped() && self.sees()) else {
            return;
        };
        let after = ReplayChangesNothing::by_the_log(&self.witness, &self.diary.named);
        // On a slow disk holds and leases run out meanwhile, or have since the last turn.
        if nothing_due && self.clock.read().monotonic == began {
            self.findings.take(Invariant::ReplayChangesNothing, before.same_rows(&after));
        }
        self.compare_in_full();
        self.tally.replays_checked += 1;
    }

    pub(crate) fn turn_until_idle(&mut self) {
        for _ in 0..200 {
            let before = self.hub.as_ref().map(|hub| hub.core().end());
            self.turn();
            let Some(hub) = &self.hub else { return };
            if hub.has_stopped() || Some(hub.core().end()) == before {
                return;
            }
        }
    }
}

fn in_short(answer: &Result<Vec<Outcome>, Refusal>) -> String {
    match answer {
        Ok(outcomes) => outcomes
            .iter()
            .map(|outcome| {
                let state = outcome.state.map_or("-", |state| state.name());
                let code = outcome.code.map_or(0, |code| code.number());
                let token = outcome.token.as_ref().map(|token| format!("{token:?}")).unwrap_or_default();
                let shop = outcome.shop.as_ref().map(|shop| format!("{shop:?}")).unwrap_or_default();
                format!("{state}/{code}/{} {token}{shop}", outcome.value)
            })
            .collect(),
        Err(refusal) => format!("{refusal:?}"),
    }
}
