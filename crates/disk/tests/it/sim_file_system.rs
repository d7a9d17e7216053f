//! The simulated file system loses what was not synced, and only that.

use std::collections::BTreeSet;
use std::path::Path;

use holdfast_disk::{FileSystem, SimFs};

use crate::support::{DIR, path};

fn with_file(bytes: &[u8]) -> SimFs {
    crate::support::with_file("f", bytes)
}

#[test]
fn synced_bytes_survive_and_unsynced_sectors_may_or_may_not() {
    let fs = with_file(&[1; 2048]);
    let file = fs.open(&path("f")).expect("open");
    file.write_at(&[2; 1024], 256).expect("write");
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let bytes = fs.crash(seed).bytes_of(&path("f")).expect("read");
        let pieces = [0..256, 256..512, 512..1024, 1024..1280, 1280..2048];
        let uniform: Vec<u8> = pieces.iter().map(|piece| bytes[piece.start]).collect();
        for (piece, &first) in pieces.iter().zip(&uniform) {
            assert!(bytes[piece.clone()].iter().all(|&byte| byte == first), "a sector was torn");
        }
        assert_eq!((uniform[0], uniform[4]), (1, 1));
        seen.insert(uniform);
    }
    assert_eq!(seen.len(), 8, "all fates of three sectors");
    file.sync_data().expect("sync");
    for seed in 0..20 {
        let bytes = fs.crash(seed).bytes_of(&path("f")).expect("read");
        assert!(bytes[256..1280].iter().all(|&byte| byte == 2));
    }
}

#[test]
fn names_survive_as_a_prefix_of_what_happened() {
    let fs = with_file(b"x");
    fs.create_new(&path("a")).expect("create");
    fs.rename(&path("a"), &path("b")).expect("rename");
    fs.remove(&path("f")).expect("remove");
    let outcomes: BTreeSet<_> =
        (0..100).map(|seed| fs.crash(seed).list(Path::new(DIR)).expect("list")).collect();
    let wanted = [vec!["f"], vec!["a", "f"], vec!["b", "f"], vec!["b"]];
    assert_eq!(outcomes, wanted.iter().map(|names| names.iter().map(|&n| n.to_owned()).collect()).collect());
    fs.sync_dir(Path::new(DIR)).expect("sync");
    assert!((0..20).all(|seed| fs.crash(seed).list(Path::new(DIR)).expect("list") == ["b"]));
}

#[test]
fn a_failed_sync_loses_the_writes_that_reads_still_show() {
    let fs = with_file(&[1; 512]);
    let file = fs.open(&path("f")).expect("open");
    file.write_at(&[2; 512], 0).expect("write");
    fs.fail_next_sync();
    file.sync_data().expect_err("planned");
    file.sync_data().expect("the second one lies");
    assert_eq!(fs.bytes_of(&path("f")).expect("read"), [2; 512]);
    assert_eq!(fs.crash(0).bytes_of(&path("f")).expect("read"), [1; 512]);
    file.drop_cache().expect("drop");
    assert_eq!(fs.bytes_of(&path("f")).expect("read"), [1; 512]);
}

#[test]
fn nothing_works_after_the_power_is_gone() {
    let fs = with_file(&[1; 512]);
    let file = fs.open(&path("f")).expect("open");
    fs.freeze_at_sync(2);
    file.sync_data().expect("the first");
    assert!(!fs.is_frozen());
    fs.sync_dir(Path::new(DIR)).expect_err("the second");
    assert!(fs.is_frozen());
    assert!(file.read_at(&mut [0], 0).is_err() && file.write_at(&[0], 0).is_err() && file.len().is_err());
    assert!(fs.list(Path::new(DIR)).is_err() && fs.create_new(&path("g")).is_err());
    assert_eq!(fs.counters().syncs, 2);
    assert!(fs.crash(0).open(&path("f")).is_ok(), "the survivor works");
}

#[test]
fn lengths_and_zeros() {
    let fs = with_file(&[1; 6000]);
    let file = fs.open(&path("f")).expect("open");
    file.set_len(5000).expect("shorten");
    file.set_len(7000).expect("extend");
    let bytes = fs.bytes_of(&path("f")).expect("read");
    assert!(
        bytes.len() == 7000 && bytes[..5000].iter().all(|&b| b == 1) && bytes[5000..].iter().all(|&b| b == 0)
    );
    file.write_at(&[0; 4500], 100).expect("zeros");
    file.sync_data().expect("sync");
    let bytes = fs.crash(9).bytes_of(&path("f")).expect("read");
    assert_eq!(bytes.iter().map(|&b| usize::from(b)).sum::<usize>(), 500);
}

#[test]
fn a_removed_file_lives_as_long_as_it_is_open() {
    let fs = with_file(b"still here");
    let file = fs.open(&path("f")).expect("open");
    fs.remove(&path("f")).expect("remove");
    fs.sync_dir(Path::new(DIR)).expect("sync");
    let mut buf = [0; 10];
    assert_eq!(file.read_at(&mut buf, 0).expect("read"), 10);
    assert_eq!(&buf, b"still here");
    assert!(fs.open(&path("f")).is_err());
}
