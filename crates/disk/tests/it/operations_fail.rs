//! Reads and syncs that fail, for everyone or for chosen files.

use std::path::Path;

use holdfast_disk::FileSystem;
use holdfast_disk::simfs::FaultKind;

use crate::support::{DIR, hits, path, with_file};

#[test]
fn the_next_read_fails_once() {
    let fs = with_file("f.seg", b"bytes");
    let file = fs.open(&path("f.seg")).expect("open");
    fs.fail_next_read();
    fs.fail_next_read();
    file.write_at(b"B", 0).expect("only reads fail");
    file.read_at(&mut [0; 5], 0).expect_err("planned");
    let mut buf = [0; 5];
    assert_eq!(file.read_at(&mut buf, 0).expect("planned once"), 5);
    assert_eq!(&buf, b"Bytes");
    assert_eq!(hits(&fs, FaultKind::ReadError, "seg"), 1);
}

#[test]
fn so_many_reads_of_chosen_files_fail() {
    let fs = with_file("a.seg", b"a");
    fs.put(&path("b.idx"), b"b");
    let (log, index) = (fs.open(&path("a.seg")).expect("open"), fs.open(&path("b.idx")).expect("open"));
    fs.fail_reads_of(".seg", 2);
    fs.fail_reads_of("b.idx", 0);
    for _ in 0..2 {
        index.read_at(&mut [0], 0).expect("another file");
        log.read_at(&mut [0], 0).expect_err("planned");
    }
    log.read_at(&mut [0], 0).expect("two are over");
    fs.fail_reads_of(".seg", 2);
    fs.heal();
    log.read_at(&mut [0], 0).expect("healed");
}

#[test]
fn syncs_of_chosen_files_fail_until_healed() {
    let fs = with_file("a.seg", &[1; 512]);
    fs.put(&path("b.idx"), &[1; 512]);
    fs.fail_syncs_of(|path| path.extension().is_some_and(|extension| extension == "seg"));
    for name in ["a.seg", "b.idx"] {
        let file = fs.open(&path(name)).expect("open");
        file.write_at(&[2; 512], 0).expect("write");
        assert_eq!(file.sync_data().is_err(), name == "a.seg");
        assert_eq!(file.sync_data().is_err(), name == "a.seg");
    }
    fs.sync_dir(Path::new(DIR)).expect("a directory that does not match");
    assert_eq!(fs.durable_bytes_of(&path("a.seg")).expect("there"), [1; 512]);
    assert_eq!(fs.durable_bytes_of(&path("b.idx")).expect("there"), [2; 512]);
    assert_eq!(hits(&fs, FaultKind::SyncError, "seg"), 2);
    fs.heal();
    fs.open(&path("a.seg")).expect("open").sync_data().expect("healed");
    assert_eq!(fs.crash(1).bytes_of(&path("a.seg")).expect("there"), [1; 512], "but the write is lost");
}

#[test]
fn syncs_of_a_directory_fail() {
    let fs = with_file("f", b"x");
    fs.fail_syncs_of(|path| path == Path::new(DIR));
    fs.open(&path("f")).expect("open").sync_data().expect("a file in it");
    fs.create_new(&path("g")).expect("create");
    fs.sync_dir(Path::new(DIR)).expect_err("planned");
    assert_eq!(fs.durable_paths(), [path("f")]);
    assert_eq!(fs.paths(), [path("f"), path("g")]);
    assert_eq!(hits(&fs, FaultKind::SyncError, "d/"), 1);
}
