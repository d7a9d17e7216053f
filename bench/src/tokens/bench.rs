//! `holdfast bench tokens`: the selector as a library, the vault with its log, and the vault over HTTP.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::journal::{JournalOptions, JournalReport, run_journalled};
use super::library::{LibraryOptions, LibraryReport, run_library};
use super::load::{Ending, TokenLoadOptions, TokenLoadReport, load_tokens};
use crate::BenchError;
use crate::bench::{Directory, progress_bar};
use crate::child::Server;
use crate::disk::{self, Disk};
use crate::machine::{Machine, load_average, must_be_a_disk};
use crate::meter::{Usage, device_written_bytes};
use crate::options::{LINES_MAX, check_range};
use crate::report::per;
use crate::table::{millis, new_table, thousands, write_machine};

/// Selections of the journalled run, where none are given.
pub const SELECTIONS_DEFAULT: u64 = 300_000;
/// Selections over HTTP, where none are given.
pub const HTTP_SELECTIONS_DEFAULT: u64 = 100_000;
/// Tokens of the library's cases, where none are given.
pub const TOKENS_DEFAULT: u64 = 1_000_000;

/// Which parts are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Parts {
    pub library: bool,
    pub journal: bool,
    pub http: bool,
}

/// What `bench tokens` is asked for.
#[derive(Debug, Clone)]
pub struct TokensOptions {
    /// The program that is started with `serve`.
    pub program: PathBuf,
    /// What is measured.
    pub parts: Parts,
    /// Tokens of the library's cases.
    pub tokens: u64,
    /// Journalled selections.
    pub selections: u64,
    /// Selections over HTTP.
    pub http_selections: u64,
    /// Connections over HTTP, each with one request under way.
    pub connections: usize,
    /// Where the data lies; `None`: a temporary directory.
    pub data: Option<PathBuf>,
    /// Leave the data there.
    pub keep: bool,
    /// From where names and amounts come.
    pub seed: u64,
    /// Tell on standard error what is going on.
    pub progress: bool,
}

/// A run over HTTP, and what it cost the server.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct HttpRun {
    pub load: TokenLoadReport,
    pub server_cpu_us_per_round: f64,
    pub written_bytes_per_round: Option<f64>,
    pub server_rss_peak_bytes: u64,
}

/// Everything that `bench tokens` found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct TokensReport {
    pub version: &'static str,
    pub machine: Machine,
    pub load_average: String,
    pub disk: Disk,
    pub library: Option<LibraryReport>,
    pub journal: Vec<JournalReport>,
    pub http: Vec<HttpRun>,
}

/// Measures what the options ask for.
///
/// # Errors
/// If the server does not start, or a selection is refused that must not be.
pub fn bench_tokens(options: &TokensOptions) -> Result<TokensReport, BenchError> {
    check_range("--tokens", options.tokens, 1_000, 10_000_000)?;
    check_range("--selections", options.selections, 1, 100_000_000)?;
    check_range("--connections", options.connections as u64, 1, LINES_MAX as u64)?;
    let directory = Directory::open(options.data.as_deref())?;
    must_be_a_disk(directory.path())?;
    let bar = progress_bar(options.progress, 6);
    let mut report = TokensReport {
        version: env!("CARGO_PKG_VERSION"),
        machine: Machine::of(directory.path()),
        load_average: load_average(),
        disk: disk::probe(directory.path())?,
        library: None,
        journal: Vec::new(),
        http: Vec::new(),
    };
    if options.parts.library {
        let library =
            LibraryOptions { tokens: options.tokens, seed: options.seed, ..LibraryOptions::default() };
        report.library = Some(run_library(&library)?);
    }
    bar.inc(1);
    if options.parts.journal {
        for (in_flight, release) in [(1_000, false), (1_000, true), (64, true)] {
            let journal = JournalOptions {
                wallets: 10_000,
                tokens: 100,
                in_flight,
                // What is not given back stays locked: half as many leave every wallet enough.
                selections: options.selections * in_flight as u64 / if release { 1_000 } else { 2_000 },
                release,
            };
            let data = directory.path().join(format!("journal-{in_flight}-{release}"));
            report.journal.push(run_journalled(&journal, &data)?);
            bar.inc(1);
        }
    }
    if options.parts.http {
        for ending in [Ending::Release, Ending::Spend] {
            report.http.push(over_http(options, ending, directory.path())?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    directory.close(options.keep)?;
    Ok(report)
}

fn over_http(
    options: &TokensOptions,
    ending: Ending,
    directory: &std::path::Path,
) -> Result<HttpRun, BenchError> {
    let place = directory.join(match ending {
        Ending::Release => "http-release",
        Ending::Spend => "http-spend",
    });
    std::fs::create_dir_all(&place).map_err(BenchError::io("create", &place))?;
    let server = Server::start(&options.program, &place)?;
    let before = (Usage::of(server.pid()), device_written_bytes(&place));
    let load = load_tokens(&TokenLoadOptions {
        in_flight: options.connections,
        rounds: Some(options.http_selections),
        ending,
        wait_ms: 10_000,
        ..TokenLoadOptions::to(&server.address, options.seed)
    })?;
    let after = (Usage::of(server.pid()), device_written_bytes(&place));
    server.stop()?;
    let written = after.1.zip(before.1).map(|(after, before)| after.saturating_sub(before));
    Ok(HttpRun {
        server_cpu_us_per_round: per(after.0.cpu_us.saturating_sub(before.0.cpu_us), load.rounds),
        written_bytes_per_round: written.map(|written| per(written, load.rounds)),
        server_rss_peak_bytes: after.0.rss_peak_bytes,
        load,
    })
}

impl fmt::Display for TokensReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_machine(f, self.version, &self.machine)?;
        writeln!(f, "load average {} before", self.load_average)?;
        if let Some(library) = &self.library {
            writeln!(f, "\n{library}")?;
        }
        if !self.journal.is_empty() {
            writeln!(
                f,
                "\nselections through the vault of a hub in this process, each answered after fdatasync; \
                 milliseconds of a select:"
            )?;
            let head = [
                "each",
                "in flight",
                "wallets",
                "tokens",
                "selections/s",
                "inputs",
                "p50",
                "p90",
                "p99",
                "p99.9",
                "max",
            ];
            let mut table = new_table(&[&head[..], &["CPU µs", "B written", "MiB", "restart ms"]].concat());
            for run in &self.journal {
                let mut row = vec![
                    if run.release { "select, release" } else { "select" }.to_owned(),
                    run.in_flight.to_string(),
                    run.wallets.to_string(),
                    run.tokens.to_string(),
                    thousands(run.selections_per_second),
                    format!("{:.2}", run.inputs_per_selection),
                ];
                row.extend(millis(&run.select_us));
                row.push(format!("{:.2}", run.cpu_us_per_selection));
                row.push(
                    run.written_bytes_per_selection.map_or_else(String::new, |bytes| format!("{bytes:.0}")),
                );
                row.push((run.rss_bytes >> 20).to_string());
                row.push(run.restart_ms.to_string());
                table.add_row(row);
            }
            writeln!(f, "{table}")?;
        }
        for run in &self.http {
            write!(f, "\nover HTTP, {} connections: {}", run.load.in_flight, run.load)?;
            writeln!(
                f,
                "the server: {:.1} µs of CPU and {} bytes written per round, {} MiB at most",
                run.server_cpu_us_per_round,
                run.written_bytes_per_round.map_or_else(|| "?".to_owned(), |bytes| format!("{bytes:.0}")),
                run.server_rss_peak_bytes >> 20,
            )?;
        }
        Ok(())
    }
}
