//! From the newest checkpoint back to a store. The log is replayed over it afterwards.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use holdfast_disk::{FileSystem, LogId};
use holdfast_domain::ids::TransferNo;
use holdfast_domain::planted::{self, Bug};
use holdfast_domain::tokens::Kind as TokenKind;

use super::LocalStore;
use super::hot::Hot;
use super::jobs::{ANY_RUN, Kept, Work, remove_unneeded};
use super::shelves::{Life, Shelves};
use super::spent::Spent;
use super::vault::Vault;
use crate::StoreError;
use crate::archive::{Archive, Remembered, Which};
use crate::blocks::{BlockFiles, End, Options};
use crate::books::Books;
use crate::checkpoint::{self, Part};
use crate::folder::{CHECKPOINTS, FOLDERS, StoreFolder};
use crate::runs::RunName;

/// A store as a checkpoint describes it.
pub struct Recovered {
    /// The store.
    pub store: LocalStore,
    /// The log that it belongs to.
    pub log_id: LogId,
    /// The frames before this offset are in.
    pub offset: u64,
    /// What the checkpoint was begun with.
    pub progress: Vec<u8>,
    place: StoreFolder,
    kept: Vec<Kept>,
}

impl Recovered {
    /// Removes what lies on the disk and no kept checkpoint needs. To be called when it is certain that the hub will
    /// start from here: until then even the name of a rotten checkpoint says how far the log had come.
    ///
    /// # Errors
    /// If files cannot be removed.
    pub fn remove_unneeded(&self) -> Result<(), StoreError> {
        remove_unneeded(&self.place, &self.kept, ANY_RUN)
    }
}

/// The offset of the newest checkpoint in `dir` by its name, sound or not: the log had come so far.
///
/// # Errors
/// If the folder cannot be listed.
pub fn reached(fs: &dyn FileSystem, dir: &Path) -> Result<u64, StoreError> {
    Ok(checkpoint::list(fs, &dir.join(CHECKPOINTS))?.last().copied().unwrap_or(0))
}

/// The parts of a checkpoint, put together.
struct Gathered {
    log_id: LogId,
    progress: Vec<u8>,
    books: Books,
    hot: Hot,
    vault: Vault,
    shelves: Shelves,
    /// Kinds of tokens as they came.
    kinds: Vec<Arc<TokenKind>>,
    /// A token was of a kind that never came.
    is_contradictory: bool,
    archives: [Remembered; 2],
    callbacks: End,
}

/// The store of the newest checkpoint in `dir` that is sound with all that it needs; `None` if there is none at all. One
/// that has rotted is passed over, since the one before it and the log lead to the same state. What is newer than the
/// checkpoint is cut away or, by [`Recovered::remove_unneeded`], removed.
///
/// # Errors
/// If a file cannot be read, or every sound checkpoint needs one that is missing or damaged.
pub fn recover(fs: &Arc<dyn FileSystem>, dir: &Path) -> Result<Option<Recovered>, StoreError> {
    let nobody = StoreFolder { fs: Arc::clone(fs), dir: dir.to_owned(), log_id: LogId([0; 16]) };
    make_folders(&nobody)?;
    let checkpoints = nobody.checkpoints();
    let mut offsets = checkpoint::list(&**fs, &checkpoints)?;
    let mut unusable = None;
    while let Some(offset) = offsets.pop() {
        let gathered = match gather(&**fs, &checkpoints, offset) {
            Ok(gathered) => gathered,
            Err(error @ StoreError::Damaged { .. }) => {
                tracing::warn!(%error, offset, "a checkpoint has rotted and is passed over; nothing is lost, look at the disk");
                continue;
            }
            Err(error) => return Err(error),
        };
        let place = StoreFolder { log_id: gathered.log_id, ..nobody.clone() };
        match assemble(place, offset, &offsets, gathered) {
            Ok(recovered) => return Ok(Some(recovered)),
            Err(error @ StoreError::Damaged { .. }) => {
                tracing::warn!(%error, offset, "a file that a checkpoint needs is damaged; the one before it is tried");
                unusable.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    if unusable.is_none() {
        tracing::debug!("there is no sound checkpoint: the whole log is replayed");
    }
    unusable.map_or(Ok(None), Err)
}

fn make_folders(place: &StoreFolder) -> Result<(), StoreError> {
    for dir in FOLDERS.map(|folder| place.dir.join(folder)) {
        place.fs.create_dir_all(&dir).map_err(StoreError::io("create", &dir))?;
        // After kill -9 a name may be seen that is not durable yet; nothing is built on such a one.
        place.fs.sync_dir(&dir).map_err(StoreError::io("sync", &dir))?;
    }
    let mut unfinished = vec![place.checkpoints().join(checkpoint::TEMPORARY)];
    for ids in Which::ALL.map(|which| which.ids(&place.dir)) {
        let names = place.fs.list(&ids).map_err(StoreError::io("list", &ids))?;
        unfinished.extend(names.iter().filter(|name| RunName::is_temporary(name)).map(|name| ids.join(name)));
    }
    for path in unfinished {
        place.fs.remove_if_there(&path).map_err(StoreError::io("remove", &path))?;
    }
    Ok(())
}

/// Room for so many tokens is made at once; more find it as they come.
const TOKEN_ROOM_MAX: usize = 1 << 24;
/// Parts of a checkpoint that are handed over together, and how often ahead.
const PARTS_TOGETHER: usize = 512;
const PARTS_AHEAD: usize = 8;

/// Reads a checkpoint on one thread and takes its parts in on this one: a million rows are half a second of work for each.
fn gather(fs: &dyn FileSystem, dir: &Path, offset: u64) -> Result<Gathered, StoreError> {
    let rows_max = checkpoint::rows_max(fs, dir, offset)?;
    let mut gathered: Option<Gathered> = None;
    std::thread::scope(|scope| {
        let (sender, parts) = sync_channel::<(LogId, Vec<Part>)>(PARTS_AHEAD);
        let reader = scope.spawn(move || {
            let mut together = Vec::with_capacity(PARTS_TOGETHER);
            // Nobody stops listening before the end.
            let send = |log_id, parts: &mut Vec<Part>| drop(sender.send((log_id, std::mem::take(parts))));
            let log_id = checkpoint::read(fs, dir, offset, |log_id, part| {
                together.push(part);
                if together.len() == PARTS_TOGETHER {
                    send(log_id, &mut together);
                }
            })?;
            send(log_id, &mut together);
            Ok(())
        });
        for (log_id, parts) in parts {
            let gathered = gathered.get_or_insert_with(|| Gathered::of(log_id));
            parts.into_iter().for_each(|part| gathered.take_in(part, rows_max));
        }
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    let damaged = |found| StoreError::damaged(&checkpoint::path_of(dir, offset), 0, found);
    let gathered = gathered.ok_or_else(|| damaged("it holds nothing"))?;
    if gathered.is_contradictory {
        return Err(damaged("a token is of a kind that is not in it"));
    }
    Ok(gathered)
}

impl Gathered {
    fn of(log_id: LogId) -> Gathered {
        Gathered {
            log_id,
            progress: Vec::new(),
            books: Books::default(),
            hot: Hot::from(0, TransferNo(0)),
            vault: Vault::new(log_id),
            shelves: Shelves::new(log_id),
            kinds: Vec::new(),
            is_contradictory: false,
            archives: [Remembered::nothing(), Remembered::nothing()],
            callbacks: End { position: 0, tail: Vec::new() },
        }
    }

    fn take_in(&mut self, part: Part, rows_max: usize) {
        match part {
            Part::Progress(bytes) => self.progress = bytes,
            Part::Participant(row) => self.books.put_participant(&row),
            Part::Account(row) => self.books.put_account(&row),
            Part::Funds(row) => self.books.put_funds(&row),
            Part::Endpoint(row) => self.books.put_endpoint(&row),
            Part::Next(no) => {
                self.hot = Hot::from(StoreFolder::key_of(self.log_id), no);
                self.hot.make_room(rows_max);
            }
            Part::Open(row) => self.hot.put_back(row),
            Part::TokenCount(count) => {
                self.vault.make_room(usize::try_from(count).unwrap_or(0).min(TOKEN_ROOM_MAX));
            }
            Part::Lock(row) => self.vault.put_lock_back(Arc::new(row)),
            Part::Token(row) => match row.into_row(&mut self.kinds) {
                Some(row) => self.vault.put_back(row),
                None => self.is_contradictory = true,
            },
            Part::User(row) => drop(self.shelves.users.put(row)),
            Part::Item(row) => drop(self.shelves.items.put(row)),
            Part::Order(row) => self.shelves.put_order(*row),
            Part::Life(order, life) => drop(self.shelves.lives.put(Life { order, life })),
            Part::Checkout(row) => self.shelves.open(Arc::new(row)),
            Part::Key(row) => self.shelves.put_key(Arc::new(row)),
            Part::Outside(sides) => self.shelves.outside = sides,
            Part::Charging(charging) => self.shelves.charging = charging,
            Part::Run(which, name) => self.archives[which as usize].runs.push(name),
            Part::NextRun(which, name) => self.archives[which as usize].next_run = name,
            Part::Records(which, end) => self.archives[which as usize].end = Some(end),
            Part::Callbacks(end) => self.callbacks = end,
        }
    }
}

fn assemble(
    place: StoreFolder,
    offset: u64,
    older: &[u64],
    mut gathered: Gathered,
) -> Result<Recovered, StoreError> {
    let log_id = gathered.log_id;
    for (which, past) in Which::ALL.into_iter().zip(&mut gathered.archives) {
        let found = all_runs(&place, which)?;
        // A name is not used again as long as a file of that name might come back.
        past.next_run = past.next_run.max(found.last().map_or(RunName(0), |last| RunName(last.0 + 1)));
        if planted::has(Bug::RowAheadOfCheckpoint) {
            past.runs = found;
        }
    }
    let mut kept = Vec::new();
    if let Some(offset) = older.last() {
        match checkpoint::needs_of(&*place.fs, &place.checkpoints(), *offset) {
            Ok((runs, callbacks_end)) => kept.push(Kept { offset: *offset, runs, callbacks_end }),
            Err(error @ StoreError::Damaged { .. }) => {
                tracing::warn!(%error, "an older checkpoint has rotted; it is removed");
            }
            Err(error) => return Err(error),
        }
    }
    let callbacks_end = gathered.callbacks.position;
    let runs = gathered.archives.each_ref().map(|past| past.runs.clone());
    kept.push(Kept { offset, runs, callbacks_end });
    let progress = std::mem::take(&mut gathered.progress);
    let work = Work::with(kept.clone());
    let callbacks = Some(gathered.callbacks);
    let mut store = LocalStore::with_files(place.clone(), gathered.archives, callbacks, work)?;
    (store.books, store.hot, store.vault) = (gathered.books, gathered.hot, gathered.vault);
    store.shelves = gathered.shelves;
    Ok(Recovered { store, log_id, offset, progress, place, kept })
}

fn all_runs(place: &StoreFolder, which: Which) -> Result<Vec<RunName>, StoreError> {
    let ids = which.ids(&place.dir);
    let names = place.fs.list(&ids).map_err(StoreError::io("list", &ids))?;
    Ok(names.iter().filter_map(|name| RunName::parse(name)).collect())
}

impl LocalStore {
    /// An empty store for that log. What an earlier store left in `dir` is removed: it follows from the log.
    ///
    /// # Errors
    /// If the files cannot be made.
    pub fn create(fs: &Arc<dyn FileSystem>, dir: &Path, log_id: LogId) -> Result<LocalStore, StoreError> {
        let place = StoreFolder { fs: Arc::clone(fs), dir: dir.to_owned(), log_id };
        make_folders(&place)?;
        remove_unneeded(&place, &[], ANY_RUN)?;
        LocalStore::with_files(place, [Remembered::nothing(), Remembered::nothing()], None, Work::default())
    }

    fn with_files(
        place: StoreFolder,
        archives: [Remembered; 2],
        callbacks_end: Option<End>,
        work: Work,
    ) -> Result<LocalStore, StoreError> {
        let [ended, spent] = archives;
        // Callbacks that were delivered may be gone.
        let needed_from = callbacks_end.as_ref().map_or(0, |end| end.position);
        let options = Options { needed_from, ..Options::default() };
        Ok(LocalStore {
            ended: Archive::open(&place, Which::Ended, ended)?,
            spent: Archive::open(&place, Which::Spent, spent)?,
            callbacks: BlockFiles::create_or_open(place.callbacks(), callbacks_end, options)?,
            books: Books::default(),
            hot: Hot::from(place.key(), TransferNo(0)),
            vault: Vault::new(place.log_id),
            shelves: Shelves::new(place.log_id),
            past: Spent::new(place.log_id),
            loaded: std::collections::BTreeMap::new(),
            loaded_numbers: std::collections::BTreeMap::new(),
            work,
            scratch: Vec::new(),
            unknown: Vec::new(),
            place,
        })
    }
}
