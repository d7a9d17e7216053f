//! A disk has so much room and no more.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

use holdfast_disk::simfs::FaultKind;
use holdfast_disk::{FileSystem, SimFs};

use crate::support::{DIR, Random, hits, path, with_file};

const BLOCK: u64 = 4096;

fn kind_of<T>(result: std::io::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn a_write_fills_the_room_there_is_and_fails() {
    let fs = with_file("f.seg", &[1; 5000]);
    assert_eq!(fs.used_bytes(), 2 * BLOCK);
    fs.set_capacity(Some(3 * BLOCK));
    let file = fs.open(&path("f.seg")).expect("open");
    assert_eq!(kind_of(file.write_at(&[2; 9000], 5000)), Some(ErrorKind::StorageFull));
    let bytes = fs.bytes_of(&path("f.seg")).expect("read");
    assert_eq!(bytes.len(), 3 * 4096);
    assert!(bytes[5000..].iter().all(|&byte| byte == 2));
    assert_eq!(kind_of(fs.create_new(&path("g"))), Some(ErrorKind::StorageFull));
    file.write_at(&[3; 5000], 100).expect("what has room can be overwritten");
    assert_eq!(hits(&fs, FaultKind::DiskFull, "seg"), 1);
    assert_eq!(hits(&fs, FaultKind::DiskFull, "d"), 1);

    fs.set_capacity(None);
    file.write_at(&[2; 9000], 5000).expect("healed");
    assert_eq!(fs.used_bytes(), 4 * BLOCK);
}

#[test]
fn a_longer_file_is_a_promise_and_an_allocated_one_has_its_room() {
    let fs = with_file("f", b"x");
    fs.set_capacity(Some(3 * BLOCK));
    let file = fs.open(&path("f")).expect("open");
    file.set_len(100 * BLOCK).expect("takes nothing");
    assert_eq!(fs.used_bytes(), BLOCK);
    assert_eq!(kind_of(file.allocate(4 * BLOCK)), Some(ErrorKind::StorageFull));
    assert_eq!(fs.used_bytes(), BLOCK, "nothing was taken");
    file.allocate(2 * BLOCK).expect("there is room");
    let other = fs.create_new(&path("g")).expect("create");
    other.write_at(&[0; 4096], 0).expect("zeros take room too");
    file.write_at(&[1; 8192], 0).expect("allocated");
    assert_eq!(kind_of(file.write_at(&[1], 50 * BLOCK)), Some(ErrorKind::StorageFull), "a hole");
    assert_eq!(file.len().expect("len"), 100 * BLOCK);
}

#[test]
fn room_comes_back_when_nothing_reaches_the_file() {
    let fs = with_file("f", &[1; 4096]);
    fs.put(&path("g"), &[1; 4096]);
    fs.set_capacity(Some(2 * BLOCK));
    let held = fs.open(&path("f")).expect("open");
    fs.remove(&path("f")).expect("remove");
    assert_eq!(kind_of(fs.create_new(&path("h"))), Some(ErrorKind::StorageFull), "still open");
    drop(held);
    fs.create_new(&path("h")).expect("closed").write_at(&[1; 4096], 0).expect("its room");
    fs.rename(&path("h"), &path("g")).expect("replaces");
    assert_eq!(fs.used_bytes(), BLOCK);
    fs.open(&path("g")).expect("open").set_len(0).expect("cut");
    assert_eq!(fs.used_bytes(), 0);
}

#[test]
fn a_crash_keeps_the_size_of_the_disk_and_what_is_on_it() {
    let fs = with_file("f", &[1; 4096]);
    fs.set_capacity(Some(2 * BLOCK));
    let file = fs.open(&path("f")).expect("open");
    file.write_at(&[1; 4096], BLOCK).expect("write");
    for seed in 0..50 {
        let after = fs.crash(seed);
        // What the length alone survived of has no room.
        let sector = |bytes: &[u8]| bytes.len() > 4096 && bytes[4096..].contains(&1);
        let taken = if sector(&after.bytes_of(&path("f")).expect("read")) { 2 } else { 1 };
        assert_eq!(after.used_bytes(), taken * BLOCK, "seed {seed}");
        assert_eq!(after.create_new(&path("g")).is_ok(), taken == 1, "seed {seed}");
    }
}

/// Contents and blocks of every file, the naive way.
#[derive(Default)]
struct Model {
    files: BTreeMap<String, (Vec<u8>, BTreeSet<u64>)>,
}

impl Model {
    fn used(&self) -> u64 {
        self.files.values().map(|(_, blocks)| blocks.len() as u64).sum()
    }

    fn write(&mut self, name: &str, byte: u8, at: u64, len: u64, capacity: u64) -> bool {
        for place in at..at + len {
            let used = self.used();
            let (bytes, blocks) = self.files.get_mut(name).expect("there");
            if !blocks.contains(&(place / BLOCK)) && used >= capacity {
                return false;
            }
            blocks.insert(place / BLOCK);
            let place = usize::try_from(place).expect("small");
            bytes.resize(bytes.len().max(place + 1), 0);
            bytes[place] = byte;
        }
        true
    }

    fn allocate(&mut self, name: &str, len: u64, capacity: u64) -> bool {
        let used = self.used();
        let (bytes, blocks) = self.files.get_mut(name).expect("there");
        let wanted: BTreeSet<u64> =
            (0..len.div_ceil(BLOCK)).filter(|block| !blocks.contains(block)).collect();
        let fits = used + wanted.len() as u64 <= capacity;
        if fits {
            blocks.extend(wanted);
            bytes.resize(bytes.len().max(usize::try_from(len).expect("small")), 0);
        }
        fits
    }

    fn set_len(&mut self, name: &str, len: u64) {
        let (bytes, blocks) = self.files.get_mut(name).expect("there");
        if len < bytes.len() as u64 {
            blocks.retain(|&block| block < len.div_ceil(BLOCK));
        }
        bytes.resize(usize::try_from(len).expect("small"), 0);
    }
}

#[test]
fn contents_and_room_are_those_of_a_naive_model() {
    for seed in 0..30 {
        let (fs, mut model, mut random) = (SimFs::new(seed), Model::default(), Random(seed));
        fs.create_dir_all(Path::new(DIR)).expect("dir");
        let capacity = 4 + random.below(8);
        fs.set_capacity(Some(capacity * BLOCK));
        for step in 0..60 {
            let name = ["a", "b", "c"][usize::try_from(random.below(3)).expect("small")];
            let (at, len) = (random.below(20_000), random.below(6000));
            let when = format!("seed {seed}, step {step}");
            if !model.files.contains_key(name) {
                let room = model.used() < capacity;
                assert_eq!(fs.create_new(&path(name)).is_ok(), room, "{when}");
                if room {
                    model.files.insert(name.to_owned(), Default::default());
                }
                continue;
            }
            let file = fs.open(&path(name)).expect("open");
            match random.below(9) {
                0 => {
                    file.set_len(at).expect("set_len");
                    model.set_len(name, at);
                }
                1 => {
                    fs.remove(&path(name)).expect("remove");
                    model.files.remove(name);
                }
                2 => {
                    fs.rename(&path(name), &path("a")).expect("rename");
                    let moved = model.files.remove(name).expect("there");
                    model.files.insert("a".to_owned(), moved);
                }
                3 => file.sync_data().expect("sync"),
                5 => {
                    let fits = model.allocate(name, len, capacity);
                    assert_eq!(file.allocate(len).is_ok(), fits, "{when}");
                }
                4 => {
                    file.drop_cache().expect("drop");
                    fs.sync_dir(Path::new(DIR)).expect("sync");
                }
                kind => {
                    let byte = if kind == 6 { 0 } else { 7 };
                    let data = vec![byte; usize::try_from(len).expect("small")];
                    let fits = model.write(name, byte, at, len, capacity);
                    assert_eq!(file.write_at(&data, at).is_ok(), fits, "{when}");
                }
            }
            drop(file);
            assert_eq!(fs.used_bytes(), model.used() * BLOCK, "{when}");
            let found: Vec<_> = fs.paths().iter().map(|path| fs.bytes_of(path).expect("read")).collect();
            let wanted: Vec<_> = model.files.values().map(|(bytes, _)| bytes.clone()).collect();
            assert!(found == wanted, "{when}");
        }
    }
}
