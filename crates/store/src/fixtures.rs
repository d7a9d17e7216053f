//! The committed files that hold the formats. If one of them differs, old directories cannot be read any more: that needs a
//! new format version, not a new fixture. `HOLDFAST_BLESS=1` writes the fixtures for a new version.

use std::path::PathBuf;

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
