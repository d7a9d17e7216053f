//! Start and stop: opening a data directory, the threads, and the handle that the engine, its callers and its delivery hold.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use holdfast_disk::DirLock;
use holdfast_engine::clock::Clock;
use holdfast_engine::{BackupRefusal, BackupStatus, Monitor, NotedTroubles, Refusal, Upkeep};
use holdfast_log::{
    FileSystem, Log, LogError, LogId, OpenReport, Reader, SegmentLog, SegmentOptions, SegmentReader, Tail,
};
use holdfast_store::{LocalStore, StoreError, reached, recover};

use crate::alarm::{thread, watched};
use crate::backup::{BackupError, Backups, RESTS_BESIDE_PAYMENTS, Source};
use crate::callbacks::CallbackFeed;
use crate::core::Core;
use crate::health::{Health, Status};
use crate::intake::{Intake, Query, Submission};
use crate::journal::{Followers, Journal};
use crate::keeper::Keeper;
use crate::limits::{HubOptions, REPLAY_CHECKPOINT_BYTES};
use crate::progress::Progress;
use crate::replay::{ReplayError, replay_keeping};
use crate::retention::{Pruner, RetentionHolds};
use crate::shop::{HubShop, ShopFeed};
use crate::tokens::{HubVault, Timer, TokenIndex};
use crate::writer::Writer;

/// The folder of the log inside a data directory.
pub(crate) const LOG_FOLDER: &str = "log";
/// The folder of what is derived from the log.
pub(crate) const STORE_FOLDER: &str = "store";

/// Why a hub did not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process has the data directory.
    #[error("{} is in use by another process. Stop it, or use another --data directory", .0.display())]
    InUse(PathBuf),
    /// Something is in a directory in which a new hub should be made.
    #[error("{} is not empty. Name a directory that is empty or does not exist", .0.display())]
    NotEmpty(PathBuf),
    /// The data directory cannot be made or locked.
    #[error("{} cannot be made or locked", data.display())]
    Data {
        /// The data directory.
        data: PathBuf,
        /// What the system answered.
        #[source]
        source: std::io::Error,
    },
    /// The checkpoint belongs to another log.
    #[error(
        "the checkpoint at offset {offset} belongs to log {found}, and the folder '{LOG_FOLDER}' holds log {log}. Put \
         the folders back together that belong together"
    )]
    ForeignCheckpoint {
        /// Where the checkpoint stands.
        offset: u64,
        /// The log that it belongs to.
        found: LogId,
        /// The log that is there.
        log: LogId,
    },
    /// The log has another past than the checkpoint.
    #[error(
        "the checkpoint at offset {offset} was made after another frame than the log has there: '{STORE_FOLDER}' comes from \
         a copy of this hub that went another way. Put the folders back together that belong together; or, if the log is \
         the right one, move '{STORE_FOLDER}' away: it is derived from the log"
    )]
    OtherPast {
        /// Where the checkpoint stands.
        offset: u64,
    },
    /// The checkpoint was written by a later release.
    #[error("the checkpoint at offset {offset} was written by a later release of Holdfast; start that one")]
    StrangeCheckpoint {
        /// Where the checkpoint stands.
        offset: u64,
    },
    /// There is no checkpoint to start from, and the log does not go back to its beginning.
    #[error(
        "there is no sound checkpoint in '{STORE_FOLDER}', and the log begins at offset {start}: what came before was \
         removed by retention, or is lost. Restore the data directory from a backup"
    )]
    NothingToStartFrom {
        /// The first offset of the log.
        start: u64,
    },
    /// What the store says of tokens contradicts itself.
    #[error("the tokens of the store contradict each other; run 'holdfast verify'")]
    Tokens(#[source] holdfast_tokens::Refusal),
    /// A thread cannot be started.
    #[error("a thread cannot be started")]
    Thread(#[source] std::io::Error),
}

/// A data directory, opened and brought up to the end of its log, before any thread runs.
pub struct Opened {
    fs: Arc<dyn FileSystem>,
    data: PathBuf,
    log: SegmentLog,
    core: Core<LocalStore>,
    /// What was found in the log.
    pub report: OpenReport,
    /// The checkpoint that was started from; 0 is the beginning.
    pub checkpoint: u64,
    /// How long it took.
    pub took: Duration,
    lock: DirLock,
}

impl Opened {
    /// Opens a data directory (made if there is none): takes the newest checkpoint and replays the log from there.
    ///
    /// # Errors
    /// If it is damaged, in use, or was decided under other rules.
    pub fn open(
        fs: Arc<dyn FileSystem>,
        data: &Path,
        segments: SegmentOptions,
        new_log_id: LogId,
    ) -> Result<Opened, OpenError> {
        Opened::open_keeping(fs, data, segments, new_log_id, REPLAY_CHECKPOINT_BYTES)
    }

    /// As [`Opened::open`], with a checkpoint after every so many bytes of log that are replayed.
    ///
    /// # Errors
    /// As [`Opened::open`].
    pub fn open_keeping(
        fs: Arc<dyn FileSystem>,
        data: &Path,
        segments: SegmentOptions,
        new_log_id: LogId,
        checkpoint_bytes: u64,
    ) -> Result<Opened, OpenError> {
        let started = Instant::now();
        let lock = lock(&*fs, data)?;
        let store_folder = data.join(STORE_FOLDER);
        let reached = reached(&*fs, &store_folder)?;
        let folder = log_folder(data);
        if reached > 0 && !has_segments(&*fs, &folder) {
            // Before anything is made or removed: an empty log beside this store would be a hub that forgot all.
            return Err(LogError::Shortened { dir: folder, end: 0, reached }.into());
        }
        let recovered = match recover(&fs, &store_folder) {
            Ok(recovered) => recovered,
            // Whether the store can be derived again depends on the log: what it says of itself comes first.
            Err(error) => {
                if reached > 0 {
                    SegmentLog::open_from(fs, &folder, segments, new_log_id, Some(reached))?;
                }
                return Err(error.into());
            }
        };
        if let Some(recovered) = &recovered {
            let (offset, found) = (recovered.offset, recovered.log_id);
            let log = SegmentReader::open(Arc::clone(&fs), &folder)?.log_id();
            if found != log {
                return Err(OpenError::ForeignCheckpoint { offset, found, log });
            }
        }
        let checkpoint = recovered.as_ref().map(|recovered| recovered.offset);
        let opened = SegmentLog::open_from(Arc::clone(&fs), &folder, segments, new_log_id, checkpoint);
        let (log, report) = opened?;
        if report.end < reached {
            return Err(LogError::Shortened { dir: folder, end: report.end, reached }.into());
        }
        let mut core = match recovered {
            Some(recovered) => {
                let offset = recovered.offset;
                let progress = Progress::from_bytes(&recovered.progress);
                let progress = progress.ok_or(OpenError::StrangeCheckpoint { offset })?;
                check_joint(&log, &progress)?;
                recovered.remove_unneeded()?;
                Core::resume(recovered.store, progress)
            }
            None if report.start > 0 => return Err(OpenError::NothingToStartFrom { start: report.start }),
            None => Core::new(LocalStore::create(&fs, &store_folder, log.log_id())?),
        };
        let frames = log.read_from(core.end()).map_err(ReplayError::from)?;
        // All frames of an opened log are durable.
        replay_keeping(frames, &mut core, checkpoint_bytes)?;
        let took = started.elapsed();
        let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
        Ok(Opened { fs, data, log, core, report, checkpoint: checkpoint.unwrap_or(0), took, lock })
    }

    /// As [`Opened::open`], for a tool: a directory without a log is refused and nothing is made in it.
    ///
    /// # Errors
    /// As [`Opened::open`].
    pub fn open_existing(fs: Arc<dyn FileSystem>, data: &Path) -> Result<Opened, OpenError> {
        let log_id = SegmentReader::open(Arc::clone(&fs), &log_folder(data))?.log_id();
        Opened::open(fs, data, SegmentOptions::default(), log_id)
    }

    /// The log and the state it leads to, for those who drive the loop themselves.
    #[must_use]
    pub fn into_parts(self) -> (SegmentLog, Core<LocalStore>, DirLock) {
        (self.log, self.core, self.lock)
    }
}

/// Whether there is any log.
fn has_segments(fs: &dyn FileSystem, folder: &Path) -> bool {
    fs.list(folder).is_ok_and(|names| names.iter().any(|name| name.ends_with(".seg")))
}

/// The frame before the checkpoint is the one that it was made after. If no frame follows it, the chain cannot tell.
fn check_joint(log: &SegmentLog, progress: &Progress) -> Result<(), OpenError> {
    let Some(last) = progress.end.checked_sub(1).filter(|last| *last >= log.start()) else { return Ok(()) };
    let frame = log.read_from(last).and_then(|mut frames| frames.next_frame()).map_err(ReplayError::from)?;
    let joins = frame.is_some_and(|frame| {
        frame.header.end_offset() == progress.end && crc32c::crc32c(&frame.payload) == progress.last_frame
    });
    if joins { Ok(()) } else { Err(OpenError::OtherPast { offset: progress.end }) }
}

/// Holds the data directory for this process. The lock lies on the store's folder: commands that only change the keys
/// lock the directory itself for a moment, also beside a running hub.
fn lock(fs: &dyn FileSystem, data: &Path) -> Result<DirLock, OpenError> {
    let unusable = |source| OpenError::Data { data: data.to_owned(), source };
    let folder = store_folder(data);
    fs.create_dir_all(&folder).map_err(unusable)?;
    fs.lock_dir(&folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => OpenError::InUse(data.to_owned()),
        _ => unusable(error),
    })
}

/// Where what is derived from the log lies in a data directory.
#[must_use]
pub fn store_folder(data: &Path) -> PathBuf {
    data.join(STORE_FOLDER)
}

/// Where the log of a data directory lies.
#[must_use]
pub fn log_folder(data: &Path) -> PathBuf {
    data.join(LOG_FOLDER)
}

/// What all hold who need the hub: submit, ask, look at the health.
#[derive(Clone)]
pub struct HubHandle {
    pub(crate) intake: Arc<Intake>,
    health: Arc<Health>,
    reader: Reader,
    tail: Tail,
    feed: Arc<CallbackFeed>,
    clock: Arc<dyn Clock>,
    backups: Arc<Backups>,
    tokens: HubVault,
    shop: HubShop,
}

impl HubHandle {
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
    pub fn ask(&self, query: Query) -> Result<(), Refusal> {
        self.intake.ask(query)
    }

    /// Whether commands are taken, and if not, why.
    #[must_use]
    pub fn status(&self) -> Status {
        self.health.status()
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

    /// The first offset of the log; what came before was removed by retention.
    #[must_use]
    pub fn log_start(&self) -> u64 {
        self.backups.source.retention.start()
    }

    /// The vault.
    #[must_use]
    pub const fn tokens(&self) -> &HubVault {
        &self.tokens
    }

    /// The shop.
    #[must_use]
    pub const fn shop(&self) -> &HubShop {
        &self.shop
    }

    /// Follows the end of the log.
    #[must_use]
    pub const fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Begins a backup to `dir`, which must be empty or not exist, on a thread of its own.
    /// [`Upkeep::backup_status`] tells how far it is.
    ///
    /// # Errors
    /// If it cannot be begun.
    pub fn begin_backup(&self, dir: &Path) -> Result<(), BackupError> {
        self.backups.begin(dir)?;
        let (handle, target) = (self.clone(), dir.to_owned());
        let body = move || {
            let (send, receive) = std::sync::mpsc::channel();
            let hold = Box::new(move |core: &Core<LocalStore>| {
                let _: Result<(), _> = send.send(core.store().hold_newest());
            });
            // If the hub stops the question is dropped, and the channel with it.
            let asked = handle.intake.ask_after_checkpoint(hold);
            let held = || asked.ok().and_then(|()| receive.recv().ok()).flatten();
            handle.backups.run(&target, held);
        };
        match thread("backup", body) {
            Ok(_) => Ok(()),
            Err(source) => {
                self.backups.run(dir, || None);
                Err(BackupError::Io { op: "start a thread for", path: dir.to_owned(), source })
            }
        }
    }
}

impl Upkeep for HubHandle {
    fn begin_backup(&self, dir: &Path) -> Result<(), BackupRefusal> {
        HubHandle::begin_backup(self, dir).map_err(|error| match error {
            BackupError::NotEmpty(_) | BackupError::NotAbsolute(_) | BackupError::Inside(_) => {
                BackupRefusal::Unsuitable(error.to_string())
            }
            BackupError::Running(_) => BackupRefusal::Running(error.to_string()),
            _ => BackupRefusal::Failed(error.to_string()),
        })
    }

    fn backup_status(&self) -> BackupStatus {
        self.backups.status()
    }

    fn confirm_clock(&self) {
        self.intake.confirm_clock(self.clock.read());
    }
}

/// A running hub. Ends when dropped, after all that was taken is answered.
pub struct Hub {
    handle: HubHandle,
    threads: [Option<JoinHandle<()>>; 3],
    timer: Arc<Timer>,
    _lock: DirLock,
}

impl Hub {
    /// Starts the threads of an opened directory.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(opened: Opened, clock: Arc<dyn Clock>, options: HubOptions) -> Result<Hub, OpenError> {
        let Opened { fs, data, log, core, lock, .. } = opened;
        let feed = CallbackFeed::new(core.store().callback_rows(), core.progress().next_callback);
        let feed = Arc::new(feed);
        let preparer = log.spare_preparer();
        let spare = thread("spare segment", move || preparer.run()).map_err(OpenError::Thread)?;
        let intake = Arc::new(Intake::new(options));
        let tokens = TokenIndex::of(core.store(), clock.read().wall, &options.tokens);
        let tokens = Arc::new(tokens.map_err(OpenError::Tokens)?);
        let health = Arc::new(Health::default());
        let (reader, tail) = (log.reader(), log.tail());
        let (retention, log_id, holds) = (log.retention(), log.log_id(), RetentionHolds::default());
        let shop_feed = Arc::new(ShopFeed::default());
        let followers =
            Followers { feed: Arc::clone(&feed), tokens: Arc::clone(&tokens), shop: Arc::clone(&shop_feed) };
        let journal =
            Journal::threaded(Box::new(log), &intake, &health, followers).map_err(OpenError::Thread)?;
        let pruner = Pruner {
            retention: retention.clone(),
            reader: Arc::clone(&reader),
            days: options.retention_log_days,
            holds: Arc::clone(&holds),
        };
        let keeper = Keeper::threaded(&intake, &health, pruner).map_err(OpenError::Thread)?;
        let helpers = (journal, keeper);
        let writer_clock = Arc::clone(&clock);
        let writer =
            Writer::new(core, Arc::clone(&intake), helpers, writer_clock, Arc::clone(&health), options)
                .forgetting(Arc::clone(&feed));
        let ringing = Arc::clone(&intake);
        let ring = move |reason: &str| ringing.abandon(reason);
        let writer = watched("writer", &health, ring, move || writer.run()).map_err(OpenError::Thread)?;
        let source = Source { fs, data, retention, log_id, holds, rests: RESTS_BESIDE_PAYMENTS };
        let backups = Arc::new(Backups { source, status: Monitor::new(BackupStatus::None) });
        let timer = Arc::new(Timer::default());
        let ticking = timer.start(Arc::clone(&tokens), Arc::clone(&clock)).map_err(OpenError::Thread)?;
        let tokens = HubVault {
            index: tokens,
            intake: Arc::clone(&intake),
            clock: Arc::clone(&clock),
            timer: Arc::clone(&timer),
            claim_attempts: options.tokens.claim_attempts,
            draws: Arc::default(),
        };
        let shop = HubShop {
            intake: Arc::clone(&intake),
            clock: Arc::clone(&clock),
            feed: shop_feed,
            times: options.shop,
            draws: Arc::default(),
            tokens: tokens.clone(),
            by_tokens: Arc::default(),
            troubles: NotedTroubles::default(),
        };
        let handle = HubHandle { shop, intake, health, reader, tail, feed, clock, backups, tokens };
        let threads = [writer, spare, ticking].map(Some);
        Ok(Hub { handle, threads, timer, _lock: lock })
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

impl Drop for Hub {
    fn drop(&mut self) {
        self.handle.health.set(Status::ShuttingDown);
        self.handle.intake.close("the hub is shutting down");
        self.handle.feed.close();
        self.handle.tokens.end_waiting();
        self.handle.shop.end_waiting();
        self.timer.end();
        for thread in self.threads.iter_mut().filter_map(Option::take) {
            if thread.join().is_err() {
                tracing::error!("a thread of the hub panicked");
            }
        }
        // What waited is worked off, and whoever listens has heard of it: only now does nothing more come.
        self.handle.shop.feed.end();
    }
}
