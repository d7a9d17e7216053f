use super::*;

/// Files with every whole block on the disk, and where the records are.
fn written(fs: &SimFs) -> (BlockFiles, Vec<u64>) {
    let mut files = open(fs, None);
    let positions = append(&mut files, 0..100);
    flush(&mut files);
    (files, positions)
}

#[test]
fn a_flipped_byte_is_damage_for_the_records_of_its_block_and_no_others() {
    let fs = SimFs::new(1);
    let (files, positions) = written(&fs);
    let reader = files.reader();
    for at in 0..3 * 4096_u64 {
        let mask = 1 << (at % 8);
        fs.flip_byte(&file(0), at, mask);
        for (number, position) in positions.iter().enumerate().filter(|(_, position)| **position < 3 * 4096) {
            let read = reader.read(*position);
            if position / 4096 == at / 4096 {
                assert!(is_damaged(&read, &file(0)), "byte {at}, record {number}");
            } else if number % 5 == 0 {
                assert_eq!(read.unwrap(), Some(record(number)));
            }
        }
        if at % 64 == 0 {
            let scanned: Vec<_> = reader.scan(0, u64::MAX).collect();
            let good = positions.iter().filter(|position| *position / 4096 < at / 4096).count();
            assert_eq!(scanned.len(), good + 1);
            assert!(is_damaged(&scanned[good].as_ref().map(drop).map_err(|_| damaged()), &file(0)));
            assert!(is_damaged(&files.reader().verify(u64::MAX), &file(0)));
        }
        fs.flip_byte(&file(0), at, mask);
    }
    assert_eq!(files.reader().verify(u64::MAX).unwrap(), 100);
}

fn damaged() -> StoreError {
    StoreError::damaged(&file(0), 0, "")
}

#[test]
fn swapped_blocks_are_noticed() {
    let fs = SimFs::new(1);
    let (files, positions) = written(&fs);
    let (first, second) = (fs.bytes_of(&file(0)).unwrap(), fs.bytes_of(&file(4)).unwrap());
    // Within a file, and between files.
    let within = [&first[4096..8192], &first[..4096], &first[8192..]].concat();
    let between = [&second[..4096], &first[4096..]].concat();
    for bytes in [within, between] {
        fs.open(&file(0)).unwrap().write_at(&bytes, 0).unwrap();
        assert!(is_damaged(&files.reader().read(positions[0]), &file(0)));
        assert!(is_damaged(&files.reader().verify(u64::MAX), &file(0)));
    }
}

#[test]
fn files_of_another_log_or_kind_are_noticed_when_opened() {
    let fs = SimFs::new(1);
    let end = written(&fs).0.end();
    let mut other = LOG;
    other.0[3] ^= 1;
    for (log_id, kind) in [(other, Kind::Outcomes), (LOG, Kind::Callbacks)] {
        let other = BlockFolder { log_id, kind, ..folder(&fs) };
        let opened = BlockFiles::create_or_open(other, Some(end.clone()), SMALL);
        assert!(matches!(opened, Err(StoreError::Damaged { .. })));
    }
    assert_eq!(open(&fs, Some(end)).reader().verify(u64::MAX).unwrap(), 100);
}

#[test]
fn a_later_version_is_named() {
    let fs = SimFs::new(1);
    let (files, positions) = written(&fs);
    let mut block = fs.bytes_of(&file(0)).unwrap();
    block.truncate(4096);
    block[6] = 2;
    let seed = crc32c::crc32c_append(crc32c::crc32c(&LOG.0), &[1]);
    let crc = crc32c::crc32c_append(seed, &block[4..]);
    block[..4].copy_from_slice(&crc.to_le_bytes());
    fs.open(&file(0)).unwrap().write_at(&block, 0).unwrap();
    let read = files.reader().read(positions[0]);
    assert!(matches!(read, Err(StoreError::UnsupportedVersion { found: 2, known: 1, .. })));
}

#[test]
fn missing_short_and_long_files_are_named_and_nothing_is_changed() {
    let fs = SimFs::new(1);
    let end = written(&fs).0.end();
    let before = names(&fs);
    assert_eq!(before.len(), 3);
    let opened = || open_with(&fs, Some(end.clone()), SMALL);

    let contents = fs.bytes_of(&file(4)).unwrap();
    for bytes in [&contents[..contents.len() - 1], &[], &[&contents[..], &[0]].concat()] {
        fs.put(&file(4), bytes);
        assert!(is_damaged(&opened(), &file(4)));
    }
    fs.remove(&file(4)).unwrap();
    assert!(is_damaged(&opened(), &file(4)));
    fs.put(&file(4), &contents);

    let last = fs.bytes_of(&file(8)).unwrap();
    fs.put(&file(8), &last[..last.len() - 1]);
    assert!(is_damaged(&opened(), &file(8)));
    fs.put(&file(8), &last);
    fs.put(&file(5), &contents);
    assert!(is_damaged(&opened(), &file(5)), "no multiple of the blocks of a file");
    fs.remove(&file(5)).unwrap();
    fs.put(&dir().join("notes.txt"), b"not ours");
    assert_eq!(opened().unwrap().reader().verify(u64::MAX).unwrap(), 100);
    assert_eq!(names(&fs).len(), before.len() + 1);
}

#[test]
fn an_end_that_is_none_is_refused() {
    let fs = SimFs::new(1);
    let end = written(&fs).0.end();
    let position = end.position;
    let tail = |tail: &[u8]| End { position: 16 + tail.len() as u64, tail: tail.to_vec() };
    let refused = [
        End { position: position + 1, tail: end.tail.clone() },
        End { position: position / 4096 * 4096, tail: Vec::new() },
        tail(&[1]),
        tail(&[1, 0]),
        tail(&[9; 4096 - 16]),
    ];
    for end in refused {
        assert!(matches!(open_with(&fs, Some(end), SMALL), Err(StoreError::Damaged { .. })));
    }
    assert_eq!(open(&fs, Some(end)).reader().verify(u64::MAX).unwrap(), 100);
}
