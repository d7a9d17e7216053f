//! `holdfast-sim`: runs seeds and says what broke and what happened.

use std::num::NonZero;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use clap::Parser;
use holdfast_sim::{Report, run, run_all, run_traced};

/// Runs the simulator.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    /// The seeds to run, first and one past the last
    #[arg(long, value_name = "A..B", default_value = "0..1000", value_parser = seeds)]
    seeds: (u64, u64),
    /// One seed instead
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Print which faults struck what and how they ended; fail if one that is expected never struck
    #[arg(long)]
    coverage: bool,
    /// Threads to run seeds on; as many as there are cores by default
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// Print every event
    #[arg(long, requires = "seed")]
    trace: bool,
}

fn seeds(text: &str) -> Result<(u64, u64), String> {
    let parse = |number: &str| number.parse::<u64>().map_err(|error| format!("'{number}': {error}"));
    let (first, end) = text.split_once("..").ok_or("not of the form A..B")?;
    Ok((parse(first)?, parse(end)?))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (first, end) = arguments.seed.map_or(arguments.seeds, |seed| (seed, seed + 1));
    let cores = || thread::available_parallelism().map_or(1, NonZero::get);
    let threads = arguments.threads.map_or_else(cores, NonZero::get);
    let started = Instant::now();
    let sum = run_all(first..end, threads, |seed| {
        let report = if arguments.trace { run_traced(seed) } else { run(seed) };
        show(&report);
        report
    });
    for (name, count) in sum.tally.entries() {
        println!("{name:>26} {count}");
    }
    let missing = if arguments.coverage { sum.coverage.missing() } else { Vec::new() };
    if arguments.coverage {
        println!("\n{}\n", sum.coverage);
        missing.iter().for_each(|cell| println!("never struck: {cell}"));
    }
    let broken = sum.broken.len();
    println!("{} seeds in {:.1?}, {broken} with violations", end.saturating_sub(first), started.elapsed());
    if broken == 0 && missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn show(report: &Report) {
    report.trace.iter().for_each(|line| println!("{line}"));
    for violation in &report.violations {
        println!("seed {}: {violation}", report.seed);
    }
    if !report.violations.is_empty() {
        println!("replay: cargo run -p holdfast-sim --release -- --seed {} --trace", report.seed);
    }
}
