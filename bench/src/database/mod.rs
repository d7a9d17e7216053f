//! What every measurement of the database profile needs: the servers that it is given, a database of its own on them, and
//! what they and a node between them cost.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `own` | a database of the run's own, and what its server promises |
//! | `town` | a database and topics of the run's own with a node between them |
//! | `costs` | CPU and memory by process, bytes of PostgreSQL's and Kafka's logs |
//! | `handlers` | the store's handlers in this process, messages handed on in memory |

pub(crate) mod costs;
pub(crate) mod handlers;
pub(crate) mod own;
pub(crate) mod town;

use std::path::Path;

use holdfast_load::LoadError;
use holdfast_load::bench::Directory;
use holdfast_load::options::check_range;

/// The servers of a run, and what every run on them is told.
#[derive(Debug, Clone, clap::Args)]
pub struct Servers {
    /// Kafka, such as kafka://host:9092; the run makes topics of its own there
    #[arg(long, value_name = "URL", env = "HOLDFAST_LOG")]
    pub(crate) log: String,
    /// PostgreSQL, such as postgres://user@host/database; its user must be able to create databases
    #[arg(long, value_name = "URL", env = "HOLDFAST_STORE")]
    pub(crate) store: String,
    /// Partitions of each topic
    // One for the one node. A second one splits its batches, and a machine of two cores pays for that with latency.
    #[arg(long, default_value_t = 1)]
    pub(crate) partitions: u32,
    /// How long half load goes on
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    pub(crate) half_seconds: u64,
    /// Leave the databases there
    #[arg(long)]
    pub(crate) keep: bool,
}

impl Servers {
    pub(crate) fn check(&self) -> Result<(), LoadError> {
        check_range("--partitions", self.partitions.into(), 1, 64)?;
        check_range("--half-seconds", self.half_seconds, 1, 3_600)
    }

    /// Measures with a directory for the node's messages, which stays if that fails.
    pub(crate) fn measure<T>(&self, work: impl FnOnce(&Path) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let directory = Directory::open(None)?;
        let done = work(directory.path())
            .inspect_err(|_| eprintln!("the node's messages are in {}", directory.path().display()));
        directory.close(self.keep || done.is_err())?;
        done
    }
}

/// Half of a rate, of what begins at its own place in time.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is small and positive")]
pub(crate) fn half(rate: f64) -> u64 {
    ((rate / 2.0) as u64).max(1)
}
