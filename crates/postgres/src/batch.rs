//! A batch of one partition, and what happens to it when the database refuses: others in the way, try again; a message that
//! cannot be stored, halve until it is found.

use std::ops::Range;

use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{Alarm, Tally};
use holdfast_messages::Message;
use postgres::Transaction;

use crate::error::{Remedy, remedy, took_too_long, words};
use crate::guard::Guard;
use crate::incoming::Incoming;
use crate::outbox::OutboxRow;
use crate::session::{BATCH_MESSAGES_MAX, Point, Settings, Statements, Store, Watch};
use crate::write::Besides;
use crate::{Claim, Error};

/// Messages of one partition, in order.
#[derive(Debug)]
pub struct Batch<'a, M> {
    /// Where the reader believes to stand: the stored offset must be the same.
    pub from: u64,
    /// Where it stands afterwards.
    pub next: u64,
    /// The messages between the two.
    pub messages: &'a [Incoming<M>],
    /// All below this number of the source's outbox was sent, and goes with this step.
    pub sent: u64,
}

impl<M> Clone for Batch<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Batch<'_, M> {}

impl<'a, M> Batch<'a, M> {
    /// All of these messages, beginning at `from`.
    #[must_use]
    pub fn new(from: u64, messages: &'a [Incoming<M>]) -> Batch<'a, M> {
        Batch { from, next: messages.last().map_or(from, |last| last.offset + 1), messages, sent: 0 }
    }

    /// The same, for a source of whose outbox all below this number was sent.
    #[must_use]
    pub const fn sent(self, sent: u64) -> Batch<'a, M> {
        Batch { sent, ..self }
    }

    fn halves(self) -> (Batch<'a, M>, Batch<'a, M>) {
        let (left, right) = self.messages.split_at(self.messages.len() / 2);
        let middle = right[0].offset;
        (Batch { next: middle, messages: left, ..self }, Batch { from: middle, messages: right, ..self })
    }
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Done and durable.
    Done(Done),
    /// Nothing was written: somebody else has claimed the source, or the reader stands elsewhere than the stored offset.
    /// Claim anew and begin at the offset that the claim tells.
    Fenced,
}

/// A step in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// Messages processed, or holds ended.
    pub messages: usize,
    /// Of a scan: it has stopped at its bound, so there may be more.
    pub more: bool,
    /// Of them dead-lettered.
    pub dead_letters: usize,
    /// What was put into the outbox, in order.
    pub outbox: Vec<OutboxRow>,
    /// Callbacks that nobody gets: those to be called have registered no endpoint.
    pub unheard: usize,
    /// Nobody is called about any of it.
    pub quiet: bool,
    /// Attempts that were in vain: locks that others held, deadlocks, conflicts.
    pub retries: usize,
    /// Transactions that it took; more than one if the batch was halved.
    pub transactions: usize,
    /// The last one's time by the database's clock.
    pub time: Millis,
    /// What should never be in a checkout, and was met nevertheless. It is in the log of this process too.
    pub alarms: Vec<Alarm>,
    /// What checkouts came to by it.
    pub tally: Tally,
    /// Commands about orders that were answered as before, since they had been done.
    pub repeats: usize,
}

impl Done {
    /// One transaction over a batch.
    pub(crate) fn of<M>(batch: &Batch<'_, M>, besides: Besides<'_>, guard: &Guard, time: Millis) -> Done {
        Done {
            messages: batch.messages.len(),
            more: false,
            dead_letters: besides.dead_letters.len(),
            tally: besides.tally,
            repeats: 0,
            outbox: besides.numbered(guard),
            unheard: 0,
            quiet: false,
            retries: 0,
            transactions: 1,
            time,
            alarms: Vec::new(),
        }
    }

    fn add(&mut self, mut other: Done) {
        self.messages += other.messages;
        self.dead_letters += other.dead_letters;
        self.outbox.append(&mut other.outbox);
        self.unheard += other.unheard;
        self.quiet = other.quiet;
        self.retries += other.retries;
        self.transactions += other.transactions;
        self.time = self.time.max(other.time);
        self.alarms.append(&mut other.alarms);
        self.tally = self.tally.with(other.tally);
        self.repeats += other.repeats;
    }
}

/// A transaction that has its source's guard row locked, and what the rest of the step needs.
pub(crate) struct Begun<'s> {
    pub(crate) tx: Transaction<'s>,
    pub(crate) guard: Guard,
    pub(crate) statements: &'s Statements,
    pub(crate) settings: &'s Settings,
    pub(crate) numbers: &'s mut Range<u64>,
    pub(crate) watch: &'s mut Watch,
}

impl Store {
    /// Begins a step over a batch; `None`: another has claimed the source, or the stored offset is another.
    pub(crate) fn begin(&mut self, claim: &Claim, from: u64) -> Result<Option<Begun<'_>>, Error> {
        let Store { client, statements, settings, numbers, watch } = self;
        let mut tx = client.transaction()?;
        watch.reached(Point::Begun);
        let Some(guard) = Guard::lock_at(&mut tx, statements, claim, from)? else { return Ok(None) };
        watch.reached(Point::GuardLocked);
        Ok(Some(Begun { tx, guard, statements, settings, numbers, watch }))
    }

    /// Runs a batch to its end: `attempt` is one transaction over it or a part of it. With a verdict, its messages are
    /// dead-lettered for that reason and not decided.
    ///
    /// # Errors
    /// [`Error::Newer`] if a message of the batch is newer than this program: then nothing of the batch is done.
    ///
    /// # Panics
    /// If the batch has more than [`BATCH_MESSAGES_MAX`] messages.
    pub(crate) fn run<M: Message>(
        &mut self,
        claim: &Claim,
        batch: &Batch<'_, M>,
        mut attempt: impl FnMut(&mut Store, &Claim, &Batch<'_, M>, Option<&str>) -> Result<Step, Error>,
    ) -> Result<Step, Error> {
        assert!(batch.messages.len() <= BATCH_MESSAGES_MAX, "a batch of {} messages", batch.messages.len());
        let newer = |incoming: &Incoming<M>| Some((incoming.offset, incoming.newer()?));
        if let Some((offset, version)) = batch.messages.iter().find_map(newer) {
            return Err(Error::Newer { offset, version });
        }
        let mut total = Done::default();
        let mut waiting = vec![*batch];
        while let Some(batch) = waiting.pop() {
            match self.persist(claim, &batch, None, &mut attempt) {
                Ok(Step::Done(done)) => total.add(done),
                Ok(Step::Fenced) => return Ok(Step::Fenced),
                Err(Error::Refused(cause)) if batch.messages.len() > 1 => {
                    tracing::warn!(
                        messages = batch.messages.len(),
                        cause = words(&cause),
                        "a batch is halved"
                    );
                    let (left, right) = batch.halves();
                    waiting.extend([right, left]);
                }
                Err(Error::Refused(cause)) => {
                    let reason = format!("PostgreSQL refuses it: {}", words(&cause));
                    tracing::error!(offset = batch.from, reason, "a message is dead-lettered");
                    match self.persist(claim, &batch, Some(&reason), &mut attempt)? {
                        Step::Done(done) => total.add(done),
                        Step::Fenced => return Ok(Step::Fenced),
                    }
                }
                // What takes longer than a statement may is not done by trying it again; half of it may be.
                Err(Error::Busy { cause, .. }) if batch.messages.len() > 1 && took_too_long(&cause) => {
                    tracing::warn!(messages = batch.messages.len(), "a batch takes too long, and is halved");
                    let (left, right) = batch.halves();
                    waiting.extend([right, left]);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Step::Done(total))
    }

    /// Tries until it is done or can be done by no repetition.
    fn persist<M>(
        &mut self,
        claim: &Claim,
        batch: &Batch<'_, M>,
        verdict: Option<&str>,
        attempt: &mut impl FnMut(&mut Store, &Claim, &Batch<'_, M>, Option<&str>) -> Result<Step, Error>,
    ) -> Result<Step, Error> {
        let mut conflicts = 0;
        for attempts in 1.. {
            match attempt(self, claim, batch, verdict) {
                Err(Error::Busy { cause, .. })
                    if attempts < self.settings.attempts_max
                        && !(attempts > 1 && batch.messages.len() > 1 && took_too_long(&cause)) =>
                {
                    tracing::warn!(attempts, cause = words(&cause), "a batch is tried again");
                }
                Err(Error::Busy { cause, .. }) => return Err(Error::Busy { attempts, cause }),
                Err(Error::Refused(cause)) if remedy(&cause) == Remedy::RetryThenHalve && conflicts == 0 => {
                    // Another transaction may have stored the same id meanwhile: the next load will see it.
                    conflicts += 1;
                }
                Ok(Step::Done(done)) => {
                    return Ok(Step::Done(Done { retries: attempts as usize - 1, ..done }));
                }
                other => return other,
            }
        }
        unreachable!("the attempts are bounded")
    }
}
