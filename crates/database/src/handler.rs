//! The handlers: claim partitions, take batches, have each decided in one transaction. The handler speaks with the group
//! between batches; its workers decide, several partitions at once, never two batches of the same.
//!
//! Where a handler begins is told by the guard row and by nothing else. After a failure the batch comes again; if it had
//! been committed after all, the stored offset differs, the step is refused and the partition claimed anew.

mod hops;
mod partitions;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use holdfast_kafka::{GroupConsumer, Health, KafkaError};
use holdfast_messages::Message;
use holdfast_postgres::{Batch, Claim, Error, Step, Store};

use crate::meters::HandlerMeters;
use crate::settings::{
    NEWER_PAUSE, POLL_WAIT, QUIET_REST, REST_MAX, SEND_WAIT, TROUBLE_PAUSE, WORKERS, WORTH_GATHERING,
};
use crate::stop::Stop;
use crate::worker::{Ended, Job, Report};
use partitions::Newer;

pub(crate) use hops::{callbacks, position, token_updates, transfers};
pub(crate) use partitions::Partitions;

/// How often numbers are published.
const STAND_EVERY: Duration = Duration::from_secs(1);

/// Decides a batch.
pub(crate) type DecideBatch<M> =
    Arc<dyn Fn(&mut Store, &Claim, &Batch<'_, M>) -> Result<Step, Error> + Send + Sync>;

/// The partition of that claim is this node's from now on: what has to be known before its messages are taken. Gives the claim,
/// with the offset at which they begin.
pub(crate) type Begin = Box<dyn Fn(&mut Store, u32, Claim) -> Result<Claim, BeginError> + Send>;

/// Why a partition was not begun with.
pub(crate) type BeginError = Box<dyn std::error::Error + Send + Sync>;

/// The partition is another node's, or has to be claimed anew.
pub(crate) type Lost = Box<dyn Fn(u32) + Send>;

/// What a handler does with the messages of its topic.
pub(crate) struct Hop<M> {
    pub(crate) step: DecideBatch<M>,
    pub(crate) begin: Begin,
    pub(crate) lost: Lost,
    /// How many partitions are decided at once.
    pub(crate) workers: usize,
    /// The most messages of one transaction, where that is fewer than usual.
    pub(crate) messages_max: usize,
    /// Whether a partition rests after a batch that was not full, so that the next is larger. Not where few hops follow each other
    /// and a caller waits for all of them: payments became no cheaper by it, and twice as slow.
    pub(crate) gathers: bool,
    /// How long the beginning with partitions may take, where that is more than usual.
    pub(crate) takeover_max: Option<Duration>,
}

impl<M: Message> Hop<M> {
    /// Decides with that step, as usual otherwise.
    pub(crate) fn new(
        step: impl Fn(&mut Store, &Claim, &Batch<'_, M>) -> Result<Step, Error> + Send + Sync + 'static,
    ) -> Hop<M> {
        Hop {
            step: Arc::new(step),
            begin: Box::new(|_, _, claim| Ok(claim)),
            lost: Box::new(|_| ()),
            workers: WORKERS,
            messages_max: usize::MAX,
            gathers: true,
            takeover_max: None,
        }
    }
}

/// Why a handler ends. Its partitions go to other nodes, and an operator sees why.
#[derive(Debug, thiserror::Error)]
enum End {
    /// The client is of no use any more.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    #[error("a thread that decides batches has panicked; restart the node, and report what its log says")]
    Worker,
}

/// One handler on its thread, with its workers on theirs.
pub(crate) struct Handler {
    pub(crate) consumer: GroupConsumer,
    pub(crate) partitions: Partitions,
    pub(crate) stop: Arc<Stop>,
    pub(crate) meters: HandlerMeters,
    /// Where each worker takes its jobs from.
    pub(crate) workers: Vec<SyncSender<Job>>,
    pub(crate) ended: Receiver<Report>,
}

impl Handler {
    pub(crate) fn run(mut self) {
        let mut shown = Instant::now();
        let mut idle: Vec<usize> = (0..self.workers.len()).collect();
        while !self.stop.is_set() {
            if let Err(end) = self.turn(&mut idle) {
                self.partitions.part.fails(&end);
                tracing::error!(topic = self.partitions.topic.name(), %end, "a handler ends");
                break;
            }
            if shown.elapsed() >= STAND_EVERY {
                self.meters.stand(&self.consumer.numbers(), self.partitions.newer.len());
                shown = Instant::now();
            }
        }
        // What a worker has begun is ended, and sent on.
        let all = self.workers.len();
        self.workers.clear();
        while idle.len() < all
            && let Ok(report) = self.ended.recv()
        {
            let Some(ended) = report else { continue };
            idle.push(ended.worker);
            if let Ok(Step::Done(done)) = ended.stepped {
                self.partitions.outboxes.hand_over(&ended.claim, done.outbox, ended.began);
            }
        }
        self.partitions.outboxes.await_sent(SEND_WAIT);
        self.consumer.leave(&mut self.partitions);
    }

    fn turn(&mut self, idle: &mut Vec<usize>) -> Result<(), End> {
        while let Ok(report) = self.ended.try_recv() {
            self.listen(report, idle)?;
        }
        let Some(worker) = idle.last().copied() else {
            // The next one that ends is waited for.
            return match self.ended.recv_timeout(POLL_WAIT) {
                Ok(report) => self.listen(report, idle),
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => Err(End::Worker),
            };
        };
        let messages = self.partitions.batch_messages;
        self.look_at_newer()?;
        let until = self.end_rests();
        let fetched = self.consumer.poll(&mut self.partitions, messages, until)?;
        let Some(fetched) = fetched else {
            self.look_around();
            return Ok(());
        };
        let partition = fetched.partition;
        let Some(claim) = self.partitions.claims.get(&partition).copied() else { return Ok(()) };
        let sent = self.partitions.outboxes.sent(&claim);
        self.consumer.pause(partition);
        self.workers[worker].try_send(Job { claim, fetched, sent }).map_err(|_| End::Worker)?;
        idle.pop();
        Ok(())
    }

    fn listen(&mut self, report: Report, idle: &mut Vec<usize>) -> Result<(), End> {
        let ended = report.ok_or(End::Worker)?;
        idle.push(ended.worker);
        Ok(self.settle(ended)?)
    }

    /// What a worker has done with a batch.
    fn settle(&mut self, ended: Ended) -> Result<(), KafkaError> {
        let Ended {
            claim, partition, first_offset, next_offset, fetched_to, sent, stepped, began, took, ..
        } = ended;
        // The partition may have gone meanwhile, and come again.
        let ours = self.partitions.claims.get(&partition).is_some_and(|known| known.epoch == claim.epoch);
        match stepped {
            Ok(Step::Done(done)) => {
                self.meters.done(&done, took);
                self.partitions.outboxes.note_marked(&claim, sent);
                self.partitions.outboxes.hand_over(&claim, done.outbox, began);
                if ours {
                    self.partitions.failing.remove(&partition);
                    self.consumer.done(partition, next_offset);
                    if next_offset < fetched_to {
                        self.consumer.rewind(partition, next_offset)?;
                    } else {
                        self.partitions.newer.remove(&partition);
                    }
                    let messages = next_offset.saturating_sub(first_offset);
                    self.rest(partition, messages, rest_after(messages, took, done.quiet));
                }
                self.look_around();
                Ok(())
            }
            Err(error @ Error::Newer { .. }) if ours => {
                let newer = Newer { why: error.to_string(), look_at: Instant::now() + NEWER_PAUSE };
                self.partitions.newer.insert(partition, newer);
                self.look_around();
                // It stays paused; other partitions go on.
                self.consumer.rewind(partition, first_offset)
            }
            Ok(Step::Fenced) if ours => {
                tracing::warn!(topic = self.partitions.topic.name(), partition, "fenced; claimed anew");
                self.meters.fenced.increment(1);
                self.partitions.forget(partition);
                (self.partitions.lost)(partition);
                self.consumer.reclaim(partition)
            }
            Ok(Step::Fenced) => Ok(()),
            Err(error) => {
                self.partitions.part.fails(&error);
                self.meters.failures.increment(1);
                // A part of the batch may have been committed, and was not handed over.
                self.partitions.outboxes.ring(&claim);
                if !ours {
                    return Ok(());
                }
                self.partitions.failing.insert(partition);
                self.consumer.rewind(partition, first_offset)?;
                // It stays paused until then; other partitions go on.
                self.partitions.resting.insert(partition, Instant::now() + TROUBLE_PAUSE);
                Ok(())
            }
        }
    }

    /// Lets more messages gather in a partition before the next batch, unless the last one was full.
    fn rest(&mut self, partition: u32, messages: u64, rest: Duration) {
        if !self.partitions.gathers || messages >= self.partitions.batch_messages as u64 {
            self.consumer.resume(partition);
        } else {
            self.partitions.resting.insert(partition, Instant::now() + rest);
        }
    }

    /// Claims partitions anew that wait for a newer program, now and then: an operator may have moved the stored offset past
    /// the message.
    fn look_at_newer(&mut self) -> Result<(), KafkaError> {
        let now = Instant::now();
        // One that was taken away between two claims was never released.
        self.partitions.newer.retain(|partition, _| self.consumer.is_counted_on(*partition));
        for (partition, newer) in &mut self.partitions.newer {
            if newer.look_at <= now {
                newer.look_at = now + NEWER_PAUSE;
                self.consumer.reclaim(*partition)?;
            }
        }
        Ok(())
    }

    /// Goes on with partitions that have rested. Returns when the next one will have, or when to look around.
    fn end_rests(&mut self) -> Instant {
        let now = Instant::now();
        let consumer = &mut self.consumer;
        self.partitions.resting.retain(|partition, until| {
            let rests = *until > now;
            if !rests {
                consumer.resume(*partition);
            }
            rests
        });
        self.partitions
            .resting
            .values()
            .copied()
            .min()
            .map_or(now + POLL_WAIT, |until| until.min(now + POLL_WAIT))
    }

    /// Is all well? One partition that stands still must not be hidden by others that go on.
    fn look_around(&mut self) {
        if let Some(fault) = self.partitions.fault() {
            self.partitions.part.fails(fault);
        } else if let Health::Down { why, .. } = self.consumer.health() {
            self.partitions.part.fails(format!("Kafka is down: {why}"));
        } else if self.partitions.failing.is_empty() && self.consumer.unclaimed() == 0 {
            // Also without a partition: there may be more nodes than partitions.
            self.partitions.part.works();
        }
    }
}

/// How long a partition rests after a batch: a batch costs much besides its messages, and with many small ones the machine would
/// be busy long before there is much to do.
fn rest_after(messages: u64, took: Duration, quiet: bool) -> Duration {
    match quiet {
        true => QUIET_REST,
        false if WORTH_GATHERING.contains(&messages) => REST_MAX,
        false => took.min(REST_MAX),
    }
}

#[cfg(test)]
mod tests;
