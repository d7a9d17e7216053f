//! Threads that do the same again and again until they are told to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use crate::support::wait::await_that;

pub struct Workers<W> {
    ended: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<W>>,
}

impl<W: Send + 'static> Workers<W> {
    /// A thread for each; a round tells how many it has brought to an end.
    pub fn start(workers: impl Iterator<Item = W>, round: fn(&mut W) -> u64) -> Workers<W> {
        let (ended, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let thread = |mut worker| {
            let (ended, over) = (Arc::clone(&ended), Arc::clone(&over));
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    ended.fetch_add(round(&mut worker), Ordering::Relaxed);
                }
                worker
            })
        };
        let threads = workers.map(thread).collect();
        Workers { ended, over, threads }
    }

    /// Waits until so many more have ended.
    pub fn await_more(&self, count: u64) {
        let wanted = self.ended.load(Ordering::Relaxed) + count;
        let so_far = || {
            assert!(self.threads.iter().all(|thread| !thread.is_finished()), "a worker gave up");
            self.ended.load(Ordering::Relaxed)
        };
        await_that("the load goes on", so_far, |so_far| *so_far >= wanted);
    }

    /// The workers as they are in the end.
    pub fn end(self) -> impl Iterator<Item = W> {
        self.over.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(|thread| thread.join().expect("a worker that gave up says why"))
    }
}
