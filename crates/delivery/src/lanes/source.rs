//! What the loop needs of a source of delivery: what goes out, how an attempt is made, and what becomes of a job then.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use super::lane::{Census, Health};
use crate::options::LANE_IN_FLIGHT_MAX;
use crate::request::Failure;

/// One thing to be delivered.
pub(crate) trait Job: Clone + Send + Sync + 'static {
    /// What keeps its order: of the jobs of one key one is under way at a time, and the next waits for its end.
    type Key: Clone + Eq + Hash + Debug + Send + Sync + 'static;

    fn key(&self) -> Self::Key;
}

/// What became of one attempt.
#[derive(Debug)]
pub(crate) enum Verdict<A> {
    /// The receiver has answered.
    Answered(A),
    /// There was nothing to send any more.
    Moot,
    /// No attempt was made, for a shortage of ours.
    Untried(Failure),
    /// It failed.
    Failed(Failure),
    /// It failed, and there will be no other.
    GivenUp(Failure),
}

/// How often a job was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tries {
    /// Attempts so far, this one included unless none was made.
    pub(crate) attempts: u32,
    /// The pause that so many call for.
    pub(crate) pause: Duration,
}

/// What becomes of a job after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// It leaves its lane, and the next one of its key may go.
    Leaves,
    /// It is tried again after that pause.
    RestsFor(Duration),
    /// It begins anew, at once.
    Anew,
}

/// The source is too busy, or about to end: no request can be made now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotNow;

/// A source of delivery. It puts jobs into [`Lanes`](super::Lanes); the lanes ask it for the rest.
pub(crate) trait Source: Send + Sync + Sized + 'static {
    /// Who is called. Each has a lane.
    type Receiver: Copy + Eq + Hash + Debug + Send + Sync + 'static;
    type Job: Job;
    /// What a receiver answers.
    type Answer: Send + 'static;

    /// Of the requests to one receiver at once, so many may be repeats of what was in vain.
    const REPEATS_IN_FLIGHT_MAX: usize = LANE_IN_FLIGHT_MAX;
    /// A job that would be tried again makes way for one of its key that stands behind it.
    const NEWEST_ONLY: bool = false;

    /// Sets the pauses of a lane apart from those of others.
    fn lane_number(to: Self::Receiver) -> u32;

    /// Completes jobs whose turn has come with what an attempt needs.
    fn prepare(&self, _: &mut [Self::Job]) -> impl Future<Output = Result<(), NotNow>> + Send {
        async { Ok(()) }
    }

    /// Makes one attempt. `None`: there was nothing to send any more.
    fn attempt(
        &self,
        to: Self::Receiver,
        job: &Self::Job,
    ) -> impl Future<Output = Result<Option<Self::Answer>, Failure>> + Send;

    /// Writes down what became of an attempt, and says what becomes of the job.
    fn settle(
        &self,
        to: Self::Receiver,
        job: &Self::Job,
        tries: Tries,
        verdict: Verdict<Self::Answer>,
    ) -> After;

    /// After an attempt the lane stands so.
    fn settled(&self, _: Self::Receiver, _: Census) {}

    /// What is thought of a receiver has changed, and why.
    fn found(&self, _: Self::Receiver, _: Health, _: &str) {}
}
