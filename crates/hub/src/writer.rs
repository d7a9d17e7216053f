//! The writer: one thread that closes frames and decides them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_domain::command::{Command, Expire};
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::Millis;
use holdfast_domain::records;
use holdfast_engine::clock::{Clock, ClockFault, Reading};
use holdfast_engine::{Answer, Refusal};
use holdfast_log::FrameBuf;
use holdfast_store::{Job, LocalStore, Store, StoreError, Tables};

use crate::callbacks::CallbackFeed;
use crate::clock::ClockGuard;
use crate::core::Core;
use crate::health::{Health, Status};
use crate::intake::{Gathered, Intake, Query, Submission, refuse_all};
use crate::journal::{Answers, Journal};
use crate::keeper::{self, Keeper};
use crate::limits::{CLOCK_LOOK_EVERY, EXPIRY_SHARE_BESIDE_PAYMENTS, HubOptions};
use crate::meters::{Meters, Stage};
use crate::shop::ShopNews;

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
pub struct Writer {
    core: Core<LocalStore>,
    intake: Arc<Intake>,
    journal: Journal,
    keeper: Keeper,
    /// Whoever delivers callbacks says here which are no longer needed.
    feed: Option<Arc<CallbackFeed>>,
    clock: Arc<dyn Clock>,
    guard: ClockGuard,
    health: Arc<Health>,
    options: HubOptions,
    meters: Meters,
    /// The log has failed: the state may be ahead of it and is not shown any more.
    stopped: bool,
    /// Questions that wait for a checkpoint of at least this offset.
    after_checkpoint: Vec<(u64, Query)>,
}

impl Writer {
    /// A writer that goes on where `core` stands.
    pub fn new(
        core: Core<LocalStore>,
        intake: Arc<Intake>,
        (journal, keeper): (Journal, Keeper),
        clock: Arc<dyn Clock>,
        health: Arc<Health>,
        options: HubOptions,
    ) -> Writer {
        Writer {
            guard: ClockGuard::new(options.clock_jump_max, core.last_time()),
            core,
            intake,
            journal,
            keeper,
            feed: None,
            clock,
            health,
            options,
            meters: Meters::default(),
            stopped: false,
            after_checkpoint: Vec::new(),
        }
    }

    /// Lets the rows go of callbacks that this feed knows to have ended.
    #[must_use]
    pub fn forgetting(mut self, feed: Arc<CallbackFeed>) -> Writer {
        self.feed = Some(feed);
        self
    }

    /// The state as it stands.
    pub const fn core(&self) -> &Core<LocalStore> {
        &self.core
    }

    /// Works until the intake is closed and empty.
    pub fn run(mut self) {
        let intake = Arc::clone(&self.intake);
        // Before anybody waits: a clock that stands behind the log must show in the health at once.
        self.turn();
        while intake.wait(self.patience()) {
            self.turn();
        }
        self.leave_a_checkpoint();
        // Whoever came too late to be heard must not wait for ever.
        intake.abandon("the hub has ended");
    }

    /// The next start, also of another version, begins where this one ends.
    fn leave_a_checkpoint(&mut self) {
        self.finish_checkpoint();
        if self.begin_checkpoint() {
            self.finish_checkpoint();
        }
    }

    /// A merge may still run when this is done: no checkpoint lists what it makes, so nothing is lost without it.
    fn finish_checkpoint(&mut self) {
        self.take_in_jobs();
        while !self.has_stopped() && self.core.store().checkpoint_running() {
            self.wait_for_jobs();
        }
    }

    /// Whether the log or the store has failed. The journal says so from its own thread.
    fn has_stopped(&mut self) -> bool {
        self.stopped |= matches!(self.health.status(), Status::Stopped(_));
        self.stopped
    }

    /// Ends as [`Writer::run`] does, for who drives it by hand: leaves a checkpoint and marks the end of the log. The
    /// intake is empty by now. `false`: the store or the log has failed.
    pub fn end_by_hand(&mut self) -> bool {
        self.leave_a_checkpoint();
        !self.has_stopped() && self.journal.mark_end()
    }

    fn wait_for_jobs(&mut self) {
        if self.run_job(false).is_none() {
            self.keeper.wait();
            self.take_in_jobs();
        }
    }

    /// The job that [`Writer::run_job`] would run.
    #[must_use]
    pub fn next_job(&self, merge: bool) -> Option<&Job> {
        self.keeper.peek_by_hand(merge)
    }

    fn hand_out_jobs(&mut self) {
        while let Some(job) = self.core.store_mut().take_job() {
            self.keeper.submit(job);
        }
    }

    /// Takes in what the store's jobs have done since the last turn.
    fn take_in_jobs(&mut self) {
        match self.keeper.take_done() {
            Ok(done) => {
                for done in done {
                    self.core.store_mut().absorb(done);
                }
                self.hand_out_jobs();
            }
            Err(()) => self.stopped = true,
        }
    }

    /// Runs the next of the store's jobs, of a keeper by hand; `None` if there is none. With `merge` a merge comes
    /// before its turn.
    ///
    /// # Errors
    /// If the job has failed; the writer has stopped then.
    pub fn run_job(&mut self, merge: bool) -> Option<Result<(), StoreError>> {
        let job = self.keeper.next_by_hand(merge)?;
        let done = job.run(&mut || {}).map(|done| {
            self.core.store_mut().absorb(done);
            self.hand_out_jobs();
        });
        Some(done.inspect_err(|error| self.store_failed(error)))
    }

    /// Begins a checkpoint now; `false` if one is being made already or the log has failed.
    pub fn begin_checkpoint(&mut self) -> bool {
        // A checkpoint that is ahead of the log would refuse every later start.
        let durable = !self.has_stopped() && self.core.end() <= self.journal.durable_end();
        let begun = durable && self.core.begin_checkpoint();
        if begun {
            if let Some(feed) = &self.feed {
                self.core.store_mut().forget_callbacks(feed.unneeded_before());
            }
            self.hand_out_jobs();
        }
        begun
    }

    /// Runs the questions whose checkpoint is on the disk.
    fn answer_after_checkpoint(&mut self) {
        let newest = self.core.store().newest_checkpoint();
        let waiting = std::mem::take(&mut self.after_checkpoint);
        let (ready, waiting): (Vec<_>, _) =
            waiting.into_iter().partition(|(offset, _)| newest >= Some(*offset));
        self.after_checkpoint = waiting;
        ready.into_iter().for_each(|(_, query)| query(&self.core));
    }

    fn store_failed(&mut self, error: &StoreError) {
        let reason = keeper::reason(error);
        self.health.set(Status::Stopped(reason.clone()));
        self.intake.close(&reason);
        self.stopped = true;
    }

    /// How long to wait when nobody comes: until the next hold runs out, and never longer than the clocks may go
    /// unwatched.
    fn patience(&mut self) -> Duration {
        if matches!(self.health.status(), Status::ClockSuspect(_)) {
            return CLOCK_LOOK_EVERY;
        }
        let now = self.clock.read().wall;
        self.core.store_mut().sort_due(now);
        // A hold is due when its expiration is past: one millisecond later.
        let until_due = |due: Millis| due.saturating_add(1).saturating_sub(now).max(0);
        let wait = self.core.store().next_expiration().map_or(Millis::MAX, until_due);
        Duration::from_millis(u64::try_from(wait).unwrap_or(0)).min(CLOCK_LOOK_EVERY)
    }

    /// One turn: answer what was asked, then close a frame of what waits and what is due, decide it and have it
    /// written. Everything applied before is durable by now, so questions see only what is.
    pub fn turn(&mut self) -> Turn {
        let Gathered { submissions, queries, confirmed_clock, after_checkpoint } = self.intake.take();
        self.take_in_jobs();
        let end = self.core.end();
        self.after_checkpoint.extend(after_checkpoint.into_iter().map(|query| (end, query)));
        if self.has_stopped() {
            // Dropping a question tells its asker that there is no answer.
            drop(queries);
            self.after_checkpoint.clear();
            let reason = match self.health.status() {
                Status::Stopped(reason) => reason,
                _ => "the log has stopped".to_owned(),
            };
            refuse_all(submissions, &Refusal::Closed(reason));
            return Turn::Stopped;
        }
        queries.into_iter().for_each(|query| query(&self.core));
        self.answer_after_checkpoint();
        let wanted = !self.after_checkpoint.is_empty();
        if wanted || self.core.unsaved_bytes() >= self.options.checkpoint_log_bytes {
            self.begin_checkpoint();
        }
        let now = self.clock.read();
        if let Some(seen) = confirmed_clock {
            self.guard.confirm(seen);
        }
        match self.believed_time(now) {
            Ok(time) => self.close_frame(time, submissions),
            Err(fault) => {
                refuse_all(submissions, &Refusal::Clock(fault));
                Turn::Idle
            }
        }
    }

    fn believed_time(&mut self, now: Reading) -> Result<Millis, ClockFault> {
        let believed = self.guard.frame_time(now);
        match believed {
            Ok(_) if matches!(self.health.status(), Status::ClockSuspect(_)) => {
                self.health.set(Status::Ready)
            }
            Ok(_) => {}
            Err(fault) => self.health.set(Status::ClockSuspect(fault)),
        }
        believed
    }

    fn close_frame(&mut self, time: Millis, submissions: Vec<Submission>) -> Turn {
        let started = Instant::now();
        let expiry = self.expiry_record(time, !submissions.is_empty());
        let count: usize = submissions.iter().map(|submission| submission.records.commands().len()).sum();
        let count = count + usize::from(expiry.is_some());
        if count == 0 {
            return self.answer_empty(submissions);
        }
        let bytes: usize = submissions.iter().map(|submission| submission.records.bytes().len()).sum();
        let mut frame = FrameBuf::with_capacity(bytes + records::UNIT);
        let named = submissions.iter().flat_map(|submission| submission.records.commands());
        if let Err(error) = self.core.load(named) {
            // Nothing of the frame was written.
            self.store_failed(&error);
            refuse_all(submissions, &Refusal::Closed(keeper::reason(&error)));
            return Turn::Stopped;
        }
        let mut commands = Vec::with_capacity(count);
        let mut parts = Vec::with_capacity(submissions.len());
        let mut pieces = Vec::with_capacity(submissions.len() + 1);
        let expires = expiry.is_some();
        if let Some((command, bytes)) = expiry {
            frame.push(&bytes);
            pieces.push(bytes);
            commands.push(command);
        }
        for Submission { records, answer, .. } in submissions {
            let (bytes, mut own) = records.into_parts();
            frame.push(&bytes);
            pieces.push(bytes);
            parts.push((answer, own.len()));
            commands.append(&mut own);
        }
        let record_count = u32::try_from(count).expect("the intake bounds a frame");
        let header = self.core.next_header(record_count, time, self.options.position_order);
        let payload_bytes = frame.payload_len() as u64;
        self.meters.spent(Stage::Close, started.elapsed());

        self.journal.begin(frame, &header);
        let started = Instant::now();
        let mut effects = self.core.advance(&header, &commands, pieces.iter().map(Vec::as_slice));
        self.meters.spent(Stage::Decide, started.elapsed());
        self.meters.frames.increment(1);
        self.meters.records.increment(u64::from(record_count));
        self.meters.log_bytes.increment(payload_bytes);
        self.meters.alarms.increment(effects.all(|step| &step.alarms).count() as u64);
        self.meters.callbacks_without_endpoint.absolute(self.core.counts().callbacks_without_endpoint);
        #[allow(clippy::cast_precision_loss, reason = "a gauge is for the eye")]
        self.meters.open_holds.set(self.core.store().open_holds() as f64);

        let outcomes = effects.take(|step| &mut step.outcomes);
        let mut outcomes = outcomes.as_slice();
        if expires {
            self.meters.expired.increment(outcomes[0].subject.ended());
            outcomes = &outcomes[1..];
        }
        let outcomes = split(parts, outcomes);
        let callbacks_end = self.core.progress().next_callback;
        let tokens = effects.take(|step| &mut step.tokens);
        let shop = ShopNews {
            effects: effects.take(|step| &mut step.shop),
            messages: effects.take(|step| &mut step.shop_messages),
            alarms: effects.take(|step| &mut step.shop_alarms),
        };
        let appended = self.journal.finish(Answers { outcomes, callbacks_end, tokens, time, shop });
        // After the answers are on their way: a disk that is far behind makes this wait.
        self.hand_out_jobs();
        if appended {
            Turn::Frame(count)
        } else {
            self.stopped = true;
            Turn::Stopped
        }
    }

    fn expiry_record(&mut self, time: Millis, beside_payments: bool) -> Option<(Command, Vec<u8>)> {
        self.core.store_mut().sort_due(time);
        let due = self.core.store().next_expiration().is_some_and(|expiration| expiration < time);
        let share = if beside_payments { EXPIRY_SHARE_BESIDE_PAYMENTS } else { 1 };
        let holds_max = (self.options.expiry_holds_max / share).max(1);
        let command = due.then_some(Command::Expire(Expire { holds_max }))?;
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
fn split(parts: Vec<(Answer, usize)>, mut outcomes: &[Outcome]) -> Vec<(Answer, Vec<Outcome>)> {
    let mut answers = Vec::with_capacity(parts.len());
    for (answer, count) in parts {
        let (own, rest) = outcomes.split_at(count);
        answers.push((answer, own.to_vec()));
        outcomes = rest;
    }
    answers
}
