//! The raw disk beside the server: how long a write and fdatasync take on a zero-filled file in the same directory.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use crate::LoadError;
use crate::figures::{Latency, Percentiles, per_second};
use crate::report::Row;

const FILE_BYTES: usize = 32 * 1024 * 1024;
const SMALL_BYTES: usize = 4 * 1024;
const LARGE_BYTES: usize = 256 * 1024;
const SMALL_WRITES: usize = 400;
const LARGE_WRITES: usize = 120;
const PROBE_NAME: &str = "disk-probe";

/// What the disk did without a server.
#[derive(Debug, Clone)]
pub struct Disk {
    /// 4 KiB per write and fdatasync.
    pub small: Writes,
    /// 256 KiB per write and fdatasync.
    pub large: Writes,
}

/// Writes of one size, one after another.
#[derive(Debug, Clone)]
pub struct Writes {
    /// How many per second.
    pub per_second: f64,
    /// How long each took, in microseconds.
    pub latency_us: Percentiles,
}

impl Disk {
    /// The cells of a row.
    pub fn row(&self) -> Row {
        [("4 KiB", &self.small), ("256 KiB", &self.large)].into_iter().fold(
            Row::default(),
            |row, (size, writes)| {
                row.count(&format!("{size} p50"), writes.latency_us.p50)
                    .count(&format!("{size} p99"), writes.latency_us.p99)
                    .number(&format!("{size} /s"), writes.per_second, 0)
            },
        )
    }
}

/// Writes and syncs a file in that directory for a moment.
///
/// # Errors
/// If it cannot be written.
pub fn probe(directory: &Path) -> Result<Disk, LoadError> {
    let path = directory.join(PROBE_NAME);
    let measured = measure(&path);
    let removed = fs::remove_file(&path);
    let disk = measured.map_err(LoadError::io("write to", &path))?;
    removed.map_err(LoadError::io("remove", &path))?;
    Ok(disk)
}

fn measure(path: &Path) -> std::io::Result<Disk> {
    let file = File::create(path)?;
    let zeros = vec![0; LARGE_BYTES];
    for position in (0..FILE_BYTES).step_by(LARGE_BYTES) {
        file.write_all_at(&zeros, position as u64)?;
    }
    file.sync_all()?;
    Ok(Disk {
        small: write(&file, SMALL_BYTES, SMALL_WRITES)?,
        large: write(&file, LARGE_BYTES, LARGE_WRITES)?,
    })
}

fn write(file: &File, bytes: usize, writes: usize) -> std::io::Result<Writes> {
    let block = vec![0xa5; bytes];
    let mut latency = Latency::default();
    let started = Instant::now();
    for number in 0..writes {
        let position = (number * bytes) % FILE_BYTES;
        let begun = Instant::now();
        file.write_all_at(&block, position as u64)?;
        file.sync_data()?;
        latency.record(begun.elapsed());
    }
    let per_second = per_second(writes as u64, started.elapsed());
    Ok(Writes { per_second, latency_us: latency.percentiles() })
}
