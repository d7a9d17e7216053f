//! `holdfast bench tokens`: the vault with its log, and the vault over HTTP.

use std::path::Path;

use super::journal::{Journal, run_journalled};
use super::load::{Ending, TokenLoad, drive};
use crate::LoadError;
use crate::bench::{Bench, DataPlace, Hub, Run, tell};
use crate::meter::Reading;
use crate::options::{HTTP_CONNECTIONS_DEFAULT, LINES_MAX, check_range, parse_count};
use crate::report::{Report, Row};

/// Wallets of the journalled runs, and tokens of each.
const WALLETS: (u32, u32) = (10_000, 100);

/// Selecting tokens: the vault of a hub with its log, and the vault over HTTP, beside the raw disk.
#[derive(Debug, Clone, clap::Args)]
pub struct TokenBench {
    /// Which parts
    #[arg(long, value_enum, default_value = "all")]
    pub part: Part,
    /// Journalled selections
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = 300_000)]
    pub selections: u64,
    /// Selections over HTTP
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = 100_000)]
    pub http_selections: u64,
    /// Connections to the hub, each with one request under way
    #[arg(long, default_value_t = HTTP_CONNECTIONS_DEFAULT)]
    pub connections: usize,
    /// From where names and amounts come
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the data lies.
    #[command(flatten)]
    pub place: DataPlace,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// The vault of a hub in this process, each selection on the disk
    Journal,
    /// A hub of its own
    Http,
    /// Both
    All,
}

/// Measures what the options ask for with this program.
///
/// # Errors
/// If the hub does not start, or a selection is refused that must not be.
pub fn bench_tokens(program: &Path, options: &TokenBench) -> Result<Report, LoadError> {
    check_range("--selections", options.selections, 1, 100_000_000)?;
    check_range("--connections", options.connections as u64, 1, LINES_MAX as u64)?;
    let bench = Bench::open(program, &options.place, 1, 2)?;
    let mut report = Report::measured("selections of tokens", bench.directory());
    if options.part != Part::Http {
        let mut rows = Vec::new();
        for (in_flight, release) in [(1_000, false), (1_000, true), (64, true)] {
            // What is not given back stays locked: half as many leave every wallet enough.
            let selections = options.selections * in_flight as u64 / if release { 1_000 } else { 2_000 };
            let (wallets, tokens) = WALLETS;
            let journal = Journal { wallets, tokens, in_flight, selections, release };
            let data = bench.directory().join(format!("journal-{in_flight}-{release}"));
            rows.push(run_journalled(&journal, &data)?);
        }
        report.table(
            "through the vault of a hub in this process, each answered after fdatasync; milliseconds of a select:",
            rows,
        );
    }
    if options.part != Part::Journal {
        let mut cases = Vec::new();
        for ending in [Ending::Release, Ending::Spend] {
            let name = format!("select and {}, {} connections", ending.name(), options.connections);
            cases.push(bench.case(name, async |hub| over_http(options, ending, hub).await)?);
        }
        tell(&mut report, "rounds", "over HTTP", &cases);
    }
    bench.close()?;
    Ok(report)
}

async fn over_http(options: &TokenBench, ending: Ending, hub: Hub<'_>) -> Result<Run, LoadError> {
    let client = hub.client(1).await?;
    let mut load = TokenLoad::to(&hub.server.address, options.seed);
    load.pacing.in_flight = options.connections;
    (load.rounds, load.then, load.wait_ms) = (Some(options.http_selections), ending, 10_000);
    let before = Reading::take(&client, hub.server.pid(), hub.place).await?;
    let driven = drive(&load).await?;
    let after = Reading::take(&client, hub.server.pid(), hub.place).await?;
    driven.worth_found?;
    let (tally, parts) = (&driven.tally, ["round", "select", ending.name()]);
    let latencies =
        [&tally.round_us, &tally.select_us, &tally.second_us].map(|latency| latency.percentiles());
    Ok(Run {
        took: driven.took,
        rounds: tally.rounds,
        latencies: parts.into_iter().zip(latencies).collect(),
        costs: after.costs_since(&before, tally.rounds).row(),
        more: Row::default().count("refused", tally.refused.total() + tally.errors.total()),
        ..Run::default()
    })
}
