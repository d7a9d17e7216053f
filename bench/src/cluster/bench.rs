//! What is measured, in which order: payments by any payer and by one hot payer in turn, half load, the books, the floor of
//! their rows, the position handler alone; and if asked for, the costs of a payment among few and among many.

use std::path::Path;

use holdfast_client::{Client, ClientOptions};
use holdfast_postgres::DataSet;
use indicatif::ProgressBar;
use tokio::runtime::Runtime;

use super::costs::{Costs, Watched};
use super::floor::Floor;
use super::goals::goals;
use super::options::{ClusterOptions, SHALLOW};
use super::report::{ClusterReport, Depth, FloorReport, PositionReport, Run};
use super::town::Town;
use crate::BenchError;
use crate::bench::{Directory, progress_bar};
use crate::drive::{Driven, Material, drive};
use crate::expiry::node::{BATCH, Node};
use crate::expiry::place::Place;
use crate::load::{LoadReport, load_transfers};
use crate::machine::{Machine, load_average};
use crate::meter::Counters;
use crate::options::{CALL_DEADLINE, Case, IN_FLIGHT_MAX, LoadOptions, Pace, Payers, Way};
use crate::payments::{Parties, Payments};
use crate::report::{Percentiles, median, per};

/// The slowest rate for which expirations are planned.
const PAYMENTS_PER_SECOND_MIN: u64 = 500;
/// Payments before the clock first runs: connections are made, plans settled, pages in memory.
const WARM_UP: u64 = 10_000;
/// Connections of half load: so many that a call hardly waits for one, so few that requests still gather.
const HALF_CONNECTIONS: usize = 16;
/// Calls of half load under way at most.
const HALF_IN_FLIGHT: usize = 8_192;
/// Accounts of half load at most: each takes three steps to make.
const HALF_ACCOUNTS_MAX: u32 = 200;
/// Writings of the floor; the median is the figure.
const FLOOR_RUNS: usize = 3;
/// Payments by which the position handler alone is measured, and those before.
const POSITION_PAYMENTS: u64 = 40_000;
const POSITION_WARM_UP: u64 = 5_000;
/// How long a payment of that part could wait, in milliseconds: longer than it takes.
const POSITION_LIFE_MS: i64 = 600_000;
/// Open holds of a filled history run out so many hours from now: not while anybody measures.
const FILL_HOURS: (u32, u32) = (24, 168);

/// The topics whose handlers are told of.
const HOPS: [&str; 3] = ["transfers", "position", "notifications"];

/// Runs what the options ask for.
///
/// # Errors
/// If a server is not there or promises nothing, a payment is not settled, or the books do not balance.
pub fn bench_cluster(options: &ClusterOptions) -> Result<ClusterReport, BenchError> {
    options.check()?;
    let directory = Directory::open(None)?;
    let bar = progress_bar(options.progress, u64::from(2 * options.runs) + 4);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(BenchError::Runtime)?;
    let made = Town::found(&options.ground(), directory.path());
    let town =
        made.inspect_err(|_| eprintln!("the node's messages are in {}", directory.path().display()))?;
    let mut run = Session::open(options, town, &runtime, bar)?;
    let report = run.measure(directory.path());
    let kept = options.keep || report.is_err();
    run.bar.finish_and_clear();
    drop(run);
    directory.close(kept)?;
    let mut report = report?;
    report.goals = goals(&report);
    Ok(report)
}

struct Session<'a> {
    options: &'a ClusterOptions,
    town: Town,
    runtime: &'a Runtime,
    client: Client,
    parties: Parties,
    watched: Watched,
    bar: ProgressBar,
    /// Every drive has payments of its own.
    drives: u64,
    payments: u64,
}

impl<'a> Session<'a> {
    fn open(
        options: &'a ClusterOptions,
        mut town: Town,
        runtime: &'a Runtime,
        bar: ProgressBar,
    ) -> Result<Session<'a>, BenchError> {
        bar.set_message("participants");
        bar.tick();
        let client = runtime.block_on(Client::connect(ClientOptions {
            connections: options.connections,
            calls_max: IN_FLIGHT_MAX,
            deadline: CALL_DEADLINE,
            attempt_max: CALL_DEADLINE,
            ..ClientOptions::to(town.address())
        }));
        let client = client.map_err(BenchError::client("connecting to the node"))?;
        let parties = runtime.block_on(Parties::create(&client, options.seed, options.accounts))?;
        let watched = {
            let (pid, prefix) = (town.pid(), town.topics().prefix.clone());
            Watched::find(pid, &mut town.client, &options.log, &prefix)?
        };
        Ok(Session { options, town, runtime, client, parties, watched, bar, drives: 0, payments: 0 })
    }

    fn say(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
        self.bar.tick();
    }

    fn measure(&mut self, directory: &Path) -> Result<ClusterReport, BenchError> {
        self.say("warming up");
        self.drive(Payers::Uniform, WARM_UP)?;
        let mut runs = Vec::new();
        for _ in 0..self.options.runs {
            for payers in [Payers::Uniform, Payers::Hot] {
                self.say(match payers {
                    Payers::Uniform => "payments by any payer",
                    Payers::Hot => "payments by one hot payer",
                });
                runs.push(self.run(payers)?);
                self.bar.inc(1);
            }
        }
        let uniform = runs.iter().filter(|run| run.payers == Payers::Uniform);
        let rate = median(&uniform.map(|run| run.payments_per_second).collect::<Vec<_>>());
        self.say("half load");
        let half_load = self.half_load(rate)?;
        self.bar.inc(1);
        let depths = self.depths()?;
        self.bar.inc(1);
        // Nobody else may be at work while a part is measured alone.
        self.town.close_node()?;
        self.books()?;
        self.say("the floor");
        let floor = self.floor()?;
        self.bar.inc(1);
        self.say("the position handler alone");
        let position = self.position()?;
        self.bar.inc(1);
        let ClusterOptions { accounts, partitions, batch, connections, payments, .. } = *self.options;
        Ok(ClusterReport {
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::of(directory),
            promises: self.town.promises.clone(),
            accounts,
            partitions,
            batch,
            connections,
            payments,
            sees_all: self.watched.sees_all(),
            runs,
            floor,
            position,
            half_load,
            depths,
            goals: Vec::new(),
        })
    }

    /// Payments as fast as they go, and what they cost.
    fn drive(&mut self, payers: Payers, payments: u64) -> Result<(Driven, Costs), BenchError> {
        self.drives += 1;
        let case = Case {
            way: Way::Batches { records: self.options.batch },
            payers,
            connections: self.options.connections,
            payments,
        };
        let seed = crate::payments::mix(self.options.seed, self.drives);
        let series = Payments::new(self.parties.clone(), payers, seed);
        let material = Material::make(&case, series, PAYMENTS_PER_SECOND_MIN)?;
        let counters = self.runtime.block_on(Counters::read(&self.client))?;
        let before = self.watched.read(&mut self.town.client, counters)?;
        let driven = self.runtime.block_on(drive(&case, self.client.clone(), material))?;
        let counters = self.runtime.block_on(Counters::read(&self.client))?;
        let after = self.watched.read(&mut self.town.client, counters)?;
        self.payments += payments;
        Ok((driven, self.watched.costs(&before, &after, payments, &HOPS)))
    }

    fn run(&mut self, payers: Payers) -> Result<Run, BenchError> {
        let payments = self.options.payments;
        let (driven, costs) = self.drive(payers, payments)?;
        Ok(Run {
            payers,
            seconds: driven.took.as_secs_f64(),
            payments_per_second: rate_of(payments, &driven),
            prepare_us: Percentiles::of(&driven.prepare_us),
            fulfil_us: Percentiles::of(&driven.fulfil_us),
            costs,
            load_average: load_average(),
        })
    }

    /// Single payments at their own places in time, at half of what goes.
    fn half_load(&mut self, rate: f64) -> Result<LoadReport, BenchError> {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate is small and positive"
        )]
        let half = ((rate / 2.0) as u64).max(1);
        let end = load_transfers(&LoadOptions {
            address: self.town.address().to_owned(),
            api_key: None,
            pace: Pace::Open { rate: half },
            in_flight: HALF_IN_FLIGHT,
            connections: HALF_CONNECTIONS,
            seconds: Some(self.options.half_seconds),
            payments: None,
            abort_percent: 0,
            expire_percent: 0,
            accounts: self.options.accounts.min(HALF_ACCOUNTS_MAX),
            seed: !self.options.seed,
            progress: false,
        })?;
        if let Some(trouble) = end.trouble {
            return Err(trouble);
        }
        let report = end.report;
        if report.settled != report.payments {
            let LoadReport { payments, settled, refused, errors, .. } = &report;
            return Err(BenchError::Refused(format!(
                "of {payments} payments at half load {settled} were settled; refused: {refused:?}; unknown: {errors:?}"
            )));
        }
        self.payments += report.payments;
        Ok(report)
    }

    /// All payments are there, and every account and record agrees with its rows.
    fn books(&mut self) -> Result<(), BenchError> {
        self.say("the books");
        // Those of a filled history belong to accounts of its own.
        let committed = self.town.number(
            "SELECT count(*) FROM transfer t JOIN participant p ON p.participant_id = t.payer_id
             WHERE t.current_state = 5 AND p.name NOT LIKE 'generated%'",
        )?;
        if committed != self.payments {
            return Err(BenchError::Books(format!(
                "{committed} committed where {} were paid",
                self.payments
            )));
        }
        let unsent =
            self.town.number("SELECT coalesce(sum(outbox_next - outbox_sent), 0)::bigint FROM segment")?;
        if unsent > 0 {
            return Err(BenchError::Books(format!("{unsent} messages were not sent")));
        }
        let verified = self.town.store()?.verify()?;
        match verified.findings.first() {
            Some(finding) => Err(BenchError::Books(format!("{}: {}", finding.table, finding.what))),
            None => Ok(()),
        }
    }

    fn floor(&mut self) -> Result<FloorReport, BenchError> {
        let mut reader = self.town.place.client()?;
        let floor = Floor::take(&mut reader, self.options.payments, self.options.batch)?;
        drop(reader);
        let mut payments_per_second = Vec::new();
        for _ in 0..FLOOR_RUNS {
            self.town.execute("write what is dirty", "CHECKPOINT")?;
            payments_per_second.push(floor.write(&self.options.store, 1)?);
        }
        self.town.execute("write what is dirty", "CHECKPOINT")?;
        let two_connections = floor.write(&self.options.store, 2)?;
        Ok(FloorReport { payments_per_second, two_connections })
    }

    fn position(&mut self) -> Result<PositionReport, BenchError> {
        let place = Place::create_second(&self.options.store)?;
        let mut node = Node::open(&place.url)?;
        node.pay(POSITION_WARM_UP, POSITION_LIFE_MS, |_| ())?;
        node.positions = (0, std::time::Duration::ZERO);
        node.pay(POSITION_PAYMENTS, POSITION_LIFE_MS, |_| ())?;
        let (messages, took) = node.positions;
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        Ok(PositionReport {
            messages,
            messages_per_batch: BATCH,
            messages_per_second: per(messages, micros) * 1e6,
        })
    }

    /// What payments cost among [`SHALLOW`] transfers and among as many as were asked for.
    fn depths(&mut self) -> Result<Vec<Depth>, BenchError> {
        let Some(deep) = self.options.depth else { return Ok(Vec::new()) };
        let mut depths = Vec::new();
        for transfers in [SHALLOW, deep] {
            self.fill(transfers)?;
            self.say(format!("payments among {transfers}"));
            self.drive(Payers::Uniform, WARM_UP)?;
            // A page's first change after a checkpoint is logged whole: both begin right after one.
            self.town.execute("write what is dirty", "CHECKPOINT")?;
            let found = self.town.number("SELECT count(*) FROM transfer")?;
            let payments = self.options.payments;
            let (driven, costs) = self.drive(Payers::Uniform, payments)?;
            depths.push(Depth { transfers: found, payments_per_second: rate_of(payments, &driven), costs });
        }
        Ok(depths)
    }

    fn fill(&mut self, transfers: u64) -> Result<(), BenchError> {
        let there = self.town.number("SELECT count(*) FROM transfer")?;
        if there < transfers {
            let (bar, total) = (self.bar.clone(), transfers - there);
            let data = DataSet { total, expired: 0, hours: FILL_HOURS, ..DataSet::default() };
            self.town.store()?.generate(&data, |done| {
                bar.set_message(format!("filling: {} of {transfers} transfers", there + done));
                bar.tick();
            })?;
        }
        // As a server that has grown slowly would have done by itself, and not while the clock runs.
        self.town.execute("tidy up", "VACUUM (ANALYZE)")
    }
}

fn rate_of(payments: u64, driven: &Driven) -> f64 {
    per(payments, u64::try_from(driven.took.as_micros()).unwrap_or(u64::MAX)) * 1e6
}
