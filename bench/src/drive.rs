//! The closed loops of the benchmark: whole batches, one request per connection under way, or single payments
//! through the coalescing client. Each stops at the first payment that is not settled.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use holdfast_client::{Batch, Client, ClientError, Reply, SealedBatch};
use holdfast_domain::ids::Millis;
use holdfast_domain::transfers::TransferState;
use tokio::task::JoinSet;

use crate::BenchError;
use crate::options::{Case, EXPIRY, Way};
use crate::payments::{Payments, now_millis};
use crate::report::LATENCY_MAX_US;

/// The slowest rate of one process for which expirations are planned: bodies are made before the clock starts.
pub(crate) const PAYMENTS_PER_SECOND_MIN: u64 = 20_000;

/// Everything that is made before the clock starts.
pub(crate) enum Material {
    /// The bodies of prepares and fulfils, batch by batch.
    Batches(Vec<(SealedBatch, SealedBatch)>),
    /// Payments and their conditions.
    Singles(Payments, Vec<[u8; 32]>),
}

/// What the clock saw.
pub(crate) struct Driven {
    pub(crate) took: Duration,
    pub(crate) prepare_us: Histogram<u64>,
    pub(crate) fulfil_us: Histogram<u64>,
    /// From the prepare's call to the fulfil's answer.
    pub(crate) payment_us: Histogram<u64>,
}

pub(crate) fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_MAX_US, 3).expect("three digits are possible")
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(LATENCY_MAX_US)
}

impl Material {
    /// What the case needs of these payments; no hold runs out if at least `rate_min` are made per second.
    pub(crate) fn make(case: &Case, payments: Payments, rate_min: u64) -> Result<Material, BenchError> {
        let Way::Batches { records } = case.way else {
            let conditions = payments.conditions(case.payments);
            return Ok(Material::Singles(payments, conditions));
        };
        let slow = Duration::from_secs(case.payments / rate_min.max(1));
        let expiration = after(EXPIRY + slow);
        let full = |error| BenchError::client("writing a batch")(error);
        let numbers: Vec<u64> = (0..case.payments).collect();
        let mut batches = Vec::with_capacity(numbers.len() / records + 1);
        for chunk in numbers.chunks(records) {
            let (mut prepares, mut fulfils) =
                (Batch::with_capacity(chunk.len()), Batch::with_capacity(chunk.len()));
            for number in chunk.iter().copied() {
                let prepare = payments.prepare(number, payments.condition(number), expiration);
                prepares.push(&prepare.into()).map_err(full)?;
                fulfils.push(&payments.fulfil(number).into()).map_err(full)?;
            }
            batches.push((prepares.seal(), fulfils.seal()));
        }
        Ok(Material::Batches(batches))
    }
}

pub(crate) fn after(time: Duration) -> Millis {
    now_millis().saturating_add(Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX))
}

struct Loop {
    client: Client,
    material: Material,
    next: AtomicUsize,
    recorder: Mutex<Driven>,
}

impl Loop {
    fn record(&self, prepare: Duration, fulfil: Duration) {
        let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        recorder.prepare_us.saturating_record(micros(prepare));
        recorder.fulfil_us.saturating_record(micros(fulfil));
        recorder.payment_us.saturating_record(micros(prepare + fulfil));
    }

    async fn carry_batches(&self, batches: &[(SealedBatch, SealedBatch)]) -> Result<(), BenchError> {
        while let Some((prepares, fulfils)) = batches.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let started = Instant::now();
            settled(
                "a batch of prepares",
                self.client.batch(prepares.clone()).await,
                TransferState::Reserved,
            )?;
            let prepared = Instant::now();
            settled(
                "a batch of fulfils",
                self.client.batch(fulfils.clone()).await,
                TransferState::Committed,
            )?;
            self.record(prepared - started, prepared.elapsed());
        }
        Ok(())
    }

    async fn pay_one_by_one(&self, payments: &Payments, conditions: &[[u8; 32]]) -> Result<(), BenchError> {
        // One wall-clock reading per worker, carried on by the monotonic clock.
        let (wall, begun) = (after(EXPIRY), Instant::now());
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(condition) = conditions.get(number) else { return Ok(()) };
            let number = number as u64;
            let started = Instant::now();
            let expiration = wall + Millis::try_from((started - begun).as_millis()).unwrap_or(0);
            let prepare = self.client.prepare(payments.prepare(number, *condition, expiration)).await;
            settled("a prepare", prepare.map(|reply| [reply]), TransferState::Reserved)?;
            let prepared = Instant::now();
            let fulfil = self.client.fulfil(payments.fulfil(number)).await;
            settled("a fulfil", fulfil.map(|reply| [reply]), TransferState::Committed)?;
            self.record(prepared - started, prepared.elapsed());
        }
    }

    async fn work(&self) -> Result<(), BenchError> {
        match &self.material {
            Material::Batches(batches) => self.carry_batches(batches).await,
            Material::Singles(payments, conditions) => self.pay_one_by_one(payments, conditions).await,
        }
    }
}

/// Runs the case to its end.
pub(crate) async fn drive(case: &Case, client: Client, material: Material) -> Result<Driven, BenchError> {
    let workers = match case.way {
        Way::Batches { .. } => case.connections,
        Way::Singles { in_flight } => in_flight,
    };
    let started = Instant::now();
    let recorder = Driven {
        took: Duration::ZERO,
        prepare_us: new_histogram(),
        fulfil_us: new_histogram(),
        payment_us: new_histogram(),
    };
    let shared = Loop { client, material, next: AtomicUsize::new(0), recorder: Mutex::new(recorder) };
    let shared = Arc::new(shared);
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let shared = Arc::clone(&shared);
        tasks.spawn(async move { shared.work().await });
    }
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(worked) => worked?,
            Err(error) => return Err(BenchError::Refused(format!("a worker ended early: {error}"))),
        }
    }
    let took = started.elapsed();
    let shared = Arc::into_inner(shared).ok_or_else(|| BenchError::Refused("a worker is left".to_owned()))?;
    let driven = shared.recorder.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Driven { took, ..driven })
}

/// Every reply must be in this state and without an error.
pub(crate) fn settled<R: AsRef<[Reply]>>(
    what: &'static str,
    replies: Result<R, ClientError>,
    state: TransferState,
) -> Result<(), BenchError> {
    let replies = replies.map_err(BenchError::client(what))?;
    match replies.as_ref().iter().find(|reply| reply.code != 0 || reply.state != Some(state)) {
        None => Ok(()),
        Some(Reply { code, state, .. }) => {
            let state = state.map_or("no state", TransferState::name);
            Err(BenchError::Refused(format!("{what} ended in {state} with code {code}")))
        }
    }
}
