//! When rounds begin. In an open loop a thread beside the runtime releases what is due: it waits in the kernel, whose
//! timers are finer than the runtime's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::BenchError;
use crate::drive::micros;
use crate::options::{CALL_DEADLINE, LOAD_SECONDS_DEFAULT, LOAD_SECONDS_MAX, Pace};
use crate::report::per;
use crate::table::thousands;

/// How often the bar moves.
const BAR_INTERVAL: Duration = Duration::from_millis(200);

/// How many rounds at most, and for how long, by what a load run is asked for.
pub(crate) fn length(pace: Pace, seconds: Option<u64>, rounds: Option<u64>) -> (u64, Duration) {
    let seconds = match (seconds, rounds) {
        (Some(seconds), _) => seconds,
        (None, None) => LOAD_SECONDS_DEFAULT,
        (None, Some(_)) => LOAD_SECONDS_MAX,
    };
    let by_rate = match pace {
        Pace::Open { rate } => rate.saturating_mul(seconds),
        Pace::Closed => u64::MAX,
    };
    (rounds.unwrap_or(u64::MAX).min(by_rate), Duration::from_secs(seconds))
}

/// Hands out the numbers of rounds.
pub(crate) struct Starts {
    pace: Pace,
    count: u64,
    next: AtomicU64,
    workers: usize,
    /// What they are called on the bar.
    name: &'static str,
    pub(crate) started: Instant,
    ends: Instant,
    /// In an open loop: one permit per round that is due.
    due: Option<Semaphore>,
}

impl Starts {
    pub(crate) fn new(name: &'static str, pace: Pace, count: u64, time: Duration, workers: usize) -> Starts {
        let started = Instant::now();
        let due = matches!(pace, Pace::Open { .. }).then(|| Semaphore::new(0));
        Starts { pace, count, next: AtomicU64::new(0), workers, name, started, ends: started + time, due }
    }

    /// The next round and the instant from which it counts; `None` when all have begun.
    pub(crate) async fn next(&self) -> Option<(u64, Instant)> {
        if let Some(due) = &self.due {
            due.acquire().await.ok()?.forget();
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        // An open loop finishes what was due, so that its slowest rounds count; within bounds.
        let grace = if self.due.is_some() { CALL_DEADLINE } else { Duration::ZERO };
        if number >= self.count || now >= self.ends + grace {
            return None;
        }
        let begun = match self.pace {
            Pace::Closed => now,
            Pace::Open { rate } => self.started + place_in_time(number, rate),
        };
        Some((number, begun))
    }

    /// Releases what is due since the last time; how long until the next is.
    fn release(&self, released: &mut u64, ended: &mut bool) -> Duration {
        let (Some(due), Pace::Open { rate }) = (&self.due, self.pace) else { return BAR_INTERVAL };
        let passed = self.started.elapsed();
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

    fn show(&self, bar: &ProgressBar) {
        let begun = self.next.load(Ordering::Relaxed).min(self.count);
        bar.set_position(if self.count == u64::MAX { self.started.elapsed().as_secs() } else { begun });
        let rate = per(begun, micros(self.started.elapsed())) * 1e6;
        bar.set_message(format!("{} {}/s", thousands(rate), self.name));
    }

    fn bar(&self, shown: bool) -> ProgressBar {
        let target = match shown {
            true => ProgressDrawTarget::stderr_with_hz(5),
            false => ProgressDrawTarget::hidden(),
        };
        let seconds = self.ends.saturating_duration_since(self.started).as_secs();
        let length = if self.count == u64::MAX { seconds } else { self.count };
        let bar = ProgressBar::with_draw_target(Some(length), target);
        match ProgressStyle::with_template("{elapsed_precise} {bar:30} {pos}/{len} {wide_msg}") {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }
}

/// Has all `workers` work at the pace of `starts`, with a bar if it is to be shown; hands what each has counted to `add`, and
/// gives the time that it took.
pub(crate) async fn work<F>(
    starts: &Arc<Starts>,
    shown: bool,
    workers: impl IntoIterator<Item = F>,
    mut add: impl FnMut(F::Output) -> Result<(), BenchError>,
) -> Result<Duration, BenchError>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let bar = starts.bar(shown);
    let pacer = Pacer::start(starts, &bar);
    let mut workers: JoinSet<F::Output> = workers.into_iter().collect();
    while let Some(ended) = workers.join_next().await {
        add(ended.map_err(|error| BenchError::Refused(format!("a worker ended early: {error}")))?)?;
    }
    let took = starts.started.elapsed();
    drop(pacer);
    bar.finish_and_clear();
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
    fn start(starts: &Arc<Starts>, bar: &ProgressBar) -> Pacer {
        let (stop, stopped) = sync_channel(0);
        let (starts, bar) = (Arc::clone(starts), bar.clone());
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
