//! One life of the hub: from opening the log to its end by a crash, a failure or a kill.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_disk::DirLock;
use holdfast_domain::command::Command;
use holdfast_domain::effects::Outcome;
use holdfast_domain::positions::PrepareOrder;
use holdfast_domain::records::Sealed;
use holdfast_engine::Refusal;
use holdfast_hub::limits::HubOptions;
use holdfast_hub::{
    Core, Health, Intake, Journal, Keeper, OpenError, Opened, Status, Submission, Turn, Writer, log_folder,
};
use holdfast_log::{BLOCK, FileSystem, Log, LogId, OpenReport, Reader, SegmentOptions, SimFs, SparePreparer};
use holdfast_store::LocalStore;

use crate::clock::SimClock;
use crate::coverage::Phase;
use crate::diary::Ticket;
use crate::random::Random;

/// How far the simulated hub lets its wall clock move.
pub const CLOCK_JUMP_MAX: i64 = 10_000;
const DATA: &str = "/data";
/// The folder of the log.
pub const LOG: &str = "/data/log";
/// The folder of what is derived from it.
pub const STORE: &str = "/data/store";

/// An answer as it arrived.
pub type Arrival = (Ticket, Result<Vec<Outcome>, Refusal>);

/// Where answers arrive.
#[derive(Clone, Default)]
struct Inbox(Arc<Mutex<Vec<Arrival>>>);

impl Inbox {
    fn put(&self, arrival: Arrival) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(arrival);
    }

    fn take(&self) -> Vec<Arrival> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A running hub, driven by hand.
pub struct Process {
    _lock: DirLock,
    /// Decides, and has what the store has to do done.
    pub writer: Writer,
    /// Where commands wait.
    pub intake: Arc<Intake>,
    health: Arc<Health>,
    /// Reads the log beside the writer.
    pub reader: Reader,
    /// Prepares the next segment ahead, as the hub's second thread would.
    pub spare: SparePreparer,
    inbox: Inbox,
    /// The options of this life.
    pub options: HubOptions,
    /// What was found when it opened its log.
    pub report: OpenReport,
    /// The checkpoint that it started from; 0 is the beginning.
    pub checkpoint: u64,
}

/// Options for one life: bounds so small that they are met.
pub fn draw_options(random: &mut Random) -> HubOptions {
    HubOptions {
        position_order: if random.chance(50) { PrepareOrder::Arrival } else { PrepareOrder::Smallest },
        frame_bytes_max: *random.pick(&[512, 2_048, 1 << 16]),
        intake_records_max: random.size(20, 60),
        intake_bytes_max: *random.pick(&[10_000, 1 << 16]),
        intake_items_max: random.size(4, 12),
        expiry_holds_max: *random.pick(&[1, 3, 100]),
        clock_jump_max: CLOCK_JUMP_MAX,
        checkpoint_log_bytes: *random.pick(&[1, 1_000, 3_000, 10_000, 100_000]),
        ..HubOptions::default()
    }
}

impl Process {
    /// Opens the log on that disk, replays it and stands ready.
    ///
    /// # Errors
    /// Whatever the hub says.
    pub fn start(
        fs: &SimFs,
        clock: &Arc<SimClock>,
        options: HubOptions,
        random: &mut Random,
    ) -> Result<Process, OpenError> {
        let blocks = u64::try_from(random.size(2, 12)).expect("a few");
        let segments =
            SegmentOptions { segment_bytes: blocks * BLOCK as u64, created_by: "holdfast-sim".to_owned() };
        let log_id = LogId(random.wide().to_le_bytes());
        // Now and then the replay itself makes checkpoints, of which a crash may leave any part.
        let keep = if random.chance(25) { options.checkpoint_log_bytes } else { u64::MAX };
        let disk = Arc::new(fs.clone());
        let opened = Opened::open_keeping(disk, Path::new(DATA), segments, log_id, keep)?;
        let (report, checkpoint) = (opened.report.clone(), opened.checkpoint);
        let (log, core, lock) = opened.into_parts();
        let (reader, spare) = (log.reader(), log.spare_preparer());
        let intake = Arc::new(Intake::new(options));
        let health = Arc::new(Health::default());
        let journal = Journal::inline(Box::new(log), &intake, &health);
        let clock = Arc::clone(clock) as Arc<dyn holdfast_engine::clock::Clock>;
        let hands = (journal, Keeper::by_hand());
        let writer = Writer::new(core, Arc::clone(&intake), hands, clock, Arc::clone(&health), options);
        Ok(Process {
            _lock: lock,
            writer,
            intake,
            health,
            reader,
            spare,
            inbox: Inbox::default(),
            options,
            report,
            checkpoint,
        })
    }

    /// The live state.
    pub const fn core(&self) -> &Core<LocalStore> {
        self.writer.core()
    }

    /// Why the hub has stopped, if it has.
    pub fn stopped(&self) -> Option<String> {
        match self.health.status() {
            Status::Stopped(reason) => Some(reason),
            _ => None,
        }
    }

    /// Whether it has.
    pub fn has_stopped(&self) -> bool {
        self.stopped().is_some()
    }

    /// What the next of the store's jobs is about.
    pub fn next_job(&self, merge: bool) -> Option<Phase> {
        let job = self.writer.next_job(merge)?;
        Some(if job.is_merge() {
            Phase::Merge
        } else if job.is_checkpoint() {
            Phase::Checkpoint
        } else {
            Phase::Blocks
        })
    }

    /// Runs the next of the store's jobs; `false` if it failed.
    pub fn run_job(&mut self, merge: bool) -> bool {
        self.writer.run_job(merge).is_none_or(|done| done.is_ok())
    }

    /// Puts commands in line, as an edge would.
    ///
    /// # Errors
    /// If they were not taken.
    pub fn submit(&self, ticket: Ticket, commands: Vec<Command>) -> Result<(), Refusal> {
        let inbox = self.inbox.clone();
        let answer = Box::new(move |answer| inbox.put((ticket, answer)));
        self.intake.submit(Submission::new(Sealed::of(&commands), answer))
    }

    /// One turn of the writer, and the answers that came of it.
    pub fn turn(&mut self) -> (Turn, Vec<Arrival>) {
        (self.writer.turn(), self.inbox.take())
    }
}

/// The operator moves away what is derived from the log.
///
/// # Errors
/// If the disk refuses.
pub fn remove_store(fs: &SimFs) -> std::io::Result<()> {
    for path in fs.paths().iter().filter(|path| path.starts_with(STORE)) {
        fs.remove(path)?;
        path.parent().map_or(Ok(()), |dir| fs.sync_dir(dir))?;
    }
    Ok(())
}

/// The bytes of every file of the log, in the order of their names.
pub fn log_bytes(fs: &SimFs) -> Vec<Vec<u8>> {
    let folder: PathBuf = log_folder(Path::new(DATA));
    let names = fs.list(&folder).unwrap_or_default();
    names.iter().filter_map(|name| fs.bytes_of(&folder.join(name)).ok()).collect()
}
