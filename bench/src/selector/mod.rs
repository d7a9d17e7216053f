//! The selector of tokens as a library, without a log and without HTTP, and its peers' algorithms beside it in the same run.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `engine` | what is measured: our selector behind a small trait |
//! | `peers` | the peers' algorithms, written in small |
//! | `drive` | threads that select and release until the time is over |
//! | `shapes` | the wallets and what is asked of them |

mod drive;
mod engine;
mod peers;
mod shapes;

use std::path::Path;
use std::time::Duration;

use holdfast_load::LoadError;
use holdfast_load::options::{check_range, parse_count};
use holdfast_load::report::{Report, grouped_count};

/// Threads of the realistic wallets, one case each.
const THREADS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Fewest tokens of a realistic wallet: 32 threads may meet in one, and nobody is to be refused.
const WALLET_TOKENS_MIN: u64 = 100;

/// The selector of tokens in memory, without a hub, and its peers' algorithms on the same tokens.
///
/// Takes about as many seconds as there are cases, and a few for filling the vaults.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct SelectorBench {
    /// Tokens of the large wallets, such as 1m
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "1m")]
    tokens: u64,
    /// Wallets over which the tokens of the realistic shape are spread; fewer if each would have less than 100 of them
    #[arg(long, default_value_t = 10_000)]
    wallets: usize,
    /// How long each case is measured, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    case_ms: u64,
    /// From where amounts come
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl SelectorBench {
    const fn time(&self) -> Duration {
        Duration::from_millis(self.case_ms)
    }
}

/// Measures all shapes.
///
/// # Errors
/// If the options leave nothing to measure, or the selector refuses what it must not.
pub fn bench_selector(options: &SelectorBench) -> Result<Report, LoadError> {
    check_range("--tokens", options.tokens, 1_000, 10_000_000)?;
    check_range("--wallets", options.wallets as u64, 1, 1_000_000)?;
    check_range("--case-ms", options.case_ms, 1, 600_000)?;
    let wallets_max = usize::try_from(options.tokens / WALLET_TOKENS_MIN).unwrap_or(usize::MAX);
    let options = &SelectorBench { wallets: options.wallets.min(wallets_max), ..*options };
    let title = format!("the selector as a library, {} tokens", grouped_count(options.tokens));
    let mut report = Report::measured(title, Path::new("."));
    // First, while the process has no memory to give back that would hide what is used.
    let load = shapes::load(options)?;
    let mut cases = Vec::new();
    shapes::ones(options, &mut cases)?;
    shapes::exact(options, &mut cases)?;
    shapes::wallets(options, &mut cases)?;
    shapes::contention(options, &mut cases)?;
    report.table(
        "the peers' algorithms beside it, written in small and without their databases; select and release, microseconds of \
         the select:",
        cases.iter().map(drive::Figures::row),
    );
    report.table("the load of a vault from nothing, ids of 36 bytes:", [load]);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{SelectorBench, THREADS, bench_selector};

    #[test]
    fn every_shape_gives_figures() {
        let options = SelectorBench { tokens: 2_000, wallets: 1_000, case_ms: 5, seed: 1 };
        let report = bench_selector(&options).expect("enough tokens");
        let json = serde_json::to_value(&report).expect("plain data");
        let cases = json["tables"][0]["rows"].as_array().expect("rows");
        let (ours, peers): (Vec<&Value>, Vec<_>) =
            cases.iter().partition(|case| case["engine"] == "holdfast");
        assert_eq!(ours.len(), 3 + 2 * THREADS.len());
        assert_eq!(peers.len(), 2 * (3 + THREADS.len()));
        for case in cases {
            assert!(case["selections"].as_u64() > Some(0) && case["inputs"].as_f64() > Some(0.9), "{case}");
        }
        assert!(ours.iter().all(|case| case["refused"] == 0), "{json}");
        let of = |shape: &str| ours.iter().find(|case| case["shape"] == shape).expect("measured");
        assert_eq!(
            (&of("ones")["inputs"], &of("exact")["exact %"]),
            (&Value::from(100.0), &Value::from(100.0))
        );
        let load = &json["tables"][1]["rows"][0];
        assert_eq!(
            (&load["tokens"], &load["wallets"]),
            (&2_000.into(), &20.into()),
            "100 tokens each at least"
        );
        let text = report.to_string();
        assert!(text.contains("holdfast") && text.contains("sherdlock") && text.contains("corda"), "{text}");
        assert!(ours[0]["p50"].is_f64(), "{json}");
    }

    #[test]
    fn nothing_to_measure_is_an_error() {
        assert!(bench_selector(&SelectorBench { tokens: 0, wallets: 1, case_ms: 1, seed: 1 }).is_err());
    }
}
