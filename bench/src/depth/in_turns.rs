//! The same payments in turns on the hub with all the history and on one with little: CPU that a machine gives and
//! takes within a minute meets both alike, so what is left between them is the history.

use std::path::Path;

use super::flow::{Load, carry_all};
use super::report::InTurns;
use super::session::Session;
use crate::BenchError;
use crate::meter::Usage;
use crate::report::per;

/// Turns of each.
const ROUNDS: u64 = 8;
/// Payments of one turn, as a part of a window: together two windows.
const TURNS_PER_WINDOW: u64 = 4;

/// Drives both. The young hub gets a window of payments before it is measured.
pub(super) async fn run(deep: &mut Session<'_>, place: &Path) -> Result<InTurns, BenchError> {
    let window = deep.options.window_payments();
    let mut young = Session::open(deep.options, place).await?;
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
    let payments = turn * ROUNDS;
    Ok(InTurns {
        payments,
        deep_history,
        young_history,
        deep_cpu_us_per_payment: per(end.0.saturating_sub(begin.0), payments),
        young_cpu_us_per_payment: per(end.1.saturating_sub(begin.1), payments),
    })
}

async fn pay(session: &mut Session<'_>, payments: u64) -> Result<(), BenchError> {
    let (loads, _) = session.make_loads(payments)?;
    let sent: u64 = loads.iter().map(Load::records).sum();
    carry_all(session.client(), loads, session.options.connections()).await?;
    session.committed += sent;
    Ok(())
}
