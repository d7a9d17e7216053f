//! When rounds begin. In an open loop a thread beside the runtime releases what is due: it waits in the kernel, whose
//! timers are finer than the runtime's. The clock starts when every worker stands ready: what it takes to make a thousand of
//! them is no latency of the hub's. How late rounds began after their places in time is kept, so that a load that cannot keep
//! its own pace shows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::LoadError;
use crate::bar::Bar;
use crate::batches::worker_lost;
use crate::figures::{Latency, micros, per_second};
use crate::options::{CALL_DEADLINE, LOAD_SECONDS_DEFAULT, LOAD_SECONDS_MAX, Pacing};
use crate::report::{Report, Row, grouped, millis};

/// How often the bar moves.
const BAR_INTERVAL: Duration = Duration::from_millis(200);

/// Hands out the numbers of rounds.
pub struct Starts {
    /// So many begin per second, each at its own place in time; `None`: each when another has ended.
    rate: Option<u64>,
    count: u64,
    next: AtomicU64,
    workers: usize,
    /// What they are called on the bar.
    name: &'static str,
    clock: OnceLock<Instant>,
    time: Duration,
    /// The longest that a round began after its place in time.
    late_us: AtomicU64,
    /// In an open loop: one permit per round that is due.
    due: Option<Semaphore>,
}

impl Starts {
    /// At most `count` rounds, within `time`, by so many workers.
    pub fn new(name: &'static str, rate: Option<u64>, count: u64, time: Duration, workers: usize) -> Starts {
        let due = rate.map(|_| Semaphore::new(0));
        let (next, late_us) = (AtomicU64::new(0), AtomicU64::new(0));
        Starts { rate, count, next, workers, name, clock: OnceLock::new(), time, late_us, due }
    }

    /// As a load is asked for, `count` rounds at most.
    pub fn paced(name: &'static str, pacing: &Pacing, count: Option<u64>) -> Starts {
        let seconds = pacing.seconds.unwrap_or(match count {
            Some(_) => LOAD_SECONDS_MAX,
            None => LOAD_SECONDS_DEFAULT,
        });
        let by_rate = pacing.rate.map_or(u64::MAX, |rate| rate.saturating_mul(seconds));
        let count = count.unwrap_or(u64::MAX).min(by_rate);
        Starts::new(name, pacing.rate, count, Duration::from_secs(seconds), pacing.in_flight)
    }

    /// When the clock started; whoever asks first starts it, which is [`work`].
    pub fn started(&self) -> Instant {
        *self.clock.get_or_init(Instant::now)
    }

    /// No round begins after that, but for what an open loop has left to do.
    pub fn ends(&self) -> Instant {
        self.started() + self.time
    }

    /// How long after its place in time a round of an open loop began at the latest. All of it is the load's own doing, or for want
    /// of a worker.
    pub fn late_us(&self) -> Option<u64> {
        self.due.is_some().then(|| self.late_us.load(Ordering::Relaxed))
    }

    /// The next round and the instant from which it counts; `None` when all have begun.
    pub async fn next(&self) -> Option<(u64, Instant)> {
        if let Some(due) = &self.due {
            due.acquire().await.ok()?.forget();
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        // An open loop finishes what was due, so that its slowest rounds count; within bounds.
        let grace = if self.due.is_some() { CALL_DEADLINE } else { Duration::ZERO };
        if number >= self.count || now >= self.ends() + grace {
            return None;
        }
        let begun = self.rate.map_or(now, |rate| self.started() + place_in_time(number, rate));
        self.late_us.fetch_max(micros(now.saturating_duration_since(begun)), Ordering::Relaxed);
        Some((number, begun))
    }

    /// Releases what is due since the last time; how long until the next is.
    fn release(&self, released: &mut u64, ended: &mut bool) -> Duration {
        let (Some(due), Some(rate)) = (&self.due, self.rate) else { return BAR_INTERVAL };
        let passed = self.started().elapsed();
        let now = u64::try_from(passed.as_nanos() * u128::from(rate) / 1_000_000_000);
        let now = now.unwrap_or(u64::MAX).saturating_add(1).min(self.count);
        due.add_permits(usize::try_from(now - *released).unwrap_or(0));
        *released = now;
        if now < self.count {
            return place_in_time(now, rate).saturating_sub(passed);
        }
        if !*ended {
            // One more for each worker, which finds that there is nothing left to do.
            due.add_permits(self.workers);
            *ended = true;
        }
        BAR_INTERVAL
    }

    fn show(&self, bar: &Bar) {
        let begun = self.next.load(Ordering::Relaxed).min(self.count);
        let passed = self.started().elapsed();
        bar.say(format!("{} {}/s", grouped(per_second(begun, passed), 0), self.name));
        match self.count {
            u64::MAX => bar.show(passed.as_secs(), self.time.as_secs()),
            count => bar.show(begun, count),
        }
    }
}

impl Starts {
    /// The figures and the table that every load has: `count` rounds took so long, and each of their parts as long.
    pub fn report(&self, pacing: &Pacing, count: u64, took: Duration, parts: &[(&str, &Latency)]) -> Report {
        let mut report = Report::default();
        report.figure("seconds", took.as_secs_f64());
        report.figure(self.name, count);
        report.figure(&format!("{}PerSecond", self.name), per_second(count, took));
        report.figure("rate", pacing.rate);
        report.figure("inFlight", pacing.in_flight);
        report.figure("lateUs", self.late_us());
        let row = |(part, latency): &(&str, &Latency)| Row::of("ms", *part).latency(&latency.percentiles());
        let table = report.table("", parts.iter().map(row));
        if let Some(late_us) = self.late_us() {
            table.note(format!(
                "the load itself began one of the {} at most {:.1} ms late; latencies count from where it was due",
                self.name,
                millis(late_us)
            ));
        }
        report
    }
}

/// Has all `workers` work at the pace of `starts`, with a bar unless it is to be quiet; hands what each has counted to `add`, and
/// gives the time that it took.
pub async fn work<F>(
    starts: &Arc<Starts>,
    quiet: bool,
    workers: impl IntoIterator<Item = F>,
    mut add: impl FnMut(F::Output) -> Result<(), LoadError>,
) -> Result<Duration, LoadError>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let bar = if quiet { Bar::hidden() } else { Bar::new(starts.name) };
    let workers: Vec<F> = workers.into_iter().collect();
    let started = starts.started();
    let pacer = Pacer::start(starts, bar);
    let mut workers: JoinSet<F::Output> = workers.into_iter().collect();
    while let Some(ended) = workers.join_next().await {
        add(ended.map_err(worker_lost)?)?;
    }
    let took = started.elapsed();
    drop(pacer);
    Ok(took)
}

fn place_in_time(number: u64, rate: u64) -> Duration {
    let nanos = u128::from(number) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The thread; it ends when this is dropped.
struct Pacer {
    stop: Option<SyncSender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Pacer {
    fn start(starts: &Arc<Starts>, bar: Bar) -> Pacer {
        let (stop, stopped) = sync_channel(0);
        let starts = Arc::clone(starts);
        let thread = std::thread::spawn(move || {
            let (mut released, mut ended, mut bar_at) = (0, false, Instant::now());
            loop {
                let pause = starts.release(&mut released, &mut ended).min(BAR_INTERVAL);
                if bar_at.elapsed() >= BAR_INTERVAL {
                    bar_at = Instant::now();
                    starts.show(&bar);
                }
                match stopped.recv_timeout(pause) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        });
        Pacer { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            eprintln!("the pacer of the load ended early");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A thousand connections with a histogram each took the load 0.2 s to make: on the clock, these were latencies of the hub.
    #[test]
    fn the_clock_starts_when_all_workers_are_made() {
        let starts = Arc::new(Starts::new("rounds", Some(1_000), 20, Duration::from_secs(1), 4));
        let made = Mutex::new(None);
        let workers = (0..4).map(|_| {
            *made.lock().unwrap() = Some(Instant::now());
            let starts = Arc::clone(&starts);
            async move {
                let mut rounds = 0_u64;
                while let Some((_, begun)) = starts.next().await {
                    assert!(begun >= starts.started());
                    rounds += 1;
                }
                rounds
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut rounds = 0;
        let took = runtime.block_on(work(&starts, true, workers, |some| {
            rounds += some;
            Ok(())
        }));
        assert_eq!(rounds, 20);
        assert!(took.unwrap() >= place_in_time(19, 1_000), "each round has its place in time");
        assert!(
            starts.started() >= made.into_inner().unwrap().unwrap(),
            "the clock ran while workers were made"
        );
        assert!(starts.late_us().is_some());
    }

    #[test]
    fn a_closed_loop_is_never_late() {
        let starts = Starts::new("rounds", None, 1, Duration::from_secs(1), 1);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(starts.next()).map(|(number, _)| number), Some(0));
        assert_eq!((starts.late_us(), runtime.block_on(starts.next())), (None, None));
    }
}
