//! A data directory held against its own log: every frame is decided again into a scratch store, and what the
//! directory's checkpoints say is compared with it where they stand.
//!
//! Nothing in the directory is changed, a torn tail is not cut, and a hub may be at work on it: then what the newest
//! checkpoint covers is checked, and the log as far as it goes now. If retention has removed the beginning of the log,
//! the oldest checkpoint that the log still covers is where the replay begins; what lies before it can only be checked
//! in itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_disk::FileSystem;
use holdfast_domain::shop::ShopCounts;
use holdfast_domain::view::{ShopSize, TransferNumbers};
use holdfast_log::{LogError, OpenReport, SegmentReader};
use holdfast_store::{
    CheckpointFiles, FOLDERS, LocalStore, StoreCheck, StoreError, StoreFinding, StoreReport, Tables,
    files_of, recover,
};

use crate::audit::Auditor;
use crate::core::Core;
use crate::hub::{log_folder, store_folder};
use crate::limits::REPLAY_CHECKPOINT_BYTES;
use crate::progress::Progress;
use crate::replay::{ReplayError, Rules, walk};

/// What to do about something that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// The log is whole and leads to the right state.
    DeriveAgain,
    /// What is wrong cannot be derived.
    Restore,
    /// The log ends before a checkpoint: segments are missing.
    FindTheLog,
    /// It is not wrong to everybody.
    StartLaterRelease,
}

impl Advice {
    /// In words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Advice::DeriveAgain => {
                "stop the hub, move the folder 'store' out of the data directory and start: it is derived again from the log"
            }
            Advice::FindTheLog => {
                "segments of the log are missing: put them back, or restore a backup. Do not move 'store' away: it is the \
                 only proof that they existed"
            }
            Advice::Restore => "keep this directory as it is and restore a backup that verifies",
            Advice::StartLaterRelease => "start the newer release, or verify with it",
        }
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file or folder; `None`: the books as the log has them.
    pub file: Option<PathBuf>,
    /// Where in it.
    pub position: Option<u64>,
    /// What.
    pub found: String,
    /// What to do.
    pub advice: Advice,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.file, self.position) {
            (Some(file), Some(position)) => write!(f, "{} at byte {position}: ", file.display())?,
            (Some(file), None) => write!(f, "{}: ", file.display())?,
            (None, _) => {}
        }
        write!(f, "{}. What to do: {}", self.found, self.advice.text())
    }
}

/// Why nothing could be said.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The log is damaged or cannot be read.
    #[error("the log is damaged")]
    Log(#[source] LogError),
    /// The log does not lead to a state.
    #[error("the log does not lead to a state")]
    Replay(#[source] ReplayError),
    /// The beginning of the log is gone, and so is every checkpoint that would stand for it.
    #[error(
        "the log begins at offset {start}, and there is no sound checkpoint from there on to begin with. Restore a backup"
    )]
    NoBeginning {
        /// The first offset of the log.
        start: u64,
    },
    /// The scratch store cannot be written, or the store's folder cannot be listed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file cannot be copied to the scratch directory.
    #[error("cannot copy {} to the scratch directory", file.display())]
    Scratch {
        /// The file.
        file: PathBuf,
        /// What the system answered.
        #[source]
        source: std::io::Error,
    },
}

/// What was found.
pub struct Verified {
    /// The log.
    pub log: OpenReport,
    /// Whether the replay began with the log, and if not, why.
    pub beginning: Beginning,
    /// Where the replay began: 0, or at a checkpoint.
    pub began_at: u64,
    /// How far it came, and what had happened by then.
    pub progress: Progress,
    /// Position changes that the accounts were recomputed from.
    pub position_changes: u64,
    /// Accounts.
    pub accounts: usize,
    /// Transfers ever.
    pub transfers: u64,
    /// Holds that are open.
    pub open_holds: usize,
    /// Tokens that live.
    pub tokens: usize,
    /// Locks on them; the lease of some may have run out.
    pub token_locks: usize,
    /// Rows of the shop; its paid orders lie in the archive and are not among them.
    pub shop: ShopCounts,
    /// The store's files.
    pub store: StoreReport,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// Where to look, and where there is room.
pub struct Places<'a> {
    /// The data directory's file system.
    pub fs: Arc<dyn FileSystem>,
    /// The data directory.
    pub data: &'a Path,
    /// An empty directory on the same file system object, for a store as large as the one that is checked.
    pub scratch: &'a Path,
}

/// Why a replay did not begin with the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// It did.
    Whole,
    /// Retention has removed the beginning.
    Removed,
    /// The beginning was decided under these rules, which are not those of this program.
    OtherRules(u32),
}

/// Checks a data directory. `show` is told how far it is: the offset reached, and the end.
///
/// # Errors
/// If the log cannot be read to its end, or the scratch directory cannot be used.
pub fn verify(places: &Places<'_>, show: &mut dyn FnMut(u64, u64)) -> Result<Verified, VerifyError> {
    let reader =
        SegmentReader::open(Arc::clone(&places.fs), &log_folder(places.data)).map_err(VerifyError::Log)?;
    let log = reader.check().map_err(VerifyError::Log)?;
    let because = if log.start > 0 {
        (Beginning::Removed, VerifyError::NoBeginning { start: log.start })
    } else {
        match attempt(places, &reader, log.clone(), (Beginning::Whole, None), show) {
            Err(VerifyError::Replay(error)) => under_other_rules(error)?,
            other => return other,
        }
    };
    from_checkpoints(places, &reader, &log, because, show)
}

/// Why a replay cannot begin where it was tried: other rules decided what follows. Any other failure is one.
fn under_other_rules(error: ReplayError) -> Result<(Beginning, VerifyError), VerifyError> {
    match error.other_rules() {
        Some(rules) => Ok((Beginning::OtherRules(rules), VerifyError::Replay(error))),
        None => Err(VerifyError::Replay(error)),
    }
}

/// Begins with the oldest checkpoint after which this program's rules decided all: an upgrade began with one that a clean stop
/// had left.
fn from_checkpoints(
    places: &Places<'_>,
    reader: &SegmentReader,
    log: &OpenReport,
    (mut beginning, mut failure): (Beginning, VerifyError),
    show: &mut dyn FnMut(u64, u64),
) -> Result<Verified, VerifyError> {
    let check = StoreCheck::open(&places.fs, &store_folder(places.data), reader.log_id())?;
    let readable = |at: &u64| *at >= log.start && check.is_readable(*at);
    for base in check.offsets().iter().copied().filter(readable) {
        let scratch = places.scratch.join(format!("from-{base}"));
        let again = Places { fs: Arc::clone(&places.fs), data: places.data, scratch: &scratch };
        match attempt(&again, reader, log.clone(), (beginning, Some(base)), show) {
            Err(VerifyError::Replay(error)) => (beginning, failure) = under_other_rules(error)?,
            other => return other,
        }
    }
    Err(failure)
}

fn attempt(
    places: &Places<'_>,
    reader: &SegmentReader,
    log: OpenReport,
    (beginning, base): (Beginning, Option<u64>),
    show: &mut dyn FnMut(u64, u64),
) -> Result<Verified, VerifyError> {
    let Places { fs, data, scratch } = places;
    let mut check = StoreCheck::open(fs, &store_folder(data), reader.log_id())?;
    let mut waiting: Vec<u64> = check.offsets().to_vec();
    let mut core = match base {
        None => Core::new(LocalStore::create(fs, scratch, reader.log_id())?),
        Some(base) => resume(places, base)?.ok_or(VerifyError::NoBeginning { start: log.start })?,
    };
    let began_at = core.end();
    let mut auditor = Auditor::default();
    if base.is_some() {
        auditor = Auditor::from(core.store());
        check.outcomes_are_found(core.store());
        // What stands before it cannot be compared with anything.
        waiting.retain(|offset| *offset >= began_at);
    }
    waiting.reverse();
    let mut compare = |core: &mut Core<LocalStore>, check: &mut StoreCheck| -> Result<(), StoreError> {
        while waiting.last().is_some_and(|offset| *offset <= core.end()) {
            let Some(offset) = waiting.pop() else { break };
            if offset == core.end() {
                core.begin_checkpoint();
                core.run_jobs()?;
                compare_at(check, offset, core);
            } else {
                find(check, offset, "it stands where no frame of the log ends".to_owned());
            }
        }
        Ok(())
    };
    compare(&mut core, &mut check)?;
    let frames = reader.frames(core.end()).map_err(|error| VerifyError::Replay(error.into()))?;
    let replayed = walk(frames, &mut core, Rules::OursOnly, |frame, commands, effects, core| {
        auditor.frame(frame.header.base_offset, commands, effects, core.store());
        compare(core, &mut check)?;
        if core.unsaved_bytes() >= REPLAY_CHECKPOINT_BYTES {
            core.begin_checkpoint();
        }
        core.run_jobs()?;
        show(core.end(), log.end.max(core.end()));
        Ok(())
    });
    replayed.map_err(|error| match error {
        ReplayError::Store(error) => VerifyError::Store(error),
        other => VerifyError::Replay(other),
    })?;
    let shortened = !waiting.is_empty();
    for offset in waiting {
        find(&mut check, offset, format!("it stands at {offset}, and the log ends at {}", core.end()));
    }
    let position_changes = auditor.rows;
    let mut token_locks = 0;
    core.store().locks(&mut |_| token_locks += 1);
    let books = auditor.finish(core.store());
    let store = check.finish();
    let problems = problems(&books, &store, beginning, shortened, (log.end, core.end()));
    Ok(Verified {
        beginning,
        began_at,
        progress: *core.progress(),
        position_changes,
        accounts: core.store().books().accounts().len(),
        transfers: core.store().next_transfer().0,
        open_holds: core.store().open_holds(),
        tokens: core.store().token_count(),
        token_locks,
        shop: core.store().shop_counts(),
        store,
        problems,
        log,
    })
}

fn problems(
    books: &[String],
    store: &StoreReport,
    beginning: Beginning,
    shortened: bool,
    (log_end, end): (u64, u64),
) -> Vec<Problem> {
    let in_books = books.iter().map(|finding| Problem {
        file: None,
        position: None,
        found: format!("the books do not add up: {finding}"),
        advice: Advice::Restore,
    });
    let in_store = store.findings.iter().map(|finding| Problem {
        file: Some(finding.file.clone()),
        position: finding.position,
        found: finding.found.clone(),
        advice: match finding.from_later_release {
            true => Advice::StartLaterRelease,
            false if shortened => Advice::FindTheLog,
            false if beginning == Beginning::Whole => Advice::DeriveAgain,
            false => Advice::Restore,
        },
    });
    let mut problems: Vec<Problem> = in_books.chain(in_store).collect();
    if end < log_end {
        let found = format!("the log was read up to offset {log_end} and replayed only up to {end}");
        problems.push(Problem { file: None, position: None, found, advice: Advice::Restore });
    }
    problems
}

fn compare_at(check: &mut StoreCheck, offset: u64, core: &Core<LocalStore>) {
    let Some(bytes) = check.compare(offset, core.store()) else { return };
    let right = core.progress();
    let found = match Progress::from_bytes(&bytes) {
        None => "how far the log was taken in is told in a form of another release".to_owned(),
        Some(progress) if progress.chain != right.chain => {
            "the audit chain in it is not the one that the log leads to".to_owned()
        }
        Some(progress) if progress != *right => {
            format!("it says {progress:?}, and the log leads to {right:?}")
        }
        Some(_) => return,
    };
    find(check, offset, found);
}

/// Something is wrong with the checkpoint at `offset`.
fn find(check: &mut StoreCheck, offset: u64, found: String) {
    let file = check.file_of(offset);
    check.find(StoreFinding { file, position: None, found, from_later_release: false });
}

/// A scratch store that stands where the checkpoint at `offset` stands, from copies of its files.
fn resume(places: &Places<'_>, offset: u64) -> Result<Option<Core<LocalStore>>, VerifyError> {
    let Places { fs, data, scratch } = places;
    let store = store_folder(data);
    let CheckpointFiles { files, .. } = files_of(fs, &store, offset)?;
    for folder in FOLDERS {
        let dir = scratch.join(folder);
        fs.create_dir_all(&dir).map_err(|source| VerifyError::Scratch { file: dir.clone(), source })?;
    }
    for file in files {
        let within = file.path.strip_prefix(&store).unwrap_or(&file.path);
        copy(&**fs, &file.path, &scratch.join(within), file.bytes)
            .map_err(|source| VerifyError::Scratch { file: file.path.clone(), source })?;
    }
    let Some(recovered) = recover(fs, scratch)? else { return Ok(None) };
    let progress = Progress::from_bytes(&recovered.progress);
    Ok(progress.map(|progress| Core::resume(recovered.store, progress)))
}

fn copy(fs: &dyn FileSystem, from: &Path, to: &Path, bytes: Option<u64>) -> std::io::Result<()> {
    const PIECE: usize = 1024 * 1024;
    let (from, to) = (fs.open_read(from)?, fs.create_new(to)?);
    let length = from.len()?;
    let length = bytes.map_or(length, |bytes| bytes.min(length));
    let (mut position, mut buffer) = (0, vec![0; PIECE]);
    while position < length {
        let wanted = usize::try_from(length - position).map_or(PIECE, |left| left.min(PIECE));
        let read = from.read_full_at(&mut buffer[..wanted], position)?;
        if read < wanted {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        to.write_at(&buffer[..wanted], position)?;
        position += wanted as u64;
    }
    Ok(())
}
