//! The writer: one thread that closes frames and decides them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_domain::command::{Command, Expire};
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::Millis;
use holdfast_domain::records;
use holdfast_log::FrameBuf;
use holdfast_store::Store;

use crate::clock::{Clock, ClockGuard, Reading};
use crate::core::Core;
use crate::health::{Health, Status};
use crate::intake::{Intake, Refusal, Submission, Waiting};
use crate::journal::{Answers, Journal};
use crate::limits::HubOptions;
use crate::meters::{Meters, Stage};

/// What a turn did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// There was nothing to write.
    Idle,
    /// A frame was closed with so many records.
    Frame(usize),
    /// The log has failed.
    Stopped,
}

/// Owns the state and closes one frame after another.
pub struct Writer<S> {
    core: Core<S>,
    intake: Arc<Intake<S>>,
    journal: Journal,
    clock: Arc<dyn Clock>,
    guard: ClockGuard,
    health: Arc<Health>,
    options: HubOptions,
    meters: Meters,
    /// The log has failed: the state may be ahead of it and is not shown any more.
    stopped: bool,
}

impl<S: Store> Writer<S> {
    /// A writer that goes on where `core` stands.
    pub fn new(
        core: Core<S>,
        intake: Arc<Intake<S>>,
        journal: Journal,
        clock: Arc<dyn Clock>,
        health: Arc<Health>,
        options: HubOptions,
    ) -> Writer<S> {
        let guard = ClockGuard::new(options.clock_jump_max, core.last_time());
        let meters = Meters::default();
        Writer { core, intake, journal, clock, guard, health, options, meters, stopped: false }
    }

    /// The state as it stands.
    pub const fn core(&self) -> &Core<S> {
        &self.core
    }

    /// Works until the intake is closed and empty.
    pub fn run(mut self) {
        let intake = Arc::clone(&self.intake);
        while intake.wait(self.patience()) {
            self.turn();
        }
    }

    /// How long to wait when nobody comes: until the next hold runs out.
    fn patience(&mut self) -> Option<Duration> {
        let now = self.clock.read().wall;
        self.core.store_mut().sort_due(now);
        let due = self.core.store().next_expiration()?;
        // A hold is due when its expiration is past: one millisecond later.
        let wait = due.saturating_add(1).saturating_sub(now).max(0);
        Some(Duration::from_millis(u64::try_from(wait).unwrap_or(0)).max(self.suspended_pause()))
    }

    /// While the clock is not believed nothing expires; look again in a while rather than at once.
    fn suspended_pause(&self) -> Duration {
        match self.health.status() {
            Status::ClockSuspect(_) => Duration::from_secs(1),
            Status::Ready | Status::Stopped(_) | Status::ShuttingDown => Duration::ZERO,
        }
    }

    /// One turn: answer what was asked, then close a frame of what waits and what is due, decide it and have it
    /// written. Everything applied before is durable by now, so questions see only what is.
    pub fn turn(&mut self) -> Turn {
        let Waiting { submissions, queries, confirmed_clock } = self.intake.take();
        if self.stopped || matches!(self.health.status(), Status::Stopped(_)) {
            // Dropping a question tells its asker that there is no answer.
            self.stopped = true;
            drop(queries);
            let reason = Refusal::Closed("the log has stopped".to_owned());
            submissions.into_iter().for_each(|submission| (submission.answer)(Err(reason.clone())));
            return Turn::Stopped;
        }
        queries.into_iter().for_each(|query| query(&self.core));
        let now = self.clock.read();
        if let Some(seen) = confirmed_clock {
            self.guard.confirm(seen);
        }
        let Some(time) = self.believed_time(now) else {
            let Status::ClockSuspect(fault) = self.health.status() else { return Turn::Idle };
            submissions.into_iter().for_each(|submission| (submission.answer)(Err(Refusal::Clock(fault))));
            return Turn::Idle;
        };
        self.close_frame(time, submissions)
    }

    fn believed_time(&mut self, now: Reading) -> Option<Millis> {
        match self.guard.frame_time(now) {
            Ok(time) => {
                if matches!(self.health.status(), Status::ClockSuspect(_)) {
                    self.health.set(Status::Ready);
                }
                Some(time)
            }
            Err(fault) => {
                self.health.set(Status::ClockSuspect(fault));
                None
            }
        }
    }

    fn close_frame(&mut self, time: Millis, submissions: Vec<Submission>) -> Turn {
        let started = Instant::now();
        let expiry = self.expiry_record(time);
        let count: usize = submissions.iter().map(|submission| submission.commands.len()).sum();
        let count = count + usize::from(expiry.is_some());
        if count == 0 {
            return self.answer_empty(submissions);
        }
        let bytes: usize = submissions.iter().map(|submission| submission.bytes.len()).sum();
        let mut frame = FrameBuf::with_capacity(bytes + records::UNIT);
        let mut commands = Vec::with_capacity(count);
        let mut parts = Vec::with_capacity(submissions.len());
        let mut pieces = Vec::with_capacity(submissions.len() + 1);
        let expires = expiry.is_some();
        if let Some((command, bytes)) = expiry {
            frame.push(&bytes);
            pieces.push(bytes);
            commands.push(command);
        }
        for mut submission in submissions {
            frame.push(&submission.bytes);
            pieces.push(submission.bytes);
            parts.push((submission.answer, submission.commands.len()));
            commands.append(&mut submission.commands);
        }
        let record_count = u32::try_from(count).expect("the intake bounds a frame");
        let header = self.core.next_header(record_count, time, self.options.position_order);
        let payload_bytes = frame.payload_len() as u64;
        self.meters.spent(Stage::Close, started.elapsed());

        self.journal.begin(frame, &header);
        let started = Instant::now();
        let effects = self.core.advance(&header, &commands, pieces.iter().map(Vec::as_slice));
        self.meters.spent(Stage::Decide, started.elapsed());
        self.meters.frames.increment(1);
        self.meters.records.increment(u64::from(record_count));
        self.meters.log_bytes.increment(payload_bytes);
        self.meters.alarms.increment(effects.alarms.len() as u64);
        #[allow(clippy::cast_precision_loss, reason = "a gauge is for the eye")]
        self.meters.open_holds.set(self.core.store().open_holds() as f64);

        let mut outcomes = effects.outcomes.as_slice();
        if expires {
            self.meters.expired.increment(outcomes[0].subject);
            outcomes = &outcomes[1..];
        }
        if self.journal.finish(split(parts, outcomes)) {
            Turn::Frame(count)
        } else {
            self.stopped = true;
            Turn::Stopped
        }
    }

    fn expiry_record(&mut self, time: Millis) -> Option<(Command, Vec<u8>)> {
        self.core.store_mut().sort_due(time);
        let due = self.core.store().next_expiration().is_some_and(|expiration| expiration < time);
        let command = due.then_some(Command::Expire(Expire { holds_max: self.options.expiry_holds_max }))?;
        let mut bytes = Vec::with_capacity(records::UNIT);
        records::write(&command, &mut bytes);
        Some((command, bytes))
    }

    /// Submissions without commands are answered without a frame.
    fn answer_empty(&self, submissions: Vec<Submission>) -> Turn {
        submissions.into_iter().for_each(|submission| (submission.answer)(Ok(Vec::new())));
        Turn::Idle
    }
}

/// Gives each answer the outcomes of its own commands.
fn split(parts: Vec<(crate::intake::Answer, usize)>, mut outcomes: &[Outcome]) -> Answers {
    let mut answers = Vec::with_capacity(parts.len());
    for (answer, count) in parts {
        let (own, rest) = outcomes.split_at(count);
        answers.push((answer, own.to_vec()));
        outcomes = rest;
    }
    answers
}
