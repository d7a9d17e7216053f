//! How tests hold the formats: by committed files, and by what every row promises. If a committed file differs, old
//! directories cannot be read any more: that needs a new format version, not a new fixture. `HOLDFAST_BLESS=1` writes the
//! fixtures for a new version.

use std::fmt::Debug;
use std::path::PathBuf;

use proptest::sample::Index;

fn path_of(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", name].iter().collect()
}

pub(crate) fn committed(name: &str) -> Vec<u8> {
    std::fs::read(path_of(name)).expect("the fixture")
}

/// Fails unless the bytes are those of the fixture.
#[track_caller]
pub(crate) fn assert_committed(bytes: &[u8], name: &str) {
    if std::env::var_os("HOLDFAST_BLESS").is_some() {
        std::fs::write(path_of(name), bytes).expect("write the fixture");
    }
    let committed = committed(name);
    let differing = bytes.iter().zip(&committed).position(|(new, old)| new != old);
    assert_eq!((bytes.len(), differing), (committed.len(), None), "{name}");
}

/// A change of one byte: where, and to what.
pub(crate) type Change = (Index, u8);

/// The row comes back from its bytes, no part of them is one, and whatever can be read is what would be written: equal rows have
/// equal bytes.
pub(crate) fn comes_back<T: PartialEq + Debug>(
    row: &T,
    (at, byte): Change,
    write: impl Fn(&T, &mut Vec<u8>),
    read: impl Fn(&[u8]) -> Option<T>,
) {
    let bytes_of = |row: &T| {
        let mut bytes = Vec::new();
        write(row, &mut bytes);
        bytes
    };
    let mut bytes = bytes_of(row);
    assert_eq!(read(&bytes).as_ref(), Some(row));
    for length in 0..bytes.len() {
        assert_eq!(read(&bytes[..length]), None, "cut at {length}");
    }
    *at.get_mut(&mut bytes) = byte;
    if let Some(other) = read(&bytes) {
        assert_eq!(bytes_of(&other), bytes);
    }
}
