//! The log of faults tells what struck, not what was planned.

use std::path::Path;

use holdfast_disk::FileSystem;
use holdfast_disk::simfs::{FaultHit, FaultKind};

use crate::support::{DIR, hits, path, with_file};

#[test]
fn only_what_struck_is_counted_and_by_class() {
    let fs = with_file("a.seg", b"a");
    fs.put(&path("b.seg"), b"b");
    fs.lose_next_write(|path| path.ends_with("never"));
    fs.fail_next_sync();
    fs.fail_next_write();
    assert_eq!(fs.faults(), []);
    for name in ["a.seg", "b.seg"] {
        let file = fs.open(&path(name)).expect("open");
        file.write_at(b"x", 0).ok();
        fs.fail_next_write();
    }
    assert_eq!(fs.faults(), [FaultHit { kind: FaultKind::WriteError, class: "seg".into(), count: 2 }]);
}

#[test]
fn the_power_goes_at_a_file_or_a_directory() {
    let fs = with_file("a.seg", b"a");
    fs.freeze_at_sync(1);
    fs.sync_dir(Path::new(DIR)).expect_err("planned");
    assert_eq!(hits(&fs, FaultKind::PowerLoss, "d/"), 1);
    let after = fs.crash(0);
    assert_eq!(after.faults(), [], "nothing was lost, and a new life counts anew");
    after.freeze_at_sync(1);
    after.open(&path("a.seg")).expect("open").sync_data().expect_err("planned");
    assert_eq!(hits(&after, FaultKind::PowerLoss, "seg"), 1);
}

#[test]
fn a_removed_file_is_known_by_its_last_name() {
    let fs = with_file("a.tmp", b"a");
    let file = fs.open(&path("a.tmp")).expect("open");
    fs.rename(&path("a.tmp"), &path("a.seg")).expect("rename");
    fs.remove(&path("a.seg")).expect("remove");
    fs.fail_reads_of(".seg", 1);
    file.read_at(&mut [0], 0).expect_err("planned");
    assert_eq!(hits(&fs, FaultKind::ReadError, "seg"), 1);
}
