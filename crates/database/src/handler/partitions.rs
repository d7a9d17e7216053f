//! What a handler has claimed: its partitions, and what is the matter with each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_kafka::{Claim as KafkaClaim, Fault, Owner, Release};
use holdfast_messages::{Message, Topic};
use holdfast_postgres::{Claim, Source, Store};

use super::{Begin, BeginError, Hop, Lost};
use crate::health::Part;
use crate::outboxes::Outboxes;
use crate::settings::{BEGIN_PAUSE, BEGIN_PAUSE_MAX, NodeSettings};

/// What a handler has claimed, and the connection it works through.
pub(crate) struct Partitions {
    pub(crate) topic: Topic,
    pub(crate) settings: Arc<NodeSettings>,
    /// The most messages of one transaction.
    pub(crate) batch_messages: usize,
    /// [`Hop::gathers`].
    pub(crate) gathers: bool,
    pub(crate) outboxes: Arc<Outboxes>,
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
    /// Partitions that could not be begun with, and when that is tried again: it may take long, and others wait meanwhile.
    pub(crate) put_off: BTreeMap<u32, PutOff>,
    /// What comes before a partition's first message.
    pub(crate) begin: Begin,
    /// What comes after its last.
    pub(crate) lost: Lost,
}

/// A partition that could not be begun with.
pub(crate) struct PutOff {
    pub(super) until: Instant,
    pause: Duration,
    why: String,
}

impl PutOff {
    /// After one failure more the pause is twice as long.
    fn after(before: Option<PutOff>, now: Instant, why: String) -> PutOff {
        let pause = before.map_or(BEGIN_PAUSE, |before| (before.pause * 2).min(BEGIN_PAUSE_MAX));
        PutOff { until: now + pause, pause, why }
    }
}

/// A partition that waits for a newer program.
pub(crate) struct Newer {
    pub(super) why: String,
    pub(super) look_at: Instant,
}

impl Partitions {
    pub(crate) fn new<M: Message>(
        hop: Hop<M>,
        settings: &Arc<NodeSettings>,
        outboxes: Arc<Outboxes>,
        part: Arc<Part>,
    ) -> Partitions {
        Partitions {
            topic: M::TOPIC,
            settings: Arc::clone(settings),
            batch_messages: settings.batch_messages.min(hop.messages_max),
            gathers: hop.gathers,
            outboxes,
            part,
            store: None,
            claims: BTreeMap::new(),
            faults: BTreeMap::new(),
            newer: BTreeMap::new(),
            failing: BTreeSet::new(),
            resting: BTreeMap::new(),
            put_off: BTreeMap::new(),
            begin: hop.begin,
            lost: hop.lost,
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
        match &begun {
            Ok(_) => drop(self.put_off.remove(&partition)),
            Err(error) => {
                self.part.fails(error);
                self.store = None;
                let before = self.put_off.remove(&partition);
                self.put_off.insert(partition, PutOff::after(before, Instant::now(), error.to_string()));
            }
        }
        begun
    }

    pub(super) fn forget(&mut self, partition: u32) {
        if let Some(claim) = self.claims.remove(&partition) {
            self.outboxes.remove(&claim);
        }
        self.faults.remove(&partition);
        self.failing.remove(&partition);
        self.resting.remove(&partition);
    }
}

impl Owner for Partitions {
    fn claim(&mut self, partition: u32) -> Result<KafkaClaim, Box<dyn std::error::Error + Send + Sync>> {
        if let Some(put_off) = self.put_off.get(&partition).filter(|put_off| put_off.until > Instant::now()) {
            return Err(put_off.why.as_str().into());
        }
        let source = Source::Consumer(self.topic, partition);
        let claimed = self.settings.connected(&mut self.store).and_then(|store| store.claim(&source));
        let claim = claimed.inspect_err(|error| {
            self.part.fails(error);
            // A connection that failed is not used again.
            self.store = None;
        })?;
        let claim = self.begun(partition, claim)?;
        self.forget(partition);
        self.claims.insert(partition, claim);
        self.outboxes.put(claim);
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
        self.put_off.remove(&partition);
    }

    fn faulted(&mut self, partition: u32, fault: Fault) {
        tracing::error!(topic = self.topic.name(), partition, %fault, "nothing more can be read of a partition");
        self.faults.insert(partition, fault);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_after_failures_grow_and_are_bounded() {
        let (now, mut put_off) = (Instant::now(), None);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let after = PutOff::after(put_off.take(), now, String::new());
            pauses.push(after.until - now);
            put_off = Some(after);
        }
        assert_eq!(pauses[..3], [BEGIN_PAUSE, 2 * BEGIN_PAUSE, 4 * BEGIN_PAUSE]);
        assert_eq!(pauses[7], BEGIN_PAUSE_MAX);
    }
}
