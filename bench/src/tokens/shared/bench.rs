//! What is measured, in which order: each case by sherdlock and then by Holdfast, so that both stand in the same minutes.

use std::time::Duration;

use indicatif::ProgressBar;
use tokio::runtime::Runtime;

use super::cases::{Case, HotToken, ManyInputs, OneInput, Stage, fill};
use super::goals::goals;
use super::node::Vaults;
use super::options::{NODES, SharedOptions};
use super::report::{SharedReport, Speed};
use super::sherdlock::{Reading, Sherdlocks};
use super::town::Town;
use crate::BenchError;
use crate::bench::progress_bar;
use crate::machine::{Machine, load_average};

/// Cases of one run, for the bar.
const CASES: u64 = 7;
/// Threads of callers and of what the nodes do for them; the machine's other work is PostgreSQL's.
const THREADS: usize = 2;

/// Who is measured.
#[derive(Debug, Clone, Copy)]
enum Engine {
    Holdfast,
    Sherdlock(Reading),
}

/// Runs what the options ask for.
///
/// # Errors
/// If the server is not there or promises nothing, Holdfast refuses what it must not, or the books do not balance.
pub fn bench_shared_tokens(options: &SharedOptions) -> Result<SharedReport, BenchError> {
    options.check()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    let runtime = runtime.map_err(BenchError::Runtime)?;
    let bar = progress_bar(options.progress, CASES * u64::from(options.runs));
    let mut session = Session { options, runtime, bar };
    let mut report = session.begin()?;
    for _ in 0..options.runs {
        session.run(&mut report)?;
    }
    session.bar.finish_and_clear();
    report.goals = goals(&report);
    Ok(report)
}

struct Session<'a> {
    options: &'a SharedOptions,
    runtime: Runtime,
    bar: ProgressBar,
}

impl Session<'_> {
    /// What the server promises, found out in a database that nothing else happens in.
    fn begin(&self) -> Result<SharedReport, BenchError> {
        let mut town = Town::found(&self.options.store, false)?;
        let SharedOptions { seconds, history, callers, sizes, .. } = *self.options;
        Ok(SharedReport {
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::of(std::path::Path::new(".")),
            load_average: load_average(),
            promises: town.promises()?,
            sees_postgres: town.sees_postgres(),
            nodes: NODES,
            seconds,
            history,
            callers,
            wallets: sizes.wallets,
            tokens: sizes.tokens,
            inputs: sizes.inputs,
            requests: sizes.requests,
            speeds: Vec::new(),
            half_loads: Vec::new(),
            shortages: Vec::new(),
            neighbours: Vec::new(),
            goals: Vec::new(),
        })
    }

    fn run(&mut self, report: &mut SharedReport) -> Result<(), BenchError> {
        let lazy = OneInput { brief: true, compared: None };
        let found = self.play("one input, sherdlock, lazy", Engine::Sherdlock(Reading::Lazy), &lazy)?;
        report.speeds.push(found.peak);
        let mut compared = None;
        for (what, engine) in [
            ("one input, sherdlock", Engine::Sherdlock(Reading::Mixed)),
            ("one input, Holdfast", Engine::Holdfast),
        ] {
            let found = self.play(what, engine, &OneInput { brief: false, compared })?;
            compared = Some(found.peak.half_rate());
            report.speeds.push(found.peak);
            report.half_loads.extend(found.half);
            report.shortages.extend(found.shortage);
            report.neighbours.extend(found.neighbours);
        }
        for (what, engine) in [
            ("many inputs, sherdlock", Engine::Sherdlock(Reading::Mixed)),
            ("many inputs, Holdfast", Engine::Holdfast),
        ] {
            let found: Speed = self.play(what, engine, &ManyInputs)?;
            report.speeds.push(found);
        }
        for (what, engine) in [
            ("one hot token, sherdlock", Engine::Sherdlock(Reading::Mixed)),
            ("one hot token, Holdfast", Engine::Holdfast),
        ] {
            report.speeds.push(self.play(what, engine, &HotToken)?);
        }
        Ok(())
    }

    /// One case in a database of its own.
    fn play<C: Case>(&self, what: &'static str, engine: Engine, case: &C) -> Result<C::Found, BenchError> {
        self.bar.set_message(what);
        self.bar.tick();
        let town = Town::found(&self.options.store, self.options.keep)?;
        let found = play_in(town, self.options, &self.runtime, engine, case);
        self.bar.inc(1);
        found
    }
}

fn play_in<C: Case>(
    mut town: Town,
    options: &SharedOptions,
    runtime: &Runtime,
    engine: Engine,
    case: &C,
) -> Result<C::Found, BenchError> {
    if let Engine::Sherdlock(_) = engine {
        town.add_sherdlock()?;
    }
    fill(&mut town, case, options)?;
    let url = town.url.clone();
    let mut stage = Stage { options, runtime, town };
    match engine {
        Engine::Holdfast => {
            let history = Duration::from_secs(options.history);
            stage.play(&Vaults::start(&url, NODES, C::WAIT_MS, history)?, case)
        }
        Engine::Sherdlock(reading) => {
            let started = runtime.block_on(Sherdlocks::start(&url, NODES, reading));
            stage.play(&started.map_err(BenchError::database("connect sherdlock's nodes"))?, case)
        }
    }
}

#[cfg(test)]
pub(super) mod for_tests {
    use super::*;

    /// Both algorithms through a case, each in the database of its name.
    pub(crate) fn both<C: Case>(
        urls: [&str; 2],
        options: &SharedOptions,
        case: &C,
    ) -> Result<[C::Found; 2], BenchError> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtime = runtime.map_err(BenchError::Runtime)?;
        let play =
            |url: &str, engine| play_in(Town::on(url.to_owned(), None)?, options, &runtime, engine, case);
        Ok([play(urls[0], Engine::Holdfast)?, play(urls[1], Engine::Sherdlock(Reading::Mixed))?])
    }
}
