//! The raw disk beside the server: how long a write and fdatasync take on a zero-filled file in the same directory.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::BenchError;
use crate::report::{LATENCY_MAX_US, Percentiles};

const FILE_BYTES: usize = 32 * 1024 * 1024;
const SMALL_BYTES: usize = 4 * 1024;
const LARGE_BYTES: usize = 256 * 1024;
const SMALL_WRITES: usize = 400;
const LARGE_WRITES: usize = 120;
const PROBE_NAME: &str = "disk-probe";

/// What the disk did without a server.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// 4 KiB per write and fdatasync.
    pub small: Writes,
    /// 256 KiB per write and fdatasync.
    pub large: Writes,
}

/// Writes of one size, one after another.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Writes {
    /// Bytes of each.
    pub bytes: usize,
    /// How many per second.
    pub per_second: f64,
    /// How long each took, in microseconds.
    pub latency_us: Percentiles,
}

pub(crate) fn probe(directory: &Path) -> Result<Disk, BenchError> {
    let path = directory.join(PROBE_NAME);
    let measured = measure(&path);
    let removed = fs::remove_file(&path);
    let disk = measured.map_err(BenchError::io("write to", &path))?;
    removed.map_err(BenchError::io("remove", &path))?;
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
    let mut histogram = Histogram::<u64>::new_with_max(LATENCY_MAX_US, 3).expect("three digits");
    let started = Instant::now();
    for number in 0..writes {
        let position = (number * bytes) % FILE_BYTES;
        let begun = Instant::now();
        file.write_all_at(&block, position as u64)?;
        file.sync_data()?;
        histogram.saturating_record(u64::try_from(begun.elapsed().as_micros()).unwrap_or(LATENCY_MAX_US));
    }
    let seconds = started.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss, reason = "a printed rate")]
    let per_second = writes as f64 / seconds;
    Ok(Writes { bytes, per_second, latency_us: Percentiles::of(&histogram) })
}
