//! What the client calls us back with, kept until the handler's own thread looks at it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use rdkafka::TopicPartitionList;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError as ClientError, KafkaResult};
use rdkafka::statistics::Statistics;
use rdkafka::types::RDKafkaRespErr;

use crate::health::Watch;

/// The group gave partitions or takes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rebalance {
    Given(Vec<u32>),
    Taken { partitions: Vec<u32>, lost: bool },
}

/// The handler assigns partitions itself once it has claimed them, so here a rebalance is only noted. The group waits
/// for that; the client's own threads keep the membership alive meanwhile.
#[derive(Debug, Default)]
pub(crate) struct GroupContext {
    rebalances: Mutex<VecDeque<Rebalance>>,
    /// From now on the partitions go back at once, for there is no handler any more.
    leaving: AtomicBool,
    pub(crate) watch: Watch,
    pub(super) commit_failures: AtomicU64,
    /// How many events the client has called us back with.
    events: AtomicU64,
}

impl GroupContext {
    pub(super) fn next_rebalance(&self) -> Option<Rebalance> {
        self.rebalances.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// How many events there were. A poll that gives nothing may have taken one, and more may wait behind it; only one
    /// that leaves this number as it was has found the queue empty.
    pub(super) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    fn count(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    /// The handler goes.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
    }
}

impl ClientContext for GroupContext {
    fn log(&self, level: RDKafkaLogLevel, _: &str, message: &str) {
        self.count();
        if matches!(
            level,
            RDKafkaLogLevel::Emerg
                | RDKafkaLogLevel::Alert
                | RDKafkaLogLevel::Critical
                | RDKafkaLogLevel::Error
        ) {
            self.watch.error(false, message);
        }
    }

    fn error(&self, error: ClientError, reason: &str) {
        self.count();
        self.watch.client_error(&error, reason);
    }

    fn stats_raw(&self, statistics: &[u8]) {
        self.count();
        // What cannot be read says nothing; the next ones come in a second.
        if let Ok(statistics) = serde_json::from_slice::<Statistics>(statistics) {
            self.watch.statistics(&statistics);
        }
    }
}

impl ConsumerContext for GroupContext {
    fn rebalance(&self, client: &BaseConsumer<Self>, kind: RDKafkaRespErr, list: &mut TopicPartitionList) {
        self.count();
        let partitions = list.elements();
        let partitions =
            partitions.iter().filter_map(|element| u32::try_from(element.partition()).ok()).collect();
        let rebalance = match kind {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Rebalance::Given(partitions),
            _ => Rebalance::Taken { partitions, lost: client.assignment_lost() },
        };
        if self.leaving.load(Ordering::Acquire) {
            // A client that leaves takes any answer for giving all back. It cannot fail then, and nobody could help.
            let _ = client.incremental_unassign(&TopicPartitionList::new());
            return;
        }
        self.rebalances.lock().unwrap_or_else(PoisonError::into_inner).push_back(rebalance);
    }

    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        self.count();
        // Group offsets are for display: the next commit repairs what this one missed.
        if result.is_err() {
            self.commit_failures.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Rings when one of several queues gets something.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
    /// Whoever waits is wanted elsewhere.
    called: AtomicBool,
}

/// Ends a wait inside [`GroupConsumer::poll`](super::GroupConsumer::poll), from any thread.
#[derive(Debug, Clone)]
pub struct Caller(pub(super) Arc<Bell>);

impl Caller {
    /// The poll that waits, or else the next one, returns as soon as it has nothing to hand out.
    pub fn call(&self) {
        self.0.called.store(true, Ordering::Release);
        self.0.ring();
    }
}

impl Bell {
    pub(super) fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.heard.notify_one();
    }

    /// Whether somebody called since the last time.
    pub(super) fn was_called(&self) -> bool {
        self.called.swap(false, Ordering::AcqRel)
    }

    /// Waits until it rings, or has rung since the last wait.
    pub(super) fn wait(&self, until: Instant) {
        let mut rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        while !*rung {
            let Some(wait) = until.checked_duration_since(Instant::now()).filter(|wait| !wait.is_zero())
            else {
                break;
            };
            rung = self.heard.wait_timeout(rung, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        *rung = false;
    }
}
