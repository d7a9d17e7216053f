//! Whole batches of payments, made beforehand and sent one after the other, each request remembered with its begin and end.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use holdfast_client::{Batch, Client, SealedBatch};
use holdfast_domain::ids::Millis;
use holdfast_domain::transfers::TransferState;
use tokio::task::JoinSet;

use crate::LoadError;
use crate::drive::settled;
use crate::figures::{Percentiles, lock};
use crate::payments::Payments;

/// Which half of a payment a request carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leg {
    /// The first half.
    Prepares,
    /// The second half.
    Fulfils,
}

/// One request as the client felt it.
#[derive(Debug, Clone, Copy)]
pub struct Felt {
    /// Which half it carried.
    pub leg: Leg,
    /// How many payments.
    pub records: u64,
    /// When it began, or should have.
    pub begun: Instant,
    /// When it was answered.
    pub ended: Instant,
}

impl Felt {
    /// From the one to the other.
    pub fn took(&self) -> Duration {
        self.ended.saturating_duration_since(self.begun)
    }
}

/// Percentiles of the time that requests took.
pub fn percentiles<'a>(requests: impl IntoIterator<Item = &'a Felt>) -> Percentiles {
    Percentiles::of_times(requests.into_iter().map(Felt::took))
}

/// Which halves of its payments a load carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halves {
    /// Whole payments.
    Both,
    /// Holds that stay open.
    Prepares,
    /// The ends of such.
    Fulfils,
}

/// The payments of one batch, their bodies made beforehand.
pub struct Load {
    /// Which payments.
    pub numbers: Range<u64>,
    prepares: Option<SealedBatch>,
    fulfils: Option<SealedBatch>,
    was_sent: AtomicBool,
    is_done: AtomicBool,
}

impl Load {
    /// The bodies of these payments.
    pub fn make(
        payments: &Payments,
        numbers: Range<u64>,
        halves: Halves,
        expiration: Millis,
    ) -> Result<Load, LoadError> {
        let full = |error| LoadError::of("writing a batch")(error);
        let room = usize::try_from(numbers.end - numbers.start).unwrap_or(usize::MAX);
        let (mut prepares, mut fulfils) = (Batch::with_capacity(room), Batch::with_capacity(room));
        for number in numbers.clone() {
            if halves != Halves::Fulfils {
                let prepare = payments.prepare(number, payments.condition(number), expiration);
                prepares.push(&prepare.into()).map_err(full)?;
            }
            if halves != Halves::Prepares {
                fulfils.push(&payments.fulfil(number).into()).map_err(full)?;
            }
        }
        let sealed = |batch: Batch| (!batch.is_empty()).then(|| batch.seal());
        let (was_sent, is_done) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Load { numbers, prepares: sealed(prepares), fulfils: sealed(fulfils), was_sent, is_done })
    }

    /// Cuts `numbers` into loads of `records`.
    pub fn make_all(
        payments: &Payments,
        numbers: Range<u64>,
        records: usize,
        halves: Halves,
        expiration: Millis,
    ) -> Result<Vec<Load>, LoadError> {
        let starts = numbers.clone().step_by(records);
        let cut = starts.map(|start| start..(start + records as u64).min(numbers.end));
        cut.map(|part| Load::make(payments, part, halves, expiration)).collect()
    }

    /// How many payments.
    pub fn records(&self) -> u64 {
        self.numbers.end - self.numbers.start
    }

    /// Whether all of it was acknowledged.
    pub fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }

    /// Whether some of it may have reached the server.
    pub fn was_sent(&self) -> bool {
        self.was_sent.load(Ordering::Acquire)
    }

    /// Sends it and remembers each request. A caller that should have begun earlier says when.
    pub async fn carry(&self, client: &Client, due: Option<Instant>, diary: &Diary) -> Result<(), LoadError> {
        self.was_sent.store(true, Ordering::Release);
        let legs = [
            (Leg::Prepares, &self.prepares, "a batch of prepares", TransferState::Reserved),
            (Leg::Fulfils, &self.fulfils, "a batch of fulfils", TransferState::Committed),
        ];
        let mut begun = due.unwrap_or_else(Instant::now);
        for (leg, batch, what, state) in legs {
            let Some(batch) = batch else { continue };
            settled(what, client.batch(batch.clone()).await, state)?;
            let ended = Instant::now();
            diary.note(Felt { leg, records: self.records(), begun, ended });
            begun = ended;
        }
        self.is_done.store(true, Ordering::Release);
        Ok(())
    }

    /// Sends it once more after an unknown outcome: whatever was done before, it is settled then.
    pub async fn carry_again(&self, client: &Client) -> Result<(), LoadError> {
        for (what, batch) in [("repeated prepares", &self.prepares), ("repeated fulfils", &self.fulfils)] {
            let Some(batch) = batch else { continue };
            let replies = client.batch(batch.clone()).await.map_err(LoadError::of(what))?;
            if let Some(refused) = replies.iter().find(|reply| reply.code != 0) {
                return Err(LoadError::Refused(format!("{what} were refused with {}", refused.code)));
            }
        }
        self.is_done.store(true, Ordering::Release);
        Ok(())
    }
}

/// Every request of a stretch of load.
#[derive(Default)]
pub struct Diary(Mutex<Vec<Felt>>);

impl Diary {
    fn note(&self, felt: Felt) {
        lock(&self.0).push(felt);
    }

    /// What is noted so far; the pages are empty afterwards.
    pub fn take(&self) -> Vec<Felt> {
        std::mem::take(&mut *lock(&self.0))
    }
}

/// What the client felt.
pub struct Carried {
    /// All of it.
    pub took: Duration,
    /// Every request.
    pub felt: Vec<Felt>,
}

/// Carries all loads, one request under way per connection.
///
/// # Errors
/// The first request that does not settle all of its payments.
pub async fn carry_all(
    client: &Client,
    loads: Arc<Vec<Load>>,
    connections: usize,
) -> Result<Carried, LoadError> {
    let started = Instant::now();
    let diary = Arc::new(Diary::default());
    all_end(carry_each(client, &loads, connections, &diary, || ())).await?;
    Ok(Carried { took: started.elapsed(), felt: diary.take() })
}

/// The same on tasks of their own; `done` is called after each load.
pub fn carry_each(
    client: &Client,
    loads: &Arc<Vec<Load>>,
    connections: usize,
    diary: &Arc<Diary>,
    done: impl Fn() + Clone + Send + 'static,
) -> JoinSet<Result<(), LoadError>> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let (client, loads, diary) = (client.clone(), Arc::clone(loads), Arc::clone(diary));
        let (next, done) = (Arc::clone(&next), done.clone());
        tasks.spawn(async move {
            while let Some(load) = loads.get(next.fetch_add(1, Ordering::Relaxed)) {
                load.carry(&client, None, &diary).await?;
                done();
            }
            Ok(())
        });
    }
    tasks
}

/// Waits until all have come to their end.
///
/// # Errors
/// The first that ends with one.
pub async fn all_end(mut tasks: JoinSet<Result<(), LoadError>>) -> Result<(), LoadError> {
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(worker_lost)??;
    }
    Ok(())
}

/// A task that did not come to its end.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub fn worker_lost(error: tokio::task::JoinError) -> LoadError {
    LoadError::Refused(format!("a worker ended early: {error}"))
}
