//! The selector as a library, without a log and without HTTP, and its peers' algorithms beside it in the same run.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `engine` | what is measured: our selector behind a small trait |
//! | `peers` | the peers' algorithms, written in small |
//! | `drive` | threads that select and release until the time is over |
//! | `shapes` | the wallets and what is asked of them |
//! | `report` | figures as data and for people |

mod drive;
mod engine;
mod peers;
mod report;
mod shapes;

pub use report::{CaseFigures, LibraryReport, LoadFigures, Must, Nanos};

use std::time::Duration;

use crate::BenchError;

/// Threads of the realistic wallets, one case each.
pub const THREADS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Fewest tokens of a realistic wallet: 32 threads may meet in one, and nobody is to be refused.
pub const WALLET_TOKENS_MIN: u64 = 100;
/// How long each case is measured, where nothing is said.
pub const CASE_MS_DEFAULT: u64 = 1_000;

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct LibraryOptions {
    /// Tokens of the large wallets.
    pub tokens: u64,
    /// From where amounts come.
    pub seed: u64,
    /// Wallets over which the tokens of the realistic shape are spread; fewer if each would have less than
    /// [`WALLET_TOKENS_MIN`] of them.
    pub wallets: usize,
    /// How long each case is measured, in milliseconds.
    pub case_ms: u64,
    /// Whether the peers' algorithms are measured, too.
    pub peers: bool,
}

impl Default for LibraryOptions {
    fn default() -> Self {
        LibraryOptions { tokens: 1_000_000, seed: 1, wallets: 10_000, case_ms: CASE_MS_DEFAULT, peers: true }
    }
}

/// Measures all shapes. Takes about as many seconds as there are cases, and a few for filling the vaults.
///
/// # Errors
/// If the options leave nothing to measure, or the selector refuses what it must not.
pub fn run_library(options: &LibraryOptions) -> Result<LibraryReport, BenchError> {
    if options.tokens < 1_000 || options.wallets == 0 || options.case_ms == 0 {
        let what =
            "a bench of the selector wants at least 1,000 tokens, one wallet and one millisecond per case";
        return Err(BenchError::Options(what.to_owned()));
    }
    let wallets_max = usize::try_from(options.tokens / WALLET_TOKENS_MIN).unwrap_or(usize::MAX);
    let options = &LibraryOptions { wallets: options.wallets.min(wallets_max), ..*options };
    let time = Duration::from_millis(options.case_ms);
    let mut report = LibraryReport::new(options);
    // First, while the process has no memory to give back that would hide what is used.
    report.load = shapes::load(options)?;
    shapes::ones(options, time, &mut report.cases)?;
    shapes::exact(options, time, &mut report.cases)?;
    shapes::wallets(options, time, &mut report.cases)?;
    shapes::contention(options, time, &mut report.cases)?;
    report.judge();
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::{LibraryOptions, THREADS, run_library};

    #[test]
    fn every_shape_gives_figures() {
        let options = LibraryOptions { tokens: 2_000, wallets: 20, case_ms: 5, ..LibraryOptions::default() };
        let report = run_library(&options).expect("enough tokens");
        let (ours, peers): (Vec<_>, Vec<_>) = report.cases.iter().partition(|case| case.engine == "holdfast");
        assert_eq!(ours.len(), 3 + 2 * THREADS.len());
        assert_eq!(peers.len(), 2 * (3 + THREADS.len()));
        for case in &report.cases {
            assert!(case.selections > 0 && case.inputs > 0.9, "{case:?}");
        }
        assert!(ours.iter().all(|case| case.refused == 0), "{ours:?}");
        let of = |shape: &str| ours.iter().find(|case| case.shape == shape).expect("measured");
        assert!((of("ones").inputs - 100.0).abs() < 1e-9 && (of("exact").exact_share - 1.0).abs() < 1e-9);
        assert_eq!(report.wallets, 20, "100 tokens each at least");
        assert!(report.load.tokens == 2_000 && report.musts.len() == 5);
        let text = report.to_string();
        assert!(text.contains("holdfast") && text.contains("sherdlock") && text.contains("corda"), "{text}");
        let json = serde_json::to_value(&report).expect("plain data");
        assert!(json["cases"][0]["selectNs"]["p50"].is_u64(), "{json}");
    }

    #[test]
    fn nothing_to_measure_is_an_error() {
        let options = LibraryOptions { tokens: 0, ..LibraryOptions::default() };
        assert!(run_library(&options).is_err());
    }
}
