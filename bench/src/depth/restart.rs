//! The server is killed while batches fly, and started again on what it left: how soon it is there, and whether it
//! remembers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use holdfast_client::{Batch, Client, Command, Reply};
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::ids::Millis;
use holdfast_domain::money::Amount;
use holdfast_domain::transfers::TransferState;
use holdfast_load::LoadError;
use holdfast_load::batches::{Carried, Diary, Halves, Load, carry_all, carry_each, worker_lost};
use holdfast_load::drive::settled;
use holdfast_load::figures::{micros, per};
use holdfast_load::meter::{Books, Usage};
use holdfast_load::payments::after;
use holdfast_load::report::Row;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::LONG_EXPIRY;
use super::session::{Session, Started, Stretch};
use super::watch::{Watch, checkpoint_spans};
use super::windows::{Checkpoints, of_checkpoints};

/// Ids asked for of each stretch, at most.
const SAMPLE_IDS: u64 = 1_024;
/// Of the batches acknowledged right before a kill, so many are asked for whole.
const LAST_LOADS: usize = 12;

/// One end of the server and its next start.
pub(super) struct Restart {
    pub(super) after: String,
    /// Payments that the history held.
    payments: u64,
    /// Holds that must be open, without those of requests under way.
    open_holds: u64,
    open_holds_found: u64,
    /// Requests whose outcome was unknown when the server was killed.
    requests_under_way: u64,
    /// How long the end took; of a kill, nothing worth telling.
    stopping: Option<Duration>,
    started: Started,
    /// From the start of the program to the first settled payment.
    first_payment: Duration,
    /// Of the server that ended.
    pub(super) rss_peak_before_bytes: u64,
    /// Of the server that was started.
    pub(super) rss_peak_bytes: u64,
    samples: Vec<Sample>,
}

/// Ids from one part of the history, asked for again after a restart.
#[derive(Debug, Clone)]
struct Sample {
    of: String,
    ids: u64,
    /// Repeats of prepare or fulfil that were not answered with the stored outcome, and changed prepares that were
    /// not refused as such.
    wrong: u64,
    /// Of the repeated prepares, in batches.
    us_per_id: f64,
}

impl Restart {
    pub(super) fn row(&self) -> Row {
        Row::of("after", &self.after)
            .count("payments", self.payments)
            .count("open holds", self.open_holds)
            .count("found", self.open_holds_found)
            .count("unknown requests", self.requests_under_way)
            .maybe("stop", self.stopping.map(millis), 0)
            .number("listens", millis(self.started.listening), 0)
            .number("ready", millis(self.started.ready), 0)
            .number("first payment", millis(self.first_payment), 0)
            .mebibytes("MiB before", self.rss_peak_before_bytes)
            .mebibytes("MiB after", self.rss_peak_bytes)
    }

    pub(super) fn sample_rows(&self) -> impl Iterator<Item = Row> {
        in_three(&self.samples).into_iter().map(|sample| {
            Row::of("after", &self.after)
                .word("ids of", sample.of)
                .count("ids", sample.ids)
                .count("wrong", sample.wrong)
                .number("µs each", sample.us_per_id, 1)
        })
    }
}

/// The first, all between, and the last: a long run has many windows.
fn in_three(samples: &[Sample]) -> Vec<Sample> {
    let [first, between @ .., last] = samples else { return samples.to_vec() };
    let ids = between.iter().map(|sample| sample.ids).sum::<u64>();
    let micros: f64 = between.iter().map(|sample| sample.us_per_id * per(sample.ids, 1)).sum();
    let merged = Sample {
        of: "the other windows".to_owned(),
        ids,
        wrong: between.iter().map(|sample| sample.wrong).sum(),
        us_per_id: micros / per(ids.max(1), 1),
    };
    vec![first.clone(), merged, last.clone()]
}

/// Kills the server in mid-load and starts it again.
pub(super) async fn kill_in_mid_load(session: &mut Session<'_>, what: &str) -> Result<Restart, LoadError> {
    let (loads, expiration) = session.make_loads(session.options.window_payments())?;
    let enough = (loads.len() / 2).max(1);
    let connections = session.options.connections;
    let under_way = carry_some(&session.client, Arc::clone(&loads), connections, enough).await?;
    let rss_peak_before_bytes = Usage::of(session.pid()).rss_peak_bytes;
    session.kill();
    drop(under_way);
    let payments = session.committed;
    let started = session.start().await?;
    let unknown: Vec<&Load> = loads.iter().filter(|load| load.was_sent() && !load.is_done()).collect();
    let found = Books::read(&session.client).await?.open_holds;
    let most = session.open_holds + unknown.iter().map(|load| load.records()).sum::<u64>();
    if !(session.open_holds..=most).contains(&found) {
        let open_holds = session.open_holds;
        return Err(LoadError::Books(format!(
            "after the restart {found} holds are open where at least {open_holds} and at most {most} must be"
        )));
    }
    let first_payment = pay_once(session, &started).await?;
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
        load.carry_again(&session.client).await?;
    }
    session.committed += loads.iter().filter(|load| load.is_done()).map(Load::records).sum::<u64>();
    session.check_books("after the restart").await?;
    Ok(Restart {
        after: format!("kill -9, {what}"),
        payments,
        open_holds: session.open_holds,
        requests_under_way,
        stopping: None,
        started,
        first_payment,
        open_holds_found: found,
        rss_peak_before_bytes,
        rss_peak_bytes: Usage::of(session.pid()).rss_peak_bytes,
        samples,
    })
}

/// Opens the holds, loads on beside them, kills and restarts; at last every hold is fulfilled, so each was there.
pub(super) async fn kill_with_open_holds(
    session: &mut Session<'_>,
) -> Result<(Restart, Option<Checkpoints>), LoadError> {
    let (holds, connections) = (session.options.holds(), session.options.connections);
    let numbers = session.take_numbers(holds);
    let prepares = session.make(numbers.clone(), Halves::Prepares, after(LONG_EXPIRY))?;
    carry_all(&session.client, prepares, connections).await?;
    session.open_holds += holds;
    let (loads, _) = session.make_loads(session.options.window_payments())?;
    let payments: u64 = loads.iter().map(Load::records).sum();
    let watch = Watch::start(session.address(), session.pid())?;
    let Carried { felt, .. } = carry_all(&session.client, loads, connections).await?;
    session.committed += payments;
    let (looks, _) = watch.finish();
    let checkpoints = checkpoint_spans(&looks).map(|spans| of_checkpoints(&felt, &spans, &looks));
    let restart = kill_in_mid_load(session, "open holds").await?;
    let fulfils = session.make(numbers, Halves::Fulfils, 0)?;
    carry_all(&session.client, fulfils, connections).await?;
    session.open_holds -= holds;
    session.committed += holds;
    session.check_books("after every hold was fulfilled").await?;
    Ok((restart, checkpoints))
}

/// Stops the server as an operator does, and starts it again.
pub(super) async fn stop_and_start(session: &mut Session<'_>) -> Result<Restart, LoadError> {
    let payments = session.committed;
    let rss_peak_before_bytes = Usage::of(session.pid()).rss_peak_bytes;
    let asked = Instant::now();
    session.stop()?;
    let stopping = Some(asked.elapsed());
    let started = session.start().await?;
    let open_holds_found = Books::read(&session.client).await?.open_holds;
    let first_payment = pay_once(session, &started).await?;
    session.check_books("after the clean stop").await?;
    Ok(Restart {
        after: "a clean stop".to_owned(),
        payments,
        open_holds: session.open_holds,
        requests_under_way: 0,
        stopping,
        started,
        first_payment,
        open_holds_found,
        rss_peak_before_bytes,
        rss_peak_bytes: Usage::of(session.pid()).rss_peak_bytes,
        samples: Vec::new(),
    })
}

/// Carries loads until `enough` of them are acknowledged, and returns at that moment with others under way.
async fn carry_some(
    client: &Client,
    loads: Arc<Vec<Load>>,
    connections: usize,
    enough: usize,
) -> Result<UnderWay, LoadError> {
    let (done, reached) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counted, told) = (Arc::clone(&done), Arc::clone(&reached));
    let mut tasks = carry_each(client, &loads, connections, &Arc::new(Diary::default()), move || {
        if counted.fetch_add(1, Ordering::Relaxed) + 1 == enough {
            told.notify_one();
        }
    });
    loop {
        tokio::select! {
            biased;
            () = reached.notified() => return Ok(UnderWay { _tasks: tasks }),
            ended = tasks.join_next() => match ended {
                Some(ended) => ended.map_err(worker_lost)??,
                None => return Err(LoadError::Refused("the load ended before the kill".to_owned())),
            },
        }
    }
}

/// Requests whose answers nobody has read yet. Dropping it gives them up.
struct UnderWay {
    _tasks: JoinSet<Result<(), LoadError>>,
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// One payment; tells when it was settled, from the start of the program.
async fn pay_once(session: &mut Session<'_>, started: &Started) -> Result<Duration, LoadError> {
    let number = session.take_numbers(1).start;
    let payments = &session.payments;
    let prepare = payments.prepare(number, payments.condition(number), after(LONG_EXPIRY));
    let prepared = session.client.prepare(prepare).await;
    settled("the first prepare", prepared.map(|reply| [reply]), TransferState::Reserved)?;
    let fulfilled = session.client.fulfil(payments.fulfil(number)).await;
    settled("the first fulfil", fulfilled.map(|reply| [reply]), TransferState::Committed)?;
    session.committed += 1;
    Ok(started.begun.elapsed())
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
) -> Result<Sample, LoadError> {
    let payments = &session.payments;
    let prepare = |number: u64| payments.prepare(number, payments.condition(number), expiration);
    let changed = |number: u64| {
        let prepare = prepare(number);
        let amount = Amount(prepare.amount.0 + 1);
        holdfast_client::Prepare { amount, ..prepare }
    };
    let stored = |reply: &Reply| reply.code == 0 && reply.state == Some(TransferState::Committed);
    let refused = |reply: &Reply| reply.code == ErrorCode::ModifiedRequest.number();
    let (mut wrong, mut asking) = (0, Duration::ZERO);
    for part in numbers.chunks(session.options.batch) {
        let begun = Instant::now();
        wrong += ask(session, part.iter().map(|number| prepare(*number).into()), stored).await?;
        asking += begun.elapsed();
        wrong += ask(session, part.iter().map(|number| payments.fulfil(*number).into()), stored).await?;
        wrong += ask(session, part.iter().map(|number| changed(*number).into()), refused).await?;
    }
    let ids = numbers.len() as u64;
    Ok(Sample { of: of.to_owned(), ids, wrong, us_per_id: per(micros(asking), ids) })
}

/// How many of the replies are not as they must be.
async fn ask(
    session: &Session<'_>,
    commands: impl Iterator<Item = Command>,
    right: impl Fn(&Reply) -> bool,
) -> Result<u64, LoadError> {
    let mut batch = Batch::default();
    for command in commands {
        batch.push(&command).map_err(LoadError::of("writing a batch"))?;
    }
    let replies = session.client.batch(batch).await.map_err(LoadError::of("asking again"))?;
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

    #[test]
    fn the_windows_between_are_told_as_one() {
        let sample = |of: &str, ids, wrong, us_per_id| Sample { of: of.to_owned(), ids, wrong, us_per_id };
        let samples = [
            sample("1", 10, 0, 9.0),
            sample("2", 30, 1, 1.0),
            sample("3", 10, 2, 5.0),
            sample("k", 5, 0, 1.0),
        ];
        let told = in_three(&samples);
        assert_eq!(
            told.iter().map(|sample| sample.of.as_str()).collect::<Vec<_>>(),
            ["1", "the other windows", "k"]
        );
        assert_eq!((told[1].ids, told[1].wrong), (40, 3));
        assert!((told[1].us_per_id - 2.0).abs() < 1e-9);
        assert_eq!(in_three(&samples[..1]).len(), 1);
    }
}
