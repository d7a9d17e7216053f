//! The same payments in turns on the hub with all the history and on one with little: CPU that a machine gives and
//! takes within a minute meets both alike, so what is left between them is the history.

use std::path::Path;

use holdfast_load::LoadError;
use holdfast_load::batches::{Load, carry_all};
use holdfast_load::figures::per;
use holdfast_load::meter::Usage;
use holdfast_load::report::grouped_count;

use super::session::Session;

/// Turns of each.
const ROUNDS: u64 = 8;
/// Payments of one turn, as a part of a window: together two windows.
const TURNS_PER_WINDOW: u64 = 4;

/// Drives both and says how their costs differ. The young hub gets a window of payments before it is measured.
pub(super) async fn run(deep: &mut Session<'_>, place: &Path) -> Result<String, LoadError> {
    let window = deep.options.window_payments();
    let mut young = Session::open(deep.program, deep.options, place).await?;
    pay(&mut young, window).await?;
    let (deep_history, young_history) = (deep.committed, young.committed);
    let turn = (window / TURNS_PER_WINDOW).max(1);
    let begin = (Usage::of(deep.pid()).cpu_us, Usage::of(young.pid()).cpu_us);
    for _ in 0..ROUNDS {
        pay(&mut young, turn).await?;
        pay(deep, turn).await?;
    }
    let end = (Usage::of(deep.pid()).cpu_us, Usage::of(young.pid()).cpu_us);
    young.stop()?;
    let each = |end: u64, begin: u64| per(end.saturating_sub(begin), turn * ROUNDS);
    let (deep, young) = (each(end.0, begin.0), each(end.1, begin.1));
    Ok(format!(
        "CPU of the server per payment, in turns: {:+.0} %: {deep:.2} µs after {} payments, {young:.2} µs after {}",
        (deep / young.max(f64::MIN_POSITIVE) - 1.0) * 100.0,
        grouped_count(deep_history),
        grouped_count(young_history),
    ))
}

async fn pay(session: &mut Session<'_>, payments: u64) -> Result<(), LoadError> {
    let (loads, _) = session.make_loads(payments)?;
    let sent: u64 = loads.iter().map(Load::records).sum();
    carry_all(&session.client, loads, session.options.connections).await?;
    session.committed += sent;
    Ok(())
}
