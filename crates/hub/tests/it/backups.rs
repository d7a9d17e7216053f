//! Backups: consistent at one frame, made while the hub goes on, and of no harm to it.

use std::path::Path;
use std::sync::Arc;

use holdfast_engine::{BackupStatus, Upkeep as _};
use holdfast_hub::backup::{BackupError, MANIFEST, backup_stopped};
use holdfast_hub::limits::HubOptions;
use holdfast_hub::{Core, Hub, HubHandle, Status};
use holdfast_log::{FileSystem, SimFs};
use holdfast_store::files_of;

use crate::history::{checkpoint, files, lived_in, round, sound};
use crate::support::{self, DATA, PAYEE, PAYER, START, TestClock, asked, decided, prepare, reopen};

fn start(fs: &SimFs) -> Hub {
    support::start(fs, TestClock::new(), HubOptions::default())
}

/// Waits for the end of a backup.
fn ended(hub: &HubHandle) -> BackupStatus {
    loop {
        match hub.backup_status() {
            BackupStatus::Running { .. } => std::thread::yield_now(),
            status => return status,
        }
    }
}

fn pay(hub: &HubHandle, id: u128) {
    decided(hub, &[prepare(PAYER, PAYEE, id, 1, START + 3_600_000)]);
}

/// A file system that has the copy where a hub looks for its data.
fn elsewhere(fs: &SimFs, backup: &Path) -> SimFs {
    let other = SimFs::new(9);
    for path in fs.durable_paths() {
        if let Ok(within) = path.strip_prefix(backup) {
            other.put(&Path::new(DATA).join(within), &fs.durable_bytes_of(&path).unwrap());
        }
    }
    other
}

#[test]
fn a_backup_under_load_leads_to_the_state_at_its_end() {
    let fs = SimFs::new(1);
    drop(lived_in(&fs));
    let hub = start(&fs);
    let handle = hub.handle();
    let target = Path::new("/backup");
    handle.begin_backup(target).unwrap();
    let mut id = 50_000;
    while matches!(handle.backup_status(), BackupStatus::Running { .. }) {
        id += 1;
        pay(&handle, id);
    }
    let BackupStatus::Done { offset, log_end, .. } = ended(&handle) else {
        panic!("{:?}", handle.backup_status())
    };
    assert!(log_end >= offset && offset >= 691, "{log_end} {offset}");
    pay(&handle, 90_000);
    assert!(asked(&handle, Core::end) > log_end, "the hub went on");
    assert_eq!(handle.status(), Status::Ready);
    hub.stop();

    let copy = elsewhere(&fs, target);
    let verified = sound(&copy);
    assert_eq!((verified.progress.end, verified.log.torn_tail), (log_end, None));
    assert_eq!(verified.store.checkpoints, [offset]);

    // The copy is a data directory: it starts, and knows what had been decided by then, and only that.
    let restored = reopen(&copy);
    assert_eq!(restored.core().end(), log_end);
    assert!(restored.row(1_005).is_some() && restored.row(90_000).is_none());
    let original = reopen(&fs);
    assert_eq!(restored.row(2_001), original.row(2_001));
}

#[test]
fn a_place_that_is_taken_or_unknown_is_refused() {
    let fs = SimFs::new(1);
    let hub = start(&fs);
    let handle = hub.handle();
    fs.put(Path::new("/full/file"), b"x");
    let refused = |dir: &str| handle.begin_backup(Path::new(dir)).unwrap_err();
    assert!(matches!(refused("/full"), BackupError::NotEmpty { .. }));
    assert!(matches!(refused("relative"), BackupError::NotAbsolute { .. }));
    assert!(matches!(refused("/data/backup"), BackupError::Inside { .. }));
    assert_eq!(handle.backup_status(), BackupStatus::None);
    handle.begin_backup(Path::new("/one")).unwrap();
    assert!(matches!(ended(&handle), BackupStatus::Done { .. }), "{:?}", handle.backup_status());
    assert!(matches!(refused("/one"), BackupError::NotEmpty { .. }));
}

#[test]
fn a_full_disk_fails_the_backup_and_leaves_the_hub_running() {
    let fs = SimFs::new(1);
    drop(lived_in(&fs));
    let hub = start(&fs);
    let handle = hub.handle();
    pay(&handle, 70_000);
    // A first one shows how much room the rest takes; all that the hub itself needs is allocated by then.
    handle.begin_backup(Path::new("/first")).unwrap();
    assert!(matches!(ended(&handle), BackupStatus::Done { .. }));
    fs.set_capacity(Some(fs.used_bytes() + 64 * 1024));
    handle.begin_backup(Path::new("/second")).unwrap();
    let BackupStatus::Failed { reason, .. } = ended(&handle) else { panic!("{:?}", handle.backup_status()) };
    assert!(reason.contains("/second") && reason.contains("The hub goes on"), "{reason}");
    assert!(!fs.paths().contains(&Path::new("/second").join(MANIFEST)), "it is not called whole");
    pay(&handle, 70_001);
    assert_eq!(handle.status(), Status::Ready);
    fs.set_capacity(None);
    handle.begin_backup(Path::new("/third")).unwrap();
    assert!(matches!(ended(&handle), BackupStatus::Done { .. }));
}

#[test]
fn a_checkpoint_that_is_read_stays_until_it_was() {
    let fs = SimFs::new(1);
    let mut hub = lived_in(&fs);
    checkpoint(&mut hub);
    let held = hub.core().store().hold_newest().expect("there is one");
    let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
    let needed = files_of(&shared, Path::new("/data/store"), held.offset()).unwrap().files;
    assert!(needed.len() > 4, "{needed:?}");
    // So many that runs are merged, and the held checkpoint is long none of the two that are kept.
    for first in (10..30).map(|round| round * 1_000) {
        round(&mut hub, first);
        checkpoint(&mut hub);
    }
    let there = || {
        let paths = fs.paths();
        needed.iter().filter(|file| paths.contains(&file.path)).count()
    };
    assert_eq!(there(), needed.len());
    let checkpoints = files(&fs, "store/checkpoints", ".ckp").len();
    assert_eq!(checkpoints, 3, "the held one and the two that are kept");
    drop(held);
    round(&mut hub, 40_000);
    checkpoint(&mut hub);
    assert!(there() < needed.len());
    assert_eq!(files(&fs, "store/checkpoints", ".ckp").len(), 2);
}

#[test]
fn a_stopped_directory_is_copied_with_all_that_its_log_leads_to() {
    let fs = SimFs::new(1);
    let hub = lived_in(&fs);
    let end = hub.core().end();
    drop(hub);
    let made = backup_stopped(Arc::new(fs.clone()), Path::new(DATA), Path::new("/copy"), &mut |_, _| {});
    let made = made.unwrap();
    assert_eq!((made.offset, made.log_end), (end, end), "a checkpoint was made at the end");
    let copy = elsewhere(&fs, Path::new("/copy"));
    assert_eq!(reopen(&copy).core().end(), end);
    let _served = reopen(&fs);
    let refused = backup_stopped(Arc::new(fs), Path::new(DATA), Path::new("/more"), &mut |_, _| {});
    assert!(refused.unwrap_err().to_string().contains("is in use by another process"));
}
