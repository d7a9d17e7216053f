//! `holdfast bench WHAT`: measure on this machine, with a server that the command starts and stops itself.

use std::path::PathBuf;

use anyhow::Context;
use holdfast_bench::cluster::{self, ClusterOptions, bench_cluster};
use holdfast_bench::depth::options::DEPTH_PAYMENTS_MIN;
use holdfast_bench::expiry::{self, ExpiryOptions, bench_expiry};
use holdfast_bench::fspiop::{
    CONNECTIONS_DEFAULT, FspiopOptions, IN_FLIGHT_DEFAULT, PARTICIPANTS_DEFAULT, Way, bench_fspiop,
};
use holdfast_bench::options::{ACCOUNTS_DEFAULT, BATCH_PAYMENTS_DEFAULT, RUNS_DEFAULT, parse_count};
use holdfast_bench::shop::cluster::{SharedCheckoutOptions, bench_shared_checkout};
use holdfast_bench::shop::{self, CheckoutBenchOptions, bench_checkout};
use holdfast_bench::tokens::shared::{self, SharedOptions, bench_shared_tokens};
use holdfast_bench::tokens::{self as token_bench, Parts, TokensOptions, bench_tokens};
use holdfast_bench::{BenchError, BenchOptions, DepthOptions, Shape, bench_depth, bench_transfers};

use super::generate::store_address;
use super::{BadInput, Output};

/// Measure this program on this machine.
#[derive(Debug, clap::Args)]
pub(super) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Transfers(Transfers),
    Fspiop(Fspiop),
    Tokens(Tokens),
    Checkout(Checkout),
    Expiry(Expiry),
}

/// Where a run's data lies, and who reads its figures.
#[derive(Debug, clap::Args)]
struct Place {
    /// Where the data lies; must be on a disk [default: a temporary directory in ./target or the system's]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Leave the data there
    #[arg(long)]
    keep: bool,
    /// Who reads the figures
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// What every run is told that draws names and amounts.
#[derive(Debug, clap::Args)]
struct Run {
    #[command(flatten)]
    place: Place,
    /// From where names and amounts come
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

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
struct Transfers {
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
    /// Cluster: Kafka, such as kafka://host:9092
    #[arg(long, value_name = "URL", env = "HOLDFAST_LOG")]
    log: Option<String>,
    /// Cluster: PostgreSQL, such as postgres://user@host/database; its user must be able to create databases
    #[arg(long, value_name = "URL", env = "HOLDFAST_STORE", value_parser = store_address)]
    store: Option<String>,
    /// Cluster: partitions of each topic
    #[arg(long, default_value_t = cluster::options::PARTITIONS_DEFAULT)]
    partitions: u32,
    /// Cluster: how long half load goes on
    #[arg(long, value_name = "SECONDS", default_value_t = cluster::options::HALF_SECONDS_DEFAULT)]
    half_seconds: u64,
    /// Cluster: also measure what a payment costs among 500k and among so many transfers, such as 5m
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    depth: Option<u64>,
}

/// Payments over the JSON path (FSPIOP 1.1) against a server of its own, with Prefer: wait and with callbacks.
///
/// A payment is POST /transfers and PUT /transfers/{id} with the real fulfilment. With callbacks the payee is called
/// before it fulfils and the payment ends when the payer is called. One that is not committed fails the run.
#[derive(Debug, clap::Args)]
struct Fspiop {
    /// How payments are answered
    #[arg(long, value_enum, default_value = "all")]
    answers: AnswersName,
    /// Payments of each run [default: 100,000 with Prefer: wait, 30,000 with callbacks]
    #[arg(long)]
    payments: Option<u64>,
    /// Runs of each; the median is the figure
    #[arg(long, default_value_t = RUNS_DEFAULT)]
    runs: u32,
    /// Connections to the hub
    #[arg(long, default_value_t = CONNECTIONS_DEFAULT)]
    connections: usize,
    /// Payments under way at once with callbacks; with Prefer: wait each connection has one
    #[arg(long, default_value_t = IN_FLIGHT_DEFAULT)]
    in_flight: usize,
    /// Participants that payments are spread over
    #[arg(long, default_value_t = PARTICIPANTS_DEFAULT)]
    participants: u32,
    #[command(flatten)]
    run: Run,
}

/// Selecting tokens: the library alone, the vault with its log, and the vault over HTTP.
///
/// Beside the library stand the algorithms of its peers on the same tokens, beside the log the raw disk.
///
/// The cluster is measured on a PostgreSQL that you name, in databases of the run's own, which are removed again: three nodes
/// select and spend the same tokens, one input, many inputs, one hot token, half load, a plain shortage, and what others at the
/// table feel; beside it the algorithm of sherdlock on the same table.
#[derive(Debug, clap::Args)]
struct Tokens {
    /// What is measured: the library and a server with its own log, or nodes that share one PostgreSQL
    #[arg(long, value_enum, default_value = "embedded")]
    profile: ProfileName,
    #[command(flatten)]
    shared: SharedFlags,
    /// Which parts of the embedded profile
    #[arg(long, value_enum, default_value = "all")]
    part: PartName,
    /// Tokens of the library's cases, such as 1m
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = token_bench::TOKENS_DEFAULT)]
    tokens: u64,
    /// Journalled selections
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = token_bench::SELECTIONS_DEFAULT)]
    selections: u64,
    /// Selections over HTTP
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = token_bench::HTTP_SELECTIONS_DEFAULT)]
    http_selections: u64,
    /// Connections to the hub, each with one request under way
    #[arg(long, default_value_t = CONNECTIONS_DEFAULT)]
    connections: usize,
    #[command(flatten)]
    run: Run,
}

/// What only nodes need that share their tokens.
#[derive(Debug, clap::Args)]
struct SharedFlags {
    /// Cluster: PostgreSQL, such as postgres://user@host/database; its user must be able to create databases
    #[arg(long, value_name = "URL", env = "HOLDFAST_STORE", value_parser = store_address)]
    store: Option<String>,
    /// Cluster: how long each case is driven
    #[arg(long, default_value_t = shared::options::SECONDS_DEFAULT)]
    seconds: u64,
    /// Cluster: runs of all cases; the median is the figure
    #[arg(long, default_value_t = shared::options::RUNS)]
    runs: u32,
    /// Cluster: rounds under way at once
    #[arg(long, default_value_t = shared::options::CALLERS_DEFAULT)]
    callers: usize,
}

/// Checkouts against a server of its own: through the client, over HTTP, at half load, failing, with one hot item; and the
/// rebuild of outcomes.
///
/// Every run has a new server with a shop of its own, and the raw disk is measured before it. A checkout that comes to no
/// end, or books that do not balance, fail the run. The figures are held against what must be reached and what is aimed at.
///
/// The cluster is measured on a Kafka and a PostgreSQL that you name, with topics and databases of the run's own, which are
/// removed again: checkouts over HTTP through all hops, half load, one transaction per checkout beside them, and a node that
/// finds a million outcomes when it starts.
#[derive(Debug, clap::Args)]
struct Checkout {
    /// What is measured: a server with its own log, or a node before Kafka and PostgreSQL
    #[arg(long, value_enum, default_value = "embedded")]
    profile: ProfileName,
    /// Cluster: Kafka, such as kafka://host:9092
    #[arg(long, value_name = "URL", env = "HOLDFAST_LOG")]
    log: Option<String>,
    /// Cluster: PostgreSQL, such as postgres://user@host/database; its user must be able to create databases
    #[arg(long, value_name = "URL", env = "HOLDFAST_STORE", value_parser = store_address)]
    store: Option<String>,
    /// Cluster: partitions of each topic
    #[arg(long, default_value_t = cluster::options::PARTITIONS_DEFAULT)]
    partitions: u32,
    /// Cluster: how long half load goes on
    #[arg(long, value_name = "SECONDS", default_value_t = cluster::options::HALF_SECONDS_DEFAULT)]
    half_seconds: u64,
    /// What is measured
    #[arg(long, value_enum, default_value = "all")]
    part: CheckoutPart,
    /// Embedded: checkouts of each case through the client, such as 500k [default: 500,000]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    checkouts: Option<u64>,
    /// Checkouts of each case over HTTP [default: 100,000; 50,000 in a cluster]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    http_checkouts: Option<u64>,
    /// Outcomes that are rebuilt from
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = shop::options::OUTCOMES_DEFAULT)]
    outcomes: u64,
    /// Runs of each case; the median is the figure
    #[arg(long, default_value_t = RUNS_DEFAULT)]
    runs: u32,
    /// Connections over HTTP, each with one request under way [default: 128; 500 in a cluster]
    #[arg(long)]
    connections: Option<usize>,
    #[command(flatten)]
    place: Place,
}

/// Expiry in the cluster's PostgreSQL, beside the obvious query and the ten steps of the document that it replaces.
///
/// All three on the same data, in a database that the run makes on the server and removes again. Nothing due at several
/// sizes; some due among many; as many expirations as go, with the position step and without Kafka; nothing due after many
/// payments that ended as they should, without VACUUM; and what the expiry table adds to the server's log.
#[derive(Debug, clap::Args)]
struct Expiry {
    /// The server, such as postgres://user@host/database; its user must be able to create databases
    #[arg(long, value_name = "URL", env = "HOLDFAST_STORE", value_parser = store_address)]
    store: String,
    /// Transfers among which some are due, such as 1m
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = expiry::options::TRANSFERS_DEFAULT)]
    transfers: u64,
    /// Further sizes at which nothing is due, such as 500k,2m,5m
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_count, default_value = "500k")]
    sizes: Vec<u64>,
    /// How many are due
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = expiry::options::DUE_DEFAULT)]
    due: u64,
    /// How many are ended as fast as it goes
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = expiry::options::SUSTAINED_DEFAULT)]
    sustained: u64,
    /// Payments that end as they should before nothing is due
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = expiry::options::FINISHED_DEFAULT)]
    finished: u64,
    /// Looks where nothing is due
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = expiry::options::SCANS_DEFAULT)]
    scans: u64,
    /// Draw cost against size into this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Leave the database there
    #[arg(long)]
    keep: bool,
    /// Who reads the figures
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum CheckoutPart {
    /// Through the client: in batches, one hot item, some failing, half load, single calls
    Batched,
    /// One request each: as fast as it goes, and at half of that
    Http,
    /// The order consumer's start, without a server
    Rebuild,
    /// All of these
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PartName {
    /// The selector in memory, without a hub
    Library,
    /// The vault of a hub in this process, each selection on the disk
    Journal,
    /// A server of its own
    Http,
    /// All of these
    All,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum AnswersName {
    /// At once: Prefer: wait
    Wait,
    /// By callbacks to a sink
    Callbacks,
    /// Both
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ProfileName {
    /// One process with its own log
    Embedded,
    /// A node before Kafka and PostgreSQL
    Cluster,
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

impl Bench {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let program = std::env::current_exe().context("cannot tell which program this is")?;
        match self.what {
            What::Transfers(flags) => transfers(flags, program),
            What::Fspiop(flags) => fspiop(flags, program),
            What::Tokens(flags) => tokens(flags, program),
            What::Checkout(flags) => checkout(flags, program),
            What::Expiry(flags) => expiry(flags),
        }
    }
}

fn transfers(flags: Transfers, program: PathBuf) -> anyhow::Result<()> {
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

fn bad(what: &'static str) -> anyhow::Error {
    BadInput::from(anyhow::anyhow!(what)).into()
}

fn both_servers(log: Option<String>, store: Option<String>) -> anyhow::Result<(String, String)> {
    log.zip(store).ok_or_else(|| {
        bad("--profile cluster needs --log kafka://HOST:PORT and --store postgres://USER@HOST/DATABASE; \
             `cargo xtask services up` starts both")
    })
}

fn cluster_options(flags: Transfers, program: PathBuf) -> anyhow::Result<ClusterOptions> {
    let ClusterFlags { log, store, partitions, half_seconds, depth } = flags.cluster;
    let (log, store) = both_servers(log, store)?;
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

fn fspiop(flags: Fspiop, program: PathBuf) -> anyhow::Result<()> {
    let output = flags.run.place.output;
    let report = bench_fspiop(&FspiopOptions {
        program,
        ways: match flags.answers {
            AnswersName::Wait => vec![Way::PreferWait],
            AnswersName::Callbacks => vec![Way::Callbacks],
            AnswersName::All => vec![Way::PreferWait, Way::Callbacks],
        },
        payments: flags.payments,
        runs: flags.runs,
        connections: flags.connections,
        in_flight: flags.in_flight,
        participants: flags.participants,
        data: flags.run.place.data,
        keep: flags.run.place.keep,
        seed: flags.run.seed,
        progress: true,
    });
    print_report(&report.map_err(told)?, output)
}

fn shared_options(flags: Tokens) -> anyhow::Result<SharedOptions> {
    let SharedFlags { store, seconds, runs, callers } = flags.shared;
    let Some(store) = store else {
        return Err(bad(
            "--profile cluster needs --store postgres://USER@HOST/DATABASE; `cargo xtask services up` starts one",
        ));
    };
    if flags.part != PartName::All || flags.run.place.data.is_some() {
        return Err(bad(
            "--part and --data are of the embedded profile; the cluster has all its parts in one run",
        ));
    }
    Ok(SharedOptions {
        seconds,
        runs,
        callers,
        keep: flags.run.place.keep,
        seed: flags.run.seed,
        progress: true,
        ..SharedOptions::on(&store)
    })
}

fn tokens(flags: Tokens, program: PathBuf) -> anyhow::Result<()> {
    if flags.profile == ProfileName::Cluster {
        let output = flags.run.place.output;
        let report = bench_shared_tokens(&shared_options(flags)?);
        return print_report(&report.map_err(told)?, output);
    }
    let wanted = |part| flags.part == PartName::All || flags.part == part;
    let parts = Parts {
        library: wanted(PartName::Library),
        journal: wanted(PartName::Journal),
        http: wanted(PartName::Http),
    };
    let output = flags.run.place.output;
    let report = bench_tokens(&TokensOptions {
        program,
        parts,
        tokens: flags.tokens,
        selections: flags.selections,
        http_selections: flags.http_selections,
        connections: flags.connections,
        data: flags.run.place.data,
        keep: flags.run.place.keep,
        seed: flags.run.seed,
        progress: true,
    });
    print_report(&report.map_err(told)?, output)
}

fn shared_checkout_options(flags: Checkout, program: PathBuf) -> anyhow::Result<SharedCheckoutOptions> {
    let (log, store) = both_servers(flags.log, flags.store)?;
    if flags.part != CheckoutPart::All || flags.place.data.is_some() || flags.checkouts.is_some() {
        return Err(bad(
            "--part, --data and --checkouts are of the embedded profile; the cluster has all its parts in one \
                        run, and --http-checkouts says how many checkouts",
        ));
    }
    Ok(SharedCheckoutOptions {
        program,
        log,
        store,
        partitions: flags.partitions,
        checkouts: flags.http_checkouts.unwrap_or(shop::cluster::options::CHECKOUTS_DEFAULT),
        runs: flags.runs,
        connections: flags.connections.unwrap_or(shop::cluster::options::CONNECTIONS_DEFAULT),
        half_seconds: flags.half_seconds,
        outcomes: flags.outcomes,
        keep: flags.place.keep,
        progress: true,
    })
}

fn checkout(flags: Checkout, program: PathBuf) -> anyhow::Result<()> {
    if flags.profile == ProfileName::Cluster {
        let output = flags.place.output;
        let report = bench_shared_checkout(&shared_checkout_options(flags, program)?);
        return print_report(&report.map_err(told)?, output);
    }
    let wanted = |part| flags.part == CheckoutPart::All || flags.part == part;
    let parts = shop::Parts {
        batched: wanted(CheckoutPart::Batched),
        http: wanted(CheckoutPart::Http),
        rebuild: wanted(CheckoutPart::Rebuild),
    };
    let output = flags.place.output;
    let report = bench_checkout(&CheckoutBenchOptions {
        program,
        parts,
        checkouts: flags.checkouts.unwrap_or(shop::options::BATCHED_DEFAULT),
        http_checkouts: flags.http_checkouts.unwrap_or(shop::options::HTTP_DEFAULT),
        outcomes: flags.outcomes,
        runs: flags.runs,
        connections: flags.connections.unwrap_or(shop::options::CONNECTIONS_DEFAULT),
        data: flags.place.data,
        keep: flags.place.keep,
        progress: true,
    });
    print_report(&report.map_err(told)?, output)
}

fn expiry(flags: Expiry) -> anyhow::Result<()> {
    let report = bench_expiry(&ExpiryOptions {
        store: flags.store,
        transfers: flags.transfers,
        sizes: flags.sizes,
        due: flags.due,
        sustained: flags.sustained,
        finished: flags.finished,
        scans: flags.scans,
        keep: flags.keep,
        progress: true,
    });
    let report = report.map_err(told)?;
    print_report(&report, flags.output)?;
    if let Some(file) = flags.plot {
        std::fs::write(&file, expiry::plot(&report))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

pub(super) fn print_report(
    report: &(impl std::fmt::Display + serde::Serialize),
    output: Output,
) -> anyhow::Result<()> {
    match output {
        Output::Text => print!("{report}"),
        Output::Json => println!("{}", serde_json::to_string_pretty(report)?),
    }
    Ok(())
}

/// Options out of bounds are the caller's fault.
pub(super) fn told(error: BenchError) -> anyhow::Error {
    match error {
        BenchError::Options(_) => BadInput::from(anyhow::Error::from(error)).into(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        bench: Bench,
    }

    fn asked(flags: &[&str]) -> anyhow::Result<ClusterOptions> {
        let line = Line::try_parse_from(["bench", "transfers"].iter().chain(flags))?;
        let What::Transfers(flags) = line.bench.what else { panic!("transfers were asked for") };
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

    #[test]
    fn shared_tokens_need_a_store_and_nothing_of_the_other_profile() {
        let asked = |more: &[&str]| -> anyhow::Result<SharedOptions> {
            let line = Line::try_parse_from(["bench", "tokens", "--profile", "cluster"].iter().chain(more))?;
            let What::Tokens(flags) = line.bench.what else { panic!("tokens were asked for") };
            shared_options(flags)
        };
        let options = asked(&["--store", "postgres://u@h/d", "--seconds", "3", "--callers", "64"]).unwrap();
        assert_eq!((options.store.as_str(), options.seconds, options.callers), ("postgres://u@h/d", 3, 64));
        assert!(asked(&["--store", "postgres://u@h/d", "--part", "http"]).is_err());
        assert!(asked(&["--store", "h/d"]).is_err());
    }
}
