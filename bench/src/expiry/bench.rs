//! What is measured, in which order: what the expiry table adds to the log; nothing due at each size, some due at the asked
//! one; then, on what has grown, as many expirations as go, and payments that end as they should.

use std::path::Path;
use std::time::Instant;

use hdrhistogram::Histogram;
use holdfast_postgres::{Claim, DataSet, Source};
use indicatif::ProgressBar;
use postgres::Client;
use postgres::error::SqlState;

use super::data::Data;
use super::goals::goals;
use super::node::{Node, done, end_all};
use super::options::ExpiryOptions;
use super::place::Place;
use super::report::{Due, ExpiryReport, Finished, Growth, Scans, Sustained, Wal, Windows};
use super::seed::{NAIVE, Process};
use crate::BenchError;
use crate::bench::progress_bar;
use crate::machine::{Machine, load_average};
use crate::report::{LATENCY_MAX_US, Percentiles, median};

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
pub fn bench_expiry(options: &ExpiryOptions) -> Result<ExpiryReport, BenchError> {
    options.check()?;
    let place = Place::create(&options.store, options.keep)?;
    let sizes = options.all_sizes();
    let bar = progress_bar(options.progress, sizes.len() as u64 + 4);
    let mut data = Data::new(&place)?;
    let (machine, postgres) = server(&mut data.client)?;
    let mut run = Run { options, place: &place, bar, data, claims: Vec::new() };
    for shard in 0..SHARDS {
        let claim = run.data.store.claim(&Source::timeout(shard.into()))?;
        run.claims.push((shard, claim));
    }
    // First, while the server has nothing else to tidy up: its log is one for all databases.
    let wal = run.wal()?;
    let mut growth = Vec::new();
    let mut of_size = None;
    for size in sizes {
        growth.push(run.nothing_due(size)?);
        if size == options.transfers {
            of_size = Some((run.windows()?, run.due()?));
        }
    }
    let (windows, due) = of_size.expect("the asked size is one of them");
    let sustained = run.sustained()?;
    let finished = run.finished()?;
    run.bar.finish_and_clear();
    let verified = run.data.store.verify()?;
    if let Some(finding) = verified.findings.first() {
        return Err(BenchError::Books(format!("{}: {}", finding.table, finding.what)));
    }
    let mut report = ExpiryReport {
        version: env!("CARGO_PKG_VERSION"),
        machine,
        postgres,
        transfers: options.transfers,
        growth,
        windows,
        due,
        sustained,
        finished,
        wal,
        load_average: load_average(),
        goals: Vec::new(),
    };
    report.goals = goals(&report);
    Ok(report)
}

struct Run<'a> {
    options: &'a ExpiryOptions,
    place: &'a Place,
    bar: ProgressBar,
    data: Data,
    claims: Vec<(i16, Claim)>,
}

impl Run<'_> {
    fn say(&self, what: String) {
        self.bar.set_message(what);
        self.bar.tick();
    }

    fn nothing_due(&mut self, size: u64) -> Result<Growth, BenchError> {
        let bar = self.bar.clone();
        self.data.grow(size, |made| {
            bar.set_message(format!("generating: {made} of {size} transfers"));
            bar.tick();
        })?;
        self.say(format!("nothing due of {size}"));
        let counts = self.data.size()?;
        let naive_ms = self.naive(0)?;
        // Everything new in one go, so that what is measured is a run that has nothing to do.
        let catch_up = Process { listed_may_come_again: true, ..Process::default() };
        self.seed(&catch_up)?;
        let (seed_ms, listed) = self.seed_runs()?;
        let ours = self.scans()?;
        self.bar.inc(1);
        Ok(Growth {
            transfers: size,
            state_changes: counts.state_changes.unsigned_abs(),
            open: counts.open.unsigned_abs(),
            naive_ms: median(&naive_ms),
            seed_ms: median(&seed_ms),
            seed_wrongly_listed: listed,
            ours,
            load_average: load_average(),
        })
    }

    /// The obvious query, which must find `expected`.
    fn naive(&mut self, expected: u64) -> Result<Vec<f64>, BenchError> {
        let mut times = Vec::new();
        for _ in 0..RUNS {
            let begun = Instant::now();
            let found = self.data.number(NAIVE)?;
            times.push(millis(begun));
            expect("the naive query", found.unsigned_abs(), expected)?;
        }
        Ok(times)
    }

    /// One run of the document's process: how long, and how many it lists. That may be more than are due: a window that cuts
    /// a history in two lists what has ended since, and for some ends never notices (faults 10 and 11).
    fn seed(&mut self, process: &Process) -> Result<(f64, u64), BenchError> {
        let begun = Instant::now();
        let found = process.run(&mut self.data.client, |_| ());
        let found = found.map_err(BenchError::database("run the document's process"))?;
        Ok((millis(begun), found.listed.len() as u64))
    }

    /// Runs that have nothing new to take in.
    fn seed_runs(&mut self) -> Result<(Vec<f64>, u64), BenchError> {
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
    fn scans(&mut self) -> Result<Scans, BenchError> {
        let (mut look_us, mut scan_us) = (histogram(), histogram());
        let mut first_ms = 0.0;
        for number in 0..self.options.scans {
            let begun = Instant::now();
            let due = self.data.store.due_shards()?;
            record(&mut look_us, begun);
            if number == 0 {
                first_ms = millis(begun);
            }
            expect("a look at all shards", due.len() as u64, 0)?;
        }
        for number in 0..self.options.scans {
            let (shard, claim) = self.claims[usize::try_from(number).expect("bounded") % self.claims.len()];
            let begun = Instant::now();
            let ended = done(self.data.store.expire(&claim, shard, 1_000)?)?.messages;
            record(&mut scan_us, begun);
            expect("a scan", ended as u64, 0)?;
        }
        Ok(Scans { first_ms, look_us: Percentiles::of(&look_us), scan_us: Percentiles::of(&scan_us) })
    }

    /// The document's process over the whole history, window by window.
    fn windows(&mut self) -> Result<Windows, BenchError> {
        self.say(format!("the document's process, {WINDOW} state changes at a time"));
        self.data
            .client
            .batch_execute("TRUNCATE seed.segment, seed.transferTimeout")
            .map_err(BenchError::database("empty the document's tables"))?;
        let last = self.data.number("SELECT max(transferStateChangeId) FROM seed.transferStateChange")?;
        let literal = Process { window: Some(WINDOW), ..Process::default() };
        let (mut each_ms, mut failed) = (Vec::new(), 0);
        loop {
            let begun = Instant::now();
            let found = match literal.run(&mut self.data.client, |_| ()) {
                Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                    failed += 1;
                    // As it is written it would fail for ever: the time is that of a repeat which passes over the row.
                    let begun = Instant::now();
                    let patched = Process { listed_may_come_again: true, ..literal };
                    let found = patched.run(&mut self.data.client, |_| ());
                    each_ms.push(millis(begun));
                    found
                }
                found => {
                    each_ms.push(millis(begun));
                    found
                }
            };
            let found = found.map_err(BenchError::database("run the document's process"))?;
            if found.upto == Some(last) {
                break;
            }
        }
        Ok(Windows { state_changes_each: WINDOW.unsigned_abs(), failed, each_ms })
    }

    /// Some of the open holds are due: listed by the two others, ended by ours.
    fn due(&mut self) -> Result<Due, BenchError> {
        let count = self.options.due;
        self.say(format!("{count} due of {}", self.data.transfers));
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
            end_all(&self.place.url, SHARDS, SCANNERS, POSITIONS)?;
            with_positions_ms.push(millis(begun));
            self.claim_again()?;
            self.data.end_due_in_seed()?;
        }
        Ok(Due {
            count,
            naive_ms: median(&naive_ms),
            seed_ms: median(&seed_ms),
            seed_listed,
            ours_ms,
            with_positions_ms,
        })
    }

    /// Others have worked on the shards.
    fn claim_again(&mut self) -> Result<(), BenchError> {
        for (shard, claim) in &mut self.claims {
            *claim = self.data.store.claim(&Source::timeout((*shard).into()))?;
        }
        Ok(())
    }

    /// As many as asked for are due at once, and all are ended.
    fn sustained(&mut self) -> Result<Sustained, BenchError> {
        let holds = self.options.sustained;
        self.say(format!("{holds} expire"));
        let set = DataSet { total: holds, expired: holds, hours: (1, 1), ..DataSet::default() };
        self.data.store.generate(&set, |_| ())?;
        let reserved = self.data.number(
            "SELECT count(*) FROM transfer WHERE current_state = 3 AND expiration_date < hub_clock()",
        )?;
        let (ended, took) = end_all(&self.place.url, SHARDS, SCANNERS, POSITIONS)?;
        self.claim_again()?;
        expect("ours", ended, holds)?;
        let left = "SELECT count(*) FROM transfer WHERE current_state IN (1, 3, 9) AND expiration_date < hub_clock()";
        expect("a count of what is left", self.data.number(left)?.unsigned_abs(), 0)?;
        self.bar.inc(1);
        #[allow(clippy::cast_precision_loss, reason = "a printed rate")]
        let per_second = ended as f64 / took.as_secs_f64();
        Ok(Sustained {
            holds,
            reserved: reserved.unsigned_abs(),
            seconds: took.as_secs_f64(),
            per_second,
            scanners: SCANNERS,
            positions: POSITIONS,
        })
    }

    /// Payments that end as they should leave dead rows in the expiry table; nobody tidies up, and nothing is due.
    fn finished(&mut self) -> Result<Finished, BenchError> {
        let payments = self.options.finished;
        for statement in
            ["VACUUM transfer_timeout", "ALTER TABLE transfer_timeout SET (autovacuum_enabled = false)"]
        {
            let done = self.data.client.batch_execute(statement);
            done.map_err(BenchError::database("keep the server from tidying up"))?;
        }
        let mut node = Node::open(&self.place.url)?;
        let bar = self.bar.clone();
        let begun = Instant::now();
        node.pay(payments, LIFE_MS, |made| {
            bar.set_message(format!("{made} of {payments} payments end as they should"));
            bar.tick();
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        drop(node);
        let scans = self.scans()?;
        self.bar.inc(1);
        #[allow(clippy::cast_precision_loss, reason = "a printed rate")]
        let payments_per_second = payments as f64 / seconds;
        Ok(Finished { payments, payments_per_second, scans })
    }

    /// What the expiry table adds to the log: payments with it, and with it unlogged. On an empty database, where whole
    /// pages after a checkpoint weigh little.
    fn wal(&mut self) -> Result<Wal, BenchError> {
        self.say("the log's growth".to_owned());
        let place = Place::create_second(&self.options.store)?;
        let mut node = Node::open(&place.url)?;
        let mut client = place.client()?;
        let logged = wal_of(&mut client, &mut node)?;
        client
            .batch_execute("ALTER TABLE transfer_timeout SET UNLOGGED")
            .map_err(BenchError::database("take the expiry table out of the log"))?;
        let unlogged = wal_of(&mut client, &mut node)?;
        self.bar.inc(1);
        Ok(Wal { payments: WAL_PAYMENTS, bytes_with: logged, bytes_without: unlogged })
    }
}

/// Bytes of log per payment, once all pages that are written again and again were written once.
fn wal_of(client: &mut Client, node: &mut Node) -> Result<f64, BenchError> {
    client.batch_execute("CHECKPOINT").map_err(BenchError::database("make a checkpoint"))?;
    node.pay(WAL_PAYMENTS, LIFE_MS, |_| ())?;
    let at = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
    let mut read = || -> Result<i64, BenchError> {
        Ok(client.query_one(at, &[]).map_err(BenchError::database("read the log's position"))?.get(0))
    };
    let before = read()?;
    node.pay(WAL_PAYMENTS, LIFE_MS, |_| ())?;
    let bytes = read()?.abs_diff(before);
    #[allow(clippy::cast_precision_loss, reason = "a printed figure")]
    Ok(bytes as f64 / WAL_PAYMENTS as f64)
}

/// The machine under the server's data, if it is this one, and the server with the settings that matter.
fn server(client: &mut Client) -> Result<(Machine, String), BenchError> {
    let mut show = |name: &str| -> Result<String, BenchError> {
        let row = client.query_one(&format!("SELECT current_setting('{name}', true)"), &[]);
        Ok(row
            .map_err(BenchError::database("read the server's settings"))?
            .get::<_, Option<String>>(0)
            .unwrap_or_default())
    };
    let data = show("data_directory")?;
    let mut text = format!("PostgreSQL {}", show("server_version")?);
    for name in ["shared_buffers", "fsync", "synchronous_commit"] {
        text.push_str(&format!(", {name} {}", show(name)?));
    }
    Ok((Machine::of(Path::new(&data)), text))
}

fn expect(who: &str, found: u64, expected: u64) -> Result<(), BenchError> {
    if found == expected {
        return Ok(());
    }
    Err(BenchError::Books(format!("{who} found {found} where {expected} are due")))
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_US, 3).expect("the bounds are fixed")
}

fn record(histogram: &mut Histogram<u64>, begun: Instant) {
    histogram.saturating_record(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX).max(1));
}

fn millis(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e3
}
