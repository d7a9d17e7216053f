//! Why there are no figures.

use std::path::PathBuf;

use holdfast_client::ClientError;

/// Why a benchmark or a load run ended without figures.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A file or directory cannot be used.
    #[error("cannot {what} {path}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// How it failed.
        #[source]
        source: std::io::Error,
    },
    /// The server's data would not be on a disk.
    #[error("{0} lies in memory (tmpfs): name a directory on a disk with --data")]
    NotADisk(PathBuf),
    /// The server did not come up, or not down.
    #[error("the server {what}; its messages are in {log}")]
    Server {
        /// What it failed to do.
        what: String,
        /// Where its standard error went.
        log: PathBuf,
    },
    /// The runtime for the client cannot be started.
    #[error("cannot start the client's runtime")]
    Runtime(#[source] std::io::Error),
    /// Nobody listens there.
    #[error(
        "cannot connect: is a hub running at http://{0}? start one with `holdfast serve`, or name it with --url"
    )]
    NoHub(String),
    /// A call ended without a reply.
    #[error("{what}")]
    Client {
        /// Which call.
        what: String,
        /// How it ended.
        #[source]
        source: ClientError,
    },
    /// The cluster's store refused a step.
    #[error("the store failed")]
    Store(#[from] holdfast_postgres::Error),
    /// PostgreSQL refused what a measurement needs.
    #[error("cannot {what}")]
    Database {
        /// What was tried.
        what: &'static str,
        /// How it failed.
        #[source]
        source: Box<postgres::Error>,
    },
    /// Kafka refused what a measurement needs.
    #[error("cannot {what}")]
    Kafka {
        /// What was tried.
        what: &'static str,
        /// How it failed.
        #[source]
        source: holdfast_kafka::KafkaError,
    },
    /// A reply that a benchmark must not get.
    #[error("{0}")]
    Refused(String),
    /// The server's own counts do not fit what was sent.
    #[error("the books do not balance: {0}")]
    Books(String),
    /// A view that is not what it should be.
    #[error("cannot read {0}")]
    View(&'static str),
    /// Options that make no sense together.
    #[error("{0}")]
    Options(String),
}

impl BenchError {
    pub(crate) fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> BenchError {
        let path = path.into();
        move |source| BenchError::Io { what, path, source }
    }

    pub(crate) fn database(what: &'static str) -> impl FnOnce(postgres::Error) -> BenchError {
        move |source| BenchError::Database { what, source: Box::new(source) }
    }

    pub(crate) fn kafka(what: &'static str) -> impl FnOnce(holdfast_kafka::KafkaError) -> BenchError {
        move |source| BenchError::Kafka { what, source }
    }

    pub(crate) fn client(what: impl Into<String>) -> impl FnOnce(ClientError) -> BenchError {
        let what = what.into();
        move |source| BenchError::Client { what, source }
    }
}
