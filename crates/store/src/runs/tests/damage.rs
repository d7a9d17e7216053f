//! Rot, truncation and strangers are noticed; a wrong answer never comes out.

use holdfast_disk::BLOCK;

use super::*;

const IDS: u64 = 400;
const DATA_BLOCKS: usize = 3;

fn damaged<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Damaged { .. }))
}

#[test]
fn every_flipped_byte_is_noticed() {
    let fs = new_fs();
    let written = sorted(entries(1, IDS));
    let mut open_before = seal_in(&fs, 1, written.clone()).expect("seal");
    let length = usize::try_from(open_before.file_bytes()).expect("small");
    assert_eq!(length / BLOCK, 1 + DATA_BLOCKS + 1 + 1);
    for position in 0..length {
        let mask = 1 << (position % 8) | u8::from(position % 3 == 0) << (position / 8 % 8);
        fs.flip_byte(&path(1), position as u64, mask);
        assert!(damaged(open_before.verify()), "verify believed byte {position}");
        let in_data = (1..=DATA_BLOCKS).contains(&(position / BLOCK));
        let reopened = open_in(&fs, 1);
        if in_data {
            let block = position / BLOCK - 1;
            let reopened = reopened.expect("opening reads no data block");
            assert!(reopened.iter().any(|entry| entry.is_err()), "the walk believed byte {position}");
            for (at, entry) in written.iter().enumerate().skip(position % 5).step_by(23) {
                let answer = get(&reopened, entry.id);
                if at / 170 == block {
                    assert!(damaged(answer), "byte {position} was believed");
                } else {
                    assert_eq!(answer.expect("another block"), Some(entry.place));
                }
            }
        } else {
            assert!(damaged(reopened), "open believed byte {position}");
        }
        fs.flip_byte(&path(1), position as u64, mask);
    }
    open_before = open_in(&fs, 1).expect("all flips are undone");
    assert_eq!(open_before.verify().expect("verify"), IDS);
}

#[test]
fn a_damaged_input_stops_the_merge() {
    let fs = new_fs();
    let inputs = [1, 2].map(|n| Arc::new(seal_in(&fs, n, entries(n, IDS)).expect("seal")));
    for block in 1..=DATA_BLOCKS {
        let position = (block * BLOCK + 100) as u64;
        fs.flip_byte(&path(2), position, 1);
        assert!(damaged(merge_in(&fs, 3, &inputs)));
        fs.flip_byte(&path(2), position, 1);
        assert_eq!(fs.list(dir()).expect("list").len(), 2);
    }
    merge_in(&fs, 3, &inputs).expect("whole again");
}

#[test]
fn another_length_is_noticed() {
    let fs = new_fs();
    let run = seal_in(&fs, 1, entries(1, IDS)).expect("seal");
    let bytes = fs.bytes_of(&path(1)).expect("read");
    for length in (0..bytes.len()).step_by(512).chain([1, bytes.len() - 1, bytes.len() - 4097]) {
        fs.put(&path(2), &bytes[..length]);
        fs.put(&path(1), &bytes[..length]);
        assert!(damaged(open_in(&fs, 1)), "{length} bytes");
    }
    for more in [1, 512, BLOCK] {
        fs.put(&path(1), &[&bytes[..], &vec![0; more]].concat());
        assert!(damaged(open_in(&fs, 1)), "{more} bytes more");
    }
    drop(run);
    fs.put(&path(1), &bytes);
    // Cut while it is open: the blocks that are left answer, the others do not.
    let run = open_in(&fs, 1).expect("open");
    fs.open(&path(1)).expect("open").set_len(2 * BLOCK as u64).expect("cut");
    let written = sorted(entries(1, IDS));
    assert_eq!(get(&run, written[0].id).expect("there"), Some(written[0].place));
    assert!(damaged(get(&run, written[399].id)) && damaged(run.verify()));
    assert!(run.iter().any(|entry| entry.is_err()));
    assert!(damaged(open_in(&fs, 99)), "not there at all");
}

/// Opens the bytes as run 1 and asks for everything; whether something noticed.
fn noticed(bytes: &[u8], written: &[Entry]) -> bool {
    let fs = new_fs();
    fs.put(&path(1), bytes);
    let Ok(run) = open_in(&fs, 1) else { return true };
    let mut errors = 0;
    for entry in written {
        match get(&run, entry.id) {
            Ok(place) => assert_eq!(place, Some(entry.place), "a wrong answer"),
            Err(error) => {
                assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
                errors += 1;
            }
        }
    }
    errors > 0 && run.verify().is_err() && run.iter().any(|entry| entry.is_err())
}

fn block(bytes: &[u8], number: usize) -> &[u8] {
    &bytes[number * BLOCK..(number + 1) * BLOCK]
}

fn with_block(bytes: &[u8], number: usize, other: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[number * BLOCK..(number + 1) * BLOCK].copy_from_slice(other);
    bytes
}

#[test]
fn misplaced_and_foreign_blocks_are_noticed() {
    let fs = new_fs();
    let written = entries(1, IDS);
    seal_in(&fs, 1, written.clone()).expect("seal");
    seal_in(&fs, 2, entries(2, IDS)).expect("seal");
    let bytes = fs.bytes_of(&path(1)).expect("read");
    let other_run = fs.bytes_of(&path(2)).expect("read");
    let elsewhere = new_fs();
    let other_log = RunFolder { log_id: LogId([8; 16]), ..folder(&elsewhere) };
    seal(&other_log, RunName(1), written.clone(), &mut || {}).expect("seal");
    let other_log = elsewhere.bytes_of(&path(1)).expect("read");
    assert!(!noticed(&bytes, &written));
    for number in 0..bytes.len() / BLOCK {
        for from in (0..bytes.len() / BLOCK).filter(|&from| from != number) {
            assert!(
                noticed(&with_block(&bytes, number, block(&bytes, from)), &written),
                "{from} at {number}"
            );
        }
        assert!(noticed(&with_block(&bytes, number, block(&other_run, number)), &written));
        assert!(noticed(&with_block(&bytes, number, block(&other_log, number)), &written));
        assert!(noticed(&with_block(&bytes, number, &[0; BLOCK]), &written));
    }
    let swapped = with_block(&with_block(&bytes, 1, block(&bytes, 2)), 2, block(&bytes, 1));
    assert!(noticed(&swapped, &written));
}

#[test]
fn strangers_are_sent_away() {
    let fs = new_fs();
    seal_in(&fs, 1, entries(1, IDS)).expect("seal");
    let open = |name, log_id, key| Run::open(&RunFolder { log_id, key, ..folder(&fs) }, RunName(name));
    let foreign = open(1, LogId([8; 16]), KEY);
    assert!(matches!(foreign, Err(StoreError::Foreign { expected: LogId([8, ..]), found: LOG, .. })));
    assert!(damaged(open(1, LOG, KEY + 1)), "another key would not find what is there");
    let mut bytes = fs.bytes_of(&path(1)).expect("read");
    fs.put(&path(2), &bytes);
    assert!(damaged(open(2, LOG, KEY)), "under another's name");
    bytes[8] = 2;
    let crc = crc32c::crc32c(&bytes[..4092]);
    bytes[4092..4096].copy_from_slice(&crc.to_le_bytes());
    fs.put(&path(1), &bytes);
    assert!(matches!(open(1, LOG, KEY), Err(StoreError::UnsupportedVersion { found: 2, known: 1, .. })));
}

/// A valid checksum over contents that cannot be.
#[test]
fn contradictions_are_noticed() {
    let fs = new_fs();
    let written = sorted(entries(1, IDS));
    seal_in(&fs, 1, written.clone()).expect("seal");
    let bytes = fs.bytes_of(&path(1)).expect("read");
    let seed = crc32c::crc32c_append(crc32c::crc32c(&LOG.0), &1_u64.to_le_bytes());
    let forge = |number: usize, change: &dyn Fn(&mut [u8])| {
        let mut forged = block(&bytes, number).to_vec();
        change(&mut forged);
        let seed = if number == 0 { 0 } else { seed };
        let crc = crc32c::crc32c_append(seed, &forged[..4092]);
        forged[4092..].copy_from_slice(&crc.to_le_bytes());
        with_block(&bytes, number, &forged)
    };
    assert_eq!(forge(1, &|_| {}), bytes, "the forger knows the checksum");
    // Counts, blocks, lines and length of the header.
    for field in [48, 88, 96, 104, 112, 120] {
        assert!(noticed(&forge(0, &|block| block[field] ^= 1), &written), "{field}");
        assert!(noticed(&forge(0, &|block| block[field..field + 8].fill(0xff)), &written), "{field}");
        assert!(noticed(&forge(0, &|block| block[field..field + 8].fill(0)), &written), "{field}");
    }
    assert!(noticed(&forge(2, &|block| block[4080] = 1), &written), "a block with another number");
    assert!(noticed(&forge(2, &|block| block[4088] = 169), &written), "a block with another count");
    assert!(noticed(&forge(2, &|block| block[0] ^= 1), &written), "a block that its fence does not announce");
    assert!(noticed(&forge(4, &|block| block[16..32].fill(0)), &written), "fences out of order");
    let verify = |bytes: Vec<u8>| {
        fs.put(&path(1), &bytes);
        open_in(&fs, 1).and_then(|run| run.verify())
    };
    assert!(damaged(verify(forge(1, &|block| block.copy_within(24..48, 48)))), "an id twice");
    assert!(damaged(verify(forge(5, &|block| block[..64].fill(0)))), "an id that the filter denies");
    assert!(damaged(verify(forge(3, &|block| block[59 * 24] ^= 1))), "the largest id is another");
    assert_eq!(verify(bytes.clone()).expect("untouched"), IDS);
}
