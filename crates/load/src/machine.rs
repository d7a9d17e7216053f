//! What the figures were measured on.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use serde::Serialize;

use crate::LoadError;
use crate::figures::per;

/// The machine, as far as it matters for the figures.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The file system of the data directory.
    pub file_system: String,
    /// The device that it lies on.
    pub device: String,
}

impl Machine {
    /// This machine, with the disk that this directory lies on.
    pub fn of(data: &Path) -> Machine {
        let (file_system, device) = mount_of(data).unwrap_or_default();
        Machine {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: field("/proc/meminfo", "MemTotal").and_then(|text| kilobytes(&text)).unwrap_or(0),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            file_system,
            device,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { cpu, cores, memory_bytes, kernel, file_system, device } = self;
        let gibibytes = per(*memory_bytes, 1024 * 1024) / 1024.0;
        write!(f, "{cores} x {cpu}, {gibibytes:.1} GiB, Linux {kernel}, {file_system} on {device}")
    }
}

/// The load averages over 1, 5 and 15 minutes, as the kernel prints them.
pub fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// The value of a `name : value` line.
pub fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The bytes of a value such as `1024 kB`.
pub fn kilobytes(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Type and source of the mount that a directory lies in.
fn mount_of(data: &Path) -> Option<(String, String)> {
    let data = fs::canonicalize(data).ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut best: Option<(PathBuf, String, String)> = None;
    for line in mounts.lines() {
        let mut words = line.split(' ');
        let (device, point, kind) = (words.next()?, PathBuf::from(words.next()?), words.next()?);
        let longer =
            best.as_ref().is_none_or(|(found, ..)| point.components().count() >= found.components().count());
        if data.starts_with(&point) && longer {
            best = Some((point, kind.to_owned(), device.to_owned()));
        }
    }
    best.map(|(_, kind, device)| (kind, device))
}

/// Refuses a directory in memory: a sync costs nothing there.
pub fn must_be_a_disk(data: &Path) -> Result<(), LoadError> {
    match mount_of(data) {
        Some((kind, _)) if kind == "tmpfs" || kind == "ramfs" => Err(LoadError::NotADisk(data.to_owned())),
        _ => Ok(()),
    }
}
