//! One participant's requests, and what is not written down yet. Plain state.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_domain::ids::ParticipantId;
use holdfast_hub::CallbackRow;
use holdfast_postgres::{Claim, DueCallback, Failed};

use super::super::lane::{Census, Job, Lane};
use crate::lanes::Pauses;
use crate::options::{CallbackOptions, HUB_BUSY_PAUSE, LANE_IN_FLIGHT_MAX, REASON_CHARS_MAX};
use crate::request::{Blame, Failure};

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
    /// Tells it from an earlier slot of the same participant. The claim does not: a shard that was lost here and
    /// regained, with nobody between and its lease never ended, has the same epoch.
    pub(super) generation: u64,
    lane: Lane,
    pauses: Pauses,
    /// From the table into here until its end is written down.
    in_hand: BTreeMap<u64, DueCallback>,
    pub(super) ends: Ends,
}

/// The slots of all participants whose shards this node holds.
#[derive(Default)]
pub(super) struct Slots {
    pub(super) by_participant: BTreeMap<ParticipantId, Slot>,
    generations: u64,
}

impl Slots {
    /// The participant's slot, made under that claim if there is none.
    pub(super) fn of(&mut self, to: ParticipantId, claim: Claim, options: &CallbackOptions) -> &mut Slot {
        let Slots { by_participant, generations } = self;
        by_participant.entry(to).or_insert_with(|| {
            *generations += 1;
            Slot::new(claim, *generations, to, options)
        })
    }

    /// An attempt of the slot of that generation has ended. If that slot is gone its shard was lost, and whoever has the
    /// shard now sends the callback again and writes that down.
    pub(super) fn attempted(
        &mut self,
        generation: u64,
        attempted: Attempted,
        now: Instant,
        attempts_max: u32,
    ) {
        let slot = self.by_participant.get_mut(&attempted.job.row.to);
        if let Some(slot) = slot.filter(|slot| slot.generation == generation) {
            slot.attempted(attempted, now, attempts_max);
        }
    }
}

impl Slot {
    fn new(claim: Claim, generation: u64, to: ParticipantId, options: &CallbackOptions) -> Slot {
        Slot {
            claim,
            generation,
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
    fn attempted(&mut self, attempted: Attempted, now: Instant, attempts_max: u32) {
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

#[cfg(test)]
mod tests {
    use holdfast_domain::callbacks::CallbackMessage;
    use holdfast_domain::ids::TransferId;
    use holdfast_postgres::Source;

    use super::*;

    const TO: ParticipantId = ParticipantId(3);

    fn due(id: u64) -> DueCallback {
        DueCallback {
            id,
            to: TO,
            transfer: TransferId(u128::from(id)),
            message: CallbackMessage::ForwardPrepare,
            answers_prepare: false,
            decided_at: 0,
            attempts: 0,
        }
    }

    /// The shard was lost with requests under way and regained with the same epoch: their ends are nobody's.
    #[test]
    fn what_an_earlier_slot_began_does_not_end_in_a_later_one() {
        let (options, now) = (CallbackOptions::default(), Instant::now());
        let claim = Claim { source: Source::callback(3), segment_id: 1, epoch: 5, offset: 0 };
        let mut slots = Slots::default();
        slots.of(TO, claim, &options).take(due(1));
        let first = slots.by_participant[&TO].generation;
        let (job, _) = slots.of(TO, claim, &options).start(now).remove(0);
        slots.by_participant.clear();

        let ended = || Attempted { job, url: None, outcome: Ok(()) };
        slots.attempted(first, ended(), now, 3);
        slots.of(TO, claim, &options).take(due(2));
        slots.attempted(first, ended(), now, 3);
        let later = &slots.by_participant[&TO];
        assert!(later.generation != first && later.ends.is_empty());
        assert_eq!(later.in_hand().collect::<Vec<_>>(), [2]);
        // Its own end counts.
        let (job, _) = slots.of(TO, claim, &options).start(now).remove(0);
        let second = slots.by_participant[&TO].generation;
        slots.attempted(second, Attempted { job, url: None, outcome: Ok(()) }, now, 3);
        assert_eq!(slots.by_participant[&TO].ends.delivered, [2]);
    }
}
