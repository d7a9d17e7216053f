//! What a handler has claimed: its partitions, and what is the matter with each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use holdfast_kafka::{Claim as KafkaClaim, Fault, Owner, Release};
use holdfast_messages::Topic;
use holdfast_postgres::{Claim, Error, Source, Store};

use super::BeginError;
use crate::board::Board;
use crate::health::Part;
use crate::settings::NodeSettings;

/// [`Hop::begin`](super::Hop::begin) of some hop.
pub(crate) type Begin = Box<dyn Fn(&mut Store, u32, Claim) -> Result<Claim, BeginError> + Send>;

/// [`Hop::lost`](super::Hop::lost) of some hop.
pub(crate) type Lost = Box<dyn Fn(u32) + Send>;

/// What a handler has claimed, and the connection it works through.
pub(crate) struct Desk {
    pub(crate) topic: Topic,
    pub(crate) settings: Arc<NodeSettings>,
    /// The most messages of one transaction.
    pub(crate) batch_messages: usize,
    /// [`Hop::GATHERS`](super::Hop::GATHERS).
    pub(crate) gathers: bool,
    pub(crate) board: Arc<Board>,
    pub(crate) part: Arc<Part>,
    pub(crate) store: Option<Store>,
    pub(crate) claims: BTreeMap<u32, Claim>,
    /// Partitions of which nothing more can be read.
    pub(crate) faults: BTreeMap<u32, Fault>,
    /// Partitions whose last batch could not be decided.
    pub(crate) failing: BTreeSet<u32>,
    /// Partitions of which nothing is taken until then: their last batch has just failed, or was small.
    pub(crate) resting: BTreeMap<u32, Instant>,
    /// Partitions that stand before a message that is newer than this program.
    pub(crate) newer: BTreeMap<u32, Newer>,
    /// What comes before a partition's first message.
    pub(crate) begin: Begin,
    /// What comes after its last.
    pub(crate) lost: Lost,
}

/// A partition that waits for a newer program.
pub(crate) struct Newer {
    pub(super) why: String,
    pub(super) look_at: Instant,
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
            batch_messages: settings.batch_messages,
            gathers: true,
            board: Arc::clone(board),
            part: Arc::clone(part),
            store: None,
            claims: BTreeMap::new(),
            faults: BTreeMap::new(),
            newer: BTreeMap::new(),
            failing: BTreeSet::new(),
            resting: BTreeMap::new(),
            begin: Box::new(|_, _, claim| Ok(claim)),
            lost: Box::new(|_| ()),
        }
    }

    fn store(&mut self) -> Result<&mut Store, Error> {
        match &mut self.store {
            Some(store) => Ok(store),
            none => Ok(none.insert(self.settings.connect()?)),
        }
    }

    /// The first partition of which nothing more can be read.
    pub(super) fn fault(&self) -> Option<String> {
        let of = |partition: &u32, why: &dyn std::fmt::Display| {
            format!("partition {partition} of {}: {why}", self.topic.name())
        };
        let lost = self.faults.first_key_value().map(|(partition, fault)| of(partition, fault));
        lost.or_else(|| self.newer.first_key_value().map(|(partition, newer)| of(partition, &newer.why)))
    }

    fn begun(&mut self, partition: u32, claim: Claim) -> Result<Claim, BeginError> {
        let Some(store) = &mut self.store else { return Err("there is no connection".into()) };
        let begun = (self.begin)(store, partition, claim);
        begun.inspect_err(|error| {
            self.part.fails(error);
            self.store = None;
        })
    }

    pub(super) fn forget(&mut self, partition: u32) {
        if let Some(claim) = self.claims.remove(&partition) {
            self.board.remove(&claim);
        }
        self.faults.remove(&partition);
        self.failing.remove(&partition);
        self.resting.remove(&partition);
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
        let claim = self.begun(partition, claim)?;
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
        (self.lost)(partition);
        self.newer.remove(&partition);
    }

    fn faulted(&mut self, partition: u32, fault: Fault) {
        tracing::error!(topic = self.topic.name(), partition, %fault, "nothing more can be read of a partition");
        self.faults.insert(partition, fault);
    }
}
