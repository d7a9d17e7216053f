//! Open holds by (expiration, number).
//!
//! Nearly all holds end long before they run out, so putting one in and taking it out must cost next to nothing,
//! and order is only worth paying for when time has come. Holds therefore lie unsorted in buckets of about a
//! second. When a bucket's second has come it is thrown on a heap, which costs a fraction of sorting it, and the
//! few that the next expiry can end move on into `ready`, in order. So a million holds that run out together are
//! sorted bit by bit between payments. What [`HoldIndex::due`] answers depends on the holds alone and never on
//! how far sorting has come, so live and replayed decisions agree.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashSet};

use holdfast_domain::ids::{Millis, TransferNo};

/// Bucket width: 2^10 ms.
const BUCKET_BITS: u32 = 10;
/// Holds kept in order, ready to end: twice what one expiry record ends.
const READY_MAX: usize = 8_192;

type Hold = (Millis, TransferNo);

/// A row's number that is free again when the row is gone, so that tables by seat stay small.
pub(crate) type Seat = u32;

/// The open holds of a store.
#[derive(Default)]
pub(crate) struct HoldIndex {
    /// The first ones whose time has come, in order: none on the heap comes before any of them.
    ready: BTreeSet<Hold>,
    /// Others whose time has come. What ended meanwhile is still on it and stands in `ended`.
    heap: BinaryHeap<Reverse<Hold>>,
    ended: HashSet<TransferNo, foldhash::fast::RandomState>,
    far: BTreeMap<i64, Vec<(Hold, Seat)>>,
    /// Place of each hold in its far bucket, by seat; [`NEAR`] once its bucket's time has come.
    places: Vec<u32>,
    len: usize,
}

const NEAR: u32 = u32::MAX;

const fn bucket_of(expiration: Millis) -> i64 {
    expiration >> BUCKET_BITS
}

fn place(at: usize) -> u32 {
    u32::try_from(at).expect("fewer than 2^32 holds")
}

impl HoldIndex {
    /// How many holds are open.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Opens a hold.
    pub(crate) fn insert(&mut self, expiration: Millis, no: TransferNo, seat: Seat) {
        if self.places.len() <= seat as usize {
            self.places.resize(seat as usize + 1, NEAR);
        }
        let bucket = self.far.entry(bucket_of(expiration)).or_default();
        self.places[seat as usize] = place(bucket.len());
        bucket.push(((expiration, no), seat));
        self.len += 1;
    }

    /// Closes a hold that is open.
    pub(crate) fn remove(&mut self, expiration: Millis, no: TransferNo, seat: Seat) {
        self.len -= 1;
        let at = std::mem::replace(&mut self.places[seat as usize], NEAR);
        if at == NEAR {
            if !self.ready.remove(&(expiration, no)) {
                self.ended.insert(no);
            }
            return;
        }
        let key = bucket_of(expiration);
        let bucket = self.far.get_mut(&key).expect("an open hold is near or in its bucket");
        let (removed, _) = bucket.swap_remove(at as usize);
        assert_eq!(removed, (expiration, no), "the hold lies where its place says");
        if let Some((_, moved)) = bucket.get(at as usize) {
            self.places[*moved as usize] = at;
        }
        if bucket.is_empty() {
            self.far.remove(&key);
        }
    }

    /// Takes in the buckets whose time has come by `now`, and puts the first holds in order.
    pub(crate) fn sort_due(&mut self, now: Millis) {
        while let Some(first) = self.far.first_entry() {
            if *first.key() > bucket_of(now) {
                break;
            }
            let holds = first.remove();
            holds.iter().for_each(|(_, seat)| self.places[*seat as usize] = NEAR);
            let holds = holds.into_iter().map(|(hold, _)| hold);
            let mut later: Vec<Reverse<Hold>> = match self.ready.last().copied() {
                None => holds.map(Reverse).collect(),
                Some(last) => {
                    // A hold that came in late may stand before some that are in order already.
                    let (early, late): (Vec<Hold>, Vec<Hold>) = holds.partition(|hold| *hold < last);
                    self.ready.extend(early);
                    late.into_iter().map(Reverse).collect()
                }
            };
            if self.heap.is_empty() {
                self.heap = later.into();
            } else {
                self.heap.extend(later.drain(..));
            }
        }
        while self.ready.len() < READY_MAX {
            let Some(Reverse(hold)) = self.heap.pop() else { break };
            if !self.ended.remove(&hold.1) {
                self.ready.insert(hold);
            }
        }
    }

    /// No hold runs out before this; exact for what is in order, the beginning of the bucket for the rest.
    pub(crate) fn next_expiration(&self) -> Option<Millis> {
        let ready = self.ready.first().map(|(expiration, _)| *expiration);
        // What has ended on the heap may only make this too early, and `ready` stands before it.
        let heap = self.heap.peek().map(|Reverse((expiration, _))| *expiration).filter(|_| ready.is_none());
        let far = self.far.first_key_value().map(|(bucket, _)| bucket << BUCKET_BITS);
        if self.len == 0 {
            return None;
        }
        ready.into_iter().chain(heap).chain(far).min()
    }

    /// Every open hold, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = TransferNo> {
        let far = self.far.values().flatten().map(|((_, no), _)| *no);
        self.ready.iter().map(|(_, no)| *no).chain(self.on_heap().map(|(_, no)| no)).chain(far)
    }

    fn on_heap(&self) -> impl Iterator<Item = Hold> {
        self.heap.iter().map(|Reverse(hold)| *hold).filter(|(_, no)| !self.ended.contains(no))
    }

    /// Up to `max` holds with `expiration < before`, in order.
    pub(crate) fn due(&self, before: Millis, max: usize) -> Vec<TransferNo> {
        self.range(before, None, max).into_iter().map(|(_, no)| no).collect()
    }

    /// Up to `max` holds with `expiration < before` after the given one, in order.
    pub(crate) fn range(&self, before: Millis, after: Option<Hold>, max: usize) -> Vec<Hold> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let lower = after.map_or(Unbounded, Excluded);
        let below = (before, TransferNo(0));
        let wanted = |hold: &Hold| *hold < below && after.is_none_or(|after| *hold > after);
        let mut found: Vec<Hold> = match after {
            _ if max == 0 => return Vec::new(),
            Some(after) if after >= below => return Vec::new(),
            _ => self.ready.range((lower, Excluded(below))).take(max).copied().collect(),
        };
        let waits = |Reverse(first): &Reverse<Hold>| *first < below;
        if found.len() < max && self.heap.peek().is_some_and(waits) {
            // Nothing on the heap stands before what is ready.
            found.extend(self.on_heap().filter(wanted));
            first_in_order(&mut found, max);
        }
        // Far buckets may hold expirations between those of `ready`: a hold put in after its second was sorted.
        let first_bucket = after.map_or(i64::MIN, |(expiration, _)| bucket_of(expiration));
        for (bucket, holds) in self.far.range((Included(first_bucket), Included(bucket_of(before)))) {
            let full = found.len() >= max;
            if full && found.get(max - 1).is_none_or(|last| bucket_of(last.0) < *bucket) {
                break;
            }
            found.extend(holds.iter().map(|(hold, _)| *hold).filter(wanted));
            first_in_order(&mut found, max);
        }
        found
    }
}

/// A page wants a few of what may be very many: puts those first, and sorts only them.
fn first_in_order(found: &mut Vec<Hold>, max: usize) {
    if found.len() > max {
        found.select_nth_unstable(max - 1);
        found.truncate(max);
    }
    found.sort_unstable();
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "the numbers are small")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Open(Millis),
        Close(prop::sample::Index),
        Sort(Millis),
        Due(Millis, usize),
        Page(Millis, prop::sample::Index, usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let time = 0..5_000_i64;
        let step = prop_oneof![
            4 => time.clone().prop_map(Step::Open),
            2 => any::<prop::sample::Index>().prop_map(Step::Close),
            1 => time.clone().prop_map(Step::Sort),
            2 => (time.clone(), 0..20_usize).prop_map(|(before, max)| Step::Due(before, max)),
            1 => (time, any::<prop::sample::Index>(), 0..20_usize)
                .prop_map(|(before, after, max)| Step::Page(before, after, max)),
        ];
        prop::collection::vec(step, 0..300)
    }

    proptest! {
        /// Whatever was sorted when, the answers are those of a plain sorted set.
        #[test]
        fn answers_as_a_sorted_set_does(steps in steps()) {
            let mut index = HoldIndex::default();
            let mut model: BTreeSet<Hold> = BTreeSet::new();
            let mut seats: BTreeMap<TransferNo, Seat> = BTreeMap::new();
            let mut free: Vec<Seat> = Vec::new();
            let mut next = 0;
            for step in steps {
                match step {
                    Step::Open(expiration) => {
                        let no = TransferNo(next);
                        let seat = free.pop().unwrap_or(seats.len() as Seat);
                        seats.insert(no, seat);
                        index.insert(expiration, no, seat);
                        model.insert((expiration, no));
                        next += 1;
                    }
                    Step::Close(which) if !model.is_empty() => {
                        let hold = *model.iter().nth(which.index(model.len())).unwrap();
                        model.remove(&hold);
                        let seat = seats.remove(&hold.1).unwrap();
                        free.push(seat);
                        index.remove(hold.0, hold.1, seat);
                    }
                    Step::Close(_) => {}
                    Step::Sort(now) => index.sort_due(now),
                    Step::Due(before, max) => {
                        let due: Vec<_> = model.iter().filter(|hold| hold.0 < before).take(max).map(|hold| hold.1).collect();
                        prop_assert_eq!(index.due(before, max), due);
                    }
                    Step::Page(before, after, max) => {
                        let after = (!model.is_empty()).then(|| *model.iter().nth(after.index(model.len())).unwrap());
                        let page: Vec<_> = model
                            .iter()
                            .filter(|hold| hold.0 < before && after.is_none_or(|after| **hold > after))
                            .take(max)
                            .copied()
                            .collect();
                        prop_assert_eq!(index.range(before, after, max), page);
                    }
                }
                prop_assert_eq!(index.len(), model.len());
                prop_assert_eq!(index.iter().collect::<BTreeSet<_>>(), model.iter().map(|hold| hold.1).collect());
                let first = model.first().map(|hold| hold.0);
                prop_assert!(index.next_expiration() <= first || first.is_none());
                prop_assert_eq!(index.next_expiration().is_none(), first.is_none());
            }
        }
    }

    #[test]
    fn more_than_are_kept_in_order_still_come_in_order() {
        let mut index = HoldIndex::default();
        let holds = 3 * READY_MAX as u32;
        for seat in 0..holds {
            index.insert(5_000, TransferNo(u64::from(holds - seat)), seat);
        }
        index.sort_due(6_000);
        // Some that wait on the heap end before their turn.
        for seat in (0..READY_MAX as u32).step_by(7) {
            index.remove(5_000, TransferNo(u64::from(holds - seat)), seat);
        }
        let mut seen = Vec::new();
        while let [no, ..] = index.due(6_000, 1)[..] {
            assert_eq!(index.next_expiration(), Some(5_000));
            index.remove(5_000, no, holds - no.0 as u32);
            index.sort_due(6_000);
            seen.push(no);
        }
        assert!(seen.is_sorted() && index.next_expiration().is_none());
        assert_eq!((seen.len(), index.len()), (holds as usize - READY_MAX.div_ceil(7), 0));
    }
}
