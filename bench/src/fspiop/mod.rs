//! `holdfast bench fspiop`: payments over the JSON path, as participants send them.
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
//! | `wire` | requests and answers on a socket |
//! | `set_up` | participants with funds and endpoints, over the admin API |
//! | `waiting` | payments with `Prefer: wait` |
//! | `sink`, `called` | payments with callbacks |
//! | `report` | figures as data and for people |

mod called;
mod material;
mod report;
mod set_up;
mod sink;
mod waiting;
pub(crate) mod wire;

pub use report::{FspiopCase, FspiopReport, FspiopRun};

use std::path::{Path, PathBuf};
use std::time::Duration;

use hdrhistogram::Histogram;
use holdfast_client::{Client, ClientOptions};

use crate::BenchError;
use crate::bench::{Directory, on_new_server, progress_bar};
use crate::child::Server;
use crate::disk::Disk;
use crate::machine::{Machine, load_average, must_be_a_disk};
use crate::meter::{Books, Counters, Usage, device_written_bytes};
use crate::options::check_range;
use crate::report::{LATENCY_MAX_US, Percentiles, median, per};
use material::Material;

/// Payments per run with `Prefer: wait`, where none are given.
pub const WAITING_PAYMENTS_DEFAULT: u64 = 100_000;
/// Payments per run with callbacks, where none are given.
pub const CALLED_PAYMENTS_DEFAULT: u64 = 30_000;
/// Connections, where none are given.
pub const CONNECTIONS_DEFAULT: usize = 128;
/// Payments under way at once with callbacks, where none are given.
pub const IN_FLIGHT_DEFAULT: usize = 256;
/// Participants, where none are given.
pub const PARTICIPANTS_DEFAULT: u32 = 100;
/// A run that takes longer has come to a stop.
const RUN_MAX: Duration = Duration::from_secs(600);

/// Which payments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Way {
    /// Answered at once: `Prefer: wait`.
    PreferWait,
    /// Answered by callbacks to a sink.
    Callbacks,
}

/// What `bench fspiop` is asked for.
#[derive(Debug, Clone)]
pub struct FspiopOptions {
    /// The program that is started with `serve`.
    pub program: PathBuf,
    /// Which payments.
    pub ways: Vec<Way>,
    /// Payments of each run; `None`: the defaults above.
    pub payments: Option<u64>,
    /// Runs of each way.
    pub runs: u32,
    /// Connections to the hub.
    pub connections: usize,
    /// Payments under way at once with callbacks; with `Prefer: wait` each connection has one.
    pub in_flight: usize,
    /// Participants that payments are spread over.
    pub participants: u32,
    /// Where the server's data lies; `None`: a temporary directory.
    pub data: Option<PathBuf>,
    /// Leave the data there.
    pub keep: bool,
    /// From where ids and amounts come.
    pub seed: u64,
    /// Tell on standard error what is going on.
    pub progress: bool,
}

impl FspiopOptions {
    fn check(&self) -> Result<(), BenchError> {
        check_range("--payments", self.payments.unwrap_or(1), 1, 10_000_000)?;
        check_range("--runs", self.runs.into(), 1, 100)?;
        check_range("--connections", self.connections as u64, 1, 1_000)?;
        check_range("--in-flight", self.in_flight as u64, 1, 100_000)?;
        check_range("--participants", self.participants.into(), 2, 9_999)
    }

    fn payments(&self, way: Way) -> u64 {
        self.payments.unwrap_or(match way {
            Way::PreferWait => WAITING_PAYMENTS_DEFAULT,
            Way::Callbacks => CALLED_PAYMENTS_DEFAULT,
        })
    }
}

/// What the clock saw.
pub(crate) struct Driven {
    took: Duration,
    post_us: Histogram<u64>,
    put_us: Histogram<u64>,
    payment_us: Histogram<u64>,
}

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_MAX_US, 3).expect("three digits")
}

fn micros(since: std::time::Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(LATENCY_MAX_US)
}

/// Runs what the options ask for.
///
/// # Errors
/// If the server does not start, a payment is not settled, or the books do not balance.
pub fn bench_fspiop(options: &FspiopOptions) -> Result<FspiopReport, BenchError> {
    options.check()?;
    let directory = Directory::open(options.data.as_deref())?;
    must_be_a_disk(directory.path())?;
    let bar = progress_bar(options.progress, options.ways.len() as u64 * u64::from(options.runs));
    let mut report = FspiopReport {
        version: env!("CARGO_PKG_VERSION"),
        machine: Machine::of(directory.path()),
        participants: options.participants,
        request_bytes: Material::request_bytes(),
        cases: Vec::new(),
    };
    for way in options.ways.iter().copied() {
        let mut runs = Vec::new();
        for number in 0..options.runs {
            bar.set_message(report::name(way));
            bar.tick();
            let run = async |server: &Server, place: &Path, disk| {
                run_once(options, way, number, server, place, disk).await
            };
            runs.push(on_new_server(&options.program, directory.path(), options.keep, run)?);
            bar.inc(1);
        }
        let rates: Vec<f64> = runs.iter().map(|run| run.payments_per_second).collect();
        report.cases.push(FspiopCase {
            way,
            connections: options.connections,
            in_flight: if way == Way::PreferWait { options.connections } else { options.in_flight },
            payments: options.payments(way),
            median_payments_per_second: median(&rates),
            runs,
        });
    }
    bar.finish_and_clear();
    directory.close(options.keep)?;
    Ok(report)
}

async fn run_once(
    options: &FspiopOptions,
    way: Way,
    number: u32,
    server: &Server,
    place: &Path,
    disk: Disk,
) -> Result<FspiopRun, BenchError> {
    let client = Client::connect(ClientOptions::to(&server.address)).await;
    let client = client.map_err(BenchError::client("connecting to the server"))?;
    let payments = options.payments(way);
    let material =
        Material::new(options.seed.wrapping_add(u64::from(number)), options.participants, payments);
    let sink = match way {
        Way::PreferWait => None,
        Way::Callbacks => Some(sink::Sink::open().await?),
    };
    set_up::participants(&server.address, options.participants, sink.as_ref().map(sink::Sink::address))
        .await?;
    let counters = Counters::read(&client).await?;
    let (server_before, client_before) = (Usage::of(server.pid()), Usage::of(std::process::id()));
    let device_before = device_written_bytes(place);
    let driving = async {
        match sink {
            None => waiting::drive(&server.address, options.connections, material, payments).await,
            Some(sink) => {
                let bounds =
                    called::Bounds { connections: options.connections, in_flight: options.in_flight };
                called::drive(&server.address, sink, bounds, material, payments).await
            }
        }
    };
    let driven = tokio::time::timeout(RUN_MAX, driving).await;
    let driven = driven.map_err(|_| BenchError::Refused("the payments came to a stop".to_owned()))??;
    let device_after = device_written_bytes(place);
    let (server_after, client_after) = (Usage::of(server.pid()), Usage::of(std::process::id()));
    let counted = Counters::read(&client).await?;
    let books = Books::read(&client).await?;
    let expected = Books { committed: payments, ..Books::default() };
    if books != expected {
        return Err(BenchError::Books(format!("{books:?} where {expected:?} was sent")));
    }
    let frames = counted.frames_since(&counters);
    let stages = counted.stages_since(&counters);
    #[allow(clippy::cast_precision_loss, reason = "a printed rate")]
    let payments_per_second = payments as f64 / driven.took.as_secs_f64();
    Ok(FspiopRun {
        seconds: driven.took.as_secs_f64(),
        payments_per_second,
        post_us: Percentiles::of(&driven.post_us),
        put_us: Percentiles::of(&driven.put_us),
        payment_us: Percentiles::of(&driven.payment_us),
        server_cpu_us_per_payment: per(server_after.cpu_us - server_before.cpu_us, payments),
        client_cpu_us_per_payment: per(client_after.cpu_us - client_before.cpu_us, payments),
        written_bytes_per_payment: device_before
            .zip(device_after)
            .map(|(before, after)| per(after.saturating_sub(before), payments)),
        server_rss_peak_bytes: server_after.rss_peak_bytes,
        frames,
        records_per_frame: per(counted.records_since(&counters), frames),
        stage_us_per_payment: stages
            .into_iter()
            .map(|(stage, nanos)| (stage, per(nanos, payments) / 1e3))
            .collect(),
        disk,
        load_average: load_average(),
    })
}
