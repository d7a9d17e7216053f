//! The handlers: claim partitions, take batches, decide each in one transaction.
//!
//! Where a handler begins is told by the guard row and by nothing else. After a failure the batch comes again; if it had
//! been committed after all, the stored offset differs, the step is refused and the partition claimed anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_kafka::{
    Batch as Fetched, Claim as KafkaClaim, Fault, GroupConsumer, Health, KafkaError, Owner, Release,
};
use holdfast_messages::{Message, Notification, PositionMessage, Topic, TransferMessage};
use holdfast_postgres::{Batch, Claim, Error, Incoming, Source, Step, Store};

use crate::board::Board;
use crate::health::Part;
use crate::meters::HandlerMeters;
use crate::settings::{NEWER_PAUSE, NodeSettings, POLL_WAIT, TROUBLE_PAUSE};
use crate::stop::Stop;

/// How often numbers are published.
const STAND_EVERY: Duration = Duration::from_secs(1);

/// What a handler does with the messages of its topic.
pub(crate) trait Hop: 'static {
    const TOPIC: Topic;
    type Message: Message;

    fn step(store: &mut Store, claim: &Claim, batch: &Batch<'_, Self::Message>) -> Result<Step, Error>;
}

/// Handler 1.
pub(crate) struct Transfers;

impl Hop for Transfers {
    const TOPIC: Topic = Topic::Transfers;
    type Message = TransferMessage;

    fn step(store: &mut Store, claim: &Claim, batch: &Batch<'_, TransferMessage>) -> Result<Step, Error> {
        store.transfers(claim, batch)
    }
}

/// Handler 2.
pub(crate) struct Position;

impl Hop for Position {
    const TOPIC: Topic = Topic::Position;
    type Message = PositionMessage;

    fn step(store: &mut Store, claim: &Claim, batch: &Batch<'_, PositionMessage>) -> Result<Step, Error> {
        store.positions(claim, batch)
    }
}

/// Handler 3: who is called with what. The rows that it writes are delivered by the edge.
pub(crate) struct Callbacks;

impl Hop for Callbacks {
    const TOPIC: Topic = Topic::Notifications;
    type Message = Notification;

    fn step(store: &mut Store, claim: &Claim, batch: &Batch<'_, Notification>) -> Result<Step, Error> {
        store.callbacks(claim, batch)
    }
}

/// What a handler has claimed, and the connection it works through.
pub(crate) struct Desk {
    pub(crate) topic: Topic,
    pub(crate) settings: Arc<NodeSettings>,
    pub(crate) board: Arc<Board>,
    pub(crate) part: Arc<Part>,
    pub(crate) store: Option<Store>,
    pub(crate) claims: BTreeMap<u32, Claim>,
    /// Partitions of which nothing more can be read.
    pub(crate) faults: BTreeMap<u32, Fault>,
    /// Partitions that stand before a message that is newer than this program.
    pub(crate) newer: BTreeMap<u32, Newer>,
}

/// A partition that waits for a newer program.
pub(crate) struct Newer {
    why: String,
    look_at: Instant,
}

impl Desk {
    pub(crate) fn new(
        topic: Topic,
        settings: &Arc<NodeSettings>,
        board: &Arc<Board>,
        part: &Arc<Part>,
    ) -> Desk {
        Desk {
            topic,
            settings: Arc::clone(settings),
            board: Arc::clone(board),
            part: Arc::clone(part),
            store: None,
            claims: BTreeMap::new(),
            faults: BTreeMap::new(),
            newer: BTreeMap::new(),
        }
    }

    fn store(&mut self) -> Result<&mut Store, Error> {
        match &mut self.store {
            Some(store) => Ok(store),
            none => Ok(none.insert(self.settings.connect()?)),
        }
    }

    /// The first partition of which nothing more can be read.
    fn fault(&self) -> Option<String> {
        let of = |partition: &u32, why: &dyn std::fmt::Display| {
            format!("partition {partition} of {}: {why}", self.topic.name())
        };
        let lost = self.faults.first_key_value().map(|(partition, fault)| of(partition, fault));
        lost.or_else(|| self.newer.first_key_value().map(|(partition, newer)| of(partition, &newer.why)))
    }

    fn forget(&mut self, partition: u32) {
        if let Some(claim) = self.claims.remove(&partition) {
            self.board.remove(&claim);
        }
        self.faults.remove(&partition);
    }
}

impl Owner for Desk {
    fn claim(&mut self, partition: u32) -> Result<KafkaClaim, Box<dyn std::error::Error + Send + Sync>> {
        let source = Source::consumer(self.topic, partition);
        let claimed = self.store().and_then(|store| store.claim(&source));
        let claim = claimed.inspect_err(|error| {
            self.part.fails(error);
            // A connection that failed is not used again.
            self.store = None;
        })?;
        self.forget(partition);
        self.claims.insert(partition, claim);
        self.board.put(claim);
        tracing::info!(
            topic = self.topic.name(),
            partition,
            epoch = claim.epoch,
            from = claim.offset,
            "claimed"
        );
        Ok(KafkaClaim { epoch: claim.epoch, next_offset: claim.offset })
    }

    fn released(&mut self, partition: u32, why: Release) {
        tracing::info!(topic = self.topic.name(), partition, ?why, "released");
        self.forget(partition);
        self.newer.remove(&partition);
    }

    fn faulted(&mut self, partition: u32, fault: Fault) {
        tracing::error!(topic = self.topic.name(), partition, %fault, "nothing more can be read of a partition");
        self.faults.insert(partition, fault);
    }
}

/// One handler on its thread.
pub(crate) struct Handler {
    pub(crate) consumer: GroupConsumer,
    pub(crate) desk: Desk,
    pub(crate) stop: Arc<Stop>,
    pub(crate) meters: HandlerMeters,
}

impl Handler {
    pub(crate) fn run<H: Hop>(mut self) {
        let mut shown = Instant::now();
        while !self.stop.is_set() {
            if let Err(error) = self.turn::<H>() {
                // The client is of no use any more; partitions go to other nodes, and an operator sees why.
                self.desk.part.fails(&error);
                tracing::error!(topic = H::TOPIC.name(), %error, "a handler ends");
                break;
            }
            if shown.elapsed() >= STAND_EVERY {
                self.meters.stand(&self.consumer.numbers(), self.desk.newer.len());
                shown = Instant::now();
            }
        }
        self.consumer.leave(&mut self.desk);
    }

    fn turn<H: Hop>(&mut self) -> Result<(), KafkaError> {
        let messages = self.desk.settings.batch_messages;
        self.look_at_newer()?;
        let fetched = self.consumer.poll(&mut self.desk, messages, Instant::now() + POLL_WAIT)?;
        let Some(fetched) = fetched else {
            self.look_around();
            return Ok(());
        };
        let Some(claim) = self.desk.claims.get(&fetched.partition).copied() else { return Ok(()) };
        let mut incoming = read::<H>(&fetched);
        // What lies before a newer message is decided; one that comes first is the store's to refuse.
        if let Some(known) =
            incoming.iter().position(|message| message.newer().is_some()).filter(|at| *at > 0)
        {
            incoming.truncate(known);
        }
        let batch = Batch::new(fetched.first_offset(), &incoming);
        let began = Instant::now();
        let stepped = self.desk.store().and_then(|store| H::step(store, &claim, &batch));
        match stepped {
            Ok(Step::Done(done)) => {
                self.meters.done(&done, began.elapsed());
                self.consumer.done(fetched.partition, batch.next);
                self.desk.board.ring(claim.segment_id);
                if batch.next < fetched.next_offset() {
                    self.consumer.rewind(fetched.partition, batch.next)?;
                } else {
                    self.desk.newer.remove(&fetched.partition);
                }
                self.look_around();
                Ok(())
            }
            Err(error @ Error::Newer { .. }) => {
                let newer = Newer { why: error.to_string(), look_at: Instant::now() + NEWER_PAUSE };
                self.desk.newer.insert(fetched.partition, newer);
                self.look_around();
                // Other partitions go on.
                self.consumer.pause(fetched.partition);
                self.consumer.rewind(fetched.partition, fetched.first_offset())
            }
            Ok(Step::Fenced) => {
                tracing::warn!(
                    topic = H::TOPIC.name(),
                    partition = fetched.partition,
                    "fenced; claimed anew"
                );
                self.meters.fenced.increment(1);
                self.desk.forget(fetched.partition);
                self.consumer.reclaim(fetched.partition)
            }
            Err(error) => {
                self.desk.part.fails(&error);
                self.meters.failures.increment(1);
                if !matches!(error, Error::Busy { .. }) {
                    self.desk.store = None;
                }
                self.stop.pause(TROUBLE_PAUSE);
                self.consumer.rewind(fetched.partition, fetched.first_offset())
            }
        }
    }

    /// Claims partitions anew that wait for a newer program, now and then: an operator may have moved the stored offset past
    /// the message.
    fn look_at_newer(&mut self) -> Result<(), KafkaError> {
        let now = Instant::now();
        for (partition, newer) in &mut self.desk.newer {
            if newer.look_at <= now {
                newer.look_at = now + NEWER_PAUSE;
                self.consumer.reclaim(*partition)?;
            }
        }
        Ok(())
    }

    /// Is all well? One partition that stands still must not be hidden by others that go on.
    fn look_around(&mut self) {
        if let Some(fault) = self.desk.fault() {
            self.desk.part.fails(fault);
        } else if let Health::Down { why, .. } = self.consumer.health() {
            self.desk.part.fails(format!("Kafka is down: {why}"));
        } else if self.desk.store.is_some() {
            self.desk.part.works();
        }
    }
}

fn read<H: Hop>(fetched: &Fetched) -> Vec<Incoming<H::Message>> {
    fetched
        .records
        .iter()
        .map(|record| Incoming::read(record.offset, record.key.clone(), record.value.clone()))
        .collect()
}
