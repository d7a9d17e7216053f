//! The journal: appends a frame, makes it durable, then lets its answers go.
//!
//! [`Journal::inline`] does so on the caller's thread, which is what the simulator drives. [`Journal::threaded`]
//! does so on a thread of its own, so that the writer decides a frame while it is being synced.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::Millis;
use holdfast_domain::planted::{self, Bug};
use holdfast_domain::tokens::TokenEffect;
use holdfast_engine::{Answer, Refusal};
use holdfast_log::{FrameBuf, FrameHeader, Log, Tail};

use crate::alarm::{in_full, watched};
use crate::callbacks::CallbackFeed;
use crate::health::{Health, Status};
use crate::intake::Intake;
use crate::meters::{Meters, Stage};
use crate::shop::{ShopFeed, ShopNews};
use crate::tokens::TokenIndex;

/// Answers that wait for their frame.
#[derive(Default)]
pub(crate) struct Answers {
    /// To callers.
    pub(crate) outcomes: Vec<(Answer, Vec<Outcome>)>,
    /// To participants: how many callbacks there are now.
    pub(crate) callbacks_end: u64,
    /// To whoever selects tokens: what the frame of that time did to them.
    pub(crate) tokens: Vec<TokenEffect>,
    pub(crate) time: Millis,
    /// To callers and listeners of the shop.
    pub(crate) shop: ShopNews,
}

/// Those who follow durable frames.
pub(crate) struct Followers {
    pub(crate) feed: Arc<CallbackFeed>,
    pub(crate) tokens: Arc<TokenIndex>,
    pub(crate) shop: Arc<ShopFeed>,
}

/// Where frames become durable.
pub struct Journal {
    kind: Kind,
    tail: Tail,
}

enum Kind {
    Inline { appender: Box<Appender>, pending: Option<(FrameBuf, FrameHeader)> },
    Threaded { jobs: Option<SyncSender<Job>>, thread: Option<JoinHandle<()>>, intake: Arc<Intake> },
}

enum Job {
    Frame(FrameBuf, FrameHeader),
    Answers(Answers),
}

/// The log, and those who must know when it fails.
struct Appender {
    log: Box<dyn Log>,
    health: Arc<Health>,
    intake: Arc<Intake>,
    meters: Meters,
    followers: Option<Followers>,
}

impl Appender {
    fn new(log: Box<dyn Log>, intake: &Arc<Intake>, health: &Arc<Health>) -> Appender {
        let (health, intake) = (Arc::clone(health), Arc::clone(intake));
        Appender { log, health, intake, meters: Meters::default(), followers: None }
    }

    fn append(&mut self, mut frame: FrameBuf, header: &FrameHeader) -> Result<(), String> {
        let started = Instant::now();
        let appended = self.log.append(&mut frame, header);
        self.meters.spent(Stage::Append, started.elapsed());
        if planted::has(Bug::AnswerDespiteFailure) {
            return Ok(());
        }
        appended.map_err(|error| {
            let reason = format!("appending at offset {} failed: {}", header.base_offset, in_full(&error));
            self.health.set(Status::Stopped(reason.clone()));
            self.intake.close(&reason);
            if let Some(followers) = &self.followers {
                followers.tokens.end_waiting();
                followers.shop.end();
            }
            reason
        })
    }

    /// Lets the answers go. Before that, as soon as the index of tokens has taken the frame over, the writer may go on: the next
    /// frame is closed and decided while the answers of this one go out.
    fn release(&self, answers: Answers, durable: &Result<(), String>) {
        let started = Instant::now();
        let followers = self.followers.as_ref().filter(|_| durable.is_ok());
        if let (Some(followers), false) = (followers, answers.tokens.is_empty()) {
            // Before the answers: who was told of a lock can spend it, who was told of tokens can select them.
            followers.tokens.follow(&answers.tokens, answers.time);
        }
        if let (Some(followers), false) = (followers, answers.shop.is_empty()) {
            followers.shop.follow(&answers.shop);
        }
        self.intake.set_journal_busy(false);
        for (answer, outcomes) in answers.outcomes {
            if let Some(followers) = followers {
                followers.shop.count_repeats(&outcomes);
            }
            answer(match durable {
                Ok(()) => Ok(outcomes),
                Err(reason) => Err(Refusal::Unknown(reason.clone())),
            });
        }
        if let Some(followers) = followers {
            followers.feed.advance(answers.callbacks_end);
        }
        self.meters.spent(Stage::Answer, started.elapsed());
    }
}

impl Journal {
    /// A journal that works on the caller's thread.
    pub fn inline(log: Box<dyn Log>, intake: &Arc<Intake>, health: &Arc<Health>) -> Journal {
        let tail = log.tail();
        let appender = Box::new(Appender::new(log, intake, health));
        Journal { kind: Kind::Inline { appender, pending: None }, tail }
    }

    /// A journal with a thread of its own.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn threaded(
        log: Box<dyn Log>,
        intake: &Arc<Intake>,
        health: &Arc<Health>,
        followers: Followers,
    ) -> std::io::Result<Journal> {
        let (jobs, inbox) = sync_channel(2);
        let tail = log.tail();
        let appender = Appender { followers: Some(followers), ..Appender::new(log, intake, health) };
        let ringing = Arc::clone(intake);
        let ring = move |reason: &str| ringing.journal_died(reason);
        let thread = watched("journal", health, ring, move || work(appender, &inbox))?;
        let (jobs, thread, intake) = (Some(jobs), Some(thread), Arc::clone(intake));
        Ok(Journal { kind: Kind::Threaded { jobs, thread, intake }, tail })
    }

    /// Begins to write a frame.
    pub(crate) fn begin(&mut self, frame: FrameBuf, header: &FrameHeader) {
        match &mut self.kind {
            Kind::Inline { pending, .. } => *pending = Some((frame, *header)),
            Kind::Threaded { jobs, intake, .. } => {
                intake.set_journal_busy(true);
                send(jobs.as_ref(), Job::Frame(frame, *header));
            }
        }
    }

    /// Hands over the answers of the frame that was begun; they go out when it is durable. `false`: the log has
    /// failed.
    pub(crate) fn finish(&mut self, answers: Answers) -> bool {
        match &mut self.kind {
            Kind::Inline { appender, pending } => {
                let (frame, header) = pending.take().expect("a frame was begun");
                let durable = appender.append(frame, &header);
                appender.release(answers, &durable);
                durable.is_ok()
            }
            Kind::Threaded { jobs, .. } => {
                send(jobs.as_ref(), Job::Answers(answers));
                true
            }
        }
    }

    /// How far the log is durable.
    pub(crate) fn durable_end(&self) -> u64 {
        self.tail.durable_end()
    }

    /// Marks the end of the log, where the journal works on the caller's thread; one with a thread of its own does so
    /// when it ends. `false`: it could not be marked.
    pub(crate) fn mark_end(&mut self) -> bool {
        match &mut self.kind {
            Kind::Inline { appender, .. } => appender.log.mark_end().is_ok(),
            Kind::Threaded { .. } => true,
        }
    }
}

fn send(jobs: Option<&SyncSender<Job>>, job: Job) {
    jobs.expect("the journal is open").send(job).expect("the journal's thread lives as long as the writer");
}

fn work(mut appender: Appender, inbox: &Receiver<Job>) {
    let mut durable = Ok(());
    for job in inbox {
        match job {
            Job::Frame(frame, header) => durable = appender.append(frame, &header),
            Job::Answers(answers) => appender.release(answers, &durable),
        }
    }
    if durable.is_ok()
        && let Err(error) = appender.log.mark_end()
    {
        tracing::warn!(%error, "the end of the log could not be marked");
    }
}

impl Drop for Journal {
    /// Waits until what was begun is done.
    fn drop(&mut self) {
        if let Kind::Threaded { jobs, thread, .. } = &mut self.kind {
            drop(jobs.take());
            if thread.take().is_some_and(|thread| thread.join().is_err()) {
                tracing::error!("the journal's thread panicked");
            }
        }
    }
}
