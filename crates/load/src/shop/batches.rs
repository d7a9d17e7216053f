//! Checkouts through the client: whole batches, each connection with one under way, or single calls that it coalesces. All
//! bodies are made before the clock starts. A checkout that is neither paid nor failed ends the run.

use std::sync::Arc;
use std::time::Duration;

use holdfast_client::{Batch, Checkout, CheckoutReply, Client, SealedBatch};
use holdfast_domain::shop::OrderId;

use crate::LoadError;
use crate::figures::Latency;
use crate::options::LOAD_SECONDS_MAX;
use crate::pace::{Starts, work};

/// Requests that may be under way or wait in an open loop, so that a slow one does not hold up the next.
const OPEN_LOOP_REQUESTS: usize = 64;

/// What the clock saw.
#[derive(Default)]
pub struct Driven {
    pub took: Duration,
    pub paid: u64,
    pub failed: u64,
    /// Of a whole request, or of a single call.
    pub latency: Latency,
}

impl Driven {
    fn add(&mut self, other: &Driven) {
        self.paid += other.paid;
        self.failed += other.failed;
        self.latency.add(&other.latency);
    }

    fn take(&mut self, reply: Option<CheckoutReply>) -> Result<(), LoadError> {
        match reply {
            Some(CheckoutReply::Paid { .. }) => self.paid += 1,
            Some(CheckoutReply::Failed { .. }) => self.failed += 1,
            other => return Err(LoadError::Refused(format!("a checkout was answered with {other:?}"))),
        }
        Ok(())
    }
}

fn order(number: u64) -> OrderId {
    number.to_string().parse().expect("digits are an id")
}

/// The bodies of all batches.
fn bodies(checkouts: u64, records: usize) -> Result<Vec<SealedBatch>, LoadError> {
    let numbers: Vec<u64> = (0..checkouts).collect();
    numbers
        .chunks(records)
        .map(|chunk| {
            let mut batch = Batch::with_capacity(chunk.len());
            for number in chunk {
                batch.push(&Checkout::of(order(*number)).into()).map_err(LoadError::of("writing a batch"))?;
            }
            Ok(batch.seal())
        })
        .collect()
}

/// Sends orders `0` to `checkouts`, so many in a request; in an open loop so many requests per second.
pub async fn in_batches(
    client: &Client,
    checkouts: u64,
    records: usize,
    connections: usize,
    rate: Option<u64>,
) -> Result<Driven, LoadError> {
    let (client, bodies) = (client.clone(), Arc::new(bodies(checkouts, records)?));
    let workers = if rate.is_some() { OPEN_LOOP_REQUESTS } else { connections };
    drive(bodies.len() as u64, rate, workers, move |number| {
        let body = bodies[usize::try_from(number).expect("below their count")].clone();
        let client = client.clone();
        async move {
            let replies = client.batch(body).await.map_err(LoadError::of("a batch of checkouts"))?;
            Ok(replies.into_iter().map(|reply| CheckoutReply::from_reply(&reply)))
        }
    })
    .await
}

/// Calls one by one, so many under way at once.
pub async fn singly(client: &Client, checkouts: u64, in_flight: usize) -> Result<Driven, LoadError> {
    let client = client.clone();
    drive(checkouts, None, in_flight, move |number| {
        let client = client.clone();
        async move {
            let reply = client.checkout(Checkout::of(order(number))).await;
            Ok([Some(reply.map_err(LoadError::of("a checkout"))?)])
        }
    })
    .await
}

/// Has `workers` make `count` calls; the clock of each stops before its replies are looked at.
async fn drive<F, R>(
    count: u64,
    rate: Option<u64>,
    workers: usize,
    call: impl Fn(u64) -> F + Clone + Send + 'static,
) -> Result<Driven, LoadError>
where
    F: Future<Output = Result<R, LoadError>> + Send,
    R: IntoIterator<Item = Option<CheckoutReply>> + Send,
{
    let time = Duration::from_secs(LOAD_SECONDS_MAX);
    let starts = Arc::new(Starts::new("requests", rate, count, time, workers));
    let workers = (0..workers).map(|_| {
        let (starts, call) = (Arc::clone(&starts), call.clone());
        async move {
            let mut driven = Driven::default();
            while let Some((number, begun)) = starts.next().await {
                let replies = call(number).await?;
                driven.latency.record(begun.elapsed());
                replies.into_iter().try_for_each(|reply| driven.take(reply))?;
            }
            Ok(driven)
        }
    });
    let mut all = Driven::default();
    let took = work(&starts, true, workers, |driven: Result<Driven, LoadError>| {
        all.add(&driven?);
        Ok(())
    });
    let took = took.await?;
    Ok(Driven { took, ..all })
}
