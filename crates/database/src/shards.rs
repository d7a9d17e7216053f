//! Shards held by lease: each node takes its fair share and renews its leases with every look.
//!
//! A node that says nothing for the time of a lease loses its shards to others, whose claims have a higher epoch; if it
//! comes back in the middle of something, it writes nothing.

use std::collections::BTreeMap;

use holdfast_postgres::{Claim, Error, Source, Store};

use crate::settings::LEASE;

/// What happened to a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is ours from now on.
    Taken(Claim),
    /// It is another node's, or nobody's.
    Lost(Claim),
}

/// The shards of one kind that this node holds.
#[derive(Debug)]
pub struct Shards {
    node: i64,
    count: i16,
    source: fn(i32) -> Source,
    held: BTreeMap<i16, Claim>,
}

impl Shards {
    /// None yet of so many; `source` tells of which kind they are.
    #[must_use]
    pub const fn new(node: i64, count: i16, source: fn(i32) -> Source) -> Shards {
        Shards { node, count, source, held: BTreeMap::new() }
    }

    /// Those that are held.
    pub fn held(&self) -> impl Iterator<Item = (i16, Claim)> + '_ {
        self.held.iter().map(|(shard, claim)| (*shard, *claim))
    }

    /// The claim of the shard that a number belongs to, if it is held.
    #[must_use]
    pub fn claim_of(&self, number: u32) -> Option<Claim> {
        let shard = number.checked_rem(u32::from(self.count.unsigned_abs()))?;
        self.held.get(&i16::try_from(shard).ok()?).copied()
    }

    /// Looks at every shard: keep, take or give up.
    ///
    /// # Errors
    /// If the database fails; then some may have been looked at.
    pub fn renew(&mut self, store: &mut Store, mut changed: impl FnMut(Change)) -> Result<(), Error> {
        let nodes = store.count_nodes((self.source)(0), self.node, LEASE)?.max(1);
        let fair = usize::from(self.count.unsigned_abs()).div_ceil(nodes);
        for shard in 0..self.count {
            let is_held = self.held.contains_key(&shard);
            if is_held && self.held.len() > fair {
                if let Some(claim) = self.held.remove(&shard) {
                    changed(Change::Lost(claim));
                    store.give_up(&claim)?;
                }
                continue;
            }
            if !is_held && self.held.len() >= fair {
                continue;
            }
            let source = (self.source)(i32::from(shard));
            let leased = store.lease(source, self.node, LEASE)?;
            let before = self.held.remove(&shard);
            self.held.extend(leased.map(|claim| (shard, claim)));
            let epoch = |claim: Option<Claim>| claim.map(|claim| claim.epoch);
            if epoch(before) == epoch(leased) {
                continue;
            }
            if let Some(claim) = before {
                tracing::warn!(?source, epoch = claim.epoch, "shard lost");
                changed(Change::Lost(claim));
            }
            if let Some(claim) = leased {
                tracing::info!(?source, epoch = claim.epoch, "shard taken");
                changed(Change::Taken(claim));
            }
        }
        Ok(())
    }

    /// Somebody else has claimed it; the next renewal tells whose it is.
    pub fn lost(&mut self, claim: &Claim) {
        self.held.retain(|_, held| held != claim);
    }

    /// Gives all up and leaves: others need not wait for the leases to end, nor count on this node.
    ///
    /// # Errors
    /// If the database fails; others get them when the leases have ended.
    pub fn give_up(&mut self, store: &mut Store) -> Result<(), Error> {
        while let Some((_, claim)) = self.held.pop_first() {
            store.give_up(&claim)?;
        }
        store.leave((self.source)(0), self.node)
    }
}

#[cfg(test)]
mod tests {
    use holdfast_services::Database;

    use super::*;

    const SHARDS: i16 = 8;

    #[test]
    fn shards_of_a_node_that_leaves_are_others_at_their_next_look() {
        let Some(database) = Database::new("shards") else { return };
        let mut store = Store::open(database.url(), holdfast_postgres::Settings::default()).unwrap();
        let mut nodes = [1, 2].map(|node| Shards::new(node, SHARDS, Source::Timeout));
        let look = |shards: &mut Shards, store: &mut Store| {
            shards.renew(store, |_| ()).unwrap();
            shards.held().count()
        };
        let [one, two] = &mut nodes;
        assert_eq!((look(one, &mut store), look(two, &mut store)), (8, 0));
        assert_eq!((look(one, &mut store), look(two, &mut store)), (4, 4), "each has its share");
        one.give_up(&mut store).unwrap();
        assert_eq!(look(two, &mut store), 8, "no lease and no silence is waited for");
    }
}
