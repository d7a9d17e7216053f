//! The store of the embedded profile: what is open lies in memory, what has ended on the disk.
//!
//! Rows of open transfers, accounts and participants are hot: decisions read them in place. When a transfer ends its
//! row goes to the outcomes file and its id to the ids of recent ends; a checkpoint seals those as a run. Before a
//! frame is decided, [`Store::load`] brings in the ended transfers that its commands name.
//!
//! Nothing here is needed to know the truth: the log is. So nothing is synced but at a checkpoint, and recovery cuts
//! every file back to the checkpoint that it starts from before the log is replayed over it.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `slab` | rows of open transfers in pages shared with checkpoints |
//! | `numbers` | transfer number to row |
//! | `hot` | the open transfers and their indexes |
//! | `recent` | ids that ended since the last checkpoint |
//! | `jobs` | checkpoints and merges, away from the deciding thread |
//! | `holds` | checkpoints that somebody is reading |
//! | `recover` | from the newest checkpoint back to a store |
//! | `history` | ended transfers, read beside the deciding thread |
//! | `verify` | the files held against the log; which of them a checkpoint needs |

mod history;
mod holds;
mod hot;
mod jobs;
mod numbers;
mod recent;
mod recover;
mod slab;
#[cfg(test)]
mod tests;
mod verify;

pub use history::{History, Sought};
pub use holds::Held;
pub use jobs::{Done, Job};
pub use recover::{Recovered, reached, recover};
pub use verify::{CheckpointFiles, StoreCheck, StoreFile, StoreFinding, StoreReport, files_of};

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use holdfast_disk::{FileSystem, LogId};
use holdfast_domain::command::SetEndpoint;
use holdfast_domain::effects::{Effects, Rows};
use holdfast_domain::ids::{AccountId, Millis, ParticipantId, TransferId, TransferNo};
use holdfast_domain::participants::{Account, FundsMovement, Name, Participant};
use holdfast_domain::transfers::Transfer;
use holdfast_domain::view::View;

use crate::blocks::BlockFiles;
use crate::books::{Books, Roster};
use crate::row;
use crate::runs::{Entry, RunName, RunSet, hash_id};
use crate::{Store, StoreError};
use hot::Hot;
use recent::RecentIds;

/// The folder of checkpoints.
const CHECKPOINTS: &str = "checkpoints";

/// Where the store's files lie.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) dir: PathBuf,
    pub(crate) log_id: LogId,
}

impl Place {
    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.dir.join(CHECKPOINTS)
    }

    pub(crate) fn ids(&self) -> PathBuf {
        self.dir.join("ids")
    }

    pub(crate) fn outcomes(&self) -> PathBuf {
        self.dir.join("outcomes")
    }

    pub(crate) fn callbacks(&self) -> PathBuf {
        self.dir.join("callbacks")
    }

    /// The key under which ids are hashed: clients choose ids, and never see the log's id.
    pub(crate) fn key(&self) -> u64 {
        Place::key_of(self.log_id)
    }

    pub(crate) fn key_of(log_id: LogId) -> u64 {
        let halves = u128::from_le_bytes(log_id.0);
        #[allow(clippy::cast_possible_truncation, reason = "both halves are used")]
        let folded = (halves >> 64) as u64 ^ (halves as u64).rotate_left(32);
        folded
    }
}

/// All rows of the embedded profile, owned by the thread that decides.
pub struct LocalStore {
    place: Place,
    key: u64,
    books: Books,
    hot: Hot,
    /// Ended transfers that the frame at hand names.
    loaded: BTreeMap<TransferId, Transfer>,
    loaded_numbers: BTreeMap<TransferNo, TransferId>,
    outcomes: BlockFiles,
    callbacks: BlockFiles,
    recent: RecentIds,
    /// Ids that a checkpoint in the making seals.
    sealing: Option<Arc<RecentIds>>,
    runs: RunSet,
    next_run: RunName,
    work: jobs::Work,
    /// Room for one row.
    scratch: Vec<u8>,
    /// Room for the ids of a frame that are not in memory.
    unknown: Vec<(u64, u128)>,
}

impl LocalStore {
    /// The place of the outcome of a transfer that ended since the last checkpoint.
    fn unsealed(&self, hash: u64, id: TransferId) -> Option<u64> {
        let sealing = || self.sealing.as_ref().and_then(|sealing| sealing.get(hash, id.0));
        self.recent.get(hash, id.0).or_else(sealing)
    }

    /// Brings in the outcome at that place.
    fn bring(&mut self, id: TransferId, place: u64) -> Result<(), StoreError> {
        let mut bytes = std::mem::take(&mut self.scratch);
        let there = self.outcomes.read_into(place, &mut bytes)?;
        let row = if there { row::read(&bytes).filter(|row| row.id == id) } else { None };
        self.scratch = bytes;
        let row = row.ok_or_else(|| history::not_the_outcome(&self.place, place, id))?;
        self.loaded_numbers.insert(row.no, id);
        self.loaded.insert(id, row);
        Ok(())
    }

    /// Ended transfers, for readers on any thread.
    #[must_use]
    pub fn history(&self) -> History {
        History::new(self.place.clone(), self.outcomes.reader())
    }

    /// Where a transfer is: at hand if it is open, else to be read without disturbing this thread.
    #[must_use]
    pub fn seek(&self, id: TransferId) -> Sought {
        if let Some(row) = self.transfer(id) {
            return Sought::here(row.clone());
        }
        let hash = hash_id(self.key, id.0);
        let in_memory = self.unsealed(hash, id);
        Sought::elsewhere(self.history(), id, hash, in_memory, self.runs.clone())
    }

    /// All participants as they stand.
    #[must_use]
    pub fn roster(&self) -> Roster {
        self.books.roster()
    }

    /// Callbacks as they were added, for readers on any thread.
    #[must_use]
    pub fn callback_rows(&self) -> crate::CallbackRows {
        crate::CallbackRows::new(self.callbacks.reader(), self.place.callbacks())
    }

    /// Runs of ids on the disk.
    #[must_use]
    pub fn id_runs(&self) -> usize {
        self.runs.len()
    }
}

impl View for LocalStore {
    fn transfer(&self, id: TransferId) -> Option<&Transfer> {
        self.hot.transfer(id).or_else(|| self.loaded.get(&id))
    }

    fn transfer_numbered(&self, no: TransferNo) -> Option<&Transfer> {
        self.hot.numbered(no).or_else(|| self.loaded.get(self.loaded_numbers.get(&no)?))
    }

    fn next_transfer(&self) -> TransferNo {
        self.hot.next()
    }

    fn participant(&self, id: ParticipantId) -> Option<&Participant> {
        self.books.participant(id)
    }

    fn participant_named(&self, name: Name) -> Option<&Participant> {
        self.books.participant_named(name)
    }

    fn next_participant(&self) -> ParticipantId {
        self.books.next_participant()
    }

    fn account(&self, id: AccountId) -> Option<&Account> {
        self.books.account(id)
    }

    fn next_account(&self) -> AccountId {
        self.books.next_account()
    }

    fn funds(&self, id: TransferId) -> Option<&FundsMovement> {
        self.books.funds(id)
    }

    fn due(&self, now: Millis, max: usize) -> Vec<TransferNo> {
        self.hot.due(now, max)
    }
}

impl Rows for LocalStore {
    fn put_participant(&mut self, row: &Participant) {
        self.books.put_participant(row);
    }

    fn put_account(&mut self, row: &Account) {
        self.books.put_account(row);
    }

    fn put_funds(&mut self, row: &FundsMovement) {
        self.books.put_funds(row);
    }

    fn put_endpoint(&mut self, row: &SetEndpoint) {
        self.books.put_endpoint(row);
    }

    fn add_transfer(&mut self, row: &Transfer) {
        self.hot.add(row.clone());
    }

    fn transfer_mut(&mut self, no: TransferNo) -> &mut Transfer {
        self.hot.numbered_mut(no)
    }

    fn account_mut(&mut self, id: AccountId) -> &mut Account {
        self.books.account_mut(id)
    }

    fn hold_opened(&mut self, no: TransferNo) {
        self.hot.hold_opened(no);
    }

    fn hold_closed(&mut self, no: TransferNo) {
        self.hot.hold_closed(no);
    }
}

impl Store for LocalStore {
    fn load(&mut self, ids: &mut dyn Iterator<Item = TransferId>) -> Result<(), StoreError> {
        let mut unknown = std::mem::take(&mut self.unknown);
        unknown.clear();
        for id in ids {
            if self.hot.seat_of(id).is_some() || self.loaded.contains_key(&id) {
                continue;
            }
            let hash = hash_id(self.key, id.0);
            match self.unsealed(hash, id) {
                Some(place) => self.bring(id, place)?,
                None => unknown.push((hash, id.0)),
            }
        }
        for (hash, id) in self.runs.suspects(&unknown) {
            if let Some(place) = self.runs.get(hash, id)? {
                self.bring(TransferId(id), place)?;
            }
        }
        self.unknown = unknown;
        Ok(())
    }

    fn settle(&mut self, effects: &Effects) {
        self.loaded.clear();
        self.loaded_numbers.clear();
        let mut bytes = std::mem::take(&mut self.scratch);
        for change in effects.state_changes.iter().filter(|change| change.state.is_final()) {
            let row = self.hot.take(change.transfer);
            bytes.clear();
            row::write(&row, &mut bytes);
            let place = self.outcomes.append(&bytes);
            self.recent.insert(hash_id(self.key, row.id.0), Entry { id: row.id.0, place });
        }
        self.scratch = bytes;
        self.outcomes.publish();
    }

    fn add_callback(&mut self, row: &[u8]) -> u64 {
        self.callbacks.append(row)
    }

    fn callbacks_added(&mut self) {
        self.callbacks.publish();
    }

    fn forget_callbacks(&mut self, before: u64) {
        self.forget(before);
    }

    fn begin_checkpoint(&mut self, offset: u64, progress: Vec<u8>) -> bool {
        self.begin(offset, progress)
    }

    fn take_job(&mut self) -> Option<Job> {
        self.next_job()
    }

    fn checkpoint_running(&self) -> bool {
        self.is_checkpointing()
    }

    fn newest_checkpoint(&self) -> Option<u64> {
        self.newest_kept()
    }

    fn absorb(&mut self, done: Done) {
        self.take_in(done);
    }

    fn sort_due(&mut self, now: Millis) {
        self.hot.sort_due(now);
    }

    fn next_expiration(&self) -> Option<Millis> {
        self.hot.next_expiration()
    }

    fn open_holds(&self) -> usize {
        self.hot.open_holds()
    }

    fn holds(&self, before: Millis, after: Option<(Millis, TransferNo)>, max: usize) -> Vec<&Transfer> {
        self.hot.holds(before, after, max)
    }

    fn each_hold(&self, show: &mut dyn FnMut(&Transfer)) {
        self.hot.iter().filter(|row| row.state.may_expire()).for_each(show);
    }

    fn open_transfers(&self, from: TransferNo, max: usize) -> Vec<&Transfer> {
        self.hot.open_from(from, max)
    }

    fn participants(&self) -> Vec<&Participant> {
        self.books.participants().iter().collect()
    }

    fn accounts(&self) -> Vec<&Account> {
        self.books.accounts().iter().collect()
    }

    fn endpoints(&self, participant: ParticipantId) -> Vec<(&str, &str)> {
        self.books.endpoints(participant)
    }

    fn has_endpoints(&self) -> bool {
        self.books.has_endpoints()
    }

    fn endpoint(&self, participant: ParticipantId, kind: &str) -> Option<&str> {
        self.books.endpoint(participant, kind)
    }
}
