//! Checkouts through the client: whole batches, each connection with one under way, or single calls that it coalesces. All
//! bodies are made before the clock starts. A checkout that is neither paid nor failed ends the run.

use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use holdfast_client::{Batch, Checkout, CheckoutReply, Client, Reply, SealedBatch};
use holdfast_domain::shop::OrderId;

use crate::BenchError;
use crate::drive::{micros, new_histogram};
use crate::options::{LOAD_SECONDS_MAX, Pace};
use crate::pace::{Starts, work};

/// Requests that may be under way or wait in an open loop, so that a slow one does not hold up the next.
const OPEN_LOOP_REQUESTS: usize = 64;

/// What the clock saw.
pub(super) struct Driven {
    pub(super) took: Duration,
    pub(super) paid: u64,
    pub(super) failed: u64,
    /// Of a whole request, or of a single call.
    pub(super) latency_us: Histogram<u64>,
}

impl Driven {
    fn new() -> Driven {
        Driven { took: Duration::ZERO, paid: 0, failed: 0, latency_us: new_histogram() }
    }

    fn add(&mut self, other: &Driven) {
        self.paid += other.paid;
        self.failed += other.failed;
        self.latency_us.add(&other.latency_us).expect("the same bounds");
    }

    fn take(&mut self, reply: Option<CheckoutReply>) -> Result<(), BenchError> {
        match reply {
            Some(CheckoutReply::Paid { .. }) => self.paid += 1,
            Some(CheckoutReply::Failed { .. }) => self.failed += 1,
            other => return Err(BenchError::Refused(format!("a checkout was answered with {other:?}"))),
        }
        Ok(())
    }
}

fn order(number: u64) -> OrderId {
    number.to_string().parse().expect("digits are an id")
}

/// The bodies of all batches.
fn bodies(checkouts: u64, records: usize) -> Result<Vec<SealedBatch>, BenchError> {
    let numbers: Vec<u64> = (0..checkouts).collect();
    numbers
        .chunks(records)
        .map(|chunk| {
            let mut batch = Batch::with_capacity(chunk.len());
            for number in chunk {
                batch
                    .push(&Checkout::of(order(*number)).into())
                    .map_err(BenchError::client("writing a batch"))?;
            }
            Ok(batch.seal())
        })
        .collect()
}

/// Sends orders `0` to `checkouts`, so many in a request; in an open loop so many requests per second.
pub(super) async fn in_batches(
    client: &Client,
    checkouts: u64,
    records: usize,
    connections: usize,
    pace: Pace,
) -> Result<Driven, BenchError> {
    let bodies = Arc::new(bodies(checkouts, records)?);
    let workers = match pace {
        Pace::Closed => connections,
        Pace::Open { .. } => OPEN_LOOP_REQUESTS,
    };
    drive(bodies.len() as u64, pace, workers, |starts| {
        let (client, bodies) = (client.clone(), Arc::clone(&bodies));
        async move {
            let mut driven = Driven::new();
            while let Some((number, begun)) = starts.next().await {
                let body = bodies[usize::try_from(number).expect("below their count")].clone();
                let replies = client.batch(body).await.map_err(BenchError::client("a batch of checkouts"))?;
                driven.latency_us.saturating_record(micros(begun.elapsed()));
                replies.iter().try_for_each(|reply: &Reply| driven.take(CheckoutReply::from_reply(reply)))?;
            }
            Ok(driven)
        }
    })
    .await
}

/// Calls one by one, so many under way at once.
pub(super) async fn singly(client: &Client, checkouts: u64, in_flight: usize) -> Result<Driven, BenchError> {
    drive(checkouts, Pace::Closed, in_flight, |starts| {
        let client = client.clone();
        async move {
            let mut driven = Driven::new();
            while let Some((number, begun)) = starts.next().await {
                let reply = client.checkout(Checkout::of(order(number))).await;
                driven.latency_us.saturating_record(micros(begun.elapsed()));
                driven.take(Some(reply.map_err(BenchError::client("a checkout"))?))?;
            }
            Ok(driven)
        }
    })
    .await
}

async fn drive<F>(
    count: u64,
    pace: Pace,
    workers: usize,
    worker: impl Fn(Arc<Starts>) -> F,
) -> Result<Driven, BenchError>
where
    F: Future<Output = Result<Driven, BenchError>> + Send + 'static,
{
    let time = Duration::from_secs(LOAD_SECONDS_MAX);
    let starts = Arc::new(Starts::new("requests", pace, count, time, workers));
    let workers = (0..workers).map(|_| worker(Arc::clone(&starts)));
    let mut all = Driven::new();
    let took = work(&starts, false, workers, |driven| {
        all.add(&driven?);
        Ok(())
    });
    let took = took.await?;
    Ok(Driven { took, ..all })
}
