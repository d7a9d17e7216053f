//! The payments themselves, a window at a time, with what each cost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_load::LoadError;
use holdfast_load::bar::Bar;
use holdfast_load::batches::{Carried, Felt, Load, carry_all, percentiles};
use holdfast_load::figures::{Percentiles, per, per_second};
use holdfast_load::machine::load_average;
use holdfast_load::meter::{Costs, Reading, Usage};
use holdfast_load::report::{Row, millis};

use super::session::{Session, Stretch};
use super::watch::{Look, LookCost, Span, Watch, beside, checkpoint_spans};

/// What all windows came to.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) windows: Vec<Window>,
    /// `None`: the server does not tell.
    pub(super) checkpoints: Option<Checkpoints>,
    pub(super) looks: LookCost,
}

/// One stretch of payments in a row.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Payments made before it began.
    after_payments: u64,
    pub(super) payments: u64,
    took: Duration,
    /// Of the requests of both kinds.
    pub(super) request: Percentiles,
    /// From the begin of the window to that of the next one, so what goes on in the background counts too.
    pub(super) costs: Costs,
    rss_bytes: u64,
    /// Checkpoints that ran beside its requests; `None`: the server does not tell.
    checkpoints: Option<u64>,
    /// Bytes on the disk by folder of the data directory.
    folder_bytes: BTreeMap<String, u64>,
    load_average: String,
}

impl Window {
    pub(super) fn rate(&self) -> f64 {
        per_second(self.payments, self.took)
    }

    /// The window as a line.
    pub(super) fn row(&self) -> Row {
        let Costs {
            server_cpu_us,
            client_cpu_us,
            written_bytes,
            dirtied_bytes,
            rss_peak_bytes,
            stage_us,
            ..
        } = &self.costs;
        let row = Row::default()
            .count("payments", self.after_payments + self.payments)
            .number("/s", self.rate(), 0)
            .number("CPU", *server_cpu_us, 2)
            .number("client", *client_cpu_us, 2)
            .number("B process", *dirtied_bytes, 0)
            .maybe("B device", *written_bytes, 0)
            .latency(&self.request)
            .mebibytes("RSS", self.rss_bytes)
            .mebibytes("peak", *rss_peak_bytes)
            .maybe("ckpts", self.checkpoints.map(|seen| per(seen, 1)), 0);
        let row = stage_us.iter().fold(row, |row, (stage, micros)| row.number(stage, *micros, 2));
        let folders = self.folder_bytes.iter();
        folders
            .fold(row, |row, (folder, bytes)| row.mebibytes(&format!("{folder}/"), *bytes))
            .word("load", &self.load_average)
    }
}

/// The mean over all windows but the first, which warms up. Weighted by payments, as the last window may be shorter.
pub(super) fn warm_mean(windows: &[Window], of: impl Fn(&Window) -> Option<f64>) -> Option<f64> {
    let warm = windows.get(1..).unwrap_or_default();
    let payments: u64 = warm.iter().map(|window| window.payments).sum();
    let sum = warm.iter().map(|window| Some(of(window)? * per(window.payments, 1))).sum::<Option<f64>>();
    sum.filter(|_| payments > 0).map(|sum| sum / per(payments, 1))
}

/// What requests felt of checkpoints.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    /// By the server's own count.
    counted: u64,
    mean_seconds: Option<f64>,
    requests_beside: u64,
    beside: Percentiles,
    apart: Percentiles,
    all: Percentiles,
}

impl Checkpoints {
    /// The slowest request beside one, in milliseconds; `None` if no request was.
    pub(super) fn slowest(&self) -> Option<f64> {
        (self.requests_beside > 0).then(|| millis(self.beside.max))
    }

    /// As a line.
    pub(super) fn row(&self, when: &str) -> Row {
        Row::of("checkpoints", when)
            .count("count", self.counted)
            .maybe("mean ms", self.mean_seconds.map(|mean| mean * 1e3), 0)
            .count("requests beside", self.requests_beside)
            .maybe("slowest", self.slowest(), 2)
            .number("p99", millis(self.beside.p99), 2)
            .number("p99 apart", millis(self.apart.p99), 2)
            .number("p99 of all", millis(self.all.p99), 2)
    }
}

/// A window between its last answer and the reading that ends it.
struct Paid {
    begin: Reading,
    window: Window,
    felt: Vec<Felt>,
}

/// Runs all windows. Bodies are made between them, which leaves the server time that is counted with the window
/// before, so background work cannot hide there. A run that fails later still has its windows.
pub(super) async fn run(session: &mut Session<'_>, bar: &Bar, found: &mut Found) -> Result<(), LoadError> {
    let watch = Watch::start(session.address(), session.pid())?;
    let windows = session.options.windows();
    let mut all_felt: Vec<(usize, Vec<Felt>)> = Vec::new();
    let mut open: Option<Paid> = None;
    for (index, numbers) in windows.iter().enumerate() {
        bar.next(format!("window {} of {}", index + 1, windows.len()));
        let (loads, expiration) = session.make_loads(numbers.end - numbers.start)?;
        debug_assert_eq!(loads.first().map(|load| load.numbers.start), Some(numbers.start));
        let name = format!("window {}", index + 1);
        session.stretches.push(Stretch { name, numbers: numbers.clone(), expiration });
        let begin = session.reading().await?;
        if let Some(paid) = open.take() {
            all_felt.push((found.windows.len(), close(paid, &begin, found)));
        }
        open = Some(pay(session, begin, numbers.start, loads).await?);
    }
    // The last window gets the same pause as the others, spent on bodies that nobody sends.
    let spare = session.make_loads(session.options.window_payments())?;
    let end = session.reading().await?;
    drop(spare);
    if let Some(paid) = open.take() {
        all_felt.push((found.windows.len(), close(paid, &end, found)));
    }
    session.check_books("after the windows").await?;
    let (looks, cost) = watch.finish();
    found.looks = cost;
    if let Some(spans) = checkpoint_spans(&looks) {
        for (index, felt) in &all_felt {
            found.windows[*index].checkpoints = Some(count_beside(felt, &spans));
        }
        let felt: Vec<Felt> = all_felt.into_iter().flat_map(|(_, felt)| felt).collect();
        found.checkpoints = Some(of_checkpoints(&felt, &spans, &looks));
    }
    Ok(())
}

async fn pay(
    session: &mut Session<'_>,
    begin: Reading,
    after_payments: u64,
    loads: Arc<Vec<Load>>,
) -> Result<Paid, LoadError> {
    let payments = loads.iter().map(Load::records).sum();
    let Carried { took, felt } = carry_all(&session.client, loads, session.options.connections).await?;
    session.committed += payments;
    let window = Window {
        after_payments,
        payments,
        took,
        request: percentiles(&felt),
        rss_bytes: Usage::of(session.pid()).rss_bytes,
        folder_bytes: session.folder_bytes(),
        load_average: load_average(),
        ..Window::default()
    };
    Ok(Paid { begin, window, felt })
}

/// Fills in what was counted up to the next window.
fn close(paid: Paid, end: &Reading, found: &mut Found) -> Vec<Felt> {
    let Paid { begin, mut window, felt } = paid;
    window.costs = end.costs_since(&begin, window.payments);
    found.windows.push(window);
    felt
}

fn count_beside(felt: &[Felt], spans: &[Span]) -> u64 {
    spans.iter().filter(|span| felt.iter().any(|felt| span.overlaps(felt))).count() as u64
}

/// What requests felt of the checkpoints that the looks tell of.
pub(super) fn of_checkpoints(felt: &[Felt], spans: &[Span], looks: &[Look]) -> Checkpoints {
    let risen = |of: fn(&Look) -> Option<f64>| {
        let (first, last) = (looks.iter().find_map(of)?, looks.iter().rev().find_map(of)?);
        Some(last - first)
    };
    let counted = risen(|look| look.checkpoints).unwrap_or(0.0);
    let seconds = risen(|look| look.seconds).filter(|_| counted > 0.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, never below zero")]
    let whole = counted.max(0.0) as u64;
    let apart = felt.iter().filter(|felt| !spans.iter().any(|span| span.overlaps(felt)));
    Checkpoints {
        counted: whole,
        mean_seconds: seconds.map(|seconds| seconds / counted),
        requests_beside: beside(felt, spans).count() as u64,
        beside: percentiles(beside(felt, spans)),
        apart: percentiles(apart),
        all: percentiles(felt),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(payments: u64, dirtied_bytes: f64) -> Window {
        Window { payments, costs: Costs { dirtied_bytes, ..Costs::default() }, ..Window::default() }
    }

    #[test]
    fn the_first_window_is_no_part_of_the_bytes() {
        let of = |window: &Window| Some(window.costs.dirtied_bytes);
        let mut windows = vec![window(100, 9_000.0), window(100, 499.0), window(100, 501.0)];
        assert_eq!(warm_mean(&windows, of), Some(500.0));
        windows[2].payments = 0;
        assert_eq!(warm_mean(&windows, of), Some(499.0), "a short window weighs less");
        assert_eq!(warm_mean(&windows[..1], of), None);
        assert_eq!(warm_mean(&windows, |_| None), None);
    }

    #[test]
    fn a_checkpoint_that_nobody_felt_is_not_seen() {
        let felt = |max, requests_beside| Checkpoints {
            requests_beside,
            beside: Percentiles { max, ..Percentiles::default() },
            ..Checkpoints::default()
        };
        assert_eq!((felt(0, 0).slowest(), felt(23_900, 5).slowest()), (None, Some(23.9)));
    }
}
