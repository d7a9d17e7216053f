//! Payments over the JSON path, as participants send them.
//!
//! A payment is `POST /transfers` and `PUT /transfers/{id}` with the real fulfilment. With `Prefer: wait` both are
//! answered with the decided state, after fdatasync. With callbacks, the payee sends its PUT when the hub has called
//! it, and the payment ends when the hub has called the payer: two requests to the hub and two from it.
//!
//! The clients and the sink speak HTTP/1.1 over plain sockets with messages that are put together from ready parts,
//! since they share the machine's cores with the server. What they cost is reported beside it.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `material` | ids, conditions, fulfilments and the bytes of requests |
//! | `set_up` | participants with funds and endpoints, over the admin API |
//! | `waiting` | payments with `Prefer: wait` |
//! | `sink`, `called` | payments with callbacks |

mod called;
mod material;
mod set_up;
mod sink;
mod waiting;

use std::path::Path;
use std::time::Duration;

use holdfast_load::LoadError;
use holdfast_load::bench::{Bench, DataPlace, Hub, Run, tell};
use holdfast_load::figures::Latency;
use holdfast_load::meter::{Books, Reading};
use holdfast_load::options::{
    HTTP_CONNECTIONS_DEFAULT, LINES_MAX, PAYMENTS_MAX, RUNS_DEFAULT, RUNS_MAX, check_range,
};
use holdfast_load::report::Report;
use material::Material;
use sink::Sink;

/// Payments per run where none are given: with `Prefer: wait`, and with callbacks.
const PAYMENTS_DEFAULT: (u64, u64) = (100_000, 30_000);
/// A run that takes longer has come to a stop.
const RUN_MAX: Duration = Duration::from_secs(600);

/// Payments over the JSON path (FSPIOP 1.1) against hubs of its own, with Prefer: wait and with callbacks.
///
/// A payment is POST /transfers and PUT /transfers/{id} with the real fulfilment. With callbacks the payee is called
/// before it fulfils and the payment ends when the payer is called. One that is not committed fails the run.
#[derive(Debug, Clone, clap::Args)]
pub struct FspiopBench {
    /// How payments are answered
    #[arg(long, value_enum, default_value = "all")]
    pub answers: Answers,
    /// Payments of each run [default: 100,000 with Prefer: wait, 30,000 with callbacks]
    #[arg(long)]
    pub payments: Option<u64>,
    /// Runs of each; the median is the figure
    #[arg(long, default_value_t = RUNS_DEFAULT)]
    pub runs: u32,
    /// Connections to the hub
    #[arg(long, default_value_t = HTTP_CONNECTIONS_DEFAULT)]
    pub connections: usize,
    /// Payments under way at once with callbacks; with Prefer: wait each connection has one
    #[arg(long, default_value_t = 256)]
    pub in_flight: usize,
    /// Participants that payments are spread over
    #[arg(long, default_value_t = 100)]
    pub participants: u32,
    /// From where ids and amounts come
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the data lies.
    #[command(flatten)]
    pub place: DataPlace,
}

/// How payments are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Answers {
    /// At once: Prefer: wait
    Wait,
    /// By callbacks to a sink
    Callbacks,
    /// Both
    All,
}

impl FspiopBench {
    fn check(&self) -> Result<(), LoadError> {
        check_range("--payments", self.payments.unwrap_or(1), 1, PAYMENTS_MAX)?;
        check_range("--runs", self.runs.into(), 1, RUNS_MAX.into())?;
        check_range("--connections", self.connections as u64, 1, LINES_MAX as u64)?;
        check_range("--in-flight", self.in_flight as u64, 1, 100_000)?;
        check_range("--participants", self.participants.into(), 2, 9_999)
    }
}

/// What the clock saw.
#[derive(Default)]
struct Driven {
    took: Duration,
    /// From a POST's first byte to its answer.
    post: Latency,
    /// From a PUT's first byte to its answer.
    put: Latency,
    /// From the POST to the PUT's answer, or to the payer's callback.
    payment: Latency,
}

impl Driven {
    /// Takes in what one connection has felt.
    fn add(&mut self, other: &Driven) {
        self.post.add(&other.post);
        self.put.add(&other.put);
        self.payment.add(&other.payment);
    }
}

/// Runs what the options ask for with this program.
///
/// # Errors
/// If the server does not start, a payment is not settled, or the books do not balance.
pub fn bench_fspiop(program: &Path, options: &FspiopBench) -> Result<Report, LoadError> {
    options.check()?;
    let ways = match options.answers {
        Answers::All => vec![Answers::Wait, Answers::Callbacks],
        one => vec![one],
    };
    let bench = Bench::open(program, &options.place, options.runs, ways.len())?;
    let (post, put) = Material::request_bytes();
    let title = format!(
        "FSPIOP payments, {} participants, POST of {post} and PUT of {put} bytes",
        options.participants
    );
    let mut report = Report::measured(title, bench.directory());
    let mut cases = Vec::new();
    for way in ways {
        let FspiopBench { connections, in_flight, .. } = *options;
        let name = match way {
            Answers::Callbacks => format!("callbacks, {connections} connections, {in_flight} in flight"),
            _ => format!("Prefer: wait, {connections} connections"),
        };
        cases.push(bench.case(name, async |hub| run(options, way, hub).await)?);
    }
    tell(&mut report, "payments", "every answer after fdatasync", &cases);
    bench.close()?;
    Ok(report)
}

async fn run(options: &FspiopBench, way: Answers, hub: Hub<'_>) -> Result<Run, LoadError> {
    let FspiopBench { connections, in_flight, participants, .. } = *options;
    let (client, address) = (hub.client(1).await?, &hub.server.address);
    let with_callbacks = way == Answers::Callbacks;
    let (waiting, called) = PAYMENTS_DEFAULT;
    let payments = options.payments.unwrap_or(if with_callbacks { called } else { waiting });
    let material = Material::new(options.seed.wrapping_add(hub.number.into()), participants, payments);
    let sink = if with_callbacks { Some(Sink::open()?) } else { None };
    set_up::participants(address, participants, sink.as_ref().map(|sink| &*sink.address)).await?;
    let before = Reading::take(&client, hub.server.pid(), hub.place).await?;
    let driving = async {
        match sink {
            None => waiting::drive(address, connections, material, payments).await,
            Some(sink) => {
                let bounds = called::Bounds { connections, in_flight };
                called::drive(address, sink, bounds, material, payments).await
            }
        }
    };
    let driven = tokio::time::timeout(RUN_MAX, driving).await;
    let driven = driven.map_err(|_| LoadError::Refused("the payments came to a stop".to_owned()))??;
    let after = Reading::take(&client, hub.server.pid(), hub.place).await?;
    Books::read(&client).await?.must_be(Books { committed: payments, ..Books::default() }, "at the end")?;
    Ok(Run {
        took: driven.took,
        rounds: payments,
        latencies: vec![
            ("payment", driven.payment.percentiles()),
            ("POST", driven.post.percentiles()),
            ("PUT", driven.put.percentiles()),
        ],
        costs: after.costs_since(&before, payments).row(),
        ..Run::default()
    })
}
