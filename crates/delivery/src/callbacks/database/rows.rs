//! The source of the database profile: rows that this node has in hand. Every attempt ends in the table, which remembers when a
//! callback is due again, so only what could not be sent for a shortage of ours stays in its lane.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use super::super::callback::Callback;
use super::super::requests::deliver;
use super::under_way::{Held, UnderWay};
use crate::lanes::{After, Census, Source, Tries, Verdict};
use crate::options::HUB_BUSY_PAUSE;
use crate::post::Post;
use crate::request::Failure;

/// The rows in this node's hand.
pub(super) struct Rows {
    pub(super) post: Post,
    attempt_time_max: Duration,
    under_way: Mutex<UnderWay>,
    /// The thread that writes ends down.
    pub(super) holder: OnceLock<Thread>,
}

impl Rows {
    pub(super) fn new(post: Post, attempt_time_max: Duration) -> Rows {
        Rows { post, attempt_time_max, under_way: Mutex::default(), holder: OnceLock::new() }
    }

    pub(super) fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for Rows {
    type Receiver = Held;
    type Job = Callback;
    type Answer = ();

    fn lane_number(held: Held) -> u32 {
        held.to.0
    }

    async fn attempt(&self, held: Held, callback: &Callback) -> Result<Option<()>, Failure> {
        deliver(callback, self.attempt_time_max, |envelope| self.post.send(held.to, envelope)).await
    }

    fn settle(&self, held: Held, callback: &Callback, tries: Tries, verdict: Verdict<()>) -> After {
        let id = callback.row.number;
        match &verdict {
            Verdict::Untried(Failure { why, .. }) => {
                tracing::debug!(id, why = %why, "a callback waits for room");
                return After::RestsFor(HUB_BUSY_PAUSE);
            }
            Verdict::Failed(Failure { why, .. }) | Verdict::GivenUp(Failure { why, .. }) => {
                tracing::debug!(id, to = held.to.0, attempts = tries.attempts, why = %why, "a callback failed");
            }
            Verdict::Answered(()) | Verdict::Moot => {}
        }
        self.under_way().ended(held, id, tries, verdict);
        After::Leaves
    }

    fn settled(&self, _: Held, _: Census) {
        if let Some(holder) = self.holder.get() {
            holder.unpark();
        }
    }
}
