//! What this node has in hand for each participant, and ends that are not written down yet. Plain state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_domain::ids::ParticipantId;
use holdfast_postgres::{Claim, Failed};

use crate::lanes::{Tries, Verdict};
use crate::options::{LANE_IN_FLIGHT_MAX, REASON_CHARS_MAX};
use crate::request::Failure;

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

    fn ids(&self) -> impl Iterator<Item = u64> {
        let failed = self.failed.iter().map(|(failed, _)| failed.id);
        self.delivered.iter().copied().chain(failed).chain(self.dead.iter().map(|dead| dead.id))
    }

    fn append(&mut self, mut later: Ends) {
        self.delivered.append(&mut later.delivered);
        self.failed.append(&mut later.failed);
        self.dead.append(&mut later.dead);
    }
}

/// A participant whose callbacks this node delivers, under one claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) to: ParticipantId,
    /// Tells it from an earlier time that this node held the participant. The claim does not: a shard that was lost here
    /// and regained, with nobody between and its lease never ended, has the same epoch.
    pub(super) generation: u64,
}

/// One participant's callbacks that this node has in hand.
struct Claimed {
    claim: Claim,
    generation: u64,
    /// From the table into here until its end is written down.
    ids: BTreeSet<u64>,
    ends: Ends,
}

/// Those of all participants whose shards this node holds.
#[derive(Default)]
pub(super) struct UnderWay {
    by_participant: BTreeMap<ParticipantId, Claimed>,
    generations: u64,
}

impl UnderWay {
    /// Takes a callback in hand. `None`: it is in hand already.
    pub(super) fn take(&mut self, to: ParticipantId, claim: Claim, id: u64) -> Option<Held> {
        let UnderWay { by_participant, generations } = self;
        let claimed = by_participant.entry(to).or_insert_with(|| {
            *generations += 1;
            Claimed { claim, generation: *generations, ids: BTreeSet::new(), ends: Ends::default() }
        });
        claimed.ids.insert(id).then_some(Held { to, generation: claimed.generation })
    }

    /// All that is in hand.
    pub(super) fn ids(&self) -> Vec<u64> {
        self.by_participant.values().flat_map(|claimed| claimed.ids.iter().copied()).collect()
    }

    /// The participants of which no more may be taken.
    pub(super) fn full(&self) -> Vec<ParticipantId> {
        let full = self.by_participant.iter().filter(|(_, claimed)| claimed.ids.len() >= LANE_IN_FLIGHT_MAX);
        full.map(|(to, _)| *to).collect()
    }

    /// An attempt has ended. If the participant is no longer held its shard was lost, and whoever has the shard now sends the
    /// callback again and writes that down.
    pub(super) fn ended(&mut self, held: Held, id: u64, tries: Tries, verdict: Verdict<()>) {
        let Tries { attempts, pause } = tries;
        let claimed = self.by_participant.get_mut(&held.to);
        let Some(claimed) = claimed.filter(|claimed| claimed.generation == held.generation) else { return };
        let failed = |Failure { why, url, .. }: Failure| {
            let why = why.chars().take(REASON_CHARS_MAX).collect();
            Failed { id, attempts, url, why }
        };
        match verdict {
            Verdict::Answered(()) | Verdict::Moot => claimed.ends.delivered.push(id),
            Verdict::Failed(failure) => claimed.ends.failed.push((failed(failure), pause)),
            Verdict::GivenUp(failure) => claimed.ends.dead.push(failed(failure)),
            // It stays in its lane.
            Verdict::Untried(_) => {}
        }
    }

    /// Drops the participants for which the claim is no longer the one given.
    pub(super) fn drop_lost(&mut self, claim_of: impl Fn(ParticipantId) -> Option<Claim>) -> Vec<Held> {
        self.drop_all(|to, claimed| claim_of(to) != Some(claimed.claim))
    }

    /// Drops the participants of whom nothing is in hand and who are not to be remembered.
    pub(super) fn drop_idle(&mut self, is_remembered: impl Fn(Held) -> bool) -> Vec<Held> {
        self.drop_all(|to, claimed| {
            claimed.ids.is_empty() && !is_remembered(Held { to, generation: claimed.generation })
        })
    }

    fn drop_all(&mut self, drops: impl Fn(ParticipantId, &Claimed) -> bool) -> Vec<Held> {
        let dropped = self.by_participant.extract_if(.., |to, claimed| drops(*to, claimed));
        dropped.map(|(to, claimed)| Held { to, generation: claimed.generation }).collect()
    }

    /// Takes out the ends that are to be written down, for each participant.
    pub(super) fn take_ends(&mut self) -> Vec<(Held, Claim, Ends)> {
        let claimed = self.by_participant.iter_mut().filter(|(_, claimed)| !claimed.ends.is_empty());
        let taken = claimed.map(|(to, claimed)| {
            let held = Held { to: *to, generation: claimed.generation };
            (held, claimed.claim, std::mem::take(&mut claimed.ends))
        });
        taken.collect()
    }

    /// These ends are not written down.
    pub(super) fn put_back(&mut self, held: Held, ends: Ends) {
        if let Some(claimed) = self.by_participant.get_mut(&held.to) {
            claimed.ends.append(ends);
        }
    }

    /// These ends are written down.
    pub(super) fn written(&mut self, held: Held, ends: &Ends) {
        if let Some(claimed) = self.by_participant.get_mut(&held.to) {
            for id in ends.ids() {
                claimed.ids.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_postgres::Source;

    use super::*;

    const TO: ParticipantId = ParticipantId(3);
    const TRIES: Tries = Tries { attempts: 1, pause: Duration::ZERO };

    /// The shard was lost with requests under way and regained with the same epoch: their ends are nobody's.
    #[test]
    fn what_was_begun_under_an_earlier_hold_does_not_end_in_a_later_one() {
        let claim = Claim { source: Source::Callback(3), segment_id: 1, epoch: 5, offset: 0 };
        let mut under_way = UnderWay::default();
        let first = under_way.take(TO, claim, 1).unwrap();
        assert_eq!(under_way.take(TO, claim, 1), None, "it is in hand");
        assert_eq!(under_way.drop_lost(|_| None), [first]);

        under_way.ended(first, 1, TRIES, Verdict::Answered(()));
        let second = under_way.take(TO, claim, 2).unwrap();
        under_way.ended(first, 1, TRIES, Verdict::Answered(()));
        assert!(second != first && under_way.take_ends().is_empty());
        assert_eq!(under_way.ids(), [2]);
        // Its own end counts.
        under_way.ended(second, 2, TRIES, Verdict::Answered(()));
        let (held, _, ends) = under_way.take_ends().remove(0);
        assert_eq!((held, &ends.delivered), (second, &vec![2]));
        assert!(under_way.drop_idle(|_| false).is_empty(), "its end is not written down");
        under_way.written(held, &ends);
        assert!(under_way.ids().is_empty());
        assert!(under_way.drop_idle(|_| true).is_empty(), "its failures are to be remembered");
        assert_eq!(under_way.drop_idle(|_| false), [second]);
    }

    #[test]
    fn what_is_not_written_down_stays_in_hand() {
        let claim = Claim { source: Source::Callback(3), segment_id: 1, epoch: 5, offset: 0 };
        let mut under_way = UnderWay::default();
        let held = under_way.take(TO, claim, 1).unwrap();
        assert!((2..=32).all(|id| under_way.take(TO, claim, id) == Some(held)));
        assert_eq!(under_way.full(), [TO]);
        let failure = || Failure::passing("bad");
        under_way.ended(held, 1, TRIES, Verdict::Failed(failure()));
        let (held, _, ends) = under_way.take_ends().remove(0);
        under_way.ended(held, 2, TRIES, Verdict::GivenUp(failure()));
        under_way.ended(held, 3, TRIES, Verdict::Untried(failure()));
        under_way.put_back(held, ends);
        let (held, _, ends) = under_way.take_ends().remove(0);
        assert_eq!((ends.failed.len(), ends.dead.len(), under_way.full().len()), (1, 1, 1));
        under_way.written(held, &ends);
        assert_eq!((under_way.ids().len(), under_way.full().len()), (30, 0));
    }
}
