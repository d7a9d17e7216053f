//! What must hold, held against what was found.

use super::report::{Checkpoints, DepthReport, Expiry, InTurns, Restart, Verdict, Window};
use crate::report::{median, per};

/// Bytes written per payment after the first window.
const WRITTEN_BYTES_MAX: f64 = 500.0;
/// The server's memory.
const MEMORY_BYTES_MAX: u64 = 512_000_000;
/// CPU per payment with all the history, against that with the first window of it, in turns.
const CPU_RATIO_MAX: f64 = 1.10;
/// The slowest request beside a checkpoint, against the median of the windows' p99; with holds open, against the p99 of
/// those beside no checkpoint in the same minutes, since placing a million holds makes larger rows and a fuller index than paying does.
const LATENCY_RATIO_MAX: f64 = 2.0;
/// From the start of the program to the first 200 of `/health`.
const READY_MS_MAX: u64 = 2_000;
/// The slowest request beside a mass expiry: longer is a stall.
const STALL_MS_MAX: u64 = 250;
/// Payments beside a mass expiry, against their pace.
const PACE_RATIO_MIN: f64 = 0.9;
/// Memory from a mass expiry on, against that with all holds open.
const EXPIRY_MEMORY_RATIO_MAX: f64 = 1.1;

/// Every must of a depth run.
pub(super) fn verdicts(report: &DepthReport) -> Vec<Verdict> {
    let windows = &report.windows;
    let mut verdicts = vec![
        written("written per payment, by the process", windows, |window| {
            Some(window.process_written_bytes_per_payment)
        }),
        written("written per payment, by the device", windows, |window| {
            window.device_written_bytes_per_payment
        }),
        memory("memory, all windows", windows.iter().map(|window| window.rss_peak_bytes).max()),
        cpu(report.in_turns.as_ref()),
        checkpoint("slowest request beside a checkpoint", median_p99(windows), report.checkpoints.as_ref()),
    ];
    if !report.restarts.is_empty() {
        let with_holds = report.checkpoints_with_holds.as_ref();
        let apart = with_holds.map_or(0, |checkpoints| checkpoints.request_us_apart.p99);
        let p99 = if apart > 0 { per(apart, 1_000) } else { median_p99(windows) };
        verdicts.push(checkpoint("the same while holds are placed", p99, with_holds));
    }
    verdicts.extend(report.restarts.iter().flat_map(restart));
    verdicts.extend(report.expiry.iter().flat_map(expiry));
    let later =
        report.restarts.iter().map(|restart| restart.rss_peak_bytes.max(restart.rss_peak_before_bytes));
    let later = later.chain(report.expiry.iter().map(|expiry| expiry.rss_peak_bytes)).max();
    verdicts.extend(later.map(|bytes| memory("memory, restarts, holds and expiry", Some(bytes))));
    verdicts
}

fn verdict(what: impl Into<String>, must: impl Into<String>, found: Option<(String, bool)>) -> Verdict {
    let (found, holds) = match found {
        Some((found, holds)) => (found, Some(holds)),
        None => ("not seen".to_owned(), None),
    };
    Verdict { what: what.into(), must: must.into(), found, holds }
}

/// The first window warms up. Weighted by payments, as the last window may be shorter.
fn written(what: &str, windows: &[Window], of: fn(&Window) -> Option<f64>) -> Verdict {
    let warm = windows.get(1..).unwrap_or_default();
    #[allow(clippy::cast_precision_loss, reason = "a printed mean")]
    let sum = warm.iter().map(|window| Some(of(window)? * window.payments as f64)).sum::<Option<f64>>();
    let payments: u64 = warm.iter().map(|window| window.payments).sum();
    #[allow(clippy::cast_precision_loss, reason = "a printed mean")]
    let mean = sum.filter(|_| payments > 0).map(|sum| sum / payments as f64);
    let found =
        mean.map(|mean| (format!("{mean:.0} B, windows 2 to {}", windows.len()), mean < WRITTEN_BYTES_MAX));
    verdict(what, format!("under {WRITTEN_BYTES_MAX:.0} B after the first window"), found)
}

fn memory(what: &str, bytes: Option<u64>) -> Verdict {
    let found = bytes.map(|bytes| (format!("{} MB", bytes.div_ceil(1_000_000)), bytes < MEMORY_BYTES_MAX));
    verdict(what, format!("under {} MB", MEMORY_BYTES_MAX / 1_000_000), found)
}

fn cpu(in_turns: Option<&InTurns>) -> Verdict {
    let found = in_turns.map(|turns| {
        let (deep, young) = (turns.deep_cpu_us_per_payment, turns.young_cpu_us_per_payment);
        let ratio = deep / young.max(f64::MIN_POSITIVE);
        let text = format!(
            "{:+.0} %: {deep:.2} µs after {} payments, {young:.2} µs after {}, in turns",
            (ratio - 1.0) * 100.0,
            turns.deep_history,
            turns.young_history,
        );
        (text, ratio <= CPU_RATIO_MAX)
    });
    let more = (CPU_RATIO_MAX - 1.0) * 100.0;
    verdict("server CPU per payment", format!("at most {more:.0} % more with the history"), found)
}

/// In milliseconds.
fn median_p99(windows: &[Window]) -> f64 {
    let p99: Vec<f64> = windows.iter().map(|window| per(window.request_us.p99, 1_000)).collect();
    median(&p99)
}

fn checkpoint(what: &str, p99: f64, checkpoints: Option<&Checkpoints>) -> Verdict {
    let seen = checkpoints.filter(|checkpoints| checkpoints.requests_beside > 0);
    let found = seen.map(|checkpoints| {
        let worst = per(checkpoints.request_us_beside.max, 1_000);
        let text = format!(
            "{worst:.1} ms, {:.1} times {p99:.1} ms; {} requests beside {} checkpoints",
            worst / p99.max(f64::MIN_POSITIVE),
            checkpoints.requests_beside,
            checkpoints.seen
        );
        (text, worst < LATENCY_RATIO_MAX * p99)
    });
    verdict(what, format!("under {LATENCY_RATIO_MAX:.0} times the p99"), found)
}

fn restart(restart: &Restart) -> Vec<Verdict> {
    let ready = Some((format!("{} ms", restart.ready_ms), restart.ready_ms <= READY_MS_MAX));
    let what = format!("ready after {}", restart.after);
    let mut verdicts = vec![verdict(what, format!("within {READY_MS_MAX} ms"), ready)];
    let ids: u64 = restart.samples.iter().map(|sample| sample.ids).sum();
    if ids > 0 {
        let wrong: u64 = restart.samples.iter().map(|sample| sample.wrong).sum();
        let found = (format!("{wrong} wrong answers about {ids} ids"), wrong == 0);
        let what = format!("old ids after {}", restart.after);
        verdicts.push(verdict(what, "every repeat gets the stored outcome", Some(found)));
    }
    verdicts
}

fn expiry(expiry: &Expiry) -> Vec<Verdict> {
    let ratio = expiry.during.payments_per_second / expiry.payments_per_second_due.max(1.0);
    let pace = (format!("{:.0} % of the pace", ratio * 100.0), ratio >= PACE_RATIO_MIN);
    let worst_ms = expiry.during.request_us.max / 1_000;
    let stall = (format!("{worst_ms} ms"), worst_ms < STALL_MS_MAX);
    let memory = per(expiry.rss_most_bytes, expiry.rss_with_holds_bytes);
    let grown = (
        format!(
            "{} MiB at most against {} MiB",
            mebibytes(expiry.rss_most_bytes),
            mebibytes(expiry.rss_with_holds_bytes)
        ),
        memory <= EXPIRY_MEMORY_RATIO_MAX,
    );
    vec![
        verdict(
            "payments during the mass expiry",
            format!("at least {:.0} %", PACE_RATIO_MIN * 100.0),
            Some(pace),
        ),
        verdict("slowest request during the mass expiry", format!("under {STALL_MS_MAX} ms"), Some(stall)),
        verdict("memory during the mass expiry", "at most 10 % more than with all holds open", Some(grown)),
    ]
}

pub(super) const fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(1024 * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Percentiles;

    fn window(cpu: f64, written: f64, p99: u64) -> Window {
        Window {
            payments: 100,
            server_cpu_us_per_payment: cpu,
            process_written_bytes_per_payment: written,
            request_us: Percentiles { p99, ..Percentiles::default() },
            ..Window::default()
        }
    }

    #[test]
    fn the_first_window_is_no_part_of_the_bytes() {
        let of = |window: &Window| Some(window.process_written_bytes_per_payment);
        let mut windows = vec![window(1.0, 9_000.0, 1), window(1.0, 499.0, 1), window(1.0, 499.0, 1)];
        assert_eq!(written("w", &windows, of).holds, Some(true));
        windows[2].process_written_bytes_per_payment = 502.0;
        assert_eq!(written("w", &windows, of).holds, Some(false));
        windows[2].payments = 1;
        assert_eq!(written("w", &windows, of).holds, Some(true), "a short window weighs less");
        assert_eq!(written("w", &windows[..1], of).holds, None);
        assert_eq!(written("w", &windows, |_| None).holds, None);
    }

    #[test]
    fn the_deep_hub_is_held_against_the_young_one() {
        let turns = |deep_cpu_us_per_payment| InTurns {
            payments: 8,
            deep_history: 100,
            young_history: 10,
            deep_cpu_us_per_payment,
            young_cpu_us_per_payment: 2.0,
        };
        assert_eq!(cpu(Some(&turns(2.19))).holds, Some(true));
        assert_eq!(cpu(Some(&turns(2.21))).holds, Some(false));
        assert_eq!(cpu(None).holds, None);
    }

    #[test]
    fn a_checkpoint_that_nobody_felt_is_not_seen() {
        let windows = [window(1.0, 0.0, 10_000), window(1.0, 0.0, 12_000), window(1.0, 0.0, 90_000)];
        let felt = |max, requests_beside| Checkpoints {
            requests_beside,
            request_us_beside: Percentiles { max, ..Percentiles::default() },
            ..Checkpoints::default()
        };
        assert_eq!(checkpoint("c", median_p99(&windows), None).found, "not seen");
        assert_eq!(checkpoint("c", median_p99(&windows), Some(&felt(0, 0))).holds, None);
        assert_eq!(checkpoint("c", median_p99(&windows), Some(&felt(23_900, 5))).holds, Some(true));
        assert_eq!(checkpoint("c", median_p99(&windows), Some(&felt(24_000, 5))).holds, Some(false));
    }

    #[test]
    fn memory_has_a_bound() {
        assert_eq!(memory("m", Some(MEMORY_BYTES_MAX)).holds, Some(false));
        assert_eq!(memory("m", Some(MEMORY_BYTES_MAX - 1)).holds, Some(true));
        assert_eq!(memory("m", None).holds, None);
    }
}
