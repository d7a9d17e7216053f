//! Payments through all hops of a node before a real Kafka and PostgreSQL, and beside them, in the same run, the bare rows that
//! are left of them.
//!
//! Payments by any payer and by one hot payer in turn, half load, the books, the floor of their rows, the position handler
//! alone; and if asked for, the costs of a payment among few and among many.

mod floor;

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use holdfast_client::options::BATCH_RECORDS_MAX;
use holdfast_load::bar::Bar;
use holdfast_load::bench::{Case, Run, tell};
use holdfast_load::drive::{self, Material, Way};
use holdfast_load::figures::{median, per_second};
use holdfast_load::machine::load_average;
use holdfast_load::options::{
    ACCOUNTS_DEFAULT, ACCOUNTS_MAX, CONNECTIONS_MAX, Hub, Pacing, RUNS_DEFAULT, RUNS_MAX, check_range,
    parse_count,
};
use holdfast_load::payments::{Parties, Payers, Payments, mix};
use holdfast_load::report::{Report, Row, grouped, grouped_count};
use holdfast_load::transfers::{TransferLoad, load_transfers};
use holdfast_load::{LoadError, Loaded};
use holdfast_postgres::DataSet;

use crate::database::costs::Costs;
use crate::database::handlers::{BATCH, Handlers};
use crate::database::own::OwnDatabase;
use crate::database::town::Town;
use crate::database::{Servers, half};
use floor::Floor;

/// The size from which growth is measured.
const SHALLOW: u64 = 500_000;
/// The most transfers that growth is measured at.
const DEPTH_MAX: u64 = 50_000_000;
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
/// Who pays, and what that is called.
const BOTH: [(Payers, &str); 2] = [(Payers::Uniform, "any payer"), (Payers::Hot, "one hot payer")];

/// Two-phase payments through a node before Kafka and PostgreSQL, and the bare rows as their floor.
///
/// Topics and databases are the run's own and are removed again: payments in batches through all hops, one hot payer, half
/// load, the bare rows, the position handler alone, and with --depth the costs of a payment among 0.5 and among so many million.
#[derive(Debug, Clone, clap::Args)]
pub struct TransfersBench {
    #[command(flatten)]
    servers: Servers,
    /// Payments of each run
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "100k")]
    payments: u64,
    /// Runs; the median is the figure
    #[arg(long, default_value_t = RUNS_DEFAULT)]
    runs: u32,
    /// Records per request, and payments per commit of the floor
    #[arg(long, default_value_t = 1_000)]
    batch: usize,
    /// Requests under way at once
    #[arg(long, default_value_t = 12)]
    connections: usize,
    /// Accounts that payments are spread over
    #[arg(long, default_value_t = ACCOUNTS_DEFAULT)]
    accounts: u32,
    /// Also measure what a payment costs among 500k and among so many transfers, such as 5m
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    depth: Option<u64>,
    /// From where names and amounts come
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl TransfersBench {
    fn check(&self) -> Result<(), LoadError> {
        self.servers.check()?;
        // Their bodies are kept in memory.
        check_range("--payments", self.payments, 1_000, 5_000_000)?;
        check_range("--runs", self.runs.into(), 1, RUNS_MAX.into())?;
        check_range("--batch", self.batch as u64, 1, BATCH_RECORDS_MAX as u64)?;
        check_range("--connections", self.connections as u64, 1, CONNECTIONS_MAX as u64)?;
        check_range("--accounts", self.accounts.into(), 2, ACCOUNTS_MAX.into())?;
        check_range("--depth", self.depth.unwrap_or(DEPTH_MAX), 2 * SHALLOW, DEPTH_MAX)
    }
}

/// Runs what the options ask for with this program.
///
/// # Errors
/// If a server is not there or promises nothing, a payment is not settled, or the books do not balance.
pub fn bench_transfers(program: &Path, options: &TransfersBench) -> anyhow::Result<Report> {
    options.check()?;
    options.servers.measure(|directory| {
        let mut town = Town::lay_out(&options.servers)?;
        town.open_node(program, &options.servers, directory, options.connections)?;
        let client = town.client()?;
        let parties = town.runtime.block_on(Parties::create(&client, options.seed, options.accounts))?;
        let bar = Bar::of(u64::from(2 * options.runs) + 4);
        let mut session = Session { options, town, parties, bar, drives: 0, payments: 0 };
        let report = session.measure(directory);
        session.bar.clear();
        report
    })
}

struct Session<'a> {
    options: &'a TransfersBench,
    town: Town,
    parties: Parties,
    bar: Bar,
    /// Every drive has payments of its own.
    drives: u64,
    payments: u64,
}

impl Session<'_> {
    fn measure(&mut self, directory: &Path) -> anyhow::Result<Report> {
        let TransfersBench { payments, accounts, batch, connections, .. } = *self.options;
        let title = format!(
            "two-phase payments through all hops, {} per run, {accounts} accounts, requests of {batch}, {connections} under way",
            grouped_count(payments)
        );
        let mut report = Report::measured(title, directory);
        report.note(self.town.promises.clone());
        self.bar.next("warming up");
        self.drive(Payers::Uniform, WARM_UP)?;
        let mut runs = BOTH.map(|_| Vec::new());
        for _ in 0..self.options.runs {
            for ((payers, name), runs) in BOTH.into_iter().zip(&mut runs) {
                self.bar.next(format!("payments by {name}"));
                runs.push(self.drive(payers, payments)?.0);
            }
        }
        let cases: Vec<Case> = BOTH.iter().zip(runs).map(|((_, name), runs)| Case::of(*name, runs)).collect();
        tell(&mut report, "payments", "of a request", &cases);
        self.town.note_unseen(&mut report);
        let rate = cases[0].median_rate();
        self.bar.next("half load");
        report.append(self.half_load(rate)?);
        self.depths(&mut report)?;
        // Nobody else may be at work while a part is measured alone.
        self.town.close_node()?;
        self.books()?;
        self.bar.next("the floor");
        self.floor(&mut report, rate)?;
        self.bar.next("the position handler alone");
        report.note(self.position()?);
        Ok(report)
    }

    /// Payments as fast as they go, and what they cost.
    fn drive(&mut self, payers: Payers, payments: u64) -> anyhow::Result<(Run, Costs)> {
        self.drives += 1;
        let TransfersBench { batch: records, connections, seed, .. } = *self.options;
        let case = drive::Case { way: Way::Batches { records }, payers, connections, payments };
        let series = Payments::new(self.parties.clone(), payers, mix(seed, self.drives));
        let material = Material::make(&case, series, PAYMENTS_PER_SECOND_MIN)?;
        let driving = drive::drive(&case, self.town.client()?, material);
        let (driven, costs) = self.town.measure(payments, &HOPS, driving)?;
        self.payments += payments;
        let run = Run {
            took: driven.took,
            rounds: payments,
            latencies: vec![
                ("prepares", driven.prepare.percentiles()),
                ("fulfils", driven.fulfil.percentiles()),
            ],
            costs: costs.row().word("load", load_average()),
            handlers: costs.hops.clone(),
            ..Run::default()
        };
        Ok((run, costs))
    }

    /// Single payments at their own places in time, at half of what goes.
    fn half_load(&mut self, rate: f64) -> anyhow::Result<Report> {
        let seconds = Some(self.options.servers.half_seconds);
        let Loaded { report, wrong } = load_transfers(&TransferLoad {
            hub: Hub::at(self.town.address()),
            pacing: Pacing { rate: Some(half(rate)), in_flight: HALF_IN_FLIGHT, seconds, quiet: true },
            payments: None,
            connections: HALF_CONNECTIONS,
            abort_percent: 0,
            expire_percent: 0,
            accounts: self.options.accounts.min(HALF_ACCOUNTS_MAX),
            seed: Some(!self.options.seed),
        })?;
        wrong.map_or(Ok(()), Err)?;
        let payments = report.get("payments");
        ensure!(payments == report.get("settled"), "not all payments at half load were settled: {report}");
        self.payments += payments.as_u64().unwrap_or(0);
        Ok(report)
    }

    /// All payments are there, and every account and record agrees with its rows.
    fn books(&mut self) -> anyhow::Result<()> {
        self.bar.next("the books");
        // Those of a filled history belong to accounts of its own.
        let committed = self.town.place.number(
            "SELECT count(*) FROM transfer t JOIN participant p ON p.participant_id = t.payer_id
             WHERE t.current_state = 5 AND p.name NOT LIKE 'generated%'",
        )?;
        let paid = self.payments;
        ensure!(committed == paid, "the books do not balance: {committed} committed where {paid} were paid");
        let unsent = "SELECT coalesce(sum(outbox_next - outbox_sent), 0)::bigint FROM segment";
        let unsent = self.town.place.number(unsent)?;
        ensure!(unsent == 0, "the books do not balance: {unsent} messages were not sent");
        self.town.place.verify()
    }

    fn floor(&mut self, report: &mut Report, rate: f64) -> anyhow::Result<()> {
        let TransfersBench { payments, batch, ref servers, .. } = *self.options;
        let floor = Floor::take(&mut self.town.place.connect()?, payments, batch)?;
        let mut rates = Vec::new();
        for _ in 0..FLOOR_RUNS {
            self.town.place.checkpoint()?;
            rates.push(floor.write(&servers.store, 1)?);
        }
        self.town.place.checkpoint()?;
        let two = floor.write(&servers.store, 2)?;
        let row = Row::default()
            .number("payments/s", median(&rates), 0)
            .each("every run", &rates, 0)
            .number("on two connections", two, 0)
            .number("payments through all hops, %", 100.0 * rate / median(&rates).max(f64::MIN_POSITIVE), 1);
        report.table(format!("the floor, final rows alone by COPY, {batch} payments per commit:"), [row]);
        Ok(())
    }

    fn position(&self) -> anyhow::Result<String> {
        let place = OwnDatabase::create_second(&self.options.servers.store)?;
        let mut handlers = Handlers::open(&place.url)?;
        handlers.pay(POSITION_WARM_UP, POSITION_LIFE_MS, |_| ())?;
        handlers.positions = (0, Duration::ZERO);
        handlers.pay(POSITION_PAYMENTS, POSITION_LIFE_MS, |_| ())?;
        let (messages, took) = handlers.positions;
        Ok(format!(
            "the position handler alone, batches of {BATCH}: {} messages/s over {} messages",
            grouped(per_second(messages, took), 0),
            grouped_count(messages)
        ))
    }

    /// What payments cost among [`SHALLOW`] transfers and among as many as were asked for.
    fn depths(&mut self, report: &mut Report) -> anyhow::Result<()> {
        let Some(deep) = self.options.depth else { return Ok(()) };
        let (mut rows, mut costs) = (Vec::new(), Vec::new());
        for transfers in [SHALLOW, deep] {
            self.fill(transfers)?;
            self.bar.next(format!("payments among {transfers}"));
            self.drive(Payers::Uniform, WARM_UP)?;
            self.town.place.checkpoint()?;
            let found = self.town.place.number("SELECT count(*) FROM transfer")?;
            let (run, cost) = self.drive(Payers::Uniform, self.options.payments)?;
            let row = Row::default().count("transfers", found).number("payments/s", run.rate(), 0);
            rows.push(row.and(cost.row()));
            costs.push(cost);
        }
        let table =
            report.table("growth, history filled by `generate transfers`, measured by payments:", rows);
        if let [first, last] = &costs[..] {
            for (what, of) in [
                ("CPU of all processes", Costs::cpu_us as fn(&Costs) -> f64),
                ("PostgreSQL's log", |costs| costs.wal_bytes),
            ] {
                if let Some(more) = percent_more(of(first), of(last)) {
                    table.note(format!("{what}: {more:+.1} %"));
                }
            }
        }
        Ok(())
    }

    fn fill(&mut self, transfers: u64) -> anyhow::Result<()> {
        let there = self.town.place.number("SELECT count(*) FROM transfer")?;
        if there < transfers {
            let total = transfers - there;
            let data = DataSet { total, expired: 0, hours: FILL_HOURS, ..DataSet::default() };
            self.town.place.store()?.generate(&data, |done| {
                self.bar.say(format!("filling: {} of {transfers} transfers", there + done));
            })?;
        }
        self.town.place.settle()
    }
}

/// Of nothing there is no more and no less.
fn percent_more(first: f64, last: f64) -> Option<f64> {
    (first > 0.0).then(|| 100.0 * (last - first) / first)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: TransfersBench,
    }

    fn asked(flags: &[&str]) -> anyhow::Result<TransfersBench> {
        let servers = ["transfers", "--log", "kafka://h:1", "--store", "postgres://u@h/d"];
        let Line { options } = Line::try_parse_from(servers.iter().chain(flags))?;
        options.check()?;
        Ok(options)
    }

    #[test]
    fn growth_is_measured_from_the_first() {
        assert_eq!(percent_more(100.0, 125.0), Some(25.0));
        assert_eq!(percent_more(100.0, 90.0), Some(-10.0));
        assert_eq!(percent_more(0.0, 5.0), None);
    }

    #[test]
    fn what_is_asked_for_is_understood() {
        let options = asked(&["--payments", "50k", "--depth", "5m", "--batch", "500"]).unwrap();
        assert_eq!((options.payments, options.depth, options.batch), (50_000, Some(5_000_000), 500));
        let Servers { log, store, .. } = options.servers;
        assert_eq!((log.as_str(), store.as_str()), ("kafka://h:1", "postgres://u@h/d"));
    }

    #[test]
    fn what_is_out_of_bounds_is_named() {
        assert!(asked(&[]).is_ok());
        for [flag, value] in
            [["--depth", "500k"], ["--payments", "0"], ["--partitions", "0"], ["--half-seconds", "0"]]
        {
            let error = asked(&[flag, value]).unwrap_err().to_string();
            assert!(error.starts_with(flag), "{error}");
        }
    }
}
