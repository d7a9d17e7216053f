//! `holdfast bench checkout`.

use std::path::PathBuf;

use holdfast_bench::options::{RUNS_DEFAULT, parse_count};
use holdfast_bench::shop::cluster::{SharedCheckoutOptions, bench_shared_checkout};
use holdfast_bench::shop::{self, CheckoutBenchOptions, bench_checkout};

use super::{Place, ProfileName, Servers, bad, print_report, told};

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
pub(super) struct Checkout {
    /// What is measured: a server with its own log, or a node before Kafka and PostgreSQL
    #[arg(long, value_enum, default_value = "embedded")]
    profile: ProfileName,
    #[command(flatten)]
    servers: Servers,
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

pub(super) fn run(flags: Checkout, program: PathBuf) -> anyhow::Result<()> {
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

fn shared_checkout_options(flags: Checkout, program: PathBuf) -> anyhow::Result<SharedCheckoutOptions> {
    let (log, store) = flags.servers.both()?;
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
        partitions: flags.servers.partitions,
        checkouts: flags.http_checkouts.unwrap_or(shop::cluster::options::CHECKOUTS_DEFAULT),
        runs: flags.runs,
        connections: flags.connections.unwrap_or(shop::cluster::options::CONNECTIONS_DEFAULT),
        half_seconds: flags.servers.half_seconds,
        outcomes: flags.outcomes,
        keep: flags.place.keep,
        progress: true,
    })
}
