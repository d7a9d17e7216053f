//! Start and stop: opening a data directory, the threads, and the handle that the edges hold.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use holdfast_log::{FileSystem, Log, LogError, LogId, OpenReport, Reader, SegmentLog, SegmentOptions, Tail};
use holdfast_store::MemoryStore;

use crate::alarm::StopAlarm;
use crate::callbacks::{CallbackFeed, CallbackRow};
use crate::clock::Clock;
use crate::core::{Core, Progress};
use crate::health::{Health, Status};
use crate::intake::{Intake, Query, Refusal, Submission};
use crate::journal::Journal;
use crate::limits::HubOptions;
use crate::replay::{ReplayError, replay_with};
use crate::writer::Writer;

/// The folder of the log inside a data directory.
const LOG_FOLDER: &str = "log";

/// Why a hub did not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A thread cannot be started.
    #[error("a thread cannot be started")]
    Thread(#[source] std::io::Error),
}

/// A data directory, opened and replayed, before any thread runs.
pub struct Opened {
    log: SegmentLog,
    core: Core<MemoryStore>,
    callbacks: Vec<CallbackRow>,
    /// What was found in the log.
    pub report: OpenReport,
    /// How long reading and replaying took.
    pub took: Duration,
}

impl Opened {
    /// Opens the log in `data` (made if there is none) and replays it. No callback of it is fed again.
    ///
    /// # Errors
    /// If the log is damaged, in use, or was decided under other rules.
    pub fn open(
        fs: Arc<dyn FileSystem>,
        data: &Path,
        segments: SegmentOptions,
        new_log_id: LogId,
    ) -> Result<Opened, OpenError> {
        Opened::open_with(fs, data, segments, new_log_id, |_| false)
    }

    /// As [`Opened::open`]; of the callbacks that the log gave rise to, those that `undelivered` names are fed again.
    ///
    /// # Errors
    /// If the log is damaged, in use, or was decided under other rules.
    pub fn open_with(
        fs: Arc<dyn FileSystem>,
        data: &Path,
        segments: SegmentOptions,
        new_log_id: LogId,
        undelivered: impl Fn(&CallbackRow) -> bool,
    ) -> Result<Opened, OpenError> {
        let started = Instant::now();
        let (log, report) = SegmentLog::open(fs, &log_folder(data), segments, new_log_id)?;
        let mut core = Core::resume(MemoryStore::new(id_key(log.log_id())), Progress::default());
        let mut callbacks = Vec::new();
        let frames = log.read_from(core.end()).map_err(ReplayError::from)?;
        replay_with(frames, &mut core, |_, _, _, core| {
            callbacks.extend(core.callbacks().iter().filter(|row| undelivered(row)));
        })?;
        Ok(Opened { log, core, callbacks, report, took: started.elapsed() })
    }

    /// The log and the state it leads to, for those who drive the loop themselves.
    #[must_use]
    pub fn into_parts(self) -> (SegmentLog, Core<MemoryStore>) {
        (self.log, self.core)
    }
}

/// Where the log of a data directory lies.
#[must_use]
pub fn log_folder(data: &Path) -> PathBuf {
    data.join(LOG_FOLDER)
}

/// The key under which ids are hashed: clients never see the log's id.
fn id_key(log_id: LogId) -> u64 {
    let digest = blake3::hash(&log_id.0);
    u64::from_le_bytes(*digest.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}

/// What the edges hold: submit, ask, look at the health.
pub struct HubHandle<S = MemoryStore> {
    intake: Arc<Intake<S>>,
    health: Arc<Health>,
    reader: Reader,
    tail: Tail,
    feed: Arc<CallbackFeed>,
    clock: Arc<dyn Clock>,
}

impl<S> Clone for HubHandle<S> {
    fn clone(&self) -> HubHandle<S> {
        HubHandle {
            intake: Arc::clone(&self.intake),
            health: Arc::clone(&self.health),
            reader: Arc::clone(&self.reader),
            tail: self.tail.clone(),
            feed: Arc::clone(&self.feed),
            clock: Arc::clone(&self.clock),
        }
    }
}

impl<S> HubHandle<S> {
    /// Puts commands in line; the answer is called when they are durable.
    ///
    /// # Errors
    /// If they were not taken; the answer is not called then.
    pub fn submit(&self, submission: Submission) -> Result<(), Refusal> {
        self.intake.submit(submission)
    }

    /// Asks about the state; the question runs between two frames, on what is durable.
    ///
    /// # Errors
    /// If it was not taken. A question dropped without being run means that the hub has stopped.
    pub fn ask(&self, query: Query<S>) -> Result<(), Refusal> {
        self.intake.ask(query)
    }

    /// Whether commands are taken, and if not, why.
    #[must_use]
    pub fn status(&self) -> Status {
        self.health.status()
    }

    /// An operator says that the wall clock is right as it stands now. A jump after this is a new one.
    pub fn confirm_clock(&self) {
        self.intake.confirm_clock(self.clock.read());
    }

    /// Reads the log beside the writer.
    #[must_use]
    pub fn log(&self) -> &Reader {
        &self.reader
    }

    /// Where the callbacks of durable frames come out; for one deliverer.
    #[must_use]
    pub const fn callbacks(&self) -> &Arc<CallbackFeed> {
        &self.feed
    }

    /// Follows the end of the log.
    #[must_use]
    pub const fn tail(&self) -> &Tail {
        &self.tail
    }
}

/// A running hub. Ends when dropped, after all that was taken is answered.
pub struct Hub {
    handle: HubHandle,
    writer: Option<JoinHandle<()>>,
    spare: Option<JoinHandle<()>>,
}

impl Hub {
    /// Starts the threads of an opened directory.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(opened: Opened, clock: Arc<dyn Clock>, options: HubOptions) -> Result<Hub, OpenError> {
        let Opened { log, core, callbacks, .. } = opened;
        let feed = Arc::new(CallbackFeed::default());
        feed.refill(callbacks);
        let preparer = log.spare_preparer();
        let spare = thread("spare segment", move || preparer.run())?;
        let intake = Arc::new(Intake::new(options));
        let health = Arc::new(Health::default());
        let (reader, tail) = (log.reader(), log.tail());
        let journal = Journal::threaded(Box::new(log), &intake, &health, &feed).map_err(OpenError::Thread)?;
        let writer_clock = Arc::clone(&clock);
        let writer =
            Writer::new(core, Arc::clone(&intake), journal, writer_clock, Arc::clone(&health), options);
        let alarm = StopAlarm::new("writer", Arc::clone(&health), {
            let intake = Arc::clone(&intake);
            move |reason: &str| intake.abandon(reason)
        });
        let writer = thread("writer", move || alarm.watch(|| writer.run()))?;
        let handle = HubHandle { intake, health, reader, tail, feed, clock };
        Ok(Hub { handle, writer: Some(writer), spare: Some(spare) })
    }

    /// A handle for an edge.
    #[must_use]
    pub fn handle(&self) -> HubHandle {
        self.handle.clone()
    }

    /// Takes nothing more, works off what waits, and ends the threads.
    pub fn stop(self) {
        drop(self);
    }
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(OpenError::Thread)
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.handle.health.set(Status::ShuttingDown);
        self.handle.intake.close("the hub is shutting down");
        self.handle.feed.close();
        for thread in [self.writer.take(), self.spare.take()].into_iter().flatten() {
            if thread.join().is_err() {
                tracing::error!("a thread of the hub panicked");
            }
        }
    }
}
