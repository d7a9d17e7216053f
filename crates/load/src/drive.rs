//! The closed loops of the benchmark: whole batches, one request per connection under way, or single payments
//! through the coalescing client. Each stops at the first payment that is not settled.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use holdfast_client::{Client, ClientError, Reply};
use holdfast_domain::ids::Millis;
use holdfast_domain::transfers::TransferState;
use tokio::task::JoinSet;

use crate::LoadError;
use crate::batches::{Carried, Halves, Leg, Load, all_end, carry_all};
use crate::figures::{Latency, lock};
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
    Batches(Arc<Vec<Load>>),
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
        let loads = Load::make_all(&payments, 0..case.payments, records, Halves::Both, expiration)?;
        Ok(Material::Batches(Arc::new(loads)))
    }
}

/// Runs the case to its end.
///
/// # Errors
/// The first payment that is not settled.
pub async fn drive(case: &Case, client: Client, material: Material) -> Result<Driven, LoadError> {
    match (material, case.way) {
        (Material::Batches(loads), _) => {
            let Carried { took, felt } = carry_all(&client, loads, case.connections).await?;
            let mut driven = Driven { took, ..Driven::default() };
            for felt in felt {
                match felt.leg {
                    Leg::Prepares => driven.prepare.record(felt.took()),
                    Leg::Fulfils => driven.fulfil.record(felt.took()),
                }
            }
            Ok(driven)
        }
        (Material::Singles(payments, conditions), Way::Singles { in_flight }) => {
            let next = AtomicUsize::new(0);
            let driven = Mutex::default();
            Arc::new(Singles { client, payments, conditions, next, driven }).drive(in_flight).await
        }
        _ => Err(LoadError::Refused("payments were not made for single calls".to_owned())),
    }
}

/// Single payments, each after another has ended.
struct Singles {
    client: Client,
    payments: Payments,
    conditions: Vec<[u8; 32]>,
    next: AtomicUsize,
    driven: Mutex<Driven>,
}

impl Singles {
    async fn drive(self: Arc<Self>, in_flight: usize) -> Result<Driven, LoadError> {
        let started = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..in_flight {
            let singles = Arc::clone(&self);
            tasks.spawn(async move { singles.work().await });
        }
        all_end(tasks).await?;
        let took = started.elapsed();
        let driven = std::mem::take(&mut *lock(&self.driven));
        Ok(Driven { took, ..driven })
    }

    async fn work(&self) -> Result<(), LoadError> {
        // One wall-clock reading per worker, carried on by the monotonic clock.
        let (wall, begun) = (after(EXPIRY), Instant::now());
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(condition) = self.conditions.get(number) else { return Ok(()) };
            let number = number as u64;
            let started = Instant::now();
            let expiration = wall + Millis::try_from((started - begun).as_millis()).unwrap_or(0);
            let prepare = self.client.prepare(self.payments.prepare(number, *condition, expiration)).await;
            settled("a prepare", prepare.map(|reply| [reply]), TransferState::Reserved)?;
            let prepared = Instant::now();
            let fulfil = self.client.fulfil(self.payments.fulfil(number)).await;
            settled("a fulfil", fulfil.map(|reply| [reply]), TransferState::Committed)?;
            let fulfilled = prepared.elapsed();
            let mut driven = lock(&self.driven);
            driven.prepare.record(prepared - started);
            driven.fulfil.record(fulfilled);
            driven.payment.record(prepared - started + fulfilled);
        }
    }
}

/// Every reply must be in this state and without an error.
///
/// # Errors
/// The first that is not.
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
