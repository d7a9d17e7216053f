//! What the order consumers of this node's partitions know of open tries. It lies in memory alone: whoever takes a partition
//! over reads the log of `outcomes` from the oldest open try on, to its end, and goes on from there.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use holdfast_checkout::Coordinator;
use holdfast_checkout::coordinator::LogBounds;
use holdfast_engine::Monitor;
use holdfast_kafka::{From, Reader, Record};
use holdfast_messages::{OutcomeMessage, Topic};
use holdfast_postgres::shop::{Rebuilt, report};
use holdfast_postgres::{Claim, Incoming, Source, Store};

use super::limits::{REBUILD_PIECES, REBUILD_RECORDS, REBUILD_WAIT};
use super::misplaced::misplaced;
use crate::handler::BeginError;
use crate::meters::RebuildMeters;
use crate::settings::NodeSettings;

/// By the claim's partition, with the epoch it belongs to.
pub(crate) struct Coordinators {
    known: Monitor<BTreeMap<u32, (i64, Coordinator)>>,
    meters: RebuildMeters,
}

impl Default for Coordinators {
    fn default() -> Coordinators {
        Coordinators { known: Monitor::default(), meters: RebuildMeters::new() }
    }
}

impl Coordinators {
    /// Takes what is known under that claim; `None`: nothing, the partition must be begun anew. Whoever fails does not put it
    /// back.
    pub(crate) fn take(&self, claim: &Claim) -> Option<Coordinator> {
        let (partition, mut all) = (partition_of(claim)?, self.known.lock());
        // What a later claim has rebuilt is not an old job's to take away.
        all.get(&partition).filter(|(epoch, _)| *epoch == claim.epoch)?;
        all.remove(&partition).map(|(_, coordinator)| coordinator)
    }

    pub(crate) fn put(&self, claim: &Claim, coordinator: Coordinator) {
        let Some(partition) = partition_of(claim) else { return };
        let mut all = self.known.lock();
        // A later claim of the same partition has begun meanwhile.
        if all.get(&partition).is_none_or(|(epoch, _)| *epoch <= claim.epoch) {
            all.insert(partition, (claim.epoch, coordinator));
        }
    }

    /// The partition is another node's: whoever gets it again rebuilds.
    pub(crate) fn forget(&self, partition: u32) {
        self.known.lock().remove(&partition);
    }

    /// Rebuilds what is open in a partition that was just claimed; the claim begins behind what was read.
    pub(crate) fn rebuild(
        &self,
        settings: &Arc<NodeSettings>,
        store: &mut Store,
        partition: u32,
        claim: Claim,
    ) -> Result<Claim, BeginError> {
        let began = Instant::now();
        let stored = store.outcome_offset(partition)?;
        let (log, mut records) = read(settings, partition, stored)?;
        let count = records.len();
        let mut alarms = Vec::new();
        records.retain(|record| {
            // Its try would never be heard of again here: it would stay open, and hold the offset to rebuild from.
            let said = record.message.as_ref().ok().map(OutcomeMessage::said);
            let alarm = said.and_then(|said| misplaced(settings, partition, said));
            // Of what the offset has passed, somebody was told before.
            alarms.extend(alarm.clone().filter(|_| record.offset >= claim.offset));
            alarm.is_none()
        });
        report(&alarms);
        match store.rebuild_outcomes(&claim, log, &records)? {
            Rebuilt::Fenced => Err("another node has claimed the partition meanwhile".into()),
            Rebuilt::Done { coordinator, next, mut done } => {
                let (open, took) = (coordinator.open_count(), began.elapsed());
                tracing::info!(partition, records = count, open, ?took, "checkouts rebuilt");
                done.alarms.append(&mut alarms);
                self.meters.done(&done, took);
                self.put(&claim, coordinator);
                Ok(Claim { offset: next, ..claim })
            }
        }
    }
}

const fn partition_of(claim: &Claim) -> Option<u32> {
    match claim.source {
        Source::Consumer(_, partition) => Some(partition),
        _ => None,
    }
}

/// The records of a partition from that place on to its end; what is gone is passed over.
fn read(
    settings: &NodeSettings,
    partition: u32,
    stored: Option<u64>,
) -> Result<(LogBounds, Vec<Incoming<OutcomeMessage>>), BeginError> {
    let mut deadline = Instant::now() + REBUILD_WAIT;
    let topic = settings.topics.name(Topic::Outcomes);
    let open = |from| Reader::open_partition(&settings.brokers, &topic, partition, &from, deadline);
    let (at, mut reader) = (partition as usize, open(From::Offset(stored.unwrap_or(0)))?);
    if stored > Some(reader.ends()[at]) {
        // The log has lost records, or is another: what it has was not seen before, or not all of it.
        reader = open(From::Start)?;
    }
    let (start, seen_end) = (reader.starts()[at], reader.ends()[at]);
    // What was read is understood on another thread, while more is read.
    let records = std::thread::scope(|scope| {
        let (put, take) = sync_channel::<Vec<Record>>(REBUILD_PIECES);
        let understanding = scope.spawn(move || {
            // What came after the look at its end is read by the consumer.
            let ours = take.into_iter().flatten().filter(|record| record.offset < seen_end);
            ours.map(|record| Incoming::read(record.offset, record.key, record.value)).collect()
        });
        while !reader.at_end() {
            let read = reader.poll(REBUILD_RECORDS, deadline)?;
            if !read.is_empty() {
                deadline = Instant::now() + REBUILD_WAIT;
            } else if Instant::now() >= deadline {
                return Err(BeginError::from(format!(
                    "nothing of partition {partition} of {topic} was read for {REBUILD_WAIT:?}; it is tried again: are Kafka's brokers up?"
                )));
            }
            if put.send(read).is_err() {
                break;
            }
        }
        drop(put);
        Ok(understanding.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })?;
    // Behind what was read there may be marks of transactions, and messages of one that is still open: the consumer begins there.
    let end = reader.next_offsets()[at].min(seen_end);
    Ok((LogBounds { start, end }, records))
}
