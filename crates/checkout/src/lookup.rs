//! A map that only looks up. It hashes, for speed, and nobody can walk through it: what it holds comes out one by one, or all
//! of it sorted, so its order of its own reaches no output and two runs cannot differ by it.

#![allow(clippy::disallowed_types, reason = "the order of this map cannot be seen from outside this file")]

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

/// Values by key.
#[derive(Clone, PartialEq, Eq)]
pub struct Lookup<K: Hash + Eq, V>(HashMap<K, V, RandomState>);

impl<K: Hash + Eq, V> Default for Lookup<K, V> {
    fn default() -> Lookup<K, V> {
        Lookup(HashMap::default())
    }
}

impl<K: Hash + Eq, V> Lookup<K, V> {
    /// The value of that key.
    #[must_use]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        // Nearly always there is nothing, and then nothing need be hashed.
        if self.0.is_empty() { None } else { self.0.get(key) }
    }

    /// The value of that key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.get_mut(key)
    }

    /// Whether there is one.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// The value of that key, made if there is none.
    pub fn get_or_insert_with(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V
    where
        K: Clone,
    {
        self.0.entry(key.clone()).or_insert_with(make)
    }

    /// Puts a value in; gives back the one that was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// Takes a value out, with its key.
    pub fn remove_entry(&mut self, key: &K) -> Option<(K, V)> {
        self.0.remove_entry(key)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Hash + Eq + Ord, V> Lookup<K, V> {
    /// All values by ascending key.
    #[must_use]
    pub fn into_sorted(self) -> Vec<V> {
        let mut all: Vec<(K, V)> = self.0.into_iter().collect();
        all.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        all.into_iter().map(|(_, value)| value).collect()
    }
}

impl<K: Hash + Eq + Ord + std::fmt::Debug, V: std::fmt::Debug> std::fmt::Debug for Lookup<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut all: Vec<(&K, &V)> = self.0.iter().collect();
        all.sort_unstable_by(|one, other| one.0.cmp(other.0));
        f.debug_map().entries(all).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_out_is_in_the_order_of_the_keys() {
        let mut lookup = Lookup::default();
        for number in (0..1_000_u32).map(|number| number * 7_919 % 1_000) {
            assert_eq!(lookup.insert(number, number), None);
        }
        assert_eq!((lookup.get(&7), lookup.len()), (Some(&7), 1_000));
        assert_eq!(lookup.remove_entry(&7), Some((7, 7)));
        *lookup.get_or_insert_with(&7, || 1) += 1;
        *lookup.get_or_insert_with(&8, || 1) += 1;
        let sorted = lookup.clone().into_sorted();
        assert!(sorted[..10] == [0, 1, 2, 3, 4, 5, 6, 2, 9, 9] && sorted.len() == 1_000);
        assert!(format!("{lookup:?}").starts_with("{0: 0, 1: 1, 2: 2"));
    }
}
