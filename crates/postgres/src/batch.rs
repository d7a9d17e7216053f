//! A batch of one partition, and what happens to it when the database refuses: others in the way, try again; a message that
//! cannot be stored, halve until it is found.

use holdfast_domain::ids::Millis;
use holdfast_messages::Message;

use crate::error::{is_conflict, took_too_long, words};
use crate::incoming::Incoming;
use crate::outbox::Outbox;
use crate::session::{BATCH_MESSAGES_MAX, Store};
use crate::step::{Decided, Done, Step, Work};
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

    /// The second half, and the first, which is taken from the end and decided before it.
    fn halves(self) -> [Batch<'a, M>; 2] {
        let (left, right) = self.messages.split_at(self.messages.len() / 2);
        let middle = right[0].offset;
        [Batch { from: middle, messages: right, ..self }, Batch { next: middle, messages: left, ..self }]
    }
}

/// A batch or a part of it, as one transaction takes it on. With a verdict its messages are dead-lettered for that reason
/// and not decided.
pub(crate) struct Part<'p, 'm, M> {
    pub(crate) claim: &'p Claim,
    pub(crate) batch: Batch<'m, M>,
    pub(crate) verdict: Option<&'p str>,
}

impl<M> Clone for Part<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Part<'_, '_, M> {}

impl<'m, M> Part<'_, 'm, M> {
    /// Does this work with it, in one step.
    pub(crate) fn step(self, store: &mut Store, work: impl Work<'m>) -> Result<Step, Error> {
        store.step(self.claim, Some(self.batch.from), self.batch.sent, work)
    }

    /// A decision about all of it, without effects.
    pub(crate) fn decided<R>(self, now: Millis, outbox: Outbox<'m>, rows: R) -> Decided<'m, R> {
        let done = Done { messages: self.batch.messages.len(), ..Done::default() };
        Decided { done, ..Decided::new(now, self.batch.next, outbox, rows) }
    }
}

impl<'p, 'm, M: Message> Part<'p, 'm, M> {
    /// Reads it. What cannot be read becomes a dead letter, and all of it with a verdict.
    pub(crate) fn read(self) -> Reading<'p, 'm, M> {
        let mut outbox = Outbox::default();
        let messages = outbox.sort_out(self.claim.source, self.batch.messages, self.verdict);
        Reading { part: self, messages, outbox }
    }
}

/// A part of a batch as it was read: what is to be decided, and the dead letters.
pub(crate) struct Reading<'p, 'm, M> {
    pub(crate) part: Part<'p, 'm, M>,
    pub(crate) messages: Vec<Readable<'m, M>>,
    pub(crate) outbox: Outbox<'m>,
}

/// A message, as it came in and as it was read.
pub(crate) type Readable<'m, M> = (&'m Incoming<M>, &'m M);

impl Store {
    /// Runs a batch to its end: `attempt` is one transaction over it or a part of it.
    ///
    /// # Errors
    /// [`Error::Newer`] if a message of the batch is newer than this program: then nothing of the batch is done.
    ///
    /// # Panics
    /// If the batch has more than [`BATCH_MESSAGES_MAX`] messages.
    pub(crate) fn run<'m, M: Message>(
        &mut self,
        claim: &Claim,
        batch: &Batch<'m, M>,
        mut attempt: impl FnMut(&mut Store, Part<'_, 'm, M>) -> Result<Step, Error>,
    ) -> Result<Step, Error> {
        assert!(batch.messages.len() <= BATCH_MESSAGES_MAX, "a batch of {} messages", batch.messages.len());
        let newer = |incoming: &Incoming<M>| Some((incoming.offset, incoming.newer()?));
        if let Some((offset, version)) = batch.messages.iter().find_map(newer) {
            return Err(Error::Newer { offset, version });
        }
        let mut total = Done::default();
        let mut waiting = vec![*batch];
        while let Some(batch) = waiting.pop() {
            match self.persist(Part { claim, batch, verdict: None }, &mut attempt) {
                Ok(Step::Done(done)) => total.add(done),
                Ok(Step::Fenced) => return Ok(Step::Fenced),
                Err(Error::Refused(cause)) if batch.messages.len() > 1 => {
                    let messages = batch.messages.len();
                    tracing::warn!(messages, cause = words(&cause), "a batch is halved");
                    waiting.extend(batch.halves());
                }
                Err(Error::Refused(cause)) => {
                    let reason = format!("PostgreSQL refuses it: {}", words(&cause));
                    tracing::error!(offset = batch.from, reason, "a message is dead-lettered");
                    match self.persist(Part { claim, batch, verdict: Some(&reason) }, &mut attempt)? {
                        Step::Done(done) => total.add(done),
                        Step::Fenced => return Ok(Step::Fenced),
                    }
                }
                // What takes longer than a statement may is not done by trying it again; half of it may be.
                Err(Error::Busy { cause, .. }) if batch.messages.len() > 1 && took_too_long(&cause) => {
                    tracing::warn!(messages = batch.messages.len(), "a batch takes too long, and is halved");
                    waiting.extend(batch.halves());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Step::Done(total))
    }

    /// Tries until it is done or can be done by no repetition.
    fn persist<'m, M>(
        &mut self,
        part: Part<'_, 'm, M>,
        attempt: &mut impl FnMut(&mut Store, Part<'_, 'm, M>) -> Result<Step, Error>,
    ) -> Result<Step, Error> {
        let mut conflicts = 0;
        for attempts in 1.. {
            match attempt(self, part) {
                Err(Error::Busy { cause, .. })
                    if attempts < self.settings.attempts_max
                        && !(attempts > 1 && part.batch.messages.len() > 1 && took_too_long(&cause)) =>
                {
                    tracing::warn!(attempts, cause = words(&cause), "a batch is tried again");
                }
                Err(Error::Busy { cause, .. }) => return Err(Error::Busy { attempts, cause }),
                Err(Error::Refused(cause)) if is_conflict(&cause) && conflicts == 0 => {
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
