//! Figures of the selector as data and for people.

use std::fmt;

use comfy_table::CellAlignment;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::LibraryOptions;
use crate::table::{new_table, thousands};

/// Percentiles in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Nanos {
    pub p50: u64,
    pub p99: u64,
    #[serde(rename = "p99.9")]
    pub p99_9: u64,
    pub max: u64,
}

impl Nanos {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Nanos {
        Nanos {
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            p99_9: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }
}

/// One engine under one shape.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseFigures {
    /// `ones`: many tokens of value 1 in one wallet, 100 asked for; `exact`: one amount of a large wallet; `wallets`: many
    /// wallets, exact or any amounts; `contention`: eight threads on 1,000 tokens of value 1, 100 asked for.
    pub shape: &'static str,
    /// Ours, or the peer whose algorithm it is.
    pub engine: &'static str,
    /// How many threads selected and released.
    pub threads: usize,
    /// Selections made, each released again.
    pub selections: u64,
    /// Selections refused.
    pub refused: u64,
    /// How long that took.
    pub seconds: f64,
    /// Select and release together.
    pub selections_per_second: f64,
    /// Time of a core for one select and release: on a busy machine a fairer clock than the wall's.
    pub core_ns_per_selection: f64,
    /// Inputs of a selection.
    pub inputs: f64,
    /// Share of the selections that came to exactly the amount, so without change.
    pub exact_share: f64,
    /// The select alone; with several threads of one in sixteen.
    pub select_ns: Nanos,
}

/// A vault loaded from nothing.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadFigures {
    /// Tokens, with ids of 36 bytes.
    pub tokens: u64,
    /// Over so many wallets.
    pub wallets: usize,
    /// How long it took, making the tokens included.
    pub seconds: f64,
    /// Memory of the process, before and after.
    pub bytes_per_token: f64,
    /// By the selector's own estimate, which its bound goes by.
    pub counted_bytes_per_token: f64,
}

/// A figure that has to be reached.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Must {
    pub what: &'static str,
    pub must: String,
    pub found: String,
    pub holds: bool,
}

/// Everything that was found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct LibraryReport {
    pub tokens: u64,
    pub wallets: usize,
    pub seed: u64,
    pub load: LoadFigures,
    pub cases: Vec<CaseFigures>,
    pub musts: Vec<Must>,
}

impl LibraryReport {
    pub(crate) fn new(options: &LibraryOptions) -> Self {
        LibraryReport {
            tokens: options.tokens,
            wallets: options.wallets,
            seed: options.seed,
            load: LoadFigures::default(),
            cases: Vec::new(),
            musts: Vec::new(),
        }
    }

    fn ours(&self, shape: &str, threads: usize) -> Option<&CaseFigures> {
        self.cases
            .iter()
            .find(|case| case.engine == "holdfast" && case.shape == shape && case.threads == threads)
    }

    /// Holds the figures against what has to be reached.
    pub(crate) fn judge(&mut self) {
        let p50 = |shape| self.ours(shape, 1).map_or(u64::MAX, |case| case.select_ns.p50);
        let micros = |nanos: u64| format!("{}.{:02} µs", nanos / 1_000, nanos % 1_000 / 10);
        let (hit, hundred) = (p50("exact"), p50("ones"));
        let rate = self.ours("wallets, exact", 2).map_or(0.0, |case| case.selections_per_second);
        let load = self.load;
        self.musts = vec![
            Must {
                what: "exact single hit, p50",
                must: "under 2 µs".to_owned(),
                found: micros(hit),
                holds: hit < 2_000,
            },
            Must {
                what: "100 inputs, p50",
                must: "under 20 µs".to_owned(),
                found: micros(hundred),
                holds: hundred < 20_000,
            },
            Must {
                what: "select and release over many wallets, two threads",
                must: "1,000,000/s".to_owned(),
                found: format!("{}/s", thousands(rate)),
                holds: rate >= 1e6,
            },
            Must {
                what: "load",
                must: "under 2 s".to_owned(),
                found: format!("{:.2} s for {}", load.seconds, count(load.tokens)),
                holds: load.seconds < 2.0,
            },
            Must {
                what: "memory of a token with an id of 36 bytes",
                must: "under 200 B".to_owned(),
                found: format!("{:.0} B", load.bytes_per_token),
                holds: load.bytes_per_token < 200.0,
            },
        ];
    }
}

#[allow(clippy::cast_precision_loss, reason = "for the eye")]
fn count(number: u64) -> String {
    thousands(number as f64)
}

impl fmt::Display for LibraryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "the selector as a library, {} tokens; the peers' algorithms beside it, written in small and without their\n\
             databases; select and release, microseconds of the select:",
            count(self.tokens)
        )?;
        let head =
            ["shape", "engine", "threads", "/s", "core ns", "inputs", "exact %", "p50", "p99", "p99.9"];
        let mut table = new_table(&[&head[..], &["max", "refused"]].concat());
        if let Some(column) = table.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Left);
        }
        for case in &self.cases {
            let mut row = vec![
                case.shape.to_owned(),
                case.engine.to_owned(),
                case.threads.to_string(),
                thousands(case.selections_per_second),
                thousands(case.core_ns_per_selection),
                format!("{:.2}", case.inputs),
                format!("{:.0}", 100.0 * case.exact_share),
            ];
            let latency = &case.select_ns;
            let micros = |nanos: u64| format!("{}.{:02}", nanos / 1_000, nanos % 1_000 / 10);
            row.extend([latency.p50, latency.p99, latency.p99_9, latency.max].map(micros));
            row.push(count(case.refused));
            table.add_row(row);
        }
        writeln!(f, "{table}")?;
        let load = &self.load;
        writeln!(
            f,
            "load of {} tokens into {} wallets: {:.2} s, {:.0} bytes each with an id of 36 bytes ({:.0} counted)",
            count(load.tokens),
            load.wallets,
            load.seconds,
            load.bytes_per_token,
            load.counted_bytes_per_token
        )?;
        let mut table = new_table(&["must", "bound", "found", ""]);
        table.column_iter_mut().for_each(|column| {
            column.set_cell_alignment(CellAlignment::Left);
        });
        for must in &self.musts {
            let word = if must.holds { "holds" } else { "MISSED" };
            table.add_row([must.what, &must.must, &must.found, word]);
        }
        writeln!(f, "{table}")
    }
}
