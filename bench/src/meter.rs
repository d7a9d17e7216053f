//! What a process has used and what the server has counted, read before and after the clock runs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use holdfast_client::Client;

use crate::BenchError;
use crate::machine::kilobytes;

/// What a process has used so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// User and system time, in microseconds.
    pub(crate) cpu_us: u64,
    /// Bytes of page cache made dirty, as the kernel accounts them: in whole folios, which may be far larger than
    /// what is written.
    pub(crate) dirtied_bytes: u64,
    /// The memory it has.
    pub(crate) rss_bytes: u64,
    /// The most memory it had at once.
    pub(crate) rss_peak_bytes: u64,
}

impl Usage {
    /// Of process `pid`; what cannot be read counts as nothing.
    pub(crate) fn of(pid: u32) -> Usage {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let value = |text: &str, name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name))
                .map(|rest| rest.trim_start_matches(':').trim().to_owned())
        };
        let status = read("status");
        Usage {
            cpu_us: cpu_us(&read("stat")).unwrap_or(0),
            dirtied_bytes: value(&read("io"), "write_bytes").and_then(|text| text.parse().ok()).unwrap_or(0),
            rss_bytes: value(&status, "VmRSS").and_then(|text| kilobytes(&text)).unwrap_or(0),
            rss_peak_bytes: value(&status, "VmHWM").and_then(|text| kilobytes(&text)).unwrap_or(0),
        }
    }

    /// Time that the calling thread has run, in microseconds.
    pub(crate) fn of_this_thread() -> u64 {
        let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let nanos: Option<u64> = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
        nanos.unwrap_or(0) / 1_000
    }
}

/// User and system time are the 14th and 15th field; the second one is a name that may hold anything but `)`.
fn cpu_us(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) * (1_000_000 / rustix::param::clock_ticks_per_second()))
}

/// Bytes written to the device under `directory` so far, by whomever; `None` where the kernel does not tell.
pub(crate) fn device_written_bytes(directory: &Path) -> Option<u64> {
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

/// The value of a metric without labels, if the server tells it.
pub(crate) fn metric(text: &str, name: &str) -> Option<f64> {
    let values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    values.filter_map(|value| value.trim().parse().ok()).next()
}

/// The server's counters, by name and labels as `/metrics` prints them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters(BTreeMap<String, f64>);

/// The counters whose difference tells the microseconds of each stage.
const STAGE: &str = "holdfast_stage_nanoseconds_total{stage=\"";

impl Counters {
    pub(crate) async fn read(client: &Client) -> Result<Counters, BenchError> {
        let text = client.get("/metrics").await.map_err(BenchError::client("reading /metrics"))?;
        Ok(Counters::parse(&text))
    }

    pub(crate) fn parse(text: &str) -> Counters {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.rsplit_once(' '));
        Counters(pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
    }

    /// By how much a counter has grown.
    pub(crate) fn value_since(&self, before: &Counters, name: &str) -> f64 {
        let at = |counters: &Counters| counters.0.get(name).copied().unwrap_or(0.0);
        (at(self) - at(before)).max(0.0)
    }

    /// The same for what is counted in whole steps.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, and not below zero")]
    pub(crate) fn since(&self, before: &Counters, name: &str) -> u64 {
        self.value_since(before, name) as u64
    }

    pub(crate) fn frames_since(&self, before: &Counters) -> u64 {
        self.since(before, "holdfast_frames_total")
    }

    pub(crate) fn records_since(&self, before: &Counters) -> u64 {
        self.since(before, "holdfast_records_total")
    }

    /// Nanoseconds of each stage.
    pub(crate) fn stages_since(&self, before: &Counters) -> BTreeMap<String, u64> {
        let names =
            self.0.keys().filter_map(|name| Some((name, name.strip_prefix(STAGE)?.strip_suffix("\"}")?)));
        names.map(|(name, stage)| (stage.to_owned(), self.since(before, name))).collect()
    }
}

/// What `/hub/stats` says about transfers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Books {
    pub(crate) committed: u64,
    pub(crate) aborted: u64,
    pub(crate) expired: u64,
    pub(crate) open_holds: u64,
    pub(crate) dead_letters: u64,
}

impl Books {
    pub(crate) async fn read(client: &Client) -> Result<Books, BenchError> {
        let text = client.get("/hub/stats").await.map_err(BenchError::client("reading /hub/stats"))?;
        let stats: serde_json::Value =
            serde_json::from_str(&text).map_err(|_| BenchError::View("/hub/stats"))?;
        let number = |value: &serde_json::Value| value.as_u64().ok_or(BenchError::View("/hub/stats"));
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
        assert_eq!(after.frames_since(&before), 10);
        assert_eq!(after.records_since(&before), 0);
        assert_eq!(after.stages_since(&before), BTreeMap::from([("append".to_owned(), 300)]));
    }

    #[test]
    fn a_metric_is_told_by_its_whole_name() {
        let text = "# TYPE ab gauge\nabc 1\nab{c=\"d\"} 2\nab 3.5\n";
        assert_eq!(metric(text, "ab"), Some(3.5));
        assert_eq!(metric(text, "a"), None);
    }

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0";
        assert_eq!(cpu_us(stat), Some(200 * (1_000_000 / rustix::param::clock_ticks_per_second())));
    }

    #[test]
    fn this_process_uses_something() {
        let usage = Usage::of(std::process::id());
        assert!(usage.rss_bytes > 0 && usage.rss_peak_bytes > 0);
    }
}
