//! Many holds that expire at the same instant while payments go on at a steady pace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdfast_client::Client;
use holdfast_domain::ids::Millis;
use holdfast_load::LoadError;
use holdfast_load::batches::{Diary, Felt, Halves, Leg, Load, all_end, carry_all, percentiles};
use holdfast_load::figures::{per, per_second};
use holdfast_load::meter::{Books, Usage};
use holdfast_load::payments::{Payments, after, now_millis};
use holdfast_load::report::{Report, Row, grouped, grouped_count, millis};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::LONG_EXPIRY;
use super::session::Session;
use super::watch::{LOOK_EVERY, Look, Watch};

/// Time that is measured before the instant, and after the last hold has gone.
const AROUND: Duration = Duration::from_secs(5);
/// The load runs so long before anything of it is measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// The shortest time that counts as during: a few holds are gone before a batch has ended.
const DURING_MIN: Duration = Duration::from_secs(1);
/// The longest that is waited for holds to go.
const EXPIRE_MAX: Duration = Duration::from_secs(300);
/// Batches made ahead of the load.
const MADE_AHEAD: usize = 32;
/// Making the body of one hold takes no longer than this.
const MAKE_MAX: Duration = Duration::from_micros(2);

/// Places the holds, lets them expire under a load of `pace` payments per second, and tells what was felt.
pub(super) async fn run(session: &mut Session<'_>, pace: f64, report: &mut Report) -> Result<(), LoadError> {
    let (holds, connections) = (session.options.holds(), session.options.connections);
    let rss_before_holds = Usage::of(session.pid()).rss_bytes;
    let (instant, expiration) = plan(holds, pace);
    let numbers = session.take_numbers(holds);
    let prepares = session.make(numbers, Halves::Prepares, expiration)?;
    carry_all(&session.client, prepares, connections).await?;
    let begin = instant - AROUND - WARM_UP;
    if Instant::now() > begin {
        return Err(LoadError::Refused("placing the holds took longer than was planned for".to_owned()));
    }
    tokio::time::sleep_until(begin.into()).await;
    let watch = Watch::start(session.address(), session.pid())?;
    let first = session.take_numbers(0).start;
    let supply = Supply::start(session.payments.clone(), first, session.options.batch);
    let steady = Steady::start(&session.client, supply, connections, pace, session.options.batch);
    let gone = all_gone(session, &watch, instant).await;
    let calm = gone.as_ref().map_or(instant, |gone| (*gone).max(instant + DURING_MIN));
    if gone.is_ok() {
        tokio::time::sleep_until((calm + AROUND).into()).await;
    }
    let (paid, felt) = steady.finish().await?;
    let gone = gone?;
    let (looks, _) = watch.finish();
    let rss_after_bytes = Usage::of(session.pid()).rss_bytes;
    session.take_numbers(paid);
    session.committed += paid;
    session.expired += holds;
    session.check_books("after the expiry").await?;
    let during = |look: &&Look| look.ended >= instant && look.begun <= calm;
    let rss_with_holds =
        looks.iter().rev().find(|look| look.ended < instant).map_or(0, |look| look.rss_bytes);
    let rss_most = looks.iter().filter(during).map(|look| look.rss_bytes).max().unwrap_or(0);
    let parts =
        [("before", instant - AROUND, instant), ("during", instant, calm), ("after", calm, calm + AROUND)];
    let rows = parts.map(|(when, begin, end)| around(when, &felt, begin, end));
    let heading = format!(
        "{} holds expire at once, all gone after {} ms, beside payments at a pace of {}/s; milliseconds from when a request \
         was due:",
        grouped_count(holds),
        (gone - instant).as_millis(),
        grouped(pace, 0),
    );
    report.table(heading, rows);
    let seconds = by_second(&felt, &looks, instant, calm + AROUND);
    let mebibytes = |bytes: u64| per(bytes, 1 << 20);
    report.table("second by second:", seconds).note(format!(
        "memory: {:.0} MiB without the holds, {:.0} with them, {:.0} at most while they expired, {:.0} afterwards, {:.0} the peak",
        mebibytes(rss_before_holds),
        mebibytes(rss_with_holds),
        mebibytes(rss_most),
        mebibytes(rss_after_bytes),
        mebibytes(Usage::of(session.pid()).rss_peak_bytes),
    ));
    Ok(())
}

/// When the holds expire: late enough that all are placed and the load has run for a while.
fn plan(holds: u64, pace: f64) -> (Instant, Millis) {
    #[allow(clippy::cast_precision_loss, reason = "an estimate")]
    let placing = Duration::from_secs_f64(holds as f64 / pace.max(1.0));
    let making = MAKE_MAX.saturating_mul(u32::try_from(holds).unwrap_or(u32::MAX));
    let ahead = placing + making + AROUND + 2 * WARM_UP;
    let millis = Millis::try_from(ahead.as_millis()).unwrap_or(Millis::MAX);
    (Instant::now() + ahead, now_millis().saturating_add(millis))
}

/// When only holds of the load were left.
async fn all_gone(session: &Session<'_>, watch: &Watch, instant: Instant) -> Result<Instant, LoadError> {
    let of_load = session.options.connections as u64 * session.options.batch as u64;
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    let calm = (session.open_holds + of_load) as f64;
    loop {
        tokio::time::sleep(LOOK_EVERY / 2).await;
        if let Some(look) = watch.last().filter(|look| look.begun >= instant)
            && look.open_holds.is_some_and(|open| open <= calm)
        {
            return Ok(look.ended);
        }
        if Instant::now() > instant + EXPIRE_MAX {
            let open = Books::read(&session.client).await?.open_holds;
            let seconds = EXPIRE_MAX.as_secs();
            return Err(LoadError::Refused(format!(
                "{open} holds are still open {seconds} s after all of them expired"
            )));
        }
    }
}

/// What the load felt from `begin` to `end`: requests by their begin, payments by their end.
fn around(when: &str, felt: &[Felt], begin: Instant, end: Instant) -> Row {
    let took = end.saturating_duration_since(begin);
    let paid = paid(felt.iter().filter(|felt| (begin..end).contains(&felt.ended)));
    Row::of("when", when)
        .number("seconds", took.as_secs_f64(), 1)
        .number("payments/s", per_second(paid, took), 0)
        .latency(&percentiles(felt.iter().filter(|felt| (begin..end).contains(&felt.begun))))
}

/// Payments that these requests settled.
fn paid<'a>(felt: impl Iterator<Item = &'a Felt>) -> u64 {
    felt.filter(|felt| felt.leg == Leg::Fulfils).map(|felt| felt.records).sum()
}

/// Second by second from before the instant on, so that a stall shows where it was: what ended in each, and its last look.
fn by_second(felt: &[Felt], looks: &[Look], instant: Instant, end: Instant) -> Vec<Row> {
    const SECOND: Duration = Duration::from_secs(1);
    let first = -i64::try_from(AROUND.as_secs()).unwrap_or(0);
    let begins = std::iter::successors(Some(instant - AROUND), |begin| Some(*begin + SECOND));
    let seconds = (first..).zip(begins).take_while(|(_, begin)| *begin < end);
    let of_one = |(from, begin): (i64, Instant)| {
        let inside = begin..begin + SECOND;
        let ended = || felt.iter().filter(|felt| inside.contains(&felt.ended));
        let look = looks.iter().rev().find(|look| inside.contains(&look.ended));
        let request = percentiles(ended());
        let row = Row::of("second", format!("{from:+}"))
            .count("payments", paid(ended()))
            .number("p99", millis(request.p99), 2)
            .number("max", millis(request.max), 2)
            .maybe("open holds", look.and_then(|look| look.open_holds), 0);
        look.iter().fold(row, |row, look| row.mebibytes("RSS MiB", look.rss_bytes))
    };
    seconds.map(of_one).collect()
}

/// A thread that makes bodies, so that the client's thread does not.
struct Supply(mpsc::Receiver<Result<Load, LoadError>>);

impl Supply {
    fn start(payments: Payments, first: u64, records: usize) -> Supply {
        let (send, receive) = mpsc::channel(MADE_AHEAD);
        std::thread::spawn(move || {
            for start in (first..).step_by(records) {
                let numbers = start..start + records as u64;
                let load = Load::make(&payments, numbers, Halves::Both, after(LONG_EXPIRY));
                if send.blocking_send(load).is_err() {
                    return;
                }
            }
        });
        Supply(receive)
    }
}

/// A load whose batches begin at their own places in time.
struct Steady {
    tasks: JoinSet<Result<(), LoadError>>,
    stop: Arc<AtomicBool>,
    paid: Arc<AtomicU64>,
    diary: Arc<Diary>,
}

impl Steady {
    fn start(client: &Client, supply: Supply, connections: usize, pace: f64, records: usize) -> Steady {
        let (stop, paid) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (diary, supply) = (Arc::new(Diary::default()), Arc::new(Mutex::new(supply.0)));
        let (begun, number) = (Instant::now(), Arc::new(AtomicU32::new(0)));
        #[allow(clippy::cast_precision_loss, reason = "a pace")]
        let every = Duration::from_secs_f64(records as f64 / pace.max(1.0));
        let mut tasks = JoinSet::new();
        for _ in 0..connections {
            let (client, supply, diary) = (client.clone(), Arc::clone(&supply), Arc::clone(&diary));
            let (stop, paid, number) = (Arc::clone(&stop), Arc::clone(&paid), Arc::clone(&number));
            tasks.spawn(async move {
                loop {
                    let due = begun + every.saturating_mul(number.fetch_add(1, Ordering::Relaxed));
                    tokio::time::sleep_until(due.into()).await;
                    if stop.load(Ordering::Acquire) {
                        return Ok(());
                    }
                    let Some(load) = supply.lock().await.recv().await else { return Ok(()) };
                    let load = load?;
                    load.carry(&client, Some(due), &diary).await?;
                    paid.fetch_add(load.records(), Ordering::Relaxed);
                }
            });
        }
        Steady { tasks, stop, paid, diary }
    }

    /// Ends when the batches under way have.
    async fn finish(self) -> Result<(u64, Vec<Felt>), LoadError> {
        self.stop.store(true, Ordering::Release);
        all_end(self.tasks).await?;
        Ok((self.paid.load(Ordering::Relaxed), self.diary.take()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payments_count_where_they_end_and_requests_where_they_begin() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let felt = |leg, begun, ended| Felt { leg, records: 10, begun: at(begun), ended: at(ended) };
        let requests = [
            felt(Leg::Prepares, 0, 900),
            felt(Leg::Fulfils, 900, 1_100),
            felt(Leg::Prepares, 1_200, 1_300),
            felt(Leg::Fulfils, 1_300, 1_350),
        ];
        let told = |row: &Row, column| serde_json::to_value(row).expect("plain data")[column].clone();
        let part = |from, to| around("", &requests, at(from), at(to));
        let (before, after) = (part(0, 1_000), part(1_000, 3_000));
        assert_eq!(told(&before, "payments/s"), 0.0, "{before:?}");
        assert_eq!(told(&after, "payments/s"), 10.0, "{after:?}");
        let seconds = by_second(&requests, &[], at(0) + AROUND, at(2_500));
        let seconds: Vec<_> =
            seconds.iter().map(|row| (told(row, "second"), told(row, "payments"))).collect();
        assert_eq!(
            seconds,
            [("-5", 0), ("-4", 20), ("-3", 0)].map(|(second, paid)| (second.into(), paid.into()))
        );
        let max = |row| told(row, "max").as_f64();
        assert!(max(&before) >= Some(900.0) && max(&after) < Some(101.0), "{before:?} {after:?}");
    }
}
