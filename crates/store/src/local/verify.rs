//! The files of a store held against a store that was derived from the log just now. Nothing is changed.
//!
//! Outcomes and callbacks lie where the records before them put them, so right files are equal byte for byte. Ids lie
//! in runs whose number follows from when checkpoints were made; what they list together does not.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_disk::{BLOCK, FileSystem, LogId};
use holdfast_domain::command::SetEndpoint;
use holdfast_domain::ids::{TransferId, TransferNo};
use holdfast_domain::participants::{Account, FundsMovement, Participant};
use holdfast_domain::transfers::Transfer;
use holdfast_domain::view::View;

use super::{LocalStore, Place};
use crate::blocks::{End, Kind, Mismatch, Options, Unopened};
use crate::checkpoint::{self, Part};
use crate::runs::{self, Run, RunName, RunSet, WrongId, hash_id};
use crate::{StoreError, row};

/// Findings that are kept; one lost run has a hundred thousand followers.
const FINDINGS_MAX: usize = 100;

/// Something in a store's files that is not as the log would have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFinding {
    /// The file, or the folder.
    pub file: PathBuf,
    /// Where in it.
    pub position: Option<u64>,
    /// What is wrong.
    pub found: String,
    /// A later release wrote it; it may be right.
    pub from_later_release: bool,
}

impl From<StoreError> for StoreFinding {
    fn from(error: StoreError) -> StoreFinding {
        let (file, position, found, from_later_release) = match error {
            StoreError::Damaged { file, position, found } => (file, Some(position), found, false),
            StoreError::Io { op, path, source } => (path, None, format!("cannot {op} it: {source}"), false),
            StoreError::Foreign { file, found, expected } => {
                (file, None, format!("it belongs to log {found}, this directory holds {expected}"), false)
            }
            StoreError::UnsupportedVersion { file, found, known } => {
                (file, None, format!("it has format version {found}, this release knows {known}"), true)
            }
        };
        StoreFinding { file, position, found, from_later_release }
    }
}

/// What was looked at.
#[derive(Debug, Default)]
pub struct StoreReport {
    /// Offsets of the checkpoints that were compared.
    pub checkpoints: Vec<u64>,
    /// Ids of ended transfers at the newest of them.
    pub ids: u64,
    /// Bytes of outcomes and of callbacks that were compared.
    pub block_bytes: u64,
    /// What is wrong, at most a hundred of it.
    pub findings: Vec<StoreFinding>,
    /// How many findings there were more.
    pub left_out: u64,
    /// Files that no checkpoint needs; the next start removes those that are the store's.
    pub leftovers: Vec<PathBuf>,
}

/// Compares a store's folder, checkpoint by checkpoint, oldest first.
pub struct StoreCheck {
    place: Place,
    offsets: Vec<u64>,
    opened: BTreeMap<RunName, Option<Arc<Run>>>,
    /// Blocks of outcomes and callbacks that were compared.
    compared: [u64; 2],
    report: StoreReport,
}

/// A checkpoint as it was read.
struct Contents {
    progress: Vec<u8>,
    participants: Vec<Participant>,
    accounts: Vec<Account>,
    funds: Vec<FundsMovement>,
    endpoints: Vec<SetEndpoint>,
    next: TransferNo,
    open: Vec<Transfer>,
    runs: Vec<RunName>,
    ends: [End; 2],
}

fn read(fs: &dyn FileSystem, dir: &Path, offset: u64) -> Result<(LogId, Contents), StoreError> {
    let none = || End { position: 0, tail: Vec::new() };
    let mut contents = Contents {
        progress: Vec::new(),
        participants: Vec::new(),
        accounts: Vec::new(),
        funds: Vec::new(),
        endpoints: Vec::new(),
        next: TransferNo(0),
        open: Vec::new(),
        runs: Vec::new(),
        ends: [none(), none()],
    };
    let log_id = checkpoint::read(fs, dir, offset, |_, part| match part {
        Part::Progress(bytes) => contents.progress = bytes,
        Part::Participant(row) => contents.participants.push(row),
        Part::Account(row) => contents.accounts.push(row),
        Part::Funds(row) => contents.funds.push(row),
        Part::Endpoint(row) => contents.endpoints.push(row),
        Part::Next(no) => contents.next = no,
        Part::Open(row) => contents.open.push(row),
        Part::Run(name) => contents.runs.push(name),
        Part::NextRun(_) => {}
        Part::Outcomes(end) => contents.ends[0] = end,
        Part::Callbacks(end) => contents.ends[1] = end,
    })?;
    contents.open.sort_unstable_by_key(|row| row.no);
    Ok((log_id, contents))
}

impl StoreCheck {
    /// Looks into a store's folder.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub fn open(fs: &Arc<dyn FileSystem>, dir: &Path, log_id: LogId) -> Result<StoreCheck, StoreError> {
        let place = Place { fs: Arc::clone(fs), dir: dir.to_owned(), log_id };
        let checkpoints = place.checkpoints();
        let offsets = match checkpoint::list(&**fs, &checkpoints) {
            Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            listed => listed?,
        };
        let (opened, report) = (BTreeMap::new(), StoreReport::default());
        Ok(StoreCheck { place, offsets, opened, compared: [0, 0], report })
    }

    /// The offsets of the checkpoints that are there, oldest first.
    #[must_use]
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The file of a checkpoint.
    #[must_use]
    pub fn file_of(&self, offset: u64) -> PathBuf {
        checkpoint::path_of(&self.place.checkpoints(), offset)
    }

    /// Whether that checkpoint can be read to its end.
    #[must_use]
    pub fn is_readable(&self, offset: u64) -> bool {
        checkpoint::read(&*self.place.fs, &self.place.checkpoints(), offset, |_, _| {}).is_ok()
    }

    /// Notes something that the caller has found.
    pub fn find(&mut self, finding: StoreFinding) {
        if self.report.findings.len() < FINDINGS_MAX {
            self.report.findings.push(finding);
        } else {
            self.report.left_out += 1;
        }
    }

    fn wrong(&mut self, file: &Path, found: String) {
        self.find(StoreFinding { file: file.to_owned(), position: None, found, from_later_release: false });
    }

    /// Compares the checkpoint at `offset` and all that it needs with `right`, which stands there and of which a
    /// checkpoint was made there. Gives what the checkpoint was begun with, if it can be read.
    pub fn compare(&mut self, offset: u64, right: &LocalStore) -> Option<Vec<u8>> {
        let (noted, left_out) = (self.report.findings.len(), self.report.left_out);
        let file = self.file_of(offset);
        let progress = match read(&*self.place.fs, &self.place.checkpoints(), offset) {
            Ok((log_id, _)) if log_id != self.place.log_id => {
                let expected = self.place.log_id;
                self.find(StoreError::Foreign { file: file.clone(), found: log_id, expected }.into());
                None
            }
            Ok((_, contents)) => {
                self.compare_state(&file, &contents, right);
                self.compare_blocks(&contents.ends, right);
                self.compare_ids(&contents.runs, right);
                self.report.checkpoints.push(offset);
                Some(contents.progress)
            }
            Err(error) => {
                self.find(error.into());
                None
            }
        };
        // A hub at work removes a checkpoint before what only that one needed.
        if !self.place.fs.exists(&file).unwrap_or(true) {
            self.report.findings.truncate(noted);
            self.report.left_out = left_out;
            self.report.checkpoints.retain(|compared| *compared != offset);
            return None;
        }
        progress
    }

    fn compare_state(&mut self, file: &Path, contents: &Contents, right: &LocalStore) {
        let books = &right.books;
        self.compare_rows(file, "participant", &contents.participants, books.participants(), |row| row.id.0);
        self.compare_rows(file, "account", &contents.accounts, books.accounts(), |row| row.id.0);
        let funds: Vec<FundsMovement> = books.all_funds().copied().collect();
        self.compare_rows(file, "funds movement", &contents.funds, &funds, |row| row.id);
        let endpoints: Vec<SetEndpoint> = books.all_endpoints().collect();
        let key = |row: &SetEndpoint| (row.participant().0, row.kind().to_owned());
        self.compare_rows(file, "endpoint", &contents.endpoints, &endpoints, key);
        let next = right.next_transfer();
        if contents.next != next {
            let found =
                format!("the next transfer has number {} and should have {}", contents.next.0, next.0);
            self.wrong(file, found);
        }
        // There may be a million of them: they are not copied.
        let open = right.hot.open_from(TransferNo(0), usize::MAX);
        self.compare_rows(file, "open transfer", &contents.open, open, |row| (row.no.0, row.id));
        let ends = [(right.outcomes.end(), "outcomes"), (right.callbacks.end(), "callbacks")];
        for (ours, (right, what)) in contents.ends.iter().zip(&ends) {
            if ours.position != right.position {
                let (is, should) = (ours.position, right.position);
                self.wrong(file, format!("the {what} end at {is} and should end at {should}"));
            } else if ours != right {
                self.wrong(file, format!("the last {what}, which lie in no block yet, are others"));
            }
        }
    }

    /// Both lists are in the order of their keys.
    fn compare_rows<'a, T: PartialEq + Debug + 'a, K: Ord + Debug>(
        &mut self,
        file: &Path,
        what: &str,
        ours: &[T],
        right: impl IntoIterator<Item = &'a T>,
        key: impl Fn(&T) -> K,
    ) {
        let (mut ours, mut right) = (ours.iter().peekable(), right.into_iter().peekable());
        loop {
            let found = match (ours.peek(), right.peek()) {
                (None, None) => return,
                (Some(own), sound) if sound.is_none_or(|sound| key(own) < key(sound)) => {
                    let found = format!("{what} {:?} is in it and should not be", key(own));
                    ours.next();
                    found
                }
                (own, Some(sound)) if own.is_none_or(|own| key(own) > key(sound)) => {
                    let found = format!("{what} {:?} is not in it", key(sound));
                    right.next();
                    found
                }
                (Some(own), Some(sound)) => {
                    let (own, sound) = (*own, *sound);
                    ours.next();
                    right.next();
                    if own == sound {
                        continue;
                    }
                    format!("{what} {:?} is {own:?}, and the log leads to {sound:?}", key(own))
                }
                _ => unreachable!("one of them is there"),
            };
            self.wrong(file, found);
        }
    }

    fn compare_blocks(&mut self, ends: &[End; 2], right: &LocalStore) {
        let sides = [
            (self.place.outcomes(), Kind::Outcomes, &right.outcomes),
            (self.place.callbacks(), Kind::Callbacks, &right.callbacks),
        ];
        for (at, (dir, kind, right)) in sides.into_iter().enumerate() {
            let files = Unopened::new(&self.place.fs, &dir, self.place.log_id, kind);
            let to = ends[at].position.min(right.end().position) / BLOCK as u64;
            // Callbacks that were delivered may be gone, and the scratch files may begin later still.
            let begin = || match kind {
                Kind::Outcomes => 0,
                Kind::Callbacks => {
                    // The file of the last whole block is never removed, unless it ends with that block.
                    let file_blocks = Options::default().file_blocks;
                    let last = to.saturating_sub(to % file_blocks);
                    let start = files.start().unwrap_or(Some(0)).unwrap_or(last).min(last);
                    start.max(right.start() / BLOCK as u64)
                }
            };
            let mut from = self.compared[at].max(begin());
            let mismatches = loop {
                let mut mismatches = Vec::new();
                files.compare(from, to, right, &mut |mismatch| {
                    if mismatches.len() <= FINDINGS_MAX {
                        mismatches.push(mismatch);
                    }
                });
                // A hub at work may have removed some meanwhile.
                let now = self.compared[at].max(begin());
                if now == from {
                    break mismatches;
                }
                from = now;
            };
            for mismatch in mismatches {
                self.find(finding(mismatch, kind));
            }
            self.report.block_bytes += to.saturating_sub(from) * BLOCK as u64;
            self.compared[at] = self.compared[at].max(to);
        }
    }

    /// The runs, each read and tested once; `None` if one of them is damaged.
    fn runs(&mut self, names: &[RunName]) -> Option<Vec<Arc<Run>>> {
        let mut runs = Vec::with_capacity(names.len());
        let mut whole = true;
        for name in names {
            if !self.opened.contains_key(name) {
                let (fs, dir, log_id) = (&self.place.fs, self.place.ids(), self.place.log_id);
                let opened = Run::open(fs, &dir, *name, log_id, self.place.key());
                let tested = opened.and_then(|run| run.verify().map(|_| Arc::new(run)));
                let tested = tested.map_err(|error| self.find(error.into())).ok();
                self.opened.insert(*name, tested);
            }
            match self.opened.get(name).cloned().flatten() {
                Some(run) => runs.push(run),
                None => whole = false,
            }
        }
        whole.then_some(runs)
    }

    fn compare_ids(&mut self, names: &[RunName], right: &LocalStore) {
        let Some(runs) = self.runs(names) else { return };
        self.report.ids = runs.iter().map(|run| run.len()).sum();
        let mut wrong = Vec::new();
        let mut left_out = 0;
        let compared = runs::compare(&runs, right.runs.runs(), &mut |id| {
            if wrong.len() < FINDINGS_MAX { wrong.push(id) } else { left_out += 1 }
        });
        let ids = self.place.ids();
        for wrong in wrong {
            let (file, found) = match wrong {
                WrongId::Missing { id } => {
                    let id = TransferId(id);
                    (ids.clone(), format!("transfer {id} has ended and is in no run that a checkpoint lists"))
                }
                WrongId::Extra { run, id } => {
                    let id = TransferId(id);
                    (run, format!("it lists transfer {id}, which had not ended or is in another run as well"))
                }
                WrongId::Misplaced { run, id, place, right } => {
                    let id = TransferId(id);
                    (run, format!("transfer {id} leads to {place}, and its outcome stands at {right}"))
                }
            };
            self.wrong(&file, found);
        }
        self.report.left_out += left_out;
        if let Err(error) = compared {
            self.find(error.into());
        }
    }

    /// Tests that every outcome of `store` is found by its id and nothing else is. For a store that nothing can be
    /// held against, since the log before it is gone.
    pub fn outcomes_are_found(&mut self, store: &LocalStore) {
        let history = store.history();
        let (mut count, mut last) = (0_u64, 0);
        let runs: RunSet = store.runs.clone();
        for row in history.scan(0, history.end()) {
            let (after, row) = match row {
                Ok(row) => row,
                Err(error) => return self.find(error.into()),
            };
            count += 1;
            let found = match runs.get(hash_id(store.key, row.id.0), row.id.0) {
                Ok(found) => found,
                Err(error) => return self.find(error.into()),
            };
            if !found.is_some_and(|place| place >= last && place < after) {
                let found = format!("transfer {} has ended, and no run leads to its outcome", row.id);
                self.wrong(&self.place.ids(), found);
            }
            last = after;
        }
        if count != runs.ids() {
            let found = format!("the runs list {} ids, and {count} transfers have ended", runs.ids());
            self.wrong(&self.place.ids(), found);
        }
    }

    /// What was found.
    #[must_use]
    pub fn finish(mut self) -> StoreReport {
        let needed: Vec<PathBuf> = self.needed();
        let folders =
            [self.place.checkpoints(), self.place.ids(), self.place.outcomes(), self.place.callbacks()];
        for dir in folders {
            // A folder that is not there has no files.
            let names = self.place.fs.list(&dir).unwrap_or_default();
            let files = names.iter().map(|name| dir.join(name));
            self.report.leftovers.extend(files.filter(|file| !needed.contains(file)));
        }
        self.report
    }

    /// The files that the checkpoints need.
    fn needed(&self) -> Vec<PathBuf> {
        let mut needed: Vec<PathBuf> = Vec::new();
        for offset in &self.offsets {
            match files_of(&self.place.fs, &self.place.dir, *offset) {
                Ok(found) => needed.extend(found.files.into_iter().map(|file| file.path)),
                Err(_) => needed.push(self.file_of(*offset)),
            }
        }
        needed
    }
}

fn finding(mismatch: Mismatch, kind: Kind) -> StoreFinding {
    match mismatch {
        Mismatch::Damaged(error) => error.into(),
        Mismatch::Differs { error, ours, right } => {
            let say = |record: Option<Vec<u8>>| match (record, kind) {
                (None, _) => "nothing".to_owned(),
                (Some(bytes), Kind::Outcomes) => row::read(&bytes).map_or_else(
                    || "no outcome".to_owned(),
                    |row| format!("transfer {} of {} as {}", row.id, row.amount, row.state.name()),
                ),
                (Some(bytes), Kind::Callbacks) => format!("a callback of {} bytes", bytes.len()),
            };
            let mut finding = StoreFinding::from(error);
            finding.found = format!("it holds {}, and the log leads to {}", say(ours), say(right));
            finding
        }
    }
}

/// A file that a checkpoint needs, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFile {
    /// Where it lies.
    pub path: PathBuf,
    /// The bytes that the checkpoint needs; `None`: all there are.
    pub bytes: Option<u64>,
}

/// What a checkpoint needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointFiles {
    /// Its files, itself first. None of their needed bytes ever changes.
    pub files: Vec<StoreFile>,
    /// What it was begun with.
    pub progress: Vec<u8>,
}

/// The files in `dir` that the checkpoint at `offset` needs.
///
/// # Errors
/// If the checkpoint cannot be read.
pub fn files_of(fs: &Arc<dyn FileSystem>, dir: &Path, offset: u64) -> Result<CheckpointFiles, StoreError> {
    let nobody = Place { fs: Arc::clone(fs), dir: dir.to_owned(), log_id: LogId([0; 16]) };
    let checkpoints = nobody.checkpoints();
    let whole = |path| StoreFile { path, bytes: None };
    let mut files = vec![whole(checkpoint::path_of(&checkpoints, offset))];
    let (mut ends, mut progress) = ([0, 0], Vec::new());
    let log_id = checkpoint::read(&**fs, &checkpoints, offset, |_, part| match part {
        Part::Progress(bytes) => progress = bytes,
        Part::Run(name) => files.push(whole(nobody.ids().join(name.to_string()))),
        Part::Outcomes(end) => ends[0] = end.position / BLOCK as u64,
        Part::Callbacks(end) => ends[1] = end.position / BLOCK as u64,
        _ => {}
    })?;
    let kinds = [(nobody.outcomes(), Kind::Outcomes), (nobody.callbacks(), Kind::Callbacks)];
    for ((dir, kind), end) in kinds.into_iter().zip(ends) {
        let found = Unopened::new(fs, &dir, log_id, kind).files_before(end)?;
        files.extend(found.into_iter().map(|(path, bytes)| StoreFile { path, bytes: Some(bytes) }));
    }
    Ok(CheckpointFiles { files, progress })
}
