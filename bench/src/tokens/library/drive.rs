//! Threads that select and release until the time is over.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use holdfast_tokens::{Random, SelectRequest};

use super::engine::Engine;
use super::report::{CaseFigures, Nanos};
use crate::meter::Usage;

/// Latencies above this many nanoseconds are counted as this.
const LATENCY_MAX_NS: u64 = 60_000_000_000;
/// With several threads the clock is read for one selection of so many: reading it costs, too.
const SAMPLE_EVERY: usize = 16;

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
pub(crate) fn run<E: Engine>(
    shape: &'static str,
    engine: &E,
    threads: usize,
    time: Duration,
    seed: u64,
    requests: impl Fn(usize, &mut Random) -> Vec<SelectRequest> + Sync,
) -> CaseFigures {
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

#[allow(clippy::cast_precision_loss, reason = "rates and means")]
fn sum_up(shape: &'static str, engine: &'static str, threads: usize, seen: &[Seen]) -> CaseFigures {
    let total = |of: fn(&Seen) -> u64| seen.iter().map(of).sum::<u64>();
    let (selections, refused) = (total(|seen| seen.selections), total(|seen| seen.refused));
    let seconds = seen.iter().map(|seen| seen.took.as_secs_f64()).fold(0.0, f64::max);
    let mut latencies = Histogram::<u64>::new_with_max(LATENCY_MAX_NS, 3).expect("the bounds are sound");
    for one in seen {
        latencies.add(&one.select_ns).expect("the same bounds");
    }
    let each = |sum: u64| sum as f64 / (selections.max(1)) as f64;
    CaseFigures {
        shape,
        engine,
        threads,
        selections,
        refused,
        seconds,
        selections_per_second: selections as f64 / seconds.max(1e-9),
        core_ns_per_selection: 1e3 * total(|seen| seen.cpu_us) as f64 / (selections + refused).max(1) as f64,
        inputs: each(total(|seen| seen.inputs)),
        exact_share: each(total(|seen| seen.exact)),
        select_ns: Nanos::of(&latencies),
    }
}
