//! Threads that select and release until the time is over.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use holdfast_load::figures::{Percentiles, per, per_second};
use holdfast_load::meter::Usage;
use holdfast_load::report::Row;
use holdfast_tokens::{Random, SelectRequest};

use super::engine::Engine;

/// Latencies above this many nanoseconds are counted as this.
const LATENCY_MAX_NS: u64 = 60_000_000_000;
/// With several threads the clock is read for one selection of so many: reading it costs, too.
const SAMPLE_EVERY: usize = 16;

/// One engine under one shape.
pub(super) struct Figures {
    /// `ones`: many tokens of value 1 in one wallet, 100 asked for; `exact`: one amount of a large wallet; `wallets`: many
    /// wallets, exact or any amounts; `contention`: eight threads on 1,000 tokens of value 1, 100 asked for.
    pub(super) shape: &'static str,
    /// Ours, or the peer whose algorithm it is.
    engine: &'static str,
    /// How many threads selected and released.
    threads: usize,
    /// Selections made, each released again.
    pub(super) selections: u64,
    pub(super) refused: u64,
    per_second: f64,
    /// Time of a core for one select and release: on a busy machine a fairer clock than the wall's.
    core_ns: f64,
    /// Of a selection.
    inputs: f64,
    /// Of a hundred selections, those that came to exactly the amount, so without change.
    exact_percent: f64,
    /// The select alone, in nanoseconds; with several threads of one in sixteen.
    select: Percentiles,
}

impl Figures {
    pub(super) fn row(&self) -> Row {
        let Percentiles { p50, p99, p99_9, max, .. } = self.select;
        let row = Row::of("shape", self.shape)
            .word("engine", self.engine)
            .count("threads", self.threads as u64)
            .count("selections", self.selections)
            .number("/s", self.per_second, 0)
            .number("core ns", self.core_ns, 0)
            .number("inputs", self.inputs, 2)
            .number("exact %", self.exact_percent, 0);
        let micros = [("p50", p50), ("p99", p99), ("p99.9", p99_9), ("max", max)];
        let row = micros.into_iter().fold(row, |row, (name, nanos)| row.number(name, per(nanos, 1_000), 2));
        row.count("refused", self.refused)
    }
}

/// What one thread saw.
struct Seen {
    selections: u64,
    refused: u64,
    inputs: u64,
    exact: u64,
    cpu_us: u64,
    took: Duration,
    select_ns: Histogram<u64>,
}

/// Runs one case. `requests` makes what a thread asks for, before the clock starts; each thread has a spender of its own and
/// holds one selection at a time.
pub(super) fn run<E: Engine>(
    shape: &'static str,
    engine: &E,
    threads: usize,
    time: Duration,
    seed: u64,
    requests: impl Fn(usize, &mut Random) -> Vec<SelectRequest> + Sync,
) -> Figures {
    let ready = Barrier::new(threads);
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let run_one = |thread: usize| {
            let (ready, requests) = (&ready, &requests);
            scope.spawn(move || {
                let place = u64::try_from(thread).expect("few threads");
                let mut random = Random::new(seed.wrapping_add(place.wrapping_mul(0x9e37_79b9)));
                let requests = requests(thread, &mut random);
                ready.wait();
                one(engine, &requests, if threads == 1 { 1 } else { SAMPLE_EVERY }, time, &mut random)
            })
        };
        let running: Vec<_> = (0..threads).map(run_one).collect();
        running.into_iter().map(|thread| thread.join().expect("no measuring thread panics")).collect()
    });
    sum_up(shape, engine.name(), threads, &seen)
}

fn one<E: Engine>(
    engine: &E,
    requests: &[SelectRequest],
    sample_every: usize,
    time: Duration,
    random: &mut Random,
) -> Seen {
    let select_ns = Histogram::new_with_max(LATENCY_MAX_NS, 3).expect("the bounds are sound");
    let (mut selections, mut refused, mut inputs, mut exact) = (0, 0, 0_u64, 0);
    let mut latencies = select_ns;
    let cpu_before = Usage::of_this_thread();
    let start = Instant::now();
    for (number, request) in requests.iter().cycle().enumerate() {
        let sampled = number.is_multiple_of(sample_every).then(Instant::now);
        let outcome = engine.select(request, random);
        if let Some(before) = sampled {
            let now = Instant::now();
            let nanos = u64::try_from((now - before).as_nanos()).unwrap_or(LATENCY_MAX_NS);
            latencies.saturating_record(nanos.clamp(1, LATENCY_MAX_NS));
            if now - start >= time {
                if let Some((_, held)) = outcome {
                    engine.release(&request.spender, held);
                }
                break;
            }
        }
        match outcome {
            None => refused += 1,
            Some((taken, held)) => {
                selections += 1;
                inputs += u64::try_from(taken.inputs).expect("a usize fits");
                exact += u64::from(taken.sum == u128::from(request.amount));
                engine.release(&request.spender, held);
            }
        }
    }
    let took = start.elapsed();
    let cpu_us = Usage::of_this_thread().saturating_sub(cpu_before);
    Seen { selections, refused, inputs, exact, cpu_us, took, select_ns: latencies }
}

fn sum_up(shape: &'static str, engine: &'static str, threads: usize, seen: &[Seen]) -> Figures {
    let total = |of: fn(&Seen) -> u64| seen.iter().map(of).sum::<u64>();
    let (selections, refused) = (total(|seen| seen.selections), total(|seen| seen.refused));
    let took = seen.iter().map(|seen| seen.took).max().unwrap_or_default();
    let mut latencies = Histogram::<u64>::new_with_max(LATENCY_MAX_NS, 3).expect("the bounds are sound");
    for one in seen {
        latencies.add(&one.select_ns).expect("the same bounds");
    }
    Figures {
        shape,
        engine,
        threads,
        selections,
        refused,
        per_second: per_second(selections, took),
        core_ns: 1e3 * per(total(|seen| seen.cpu_us), selections + refused),
        inputs: per(total(|seen| seen.inputs), selections),
        exact_percent: 100.0 * per(total(|seen| seen.exact), selections),
        select: Percentiles::of(&latencies),
    }
}
