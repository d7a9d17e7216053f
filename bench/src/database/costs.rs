//! What payments, or checkouts, cost: CPU and memory by process, bytes of PostgreSQL's and of Kafka's log. Servers on another
//! machine, or of another user whose processes cannot be looked into, show as nothing.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use anyhow::Context;
use holdfast_load::figures::per;
use holdfast_load::machine::{field, kilobytes};
use holdfast_load::meter::{Counters, Stat, Usage};
use holdfast_load::report::Row;
use postgres::Client;

/// Who is looked at.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    node: u32,
    /// The first process of PostgreSQL, the parent of all others.
    postmaster: Option<u32>,
    kafka: Option<u32>,
    /// How the names of the run's topics begin.
    prefix: String,
}

/// A reading of all that only grows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading {
    node_us: u64,
    postgres_us: u64,
    kafka_us: u64,
    client_us: u64,
    wal_bytes: u64,
    kafka_bytes: u64,
    counters: Counters,
}

/// Costs of each payment or checkout, and memory at the end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Costs {
    /// Microseconds of CPU.
    node_us: f64,
    postgres_us: f64,
    kafka_us: f64,
    client_us: f64,
    /// PostgreSQL's log, whole pages after a checkpoint included.
    pub(crate) wal_bytes: f64,
    /// What Kafka's log files have grown by.
    kafka_bytes: f64,
    node_rss_peak_bytes: u64,
    /// Shared pages counted once.
    postgres_bytes: u64,
    kafka_rss_bytes: u64,
    /// A line for each handler.
    pub(crate) hops: Vec<Row>,
}

impl Costs {
    /// All processes together.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.node_us + self.postgres_us + self.kafka_us + self.client_us
    }

    /// Microseconds of CPU, bytes of log, and memory.
    pub(crate) fn row(&self) -> Row {
        Row::default()
            .number("all CPU", self.cpu_us(), 0)
            .number("node", self.node_us, 0)
            .number("PostgreSQL", self.postgres_us, 0)
            .number("Kafka", self.kafka_us, 0)
            .number("client", self.client_us, 0)
            .number("WAL B", self.wal_bytes, 0)
            .number("Kafka B", self.kafka_bytes, 0)
            .mebibytes("node MiB", self.node_rss_peak_bytes)
            .mebibytes("PG MiB", self.postgres_bytes)
            .mebibytes("Kafka MiB", self.kafka_rss_bytes)
    }

    /// The same where nodes and callers are one process, and there is no Kafka.
    pub(crate) fn row_of_one_process(&self) -> Row {
        Row::default()
            .number("nodes", self.node_us, 0)
            .number("PostgreSQL", self.postgres_us, 0)
            .number("WAL B", self.wal_bytes, 0)
            .mebibytes("nodes MiB", self.node_rss_peak_bytes)
            .mebibytes("PG MiB", self.postgres_bytes)
    }
}

impl Watched {
    /// `log` is the address of Kafka as the user wrote it.
    pub(crate) fn find(node: u32, client: &mut Client, log: &str, prefix: &str) -> anyhow::Result<Watched> {
        let row = client.query_one("SELECT pg_backend_pid()", &[]);
        let backend: i32 = row.context("cannot ask for the server's process")?.get(0);
        // A server elsewhere has a number, too; only if that process is a PostgreSQL here it is the one.
        let backend = u32::try_from(backend).ok().filter(|pid| is_postgres(*pid));
        let port = log.rsplit(':').next().and_then(|port| port.parse().ok());
        Ok(Watched {
            node,
            postmaster: backend.and_then(Stat::of).map(|stat| stat.parent),
            kafka: port.and_then(listener),
            prefix: prefix.to_owned(),
        })
    }

    /// Whether all processes can be looked at.
    pub(crate) const fn sees_all(&self) -> bool {
        self.sees_postgres() && self.kafka.is_some()
    }

    pub(crate) const fn sees_postgres(&self) -> bool {
        self.postmaster.is_some()
    }

    pub(crate) fn read(&self, client: &mut Client, counters: Counters) -> anyhow::Result<Reading> {
        let row = client.query_one("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint", &[]);
        let wal: i64 = row.context("cannot read how far the server's log is")?.get(0);
        Ok(Reading {
            node_us: Usage::of(self.node).cpu_us,
            postgres_us: self.postmaster.map_or(0, family_us),
            kafka_us: self.kafka.map_or(0, |pid| Usage::of(pid).cpu_us),
            client_us: Usage::of(std::process::id()).cpu_us,
            wal_bytes: wal.unsigned_abs(),
            kafka_bytes: self.kafka.map_or(0, |pid| log_bytes(pid, &self.prefix)),
            counters,
        })
    }

    /// What each of `rounds` has cost between two readings; of the handlers those of these topics.
    pub(crate) fn costs(&self, before: &Reading, after: &Reading, rounds: u64, topics: &[&str]) -> Costs {
        let each = |of: fn(&Reading) -> u64| per(of(after).saturating_sub(of(before)), rounds);
        let members = self.postmaster.map(family).unwrap_or_default();
        Costs {
            node_us: each(|reading| reading.node_us),
            postgres_us: each(|reading| reading.postgres_us),
            kafka_us: each(|reading| reading.kafka_us),
            client_us: each(|reading| reading.client_us),
            wal_bytes: each(|reading| reading.wal_bytes),
            kafka_bytes: each(|reading| reading.kafka_bytes),
            node_rss_peak_bytes: Usage::of(self.node).rss_peak_bytes,
            postgres_bytes: members.iter().map(|pid| own_bytes(*pid)).sum(),
            kafka_rss_bytes: self.kafka.map_or(0, |pid| Usage::of(pid).rss_bytes),
            hops: topics.iter().map(|topic| hop(topic, &before.counters, &after.counters)).collect(),
        }
    }
}

/// The name of the handlers' histograms, of which sums and counts are read.
const BATCH_MESSAGES: &str = "holdfast_cluster_batch_messages";
const BATCH_SECONDS: &str = "holdfast_cluster_batch_seconds";

/// A handler or relay while the clock ran.
fn hop(topic: &str, before: &Counters, after: &Counters) -> Row {
    let name = |of: &str, part: &str| format!("{of}_{part}{{topic=\"{topic}\"}}");
    let batches = after.since(before, &name(BATCH_SECONDS, "count"));
    let seconds = after.value_since(before, &name(BATCH_SECONDS, "sum"));
    let messages = after.since(before, &name(BATCH_MESSAGES, "sum"));
    Row::of("handler", topic)
        .count("messages", messages)
        .number("in a batch", per(messages, batches), 0)
        .number("ms each batch", seconds * 1e3 / per(batches.max(1), 1), 1)
}

fn is_postgres(pid: u32) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    matches!(name.trim(), "postgres" | "postmaster")
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A process and its children.
fn family(parent: u32) -> Vec<u32> {
    let children = processes().filter(|pid| Stat::of(*pid).is_some_and(|stat| stat.parent == parent));
    std::iter::once(parent).chain(children).collect()
}

/// The CPU of a process and its children, those included that have ended.
fn family_us(parent: u32) -> u64 {
    let ended = Stat::of(parent).map_or(0, |stat| stat.ended_children_us);
    ended + family(parent).into_iter().filter_map(Stat::of).map(|stat| stat.cpu_us).sum::<u64>()
}

/// The memory of a process, with its part of what it shares.
fn own_bytes(pid: u32) -> u64 {
    let shared = field(&format!("/proc/{pid}/smaps_rollup"), "Pss:");
    shared.and_then(|value| kilobytes(&value)).unwrap_or(0)
}

/// The process that listens on a port of this machine.
fn listener(port: u16) -> Option<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|file| fs::read_to_string(file).unwrap_or_default());
    let inode = tables.iter().find_map(|table| listening_inode(table, port))?;
    let wanted = PathBuf::from(format!("socket:[{inode}]"));
    processes().find(|pid| open_files(*pid).any(|file| file == wanted))
}

/// In the kernel's table of sockets: the one that listens (state 0A) on that port.
fn listening_inode(table: &str, port: u16) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local) = fields.get(1)?.rsplit_once(':')?;
        let found = u16::from_str_radix(local, 16).ok()?;
        (found == port && *fields.get(3)? == "0A").then(|| fields.get(9)?.parse().ok())?
    })
}

fn open_files(pid: u32) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| fs::read_link(entry.path()).ok())
}

/// The bytes of the topics' log files. Kafka keeps every one of them open.
fn log_bytes(kafka: u32, prefix: &str) -> u64 {
    let ours = |file: &PathBuf| {
        let folder = file.parent().and_then(|folder| folder.file_name()).and_then(|name| name.to_str());
        folder.is_some_and(|name| name.starts_with(prefix))
            && file.extension().is_some_and(|extension| extension == "log")
    };
    open_files(kafka).filter(ours).filter_map(|file| fs::metadata(file).ok()).map(|found| found.size()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_who_listens_is_told_from_those_who_are_connected() {
        let table = "  sl  local_address rem_address   st\n\
             0: 0100007F:2384 0100007F:9999 01 00000000:00000000 00:00000000 00000000 0 0 11 1\n\
             1: 0100007F:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 22 1\n";
        assert_eq!(listening_inode(table, 0x2384), Some(22));
        assert_eq!(listening_inode(table, 0x2385), None);
    }

    #[test]
    fn this_process_listens_where_it_does() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(listener(socket.local_addr().unwrap().port()), Some(std::process::id()));
    }

    #[test]
    fn a_hop_is_read_from_sums_and_counts() {
        let before = Counters::parse("holdfast_cluster_batch_seconds_count{topic=\"position\"} 2\n");
        let after = Counters::parse(
            "holdfast_cluster_batch_seconds_sum{topic=\"position\"} 0.5\n\
             holdfast_cluster_batch_seconds_count{topic=\"position\"} 12\n\
             holdfast_cluster_batch_messages_sum{topic=\"position\"} 4000\n",
        );
        let hop = serde_json::to_value(hop("position", &before, &after)).unwrap();
        let told = ["messages", "in a batch", "ms each batch"].map(|column| hop[column].as_f64());
        assert_eq!(told, [Some(4_000.0), Some(400.0), Some(50.0)]);
    }
}
