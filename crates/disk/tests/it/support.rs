//! A directory with a file in it.

use std::path::{Path, PathBuf};

use holdfast_disk::SimFs;
use holdfast_disk::simfs::FaultKind;

pub const DIR: &str = "/d";

pub fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

pub fn with_file(name: &str, bytes: &[u8]) -> SimFs {
    let fs = SimFs::new(1);
    fs.put(&path(name), bytes);
    fs
}

/// How often a fault struck a class of files.
pub fn hits(fs: &SimFs, kind: FaultKind, class: &str) -> u64 {
    fs.faults().iter().filter(|hit| hit.kind == kind && hit.class == class).map(|hit| hit.count).sum()
}

/// Seeded numbers for a test's own choices.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
