//! What the store knows of the log is believed before anything is made, removed or derived again.

use std::path::{Path, PathBuf};

use holdfast_domain::command::Command;
use holdfast_hub::limits::HubOptions;
use holdfast_hub::{OpenError, log_folder, store_folder};
use holdfast_log::{FileSystem, LogError, SimFs};

use crate::history::contents;
use crate::support::{DATA, PAYEE, TestClock, fulfil, in_business, open, pay};

/// Puts files back as they were.
fn put_back(fs: &SimFs, folder: &Path, files: &[(PathBuf, Vec<u8>)]) {
    let there: Vec<PathBuf> = fs.paths().into_iter().filter(|path| path.starts_with(folder)).collect();
    there.iter().for_each(|path| fs.remove(path).unwrap());
    files.iter().for_each(|(path, bytes)| fs.put(path, bytes));
}

/// A hub with one payment under way, ended cleanly.
fn hub_with_a_payment() -> (SimFs, std::sync::Arc<TestClock>) {
    let (fs, clock, mut hub) = in_business(1_000);
    hub.frame(&[pay(1)]).unwrap();
    assert!(hub.writer.end_by_hand());
    (fs, clock)
}

/// It lives on for one frame, and ends cleanly.
fn lives_on(fs: &SimFs, clock: &std::sync::Arc<TestClock>, command: Command) {
    let mut hub = open(fs, clock, HubOptions::default()).unwrap();
    hub.frame(&[command]).unwrap();
    assert!(hub.writer.end_by_hand());
}

#[test]
fn no_empty_log_is_made_beside_a_store() {
    let (fs, clock) = hub_with_a_payment();
    put_back(&fs, &log_folder(Path::new(DATA)), &[]);
    let newest =
        fs.paths().into_iter().find(|path| path.extension().is_some_and(|kind| kind == "ckp")).unwrap();
    // Also if the checkpoint itself cannot be read: its name is enough.
    for rotten in [false, true] {
        if rotten {
            fs.flip_byte(&newest, 20, 1);
        }
        let before = contents(&fs, Path::new(DATA));
        let error = open(&fs, &clock, HubOptions::default()).err().expect("refused");
        assert!(matches!(error, OpenError::Log(LogError::Shortened { end: 0, .. })), "{error}");
        assert_eq!(contents(&fs, Path::new(DATA)), before, "nothing was changed");
    }
}

#[test]
fn a_log_that_ends_before_a_rotten_checkpoint_is_refused() {
    let (fs, clock) = hub_with_a_payment();
    let short = contents(&fs, &log_folder(Path::new(DATA)));
    lives_on(&fs, &clock, fulfil(PAYEE, 1));
    put_back(&fs, &log_folder(Path::new(DATA)), &short);
    let checkpoints =
        fs.paths().into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "ckp"));
    fs.flip_byte(&checkpoints.max().unwrap(), 20, 1);
    // As often as it is tried: the proof is not thrown away.
    for _ in 0..2 {
        let error = open(&fs, &clock, HubOptions::default()).err().expect("refused");
        assert!(matches!(error, OpenError::Log(LogError::Shortened { .. })), "{error}");
    }
}

#[test]
fn the_store_of_a_sibling_is_refused() {
    let (fs, clock) = hub_with_a_payment();
    let (store, log) = (store_folder(Path::new(DATA)), log_folder(Path::new(DATA)));
    let common = (contents(&fs, &store), contents(&fs, &log));
    lives_on(&fs, &clock, fulfil(PAYEE, 1));
    let of_sibling = contents(&fs, &store);
    put_back(&fs, &store, &common.0);
    put_back(&fs, &log, &common.1);
    lives_on(&fs, &clock, pay(2));
    put_back(&fs, &store, &of_sibling);
    let error = open(&fs, &clock, HubOptions::default()).err().expect("refused");
    assert!(matches!(error, OpenError::OtherPast { .. }), "{error}");
}
