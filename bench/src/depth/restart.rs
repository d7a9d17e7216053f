//! The server is killed while batches fly, and started again on what it left: how soon it is there, and whether it
//! remembers.

use std::sync::Arc;
use std::time::Instant;

use holdfast_client::{Batch, Command, Reply};
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::ids::Millis;
use holdfast_domain::money::Amount;
use holdfast_domain::transfers::TransferState;

use super::flow::{Carried, Halves, Load, carry_all, carry_some};
use super::options::LONG_EXPIRY;
use super::report::{Checkpoints, Restart, Sample};
use super::session::{Session, Started, Stretch};
use super::watch::{Watch, checkpoint_spans};
use super::windows::of_checkpoints;
use crate::BenchError;
use crate::drive::{after, settled};
use crate::meter::{Books, Usage};

/// Ids asked for of each stretch, at most.
const SAMPLE_IDS: u64 = 1_024;
/// Of the batches acknowledged right before a kill, so many are asked for whole.
const LAST_LOADS: usize = 12;

/// Kills the server in mid-load and starts it again.
pub(super) async fn kill_in_mid_load(session: &mut Session<'_>, what: &str) -> Result<Restart, BenchError> {
    let (loads, expiration) = session.make_loads(session.options.window_payments())?;
    let enough = (loads.len() / 2).max(1);
    let connections = session.options.connections();
    let under_way = carry_some(session.client(), Arc::clone(&loads), connections, enough).await?;
    let rss_peak_before_bytes = Usage::of(session.pid()).rss_peak_bytes;
    session.kill();
    drop(under_way);
    let payments = session.committed;
    let started = session.start().await?;
    let unknown: Vec<&Load> = loads.iter().filter(|load| load.was_sent() && !load.is_done()).collect();
    let found = Books::read(session.client()).await?.open_holds;
    let most = session.open_holds + unknown.iter().map(|load| load.records()).sum::<u64>();
    if !(session.open_holds..=most).contains(&found) {
        let open_holds = session.open_holds;
        return Err(BenchError::Books(format!(
            "after the restart {found} holds are open where at least {open_holds} and at most {most} must be"
        )));
    }
    let first_payment_ms = pay_once(session, &started).await?;
    let requests_under_way = unknown.len() as u64;
    // Asked before the unknown ones are sent again: these must be there without help.
    let done: Vec<&Load> = loads.iter().filter(|load| load.is_done()).collect();
    let mut samples = Vec::new();
    for stretch in &session.stretches {
        samples.push(sample(session, &stretch.name, pick(stretch), stretch.expiration).await?);
    }
    let last: Vec<u64> = done.iter().rev().take(LAST_LOADS).flat_map(|load| load.numbers.clone()).collect();
    samples.push(sample(session, "right before the kill", last, expiration).await?);
    for load in unknown {
        load.carry_again(session.client()).await?;
    }
    session.committed += loads.iter().filter(|load| load.is_done()).map(Load::records).sum::<u64>();
    session.check_books("after the restart").await?;
    Ok(Restart {
        after: format!("kill -9, {what}"),
        payments,
        open_holds: session.open_holds,
        requests_under_way,
        stop_ms: None,
        listening_ms: millis(started.listening),
        ready_ms: millis(started.ready),
        first_payment_ms,
        open_holds_found: found,
        rss_peak_before_bytes,
        rss_peak_bytes: Usage::of(session.pid()).rss_peak_bytes,
        samples,
    })
}

/// Opens the holds, loads on beside them, kills and restarts; at last every hold is fulfilled, so each was there.
pub(super) async fn kill_with_open_holds(
    session: &mut Session<'_>,
) -> Result<(Restart, Option<Checkpoints>), BenchError> {
    let (holds, connections) = (session.options.holds(), session.options.connections());
    let numbers = session.take_numbers(holds);
    let prepares = session.make(numbers.clone(), Halves::Prepares, after(LONG_EXPIRY))?;
    carry_all(session.client(), prepares, connections).await?;
    session.open_holds += holds;
    let (loads, _) = session.make_loads(session.options.window_payments())?;
    let payments: u64 = loads.iter().map(Load::records).sum();
    let watch = Watch::start(session.address(), session.pid())?;
    let Carried { felt, .. } = carry_all(session.client(), loads, connections).await?;
    session.committed += payments;
    let (looks, _) = watch.finish();
    let checkpoints = checkpoint_spans(&looks).map(|spans| of_checkpoints(&felt, &spans, &looks));
    let restart = kill_in_mid_load(session, "open holds").await?;
    let fulfils = session.make(numbers, Halves::Fulfils, 0)?;
    carry_all(session.client(), fulfils, connections).await?;
    session.open_holds -= holds;
    session.committed += holds;
    session.check_books("after every hold was fulfilled").await?;
    Ok((restart, checkpoints))
}

/// Stops the server as an operator does, and starts it again.
pub(super) async fn stop_and_start(session: &mut Session<'_>) -> Result<Restart, BenchError> {
    let payments = session.committed;
    let rss_peak_before_bytes = Usage::of(session.pid()).rss_peak_bytes;
    let asked = Instant::now();
    session.stop()?;
    let stop_ms = Some(millis(asked.elapsed()));
    let started = session.start().await?;
    let open_holds_found = Books::read(session.client()).await?.open_holds;
    let first_payment_ms = pay_once(session, &started).await?;
    session.check_books("after the clean stop").await?;
    Ok(Restart {
        after: "a clean stop".to_owned(),
        payments,
        open_holds: session.open_holds,
        requests_under_way: 0,
        stop_ms,
        listening_ms: millis(started.listening),
        ready_ms: millis(started.ready),
        first_payment_ms,
        open_holds_found,
        rss_peak_before_bytes,
        rss_peak_bytes: Usage::of(session.pid()).rss_peak_bytes,
        samples: Vec::new(),
    })
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// One payment; tells when it was settled, from the start of the program.
async fn pay_once(session: &mut Session<'_>, started: &Started) -> Result<u64, BenchError> {
    let number = session.take_numbers(1).start;
    let payments = session.payments();
    let prepare = payments.prepare(number, payments.condition(number), after(LONG_EXPIRY));
    let prepared = session.client().prepare(prepare).await;
    settled("the first prepare", prepared.map(|reply| [reply]), TransferState::Reserved)?;
    let fulfilled = session.client().fulfil(payments.fulfil(number)).await;
    settled("the first fulfil", fulfilled.map(|reply| [reply]), TransferState::Committed)?;
    session.committed += 1;
    Ok(millis(started.begun.elapsed()))
}

/// Numbers evenly spread over a stretch, its first and last among them.
fn pick(stretch: &Stretch) -> Vec<u64> {
    let numbers = &stretch.numbers;
    let count = (numbers.end - numbers.start).min(SAMPLE_IDS);
    let last = numbers.end.saturating_sub(numbers.start + 1);
    (0..count).map(|index| numbers.start + last * index / count.saturating_sub(1).max(1)).collect()
}

/// Sends prepares and fulfils again, and prepares with another amount. None may change anything.
async fn sample(
    session: &Session<'_>,
    of: &str,
    numbers: Vec<u64>,
    expiration: Millis,
) -> Result<Sample, BenchError> {
    let payments = session.payments();
    let prepare = |number: u64| payments.prepare(number, payments.condition(number), expiration);
    let changed = |number: u64| {
        let prepare = prepare(number);
        let amount = Amount(prepare.amount.0 + 1);
        holdfast_client::Prepare { amount, ..prepare }
    };
    let stored = |reply: &Reply| reply.code == 0 && reply.state == Some(TransferState::Committed);
    let refused = |reply: &Reply| reply.code == ErrorCode::ModifiedRequest.number();
    let (mut wrong, mut asking) = (0, std::time::Duration::ZERO);
    for part in numbers.chunks(session.options.records()) {
        let begun = Instant::now();
        wrong += ask(session, part.iter().map(|number| prepare(*number).into()), stored).await?;
        asking += begun.elapsed();
        wrong += ask(session, part.iter().map(|number| payments.fulfil(*number).into()), stored).await?;
        wrong += ask(session, part.iter().map(|number| changed(*number).into()), refused).await?;
    }
    let micros = u64::try_from(asking.as_micros()).unwrap_or(u64::MAX);
    let ids = numbers.len() as u64;
    Ok(Sample { of: of.to_owned(), ids, wrong, us_per_id: crate::report::per(micros, ids) })
}

/// How many of the replies are not as they must be.
async fn ask(
    session: &Session<'_>,
    commands: impl Iterator<Item = Command>,
    right: impl Fn(&Reply) -> bool,
) -> Result<u64, BenchError> {
    let mut batch = Batch::default();
    for command in commands {
        batch.push(&command).map_err(BenchError::client("writing a batch"))?;
    }
    let replies = session.client().batch(batch).await.map_err(BenchError::client("asking again"))?;
    Ok(replies.iter().filter(|reply| !right(reply)).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_hold_the_first_and_the_last_and_no_id_twice() {
        for numbers in [0..1, 5..7, 0..1_024, 1_000..1_001_000] {
            let picked = pick(&Stretch { name: String::new(), numbers: numbers.clone(), expiration: 0 });
            assert_eq!(picked.len() as u64, (numbers.end - numbers.start).min(SAMPLE_IDS));
            assert_eq!(picked.first(), Some(&numbers.start));
            assert_eq!(picked.last(), Some(&(numbers.end - 1)));
            assert!(picked.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
