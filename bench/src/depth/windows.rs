//! The payments themselves, a window at a time, with what each cost.

use std::sync::Arc;

use indicatif::ProgressBar;

use super::flow::{Carried, Felt, Load, carry_all, percentiles};
use super::report::{Checkpoints, DepthReport, Window};
use super::session::{Session, Stretch};
use super::watch::{Look, Span, Watch, beside, checkpoint_spans};
use crate::BenchError;
use crate::machine::load_average;
use crate::meter::{Counters, Usage, device_written_bytes};
use crate::report::per;

/// Everything that is counted from the begin of one window to that of the next.
struct Boundary {
    server: Usage,
    client: Usage,
    device: Option<u64>,
    counters: Counters,
}

impl Boundary {
    async fn read(session: &Session<'_>) -> Result<Boundary, BenchError> {
        Ok(Boundary {
            server: Usage::of(session.pid()),
            client: Usage::of(std::process::id()),
            device: device_written_bytes(session.place),
            counters: Counters::read(session.client()).await?,
        })
    }
}

/// A window between its last answer and the boundary that ends it.
struct Paid {
    begin: Boundary,
    window: Window,
    felt: Vec<Felt>,
}

/// Runs all windows. Bodies are made between them, which leaves the server time that is counted with the window
/// before, so background work cannot hide there.
pub(super) async fn run(
    session: &mut Session<'_>,
    report: &mut DepthReport,
    bar: &ProgressBar,
) -> Result<(), BenchError> {
    let watch = Watch::start(session.address(), session.pid())?;
    let windows = session.options.windows();
    let mut all_felt: Vec<(usize, Vec<Felt>)> = Vec::new();
    let mut open: Option<Paid> = None;
    for (index, numbers) in windows.iter().enumerate() {
        bar.set_message(format!("window {} of {}", index + 1, windows.len()));
        bar.tick();
        let (loads, expiration) = session.make_loads(numbers.end - numbers.start)?;
        debug_assert_eq!(loads.first().map(|load| load.numbers.start), Some(numbers.start));
        let name = format!("window {}", index + 1);
        session.stretches.push(Stretch { name, numbers: numbers.clone(), expiration });
        let begin = Boundary::read(session).await?;
        if let Some(paid) = open.take() {
            all_felt.push((report.windows.len(), close(paid, &begin, report)));
        }
        open = Some(pay(session, begin, numbers.start, loads).await?);
        bar.inc(1);
    }
    // The last window gets the same pause as the others, spent on bodies that nobody sends.
    let spare = session.make_loads(session.options.window_payments())?;
    let end = Boundary::read(session).await?;
    drop(spare);
    if let Some(paid) = open.take() {
        all_felt.push((report.windows.len(), close(paid, &end, report)));
    }
    session.check_books("after the windows").await?;
    let (looks, cost) = watch.finish();
    report.looks = cost;
    if let Some(spans) = checkpoint_spans(&looks) {
        for (index, felt) in &all_felt {
            report.windows[*index].checkpoints = Some(count_beside(felt, &spans));
        }
        let felt: Vec<Felt> = all_felt.into_iter().flat_map(|(_, felt)| felt).collect();
        report.checkpoints = Some(of_checkpoints(&felt, &spans, &looks));
    }
    Ok(())
}

async fn pay(
    session: &mut Session<'_>,
    begin: Boundary,
    after_payments: u64,
    loads: Arc<Vec<Load>>,
) -> Result<Paid, BenchError> {
    let payments = loads.iter().map(Load::records).sum();
    let Carried { took, felt } = carry_all(session.client(), loads, session.options.connections()).await?;
    session.committed += payments;
    let usage = Usage::of(session.pid());
    #[allow(clippy::cast_precision_loss, reason = "a printed rate")]
    let payments_per_second = payments as f64 / took.as_secs_f64();
    let window = Window {
        after_payments,
        payments,
        seconds: took.as_secs_f64(),
        payments_per_second,
        request_us: percentiles(&felt),
        rss_bytes: usage.rss_bytes,
        folder_bytes: session.folder_bytes(),
        load_average: load_average(),
        ..Window::default()
    };
    Ok(Paid { begin, window, felt })
}

/// Fills in what was counted up to the next window.
fn close(paid: Paid, end: &Boundary, report: &mut DepthReport) -> Vec<Felt> {
    let Paid { begin, mut window, felt } = paid;
    let payments = window.payments;
    let spent = |end: u64, begin: u64| per(end.saturating_sub(begin), payments);
    window.server_cpu_us_per_payment = spent(end.server.cpu_us, begin.server.cpu_us);
    window.client_cpu_us_per_payment = spent(end.client.cpu_us, begin.client.cpu_us);
    window.process_written_bytes_per_payment = spent(end.server.dirtied_bytes, begin.server.dirtied_bytes);
    window.device_written_bytes_per_payment =
        end.device.zip(begin.device).map(|(end, begin)| spent(end, begin));
    window.rss_peak_bytes = end.server.rss_peak_bytes;
    let stages = end.counters.stages_since(&begin.counters).into_iter();
    window.stage_us_per_payment = stages.map(|(stage, nanos)| (stage, per(nanos, payments) / 1e3)).collect();
    report.windows.push(window);
    felt
}

fn count_beside(felt: &[Felt], spans: &[Span]) -> usize {
    spans.iter().filter(|span| felt.iter().any(|felt| span.overlaps(felt))).count()
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
    Checkpoints {
        seen: spans.len(),
        counted: whole,
        mean_seconds: seconds.map(|seconds| seconds / counted),
        requests_beside: beside(felt, spans).count() as u64,
        request_us_beside: percentiles(beside(felt, spans)),
        request_us_apart: percentiles(
            felt.iter().filter(|felt| !spans.iter().any(|span| span.overlaps(felt))),
        ),
        request_us: percentiles(felt),
    }
}
