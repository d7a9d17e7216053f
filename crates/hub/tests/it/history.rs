//! A data directory with a history: every kind of file is in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_domain::command::{Abort, Command, SetEndpoint};
use holdfast_domain::ids::TransferId;
use holdfast_hub::limits::HubOptions;
use holdfast_hub::verify::{Places, Verified, VerifyError, verify};
use holdfast_log::SimFs;

use crate::support::{DATA, PAYEE, PAYER, START, TestClock, TestHub, fulfil, open, prepare};

/// Payments of one round: enough to fill blocks.
pub(crate) const ROUND: u128 = 120;

/// One round of payments: most are fulfilled, some aborted, some stay open.
pub(crate) fn round(hub: &mut TestHub, first: u128) {
    let ids = first..first + ROUND;
    let prepares: Vec<Command> =
        ids.clone().map(|id| prepare(PAYER, PAYEE, id, 1, START + 3_600_000_000)).collect();
    hub.frame(&prepares).unwrap();
    let ends: Vec<Command> = ids
        .filter(|id| id % 10 != 0)
        .map(|id| match id % 10 {
            1 => Command::Abort(Abort::new(PAYEE, TransferId(id), 5104, Vec::new())),
            _ => fulfil(PAYEE, id),
        })
        .collect();
    hub.frame(&ends).unwrap();
}

/// Makes a checkpoint and all that it entails.
pub(crate) fn checkpoint(hub: &mut TestHub) {
    hub.turn();
    assert!(hub.writer.begin_checkpoint());
    while let Some(done) = hub.writer.run_job(false) {
        done.unwrap();
    }
}

/// Opens for business, with somebody who wants to be called.
pub(crate) fn begin(hub: &mut TestHub) {
    hub.open_for_business(1_000_000);
    let endpoints = ["FSPIOP_CALLBACK_URL_TRANSFER_POST", "FSPIOP_CALLBACK_URL_TRANSFER_PUT"]
        .map(|kind| SetEndpoint::new(PAYEE, kind.to_owned(), "http://localhost:1/there".to_owned()).unwrap());
    hub.frame(&endpoints.map(Command::SetEndpoint)).unwrap();
}

/// Two checkpoints with rounds of payments before, between and after them.
pub(crate) fn lived_in(fs: &SimFs) -> TestHub {
    let clock = TestClock::new();
    let mut hub = open(fs, &clock, HubOptions::default()).unwrap();
    begin(&mut hub);
    for first in [1_000, 2_000, 3_000] {
        round(&mut hub, first);
        if first < 3_000 {
            checkpoint(&mut hub);
        }
    }
    hub
}

/// The files below a folder, with what is in them.
pub(crate) fn contents(fs: &SimFs, folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths = fs.paths();
    paths.retain(|path| path.starts_with(folder));
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs.bytes_of(&path).unwrap())).collect()
}

/// Changes the bytes of a file.
pub(crate) fn patch(fs: &SimFs, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs.bytes_of(path).unwrap();
    change(&mut bytes);
    fs.put(path, &bytes);
}

/// What `verify` says of the directory.
pub(crate) fn check(fs: &SimFs) -> Result<Verified, VerifyError> {
    // Each time another scratch place: SimFs keeps what was written.
    let scratch = PathBuf::from(format!("/scratch{}", fs.counters().syncs));
    let places = Places { fs: Arc::new(fs.clone()), data: Path::new(DATA), scratch: &scratch };
    verify(&places, &mut |_, _| {})
}

/// The same, where nothing is wrong.
#[track_caller]
pub(crate) fn sound(fs: &SimFs) -> Verified {
    let verified = check(fs).unwrap();
    assert!(verified.problems.is_empty(), "{:?}", verified.problems);
    verified
}

/// The files of a kind, by the end of their path.
pub(crate) fn files(fs: &SimFs, folder: &str, extension: &str) -> Vec<PathBuf> {
    let within = Path::new(DATA).join(folder);
    let mut found = fs.paths();
    found.retain(|path| path.starts_with(&within) && path.to_string_lossy().ends_with(extension));
    found.sort();
    found
}
