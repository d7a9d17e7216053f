//! `verify`: a sound directory passes untouched, and whatever is wrong in it is found and named.

use std::path::{Path, PathBuf};

use holdfast_hub::verify::{Advice, VerifyError};
use holdfast_log::{FileSystem, SimFs};

use crate::checkpoint_file::{ACCOUNT, OPEN, PROGRESS, RUN, reseal, reseal_block, rewrite};
use crate::history::{check, checkpoint, contents, files, lived_in, patch, round, sound};
use crate::support::{DATA, reopen};

/// A directory as a killed hub leaves it.
fn killed() -> SimFs {
    let fs = SimFs::new(1);
    drop(lived_in(&fs));
    fs
}

/// What is found after `damage`, each with its file.
fn found(damage: impl FnOnce(&SimFs)) -> Vec<(PathBuf, String)> {
    let fs = killed();
    damage(&fs);
    let before = contents(&fs, Path::new(DATA));
    let verified = check(&fs).unwrap();
    assert_eq!(before, contents(&fs, Path::new(DATA)), "nothing is changed");
    assert!(verified.problems.iter().all(|problem| problem.advice == Advice::DeriveAgain));
    verified
        .problems
        .into_iter()
        .map(|problem| (problem.file.clone().expect("a file is named"), problem.to_string()))
        .collect()
}

/// Every finding is in that file and one of them says this.
#[track_caller]
fn only_in(found: &[(PathBuf, String)], file: &Path, says: &str) {
    assert!(!found.is_empty(), "nothing was found");
    assert!(found.iter().all(|(at, _)| at == file), "{found:?}");
    assert!(found.iter().any(|(_, said)| said.contains(says)), "{says}: {found:?}");
}

fn flip(fs: &SimFs, path: &Path, position: usize) {
    patch(fs, path, |bytes| bytes[position] ^= 0x10);
}

#[test]
fn a_sound_directory_passes_and_stays_as_it_is() {
    let fs = killed();
    let before = contents(&fs, Path::new(DATA));
    let verified = sound(&fs);
    assert_eq!(before, contents(&fs, Path::new(DATA)));
    assert_eq!((verified.began_at, verified.store.checkpoints.len()), (0, 2));
    // A tenth of each round stays open; the third round is in no checkpoint.
    assert_eq!((verified.transfers, verified.open_holds, verified.store.ids), (360, 36, 216));
    assert!(verified.store.block_bytes >= 4 * 4096, "outcomes and callbacks fill blocks");
    assert!(verified.position_changes > 600);
}

#[test]
fn a_directory_passes_after_merges_and_restarts_too() {
    let fs = SimFs::new(2);
    let mut hub = lived_in(&fs);
    for first in (10..30).map(|round| round * 1_000) {
        round(&mut hub, first);
        checkpoint(&mut hub);
    }
    drop(hub);
    let hub = reopen(&fs);
    assert!(hub.core().store().id_runs() < 20, "runs were merged");
    drop(hub);
    sound(&fs);
}

#[test]
fn a_directory_without_a_store_is_only_its_log() {
    let fs = killed();
    for path in fs.paths().iter().filter(|path| path.starts_with("/data/store")) {
        fs.remove(path).unwrap();
    }
    assert!(sound(&fs).store.checkpoints.is_empty());
}

#[test]
fn a_flipped_byte_is_found_in_every_kind_of_file() {
    let kinds = [
        ("store/checkpoints", ".ckp"),
        ("store/ids", ".run"),
        ("store/outcomes", ".blk"),
        ("store/callbacks", ".blk"),
    ];
    for (folder, extension) in kinds {
        let all = files(&killed(), folder, extension);
        assert!(!all.is_empty(), "{folder} is empty");
        for file in all {
            for part in [100, 3_000] {
                // The zeros behind a checkpoint's end mean nothing.
                let found = found(|fs| flip(fs, &file, part));
                only_in(&found, &file, "move the folder 'store' out of the data directory");
            }
        }
    }
    let fs = killed();
    let segments = files(&fs, "log", ".seg");
    flip(&fs, &segments[0], 4_096 + 200);
    assert!(matches!(check(&fs), Err(VerifyError::Log(_))));
}

#[test]
fn missing_swapped_and_short_files_are_found() {
    let fs = killed();
    let runs = files(&fs, "store/ids", ".run");
    assert_eq!(runs.len(), 2);
    let missing = found(|fs| fs.remove(&runs[0]).unwrap());
    only_in(&missing, &runs[0], "the file is not there");
    let swapped = found(|fs| {
        let (first, second) = (fs.bytes_of(&runs[0]).unwrap(), fs.bytes_of(&runs[1]).unwrap());
        fs.put(&runs[0], &second);
        fs.put(&runs[1], &first);
    });
    assert_eq!(swapped.len(), 2, "{swapped:?}");
    let outcomes = files(&fs, "store/outcomes", ".blk").remove(0);
    let short = found(|fs| {
        let bytes = fs.bytes_of(&outcomes).unwrap();
        fs.put(&outcomes, &bytes[..4_096]);
    });
    only_in(&short, &outcomes, "the file ends there");
    let gone = found(|fs| fs.remove(&outcomes).unwrap());
    only_in(&gone, &outcomes, "the file is not there");
}

#[test]
fn what_a_checkpoint_says_is_compared_though_its_checksums_are_right() {
    let newest = files(&killed(), "store/checkpoints", ".ckp").pop().unwrap();
    let changed = |wanted: u32, change: fn(&mut Vec<u8>)| found(|fs| rewrite(fs, &newest, wanted, change));
    let untouched = changed(PROGRESS, |_| {});
    assert!(untouched.is_empty(), "{untouched:?}");
    // The value of the first account, behind number, participant, currency, kind and flag.
    let richer = changed(ACCOUNT, |payload| payload[4 + 13] ^= 1);
    only_in(&richer, &newest, "account 1 is");
    let lost_hold = changed(OPEN, |payload| {
        let first = u32::from_le_bytes(payload[..4].try_into().unwrap()) as usize;
        payload.drain(..4 + first);
    });
    only_in(&lost_hold, &newest, "is not in it");
    let lost_run = changed(RUN, |payload| drop(payload.drain(..12)));
    only_in(&lost_run, Path::new("/data/store/ids"), "has ended and is in no run");
    let wrong_chain = changed(PROGRESS, |payload| payload[4 + 12] ^= 1);
    only_in(&wrong_chain, &newest, "audit chain");
}

#[test]
fn another_outcome_with_a_right_checksum_is_found_and_named() {
    let outcomes = files(&killed(), "store/outcomes", ".blk").remove(0);
    let found = found(|fs| {
        patch(fs, &outcomes, |bytes| {
            // The state of the first outcome: ABORTED_ERROR and COMMITTED have other numbers.
            bytes[18] ^= 1;
            reseal_block(&mut bytes[..4_096], 1);
        });
    });
    only_in(&found, &outcomes, "and the log leads to transfer");
}

#[test]
fn a_checkpoint_where_the_log_has_none_is_found() {
    let fs = killed();
    let newest = files(&fs, "store/checkpoints", ".ckp").pop().unwrap();
    let bytes = fs.bytes_of(&newest).unwrap();
    for (offset, says) in [(3_u64, "where no frame of the log ends"), (1 << 40, "and the log ends at")] {
        let fs = killed();
        let mut moved = bytes.clone();
        moved[32..40].copy_from_slice(&offset.to_le_bytes());
        reseal(&mut moved);
        let file = newest.with_file_name(format!("{offset:020}.ckp"));
        fs.put(&file, &moved);
        let verified = check(&fs).unwrap();
        let said: Vec<String> = verified.problems.iter().map(ToString::to_string).collect();
        assert!(said.len() == 1 && said[0].contains(says), "{said:?}");
    }
}

#[test]
fn what_a_crash_leaves_is_no_finding() {
    let fs = killed();
    fs.put(Path::new("/data/store/checkpoints/checkpoint.tmp"), &[1; 100]);
    fs.put(Path::new("/data/store/ids/00000000000000000099.run"), &[2; 100]);
    assert_eq!(sound(&fs).store.leftovers.len(), 2);
}
