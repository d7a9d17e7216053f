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
use holdfast_domain::shop::{Charging, CheckoutRow, ItemRow, KeyRow, OrderRow, Sides, UserRow};
use holdfast_domain::tokens::{LockRow, Name, TokenRow};
use holdfast_domain::transfers::Transfer;
use holdfast_domain::view::TransferNumbers;

use super::needed::{block_folders, files_of};
use super::shelves::{Life, Shelves};
use super::table::Named;
use super::{LocalStore, spent};
use crate::archive::{Archive, Which};
use crate::blocks::{End, Files, Kind, Mismatch, Options};
use crate::checkpoint::{self, Part};
use crate::folder::{FOLDERS, StoreFolder};
use crate::runs::{self, Run, RunName, WrongId};
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
    /// Ids of spenders and consumed tokens there.
    pub spent_ids: u64,
    /// Bytes of outcomes, of spends and of callbacks that were compared.
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
    place: StoreFolder,
    offsets: Vec<u64>,
    /// The runs of each archive.
    opened: [BTreeMap<RunName, Option<Arc<Run>>>; 2],
    /// Blocks of outcomes, spends and callbacks that were compared.
    compared: [u64; 3],
    report: StoreReport,
}

/// A checkpoint as it was read.
#[derive(Default)]
struct Contents {
    progress: Vec<u8>,
    participants: Vec<Participant>,
    accounts: Vec<Account>,
    funds: Vec<FundsMovement>,
    endpoints: Vec<SetEndpoint>,
    /// The number of the next transfer.
    next: u64,
    open: Vec<Transfer>,
    locks: Vec<LockRow>,
    tokens: Vec<TokenRow>,
    users: Vec<UserRow>,
    items: Vec<ItemRow>,
    orders: Vec<OrderRow>,
    lives: Vec<Life>,
    checkouts: Vec<Arc<CheckoutRow>>,
    keys: Vec<Arc<KeyRow>>,
    outside: Sides,
    charging: Charging,
    /// Of each archive.
    runs: [Vec<RunName>; 2],
    /// Of outcomes, spends and callbacks.
    ends: [End; 3],
}

fn read(fs: &dyn FileSystem, dir: &Path, offset: u64) -> Result<(LogId, Contents), StoreError> {
    let mut contents = Contents::default();
    let mut kinds = Vec::new();
    let log_id = checkpoint::read(fs, dir, offset, |_, part| match part {
        Part::Progress(bytes) => contents.progress = bytes,
        Part::Participant(row) => contents.participants.push(row),
        Part::Account(row) => contents.accounts.push(row),
        Part::Funds(row) => contents.funds.push(row),
        Part::Endpoint(row) => contents.endpoints.push(row),
        Part::Next(no) => contents.next = no.0,
        Part::Open(row) => contents.open.push(row),
        Part::Lock(row) => contents.locks.push(row),
        // A kind that never came shows as a token that is not there.
        Part::Token(row) => contents.tokens.extend(row.into_row(&mut kinds)),
        Part::User(row) => contents.users.push(row),
        Part::Item(row) => contents.items.push(row),
        Part::Order(row) => contents.orders.push(*row),
        Part::Life(order, life) => contents.lives.push(Life { order, life }),
        Part::Checkout(row) => contents.checkouts.push(Arc::new(row)),
        Part::Key(row) => contents.keys.push(Arc::new(row)),
        Part::Outside(sides) => contents.outside = sides,
        Part::Charging(charging) => contents.charging = charging,
        Part::Run(which, name) => contents.runs[which as usize].push(name),
        Part::NextRun(..) | Part::TokenCount(_) => {}
        Part::Records(which, end) => contents.ends[which as usize] = end,
        Part::Callbacks(end) => contents.ends[2] = end,
    })?;
    contents.open.sort_unstable_by_key(|row| row.no);
    contents.locks.sort_unstable_by(|one, other| one.spender.cmp(&other.spender));
    contents.tokens.sort_unstable_by(|one, other| one.token.id.cmp(&other.token.id));
    contents.users.sort_unstable_by(by_name);
    contents.items.sort_unstable_by(by_name);
    contents.orders.sort_unstable_by(by_name);
    contents.lives.sort_unstable_by(by_name);
    contents.checkouts.sort_unstable_by(by_name);
    contents.keys.sort_unstable_by(by_name);
    Ok((log_id, contents))
}

fn by_name<R: Named>(one: &R, other: &R) -> std::cmp::Ordering {
    one.name().cmp(other.name())
}

impl StoreCheck {
    /// Looks into a store's folder.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub fn open(fs: &Arc<dyn FileSystem>, dir: &Path, log_id: LogId) -> Result<StoreCheck, StoreError> {
        let place = StoreFolder { fs: Arc::clone(fs), dir: dir.to_owned(), log_id };
        let offsets = checkpoint::list(&**fs, &place.checkpoints())?;
        let (opened, report) = ([BTreeMap::new(), BTreeMap::new()], StoreReport::default());
        Ok(StoreCheck { place, offsets, opened, compared: [0; 3], report })
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
                self.report.ids = self.compare_ids(&contents.runs, Which::Ended, &right.ended);
                self.report.spent_ids = self.compare_ids(&contents.runs, Which::Spent, &right.spent);
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
        self.compare_rows(file, "funds movement", &contents.funds, books.funds.values(), |row| row.id);
        let endpoints: Vec<SetEndpoint> = books.all_endpoints().collect();
        let key = |row: &SetEndpoint| (row.participant().0, row.kind().to_owned());
        self.compare_rows(file, "endpoint", &contents.endpoints, &endpoints, key);
        let (is, should) = (contents.next, right.next_transfer().0);
        if is != should {
            self.wrong(file, format!("the next transfer has number {is} and should have {should}"));
        }
        // There may be a million of them: they are not copied.
        let open = right.hot.open_from(TransferNo(0), usize::MAX);
        self.compare_rows(file, "open transfer", &contents.open, open, |row| (row.no.0, row.id));
        let mut locks: Vec<&LockRow> = right.vault.locks.iter().map(|row| &**row).collect();
        locks.sort_unstable_by_key(|row| &row.spender);
        self.compare_rows(file, "lock", &contents.locks, locks, |row| Name::clone(&row.spender));
        let mut tokens: Vec<&TokenRow> = right.vault.tokens.iter().collect();
        tokens.sort_unstable_by_key(|row| &row.token.id);
        self.compare_rows(file, "token", &contents.tokens, tokens, |row| row.token.id.clone());
        self.compare_shop(file, contents, &right.shelves);
        let ends = [
            (right.ended.records.end(), "outcomes"),
            (right.spent.records.end(), "spends"),
            (right.callbacks.end(), "callbacks"),
        ];
        for (ours, (right, what)) in contents.ends.iter().zip(&ends) {
            if ours.position != right.position {
                let (is, should) = (ours.position, right.position);
                self.wrong(file, format!("the {what} end at {is} and should end at {should}"));
            } else if ours != right {
                self.wrong(file, format!("the last {what}, which lie in no block yet, are others"));
            }
        }
    }

    fn compare_shop(&mut self, file: &Path, contents: &Contents, right: &Shelves) {
        fn name<R: Named>(row: &R) -> String {
            row.name().to_owned()
        }
        self.compare_rows(file, "user", &contents.users, right.users.sorted(), name);
        self.compare_rows(file, "item", &contents.items, right.items.sorted(), name);
        self.compare_rows(file, "order", &contents.orders, right.orders.sorted(), name);
        self.compare_rows(file, "life of order", &contents.lives, right.lives.sorted(), name);
        self.compare_rows(file, "open checkout", &contents.checkouts, right.checkouts.sorted(), name);
        self.compare_rows(file, "idempotency key", &contents.keys, right.keys.sorted(), name);
        if contents.outside != right.outside {
            let found = format!("{:?} are outside and should be {:?}", contents.outside, right.outside);
            self.wrong(file, found);
        }
        if contents.charging != right.charging {
            let found = format!("{:?} is charged and should be {:?}", contents.charging, right.charging);
            self.wrong(file, found);
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
        let mut right = right.into_iter().peekable();
        let missing = |sound: &T| format!("{what} {:?} is not in it", key(sound));
        for own in ours {
            while let Some(sound) = right.next_if(|sound| key(sound) < key(own)) {
                self.wrong(file, missing(sound));
            }
            match right.next_if(|sound| key(sound) == key(own)) {
                None => self.wrong(file, format!("{what} {:?} is in it and should not be", key(own))),
                Some(sound) if own != sound => {
                    let found = format!("{what} {:?} is {own:?}, and the log leads to {sound:?}", key(own));
                    self.wrong(file, found);
                }
                Some(_) => {}
            }
        }
        right.for_each(|sound| self.wrong(file, missing(sound)));
    }

    fn compare_blocks(&mut self, ends: &[End; 3], right: &LocalStore) {
        let right = [&right.ended.records, &right.spent.records, &right.callbacks];
        let file_blocks = Options::default().file_blocks;
        for (at, (folder, right)) in block_folders(&self.place).into_iter().zip(right).enumerate() {
            let kind = folder.kind;
            let files = Files::new(folder, file_blocks);
            let to = ends[at].position.min(right.end().position) / BLOCK as u64;
            // Callbacks that were delivered may be gone, and the scratch files may begin later still.
            let begin = || match kind {
                Kind::Outcomes | Kind::Spends => 0,
                Kind::Callbacks => {
                    // The file of the last whole block is never removed, unless it ends with that block.
                    let last = to.saturating_sub(to % file_blocks);
                    let start = files.start().unwrap_or(Some(0)).unwrap_or(last).min(last);
                    start.max(right.reader().start() / BLOCK as u64)
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
    fn runs(&mut self, which: Which, names: &[RunName]) -> Option<Vec<Arc<Run>>> {
        let mut runs = Vec::with_capacity(names.len());
        let mut whole = true;
        for name in names {
            if !self.opened[which as usize].contains_key(name) {
                let opened = Run::open(&which.runs(&self.place), *name);
                let tested = opened.and_then(|run| run.verify().map(|_| Arc::new(run)));
                let tested = tested.map_err(|error| self.find(error.into())).ok();
                self.opened[which as usize].insert(*name, tested);
            }
            match self.opened[which as usize].get(name).cloned().flatten() {
                Some(run) => runs.push(run),
                None => whole = false,
            }
        }
        whole.then_some(runs)
    }

    /// Compares the ids of an archive; tells how many there are.
    fn compare_ids(&mut self, names: &[Vec<RunName>; 2], which: Which, right: &Archive) -> u64 {
        let Some(runs) = self.runs(which, &names[which as usize]) else { return 0 };
        let mut wrong = Vec::new();
        let mut left_out = 0;
        let compared = runs::compare(&runs, right.runs.runs(), &mut |id| {
            if wrong.len() < FINDINGS_MAX { wrong.push(id) } else { left_out += 1 }
        });
        let (ids, name) = (which.ids(&self.place.dir), |id| name_of(which, id));
        for wrong in wrong {
            let (file, found) = match wrong {
                WrongId::Missing { id } => {
                    (ids.clone(), format!("{} has ended and is in no run that a checkpoint lists", name(id)))
                }
                WrongId::Extra { run, id } => {
                    let found =
                        format!("it lists {}, which had not ended or is in another run as well", name(id));
                    (run, found)
                }
                WrongId::Misplaced { run, id, place, right } => {
                    (run, format!("{} leads to {place}, and its outcome stands at {right}", name(id)))
                }
            };
            self.wrong(&file, found);
        }
        self.report.left_out += left_out;
        if let Err(error) = compared {
            self.find(error.into());
        }
        runs.iter().map(|run| run.len()).sum()
    }

    /// Tests that every outcome and every spend of `store` is found by its ids and nothing else is. For a store that nothing
    /// can be held against, since the log before it is gone.
    pub fn outcomes_are_found(&mut self, store: &LocalStore) {
        for are_found in [Self::transfers_are_found, Self::spends_are_found] {
            if let Err(error) = are_found(self, store) {
                self.find(error.into());
            }
        }
    }

    fn spends_are_found(&mut self, store: &LocalStore) -> Result<(), StoreError> {
        let (runs, ids) = (&store.spent.runs, Which::Spent.ids(&self.place.dir));
        let reader = store.spent.records.reader();
        let mut count = 0;
        for record in reader.scan(0, reader.end()) {
            let (at, first) = record?;
            let record = spent::read_from(&self.place, at, first, |at, out| reader.read_into(at, out))?;
            for id in spent::ids_of(self.place.log_id, &record) {
                count += 1;
                if runs.get(store.spent.hash(id), id)? != Some(at) {
                    let found = format!("no run leads from {} to {at}", name_of(Which::Spent, id));
                    self.wrong(&ids, found);
                }
            }
        }
        if count != runs.ids() {
            let found = format!("the runs list {} ids, and the spends have {count}", runs.ids());
            self.wrong(&ids, found);
        }
        Ok(())
    }

    fn transfers_are_found(&mut self, store: &LocalStore) -> Result<(), StoreError> {
        let history = store.history();
        let (mut count, mut last) = (0_u64, 0);
        let (runs, ids) = (&store.ended.runs, Which::Ended.ids(&self.place.dir));
        for row in history.scan(0, history.end()) {
            let (after, row) = row?;
            count += 1;
            let found = runs.get(store.ended.hash(row.id.0), row.id.0)?;
            if !found.is_some_and(|place| place >= last && place < after) {
                let found = format!("transfer {} has ended, and no run leads to its outcome", row.id);
                self.wrong(&ids, found);
            }
            last = after;
        }
        if count != runs.ids() {
            let found = format!("the runs list {} ids, and {count} transfers have ended", runs.ids());
            self.wrong(&ids, found);
        }
        Ok(())
    }

    /// What was found.
    #[must_use]
    pub fn finish(mut self) -> StoreReport {
        let needed: Vec<PathBuf> = self.needed();
        for dir in FOLDERS.map(|folder| self.place.dir.join(folder)) {
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

/// What an id of an archive stands for. Those of tokens are hashes and do not tell.
fn name_of(which: Which, id: u128) -> String {
    match which {
        Which::Ended => format!("transfer {}", TransferId(id)),
        Which::Spent => format!("the token, spender or order of hash {id:032x}"),
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
                (Some(bytes), Kind::Spends) => spent::describe(&bytes),
                (Some(bytes), Kind::Callbacks) => format!("a callback of {} bytes", bytes.len()),
            };
            let mut finding = StoreFinding::from(error);
            finding.found = format!("it holds {}, and the log leads to {}", say(ours), say(right));
            finding
        }
    }
}
