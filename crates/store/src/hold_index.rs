//! Open holds by (expiration, number).
//!
//! Nearly all holds end long before they run out, so putting one in and taking it out must cost next to nothing,
//! and order is only worth paying for when time has come. Holds therefore lie unsorted in buckets of about a
//! second. When a bucket's second has come it is sorted into `near`, from which the due ones are read in order.
//! What [`HoldIndex::due`] answers depends on the holds alone and never on which buckets were sorted already, so
//! live and replayed decisions agree.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::ids::{Millis, TransferNo};

use crate::pages::Pages;

/// Bucket width: 2^10 ms.
const BUCKET_BITS: u32 = 10;

type Hold = (Millis, TransferNo);

/// The open holds of a store.
pub(crate) struct HoldIndex {
    near: BTreeSet<Hold>,
    far: BTreeMap<i64, Vec<Hold>>,
    /// Place of each transfer's hold in its far bucket, by transfer number.
    places: Pages<u32>,
    len: usize,
}

impl Default for HoldIndex {
    fn default() -> HoldIndex {
        HoldIndex { near: BTreeSet::new(), far: BTreeMap::new(), places: Pages::new(), len: 0 }
    }
}

const fn bucket_of(expiration: Millis) -> i64 {
    expiration >> BUCKET_BITS
}

impl HoldIndex {
    /// How many holds are open.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Opens a hold.
    pub(crate) fn insert(&mut self, expiration: Millis, no: TransferNo) {
        while self.places.len() as u64 <= no.0 {
            self.places.push(u32::MAX);
        }
        let bucket = self.far.entry(bucket_of(expiration)).or_default();
        *self.places.get_mut(no.0).expect("just made") =
            u32::try_from(bucket.len()).expect("fewer than 2^32 holds");
        bucket.push((expiration, no));
        self.len += 1;
    }

    /// Closes a hold that is open.
    pub(crate) fn remove(&mut self, expiration: Millis, no: TransferNo) {
        self.len -= 1;
        if self.near.remove(&(expiration, no)) {
            return;
        }
        let key = bucket_of(expiration);
        let bucket = self.far.get_mut(&key).expect("an open hold is near or in its bucket");
        let place = *self.places.get(no.0).expect("an open hold has a place") as usize;
        let removed = bucket.swap_remove(place);
        assert_eq!(removed, (expiration, no), "the hold lies where its place says");
        if let Some((_, moved)) = bucket.get(place).copied() {
            *self.places.get_mut(moved.0).expect("an open hold has a place") =
                u32::try_from(place).expect("fewer than 2^32 holds");
        }
        if bucket.is_empty() {
            self.far.remove(&key);
        }
    }

    /// Sorts the buckets whose time has come by `now`.
    pub(crate) fn sort_due(&mut self, now: Millis) {
        while let Some(first) = self.far.first_entry() {
            if *first.key() > bucket_of(now) {
                return;
            }
            self.near.extend(first.remove());
        }
    }

    /// No hold runs out before this; exact for what is sorted, the beginning of the bucket for the rest.
    pub(crate) fn next_expiration(&self) -> Option<Millis> {
        let near = self.near.first().map(|(expiration, _)| *expiration);
        let far = self.far.first_key_value().map(|(bucket, _)| bucket << BUCKET_BITS);
        near.into_iter().chain(far).min()
    }

    /// Every open hold, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = TransferNo> {
        self.near.iter().chain(self.far.values().flatten()).map(|(_, no)| *no)
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
        let mut found: Vec<Hold> = match after {
            _ if max == 0 => return Vec::new(),
            Some(after) if after >= below => return Vec::new(),
            _ => self.near.range((lower, Excluded(below))).take(max).copied().collect(),
        };
        // Far buckets may hold expirations between those of `near`: a hold put in after its second was sorted.
        let first_bucket = after.map_or(i64::MIN, |(expiration, _)| bucket_of(expiration));
        for (bucket, holds) in self.far.range((Included(first_bucket), Included(bucket_of(before)))) {
            let full = found.len() >= max;
            if full && found.get(max - 1).is_none_or(|last| bucket_of(last.0) < *bucket) {
                break;
            }
            let wanted = |hold: &&Hold| **hold < below && after.is_none_or(|after| **hold > after);
            found.extend(holds.iter().filter(wanted));
            if found.len() > max {
                // A page wants a few of a bucket that may hold very many: put those first, then sort only them.
                found.select_nth_unstable(max - 1);
                found.truncate(max);
            }
            found.sort_unstable();
        }
        found
    }
}

#[cfg(test)]
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
            let mut next = 0;
            for step in steps {
                match step {
                    Step::Open(expiration) => {
                        index.insert(expiration, TransferNo(next));
                        model.insert((expiration, TransferNo(next)));
                        next += 1;
                    }
                    Step::Close(which) if !model.is_empty() => {
                        let hold = *model.iter().nth(which.index(model.len())).unwrap();
                        model.remove(&hold);
                        index.remove(hold.0, hold.1);
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
                let first = model.first().map(|hold| hold.0);
                prop_assert!(index.next_expiration() <= first || first.is_none());
                prop_assert_eq!(index.next_expiration().is_none(), first.is_none());
            }
        }
    }
}
