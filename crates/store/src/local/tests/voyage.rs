//! A store on its way through frames, checkpoints, merges and losses of power, beside the plain store.

use holdfast_domain::effects::Effects;

use super::*;
use crate::{StoreCheck, StoreReport};

/// What happens next. Wishes become a frame's commands.
#[derive(Debug, Clone)]
pub(super) enum Move<W> {
    Frame(Vec<W>),
    Begin,
    RunJob(prop::sample::Index),
    /// A checkpoint from its beginning to its end, with all merges that follow.
    Whole,
    Crash(u64),
}

pub(super) fn moves<W: std::fmt::Debug + Clone>(
    wishes: impl Strategy<Value = Vec<W>>,
    max: usize,
) -> impl Strategy<Value = Vec<Move<W>>> {
    let one = prop_oneof![
        8 => wishes.prop_map(Move::Frame),
        2 => Just(Move::Begin),
        6 => any::<prop::sample::Index>().prop_map(Move::RunJob),
        3 => Just(Move::Whole),
        1 => any::<u64>().prop_map(Move::Crash),
    ];
    prop::collection::vec(one, 1..max)
}

pub(super) fn run_all_jobs(store: &mut LocalStore, waiting: &mut Vec<Job>) {
    loop {
        waiting.extend(std::iter::from_fn(|| store.take_job()));
        if waiting.is_empty() {
            return;
        }
        store.absorb(waiting.remove(0).run(&mut || {}).unwrap());
    }
}

/// Begins a checkpoint after so many frames; `false` if one is being made.
pub(super) fn begin(store: &mut LocalStore, frames: u64) -> bool {
    store.begin_checkpoint(frames, vec![9; frames as usize])
}

/// Makes a checkpoint after so many frames, from its beginning to its end.
pub(super) fn checkpoint(store: &mut LocalStore, frames: u64) {
    assert!(begin(store, frames));
    run_all_jobs(store, &mut Vec::new());
}

/// The store of `log`, with checkpoints after so many frames as `at` says.
pub(super) fn store_of(fs: &SimFs, log: &[Frame], at: &[u64]) -> LocalStore {
    let mut store = empty_on(fs);
    for (number, frame) in (0..).zip(log) {
        effects_of(&mut store, number, frame);
        if at.contains(&(number + 1)) {
            checkpoint(&mut store, number + 1);
        }
    }
    store
}

/// What verify finds of the checkpoint at `at`, held against a store that is right.
pub(super) fn report(fs: &SimFs, right: &LocalStore, at: u64) -> StoreReport {
    let mut check = StoreCheck::open(&fs.shared(), Path::new(DIR), LOG).unwrap();
    check.compare(at, right);
    check.finish()
}

/// Frames lie far enough apart for the records of each.
pub(super) const fn offset_of(number: u64) -> u64 {
    number * 1_000
}

/// Decides the frame of that number and takes it over.
pub(super) fn effects_of(store: &mut impl Store, number: u64, (time, commands): &Frame) -> Effects {
    store.sort_due(*time);
    conformance::frame_at(store, offset_of(number), *time, commands)
}

/// The store after a loss of power: a checkpoint, if there is one, and the log from there.
pub(super) fn recovered(fs: &SimFs, log: &[Frame]) -> LocalStore {
    let (from, mut store) = match recover(&fs.shared(), Path::new(DIR)).unwrap() {
        Some(found) => {
            found.remove_unneeded().unwrap();
            assert_eq!((found.log_id, found.progress.len() as u64), (LOG, found.offset));
            (found.offset, found.store)
        }
        None => (0, empty_on(fs)),
    };
    for (number, frame) in (0..).zip(log).skip(from as usize) {
        effects_of(&mut store, number, frame);
    }
    store
}

pub(super) struct Voyage {
    pub(super) fs: SimFs,
    pub(super) local: LocalStore,
    pub(super) plain: MemoryStore,
    pub(super) log: Vec<Frame>,
    waiting: Vec<Job>,
}

impl Voyage {
    pub(super) fn new() -> Voyage {
        let fs = SimFs::new(3);
        let (local, plain) = (empty_on(&fs), MemoryStore::new(0));
        Voyage { fs, local, plain, log: Vec::new(), waiting: Vec::new() }
    }

    /// Both stores decide the frame, and alike.
    pub(super) fn frame(&mut self, frame: Frame) {
        let number = self.log.len() as u64;
        let effects = effects_of(&mut self.local, number, &frame);
        assert_eq!(effects, effects_of(&mut self.plain, number, &frame));
        self.log.push(frame);
    }

    /// A checkpoint of all that was decided, from its beginning to its end.
    pub(super) fn whole_checkpoint(&mut self) {
        run_all_jobs(&mut self.local, &mut self.waiting);
        let end = self.log.len() as u64;
        assert!(begin(&mut self.local, end) || self.local.newest_checkpoint() == Some(end));
        run_all_jobs(&mut self.local, &mut self.waiting);
    }

    /// Makes a move; `true` if it was a loss of power.
    pub(super) fn make<W>(&mut self, one: Move<W>, frame_of: impl Fn(u64, &[W]) -> Frame) -> bool {
        match one {
            Move::Frame(wanted) => self.frame(frame_of(self.log.len() as u64, &wanted)),
            Move::Begin => drop(begin(&mut self.local, self.log.len() as u64)),
            Move::RunJob(which) => {
                self.waiting.extend(std::iter::from_fn(|| self.local.take_job()));
                // Merges may overtake and be overtaken; all else keeps its order.
                let merge = self.waiting.iter().position(Job::is_merge).filter(|_| which.index(2) == 0);
                let next = merge.or_else(|| self.waiting.iter().position(|job| !job.is_merge()));
                if let Some(at) = next {
                    let done = self.waiting.remove(at).run(&mut || {}).unwrap();
                    self.local.absorb(done);
                }
            }
            Move::Whole => self.whole_checkpoint(),
            Move::Crash(seed) => {
                self.waiting.clear();
                self.fs = self.fs.crash(seed);
                self.local = recovered(&self.fs, &self.log);
                return true;
            }
        }
        false
    }
}
