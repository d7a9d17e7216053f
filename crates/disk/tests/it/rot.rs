//! Bits that flip at rest.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use holdfast_disk::FileSystem;
use holdfast_disk::simfs::FaultKind;

use crate::support::{hits, path, with_file};

#[test]
fn a_byte_rots_in_the_cache_and_on_the_medium() {
    let fs = with_file("f.seg", &[1; 100]);
    fs.rot(&path("f.seg"), 7, 0x81).expect("there");
    for bytes in [fs.bytes_of(&path("f.seg")), fs.durable_bytes_of(&path("f.seg"))] {
        let bytes = bytes.expect("there");
        assert_eq!((bytes[6], bytes[7], bytes[8], bytes.len()), (1, 0x80, 1, 100));
    }
    assert_eq!(hits(&fs, FaultKind::BitRot, "seg"), 1);
    let kind = |name, position, mask| fs.rot(&path(name), position, mask).expect_err("nothing there").kind();
    assert_eq!(kind("f.seg", 100, 1), ErrorKind::InvalidInput);
    assert_eq!(kind("f.seg", 0, 0), ErrorKind::InvalidInput);
    assert_eq!(kind("g", 0, 1), ErrorKind::NotFound);
    assert_eq!(fs.bytes_of(&path("f.seg")).expect("there").len(), 100);
}

#[test]
fn random_rot_strikes_what_was_written_and_synced() {
    let mut struck = BTreeSet::new();
    for seed in 0..300 {
        let fs = with_file("a.seg", &[0; 20_000]);
        fs.put(&path("b.seg"), &[0; 100]);
        fs.put(&path("c.idx"), &[1; 100]);
        let file = fs.open(&path("a.seg")).expect("open");
        file.write_at(&[1; 10], 9000).expect("write");
        file.sync_data().expect("sync");
        file.write_at(&[1; 10], 100).expect("not synced");
        file.write_at(&[1; 4], 9003).expect("not synced again");
        let before = fs.durable_bytes_of(&path("a.seg")).expect("there");
        let Some(rotten) = fs.rot_random(seed, |path| path.extension().is_some_and(|e| e == "seg")) else {
            continue;
        };
        assert_eq!(rotten.path, path("a.seg"));
        let after = fs.durable_bytes_of(&path("a.seg")).expect("there");
        let differ: Vec<usize> = (0..after.len()).filter(|&at| before[at] != after[at]).collect();
        assert_eq!(differ, [usize::try_from(rotten.position).expect("small")]);
        assert_eq!(after[differ[0]], before[differ[0]] ^ rotten.mask);
        assert_eq!(fs.bytes_of(&path("a.seg")).expect("there")[differ[0]], after[differ[0]]);
        struck.insert(rotten.position);
    }
    assert_eq!(struck, [9000, 9001, 9002, 9007, 9008, 9009].into());
}

#[test]
fn where_nothing_is_written_nothing_rots() {
    let fs = with_file("f", &[0; 10_000]);
    assert_eq!(fs.rot_random(1, |_| true), None);
    assert!(fs.faults().is_empty());
    fs.put(&path("g"), &[1; 10_000]);
    assert_eq!(fs.rot_random(1, |path| path.ends_with("f")), None);
    let place = |seed| fs.crash(0).rot_random(seed, |_| true).expect("written");
    assert_eq!(place(5), place(5), "the same seed, the same byte");
    assert!((0..50).map(|seed| place(seed).position / 4096).collect::<BTreeSet<_>>().len() == 3);
}
