//! Callbacks: what participants are told, delivered until they have acknowledged it or an operator must look.
//!
//! The way of a callback: the hub derives it from a durable frame, numbers it and keeps it in the store; a thread reads
//! it and puts it into its participant's lane; when its turn comes its message is written from the log and the state,
//! and sent; its end is remembered, and in time the store removes it. A restart reads whatever is not known to have
//! ended, so delivery is at least once. A participant that hangs or is gone fills its own lane and nobody else's; what
//! does not fit waits in the store. `docs/callbacks.md` tells it to operators.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `feeder` | from the store into the lanes, as far as there is room |
//! | `logged` | the source of the embedded profile: what becomes of a callback after an attempt |
//! | `callback` | a callback on its way, and what keeps its order |
//! | `requests` | facts from the hub, addresses, and the trait that tests put a script behind |
//! | `originals` | commands read back from the log |
//! | `message` | what a callback says on the wire |
//! | `template` | registered addresses |
//! | `ends`, `ended` | which callbacks have ended, over restarts |
//! | `letter`, `dead_letters` | those that were given up, over restarts |
//! | `operators` | what an operator sees of dead letters, and another try for them |
//! | `meters` | metrics |
//! | `database` | the same from the table of the database profile, by whichever node holds a participant's shard |

mod callback;
pub mod database;
mod dead_letters;
mod ended;
mod ends;
mod feeder;
#[cfg(test)]
mod feeder_tests;
mod letter;
mod logged;
#[cfg(test)]
mod logged_tests;
mod message;
#[cfg(test)]
mod message_tests;
mod meters;
mod operators;
mod originals;
mod requests;
mod template;

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use holdfast_hub::{CallbackFeed, CallbackRow, HubHandle};
use holdfast_log::{DirLock, FileSystem, RealFs};

use dead_letters::LetterFile;
use ended::Ended;
use feeder::{Feeder, Rows};
use logged::{CallbackLanes, Logged};
pub use operators::DeadLetters;
use originals::{Follower, Originals};
use requests::{HubRequests, Requests, origin_of};

use crate::lanes::Bounds;
use crate::options::{
    CallbackOptions, READ_AGAIN_PAUSE, READ_AHEAD_ROWS_MAX, REMOVE_INTERVAL, SYNC_INTERVAL,
};
use crate::post::Post;
use crate::tls::OutgoingTls;

/// The folder of what callbacks remember, inside a data directory.
const FOLDER: &str = "callbacks";

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
    letters: LetterFile,
    lock: DirLock,
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
            RealFs.lock_dir(&folder)
        };
        // Opening writes, so the lock of the log would come too late.
        let lock = create().map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => CallbackError::InUse { data: data.to_owned() },
            _ => unusable(source),
        })?;
        let open = || {
            let letters = LetterFile::open(&folder)?;
            let ended = Ended::open(&folder, &letters.numbers())?;
            Ok(CallbackMemory { ended, letters, lock })
        };
        open().map_err(unusable)
    }
}

/// Running callbacks.
pub struct Callbacks {
    lanes: Arc<CallbackLanes<HubRequests>>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    _lock: DirLock,
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
        let post = Post::new(tls, options.connections_max);
        let requests = HubRequests::new(hub.clone(), Arc::clone(&originals), post);
        let CallbackMemory { ended, letters, lock } = memory;
        let lanes = Logged::lanes(requests, ended, letters, options, Bounds::default());
        for number in lanes.source.letters.retrying() {
            if let Ok(Some((letter, _))) = lanes.source.letters.get(number)
                && let Some(callback) = letter.callback()
            {
                lanes.resume(callback.row.to, callback, 0);
            }
        }
        let feeder = Arc::new(Feeder::new(Arc::clone(&lanes), Arc::clone(&feed)));
        let over = Arc::new(AtomicBool::new(false));
        let taker = thread("callbacks", {
            let (feeder, over) = (Arc::clone(&feeder), Arc::clone(&over));
            move || take(&feeder, &feed, &originals, &over)
        })?;
        let refiller = thread("callbacks behind", {
            let over = Arc::clone(&over);
            move || refill(&feeder, &over)
        })?;
        let tidier = thread("callback files", {
            let (lanes, over) = (Arc::clone(&lanes), Arc::clone(&over));
            move || tidy(&lanes, &hub, &over)
        })?;
        Ok(Callbacks { lanes, over, threads: vec![taker, refiller, tidier], _lock: lock })
    }

    /// What an operator sees of those that were given up.
    #[must_use]
    pub fn dead_letters(&self) -> DeadLetters {
        DeadLetters(Arc::clone(&self.lanes))
    }

    /// Starts no more requests and gives those under way a while to end. The hub may still feed; what it feeds is
    /// delivered after the next start.
    pub async fn end(&self) {
        let cut = self.lanes.end().await;
        if cut > 0 {
            tracing::warn!(
                cut,
                "some callbacks did not end in time; they will be repeated after the next start"
            );
        }
    }

    /// Waits for the threads and makes all durable. To be called when the hub has stopped.
    pub fn finish(self) {
        self.over.store(true, Ordering::Release);
        self.lanes.bell.notify_one();
        for thread in self.threads {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("a thread of callbacks panicked");
            }
        }
        self.lanes.finish();
    }
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, CallbackError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(CallbackError::Thread)
}

type HubFeeder = Feeder<HubRequests, Arc<CallbackFeed>>;

/// Takes up callbacks of durable frames, and has their frames at hand where that is of use.
fn take(feeder: &HubFeeder, feed: &CallbackFeed, originals: &Originals, over: &AtomicBool) {
    let lanes = &feeder.lanes;
    let mut from = Some(0);
    while let Some(number) = from {
        let Some(next) = persist(lanes, over, || feeder.restore(number)) else { return };
        from = next;
    }
    let mut follower = Follower::default();
    let mut read_ahead = |row: &CallbackRow| {
        if let Some(offset) = origin_of(row)
            && lanes.backlog(row.to) < READ_AHEAD_ROWS_MAX
            && let Err(error) = follower.read_ahead(originals, offset)
        {
            // Whoever sends it will try again, and say so if it fails.
            tracing::warn!(%error, "a frame of the log cannot be read ahead");
        }
    };
    while feed.wait_beyond(lanes.source.ended.mark()).is_some() {
        if persist(lanes, over, || feeder.take(&mut read_ahead)).is_none() {
            return;
        }
    }
}

/// Fills up the lanes of participants that are behind.
fn refill<D: Requests, R: Rows>(feeder: &Feeder<D, R>, over: &AtomicBool) {
    loop {
        match persist(&feeder.lanes, over, || feeder.refill()) {
            None => return,
            Some(true) => {}
            Some(false) => feeder.lanes.wait_for_bell(),
        }
    }
}

/// Makes durable what is remembered, and tells the hub what it need not keep.
fn tidy(lanes: &CallbackLanes<HubRequests>, hub: &HubHandle, over: &AtomicBool) {
    let mut told = Instant::now();
    while !over.load(Ordering::Acquire) {
        std::thread::park_timeout(SYNC_INTERVAL);
        let ended = lanes.tidy();
        lanes.source.requests.close_idle();
        if let Some(number) = ended.filter(|_| told.elapsed() >= REMOVE_INTERVAL) {
            hub.callbacks_ended_below(number);
            told = Instant::now();
        }
    }
}

/// Repeats a step, with pauses, until rows can be read. `None` when all is over.
fn persist<D: Requests, T, E: Display>(
    lanes: &CallbackLanes<D>,
    over: &AtomicBool,
    mut step: impl FnMut() -> Result<T, E>,
) -> Option<T> {
    let mut failed = false;
    let done = loop {
        if over.load(Ordering::Acquire) {
            break None;
        }
        match step() {
            Ok(done) => break Some(done),
            Err(error) if !failed => {
                tracing::error!(%error, "callbacks cannot be read; none beyond is delivered until they can");
                lanes.source.meters.unreadable.increment(1);
                failed = true;
            }
            Err(_) => {}
        }
        std::thread::park_timeout(READ_AGAIN_PAUSE);
    };
    if failed {
        lanes.source.meters.unreadable.decrement(1);
        if done.is_some() {
            tracing::info!("callbacks can be read again");
        }
    }
    done
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
