//! `holdfast load transfers`: payments against a hub that is running already.
//!
//! In a closed loop each payment begins when another has ended. In an open loop payments begin at their own places
//! in time and their latency counts from there, so a hub that falls behind cannot hide it by slowing down its
//! callers. Here refusals are counted, not fatal: it is the hub that is looked at, not the benchmark.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use holdfast_client::{Abort, Client, ClientError, ClientOptions, Reply};
use holdfast_domain::ids::Millis;
use holdfast_domain::transfers::TransferState;
use serde::Serialize;
use tokio::time::timeout;

use crate::BenchError;
use crate::drive::{micros, new_histogram};
use crate::meter::Books;
use crate::options::{CALL_DEADLINE, EXPIRY, IN_FLIGHT_MAX, LoadOptions, Pace, Payers, SHORT_EXPIRY};
use crate::pace::{Starts, length, work};
use crate::payments::{Parties, Payments, mix, now_millis};
use crate::report::{Percentiles, per};

/// The code that a payee gives for an abort: "payee rejected the transaction".
const ABORT_CODE: u16 = 5_104;
/// A hub that does not take a connection by then is not there.
const CONNECT_WAIT_MAX: Duration = Duration::from_millis(1_500);
/// After the last expiration the hub may take this long until no hold of ours is open.
const EXPIRY_WAIT_MAX: Duration = Duration::from_secs(10);
/// How often it is asked meanwhile.
const EXPIRY_LOOK: Duration = Duration::from_millis(100);

/// What a load run found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct LoadReport {
    pub seconds: f64,
    pub payments: u64,
    pub payments_per_second: f64,
    /// Asked for, in an open loop.
    pub rate: Option<u64>,
    pub in_flight: usize,
    pub settled: u64,
    pub aborted: u64,
    pub left_to_expire: u64,
    /// Holds that the hub ended during the run because they ran out.
    /// `None`: the hub was gone before it could be asked.
    pub expired: Option<u64>,
    /// Refusals by the rules, by code.
    pub refused: BTreeMap<u16, u64>,
    /// Calls without a reply, by what they said.
    pub errors: BTreeMap<String, u64>,
    /// Payments that were settled or aborted: from their start (open loop: their place in time) to the end.
    pub payment_us: Percentiles,
    pub prepare_us: Percentiles,
    /// Of the fulfil or abort alone.
    pub second_us: Percentiles,
    /// In an open loop: how long after its place in time the load itself began a payment at the latest.
    pub late_us: Option<u64>,
}

/// How a load run ended: its figures, and what went wrong after they were taken.
#[derive(Debug)]
pub struct LoadEnd {
    /// What the callers felt.
    pub report: LoadReport,
    /// The hub could not be asked for its own counts any more.
    pub trouble: Option<BenchError>,
}

/// Drives the hub as the options say.
///
/// # Errors
/// If the hub is not reached or does not take the participants of the run.
pub fn load_transfers(options: &LoadOptions) -> Result<LoadEnd, BenchError> {
    options.check()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(BenchError::Runtime)?.block_on(run(options))
}

#[derive(Default)]
struct Tally {
    settled: u64,
    aborted: u64,
    left_to_expire: u64,
    refused: BTreeMap<u16, u64>,
    errors: BTreeMap<String, u64>,
}

struct Recorder {
    tally: Tally,
    payment_us: Histogram<u64>,
    prepare_us: Histogram<u64>,
    second_us: Histogram<u64>,
}

/// How a payment is meant to end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plan {
    Fulfil,
    Abort,
    Expire,
}

struct Loading {
    client: Client,
    payments: Payments,
    options: LoadOptions,
    starts: Arc<Starts>,
    recorder: Mutex<Recorder>,
}

async fn run(options: &LoadOptions) -> Result<LoadEnd, BenchError> {
    let client = Client::connect(ClientOptions {
        connections: options.connections,
        calls_max: IN_FLIGHT_MAX,
        deadline: CALL_DEADLINE,
        jitter_seed: options.seed,
        api_key: options.api_key.clone(),
        ..ClientOptions::to(&options.address)
    });
    let client = match timeout(CONNECT_WAIT_MAX, client).await {
        Ok(client) => client.map_err(BenchError::client(format!("connecting to {}", options.address)))?,
        Err(_) => return Err(BenchError::NoHub(options.address.clone())),
    };
    let parties = Parties::create(&client, options.seed, options.accounts).await?;
    // A cluster with a long history does not count it; only who waits for expirations needs to know.
    let before = if options.expire_percent > 0 { Books::read(&client).await? } else { Books::default() };
    let (count, time) = length(options.pace, options.seconds, options.payments);
    let starts = Arc::new(Starts::new("payments", options.pace, count, time, options.in_flight));
    let loading = Arc::new(Loading {
        client,
        payments: Payments::new(parties, Payers::Uniform, options.seed),
        options: options.clone(),
        starts: Arc::clone(&starts),
        recorder: Mutex::new(Recorder {
            tally: Tally::default(),
            payment_us: new_histogram(),
            prepare_us: new_histogram(),
            second_us: new_histogram(),
        }),
    });
    let workers = (0..options.in_flight).map(|_| {
        let loading = Arc::clone(&loading);
        async move { loading.work().await }
    });
    let took = work(&starts, options.progress, workers, |()| Ok(())).await?;
    let (expired, trouble) = match wait_for_expiry(&loading, before).await {
        Ok(expired) => (Some(expired), None),
        Err(error) => (None, Some(error)),
    };
    Ok(LoadEnd { report: loading.report(took, expired), trouble })
}

/// Waits until the holds that were left alone have run out; gives how many have.
async fn wait_for_expiry(loading: &Loading, before: Books) -> Result<u64, BenchError> {
    let left = loading.lock().tally.left_to_expire;
    if left == 0 {
        return Ok(0);
    }
    let given_up = Instant::now() + SHORT_EXPIRY + EXPIRY_WAIT_MAX;
    let mut look = tokio::time::interval(EXPIRY_LOOK);
    loop {
        look.tick().await;
        let expired = Books::read(&loading.client).await?.expired.saturating_sub(before.expired);
        if expired >= left || Instant::now() >= given_up {
            return Ok(expired);
        }
    }
}

impl Loading {
    fn lock(&self) -> std::sync::MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn work(&self) {
        while let Some((number, begun)) = self.starts.next().await {
            self.pay(number, begun).await;
        }
    }

    fn plan(&self, number: u64) -> Plan {
        let dice = mix(self.options.seed ^ 0x5d, number) % 100;
        let (abort, expire) = (u64::from(self.options.abort_percent), u64::from(self.options.expire_percent));
        match dice {
            dice if dice < abort => Plan::Abort,
            dice if dice < abort + expire => Plan::Expire,
            _ => Plan::Fulfil,
        }
    }

    async fn pay(&self, number: u64, begun: Instant) {
        let plan = self.plan(number);
        let life = if plan == Plan::Expire { SHORT_EXPIRY } else { EXPIRY };
        let life = Millis::try_from(life.as_millis()).unwrap_or(Millis::MAX);
        let condition = self.payments.condition(number);
        let prepare = self.payments.prepare(number, condition, now_millis().saturating_add(life));
        let prepared = self.client.prepare(prepare).await;
        let prepare_us = micros(begun.elapsed());
        if !self.count_reply(&prepared, TransferState::Reserved) {
            return;
        }
        if plan == Plan::Expire {
            let mut recorder = self.lock();
            recorder.prepare_us.saturating_record(prepare_us);
            recorder.tally.left_to_expire += 1;
            return;
        }
        let fulfil = self.payments.fulfil(number);
        let second = Instant::now();
        let (ended, state) = match plan {
            Plan::Abort => {
                let abort = Abort { id: fulfil.id, payee: fulfil.payee, code: ABORT_CODE };
                (self.client.abort(abort).await, TransferState::AbortedError)
            }
            _ => (self.client.fulfil(fulfil).await, TransferState::Committed),
        };
        let (second_us, payment_us) = (micros(second.elapsed()), micros(begun.elapsed()));
        if self.count_reply(&ended, state) {
            let mut recorder = self.lock();
            recorder.prepare_us.saturating_record(prepare_us);
            recorder.second_us.saturating_record(second_us);
            recorder.payment_us.saturating_record(payment_us);
            match plan {
                Plan::Abort => recorder.tally.aborted += 1,
                _ => recorder.tally.settled += 1,
            }
        }
    }

    /// Counts what did not go well; `true` if the transfer is where it should be.
    fn count_reply(&self, reply: &Result<Reply, ClientError>, state: TransferState) -> bool {
        match reply {
            Ok(reply) if reply.state == Some(state) => return true,
            Ok(reply) => *self.lock().tally.refused.entry(reply.code).or_default() += 1,
            Err(error) => *self.lock().tally.errors.entry(error.to_string()).or_default() += 1,
        }
        false
    }

    fn report(&self, took: Duration, expired: Option<u64>) -> LoadReport {
        let recorder = self.lock();
        let tally = &recorder.tally;
        let bad = tally.refused.values().sum::<u64>() + tally.errors.values().sum::<u64>();
        let payments = tally.settled + tally.aborted + tally.left_to_expire + bad;
        LoadReport {
            seconds: took.as_secs_f64(),
            payments,
            payments_per_second: per(payments, micros(took)) * 1e6,
            rate: match self.options.pace {
                Pace::Open { rate } => Some(rate),
                Pace::Closed => None,
            },
            in_flight: self.options.in_flight,
            settled: tally.settled,
            aborted: tally.aborted,
            left_to_expire: tally.left_to_expire,
            expired,
            refused: tally.refused.clone(),
            errors: tally.errors.clone(),
            payment_us: Percentiles::of(&recorder.payment_us),
            prepare_us: Percentiles::of(&recorder.prepare_us),
            second_us: Percentiles::of(&recorder.second_us),
            late_us: self.starts.late_us(),
        }
    }
}
