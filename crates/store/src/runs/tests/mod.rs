//! Runs against a model, against rot, against the loss of power, and against their committed bytes.

mod crashes;
mod damage;
mod golden;
mod model;
mod speed;

use std::path::Path;

use holdfast_disk::SimFs;

use super::*;
use crate::StoreError;

const LOG: LogId = LogId([7; 16]);
const KEY: u64 = 0x5eed_d1c7;

fn dir() -> &'static Path {
    Path::new("/store")
}

fn path(name: u64) -> PathBuf {
    dir().join(RunName(name).to_string())
}

pub(super) fn new_fs() -> SimFs {
    let fs = SimFs::new(1);
    fs.create_dir_all(dir()).expect("create the directory");
    fs
}

fn folder(fs: &SimFs) -> RunFolder {
    RunFolder { fs: fs.shared(), dir: dir().to_owned(), log_id: LOG, key: KEY }
}

/// `count` entries in a scrambled order; `stream` keeps runs apart.
fn entries(stream: u64, count: u64) -> Vec<Entry> {
    (0..count)
        .map(|n| {
            let mixed = n.wrapping_add(stream << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            Entry { id: u128::from(mixed) << 64 | u128::from(mixed.rotate_left(17)), place: stream << 40 | n }
        })
        .collect()
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_unstable();
    entries
}

pub(super) fn seal_in(fs: &SimFs, name: u64, entries: Vec<Entry>) -> Result<Run, StoreError> {
    seal(&folder(fs), RunName(name), entries, &mut || {})
}

fn merge_in(fs: &SimFs, name: u64, inputs: &[Arc<Run>]) -> Result<Run, StoreError> {
    merge(&folder(fs), RunName(name), inputs, &mut || {})
}

fn open_in(fs: &SimFs, name: u64) -> Result<Run, StoreError> {
    Run::open(&folder(fs), RunName(name))
}

fn get(run: &Run, id: u128) -> Result<Option<u64>, StoreError> {
    run.get(hash_id(KEY, id), id)
}

fn all(run: &Run) -> Vec<Entry> {
    run.iter().collect::<Result<_, _>>().expect("a whole run")
}

#[test]
fn names_are_twenty_digits() {
    assert_eq!(RunName(42).to_string(), "00000000000000000042.run");
    for name in [0, 42, u64::MAX].map(RunName) {
        assert_eq!(RunName::parse(&name.to_string()), Some(name));
        assert_eq!(RunName::parse(&name.temporary()), None);
    }
    let others =
        ["42.run", "0000000000000000004x.run", "+0000000000000000042.run", "99999999999999999999.run", ""];
    assert!(others.iter().all(|other| RunName::parse(other).is_none()));
}

/// The hash function's own constant, which anybody can read in its source.
const PUBLIC_SEED: u64 = 0xc0ac_29b7_c97c_50dd;

#[test]
fn ids_chosen_to_collide_do_not() {
    use std::collections::BTreeSet;
    let high = u128::from(PUBLIC_SEED) << 64;
    let plain: BTreeSet<u64> = (0..1_000).map(|n| FixedState::with_seed(KEY).hash_one(high | n)).collect();
    assert_eq!(plain.len(), 1, "without the veil they do, whatever the key");
    let veiled: BTreeSet<u64> = (0..1_000).map(|n| hash_id(KEY, high | n)).collect();
    assert_eq!(veiled.len(), 1_000);
}
