//! Bytes, lengths and names survive a crash apart from each other.

use std::collections::BTreeSet;
use std::path::Path;

use holdfast_disk::FileSystem;
use holdfast_disk::simfs::FaultKind;

use crate::support::{DIR, hits, path, with_file};

#[test]
fn any_subset_of_the_sectors_of_a_write_can_survive() {
    let fs = with_file("f", &[1; 2048]);
    fs.open(&path("f")).expect("open").write_at(&[2; 2048], 0).expect("write");
    let found = |seed| fs.crash(seed).bytes_of(&path("f")).expect("there");
    let subsets: BTreeSet<Vec<u8>> =
        (0..400).map(|seed| found(seed).iter().step_by(512).copied().collect()).collect();
    assert_eq!(subsets.len(), 16);
}

#[test]
fn an_unsynced_extension_survives_in_length_in_bytes_in_both_or_not() {
    let fs = with_file("f", &[1; 512]);
    fs.open(&path("f")).expect("open").write_at(&[2; 1024], 512).expect("write");
    let mut seen = BTreeSet::new();
    for seed in 0..400 {
        let after = fs.crash(seed);
        let bytes = after.bytes_of(&path("f")).expect("there");
        let found: Vec<u8> = bytes.iter().step_by(512).copied().collect();
        assert_eq!(hits(&after, FaultKind::ShorterFile, "d"), u64::from(found.len() < 3));
        assert_eq!(
            hits(&after, FaultKind::TornWrite, "d"),
            u64::from(found.contains(&2) && found != [1, 2, 2])
        );
        assert_eq!(hits(&after, FaultKind::UnsyncedLost, "d"), u64::from(!found.contains(&2)));
        seen.insert(found);
    }
    let wanted = [vec![1], vec![1, 2], vec![1, 0, 0], vec![1, 2, 0], vec![1, 0, 2], vec![1, 2, 2]];
    assert_eq!(seen, wanted.into());
}

#[test]
fn unsynced_changes_of_length_may_be_lost() {
    let fs = with_file("f", &[1; 1000]);
    let file = fs.open(&path("f")).expect("open");
    file.set_len(400).expect("cut");
    file.set_len(2000).expect("lengthen");
    file.allocate(3000).expect("allocate");
    let lengths: BTreeSet<usize> =
        (0..200).map(|seed| fs.crash(seed).bytes_of(&path("f")).expect("there").len()).collect();
    assert_eq!(lengths, [400, 1000, 2000, 3000].into());
    file.sync_data().expect("sync");
    assert!((0..20).all(|seed| fs.crash(seed).bytes_of(&path("f")).expect("there").len() == 3000));
}

#[test]
fn a_renaming_can_be_lost_while_later_bytes_survive() {
    let fs = with_file("old", &[1; 512]);
    let file = fs.open(&path("old")).expect("open");
    fs.rename(&path("old"), &path("new")).expect("rename");
    file.write_at(&[2; 512], 0).expect("write");
    file.sync_data().expect("sync");
    let found = |seed| {
        let after = fs.crash(seed);
        let names = after.list(Path::new(DIR)).expect("list");
        assert_eq!(after.bytes_of(&path(&names[0])).expect("there"), [2; 512]);
        assert_eq!(hits(&after, FaultKind::NameLost, "d"), u64::from(names == ["old"]));
        assert_eq!(hits(&after, FaultKind::NameWithoutData, "d"), 0);
        names
    };
    let names: BTreeSet<Vec<String>> = (0..50).map(found).collect();
    assert_eq!(names, [vec!["old".to_owned()], vec!["new".to_owned()]].into());
}

#[test]
fn a_new_name_can_lead_to_an_empty_file() {
    // The classic: write a new file, rename it over the old one, sync only the directory.
    let fs = with_file("table", &[1; 1024]);
    fs.create_new(&path("table.tmp")).expect("create").write_at(&[2; 1024], 0).expect("write");
    fs.rename(&path("table.tmp"), &path("table")).expect("rename");
    fs.sync_dir(Path::new(DIR)).expect("sync");
    let found = |seed| fs.crash(seed).bytes_of(&path("table")).expect("there");
    let seen: BTreeSet<Vec<u8>> =
        (0..200).map(|seed| found(seed).iter().step_by(512).copied().collect()).collect();
    assert_eq!(seen, [vec![], vec![2], vec![0, 0], vec![2, 0], vec![0, 2], vec![2, 2]].into());
}

#[test]
fn a_name_without_its_bytes_is_counted() {
    let fs = with_file("f", b"x");
    fs.create_new(&path("g.seg")).expect("create").write_at(&[2; 512], 0).expect("write");
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let after = fs.crash(seed);
        let whole = after.bytes_of(&path("g.seg")).ok().map(|bytes| bytes == [2; 512]);
        assert_eq!(hits(&after, FaultKind::NameWithoutData, "seg"), u64::from(whole == Some(false)));
        assert_eq!(hits(&after, FaultKind::NameLost, "seg"), u64::from(whole.is_none()));
        seen.insert(whole);
    }
    assert_eq!(seen.len(), 3);
}

#[test]
fn directories_lose_names_apart_from_each_other() {
    let fs = with_file("f", b"x");
    fs.create_dir_all(Path::new("/e")).expect("dir");
    fs.create_new(&path("g")).expect("create");
    fs.create_new(Path::new("/e/g")).expect("create");
    let found = |seed| {
        let after = fs.crash(seed);
        (after.exists(&path("g")).expect("exists"), after.exists(Path::new("/e/g")).expect("exists"))
    };
    assert_eq!((0..50).map(found).collect::<BTreeSet<_>>().len(), 4);
}

#[test]
fn the_same_seeds_give_the_same_survivor() {
    let run = |seed| {
        let fs = with_file("f", &[1; 4096]);
        let file = fs.open(&path("f")).expect("open");
        file.write_at(&[2; 6000], 1000).expect("write");
        fs.rename(&path("f"), &path("g")).expect("rename");
        let after = fs.crash(seed);
        let all: Vec<_> = after.paths().iter().map(|path| after.bytes_of(path).expect("there")).collect();
        (after.paths(), all, after.faults())
    };
    assert!((0..20).all(|seed| run(seed) == run(seed)));
}
