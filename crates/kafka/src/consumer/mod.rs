//! A member of a consumer group: claims the partitions that the group gives it and hands out batches of one partition.
//!
//! The group decides who reads a partition; the database decides who may write its effects, and from which offset. So
//! a partition that is given is first claimed by the [`Owner`], which tells the epoch and the next offset, and only then
//! fetched from there. One that is taken is told to the owner before anything else is handed out. Both happen
//! inside [`GroupConsumer::poll`], on the handler's own thread.

mod context;
mod contract;
mod held;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::{KafkaError as ClientError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

pub use context::Caller;
pub(crate) use context::GroupContext;
use context::{Bell, Rebalance};
pub use contract::{
    Batch, Claim, ConsumerNumbers, ConsumerSettings, Fault, Owner, PartitionNumbers, Release,
};
use held::{Due, Held, Next};

use crate::{Health, KafkaError, Record};

/// How often a member says that it lives.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(2);
/// How many messages of a partition are fetched ahead of the handler.
const AHEAD_MESSAGES_MAX: usize = 20_000;
/// How many bytes of a partition are fetched ahead of the handler.
const AHEAD_BYTES_MAX: usize = 8 << 20;
/// How soon a failed claim is tried again.
const CLAIM_AGAIN: Duration = Duration::from_millis(500);
/// How often the group's offsets are brought up to date, for those who look at them.
const SHOW_OFFSETS_EVERY: Duration = Duration::from_secs(1);
/// The longest wait for the bell: what a lost ring would cost, and how often statistics are looked at.
const BELL_WAIT_MAX: Duration = Duration::from_millis(100);
/// How long a question about the ends of a partition may take.
const ENDS_WAIT: Duration = Duration::from_secs(2);

/// A member of a consumer group, owned by one handler.
pub struct GroupConsumer {
    settings: ConsumerSettings,
    /// Before the client, which must go last.
    held: BTreeMap<u32, Held>,
    /// Given and not claimed yet, with the time of the next attempt.
    unclaimed: BTreeMap<u32, Instant>,
    /// The partition of the last batch: the next one begins its search behind it.
    last: u32,
    bell: Arc<Bell>,
    shown_at: Instant,
    numbers: ConsumerNumbers,
    client: Arc<BaseConsumer<GroupContext>>,
}

impl GroupConsumer {
    /// Joins the group; Kafka need not be there yet.
    ///
    /// # Errors
    /// If the client cannot be made.
    pub fn join(settings: ConsumerSettings) -> Result<GroupConsumer, KafkaError> {
        let mut config = settings.brokers.reading(&settings.group);
        let heartbeat = HEARTBEAT_EVERY.min(settings.session_timeout / 3);
        config
            .set("session.timeout.ms", settings.session_timeout.as_millis().to_string())
            .set("heartbeat.interval.ms", heartbeat.as_millis().to_string())
            .set(
                "max.poll.interval.ms",
                settings.poll_every_max.max(settings.session_timeout).as_millis().to_string(),
            )
            // Who keeps a partition goes on with it while others move.
            .set("partition.assignment.strategy", "cooperative-sticky")
            // Never guess where to begin.
            .set("auto.offset.reset", "error")
            .set("queued.min.messages", AHEAD_MESSAGES_MAX.to_string())
            .set("queued.max.messages.kbytes", (AHEAD_BYTES_MAX / 1024).to_string());
        let mut client: BaseConsumer<GroupContext> =
            config.create_with_context(GroupContext::default()).map_err(KafkaError::client)?;
        let bell = Arc::new(Bell::default());
        let rings = Arc::clone(&bell);
        client.set_nonempty_callback(move || rings.ring());
        client.subscribe(&[&settings.topic]).map_err(KafkaError::client)?;
        Ok(GroupConsumer {
            settings,
            held: BTreeMap::new(),
            unclaimed: BTreeMap::new(),
            last: 0,
            bell,
            shown_at: Instant::now(),
            numbers: ConsumerNumbers::default(),
            client: Arc::new(client),
        })
    }

    /// The next batch of some partition, at most so many messages; `None` if none came by the deadline. What happens to
    /// partitions meanwhile is told to the owner first. Must be called at least every
    /// [`ConsumerSettings::poll_every_max`], or the partitions go to others.
    ///
    /// # Errors
    /// If the client has failed for good. That Kafka is down is no error: see [`GroupConsumer::health`].
    pub fn poll(
        &mut self,
        owner: &mut dyn Owner,
        messages_max: usize,
        deadline: Instant,
    ) -> Result<Option<Batch>, KafkaError> {
        loop {
            self.serve(owner)?;
            if let Some(batch) = self.next_batch(owner, messages_max.max(1)) {
                return Ok(Some(batch));
            }
            let now = Instant::now();
            if now >= deadline || self.bell.was_called() {
                return Ok(None);
            }
            self.bell.wait(deadline.min(now + BELL_WAIT_MAX));
        }
    }

    /// Ends the wait of a poll, for a caller that also waits for others.
    #[must_use]
    pub fn caller(&self) -> Caller {
        Caller(Arc::clone(&self.bell))
    }

    /// The effects of all before this offset are stored. For lag, and for those who look at the group's offsets.
    pub fn done(&mut self, partition: u32, next_offset: u64) {
        if let Some(held) = self.held.get_mut(&partition) {
            held.done = held.done.max(next_offset);
        }
        if self.shown_at.elapsed() >= SHOW_OFFSETS_EVERY {
            self.show_offsets();
        }
    }

    /// Nothing more is handed out of a partition until it is resumed; at most what is fetched ahead gathers.
    pub fn pause(&mut self, partition: u32) {
        if let Some(held) = self.held.get_mut(&partition) {
            held.paused = true;
        }
    }

    /// Goes on with a paused partition.
    pub fn resume(&mut self, partition: u32) {
        if let Some(held) = self.held.get_mut(&partition) {
            held.paused = false;
        }
    }

    /// Goes back to an offset, such as the beginning of a batch that could not be stored: what was handed out from
    /// there on comes again.
    ///
    /// # Errors
    /// If the client refuses.
    pub fn rewind(&mut self, partition: u32, next_offset: u64) -> Result<(), KafkaError> {
        let Some(held) = self.held.remove(&partition) else { return Ok(()) };
        let claim = Claim { epoch: held.epoch, next_offset };
        let (done, paused) = (held.done, held.paused);
        // Its queue goes before its assignment.
        drop(held);
        self.client.incremental_unassign(&self.list(&[(partition, Offset::Invalid)])).map_err(fatal)?;
        self.assign(&[(partition, claim)])?;
        if let Some(held) = self.held.get_mut(&partition) {
            (held.done, held.paused) = (done.min(next_offset), paused);
        }
        Ok(())
    }

    /// Gives up the claim of a partition and claims it anew, soon. For a caller who finds that its epoch is no longer the
    /// last one although the group still counts on it, and for an operator who has repaired a [`Fault`].
    ///
    /// # Errors
    /// If the client refuses.
    pub fn reclaim(&mut self, partition: u32) -> Result<(), KafkaError> {
        if self.held.remove(&partition).is_none() {
            return Ok(());
        }
        self.unclaimed.insert(partition, Instant::now() + CLAIM_AGAIN);
        self.client.incremental_unassign(&self.list(&[(partition, Offset::Invalid)])).map_err(fatal)
    }

    /// Whether Kafka answers. It is looked at inside [`GroupConsumer::poll`].
    #[must_use]
    pub fn health(&self) -> Health {
        self.client.context().watch.health()
    }

    /// How many partitions the group counts on this member for, and it could not claim yet.
    #[must_use]
    pub fn unclaimed(&self) -> usize {
        self.unclaimed.len()
    }

    /// Whether the group counts on this member for a partition, claimed or not yet.
    #[must_use]
    pub fn is_counted_on(&self, partition: u32) -> bool {
        self.held.contains_key(&partition) || self.unclaimed.contains_key(&partition)
    }

    /// The claimed partitions.
    pub fn partitions(&self) -> impl Iterator<Item = u32> + '_ {
        self.held.keys().copied()
    }

    /// What has been done so far.
    #[must_use]
    pub fn numbers(&self) -> ConsumerNumbers {
        let watch = &self.client.context().watch;
        let of_partition = |(partition, held): (&u32, &Held)| PartitionNumbers {
            partition: *partition,
            epoch: held.epoch,
            next_offset: held.done,
            lag: watch.end(&self.settings.topic, *partition).map(|end| end.saturating_sub(held.done)),
            paused: held.paused,
            fault: held.fault,
        };
        ConsumerNumbers {
            commit_failures: self.client.context().commit_failures.load(Ordering::Relaxed),
            partitions: self.held.iter().map(of_partition).collect(),
            ..self.numbers.clone()
        }
    }

    /// Leaves the group, so that others get the partitions at once. Takes at most about the session timeout, if Kafka
    /// is down.
    pub fn leave(mut self, owner: &mut dyn Owner) {
        self.show_offsets();
        for (partition, held) in std::mem::take(&mut self.held) {
            drop(held);
            owner.released(partition, Release::Left);
        }
    }

    /// Rebalances, statistics and errors: all that is no message.
    fn serve(&mut self, owner: &mut dyn Owner) -> Result<(), KafkaError> {
        // All of them: a rebalance may wait behind statistics, and no message may overtake it.
        let mut away_too_long = false;
        loop {
            let events = self.client.context().events();
            match self.client.poll(Duration::ZERO) {
                None if self.client.context().events() == events => break,
                None => {}
                Some(Err(ClientError::MessageConsumptionFatal(code))) => {
                    return Err(KafkaError::Fatal(code.to_string()));
                }
                Some(Err(error)) => {
                    away_too_long |= error.rdkafka_error_code() == Some(RDKafkaErrorCode::PollExceeded);
                    self.note(&error);
                }
                Some(Ok(message)) => {
                    // It was on its way when its partition got a queue of its own, or is of one that is gone.
                    let record = Record::of(&message);
                    if let Some(held) = self.held.get_mut(&record.partition) {
                        held.early(record);
                    }
                }
            }
        }
        while let Some(rebalance) = self.client.context().next_rebalance() {
            self.numbers.rebalances += 1;
            match rebalance {
                Rebalance::Given(partitions) => self.given(owner, &partitions)?,
                Rebalance::Taken { partitions, lost } => self.taken(owner, &partitions, lost)?,
            }
        }
        if away_too_long {
            // The group has let us go. The client tells so only with its next heartbeat if a rebalance was under way.
            let all: Vec<u32> = self.held.keys().copied().collect();
            self.unclaimed.clear();
            self.taken(owner, &all, true)?;
        }
        self.claim_again(owner)
    }

    fn note(&self, error: &ClientError) {
        self.client.context().watch.client_error(error, &error.to_string());
    }

    fn given(&mut self, owner: &mut dyn Owner, partitions: &[u32]) -> Result<(), KafkaError> {
        let claimed = self.claim(owner, partitions);
        // Also with nothing to assign: the group waits for this answer.
        self.assign(&claimed)
    }

    fn taken(&mut self, owner: &mut dyn Owner, partitions: &[u32], lost: bool) -> Result<(), KafkaError> {
        let why = if lost { Release::Lost } else { Release::Revoked };
        let mut assigned = Vec::new();
        for partition in partitions {
            self.unclaimed.remove(partition);
            if self.held.remove(partition).is_some() {
                owner.released(*partition, why);
                assigned.push((*partition, Offset::Invalid));
            }
        }
        self.client.incremental_unassign(&self.list(&assigned)).map_err(fatal)
    }

    fn claim_again(&mut self, owner: &mut dyn Owner) -> Result<(), KafkaError> {
        let now = Instant::now();
        let due: Vec<u32> =
            self.unclaimed.iter().filter(|(_, at)| **at <= now).map(|(partition, _)| *partition).collect();
        if due.is_empty() {
            return Ok(());
        }
        let claimed = self.claim(owner, &due);
        if claimed.is_empty() { Ok(()) } else { self.assign(&claimed) }
    }

    /// Those that the owner could claim; the others are tried again later.
    fn claim(&mut self, owner: &mut dyn Owner, partitions: &[u32]) -> Vec<(u32, Claim)> {
        let mut claimed = Vec::with_capacity(partitions.len());
        for partition in partitions.iter().copied() {
            match owner.claim(partition) {
                Ok(claim) => {
                    self.unclaimed.remove(&partition);
                    claimed.push((partition, claim));
                }
                Err(_) => {
                    self.numbers.claim_failures += 1;
                    self.unclaimed.insert(partition, Instant::now() + CLAIM_AGAIN);
                }
            }
        }
        claimed
    }

    /// Fetches these from their stored offsets on, each into a queue of its own.
    fn assign(&mut self, claimed: &[(u32, Claim)]) -> Result<(), KafkaError> {
        let mut list = Vec::with_capacity(claimed.len());
        for (partition, claim) in claimed {
            let bell = Arc::clone(&self.bell);
            let number = i32::try_from(*partition).expect("it came from Kafka, which counts so");
            let mut queue = self
                .client
                .split_partition_queue(&self.settings.topic, number)
                .ok_or_else(|| KafkaError::NoTopic(self.settings.topic.clone()))?;
            queue.set_nonempty_callback(move || bell.ring());
            self.held.insert(*partition, Held::new(queue, *claim));
            let offset = i64::try_from(claim.next_offset).unwrap_or(i64::MAX);
            list.push((*partition, Offset::Offset(offset)));
        }
        self.client.incremental_assign(&self.list(&list)).map_err(fatal)
    }

    fn list(&self, partitions: &[(u32, Offset)]) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in partitions {
            let number = i32::try_from(*partition).expect("it came from Kafka, which counts so");
            list.add_partition_offset(&self.settings.topic, number, *offset)
                .expect("an offset that is a number can be listed");
        }
        list
    }

    /// A batch of the first partition behind the last one that has any.
    fn next_batch(&mut self, owner: &mut dyn Owner, messages_max: usize) -> Option<Batch> {
        let held: Vec<u32> = self.held.keys().copied().collect();
        for partition in turns(&held, self.last) {
            let held = self.held.get_mut(&partition)?;
            let next = held.next(messages_max, self.settings.batch_bytes_max);
            match next {
                Next::Nothing => {}
                Next::Batch(Due { from, records, hole }) => {
                    let epoch = held.epoch;
                    if let Some(wanted) = hole
                        && let (first, end) = self.ends(partition)
                        && first > wanted
                    {
                        // It was there, and is gone: no mark of a transaction.
                        self.fault(owner, partition, Fault::OutsideLog { wanted, first, end });
                        continue;
                    }
                    self.last = partition;
                    self.client.context().watch.heard();
                    self.numbers.batches += 1;
                    self.numbers.messages += records.len() as u64;
                    self.numbers.bytes += records.iter().map(|record| record.bytes() as u64).sum::<u64>();
                    self.numbers.largest_batch = self.numbers.largest_batch.max(records.len());
                    return Some(Batch { partition, epoch, from, records });
                }
                Next::Error(error) => self.note(&error),
                Next::Outside { wanted } => {
                    let (first, end) = self.ends(partition);
                    self.fault(owner, partition, Fault::OutsideLog { wanted, first, end });
                }
            }
        }
        None
    }

    fn fault(&mut self, owner: &mut dyn Owner, partition: u32, fault: Fault) {
        if let Some(held) = self.held.get_mut(&partition) {
            held.fault = Some(fault);
            owner.faulted(partition, fault);
        }
    }

    fn ends(&self, partition: u32) -> (u64, u64) {
        let number = i32::try_from(partition).unwrap_or(i32::MAX);
        let ends = self.client.fetch_watermarks(&self.settings.topic, number, ENDS_WAIT);
        let (first, end) = ends.unwrap_or_else(|error| {
            tracing::warn!(topic = self.settings.topic, partition, %error, "the ends of a partition cannot be read; told as 0");
            (0, 0)
        });
        (u64::try_from(first).unwrap_or(0), u64::try_from(end).unwrap_or(0))
    }

    fn show_offsets(&mut self) {
        self.shown_at = Instant::now();
        let done: Vec<(u32, Offset)> = self
            .held
            .iter()
            .filter_map(|(partition, held)| {
                Some((*partition, Offset::Offset(i64::try_from(held.done).ok()?)))
            })
            .collect();
        if !done.is_empty() && self.client.commit(&self.list(&done), CommitMode::Async).is_err() {
            self.client.context().commit_failures.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for GroupConsumer {
    /// The client leaves the group when it goes, and waits until the partitions are given back.
    fn drop(&mut self) {
        self.client.context().leave();
        while let Some(rebalance) = self.client.context().next_rebalance() {
            // The group still waits for the answer to this one.
            let empty = TopicPartitionList::new();
            let _ = match rebalance {
                Rebalance::Given(_) => self.client.incremental_assign(&empty),
                Rebalance::Taken { .. } => self.client.incremental_unassign(&empty),
            };
        }
        self.held.clear();
    }
}

impl std::fmt::Debug for GroupConsumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupConsumer").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// A client that refuses an assignment is in no state to go on.
fn fatal(error: ClientError) -> KafkaError {
    KafkaError::Fatal(error.to_string())
}

/// The partitions in their turn: those behind the last one first.
fn turns(ascending: &[u32], last: u32) -> impl Iterator<Item = u32> + '_ {
    let split = ascending.partition_point(|partition| *partition <= last);
    let (before, behind) = ascending.split_at(split);
    behind.iter().chain(before).copied()
}

#[cfg(test)]
mod tests {
    use super::turns;

    #[test]
    fn nobody_is_served_twice_while_another_waits() {
        let turn = |last| turns(&[2, 5, 9], last).collect::<Vec<_>>();
        assert_eq!((turn(0), turn(2), turn(4)), (vec![2, 5, 9], vec![5, 9, 2], vec![5, 9, 2]));
        assert_eq!((turn(5), turn(9), turn(u32::MAX)), (vec![9, 2, 5], vec![2, 5, 9], vec![2, 5, 9]));
        assert_eq!(turns(&[], 3).count(), 0);
    }
}
