//! Callbacks: what participants are told, delivered until they have acknowledged it or an operator must look.
//!
//! The way of a callback: the hub derives it from a durable frame and numbers it; a thread takes it from the hub's feed
//! and puts it into its participant's lane; when its turn comes its message is written from the log and the state, and
//! sent; its end is remembered. A restart feeds whatever is not known to have ended, so delivery is at least once. A
//! participant that hangs or is gone fills its own lane and nobody else's. `docs/callbacks.md` tells it to operators.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `options` | every bound, with its name and default |
//! | `lane` | order and places of one participant's callbacks, as plain state |
//! | `lanes` | the lanes at work: start, attempt, end |
//! | `pauses` | how long to wait before trying again |
//! | `desk` | facts from the hub, addresses, and the trait that tests put a script behind |
//! | `originals` | commands read back from the log |
//! | `message` | what a callback says on the wire |
//! | `template` | registered addresses |
//! | `post` | HTTP to participants |
//! | `ended` | which callbacks have ended, over restarts |
//! | `letter`, `dead_letters` | those that were given up, over restarts |
//! | `views` | `/hub/dead-letters` |
//! | `meters` | metrics |

mod dead_letters;
mod desk;
mod ended;
mod lane;
mod lanes;
#[cfg(test)]
mod lanes_tests;
mod letter;
mod message;
#[cfg(test)]
mod message_tests;
mod meters;
pub mod options;
mod originals;
mod pauses;
mod post;
mod template;
pub(crate) mod views;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use holdfast_hub::{CallbackRow, HubHandle};

use dead_letters::DeadLetters;
use desk::{HubDesk, origin_of};
use ended::Ended;
use lane::Job;
use lanes::Lanes;
use options::{CallbackOptions, READ_AHEAD_ROWS_MAX, ROWS_TAKEN_MAX, SYNC_INTERVAL};
use originals::{Follower, Originals};
use post::Post;

use crate::tls::OutgoingTls;

/// The folder of what callbacks remember, inside a data directory.
const FOLDER: &str = "callbacks";
/// Held as long as somebody uses the folder.
const LOCK: &str = "lock";

/// Why callbacks cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum CallbackError {
    /// Another process has the data directory.
    #[error("another holdfast serves from {}", data.display())]
    InUse {
        /// The data directory.
        data: PathBuf,
    },
    /// A file of theirs cannot be opened or written.
    #[error("the memory of callbacks in {} cannot be opened", folder.display())]
    Memory {
        /// Where it lies.
        folder: PathBuf,
        /// What went wrong.
        #[source]
        source: std::io::Error,
    },
    /// A thread cannot be started.
    #[error("a thread cannot be started")]
    Thread(#[source] std::io::Error),
}

/// What is remembered of callbacks, opened before the log is replayed.
pub struct CallbackMemory {
    ended: Ended,
    letters: DeadLetters,
    lock: File,
}

impl CallbackMemory {
    /// Opens the memory in a data directory, made if it is not there.
    ///
    /// # Errors
    /// If a file cannot be read or written, or another process uses them.
    pub fn open(data: &Path) -> Result<CallbackMemory, CallbackError> {
        let folder = data.join(FOLDER);
        let unusable = |source| CallbackError::Memory { folder: folder.clone(), source };
        let create = || {
            std::fs::create_dir_all(&folder)?;
            File::create(folder.join(LOCK))
        };
        // Opening writes, so the lock of the log would come too late.
        let lock = create().map_err(unusable)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => CallbackError::InUse { data: data.to_owned() },
            TryLockError::Error(source) => unusable(source),
        })?;
        let open = || {
            let letters = DeadLetters::open(&folder)?;
            let ended = Ended::open(&folder, &letters.numbers())?;
            Ok(CallbackMemory { ended, letters, lock })
        };
        open().map_err(unusable)
    }
}

/// What the views hold of running callbacks.
#[derive(Clone)]
pub(crate) struct CallbackDesk(Arc<Lanes<HubDesk>>);

/// Running callbacks.
pub struct Callbacks {
    lanes: Arc<Lanes<HubDesk>>,
    ended: Arc<AtomicBool>,
    taker: JoinHandle<()>,
    tidier: JoinHandle<()>,
    _lock: File,
}

impl Callbacks {
    /// Begins to deliver what the hub feeds. Must be called inside a tokio runtime, on which the requests then run.
    /// Without `tls`, https addresses cannot be called.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(
        hub: HubHandle,
        memory: CallbackMemory,
        options: CallbackOptions,
        tls: Option<OutgoingTls>,
    ) -> Result<Callbacks, CallbackError> {
        let originals = Arc::new(Originals::new(Arc::clone(hub.log())));
        let feed = Arc::clone(hub.callbacks());
        let desk = HubDesk::new(hub, Arc::clone(&originals), Post::new(tls, options.connections_max));
        let lanes = Lanes::new(desk, memory.ended, memory.letters, options);
        for number in lanes.letters.retrying() {
            if let Ok(Some((letter, _))) = lanes.letters.get(number)
                && let Some(job) = letter.job()
            {
                lanes.resume(job);
            }
        }
        let takes = Arc::clone(&lanes);
        let taker = thread("callbacks", move || {
            let mut follower = Follower::default();
            // What an earlier run left open comes first.
            let (mut known, old) = (takes.ended.first_open(), feed.durable());
            while let Some(end) = feed.wait_beyond(known) {
                let to = end.min(known + ROWS_TAKEN_MAX);
                let rows: Result<Vec<CallbackRow>, _> = feed.rows(known, to).collect();
                match rows {
                    Ok(mut rows) => {
                        rows.retain(|row| row.number >= old || takes.ended.is_open(row.number));
                        take(&takes, &originals, &mut follower, rows);
                    }
                    Err(error) => {
                        tracing::error!(%error, "callbacks cannot be read; none is delivered until a restart");
                        return;
                    }
                }
                known = to;
            }
        })?;
        let ended = Arc::new(AtomicBool::new(false));
        let (tidies, over) = (Arc::clone(&lanes), Arc::clone(&ended));
        let tidier = thread("callback files", move || {
            while !over.load(Ordering::Acquire) {
                std::thread::park_timeout(SYNC_INTERVAL);
                tidies.tidy();
                tidies.desk.close_idle();
            }
        })?;
        Ok(Callbacks { lanes, ended, taker, tidier, _lock: memory.lock })
    }

    /// What the edge needs to show and retry dead letters.
    pub(crate) fn desk(&self) -> CallbackDesk {
        CallbackDesk(Arc::clone(&self.lanes))
    }

    /// Starts no more requests and gives those under way a while to end. The hub may still feed; what it feeds is
    /// delivered after the next start.
    pub async fn end(&self) {
        self.lanes.end().await;
    }

    /// Waits for the threads and makes all durable. To be called when the hub has stopped.
    pub fn finish(self) {
        self.ended.store(true, Ordering::Release);
        self.tidier.thread().unpark();
        for thread in [self.taker, self.tidier] {
            if thread.join().is_err() {
                tracing::error!("a thread of callbacks panicked");
            }
        }
        self.lanes.tidy();
    }
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, CallbackError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(CallbackError::Thread)
}

/// Puts callbacks of durable frames into their lanes, and has their frames at hand where that is of use.
fn take(lanes: &Arc<Lanes<HubDesk>>, originals: &Originals, follower: &mut Follower, rows: Vec<CallbackRow>) {
    lanes.ended.taken(rows.iter().map(|row| row.number));
    for row in rows {
        if let Some(offset) = origin_of(&row)
            && lanes.backlog(row.to) < READ_AHEAD_ROWS_MAX
            && let Err(error) = follower.read_ahead(originals, offset)
        {
            // Whoever sends it will try again, and say so if it fails.
            tracing::warn!(%error, "a frame of the log cannot be read ahead");
        }
        lanes.push(Job::new(row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_use_is_named() {
        let data = tempfile::tempdir().unwrap();
        let first = CallbackMemory::open(data.path()).unwrap();
        let refused = CallbackMemory::open(data.path()).err().expect("it is in use");
        assert_eq!(refused.to_string(), format!("another holdfast serves from {}", data.path().display()));
        drop(first);
        assert!(CallbackMemory::open(data.path()).is_ok());
    }
}
