//! The load of a depth run: whole batches in a closed loop, each request remembered with its begin and end, so that
//! it can be held against what the server did meanwhile.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use holdfast_client::{Batch, Client, SealedBatch};
use holdfast_domain::ids::Millis;
use holdfast_domain::transfers::TransferState;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use holdfast_load::LoadError;
use holdfast_load::drive::settled;
use holdfast_load::figures::Percentiles;
use holdfast_load::payments::Payments;

/// Which half of a payment a request carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leg {
    Prepares,
    Fulfils,
}

/// One request as the client felt it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Felt {
    pub(super) leg: Leg,
    pub(super) records: u64,
    pub(super) begun: Instant,
    pub(super) ended: Instant,
}

impl Felt {
    pub(super) fn took(&self) -> Duration {
        self.ended.saturating_duration_since(self.begun)
    }
}

/// Percentiles of the time that requests took.
pub(super) fn percentiles<'a>(requests: impl IntoIterator<Item = &'a Felt>) -> Percentiles {
    Percentiles::of_times(requests.into_iter().map(Felt::took))
}

/// Which halves of its payments a load carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halves {
    Both,
    Prepares,
    Fulfils,
}

/// How far a load has come, as far as the client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Step {
    Waiting,
    Sent,
    Done,
}

/// The payments of one batch, their bodies made beforehand.
pub(super) struct Load {
    pub(super) numbers: Range<u64>,
    prepares: Option<SealedBatch>,
    fulfils: Option<SealedBatch>,
    step: AtomicU8,
}

impl Load {
    pub(super) fn make(
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
        let step = AtomicU8::new(Step::Waiting as u8);
        Ok(Load { numbers, prepares: sealed(prepares), fulfils: sealed(fulfils), step })
    }

    /// Cuts `numbers` into loads of `records`.
    pub(super) fn make_all(
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

    pub(super) fn records(&self) -> u64 {
        self.numbers.end - self.numbers.start
    }

    /// Whether all of it was acknowledged.
    pub(super) fn is_done(&self) -> bool {
        self.step.load(Ordering::Acquire) == Step::Done as u8
    }

    /// Whether some of it may have reached the server.
    pub(super) fn was_sent(&self) -> bool {
        self.step.load(Ordering::Acquire) != Step::Waiting as u8
    }

    /// Sends it and remembers each request. A caller that should have begun earlier says when.
    pub(super) async fn carry(
        &self,
        client: &Client,
        due: Option<Instant>,
        diary: &Diary,
    ) -> Result<(), LoadError> {
        self.step.store(Step::Sent as u8, Ordering::Release);
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
        self.step.store(Step::Done as u8, Ordering::Release);
        Ok(())
    }

    /// Sends it once more after an unknown outcome: whatever was done before, it is settled then.
    pub(super) async fn carry_again(&self, client: &Client) -> Result<(), LoadError> {
        for (what, batch) in [("repeated prepares", &self.prepares), ("repeated fulfils", &self.fulfils)] {
            let Some(batch) = batch else { continue };
            let replies = client.batch(batch.clone()).await.map_err(LoadError::of(what))?;
            if let Some(refused) = replies.iter().find(|reply| reply.code != 0) {
                return Err(LoadError::Refused(format!("{what} were refused with {}", refused.code)));
            }
        }
        self.step.store(Step::Done as u8, Ordering::Release);
        Ok(())
    }
}

/// Every request of a stretch of load.
#[derive(Default)]
pub(super) struct Diary(Mutex<Vec<Felt>>);

impl Diary {
    fn note(&self, felt: Felt) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(felt);
    }

    /// What is noted so far; the pages are empty afterwards.
    pub(super) fn take(&self) -> Vec<Felt> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What the client felt.
pub(super) struct Carried {
    pub(super) took: Duration,
    pub(super) felt: Vec<Felt>,
}

/// Carries all loads, one request under way per connection.
pub(super) async fn carry_all(
    client: &Client,
    loads: Arc<Vec<Load>>,
    connections: usize,
) -> Result<Carried, LoadError> {
    let started = Instant::now();
    let diary = Arc::new(Diary::default());
    let mut tasks = spawn_workers(client, &loads, connections, &diary, None);
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(worker_lost)??;
    }
    Ok(Carried { took: started.elapsed(), felt: diary.take() })
}

/// Carries loads until `enough` of them are acknowledged, and returns at that moment with others under way.
pub(super) async fn carry_some(
    client: &Client,
    loads: Arc<Vec<Load>>,
    connections: usize,
    enough: usize,
) -> Result<UnderWay, LoadError> {
    let diary = Arc::new(Diary::default());
    let reached = Arc::new(Notify::new());
    let goal = Goal { done: Arc::new(AtomicUsize::new(0)), enough, reached: Arc::clone(&reached) };
    let mut tasks = spawn_workers(client, &loads, connections, &diary, Some(goal));
    loop {
        tokio::select! {
            biased;
            () = reached.notified() => return Ok(UnderWay { _tasks: tasks }),
            ended = tasks.join_next() => match ended {
                Some(ended) => ended.map_err(worker_lost)??,
                None => return Err(LoadError::Refused("the load ended before the kill".to_owned())),
            },
        }
    }
}

/// Requests whose answers nobody has read yet. Dropping it gives them up.
pub(super) struct UnderWay {
    _tasks: JoinSet<Result<(), LoadError>>,
}

#[derive(Clone)]
struct Goal {
    done: Arc<AtomicUsize>,
    enough: usize,
    reached: Arc<Notify>,
}

fn spawn_workers(
    client: &Client,
    loads: &Arc<Vec<Load>>,
    connections: usize,
    diary: &Arc<Diary>,
    goal: Option<Goal>,
) -> JoinSet<Result<(), LoadError>> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let (client, loads, diary) = (client.clone(), Arc::clone(loads), Arc::clone(diary));
        let (next, goal) = (Arc::clone(&next), goal.clone());
        tasks.spawn(async move {
            while let Some(load) = loads.get(next.fetch_add(1, Ordering::Relaxed)) {
                load.carry(&client, None, &diary).await?;
                if let Some(goal) = &goal
                    && goal.done.fetch_add(1, Ordering::Relaxed) + 1 == goal.enough
                {
                    goal.reached.notify_one();
                }
            }
            Ok(())
        });
    }
    tasks
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn worker_lost(error: tokio::task::JoinError) -> LoadError {
    LoadError::Refused(format!("a worker ended early: {error}"))
}
