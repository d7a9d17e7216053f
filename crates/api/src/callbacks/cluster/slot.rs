//! One participant's requests, and what is not written down yet. Plain state.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_domain::ids::ParticipantId;
use holdfast_hub::CallbackRow;
use holdfast_postgres::{Claim, DueCallback, Failed};

use super::super::desk::{Blame, Failure};
use super::super::lane::{Census, Job, Lane};
use super::super::options::{CallbackOptions, HUB_BUSY_PAUSE, LANE_IN_FLIGHT_MAX, REASON_CHARS_MAX};
use super::super::pauses::Pauses;

/// What became of callbacks, to be written down.
#[derive(Debug, Default)]
pub(super) struct Ends {
    pub(super) delivered: Vec<u64>,
    pub(super) failed: Vec<(Failed, Duration)>,
    pub(super) dead: Vec<Failed>,
}

impl Ends {
    pub(super) const fn is_empty(&self) -> bool {
        self.delivered.is_empty() && self.failed.is_empty() && self.dead.is_empty()
    }
}

/// How an attempt went.
#[derive(Debug)]
pub(super) struct Attempted {
    pub(super) job: Job,
    pub(super) url: Option<String>,
    pub(super) outcome: Result<(), Failure>,
}

/// The callbacks of one participant that this node has in hand, under one claim.
pub(super) struct Slot {
    pub(super) claim: Claim,
    lane: Lane,
    pauses: Pauses,
    /// From the table into here until its end is written down.
    in_hand: BTreeMap<u64, DueCallback>,
    pub(super) ends: Ends,
}

impl Slot {
    pub(super) fn new(claim: Claim, to: ParticipantId, options: &CallbackOptions) -> Slot {
        Slot {
            claim,
            lane: Lane::default(),
            pauses: Pauses::new(options, to.0),
            in_hand: BTreeMap::new(),
            ends: Ends::default(),
        }
    }

    pub(super) fn in_hand(&self) -> impl Iterator<Item = u64> {
        self.in_hand.keys().copied()
    }

    pub(super) fn is_full(&self) -> bool {
        self.in_hand.len() >= LANE_IN_FLIGHT_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_hand.is_empty()
    }

    /// Its last failures are to be remembered.
    pub(super) const fn is_troubled(&self) -> bool {
        self.lane.is_troubled()
    }

    pub(super) fn census(&self) -> Census {
        self.lane.census()
    }

    /// Takes one in hand that is due.
    pub(super) fn take(&mut self, due: DueCallback) {
        let DueCallback { id, to, transfer, message, decided_at, attempts, .. } = due;
        if self.in_hand.insert(id, due).is_some() {
            return;
        }
        let row = CallbackRow { number: id, offset: 0, time: decided_at, to, transfer, message };
        self.lane.reserve();
        self.lane.put(Job { row, attempts, from_dead_letters: false });
    }

    /// Those that go out now.
    pub(super) fn start(&mut self, now: Instant) -> Vec<(Job, DueCallback)> {
        let started = self.lane.start(now);
        started.into_iter().map(|job| (job, self.in_hand[&job.row.number])).collect()
    }

    /// When there is more to start by the mere passing of time.
    pub(super) fn look_again_at(&self) -> Option<Instant> {
        self.lane.look_again_at()
    }

    /// They could not be written: PostgreSQL did not say what they must contain.
    pub(super) fn untried(&mut self, job: Job, now: Instant) {
        self.lane.untried(job, now, HUB_BUSY_PAUSE);
    }

    /// An attempt has ended.
    pub(super) fn attempted(&mut self, attempted: Attempted, now: Instant, attempts_max: u32) {
        let Attempted { job, url, outcome } = attempted;
        let id = job.row.number;
        let failure = match outcome {
            Ok(()) => {
                self.lane.ended(&job, true);
                self.ends.delivered.push(id);
                return;
            }
            Err(failure) => failure,
        };
        if failure.blame == Blame::Ours {
            tracing::debug!(id, why = %failure.why, "a callback waits for room");
            return self.untried(job, now);
        }
        let attempts = job.attempts.saturating_add(1);
        tracing::debug!(id, to = job.row.to.0, attempts, why = %failure.why, "a callback failed");
        // It leaves the lane; the table remembers when it is due again.
        self.lane.ended(&job, false);
        let why = failure.why.chars().take(REASON_CHARS_MAX).collect();
        let failed = Failed { id, attempts, url, why };
        if failure.blame == Blame::ForGood || attempts >= attempts_max {
            self.ends.dead.push(failed);
        } else {
            self.ends.failed.push((failed, self.pauses.after(attempts)));
        }
    }

    /// The ends were written down.
    pub(super) fn written(&mut self) {
        let Ends { delivered, failed, dead } = std::mem::take(&mut self.ends);
        let failed = failed.into_iter().map(|(failed, _)| failed);
        let failed = failed.chain(dead).map(|failed| failed.id);
        for id in delivered.into_iter().chain(failed) {
            self.in_hand.remove(&id);
        }
    }
}
