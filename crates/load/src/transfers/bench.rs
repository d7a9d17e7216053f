//! `holdfast bench transfers`: each run on a new hub with an empty log, beside the raw disk at that moment.

use std::path::Path;

use holdfast_client::options::BATCH_RECORDS_MAX;

use crate::LoadError;
use crate::bench::{Bench, DataPlace, Hub, Run, tell};
use crate::drive::{Case, Material, PAYMENTS_PER_SECOND_MIN, Way, drive};
use crate::meter::{Books, Reading};
use crate::options::{
    ACCOUNTS_DEFAULT, ACCOUNTS_MAX, CONNECTIONS_MAX, IN_FLIGHT_MAX, PAYMENTS_MAX, RUNS_DEFAULT, RUNS_MAX,
    SINGLE_CONNECTIONS_DEFAULT, check_range, parse_count,
};
use crate::payments::{Parties, Payers, Payments};
use crate::report::Report;

/// Payments of a batch case unless told otherwise.
const BATCH_PAYMENTS_DEFAULT: u64 = 1_000_000;
/// Records of a batch and its connections, with one request under way on each.
const BATCHES: [(usize, usize); 2] = [(1_024, 6), (8_192, 2)];
/// Larger batches than this have few connections.
const LARGE_BATCH: usize = 2_048;
/// Single payments in flight, and payments of that case unless told otherwise.
const SINGLES: [(usize, u64); 3] = [(1_000, 500_000), (64, 200_000), (1, ALONE_PAYMENTS_MAX)];
/// Payments one after another, at most: more tell nothing new.
const ALONE_PAYMENTS_MAX: u64 = 5_000;

/// Two-phase payments against hubs of its own: rates, latencies, costs, and the raw disk beside them.
///
/// A payment is a prepare and its fulfil with the real preimage, both answered after fdatasync. One that is not
/// settled fails the run. Every run has a new hub with an empty log.
#[derive(Debug, Clone, clap::Args)]
pub struct TransferBench {
    /// Which cases
    #[arg(long, value_enum, default_value = "all")]
    pub shape: Shape,
    /// Payments of each case, such as 500000, 500k or 10m [default: 1m in batches, fewer singly]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub payments: Option<u64>,
    /// Runs of each case; the median is the figure
    #[arg(long, default_value_t = RUNS_DEFAULT)]
    pub runs: u32,
    /// Single payments under way at once [default: 1,000, 64 and 1]
    #[arg(long)]
    pub in_flight: Option<usize>,
    /// Records per batch [default: 1,024 and 8,192]
    #[arg(long)]
    pub batch: Option<usize>,
    /// Connections [default: what suits the case]
    #[arg(long)]
    pub connections: Option<usize>,
    /// Accounts that payments are spread over
    #[arg(long, default_value_t = ACCOUNTS_DEFAULT)]
    pub accounts: u32,
    /// From where names and amounts come
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the data lies.
    #[command(flatten)]
    pub place: DataPlace,
}

/// Which cases to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// Whole batches, several requests in flight
    Batch,
    /// Single payments: 1,000, 64 and 1 in flight
    Single,
    /// One hot payer beside many accounts
    Hot,
    /// All of these
    All,
}

impl TransferBench {
    fn check(&self) -> Result<(), LoadError> {
        check_range("--payments", self.payments.unwrap_or(1), 1, PAYMENTS_MAX)?;
        check_range("--runs", self.runs.into(), 1, RUNS_MAX.into())?;
        check_range("--in-flight", self.in_flight.unwrap_or(1) as u64, 1, IN_FLIGHT_MAX as u64)?;
        check_range("--batch", self.batch.unwrap_or(1) as u64, 1, BATCH_RECORDS_MAX as u64)?;
        check_range("--connections", self.connections.unwrap_or(1) as u64, 1, CONNECTIONS_MAX as u64)?;
        check_range("--accounts", self.accounts.into(), 2, ACCOUNTS_MAX.into())
    }

    /// Beside one hot payer the same case stands with any payer.
    fn cases(&self) -> Vec<Case> {
        let batch = |(records, connections): (usize, usize), payers| Case {
            way: Way::Batches { records },
            payers,
            connections: self.connections.unwrap_or(connections),
            payments: self.payments.unwrap_or(BATCH_PAYMENTS_DEFAULT),
        };
        let single = |(in_flight, payments): (usize, u64), payers| Case {
            way: Way::Singles { in_flight },
            payers,
            connections: self.connections.unwrap_or(SINGLE_CONNECTIONS_DEFAULT),
            payments: match in_flight {
                1 => self.payments.unwrap_or(payments).min(ALONE_PAYMENTS_MAX),
                _ => self.payments.unwrap_or(payments),
            },
        };
        let batches = match self.batch {
            Some(records) => vec![(records, if records > LARGE_BATCH { 2 } else { 6 })],
            None => BATCHES.to_vec(),
        };
        let singles = match self.in_flight {
            Some(in_flight) => vec![(in_flight, SINGLES[0].1)],
            None => SINGLES.to_vec(),
        };
        let is = |shape| self.shape == shape || self.shape == Shape::All;
        let of = |shape, count: usize| if is(shape) { count } else { usize::from(is(Shape::Hot)) };
        let mut cases = Vec::new();
        cases.extend(batches[..of(Shape::Batch, batches.len())].iter().map(|of| batch(*of, Payers::Uniform)));
        cases.extend(is(Shape::Hot).then(|| batch(batches[0], Payers::Hot)));
        cases.extend(
            singles[..of(Shape::Single, singles.len())].iter().map(|of| single(*of, Payers::Uniform)),
        );
        cases.extend(is(Shape::Hot).then(|| single(singles[0], Payers::Hot)));
        cases
    }
}

/// Runs what the options ask for with this program.
///
/// # Errors
/// If the hub does not start, a payment is not settled, or the books do not balance.
pub fn bench_transfers(program: &Path, options: &TransferBench) -> Result<Report, LoadError> {
    options.check()?;
    let cases = options.cases();
    let bench = Bench::open(program, &options.place, options.runs, cases.len())?;
    let mut report =
        Report::measured(format!("two-phase payments, {} accounts", options.accounts), bench.directory());
    let mut found = Vec::new();
    for case in cases {
        found.push(bench.case(case.name(), async |hub| run(options, &case, hub).await)?);
    }
    tell(&mut report, "payments", "every answer after fdatasync", &found);
    bench.close()?;
    Ok(report)
}

async fn run(options: &TransferBench, case: &Case, hub: Hub<'_>) -> Result<Run, LoadError> {
    let client = hub.client(case.connections).await?;
    let seed = options.seed.wrapping_add(u64::from(hub.number));
    let parties = Parties::create(&client, seed, options.accounts).await?;
    let material = Material::make(case, Payments::new(parties, case.payers, seed), PAYMENTS_PER_SECOND_MIN)?;
    let before = Reading::take(&client, hub.server.pid(), hub.place).await?;
    let driven = drive(case, client.clone(), material).await?;
    let after = Reading::take(&client, hub.server.pid(), hub.place).await?;
    Books::read(&client)
        .await?
        .must_be(Books { committed: case.payments, ..Books::default() }, "at the end")?;
    let (prepare, fulfil) = (driven.prepare.percentiles(), driven.fulfil.percentiles());
    Ok(Run {
        took: driven.took,
        rounds: case.payments,
        // A batch is felt request by request, a single payment as a whole.
        latencies: match case.way {
            Way::Batches { .. } => vec![("prepare request", prepare), ("fulfil request", fulfil)],
            Way::Singles { .. } => vec![("payment", driven.payment.percentiles())],
        },
        costs: after.costs_since(&before, case.payments).row(),
        ..Run::default()
    })
}
