//! Why there are no figures.

use std::error::Error;
use std::path::PathBuf;

/// Why a load or a bench ended without figures.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file, a call or a server failed.
    #[error("{what}")]
    Failed {
        /// What was tried.
        what: String,
        /// How it failed.
        #[source]
        source: Box<dyn Error + Send + Sync>,
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
    /// No hub listens there.
    #[error(
        "cannot connect: is a hub running at http://{0}? start one with `holdfast serve`, or name it with --url"
    )]
    NoHub(String),
    /// A reply that a run must not get.
    #[error("{0}")]
    Refused(String),
    /// The server's own counts do not fit what was sent.
    #[error("the books do not balance: {0}")]
    Books(String),
    /// Options that make no sense together.
    #[error("{0}")]
    Options(String),
}

impl LoadError {
    /// A step that failed, by what was tried.
    pub fn of<E: Error + Send + Sync + 'static>(what: impl Into<String>) -> impl FnOnce(E) -> LoadError {
        let what = what.into();
        move |source| LoadError::Failed { what, source: Box::new(source) }
    }

    /// The same of a file or directory.
    pub fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> LoadError {
        let path = path.into();
        move |source| LoadError::of(format!("cannot {what} {}", path.display()))(source)
    }
}
