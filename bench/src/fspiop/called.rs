//! Payments with callbacks: the payee fulfils what it is called for, and a payment ends when the payer is called.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::Driven;
use super::material::Material;
use super::sink::{Called, Sink};
use holdfast_load::LoadError;
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

/// A connection is free again, after a request that took so long.
struct Free {
    connection: usize,
    job: Job,
    took: Duration,
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
    let (report, mut free) = unbounded_channel();
    let mut desks = Vec::with_capacity(bounds.connections);
    let mut tasks = JoinSet::new();
    for connection in 0..bounds.connections {
        let (send, jobs) = unbounded_channel();
        desks.push(send);
        let wire = Wire::open(hub).await?;
        tasks.spawn(work(wire, Arc::clone(&material), connection, jobs, report.clone()));
    }
    let taking = tokio::spawn(sink.take(tell));
    let mut drive = Drive::new(desks, payments);
    for _ in 0..bounds.in_flight {
        drive.begin();
    }
    while drive.ended < payments {
        tokio::select! {
            Some(one) = free.recv() => drive.freed(&one),
            Some(one) = called.recv() => drive.called(one)?,
            Some(ended) = tasks.join_next() => {
                ended.map_err(|error| LoadError::Refused(format!("a worker ended early: {error}")))??;
            }
        }
    }
    taking.abort();
    let took = drive.started.elapsed();
    Ok(Driven { took, ..drive.driven })
}

/// Who has what to do.
struct Drive {
    desks: Vec<UnboundedSender<Job>>,
    idle: Vec<usize>,
    jobs: VecDeque<Job>,
    payments: u64,
    next: u64,
    ended: u64,
    started: Instant,
    /// When each payment began; `None` before it has and after it has ended.
    began: Vec<Option<Instant>>,
    driven: Driven,
}

impl Drive {
    fn new(desks: Vec<UnboundedSender<Job>>, payments: u64) -> Drive {
        Drive {
            idle: (0..desks.len()).collect(),
            desks,
            jobs: VecDeque::new(),
            payments,
            next: 0,
            ended: 0,
            started: Instant::now(),
            began: vec![None; usize::try_from(payments).expect("bounded")],
            driven: Driven::default(),
        }
    }

    /// Begins the next payment, if there is one.
    fn begin(&mut self) {
        if self.next < self.payments {
            self.began[usize::try_from(self.next).expect("bounded")] = Some(Instant::now());
            self.ask(Job::Post(self.next));
            self.next += 1;
        }
    }

    fn ask(&mut self, job: Job) {
        match self.idle.pop() {
            Some(connection) => self.hand(connection, job),
            None => self.jobs.push_back(job),
        }
    }

    fn hand(&self, connection: usize, job: Job) {
        // A worker that has ended is found when its task is joined.
        let _: Result<(), _> = self.desks[connection].send(job);
    }

    fn freed(&mut self, one: &Free) {
        match one.job {
            Job::Post(_) => self.driven.post.record(one.took),
            Job::Put(_) => self.driven.put.record(one.took),
        }
        match self.jobs.pop_front() {
            Some(job) => self.hand(one.connection, job),
            None => self.idle.push(one.connection),
        }
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

async fn work(
    mut wire: Wire,
    material: Arc<Material>,
    connection: usize,
    mut jobs: UnboundedReceiver<Job>,
    report: UnboundedSender<Free>,
) -> Result<(), LoadError> {
    let mut request = Vec::with_capacity(2_048);
    while let Some(job) = jobs.recv().await {
        let started = Instant::now();
        match job {
            Job::Post(number) => {
                material.post(number, false, &mut request);
                wire.exchange(&request, "202", None).await?;
            }
            Job::Put(number) => {
                material.put(number, false, &mut request);
                wire.exchange(&request, "200", None).await?;
            }
        }
        if report.send(Free { connection, job, took: started.elapsed() }).is_err() {
            break;
        }
    }
    Ok(())
}
