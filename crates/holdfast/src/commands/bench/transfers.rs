//! `holdfast bench transfers`.

use std::path::PathBuf;

use holdfast_bench::cluster::{self, ClusterOptions, bench_cluster};
use holdfast_bench::depth::options::DEPTH_PAYMENTS_MIN;
use holdfast_bench::options::{ACCOUNTS_DEFAULT, BATCH_PAYMENTS_DEFAULT, RUNS_DEFAULT, parse_count};
use holdfast_bench::{BenchOptions, DepthOptions, Shape, bench_depth, bench_transfers};

use super::{ProfileName, Run, Servers, bad, print_report, told};

/// Two-phase payments against a server of its own: rates, latencies, costs, and the raw disk beside them.
///
/// A payment is a prepare and its fulfil with the real preimage, both answered after fdatasync. One that is not
/// settled fails the run. Every run has a new server with an empty log.
///
/// Depth is another question: one server and one data directory for all payments, window by window, with restarts
/// after kill -9, many open holds, and holds that expire at once. It has one run, and musts that hold or are missed.
///
/// The cluster is measured on a Kafka and a PostgreSQL that you name, with topics and databases of the run's own, which are
/// removed again: payments in batches through all hops, one hot payer, half load, the bare rows as the floor, the position
/// handler alone, and with --depth the costs of a payment among 0.5 and among so many million.
#[derive(Debug, clap::Args)]
pub(super) struct Transfers {
    /// What is measured: a server with its own log, or a node before Kafka and PostgreSQL
    #[arg(long, value_enum, default_value = "embedded")]
    profile: ProfileName,
    #[command(flatten)]
    cluster: ClusterFlags,
    /// Which cases [default: all; depth from 2m payments on]
    #[arg(long, value_enum)]
    shape: Option<ShapeName>,
    /// Payments of each case, such as 500000, 500k or 10m [default: 1m in batches, fewer singly]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    payments: Option<u64>,
    /// Depth: holds that are open while the server is killed, and that expire at once [default: a tenth of the payments, at most 1m]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    open_holds: Option<u64>,
    /// Depth: let as many holds expire at once under load
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    expire: bool,
    /// Runs of each case; the median is the figure
    #[arg(long, default_value_t = RUNS_DEFAULT)]
    runs: u32,
    /// Single payments under way at once [default: 1,000, 64 and 1]
    #[arg(long)]
    in_flight: Option<usize>,
    /// Records per batch [default: 1,024 and 8,192]
    #[arg(long)]
    batch: Option<usize>,
    /// Connections [default: what suits the case]
    #[arg(long)]
    connections: Option<usize>,
    /// Accounts that payments are spread over
    #[arg(long, default_value_t = ACCOUNTS_DEFAULT)]
    accounts: u32,
    #[command(flatten)]
    run: Run,
}

/// What only the cluster needs.
#[derive(Debug, clap::Args)]
struct ClusterFlags {
    #[command(flatten)]
    servers: Servers,
    /// Cluster: also measure what a payment costs among 500k and among so many transfers, such as 5m
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    depth: Option<u64>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ShapeName {
    /// Whole batches, several requests in flight
    Batch,
    /// Single payments: 1,000, 64 and 1 in flight
    Single,
    /// One hot payer beside many accounts
    Hot,
    /// The bin processor alone, on one core
    Bins,
    /// All of these
    All,
    /// A long history on one data directory: windows, restarts, open holds, mass expiry
    Depth,
}

/// The shape of the cases; `None`: depth.
fn shape(flags: &Transfers) -> Option<Shape> {
    let many = flags.payments.is_some_and(|payments| payments >= DEPTH_PAYMENTS_MIN);
    match flags.shape {
        None if many => None,
        None | Some(ShapeName::All) => Some(Shape::All),
        Some(ShapeName::Batch) => Some(Shape::Batch),
        Some(ShapeName::Single) => Some(Shape::Single),
        Some(ShapeName::Hot) => Some(Shape::Hot),
        Some(ShapeName::Bins) => Some(Shape::Bins),
        Some(ShapeName::Depth) => None,
    }
}

pub(super) fn run(flags: Transfers, program: PathBuf) -> anyhow::Result<()> {
    let output = flags.run.place.output;
    if flags.profile == ProfileName::Cluster {
        let report = bench_cluster(&cluster_options(flags, program)?);
        return print_report(&report.map_err(told)?, output);
    }
    if flags.cluster.depth.is_some() {
        return Err(bad("--depth needs --profile cluster; the embedded profile has --shape depth"));
    }
    let Some(shape) = shape(&flags) else { return depth(flags, program) };
    if flags.open_holds.is_some() {
        return Err(bad("--open-holds needs --shape depth"));
    }
    let report = bench_transfers(&BenchOptions {
        program,
        shape,
        payments: flags.payments,
        runs: flags.runs,
        in_flight: flags.in_flight,
        batch: flags.batch,
        connections: flags.connections,
        accounts: flags.accounts,
        data: flags.run.place.data,
        keep: flags.run.place.keep,
        seed: flags.run.seed,
        progress: true,
    });
    print_report(&report.map_err(told)?, output)
}

fn cluster_options(flags: Transfers, program: PathBuf) -> anyhow::Result<ClusterOptions> {
    let ClusterFlags { servers, depth } = flags.cluster;
    let (log, store) = servers.both()?;
    let Servers { partitions, half_seconds, .. } = servers;
    if flags.shape.is_some() || flags.open_holds.is_some() || flags.in_flight.is_some() {
        return Err(bad(
            "--shape, --open-holds and --in-flight are of the embedded profile; the cluster has all its parts \
                        in one run",
        ));
    }
    if flags.run.place.data.is_some() {
        return Err(bad(
            "--data is of the embedded profile: a node keeps its data on the servers that you name",
        ));
    }
    Ok(ClusterOptions {
        program,
        log,
        store,
        payments: flags.payments.unwrap_or(cluster::options::PAYMENTS_DEFAULT),
        runs: flags.runs,
        batch: flags.batch.unwrap_or(cluster::options::RECORDS_DEFAULT),
        connections: flags.connections.unwrap_or(cluster::options::CONNECTIONS_DEFAULT),
        accounts: flags.accounts,
        partitions,
        half_seconds,
        depth,
        keep: flags.run.place.keep,
        seed: flags.run.seed,
        progress: true,
    })
}

fn depth(flags: Transfers, program: PathBuf) -> anyhow::Result<()> {
    let output = flags.run.place.output;
    let report = bench_depth(&DepthOptions {
        program,
        payments: flags.payments.unwrap_or(BATCH_PAYMENTS_DEFAULT),
        open_holds: flags.open_holds,
        expire: flags.expire,
        batch: flags.batch,
        connections: flags.connections,
        accounts: flags.accounts,
        data: flags.run.place.data,
        keep: flags.run.place.keep,
        seed: flags.run.seed,
        progress: true,
    });
    let report = report.map_err(told)?;
    print_report(&report, output)?;
    match report.failed {
        Some(reason) => Err(anyhow::anyhow!("the run ended early: {reason}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        transfers: Transfers,
    }

    fn asked(flags: &[&str]) -> anyhow::Result<ClusterOptions> {
        let Line { transfers: flags } = Line::try_parse_from(["transfers"].iter().chain(flags))?;
        assert_eq!(flags.profile, ProfileName::Cluster);
        cluster_options(flags, PathBuf::from("holdfast"))
    }

    #[test]
    fn the_cluster_needs_its_servers_and_nothing_of_the_other_profile() {
        let servers = ["--profile", "cluster", "--log", "kafka://h:1", "--store", "postgres://u@h/d"];
        let with = |more: &[&'static str]| asked(&[&servers[..], more].concat());
        let options = with(&["--payments", "50k", "--depth", "5m", "--batch", "500"]).unwrap();
        assert_eq!((options.payments, options.depth, options.batch), (50_000, Some(5_000_000), 500));
        assert_eq!((options.log.as_str(), options.store.as_str()), ("kafka://h:1", "postgres://u@h/d"));
        assert!(with(&["--shape", "hot"]).is_err());
        assert!(with(&["--data", "x"]).is_err());
        assert!(asked(&["--profile", "cluster", "--log", "kafka://h:1", "--store", "h/d"]).is_err());
    }
}
