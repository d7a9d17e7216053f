//! What a process has used and what the server has counted, read before and after the clock runs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use holdfast_client::Client;

use crate::LoadError;
use crate::figures::per;
use crate::machine::{field, kilobytes};
use crate::report::Row;

/// What a process has used so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// User and system time, in microseconds.
    pub cpu_us: u64,
    /// Bytes of page cache made dirty, as the kernel accounts them: in whole folios, which may be far larger than
    /// what is written.
    pub dirtied_bytes: u64,
    /// The memory it has.
    pub rss_bytes: u64,
    /// The most memory it had at once.
    pub rss_peak_bytes: u64,
}

impl Usage {
    /// Of process `pid`; what cannot be read counts as nothing.
    pub fn of(pid: u32) -> Usage {
        let read = |file: &str, name: &str| field(&format!("/proc/{pid}/{file}"), name);
        let memory = |name| read("status", name).and_then(|text| kilobytes(&text)).unwrap_or(0);
        Usage {
            cpu_us: Stat::of(pid).map_or(0, |stat| stat.cpu_us),
            dirtied_bytes: read("io", "write_bytes").and_then(|text| text.parse().ok()).unwrap_or(0),
            rss_bytes: memory("VmRSS"),
            rss_peak_bytes: memory("VmHWM"),
        }
    }

    /// Time that the calling thread has run, in microseconds.
    pub fn of_this_thread() -> u64 {
        let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let nanos: Option<u64> = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
        nanos.unwrap_or(0) / 1_000
    }
}

/// What the kernel tells of a process in one line.
#[derive(Debug, PartialEq, Eq)]
pub struct Stat {
    /// Whose child it is.
    pub parent: u32,
    /// Its own user and system time, in microseconds.
    pub cpu_us: u64,
    /// That of its children that have ended.
    pub ended_children_us: u64,
}

impl Stat {
    /// Of process `pid`, if it is there.
    pub fn of(pid: u32) -> Option<Stat> {
        Stat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The second field is a name that may hold anything but `)`.
    fn parse(text: &str) -> Option<Stat> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |at: usize| -> Option<u64> { fields.get(at)?.parse().ok() };
        let tick_us = 1_000_000 / rustix::param::clock_ticks_per_second();
        Some(Stat {
            parent: u32::try_from(number(1)?).ok()?,
            cpu_us: (number(11)? + number(12)?) * tick_us,
            ended_children_us: (number(13)? + number(14)?) * tick_us,
        })
    }
}

/// Bytes written to the device under `directory` so far, by whomever; `None` where the kernel does not tell.
pub fn device_written_bytes(directory: &Path) -> Option<u64> {
    let device = fs::metadata(directory).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let stat = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    let sectors: u64 = stat.split_whitespace().nth(SECTORS_WRITTEN)?.parse().ok()?;
    sectors.checked_mul(SECTOR_BYTES)
}

/// The place of the sectors written in a block device's `stat`.
const SECTORS_WRITTEN: usize = 6;
/// The unit of that file, whatever the device's own is.
const SECTOR_BYTES: u64 = 512;

/// The server's counters, by name and labels as `/metrics` prints them.
#[derive(Debug, Clone, Default)]
pub struct Counters(BTreeMap<String, f64>);

/// The counters whose difference tells the microseconds of each stage.
const STAGE: &str = "holdfast_stage_nanoseconds_total{stage=\"";

impl Counters {
    /// Asks the server.
    pub async fn read(client: &Client) -> Result<Counters, LoadError> {
        let text = client.get("/metrics").await.map_err(LoadError::of("reading /metrics"))?;
        Ok(Counters::parse(&text))
    }

    /// Of what a server said.
    pub fn parse(text: &str) -> Counters {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.rsplit_once(' '));
        Counters(pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
    }

    /// The value of a metric by its whole name, if the server tells it.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// By how much a counter has grown.
    pub fn value_since(&self, before: &Counters, name: &str) -> f64 {
        let at = |counters: &Counters| counters.0.get(name).copied().unwrap_or(0.0);
        (at(self) - at(before)).max(0.0)
    }

    /// The same for what is counted in whole steps.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, and not below zero")]
    pub fn since(&self, before: &Counters, name: &str) -> u64 {
        self.value_since(before, name) as u64
    }

    /// Nanoseconds of each stage.
    fn stages_since(&self, before: &Counters) -> BTreeMap<String, u64> {
        let names =
            self.0.keys().filter_map(|name| Some((name, name.strip_prefix(STAGE)?.strip_suffix("\"}")?)));
        names.map(|(name, stage)| (stage.to_owned(), self.since(before, name))).collect()
    }
}

/// Everything that only grows, read beside the clock: of a server, of this process and of the device under the data.
#[derive(Debug, Clone)]
pub struct Reading {
    server: Usage,
    client: Usage,
    device: Option<u64>,
    counters: Counters,
}

/// What one round of a run cost, a payment or a checkout, and memory at the end.
#[derive(Debug, Clone, Default)]
pub struct Costs {
    /// Microseconds of CPU of the server.
    pub server_cpu_us: f64,
    /// Of this process: the clients, and what else runs in it.
    pub client_cpu_us: f64,
    /// Bytes written to the device while the clock ran, zero-filling of new segments included. Whatever else wrote
    /// to it counts too.
    pub written_bytes: Option<f64>,
    /// `write_bytes` of the server's process. The kernel counts whole folios of the page cache, so small synced
    /// writes look far larger than they are.
    pub dirtied_bytes: f64,
    /// The most memory that the server had at once.
    pub rss_peak_bytes: u64,
    /// Frames in all.
    pub frames: u64,
    /// Records of one frame.
    pub records_per_frame: f64,
    /// Server time in each stage. Stages overlap: append runs beside decide.
    pub stage_us: BTreeMap<String, f64>,
}

impl Reading {
    /// Of a server whose data lies in `place`.
    ///
    /// # Errors
    /// If the server does not tell its metrics.
    pub async fn take(client: &Client, pid: u32, place: &Path) -> Result<Reading, LoadError> {
        let counters = Counters::read(client).await?;
        Ok(Reading {
            server: Usage::of(pid),
            client: Usage::of(std::process::id()),
            device: device_written_bytes(place),
            counters,
        })
    }

    /// By how much a counter has grown since an earlier reading.
    pub fn counted_since(&self, before: &Reading, name: &str) -> u64 {
        self.counters.since(&before.counters, name)
    }

    /// What each of `rounds` cost since an earlier reading.
    pub fn costs_since(&self, before: &Reading, rounds: u64) -> Costs {
        let each = |after: u64, before: u64| per(after.saturating_sub(before), rounds);
        let frames = self.counted_since(before, "holdfast_frames_total");
        let stages = self.counters.stages_since(&before.counters).into_iter();
        Costs {
            server_cpu_us: each(self.server.cpu_us, before.server.cpu_us),
            client_cpu_us: each(self.client.cpu_us, before.client.cpu_us),
            written_bytes: self.device.zip(before.device).map(|(after, before)| each(after, before)),
            dirtied_bytes: each(self.server.dirtied_bytes, before.server.dirtied_bytes),
            rss_peak_bytes: self.server.rss_peak_bytes,
            frames,
            records_per_frame: per(self.counted_since(before, "holdfast_records_total"), frames),
            stage_us: stages.map(|(stage, nanos)| (stage, per(nanos, rounds) / 1e3)).collect(),
        }
    }
}

impl Costs {
    /// The costs as cells of a row.
    pub fn row(&self) -> Row {
        let row =
            Row::default().number("server", self.server_cpu_us, 2).number("client", self.client_cpu_us, 2);
        let row = self.stage_us.iter().fold(row, |row, (stage, micros)| row.number(stage, *micros, 2));
        row.maybe("B written", self.written_bytes, 0)
            .count("frames", self.frames)
            .number("records/frame", self.records_per_frame, 0)
            .mebibytes("RSS MiB", self.rss_peak_bytes)
    }
}

/// What `/hub/stats` says about transfers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Books {
    /// Transfers that were committed.
    pub committed: u64,
    /// That were aborted.
    pub aborted: u64,
    /// That ran out.
    pub expired: u64,
    /// That are neither yet.
    pub open_holds: u64,
    /// Messages that could not be taken.
    pub dead_letters: u64,
}

impl Books {
    /// Refuses books that say something else than was acknowledged.
    ///
    /// # Errors
    /// Both.
    pub fn must_be(self, expected: Books, when: &str) -> Result<(), LoadError> {
        match self == expected {
            true => Ok(()),
            false => Err(LoadError::Books(format!("{when} {self:?} where {expected:?} was acknowledged"))),
        }
    }

    /// Asks the server.
    pub async fn read(client: &Client) -> Result<Books, LoadError> {
        let text = client.get("/hub/stats").await.map_err(LoadError::of("reading /hub/stats"))?;
        let stats: serde_json::Value = serde_json::from_str(&text)
            .map_err(|_| LoadError::Refused("cannot read /hub/stats".to_owned()))?;
        let number = |value: &serde_json::Value| {
            value.as_u64().ok_or(LoadError::Refused("cannot read /hub/stats".to_owned()))
        };
        let reached = &stats["reachedState"];
        Ok(Books {
            committed: number(&reached["COMMITTED"])?,
            aborted: number(&reached["ABORTED_ERROR"])?,
            expired: number(&reached["EXPIRED_RESERVED"])?,
            open_holds: number(&stats["openHolds"])?,
            dead_letters: number(&stats["deadLetters"])?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_and_subtracted() {
        let before = Counters::parse("# HELP x\nholdfast_frames_total 2\n");
        let after = Counters::parse(
            "holdfast_frames_total 12\nholdfast_stage_nanoseconds_total{stage=\"append\"} 300\nx 1.5\n",
        );
        assert_eq!(after.since(&before, "holdfast_frames_total"), 10);
        assert_eq!(after.since(&before, "holdfast_records_total"), 0);
        assert_eq!(after.stages_since(&before), BTreeMap::from([("append".to_owned(), 300)]));
    }

    #[test]
    fn a_metric_is_told_by_its_whole_name() {
        let text = "# TYPE ab gauge\nabc 1\nab{c=\"d\"} 2\nab 3.5\n";
        let counters = Counters::parse(text);
        assert_eq!((counters.get("ab"), counters.get("a")), (Some(3.5), None));
    }

    #[test]
    fn a_process_is_read_behind_any_name() {
        let tick_us = 1_000_000 / rustix::param::clock_ticks_per_second();
        for (text, parent, children) in [
            ("7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0", 1, 0),
            ("7 (a) b) S 3 1 1 0 -1 0 0 0 0 0 150 50 20 5 20 0", 3, 25),
        ] {
            let read = Stat { parent, cpu_us: 200 * tick_us, ended_children_us: children * tick_us };
            assert_eq!(Stat::parse(text), Some(read));
        }
        assert_eq!(Stat::parse("7 (a) S"), None);
    }

    #[test]
    fn this_process_uses_something() {
        let usage = Usage::of(std::process::id());
        assert!(usage.rss_bytes > 0 && usage.rss_peak_bytes > 0);
    }
}
