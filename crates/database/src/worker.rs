//! The workers of a handler: each decides batches on a thread and a connection of its own, one at a time. A partition is with one
//! worker at most, so its order stays.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use holdfast_kafka::{Batch as Fetched, Caller};
use holdfast_messages::Message;
use holdfast_postgres::{Batch, Claim, Error, Incoming, Step, Store};

use crate::handler::DecideBatch;
use crate::settings::NodeSettings;

/// A batch that is to be decided.
pub(crate) struct Job {
    pub(crate) claim: Claim,
    pub(crate) fetched: Fetched,
    /// All below this number of the source's outbox was sent.
    pub(crate) sent: u64,
}

/// What became of it.
pub(crate) struct Ended {
    pub(crate) worker: usize,
    pub(crate) claim: Claim,
    pub(crate) partition: u32,
    pub(crate) first_offset: u64,
    /// What was decided ends here,
    pub(crate) next_offset: u64,
    /// and what was fetched here. Between the two lies a message that is newer than this program.
    pub(crate) fetched_to: u64,
    pub(crate) sent: u64,
    pub(crate) stepped: Result<Step, Error>,
    pub(crate) began: Instant,
    pub(crate) took: Duration,
}

/// What a worker tells: what became of a job, or, as its last word, that it has panicked.
pub(crate) type Report = Option<Ended>;

/// One of them, on its thread.
pub(crate) struct Worker {
    number: usize,
    settings: Arc<NodeSettings>,
    jobs: Receiver<Job>,
    ended: Sender<Report>,
    caller: Caller,
}

impl Worker {
    /// A worker, and where its jobs are put.
    pub(crate) fn new(
        number: usize,
        settings: &Arc<NodeSettings>,
        ended: &Sender<Report>,
        caller: &Caller,
    ) -> (Worker, SyncSender<Job>) {
        let (put, jobs) = sync_channel(1);
        let worker = Worker {
            number,
            settings: Arc::clone(settings),
            jobs,
            ended: ended.clone(),
            caller: caller.clone(),
        };
        (worker, put)
    }

    /// Works until nobody is left to give it anything.
    pub(crate) fn run<M: Message>(self, step: &DecideBatch<M>) {
        let mut store: Option<Store> = None;
        while let Ok(job) = self.jobs.recv() {
            let ended = self.decide(step, &mut store, &job);
            // The handler waits for it, unless it has panicked.
            let _: Result<(), _> = self.ended.send(Some(ended));
            self.caller.call();
        }
    }

    fn decide<M: Message>(&self, step: &DecideBatch<M>, store: &mut Option<Store>, job: &Job) -> Ended {
        let Job { claim, fetched, sent } = job;
        let mut incoming: Vec<Incoming<M>> = fetched
            .records
            .iter()
            .map(|record| Incoming::read(record.offset, record.key.clone(), record.value.clone()))
            .collect();
        // What lies before a newer message is decided; one that comes first is the store's to refuse.
        if let Some(known) =
            incoming.iter().position(|message| message.newer().is_some()).filter(|at| *at > 0)
        {
            incoming.truncate(known);
        }
        let batch = Batch::new(fetched.from, &incoming).sent(*sent);
        let began = Instant::now();
        let stepped = self.settings.connected(store).and_then(|store| step(store, claim, &batch));
        let took = began.elapsed();
        if stepped.as_ref().is_err_and(|error| !matches!(error, Error::Busy { .. } | Error::Newer { .. })) {
            // A connection that failed is not used again.
            *store = None;
        }
        Ended {
            worker: self.number,
            claim: *claim,
            partition: fetched.partition,
            first_offset: fetched.from,
            next_offset: batch.next,
            fetched_to: fetched.next_offset(),
            sent: *sent,
            stepped,
            began,
            took,
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _: Result<(), _> = self.ended.send(None);
            self.caller.call();
        }
    }
}
