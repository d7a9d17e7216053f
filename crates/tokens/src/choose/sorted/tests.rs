//! Runs against a plain set.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Entry, Equals, RUN, Sorted};
use crate::choose::lane::Handle;
use crate::random::Random;

/// Few quantities (long stretches of equals) or many, and the largest there is.
fn quantity(random: &mut Random, spread: u64) -> u64 {
    match random.below(50) {
        0 => u64::MAX,
        1 => 0,
        _ => random.below(spread),
    }
}

fn compare(sorted: &Sorted, model: &BTreeSet<(u64, u64)>, random: &mut Random, spread: u64) {
    let from = quantity(random, spread);
    let grouped = |(quantity, equals): (u64, Equals<'_>)| {
        let handles: Vec<(u64, u64)> = equals.in_order().map(|handle| (quantity, handle.0)).collect();
        assert_eq!(handles.len(), equals.len());
        let mut backwards: Vec<(u64, u64)> =
            equals.in_order().rev().map(|handle| (quantity, handle.0)).collect();
        backwards.reverse();
        assert_eq!(handles, backwards);
        handles
    };
    let up: Vec<(u64, u64)> = sorted.upwards(from).flat_map(grouped).collect();
    assert_eq!(up, model.range((from, 0)..).copied().collect::<Vec<_>>());
    let mut down: Vec<(u64, u64)> =
        sorted.downwards(from).collect::<Vec<_>>().into_iter().rev().flat_map(grouped).collect();
    let expected: Vec<(u64, u64)> = model.range(..=(from, u64::MAX)).copied().collect();
    assert_eq!(down, expected);
    down.dedup_by_key(|(quantity, _)| *quantity);
    assert_eq!(sorted.downwards(from).count(), down.len(), "each quantity once");
    assert_eq!(sorted.first().map(|entry| entry.quantity), model.first().map(|entry| entry.0));
    assert_eq!(sorted.largest(), model.last().map(|entry| entry.0));
    let equals: BTreeSet<(u64, u64)> = model.range((from, 0)..=(from, u64::MAX)).copied().collect();
    let found = sorted.equals(from).map(|equals| {
        let walked: Vec<_> = equals.in_random_order(random).map(|handle| (from, handle.0)).collect();
        assert_eq!(walked.len(), equals.len(), "none twice");
        walked.into_iter().collect::<BTreeSet<_>>()
    });
    assert_eq!(found.unwrap_or_default(), equals);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_as_a_plain_set(seed in any::<u64>(), size in 1..6 * RUN, spread in prop_oneof![1..4_u64, 5..100_u64, 1_000..9_000_u64]) {
        let mut random = Random::new(seed);
        let (mut sorted, mut model) = (Sorted::default(), BTreeSet::new());
        // Grows, then shrinks to nothing, each time with steps back.
        for grow in [true, false] {
            for step in 0..3 * size {
                if random.below(4) == 0 || (grow != (random.below(5) == 0)) {
                    let (quantity, handle) = (quantity(&mut random, spread), random.below(1 << 40));
                    if model.insert((quantity, handle)) {
                        sorted.insert(Entry { quantity, handle: Handle(handle) });
                    }
                } else if let Some(entry) = model.range((random.below(spread), 0)..).next().copied().or_else(|| model.first().copied()) {
                    model.remove(&entry);
                    assert!(sorted.remove(Entry { quantity: entry.0, handle: Handle(entry.1) }));
                    assert!(!sorted.remove(Entry { quantity: entry.0, handle: Handle(entry.1) }), "gone");
                }
                if step % 97 == 0 {
                    compare(&sorted, &model, &mut random, spread);
                }
            }
        }
        while let Some(entry) = model.pop_first() {
            assert!(sorted.remove(Entry { quantity: entry.0, handle: Handle(entry.1) }));
        }
        compare(&sorted, &model, &mut random, spread);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn several_at_once_as_one_by_one(seed in any::<u64>(), batches in 1..60_u64, spread in prop_oneof![1..4_u64, 5..100_u64, 1_000..9_000_u64]) {
        let mut random = Random::new(seed);
        let (mut sorted, mut model) = (Sorted::default(), BTreeSet::new());
        let entry = |(quantity, handle): (u64, u64)| Entry { quantity, handle: Handle(handle) };
        for batch in 0..batches {
            // Neighbours with gaps between them, rising or in no order.
            let (amount, first) = (quantity(&mut random, spread), random.below(1 << 12));
            let places = (first..first + 1 + random.below(2 * RUN as u64)).step_by(1 + random.index(3));
            let mut new: Vec<(u64, u64)> = places.map(|handle| (amount, handle)).collect();
            new.retain(|one| model.insert(*one));
            if batch % 3 == 0 {
                let all = new.len();
                random.shuffle_front(&mut new, all);
            }
            sorted.insert_all(&new.into_iter().map(entry).collect::<Vec<_>>());
            compare(&sorted, &model, &mut random, spread);
            let from = (quantity(&mut random, spread), random.below(1 << 12));
            let step = 1 + random.index(2);
            let mut old: Vec<(u64, u64)> = model.range(from..).step_by(step).take(random.index(2 * RUN)).copied().collect();
            if batch % 4 == 0 {
                old.reverse();
            }
            old.iter().for_each(|one| { model.remove(one); });
            let old: Vec<Entry> = old.into_iter().map(entry).collect();
            assert!(sorted.remove_all(&old));
            assert!(old.is_empty() || !sorted.remove_all(&old), "gone");
            compare(&sorted, &model, &mut random, spread);
        }
        let all: Vec<Entry> = model.iter().copied().map(entry).collect();
        assert!(sorted.remove_all(&all));
        compare(&sorted, &BTreeSet::new(), &mut random, spread);
    }
}

#[test]
fn what_comes_in_order_fills_its_runs() {
    let mut sorted = Sorted::default();
    (0..100 * RUN as u64)
        .for_each(|number| sorted.insert(Entry { quantity: number, handle: Handle(number) }));
    assert_eq!(sorted.runs().len(), 100);
    // One of each run is left: no run stands alone for a single entry.
    for number in (0..100 * RUN as u64).filter(|number| number % RUN as u64 != 7) {
        assert!(sorted.remove(Entry { quantity: number, handle: Handle(number) }));
    }
    assert!(sorted.runs().len() <= 100 / (RUN / 8) + 2, "{}", sorted.runs().len());
}
