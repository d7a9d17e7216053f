//! What each spender has: a live lock, or a spend that is remembered. Taken before any stripe.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::quality::FixedState;
use hashbrown::HashTable;

use super::few::Few;
use super::locked;
use super::stripe::Terms;
use crate::answer::{Selection, Transaction};
use crate::fingerprint::Fingerprint;
use crate::sync::{Mutex, MutexGuard};
use crate::token::{Name, Token};

const SHARDS: usize = 256;

/// The pieces of a lock: stripe and number there.
pub(crate) type Parts = Few<(u32, u32)>;

/// A selection as it was answered, and where its locks are.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) terms: Terms,
    pub(crate) amount: u64,
    pub(crate) sum: u128,
    pub(crate) tokens: Arc<[Token]>,
    pub(crate) parts: Parts,
}

impl Held {
    pub(crate) fn new(terms: Terms, amount: u64, tokens: Arc<[Token]>, parts: Parts) -> Self {
        let sum = tokens.iter().map(|token| u128::from(token.quantity)).sum();
        Held { terms, amount, sum, tokens, parts }
    }

    pub(crate) fn selection(&self, spender: Name) -> Selection {
        Selection {
            spender,
            tokens: self.tokens.clone(),
            sum: self.sum,
            amount: self.amount,
            expires_at: self.terms.expires_at,
            fence: self.terms.fence,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum SpenderState {
    /// Apart from the table: it is large, and a table that grows moves all that is in it.
    Held(Box<Held>),
    Spent(Arc<Transaction>),
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) spender: Name,
    /// What was asked: the selection's body while held, the spend's once spent.
    pub(crate) body: Fingerprint,
    pub(crate) state: SpenderState,
}

#[derive(Debug, Default)]
pub(crate) struct Shard {
    entries: HashTable<(u64, Entry)>,
    spent: VecDeque<Name>,
    spends_max: usize,
}

#[derive(Debug)]
pub(crate) struct Spenders {
    shards: Vec<Mutex<Shard>>,
    hasher: FixedState,
}

/// The entries of one shard, locked, seen by one spender.
pub(crate) struct SpenderEntries<'a> {
    shard: MutexGuard<'a, Shard>,
    hash: u64,
    hasher: &'a FixedState,
}

/// Finds a spender's entry among those of the same hash.
fn of(spender: &str) -> impl Fn(&(u64, Entry)) -> bool + '_ {
    move |(_, entry)| &*entry.spender == spender
}

impl Spenders {
    pub(crate) fn new(seed: u64, spends_max: usize) -> Self {
        let spends_max = spends_max.div_ceil(SHARDS).max(1);
        let shard = |_| Mutex::new(Shard { spends_max, ..Shard::default() });
        Spenders { shards: (0..SHARDS).map(shard).collect(), hasher: FixedState::with_seed(seed ^ 0x5e) }
    }

    pub(crate) fn entries(&self, spender: &str) -> SpenderEntries<'_> {
        let hash = self.hasher.hash_one(spender);
        let place = usize::try_from(hash >> 56).expect("a byte fits");
        SpenderEntries { shard: locked(&self.shards[place]), hash, hasher: &self.hasher }
    }

    /// Shows every entry, shard by shard.
    pub(crate) fn each(&self, mut show: impl FnMut(&Entry)) {
        for shard in &self.shards {
            locked(shard).entries.iter().for_each(|(_, entry)| show(entry));
        }
    }
}

impl SpenderEntries<'_> {
    pub(crate) fn find(&self, spender: &str) -> Option<&Entry> {
        self.shard.entries.find(self.hash, of(spender)).map(|(_, entry)| entry)
    }

    pub(crate) fn held_mut(&mut self, spender: &str) -> Option<&mut Held> {
        match self.shard.entries.find_mut(self.hash, of(spender)) {
            Some((_, Entry { state: SpenderState::Held(held), .. })) => Some(held),
            _ => None,
        }
    }

    /// Notes what was asked, as a record says.
    pub(crate) fn set_body(&mut self, spender: &str, body: Fingerprint) {
        if let Some((_, entry)) = self.shard.entries.find_mut(self.hash, of(spender)) {
            entry.body = body;
        }
    }

    pub(crate) fn put(&mut self, entry: Entry) {
        let before = self.remove(&entry.spender).map(|entry| entry.state);
        let again = matches!(before, Some(SpenderState::Spent(_)));
        if !again && matches!(entry.state, SpenderState::Spent(_)) {
            self.remember(entry.spender.clone());
        }
        self.add(entry);
    }

    /// Notes a lock of a spender of whom nothing is known.
    pub(crate) fn add(&mut self, entry: Entry) {
        self.shard.entries.insert_unique(self.hash, (self.hash, entry), |(hash, _)| *hash);
    }

    /// Takes a spender's lock away if the caller agrees.
    pub(crate) fn take_held<E>(
        &mut self,
        spender: &str,
        agree: impl FnOnce(&Held) -> Result<bool, E>,
    ) -> Result<Option<Held>, E> {
        let Ok(found) = self.shard.entries.find_entry(self.hash, of(spender)) else { return Ok(None) };
        match &found.get().1.state {
            SpenderState::Held(held) if agree(held)? => {}
            _ => return Ok(None),
        }
        match found.remove().0.1.state {
            SpenderState::Held(held) => Ok(Some(*held)),
            SpenderState::Spent(_) => Ok(None),
        }
    }

    /// Keeps the memory of spends within its bound: the oldest of the shard goes.
    fn remember(&mut self, spender: Name) {
        self.shard.spent.push_back(spender);
        if self.shard.spent.len() <= self.shard.spends_max {
            return;
        }
        let Some(oldest) = self.shard.spent.pop_front() else { return };
        let hash = self.hasher.hash_one(&*oldest);
        let same = |(_, entry): &(u64, Entry)| {
            entry.spender == oldest && matches!(entry.state, SpenderState::Spent(_))
        };
        if let Ok(entry) = self.shard.entries.find_entry(hash, same) {
            entry.remove();
        }
    }

    pub(crate) fn remove(&mut self, spender: &str) -> Option<Entry> {
        let found = self.shard.entries.find_entry(self.hash, of(spender)).ok()?;
        Some(found.remove().0.1)
    }
}
