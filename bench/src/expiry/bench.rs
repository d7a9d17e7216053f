//! What is measured, in which order: what the expiry table adds to the log; nothing due at each size, some due at the asked
//! one; then, on what has grown, as many expirations as go, and payments that end as they should.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, ensure};
use holdfast_load::bar::Bar;
use holdfast_load::figures::{Latency, median, per, per_second};
use holdfast_load::machine::load_average;
use holdfast_load::report::{Report, Row, grouped, grouped_count, millis as in_millis};
use holdfast_postgres::{Claim, DataSet, Source};
use postgres::error::SqlState;

use super::ExpiryBench;
use super::data::Data;
use super::seed::{NAIVE, Process};
use crate::database::handlers::{Handlers, done, end_all};
use crate::database::own::OwnDatabase;

/// Runs of what takes long; the median is the figure.
const RUNS: usize = 3;
/// Rounds in which all that is due is ended.
const DUE_ROUNDS: usize = 5;
/// The state changes of one window, as the document proposes.
const WINDOW: i64 = 100_000;
/// Until a payment that ends as it should would have run out: most have passed that when nothing is due.
const LIFE_MS: i64 = 20_000;
/// Connections that scan, and connections that take the position step.
const SCANNERS: usize = 2;
const POSITIONS: usize = 2;
/// Payments over which the log's growth is measured, after as many that are not.
const WAL_PAYMENTS: u64 = 20_000;
const SHARDS: i16 = 8;

/// Runs what the options ask for.
///
/// # Errors
/// If the database fails, or the naive query or ours finds another number of transfers than are due.
pub(super) fn measure(options: &ExpiryBench) -> anyhow::Result<Report> {
    options.check()?;
    let mut place = OwnDatabase::create(&options.store, options.keep)?;
    let promises = place.promises()?;
    let directory: String =
        place.client.query_one("SHOW data_directory", &[]).context("cannot ask for the data")?.get(0);
    let title = format!("holds that ran out, {} transfers", grouped_count(options.transfers));
    let mut report = Report::measured(title, Path::new(&directory));
    report.note(promises);
    let sizes = options.all_sizes();
    let bar = Bar::of(sizes.len() as u64 + 4);
    let mut run = Run { options, bar, data: Data::new(place)?, claims: Vec::new() };
    for shard in 0..SHARDS {
        let claim = run.data.store.claim(&Source::Timeout(shard.into()))?;
        run.claims.push((shard, claim));
    }
    // First, while the server has nothing else to tidy up: its log is one for all databases.
    let wal = run.wal()?;
    let (mut rows, mut due) = (Vec::new(), Report::default());
    for size in sizes {
        rows.push(run.nothing_due(size)?);
        if size == options.transfers {
            let windows = run.windows()?;
            run.due(&mut due)?;
            due.note(windows);
        }
    }
    report.table(
        "nothing due, milliseconds (naive and ten steps: median of three; ours: a look at all shards, and a scan of one):",
        rows,
    );
    report.append(due);
    report.note(run.sustained()?);
    report.note(wal);
    let finished = run.finished()?;
    report.table(
        "nothing due after payments that ended as they should, without VACUUM; milliseconds:",
        [finished],
    );
    run.bar.clear();
    run.data.place.verify()?;
    Ok(report)
}

struct Run<'a> {
    options: &'a ExpiryBench,
    bar: Bar,
    data: Data,
    claims: Vec<(i16, Claim)>,
}

impl Run<'_> {
    fn nothing_due(&mut self, size: u64) -> anyhow::Result<Row> {
        self.data.grow(size, |made| {
            self.bar.say(format!("generating: {made} of {size} transfers"));
        })?;
        self.bar.next(format!("nothing due of {size}"));
        let state_changes = self.data.place.number("SELECT count(*) FROM seed.transferStateChange")?;
        let open = self.data.place.number("SELECT count(*) FROM transfer_timeout")?;
        let naive_ms = self.naive(0)?;
        // Everything new in one go, so that what is measured is a run that has nothing to do.
        let catch_up = Process { listed_may_come_again: true, ..Process::default() };
        self.seed(&catch_up)?;
        let (seed_ms, listed) = self.seed_runs()?;
        let ours = self.scans()?;
        Ok(Row::default()
            .count("transfers", size)
            .count("state changes", state_changes)
            .count("open", open)
            .number("naive", median(&naive_ms), 0)
            .number("ten steps", median(&seed_ms), 0)
            .count("wrongly listed", listed)
            .and(ours.row())
            .word("load", load_average()))
    }

    /// The obvious query, which must find `expected`.
    fn naive(&mut self, expected: u64) -> anyhow::Result<Vec<f64>> {
        let mut times = Vec::new();
        for _ in 0..RUNS {
            let begun = Instant::now();
            let found = self.data.place.number(NAIVE)?;
            times.push(millis(begun));
            expect("the naive query", found, expected)?;
        }
        Ok(times)
    }

    /// One run of the document's process: how long, and how many it lists. That may be more than are due: a window that cuts
    /// a history in two lists what has ended since, and for some ends never notices (faults 10 and 11).
    fn seed(&mut self, process: &Process) -> anyhow::Result<(f64, u64)> {
        let begun = Instant::now();
        let found = process.run(&mut self.data.place.client, |_| ());
        let found = found.context("cannot run the document's process")?;
        Ok((millis(begun), found.listed.len() as u64))
    }

    /// Runs that have nothing new to take in.
    fn seed_runs(&mut self) -> anyhow::Result<(Vec<f64>, u64)> {
        let mut times = Vec::new();
        let mut listed = 0;
        for _ in 0..RUNS {
            let (took, found) = self.seed(&Process::default())?;
            times.push(took);
            listed = found;
        }
        Ok((times, listed))
    }

    /// Looks and scans where nothing is due.
    fn scans(&mut self) -> anyhow::Result<Scans> {
        let mut scans = Scans::default();
        for number in 0..self.options.scans {
            let begun = Instant::now();
            let due = self.data.store.due_shards()?;
            scans.look.record(begun.elapsed());
            if number == 0 {
                scans.first_ms = millis(begun);
            }
            expect("a look at all shards", due.len() as u64, 0)?;
        }
        for number in 0..self.options.scans {
            let (shard, claim) = self.claims[usize::try_from(number).expect("bounded") % self.claims.len()];
            let begun = Instant::now();
            let ended = done(self.data.store.expire(&claim, shard, 1_000)?)?.messages;
            scans.scan.record(begun.elapsed());
            expect("a scan", ended as u64, 0)?;
        }
        Ok(scans)
    }

    /// The document's process over the whole history, window by window.
    fn windows(&mut self) -> anyhow::Result<String> {
        self.bar.next(format!("the document's process, {WINDOW} state changes at a time"));
        self.data
            .place
            .execute("empty the document's tables", "TRUNCATE seed.segment, seed.transferTimeout")?;
        let last =
            self.data.place.number("SELECT max(transferStateChangeId) FROM seed.transferStateChange")?;
        let literal = Process { window: Some(WINDOW), ..Process::default() };
        let (mut each_ms, mut failed) = (Vec::new(), 0);
        loop {
            let begun = Instant::now();
            let found = match literal.run(&mut self.data.place.client, |_| ()) {
                Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                    failed += 1;
                    // As it is written it would fail for ever: the time is that of a repeat which passes over the row.
                    let begun = Instant::now();
                    let patched = Process { listed_may_come_again: true, ..literal };
                    let found = patched.run(&mut self.data.place.client, |_| ());
                    each_ms.push(millis(begun));
                    found
                }
                found => {
                    each_ms.push(millis(begun));
                    found
                }
            };
            let found = found.context("cannot run the document's process")?;
            if found.upto.is_some_and(|upto| upto.unsigned_abs() == last) {
                break;
            }
        }
        Ok(format!(
            "ten steps over the whole history, {} windows of {} state changes: first {:.0} ms, median {:.0}, max {:.0}, all \
             {:.1} s; {failed} failed on the unique key and were repeated without it",
            each_ms.len(),
            grouped_count(WINDOW.unsigned_abs()),
            each_ms.first().copied().unwrap_or(0.0),
            median(&each_ms),
            each_ms.iter().copied().fold(0.0, f64::max),
            each_ms.iter().sum::<f64>() / 1e3,
        ))
    }

    /// Some of the open holds are due: listed by the two others, ended by ours.
    fn due(&mut self, report: &mut Report) -> anyhow::Result<()> {
        let count = self.options.due;
        self.bar.next(format!("{count} due of {}", self.data.transfers));
        self.data.make_due(count)?;
        let naive_ms = self.naive(count)?;
        let (seed_ms, seed_listed) = self.seed_runs()?;
        let mut ours_ms = Vec::new();
        let mut with_positions_ms = Vec::new();
        for round in 0..DUE_ROUNDS {
            if round > 0 {
                self.data.make_due(count)?;
            }
            let begun = Instant::now();
            let mut ended = 0;
            for shard in self.data.store.due_shards()? {
                let (_, claim) = self.claims[usize::try_from(shard).expect("a shard's number")];
                loop {
                    let step = done(self.data.store.expire(&claim, shard, 1_000)?)?;
                    ended += step.messages as u64;
                    if step.messages < 1_000 {
                        break;
                    }
                }
            }
            ours_ms.push(millis(begun));
            expect("ours", ended, count)?;
            end_all(&self.data.place.url, SHARDS, SCANNERS, POSITIONS)?;
            with_positions_ms.push(millis(begun));
            self.claim_again()?;
            self.data.end_due_in_seed()?;
        }
        let wrongly = seed_listed.saturating_sub(count);
        let way = |way: &str, times: &[f64]| {
            Row::of("way", way).number("median", median(times), 0).each("every run", times, 0)
        };
        let rows = [
            way("naive: listed", &naive_ms),
            way("ten steps: listed", &seed_ms).count("listed wrongly", wrongly),
            way("ours: ended", &ours_ms),
            // Connections opened for it included.
            way("ours: ended, positions given back", &with_positions_ms),
        ];
        let heading =
            format!("{} due of {}, milliseconds:", grouped_count(count), grouped_count(self.data.transfers));
        report.table(heading, rows);
        Ok(())
    }

    /// Others have worked on the shards.
    fn claim_again(&mut self) -> anyhow::Result<()> {
        for (shard, claim) in &mut self.claims {
            *claim = self.data.store.claim(&Source::Timeout((*shard).into()))?;
        }
        Ok(())
    }

    /// As many as asked for are due at once, and all are ended.
    fn sustained(&mut self) -> anyhow::Result<String> {
        let holds = self.options.sustained;
        self.bar.next(format!("{holds} expire"));
        let set = DataSet { total: holds, expired: holds, hours: (1, 1), ..DataSet::default() };
        self.data.store.generate(&set, |_| ())?;
        let reserved = self.data.place.number(
            "SELECT count(*) FROM transfer WHERE current_state = 3 AND expiration_date < hub_clock()",
        )?;
        let (ended, took) = end_all(&self.data.place.url, SHARDS, SCANNERS, POSITIONS)?;
        self.claim_again()?;
        expect("ours", ended, holds)?;
        let left = "SELECT count(*) FROM transfer WHERE current_state IN (1, 3, 9) AND expiration_date < hub_clock()";
        expect("a count of what is left", self.data.place.number(left)?, 0)?;
        Ok(format!(
            "{} holds due at once ({} of them reserved), {SCANNERS} connections scanning and {POSITIONS} at the position step, \
             messages through the outbox but handed on in memory (no Kafka): {:.1} s, {} expirations/s",
            grouped_count(holds),
            grouped_count(reserved),
            took.as_secs_f64(),
            grouped(per_second(ended, took), 0),
        ))
    }

    /// Payments that end as they should leave dead rows in the expiry table; nobody tidies up, and nothing is due.
    fn finished(&mut self) -> anyhow::Result<Row> {
        let payments = self.options.finished;
        for statement in
            ["VACUUM transfer_timeout", "ALTER TABLE transfer_timeout SET (autovacuum_enabled = false)"]
        {
            self.data.place.execute("keep the server from tidying up", statement)?;
        }
        let mut node = Handlers::open(&self.data.place.url)?;
        let begun = Instant::now();
        node.pay(payments, LIFE_MS, |made| {
            self.bar.say(format!("{made} of {payments} payments end as they should"));
        })?;
        let rate = per_second(payments, begun.elapsed());
        drop(node);
        let scans = self.scans()?;
        Ok(Row::default()
            .count("payments", payments)
            .number("/s through the handlers", rate, 0)
            .number("first look", scans.first_ms, 2)
            .and(scans.row()))
    }

    /// What the expiry table adds to the log: payments with it, and with it unlogged. On an empty database, where whole
    /// pages after a checkpoint weigh little.
    fn wal(&self) -> anyhow::Result<String> {
        self.bar.next("the log's growth");
        let mut place = OwnDatabase::create_second(&self.options.store)?;
        let mut node = Handlers::open(&place.url)?;
        let with = wal_of(&mut place, &mut node)?;
        place.execute("take the expiry table out of the log", "ALTER TABLE transfer_timeout SET UNLOGGED")?;
        let without = wal_of(&mut place, &mut node)?;
        let more = with - without;
        Ok(format!(
            "per payment the expiry table takes one row in and one out; log per payment {with:.0} bytes, {without:.0} without \
             it: {more:.0} more ({:.1} %)",
            100.0 * more / without.max(1.0)
        ))
    }
}

/// Bytes of log per payment, once all pages that are written again and again were written once.
fn wal_of(place: &mut OwnDatabase, node: &mut Handlers) -> anyhow::Result<f64> {
    place.checkpoint()?;
    node.pay(WAL_PAYMENTS, LIFE_MS, |_| ())?;
    let at = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
    let before = place.number(at)?;
    node.pay(WAL_PAYMENTS, LIFE_MS, |_| ())?;
    Ok(per(place.number(at)?.abs_diff(before), WAL_PAYMENTS))
}

/// Looks and scans of ours where nothing is due.
#[derive(Default)]
struct Scans {
    /// The very first look.
    first_ms: f64,
    /// One look at all shards: what a worker does first, and all that it does while nothing is due.
    look: Latency,
    /// A scan of one shard, its guard locked.
    scan: Latency,
}

impl Scans {
    fn row(&self) -> Row {
        [("look", &self.look), ("scan", &self.scan)].into_iter().fold(
            Row::default(),
            |row, (what, latency)| {
                let latency = latency.percentiles();
                let parts = [("p50", latency.p50), ("p99", latency.p99), ("max", latency.max)];
                parts.into_iter().fold(row, |row, (part, micros)| {
                    row.number(&format!("{what} {part}"), in_millis(micros), 2)
                })
            },
        )
    }
}

fn expect(who: &str, found: u64, expected: u64) -> anyhow::Result<()> {
    ensure!(found == expected, "the books do not balance: {who} found {found} where {expected} are due");
    Ok(())
}

fn millis(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e3
}
