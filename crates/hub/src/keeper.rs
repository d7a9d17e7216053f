//! The keeper: runs the store's jobs away from the deciding thread.
//!
//! One thread writes blocks as they fill. When it comes to a checkpoint everything before it is written, and it hands
//! the checkpoint to a second thread and goes on. A third merges runs of ids. Whatever fails there stops the hub: the
//! disk is in doubt, and only a restart looks at it afresh.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use holdfast_engine::Monitor;
use holdfast_store::{Done, Job, StoreError};

use crate::alarm::{in_full, watched};
use crate::health::{Health, Status};
use crate::intake::Intake;
use crate::limits::{BACKGROUND_NICENESS, STORE_WRITES_WAITING_MAX};
use crate::meters::StoreMeters;
use crate::pace::{Hurry, Pace};
use crate::retention::Pruner;

/// Where the store's jobs are run.
pub struct Keeper(Kind);

enum Kind {
    ByHand(VecDeque<Job>),
    Threaded(Threads),
}

struct Threads {
    writes: Option<SyncSender<Job>>,
    merges: Option<SyncSender<Job>>,
    threads: Vec<JoinHandle<()>>,
    results: Arc<Results>,
}

/// What jobs have done, on its way back to the writer.
struct Results {
    state: Monitor<ResultState>,
    health: Arc<Health>,
    /// Here the writer is woken, and nothing is taken after a failure.
    intake: Arc<Intake>,
    meters: StoreMeters,
    pruner: Pruner,
    hurry: Hurry,
}

#[derive(Default)]
struct ResultState {
    done: VecDeque<Done>,
    failed: bool,
}

impl Results {
    fn run(&self, job: Job) {
        let (is_checkpoint, is_merge) = (job.is_checkpoint(), job.is_merge());
        let started = Instant::now();
        if is_checkpoint {
            self.meters.checkpoint_running.set(1.0);
        }
        let mut pace = Pace::new(&self.hurry);
        let result = job.run(&mut || pace.rest());
        let succeeded = result.is_ok();
        if is_checkpoint {
            self.meters.checkpoint_running.set(0.0);
            if succeeded {
                self.meters.checkpointed(started.elapsed());
            }
        }
        if is_merge && succeeded {
            self.meters.merges.increment(1);
        }
        match result {
            Ok(done) if is_checkpoint || is_merge => {
                if let Some((not_needed, progress)) = done.log_not_needed() {
                    self.pruner.after_checkpoint(not_needed, progress);
                }
                self.state.lock().done.push_back(done);
                self.intake.wake();
            }
            Ok(_) => {}
            Err(error) => self.fail(&reason(&error)),
        }
        self.state.notify_all();
    }

    fn fail(&self, reason: &str) {
        self.state.lock().failed = true;
        self.health.set(Status::Stopped(reason.to_owned()));
        self.intake.close(reason);
        self.state.notify_all();
    }
}

/// Payments come before checkpoints and merges where cores are scarce. On Linux this is about the calling thread alone.
fn step_back() {
    if let Err(error) = rustix::process::nice(BACKGROUND_NICENESS) {
        tracing::debug!(%error, "a thread in the background runs at the common priority");
    }
}

/// Why the hub stops when the store fails.
pub(crate) fn reason(error: &StoreError) -> String {
    format!("the store failed: {}", in_full(error))
}

impl Keeper {
    /// A keeper whose jobs are run one by one by [`Writer::run_job`](crate::Writer::run_job), where a simulator or a test likes.
    #[must_use]
    pub const fn by_hand() -> Keeper {
        Keeper(Kind::ByHand(VecDeque::new()))
    }

    /// A keeper with threads of its own.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn threaded(
        intake: &Arc<Intake>,
        health: &Arc<Health>,
        pruner: Pruner,
    ) -> std::io::Result<Keeper> {
        let results = Arc::new(Results {
            state: Monitor::default(),
            health: Arc::clone(health),
            intake: Arc::clone(intake),
            meters: StoreMeters::default(),
            pruner,
            hurry: Hurry::default(),
        });
        let (writes, write_inbox) = sync_channel::<Job>(STORE_WRITES_WAITING_MAX);
        // The store begins one checkpoint and one merge at a time.
        let (checkpoints, checkpoint_inbox) = sync_channel::<Job>(1);
        let (merges, merge_inbox) = sync_channel::<Job>(1);
        let spawn = |name: &'static str, work: Box<dyn FnOnce(&Results) + Send>| {
            let (results, ringing) = (Arc::clone(&results), Arc::clone(&results));
            watched(name, health, move |reason| ringing.fail(reason), move || work(&results))
        };
        let each = |inbox: Receiver<Job>| {
            Box::new(move |results: &Results| {
                step_back();
                inbox.into_iter().for_each(|job| results.run(job));
            })
        };
        let threads = vec![
            spawn(
                "store writer",
                Box::new(move |results| {
                    for job in write_inbox {
                        if !job.is_checkpoint() {
                            results.run(job);
                        } else if checkpoints.send(job).is_err() {
                            return;
                        }
                    }
                }),
            )?,
            spawn("checkpoint", each(checkpoint_inbox))?,
            spawn("merge", each(merge_inbox))?,
        ];
        Ok(Keeper(Kind::Threaded(Threads { writes: Some(writes), merges: Some(merges), threads, results })))
    }

    /// Takes a job. Waits if the disk is far behind: the intake fills meanwhile and callers are told so.
    pub(crate) fn submit(&mut self, job: Job) {
        match &mut self.0 {
            Kind::ByHand(jobs) => jobs.push_back(job),
            Kind::Threaded(Threads { writes, merges, results, .. }) => {
                let inbox = if job.is_merge() { merges } else { writes };
                if inbox.as_ref().is_none_or(|inbox| inbox.send(job).is_err()) {
                    results.state.lock().failed = true;
                }
            }
        }
    }

    /// What was done since the last call. `Err`: a job has failed.
    pub(crate) fn take_done(&mut self) -> Result<VecDeque<Done>, ()> {
        match &mut self.0 {
            Kind::ByHand(_) => Ok(VecDeque::new()),
            Kind::Threaded(threads) => {
                let mut state = threads.results.state.lock();
                if state.failed { Err(()) } else { Ok(std::mem::take(&mut state.done)) }
            }
        }
    }

    /// Waits until something was done or has failed. Whoever waits is about to end, so nobody rests from now on.
    pub(crate) fn wait(&self) {
        if let Kind::Threaded(Threads { results, .. }) = &self.0 {
            results.hurry.set();
            let idle = |state: &mut ResultState| state.done.is_empty() && !state.failed;
            drop(results.state.wait_while(results.state.lock(), idle));
        }
    }

    /// Takes out the next job to be run by hand: with `merge` a merge if there is one, else the others in their order.
    pub(crate) fn next_by_hand(&mut self, merge: bool) -> Option<Job> {
        let at = self.place_by_hand(merge)?;
        let Kind::ByHand(jobs) = &mut self.0 else { return None };
        jobs.remove(at)
    }

    /// The job that [`Keeper::next_by_hand`] would take out.
    pub(crate) fn peek_by_hand(&self, merge: bool) -> Option<&Job> {
        let at = self.place_by_hand(merge)?;
        let Kind::ByHand(jobs) = &self.0 else { return None };
        jobs.get(at)
    }

    fn place_by_hand(&self, merge: bool) -> Option<usize> {
        let Kind::ByHand(jobs) = &self.0 else { return None };
        let wanted = jobs.iter().position(|job| job.is_merge() == merge);
        wanted.or_else(|| (!jobs.is_empty()).then_some(0))
    }
}

impl Drop for Keeper {
    /// Waits until what was taken is done.
    fn drop(&mut self) {
        if let Kind::Threaded(threads) = &mut self.0 {
            threads.results.hurry.set();
            threads.writes = None;
            threads.merges = None;
            for thread in threads.threads.drain(..) {
                if thread.join().is_err() {
                    tracing::error!("a thread of the store panicked");
                }
            }
        }
    }
}
