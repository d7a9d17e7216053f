//! The closed loops of the benchmark: whole batches, one request per connection under way, or single payments
//! through the coalescing client. Each stops at the first payment that is not settled.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use holdfast_client::{Batch, Client, ClientError, Reply, SealedBatch};
use holdfast_domain::ids::Millis;
use holdfast_domain::transfers::TransferState;
use tokio::task::JoinSet;

use crate::LoadError;
use crate::figures::Latency;
use crate::options::EXPIRY;
use crate::payments::{Payers, Payments, after};

/// The slowest rate of one process for which expirations are planned: bodies are made before the clock starts.
pub const PAYMENTS_PER_SECOND_MIN: u64 = 20_000;

/// How payments are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Requests of so many records; each connection has one under way.
    Batches {
        /// Records in a request.
        records: usize,
    },
    /// Single payments through the coalescing client.
    Singles {
        /// Payments under way at once.
        in_flight: usize,
    },
}

/// Payments that are driven together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// How payments are sent.
    pub way: Way,
    /// Who pays.
    pub payers: Payers,
    /// Connections.
    pub connections: usize,
    /// How many.
    pub payments: u64,
}

impl Case {
    /// A line's name.
    #[must_use]
    pub fn name(&self) -> String {
        let hot = if self.payers == Payers::Hot { ", one hot payer" } else { "" };
        match self.way {
            Way::Batches { records } => {
                format!("batches of {records}, {} connections{hot}", self.connections)
            }
            Way::Singles { in_flight } => format!("singles, {in_flight} in flight{hot}"),
        }
    }
}

/// Everything that is made before the clock starts.
pub enum Material {
    /// The bodies of prepares and fulfils, batch by batch.
    Batches(Vec<(SealedBatch, SealedBatch)>),
    /// Payments and their conditions.
    Singles(Payments, Vec<[u8; 32]>),
}

/// What the clock saw.
#[derive(Debug, Default)]
pub struct Driven {
    /// All of it.
    pub took: Duration,
    /// A prepare, or a request of them.
    pub prepare: Latency,
    /// A fulfil, or a request of them.
    pub fulfil: Latency,
    /// From the prepare's call to the fulfil's answer.
    pub payment: Latency,
}

impl Material {
    /// What the case needs of these payments; no hold runs out if at least `rate_min` are made per second.
    pub fn make(case: &Case, payments: Payments, rate_min: u64) -> Result<Material, LoadError> {
        let Way::Batches { records } = case.way else {
            let conditions = payments.conditions(case.payments);
            return Ok(Material::Singles(payments, conditions));
        };
        let slow = Duration::from_secs(case.payments / rate_min.max(1));
        let expiration = after(EXPIRY + slow);
        let full = |error| LoadError::of("writing a batch")(error);
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

struct Loop {
    client: Client,
    material: Material,
    next: AtomicUsize,
    recorder: Mutex<Driven>,
}

impl Loop {
    fn record(&self, prepare: Duration, fulfil: Duration) {
        let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        recorder.prepare.record(prepare);
        recorder.fulfil.record(fulfil);
        recorder.payment.record(prepare + fulfil);
    }

    async fn carry_batches(&self, batches: &[(SealedBatch, SealedBatch)]) -> Result<(), LoadError> {
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

    async fn pay_one_by_one(&self, payments: &Payments, conditions: &[[u8; 32]]) -> Result<(), LoadError> {
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

    async fn work(&self) -> Result<(), LoadError> {
        match &self.material {
            Material::Batches(batches) => self.carry_batches(batches).await,
            Material::Singles(payments, conditions) => self.pay_one_by_one(payments, conditions).await,
        }
    }
}

/// Runs the case to its end.
pub async fn drive(case: &Case, client: Client, material: Material) -> Result<Driven, LoadError> {
    let workers = match case.way {
        Way::Batches { .. } => case.connections,
        Way::Singles { in_flight } => in_flight,
    };
    let started = Instant::now();
    let shared = Loop { client, material, next: AtomicUsize::new(0), recorder: Mutex::default() };
    let shared = Arc::new(shared);
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let shared = Arc::clone(&shared);
        tasks.spawn(async move { shared.work().await });
    }
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(worked) => worked?,
            Err(error) => return Err(LoadError::Refused(format!("a worker ended early: {error}"))),
        }
    }
    let took = started.elapsed();
    let shared = Arc::into_inner(shared).ok_or_else(|| LoadError::Refused("a worker is left".to_owned()))?;
    let driven = shared.recorder.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Driven { took, ..driven })
}

/// Every reply must be in this state and without an error.
pub fn settled<R: AsRef<[Reply]>>(
    what: &'static str,
    replies: Result<R, ClientError>,
    state: TransferState,
) -> Result<(), LoadError> {
    let replies = replies.map_err(LoadError::of(what))?;
    match replies.as_ref().iter().find(|reply| reply.code != 0 || reply.state != Some(state)) {
        None => Ok(()),
        Some(Reply { code, state, .. }) => {
            let state = state.map_or("no state", TransferState::name);
            Err(LoadError::Refused(format!("{what} ended in {state} with code {code}")))
        }
    }
}
