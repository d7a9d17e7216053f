//! The bytes on disk, committed. If one of these fails, old runs cannot be read any more: that needs a new format
//! version, not a new fixture. `HOLDFAST_BLESS=1` writes the fixture for a new version.

use super::*;
use crate::held::{assert_committed, committed};

const GOLDEN_ID: LogId = LogId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
const GOLDEN_KEY: u64 = 0x0123_4567_89ab_cdef;
const GOLDEN_NAME: RunName = RunName(42);

const WRITTEN_TODAY: &str = "v1.run";
/// The same with a filter of 16 bits per id, as runs were written at first.
const SMALL_FILTER: &str = "v1-small-filter.run";

fn golden_folder(fs: &SimFs) -> RunFolder {
    RunFolder { log_id: GOLDEN_ID, key: GOLDEN_KEY, ..folder(fs) }
}

/// Three kinds of ids: spread, rising, and the two ends. 2,302 of them fill more than one block of the filter.
fn golden_entries() -> Vec<Entry> {
    let spread = (1..=1_500_u128).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
    let rising = (0..800).map(|n| 0x0190_0000_0000_7000_8000_0000_0000_0000 + n);
    let ids = spread.chain(rising).chain([0, u128::MAX]);
    ids.zip(1_000..).map(|(id, place)| Entry { id, place }).collect()
}

#[test]
fn todays_code_writes_the_committed_bytes() {
    let fs = new_fs();
    seal(&golden_folder(&fs), GOLDEN_NAME, golden_entries(), &mut || {}).expect("seal");
    assert_committed(&fs.bytes_of(&path(42)).expect("read"), WRITTEN_TODAY);
}

#[test]
fn todays_code_reads_the_committed_bytes() {
    for name in [WRITTEN_TODAY, SMALL_FILTER] {
        let fs = SimFs::new(0);
        fs.put(&path(42), &committed(name));
        let run = Run::open(&golden_folder(&fs), GOLDEN_NAME).expect("open");
        assert_eq!(run.verify().expect("verify"), 2_302);
        assert_eq!(all(&run), sorted(golden_entries()));
        for entry in golden_entries() {
            let place = run.get(hash_id(GOLDEN_KEY, entry.id), entry.id).expect("get");
            assert_eq!(place, Some(entry.place));
        }
    }
}

/// The tables of the module's documentation, field by field, independent of the code that writes them.
#[test]
fn the_fields_stand_where_the_document_says() {
    let bytes = committed(WRITTEN_TODAY);
    let wide = |at: usize, len: usize| {
        bytes[at..at + len].iter().rev().fold(0_u128, |n, &byte| n << 8 | u128::from(byte))
    };
    let le = |at: usize, len: usize| u64::try_from(wide(at, len)).expect("at most 8 bytes");
    assert_eq!(&bytes[0..8], b"HOLDFRUN");
    assert_eq!((le(8, 2), le(10, 6)), (1, 0));
    assert_eq!(bytes[16..32], GOLDEN_ID.0);
    assert_eq!(le(32, 8), 42);
    // The hash function itself, for ever.
    assert_eq!(le(40, 8), hash_id(GOLDEN_KEY, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef));
    assert_eq!(le(40, 8), 0x8d7c_52cd_db5d_d929);
    assert_eq!((le(48, 8), wide(56, 16), wide(72, 16)), (2_302, 0, u128::MAX));
    let (data, fences, lines, filter) = (14, 1, 116, 2);
    assert_eq!((le(88, 8), le(96, 8), le(104, 8), le(112, 8)), (data, fences, lines, filter));
    assert_eq!((le(120, 8), bytes.len()), (18 * 4096, 18 * 4096));
    assert!(bytes[128..4092].iter().all(|&byte| byte == 0));
    assert_eq!(le(4092, 4), u64::from(crc32c::crc32c(&bytes[..4092])));
    let counts = [vec![170; 13], vec![92, 14, 63, 53]].concat();
    for (number, count) in (1..18_usize).zip(counts) {
        let at = number * 4096;
        assert_eq!((le(at + 4080, 8), le(at + 4088, 4)), (number as u64, count));
        let covered = [&GOLDEN_ID.0[..], &42_u64.to_le_bytes(), &bytes[at..at + 4092]].concat();
        assert_eq!(le(at + 4092, 4), u64::from(crc32c::crc32c(&covered)));
    }
    // Entries, their fences, and their bits in the filter.
    for (n, entry) in sorted(golden_entries()).into_iter().enumerate() {
        let block = n / 170;
        let at = (1 + block) * 4096 + n % 170 * 24;
        assert_eq!((wide(at, 16), le(at + 16, 8)), (entry.id, entry.place));
        if n % 170 == 0 {
            assert_eq!(wide(15 * 4096 + 16 * block, 16), entry.id);
        }
        let hash = hash_id(GOLDEN_KEY, entry.id);
        let line = usize::try_from((u128::from(hash) * 116) >> 64).expect("small");
        let at = (16 + line / 63) * 4096 + line % 63 * 64;
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for word in 0..8 {
            assert_eq!(le(at + 8 * word, 8) >> ((mixed >> (16 + 6 * word)) & 63) & 1, 1);
        }
    }
}
