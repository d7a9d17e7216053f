//! Payments with callbacks: the payee fulfils what it is called for, and a payment ends when the payer is called.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::Driven;
use super::material::Material;
use super::sink::{Called, Sink};
use holdfast_load::LoadError;
use holdfast_load::batches::worker_lost;
use holdfast_load::wire::Wire;

/// How much at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) connections: usize,
    pub(super) in_flight: usize,
}

/// A request for a connection to send.
#[derive(Debug, Clone, Copy)]
enum Job {
    Post(u64),
    Put(u64),
}

pub(super) async fn drive(
    hub: &str,
    sink: Sink,
    bounds: Bounds,
    material: Material,
    payments: u64,
) -> Result<Driven, LoadError> {
    let material = Arc::new(material);
    let (tell, mut called) = unbounded_channel();
    let (ask, jobs) = unbounded_channel();
    let jobs = Arc::new(Mutex::new(jobs));
    let mut tasks = JoinSet::new();
    for _ in 0..bounds.connections {
        tasks.spawn(work(Wire::open(hub).await?, Arc::clone(&material), Arc::clone(&jobs)));
    }
    let taking = tokio::spawn(sink.take(tell));
    let mut drive = Drive::new(ask, payments);
    for _ in 0..bounds.in_flight {
        drive.begin();
    }
    while drive.ended < payments {
        tokio::select! {
            Some(one) = called.recv() => drive.called(one)?,
            Some(ended) = tasks.join_next() => drop(ended.map_err(worker_lost)??),
        }
    }
    taking.abort();
    let Drive { ask, started, mut driven, .. } = drive;
    driven.took = started.elapsed();
    // Nothing more is asked: the connections end, and tell what they felt.
    drop(ask);
    while let Some(ended) = tasks.join_next().await {
        driven.add(&ended.map_err(worker_lost)??);
    }
    Ok(driven)
}

/// Who has what to do.
struct Drive {
    ask: UnboundedSender<Job>,
    payments: u64,
    next: u64,
    ended: u64,
    started: Instant,
    /// When each payment began; `None` before it has and after it has ended.
    began: Vec<Option<Instant>>,
    driven: Driven,
}

impl Drive {
    fn new(ask: UnboundedSender<Job>, payments: u64) -> Drive {
        let began = vec![None; usize::try_from(payments).expect("bounded")];
        let (started, driven) = (Instant::now(), Driven::default());
        Drive { ask, payments, next: 0, ended: 0, started, began, driven }
    }

    /// Begins the next payment, if there is one.
    fn begin(&mut self) {
        if self.next < self.payments {
            self.began[usize::try_from(self.next).expect("bounded")] = Some(Instant::now());
            self.ask(Job::Post(self.next));
            self.next += 1;
        }
    }

    fn ask(&self, job: Job) {
        // A worker that has ended is found when its task is joined.
        let _: Result<(), _> = self.ask.send(job);
    }

    fn called(&mut self, called: Called) -> Result<(), LoadError> {
        match called {
            Called::Prepare(number) => self.ask(Job::Put(number)),
            Called::Committed(number) => {
                let began = usize::try_from(number).ok().and_then(|at| self.began.get_mut(at));
                // A callback may come twice; the payment ends once.
                if let Some(began) = began.and_then(Option::take) {
                    self.driven.payment.record(began.elapsed());
                    self.ended += 1;
                    self.begin();
                }
            }
            Called::Other(text) => return Err(LoadError::Refused(format!("the hub called with {text}"))),
        }
        Ok(())
    }
}

/// Sends what is asked for, one request after another, until nothing more is.
async fn work(
    mut wire: Wire,
    material: Arc<Material>,
    jobs: Arc<Mutex<UnboundedReceiver<Job>>>,
) -> Result<Driven, LoadError> {
    let mut request = Vec::with_capacity(2_048);
    let mut driven = Driven::default();
    loop {
        let job = jobs.lock().await.recv().await;
        let started = Instant::now();
        match job {
            None => return Ok(driven),
            Some(Job::Post(number)) => {
                material.post(number, false, &mut request);
                wire.exchange(&request, "202", None).await?;
                driven.post.record(started.elapsed());
            }
            Some(Job::Put(number)) => {
                material.put(number, false, &mut request);
                wire.exchange(&request, "200", None).await?;
                driven.put.record(started.elapsed());
            }
        }
    }
}
