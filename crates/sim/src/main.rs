//! `holdfast-sim`: runs seeds and says what broke and what happened.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use holdfast_sim::{Report, Tally, run, run_traced};

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
    let started = Instant::now();
    let mut tally = Tally::default();
    let mut broken = 0_u64;
    for seed in first..end {
        let report = if arguments.trace { run_traced(seed) } else { run(seed) };
        tally.add(&report.tally);
        report.trace.iter().for_each(|line| println!("{line}"));
        broken += u64::from(!report.violations.is_empty());
        show_violations(&report);
    }
    for (name, count) in tally.entries() {
        println!("{name:>26} {count}");
    }
    println!("{} seeds in {:.1?}, {broken} with violations", end.saturating_sub(first), started.elapsed());
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn show_violations(report: &Report) {
    for violation in &report.violations {
        println!("seed {}: {violation}", report.seed);
    }
    if !report.violations.is_empty() {
        println!("replay: cargo run -p holdfast-sim --release -- --seed {} --trace", report.seed);
    }
}
