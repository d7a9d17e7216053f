//! What `/metrics` shows of a node. The names are the interface; `docs/database.md` tells what they mean.

use std::time::Duration;

use holdfast_engine::ShopMeters;
use holdfast_kafka::ConsumerNumbers;
use holdfast_messages::Topic;
use holdfast_postgres::Done;
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

/// What a step did to checkouts, whoever took it: a handler, a rebuild, the scan for deadlines.
fn count_checkouts(meters: &ShopMeters, done: &Done) {
    meters.count(&done.tally, &done.alarms);
    meters.repeats.increment(done.repeats as u64);
}

/// Of the rebuilds of checkouts.
pub(crate) struct RebuildMeters {
    shop: ShopMeters,
    dead_letters: Counter,
    took: Histogram,
}

impl RebuildMeters {
    pub(crate) fn new() -> RebuildMeters {
        RebuildMeters {
            shop: ShopMeters::default(),
            dead_letters: dead_letters(Topic::Outcomes.name()),
            took: histogram!("holdfast_checkout_rebuild_seconds"),
        }
    }

    pub(crate) fn done(&self, done: &Done, took: Duration) {
        count_checkouts(&self.shop, done);
        self.dead_letters.increment(done.dead_letters as u64);
        self.took.record(took.as_secs_f64());
    }
}

fn dead_letters(topic: &'static str) -> Counter {
    counter!("holdfast_cluster_dead_letters_total", "topic" => topic)
}

/// Of one handler.
pub(crate) struct HandlerMeters {
    topic: &'static str,
    shop: ShopMeters,
    messages: Counter,
    dead_letters: Counter,
    batch: Histogram,
    commit: Histogram,
    transactions: Counter,
    retries: Counter,
    unheard: Counter,
    pub(crate) fenced: Counter,
    pub(crate) failures: Counter,
}

impl HandlerMeters {
    pub(crate) fn new(topic: &'static str) -> HandlerMeters {
        HandlerMeters {
            topic,
            shop: ShopMeters::default(),
            messages: counter!("holdfast_cluster_messages_total", "topic" => topic),
            dead_letters: dead_letters(topic),
            batch: histogram!("holdfast_cluster_batch_messages", "topic" => topic),
            commit: histogram!("holdfast_cluster_batch_seconds", "topic" => topic),
            transactions: counter!("holdfast_cluster_transactions_total", "topic" => topic),
            retries: counter!("holdfast_cluster_retries_total", "topic" => topic),
            unheard: counter!("holdfast_callbacks_without_endpoint_total"),
            fenced: counter!("holdfast_cluster_fenced_total", "topic" => topic),
            failures: counter!("holdfast_cluster_failures_total", "topic" => topic),
        }
    }

    pub(crate) fn done(&self, done: &Done, took: Duration) {
        self.messages.increment(done.messages as u64);
        self.dead_letters.increment(done.dead_letters as u64);
        self.transactions.increment(done.transactions as u64);
        self.retries.increment(done.retries as u64);
        self.unheard.increment(done.unheard as u64);
        count_checkouts(&self.shop, done);
        // Batches are far below 2^52 messages.
        self.batch.record(u32::try_from(done.messages).map_or(f64::MAX, f64::from));
        self.commit.record(took.as_secs_f64());
    }

    /// Where the partitions stand.
    pub(crate) fn stand(&self, numbers: &ConsumerNumbers, newer: usize) {
        let topic = self.topic;
        let newer = u32::try_from(newer).map_or(f64::MAX, f64::from);
        gauge!("holdfast_cluster_partitions_before_newer", "topic" => topic).set(newer);
        counter!("holdfast_cluster_rebalances_total", "topic" => topic).absolute(numbers.rebalances);
        counter!("holdfast_cluster_claim_failures_total", "topic" => topic).absolute(numbers.claim_failures);
        counter!("holdfast_cluster_offset_failures_total", "topic" => topic)
            .absolute(numbers.commit_failures);
        let partitions = u32::try_from(numbers.partitions.len()).map_or(f64::MAX, f64::from);
        gauge!("holdfast_cluster_partitions", "topic" => topic).set(partitions);
        for partition in &numbers.partitions {
            let lag = partition.lag.map_or(f64::NAN, |lag| u32::try_from(lag).map_or(f64::MAX, f64::from));
            let number = partition.partition.to_string();
            gauge!("holdfast_cluster_lag", "topic" => topic, "partition" => number).set(lag);
        }
    }
}

/// Of one relay.
pub(crate) struct RelayMeters {
    pub(crate) sent: Counter,
    pub(crate) failures: Counter,
    pub(crate) left_out: Counter,
}

impl RelayMeters {
    pub(crate) fn new(of: &'static str) -> RelayMeters {
        RelayMeters {
            sent: counter!("holdfast_cluster_relayed_total", "from" => of),
            failures: counter!("holdfast_cluster_relay_failures_total", "from" => of),
            left_out: counter!("holdfast_cluster_relay_left_out_total", "from" => of),
        }
    }
}

/// Of the expiry scan.
pub(crate) struct ExpiryMeters {
    expired: Counter,
    scan: Histogram,
    pub(crate) failures: Counter,
    shop: ShopMeters,
    shards: Gauge,
}

impl ExpiryMeters {
    pub(crate) fn of_holds() -> ExpiryMeters {
        ExpiryMeters {
            expired: counter!("holdfast_holds_expired_total"),
            scan: histogram!("holdfast_cluster_scan_seconds"),
            failures: counter!("holdfast_cluster_failures_total", "topic" => "expiry"),
            shop: ShopMeters::default(),
            shards: gauge!("holdfast_cluster_shards"),
        }
    }

    pub(crate) fn of_checkouts() -> ExpiryMeters {
        ExpiryMeters {
            expired: counter!("holdfast_checkouts_overdue_total"),
            scan: histogram!("holdfast_checkout_scan_seconds"),
            failures: counter!("holdfast_cluster_failures_total", "topic" => "deadlines"),
            shop: ShopMeters::default(),
            shards: gauge!("holdfast_checkout_shards"),
        }
    }

    /// What a scan has ended.
    pub(crate) fn done(&self, done: &Done, took: Duration) {
        self.scan.record(took.as_secs_f64());
        count_checkouts(&self.shop, done);
        self.expired.increment(done.messages as u64);
    }

    pub(crate) fn shards(&self, held: usize) {
        self.shards.set(u32::try_from(held).map_or(f64::MAX, f64::from));
    }
}
