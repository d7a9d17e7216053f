//! Tokens that several nodes select from in one PostgreSQL, and beside them, in the same run and on the same table, the
//! algorithm of sherdlock.
//!
//! All nodes and all callers are in this process; every answer comes after PostgreSQL has it on its disk. Every case has a
//! database of its own, which is removed again, and ends with the books: what is not spent is worth what was issued. Each case
//! is measured by sherdlock and then by Holdfast, so that both stand in the same minutes.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `node` | what both can do; Holdfast's vaults |
//! | `sherdlock` | the other algorithm |
//! | `town` | a database of a case's own, its tokens, the books |
//! | `drive` | rounds of select and spend over all nodes |
//! | `neighbour` | whoever else uses the table of tokens |
//! | `cases` | one input, a hundred, one hot token |

mod cases;
mod drive;
mod neighbour;
mod node;
mod sherdlock;
#[cfg(test)]
mod tests;
mod town;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use holdfast_database::tokens::limits::HISTORY;
use holdfast_load::LoadError;
use holdfast_load::bar::Bar;
use holdfast_load::figures::{median_of, per};
use holdfast_load::options::{RUNS_MAX, check_range};
use holdfast_load::report::{Report, Row};
use tokio::runtime::Runtime;

use self::cases::{Case, Shape, Stage, fill};
use self::drive::Driven;
use self::node::{Claims, HOLDFAST, SHERDLOCK, SHERDLOCK_LAZY, Vaults};
use self::sherdlock::{Reading, Sherdlocks};
use self::town::Town;
use crate::database::costs::Costs;
use crate::database::half;
use crate::database::own::OwnDatabase;

/// Nodes that share the tokens.
const NODES: usize = 3;
/// The longest that a case is driven: payments go to and fro at random, and in the end a wallet would run dry by chance.
const SECONDS_MAX: u64 = 300;
/// For how long what was spent is kept, in seconds, where nothing else is said: as a node does. Within a case none of it is
/// removed then.
const HISTORY_DEFAULT: u64 = HISTORY.as_secs();
/// Rounds under way at once at half load, at most: nobody waits for a place.
const HALF_CALLERS: usize = 2_048;
/// Cases of one run, for the bar.
const CASES: u64 = 7;
/// Threads of callers and of what the nodes do for them; the machine's other work is PostgreSQL's.
const THREADS: usize = 2;

/// Selecting and spending tokens by three nodes on one PostgreSQL, beside sherdlock's algorithm on the same table.
///
/// Databases are the run's own and are removed again: one input, many inputs, one hot token, half load, a plain shortage, and
/// what others at the table feel.
#[derive(Debug, Clone, clap::Args)]
pub struct TokensBench {
    /// PostgreSQL, such as postgres://user@host/database; its user must be able to create databases
    #[arg(long, value_name = "URL", env = "HOLDFAST_STORE")]
    store: String,
    /// How long each case is driven
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// Runs of all cases; the median is the figure
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// Rounds under way at once
    #[arg(long, default_value_t = 128)]
    callers: usize,
    /// After how many seconds what was spent is removed; with a few, as much is removed as is spent
    #[arg(long, value_name = "SECONDS", default_value_t = HISTORY_DEFAULT)]
    history: u64,
    /// Leave the databases there: only the last has not been replaced by another
    #[arg(long)]
    keep: bool,
    /// From where wallets come
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(skip)]
    sizes: Sizes,
}

/// The sizes of the cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    /// One input: wallets.
    wallets: u32,
    /// One input: tokens of each.
    tokens: u32,
    /// Many inputs: wallets.
    many_wallets: u32,
    /// Many inputs: tokens of value 1 in each.
    many_tokens: u32,
    /// Many inputs: how many.
    inputs: u32,
    /// One hot token: requests at each node.
    requests: u64,
    /// Rounds before the clock runs.
    warm_up: u64,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes {
            wallets: 1_000,
            tokens: 200,
            many_wallets: 100,
            many_tokens: 3_000,
            inputs: 100,
            requests: 100,
            warm_up: 300,
        }
    }
}

impl TokensBench {
    fn check(&self) -> Result<(), LoadError> {
        check_range("--seconds", self.seconds, 1, SECONDS_MAX)?;
        check_range("--runs", self.runs.into(), 1, RUNS_MAX.into())?;
        check_range("--callers", self.callers as u64, 1, 4_096)?;
        check_range("--history", self.history, 1, 3_600)
    }

    const fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

/// Who is measured.
#[derive(Debug, Clone, Copy)]
enum Engine {
    Holdfast,
    Sherdlock(Reading),
}

impl Engine {
    const fn name(self) -> &'static str {
        match self {
            Engine::Holdfast => HOLDFAST,
            Engine::Sherdlock(Reading::Mixed) => SHERDLOCK,
            Engine::Sherdlock(Reading::Lazy) => SHERDLOCK_LAZY,
        }
    }
}

/// A stretch of rounds: each a select and a spend.
pub(crate) struct Speed {
    engine: &'static str,
    shape: Shape,
    /// Rounds per second that began at their own places in time; `None`: as fast as it goes.
    rate: Option<u64>,
    driven: Driven,
    costs: Costs,
    load_average: String,
}

impl Speed {
    const fn per_second(&self) -> f64 {
        self.driven.rounds_per_second
    }

    fn inputs(&self) -> f64 {
        per(self.driven.tally.inputs, self.driven.tally.selections)
    }

    fn row(&self) -> Row {
        Row::of("shape", self.shape.name()).word("engine", self.engine)
    }

    fn speed(&self, rates: &[f64]) -> Row {
        let refused: Vec<String> =
            self.driven.tally.refused.iter().map(|(name, count)| format!("{count} {name}")).collect();
        self.row()
            .count("rounds", self.driven.tally.done)
            .number("rounds/s", self.per_second(), 0)
            .each("every run", rates, 0)
            .number("inputs", self.inputs(), 2)
            .latency(&self.driven.tally.round_us.percentiles())
            .word("refused", refused.join(", "))
    }

    /// Claims are those of whole requests at Holdfast, of single tokens at sherdlock.
    fn cost(&self) -> Row {
        let Claims { tried, lost, statements } = self.driven.claims;
        self.row()
            .and(self.costs.row_of_one_process())
            .number("statements", per(statements, self.driven.tally.done), 2)
            .count("claims", tried)
            .count("lost", lost)
            .number("lost %", 100.0 * per(lost, tried), 1)
            .word("load", &self.load_average)
    }

    fn parts(&self) -> [Row; 3] {
        let tally = &self.driven.tally;
        let parts = [("round", &tally.round_us), ("select", &tally.select_us), ("spend", &tally.second_us)];
        parts.map(|(part, latency)| {
            let row =
                Row::of("engine", self.engine).word("of one", part).count("rounds/s", self.rate.unwrap_or(0));
            row.latency(&latency.percentiles())
        })
    }
}

/// Runs what the options ask for.
///
/// # Errors
/// If the server is not there or promises nothing, Holdfast refuses what it must not, or the books do not balance.
pub fn bench_tokens(options: &TokensBench) -> anyhow::Result<Report> {
    options.check()?;
    let bar = Bar::of(CASES * u64::from(options.runs));
    let session = Session { options, runtime: runtime()?, bar };
    let Sizes { wallets, tokens, requests, inputs, .. } = options.sizes;
    let title = format!(
        "select and spend, {NODES} nodes, {} callers, {} s each, what was spent is kept for {} s; one input from {wallets} \
         wallets with {tokens} tokens; many inputs: {inputs}; one hot token: {requests} requests at each node at once",
        options.callers, options.seconds, options.history
    );
    let mut report = Report::measured(title, Path::new("."));
    let sees_postgres = session.promises(&mut report)?;
    let mut found = Found::default();
    for _ in 0..options.runs {
        session.run(&mut found)?;
    }
    session.bar.clear();
    found.tell(&mut report, sees_postgres);
    Ok(report)
}

fn runtime() -> anyhow::Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    runtime.context("cannot start the runtime of nodes and callers")
}

/// Everything that was found in all runs.
#[derive(Default)]
struct Found {
    speeds: Vec<Speed>,
    half_loads: Vec<Speed>,
    beside: Vec<Row>,
}

impl Found {
    fn tell(&self, report: &mut Report, sees_postgres: bool) {
        let (mut speed, mut costs) = (Vec::new(), Vec::new());
        for shape in [Shape::OneInput, Shape::ManyInputs, Shape::HotToken] {
            for engine in [HOLDFAST, SHERDLOCK, SHERDLOCK_LAZY] {
                let is_it = |run: &&Speed| run.engine == engine && run.shape == shape;
                let runs: Vec<&Speed> = self.speeds.iter().filter(is_it).collect();
                let Some(median) = median_of(&runs, |run| run.per_second()) else { continue };
                let rates: Vec<f64> = runs.iter().map(|run| run.per_second()).collect();
                speed.push(median.speed(&rates));
                costs.push(median.cost());
            }
        }
        report.table("milliseconds of a round:", speed);
        let unseen =
            if sees_postgres { "" } else { " (0 for PostgreSQL, which cannot be looked into from here)" };
        report.table(
            format!("per round; microseconds of CPU{unseen}, bytes, MiB; what lost a claim to another, of all claims:"),
            costs,
        );
        report.table(
            "half load, one input, rounds at their own places in time; milliseconds:",
            self.half_loads.iter().flat_map(Speed::parts),
        );
        report.table("other things; milliseconds:", self.beside.clone());
    }
}

struct Session<'a> {
    options: &'a TokensBench,
    runtime: Runtime,
    bar: Bar,
}

impl Session<'_> {
    /// What the server promises, found out in a database that nothing else happens in; whether its CPU can be read.
    fn promises(&self, report: &mut Report) -> anyhow::Result<bool> {
        let mut town = Town::found(OwnDatabase::create(&self.options.store, false)?)?;
        report.note(format!("{}; nodes, callers and PostgreSQL on this machine", town.place.promises()?));
        Ok(town.watched.sees_postgres())
    }

    fn run(&self, found: &mut Found) -> anyhow::Result<()> {
        let (mixed, lazy) = (Engine::Sherdlock(Reading::Mixed), Engine::Sherdlock(Reading::Lazy));
        found.speeds.push(self.play(lazy, Case::peak(Shape::OneInput))?.peak);
        let mut compared = None;
        for engine in [mixed, Engine::Holdfast] {
            let one = self.play(engine, Case { shape: Shape::OneInput, is_whole: true, compared })?;
            compared = Some(half(one.peak.per_second()));
            found.speeds.push(one.peak);
            found.half_loads.extend(one.half);
            found.beside.extend(one.beside);
        }
        for shape in [Shape::ManyInputs, Shape::HotToken] {
            for engine in [mixed, Engine::Holdfast] {
                found.speeds.push(self.play(engine, Case::peak(shape))?.peak);
            }
        }
        Ok(())
    }

    /// One case in a database of its own.
    fn play(&self, engine: Engine, case: Case) -> anyhow::Result<cases::Found> {
        self.bar.next(format!("{}, {}", case.shape.name(), engine.name()));
        let place = OwnDatabase::create(&self.options.store, self.options.keep)?;
        play_in(place, self.options, &self.runtime, engine, case)
    }
}

fn play_in(
    place: OwnDatabase,
    options: &TokensBench,
    runtime: &Runtime,
    engine: Engine,
    case: Case,
) -> anyhow::Result<cases::Found> {
    let mut town = Town::found(place)?;
    if let Engine::Sherdlock(_) = engine {
        town.place.execute("make sherdlock's tables", sherdlock::TABLES)?;
    }
    fill(&mut town, case.shape, options.sizes)?;
    let url = town.place.url.clone();
    let mut stage = Stage { options, runtime, town, engine: engine.name() };
    match engine {
        Engine::Holdfast => {
            let history = Duration::from_secs(options.history);
            stage.play(&Vaults::start(&url, NODES, case.shape.wait_ms(), history)?, case)
        }
        Engine::Sherdlock(reading) => {
            let started = runtime.block_on(Sherdlocks::start(&url, NODES, reading));
            stage.play(&started.context("cannot connect sherdlock's nodes")?, case)
        }
    }
}
