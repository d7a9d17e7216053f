//! What the order consumers of this node's partitions know of open tries. It lies in memory alone: whoever takes a partition
//! over reads the log of `outcomes` from the oldest open try on, to its end, and goes on from there.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use holdfast_checkout::Coordinator;
use holdfast_checkout::coordinator::LogBounds;
use holdfast_kafka::{From, KafkaError, Reader, Record};
use holdfast_messages::{OutcomeMessage, Topic};
use holdfast_postgres::shop::Rebuilt;
use holdfast_postgres::{Claim, Incoming, Source, Store};

use super::limits::{REBUILD_PIECES, REBUILD_RECORDS, REBUILD_WAIT};
use crate::handler::BeginError;
use crate::settings::NodeSettings;

/// By the claim's partition, with the epoch it belongs to.
#[derive(Default)]
pub(crate) struct Coordinators(Mutex<BTreeMap<u32, (i64, Coordinator)>>);

impl Coordinators {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, (i64, Coordinator)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is known under that claim; `None`: nothing, the partition must be begun anew. Whoever fails does not put it
    /// back.
    pub(crate) fn take(&self, claim: &Claim) -> Option<Coordinator> {
        let taken = self.lock().remove(&partition_of(claim)?)?;
        (taken.0 == claim.epoch).then_some(taken.1)
    }

    pub(crate) fn put(&self, claim: &Claim, coordinator: Coordinator) {
        let Some(partition) = partition_of(claim) else { return };
        let mut all = self.lock();
        // A later claim of the same partition has begun meanwhile.
        if all.get(&partition).is_none_or(|(epoch, _)| *epoch <= claim.epoch) {
            all.insert(partition, (claim.epoch, coordinator));
        }
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
        let (log, records) = read(settings, partition, stored)?;
        let count = records.len();
        match store.rebuild_outcomes(&claim, log, &records)? {
            Rebuilt::Fenced => Err("another node has claimed the partition meanwhile".into()),
            Rebuilt::Done { coordinator, next, .. } => {
                let open = coordinator.open_count();
                tracing::info!(partition, records = count, open, took = ?began.elapsed(), "checkouts rebuilt");
                metrics::histogram!("holdfast_checkout_rebuild_seconds")
                    .record(began.elapsed().as_secs_f64());
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
) -> Result<(LogBounds, Vec<Incoming<OutcomeMessage>>), KafkaError> {
    let mut deadline = Instant::now() + REBUILD_WAIT;
    let topic = settings.topics.name(Topic::Outcomes);
    let from = From::Offset(stored.unwrap_or(0));
    let mut reader = Reader::open_partition(&settings.brokers, &topic, partition, &from, deadline)?;
    let at = partition as usize;
    let log = LogBounds { start: reader.starts()[at], end: reader.ends()[at] };
    // What was read is understood on another thread, while more is read.
    let records = std::thread::scope(|scope| {
        let (put, take) = sync_channel::<Vec<Record>>(REBUILD_PIECES);
        let understanding = scope.spawn(move || {
            // What came after the look at its end is read by the consumer.
            let ours = take.into_iter().flatten().filter(|record| record.offset < log.end);
            ours.map(|record| Incoming::read(record.offset, record.key, record.value)).collect()
        });
        while !reader.at_end() {
            let read = reader.poll(REBUILD_RECORDS, deadline)?;
            if !read.is_empty() {
                deadline = Instant::now() + REBUILD_WAIT;
            } else if Instant::now() >= deadline {
                let why =
                    format!("nothing of partition {partition} of {topic} was read for {REBUILD_WAIT:?}");
                return Err(KafkaError::Fatal(why));
            }
            if put.send(read).is_err() {
                break;
            }
        }
        drop(put);
        Ok(understanding.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })?;
    Ok((log, records))
}
