//! Writes that are reported as done and never happen, or happen elsewhere.

use holdfast_disk::simfs::FaultKind;
use holdfast_disk::{FileSystem, SimFs};

use crate::support::{hits, path, with_file};

/// One byte per sector of a file.
fn sectors(bytes: &[u8]) -> Vec<u8> {
    assert!(
        bytes.chunks(512).all(|sector| sector.iter().all(|&byte| byte == sector[0])),
        "a sector is mixed"
    );
    bytes.iter().step_by(512).copied().collect()
}

fn live(fs: &SimFs, name: &str) -> Vec<u8> {
    sectors(&fs.bytes_of(&path(name)).expect("there"))
}

fn durable(fs: &SimFs, name: &str) -> Vec<u8> {
    sectors(&fs.durable_bytes_of(&path(name)).expect("there"))
}

#[test]
fn a_lost_write_is_seen_by_nobody_but_the_cache() {
    let fs = with_file("f.seg", &[1; 1024]);
    let file = fs.open(&path("f.seg")).expect("open");
    fs.lose_next_write(|path| path.ends_with("f.seg"));
    file.write_at(&[2; 1024], 512).expect("a lie");
    file.sync_data().expect("another");
    assert_eq!((live(&fs, "f.seg"), durable(&fs, "f.seg")), (vec![1, 2, 2], vec![1, 1, 0]));
    file.drop_cache().expect("drop");
    assert_eq!(live(&fs, "f.seg"), [1, 1, 0], "the length is kept elsewhere");
    file.write_at(&[2; 512], 0).expect("write");
    file.sync_data().expect("sync");
    assert_eq!(durable(&fs, "f.seg"), [2, 1, 0], "it was lost once");
    assert_eq!(hits(&fs, FaultKind::LostWrite, "seg"), 1);
}

#[test]
fn without_a_cache_a_lie_shows_at_once() {
    let fs = with_file("f", &[1; 1024]);
    let file = fs.open_uncached(&path("f")).expect("open");
    fs.lose_next_write(|_| true);
    file.write_at(&[2; 512], 0).expect("a lie");
    assert_eq!(live(&fs, "f"), [1, 1]);
    fs.misdirect_next_write(|_| true, 512);
    file.write_at(&[3; 512], 0).expect("a lie");
    assert_eq!(live(&fs, "f"), [1, 3]);
}

#[test]
fn a_misdirected_write_lands_elsewhere_in_the_file() {
    // Asked for at sector 2 of 5, two sectors long.
    for (by, wanted) in [(-2, [9, 9, 1, 1, 1]), (1, [1, 1, 1, 9, 9]), (2, [1, 1, 1, 1, 9]), (-3, [1; 5])] {
        let fs = with_file("f.idx", &[1; 5 * 512]);
        fs.put(&path("other"), &[1; 512]);
        let file = fs.open(&path("f.idx")).expect("open");
        fs.misdirect_next_write(|path| path.ends_with("f.idx"), by * 512);
        fs.open(&path("other")).expect("open").write_at(&[2; 512], 0).expect("does not match");
        file.write_at(&[9; 1024], 1024).expect("a lie");
        assert_eq!(live(&fs, "f.idx"), [1, 1, 9, 9, 1], "the cache has it right");
        file.sync_data().expect("sync");
        assert_eq!(durable(&fs, "f.idx"), wanted, "by {by} sectors");
        assert_eq!(live(&fs, "other"), [2]);
        assert_eq!(hits(&fs, FaultKind::MisdirectedWrite, "idx"), 1);
    }
}

#[test]
#[should_panic(expected = "whole sectors")]
fn a_disk_errs_by_whole_sectors() {
    SimFs::new(1).misdirect_next_write(|_| true, 100);
}

#[test]
fn a_misdirected_write_lands_in_another_file() {
    let fs = with_file("f.seg", &[1; 1024]);
    fs.put(&path("victim"), &[5; 1024]);
    fs.misdirect_next_write_into(|path| path.ends_with("f.seg"), &path("victim"));
    let file = fs.open(&path("f.seg")).expect("open");
    file.write_at(&[2; 1024], 512).expect("a lie");
    file.sync_data().expect("sync");
    assert_eq!(durable(&fs, "f.seg"), [1, 1, 0]);
    assert_eq!((live(&fs, "victim"), durable(&fs, "victim")), (vec![5, 5], vec![5, 2]));
    assert_eq!(live(&fs.crash(0), "victim"), [5, 2]);

    fs.misdirect_next_write_into(|_| true, &path("nowhere"));
    file.write_at(&[3; 512], 0).expect("a lie");
    file.sync_data().expect("sync");
    assert_eq!(durable(&fs, "f.seg"), [1, 1, 0]);
}
