//! One turn of the hub, looked at from all sides.

use holdfast_domain::effects::Outcome;
use holdfast_hub::clock::Clock;
use holdfast_hub::{Refusal, Turn};

use crate::census;
use crate::diary::{Place, Standing};
use crate::invariants::{Invariant, ReplayChangesNothing};
use crate::process::Arrival;
use crate::run::Run;

impl Run {
    /// Lets the hub take a turn, hands out its answers and has the auditors look at what came of it.
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
                Err(Refusal::Unknown(_)) => self.tally.unknown += self.diary.waiting(*ticket),
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
    pub(crate) fn check_repeats(&mut self, most: usize) {
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
                format!("{state}/{code}/{} ", outcome.value)
            })
            .collect(),
        Err(refusal) => format!("{refusal:?}"),
    }
}
