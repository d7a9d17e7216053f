//! `holdfast bench tokens`.

use std::path::PathBuf;

use holdfast_bench::fspiop::CONNECTIONS_DEFAULT;
use holdfast_bench::options::parse_count;
use holdfast_bench::tokens::shared::{self, SharedOptions, bench_shared_tokens};
use holdfast_bench::tokens::{self as token_bench, Parts, TokensOptions, bench_tokens};

use super::super::generate::store_address;
use super::{ProfileName, Run, bad, print_report, told};

/// Selecting tokens: the library alone, the vault with its log, and the vault over HTTP.
///
/// Beside the library stand the algorithms of its peers on the same tokens, beside the log the raw disk.
///
/// The cluster is measured on a PostgreSQL that you name, in databases of the run's own, which are removed again: three nodes
/// select and spend the same tokens, one input, many inputs, one hot token, half load, a plain shortage, and what others at the
/// table feel; beside it the algorithm of sherdlock on the same table.
#[derive(Debug, clap::Args)]
pub(super) struct Tokens {
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
    /// Cluster: after how many seconds what was spent is removed; with a few, as much is removed as is spent
    #[arg(long, value_name = "SECONDS", default_value_t = shared::options::HISTORY_DEFAULT)]
    history: u64,
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

pub(super) fn run(flags: Tokens, program: PathBuf) -> anyhow::Result<()> {
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

fn shared_options(flags: Tokens) -> anyhow::Result<SharedOptions> {
    let SharedFlags { store, seconds, runs, callers, history } = flags.shared;
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
        history,
        keep: flags.run.place.keep,
        seed: flags.run.seed,
        progress: true,
        ..SharedOptions::on(&store)
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        tokens: Tokens,
    }

    #[test]
    fn shared_tokens_need_a_store_and_nothing_of_the_other_profile() {
        let asked = |more: &[&str]| -> anyhow::Result<SharedOptions> {
            let line = Line::try_parse_from(["tokens", "--profile", "cluster"].iter().chain(more))?;
            shared_options(line.tokens)
        };
        let options = asked(&["--store", "postgres://u@h/d", "--seconds", "3", "--callers", "64"]).unwrap();
        assert_eq!((options.store.as_str(), options.seconds, options.callers), ("postgres://u@h/d", 3, 64));
        assert!(asked(&["--store", "postgres://u@h/d", "--part", "http"]).is_err());
        assert!(asked(&["--store", "h/d"]).is_err());
    }
}
