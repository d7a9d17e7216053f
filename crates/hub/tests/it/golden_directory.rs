//! A whole data directory of format version 1, committed. If today's code cannot read it, neither can it read the
//! directories that are out there: that needs a new version and a way to read the old one, not a new fixture.
//! `HOLDFAST_BLESS=1` writes it, for a version that nobody has used yet.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_domain::money::Balance;
use holdfast_domain::transfers::TransferState;
use holdfast_hub::limits::HubOptions;
use holdfast_hub::{OpenError, Opened};
use holdfast_log::{SegmentOptions, SimFs};
use holdfast_store::Tables;

use crate::checkpoint_file::{PROGRESS, reseal, reseal_block, rewrite};
use crate::history::{begin, check, checkpoint, files, patch, round, sound};
use crate::support::{DATA, LOG_ID, PAYEE, PAYER, START, TestClock, by_hand, open, prepare};

fn fixture() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", "data-v1"].iter().collect()
}

/// The directory as today's code makes it.
fn made() -> SimFs {
    let (fs, clock) = (SimFs::new(1), TestClock::new());
    let segments = SegmentOptions { segment_bytes: 64 * 1024, created_by: "golden".to_owned() };
    let opened = Opened::open(Arc::new(fs.clone()), Path::new(DATA), segments, LOG_ID).unwrap();
    let mut hub = by_hand(opened, clock, HubOptions::default());
    begin(&mut hub);
    round(&mut hub, 1_000);
    checkpoint(&mut hub);
    hub.frame(&[prepare(PAYER, PAYEE, 5_000, 7, START + 60_000)]).unwrap();
    drop(hub);
    fs
}

fn bless(fs: &SimFs) {
    for path in fs.paths() {
        if let Ok(within) = path.strip_prefix(DATA)
            && path.extension().is_none_or(|extension| extension != "tmp")
        {
            let to = fixture().join(within);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::write(to, fs.bytes_of(&path).unwrap()).unwrap();
        }
    }
}

/// The committed directory on a disk of its own.
fn committed() -> SimFs {
    if std::env::var_os("HOLDFAST_BLESS").is_some() {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| bless(&made()));
    }
    let fs = SimFs::new(2);
    let mut folders = vec![fixture()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the fixture") {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let within = path.strip_prefix(fixture()).unwrap();
                fs.put(&Path::new(DATA).join(within), &std::fs::read(&path).unwrap());
            }
        }
    }
    fs
}

const CHAIN: &str = "a82b590d540ea0f0d4c2ff81f7d7f014b55c906b4d714c6fd93e7de5181633f9";

#[test]
fn todays_code_opens_the_committed_directory() {
    let fs = committed();
    let clock = TestClock::new();
    let mut hub = open(&fs, &clock, HubOptions::default()).unwrap();
    let core = hub.core();
    let chain: String = core.chain().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!((core.end(), chain.as_str()), (236, CHAIN));
    assert_eq!(core.store().checkpoints(), [235], "only the last frame was replayed");
    assert_eq!((core.store().open_holds(), core.store().id_runs()), (13, 1));
    let values: Vec<Balance> = core.store().books().accounts().iter().map(|account| account.value).collect();
    // 96 of 120 were fulfilled, 12 aborted, 12 are open, and one of 7 came after the checkpoint.
    assert_eq!(values, [115, -1_000_000, -96, 0].map(Balance));
    for (id, state) in [
        (1_005, TransferState::Committed),
        (1_001, TransferState::AbortedError),
        (1_010, TransferState::Reserved),
    ] {
        assert_eq!(hub.row(id).map(|row| row.state), Some(state), "{id}");
    }
    let again = hub.frame(&[prepare(PAYER, PAYEE, 1_005, 1, START + 3_600_000_000)]).unwrap();
    assert_eq!(again[0].state, Some(TransferState::Committed), "a repeat finds its outcome");
    drop(hub);
    let verified = sound(&committed());
    assert_eq!((verified.store.checkpoints, verified.store.ids), (vec![235], 108));
}

#[test]
fn todays_code_writes_the_committed_files() {
    let (made, committed) = (made(), committed());
    for path in committed.paths() {
        let (new, old) = (made.bytes_of(&path).unwrap_or_default(), committed.bytes_of(&path).unwrap());
        let differs = new.iter().zip(&old).position(|(new, old)| new != old);
        assert_eq!((new.len(), differs), (old.len(), None), "{}", path.display());
    }
}

#[track_caller]
fn refused(change: impl FnOnce(&SimFs)) -> String {
    let fs = committed();
    change(&fs);
    let error = open(&fs, &TestClock::new(), HubOptions::default()).err().expect("refused");
    let verified = check(&fs);
    let found = verified.map_or_else(
        |error| {
            std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source())
                .map(ToString::to_string)
                .collect()
        },
        |verified| verified.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
    );
    assert!(
        found.iter().any(|found| found.contains("newer release") || found.contains("another release")),
        "{found:?}"
    );
    match &error {
        OpenError::StrangeCheckpoint { .. } => assert!(error.to_string().contains("later release")),
        _ => assert!(error.to_string().contains("Start the newer release"), "{error}"),
    }
    error.to_string()
}

#[test]
fn a_file_of_a_later_version_is_refused_by_name() {
    let fs = committed();
    let checkpoint = files(&fs, "store/checkpoints", ".ckp").remove(0);
    assert!(
        refused(|fs| patch(fs, &checkpoint, |bytes| {
            bytes[8] = 2;
            reseal(bytes);
        }))
        .contains(".ckp has format version 2")
    );
    // The progress in it has a version of its own, behind the part's length.
    refused(|fs| rewrite(fs, &checkpoint, PROGRESS, |payload| payload[4] = 2));
    let run = files(&fs, "store/ids", ".run").remove(0);
    let said = refused(|fs| {
        patch(fs, &run, |bytes| {
            bytes[8] = 2;
            let crc = crc32c::crc32c(&bytes[..4_092]);
            bytes[4_092..4_096].copy_from_slice(&crc.to_le_bytes());
        });
    });
    assert!(said.contains(".run has format version 2"), "{said}");
    for (folder, kind) in [("store/outcomes", 1), ("store/callbacks", 2)] {
        let blocks = files(&fs, folder, ".blk").remove(0);
        let said = refused(|fs| {
            patch(fs, &blocks, |bytes| {
                let last = bytes.len() - 4_096;
                bytes[last + 6] = 2;
                reseal_block(&mut bytes[last..], kind);
            });
        });
        assert!(said.contains(".blk has format version 2"), "{said}");
    }
}
