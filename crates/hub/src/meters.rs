//! What `/metrics` shows of the loop. The names are the interface; `docs/operations.md` lists them.

use std::time::Duration;

use metrics::{Counter, Gauge, counter, gauge};

/// The stages of a frame whose time is summed up.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stage {
    /// Taking what waits and copying it into one buffer.
    Close,
    /// Decide, apply, audit chain.
    Decide,
    /// Write and fdatasync.
    Append,
    /// Handing out the answers.
    Answer,
}

/// Handles on the loop's metrics, made once.
pub(crate) struct Meters {
    pub(crate) frames: Counter,
    pub(crate) records: Counter,
    pub(crate) log_bytes: Counter,
    pub(crate) refused_busy: Counter,
    pub(crate) expired: Counter,
    pub(crate) alarms: Counter,
    pub(crate) callbacks_without_endpoint: Counter,
    pub(crate) open_holds: Gauge,
    stages: [Counter; 4],
}

impl Default for Meters {
    fn default() -> Meters {
        let stage = |name: &'static str| counter!("holdfast_stage_nanoseconds_total", "stage" => name);
        Meters {
            frames: counter!("holdfast_frames_total"),
            records: counter!("holdfast_records_total"),
            log_bytes: counter!("holdfast_log_payload_bytes_total"),
            refused_busy: counter!("holdfast_refused_busy_total"),
            expired: counter!("holdfast_holds_expired_total"),
            alarms: counter!("holdfast_limit_alarms_total"),
            callbacks_without_endpoint: counter!("holdfast_callbacks_without_endpoint_total"),
            open_holds: gauge!("holdfast_open_holds"),
            stages: [stage("close"), stage("decide"), stage("append"), stage("answer")],
        }
    }
}

impl Meters {
    pub(crate) fn spent(&self, stage: Stage, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.stages[stage as usize].increment(nanos);
    }
}

/// Handles on the store's metrics, made once.
pub(crate) struct StoreMeters {
    pub(crate) checkpoint_running: Gauge,
    pub(crate) merges: Counter,
    checkpoints: Counter,
    checkpoint_seconds: Gauge,
}

impl Default for StoreMeters {
    fn default() -> StoreMeters {
        StoreMeters {
            checkpoint_running: gauge!("holdfast_checkpoint_running"),
            merges: counter!("holdfast_id_merges_total"),
            checkpoints: counter!("holdfast_checkpoints_total"),
            checkpoint_seconds: gauge!("holdfast_checkpoint_seconds_sum"),
        }
    }
}

impl StoreMeters {
    pub(crate) fn checkpointed(&self, took: Duration) {
        self.checkpoints.increment(1);
        self.checkpoint_seconds.increment(took.as_secs_f64());
    }
}
