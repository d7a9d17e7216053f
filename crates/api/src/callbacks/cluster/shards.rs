//! Which shards are ours: each node takes its fair share and renews its leases.

use std::collections::BTreeMap;

use holdfast_postgres::{Claim, Error, Source, Store};

use super::LEASE;

/// The shards that this node holds.
pub(super) struct Shards {
    node: i64,
    count: i16,
    held: BTreeMap<i16, Claim>,
}

impl Shards {
    pub(super) const fn new(node: i64, count: i16) -> Shards {
        Shards { node, count, held: BTreeMap::new() }
    }

    pub(super) fn claims(&self) -> Vec<Claim> {
        self.held.values().copied().collect()
    }

    /// The claim under which a participant's callbacks are delivered here.
    pub(super) fn claim_of(&self, participant: u32) -> Option<Claim> {
        let count = u32::from(self.count.unsigned_abs()).max(1);
        self.held.get(&i16::try_from(participant % count).ok()?).copied()
    }

    /// Looks at every shard: keep, take or give up.
    pub(super) fn renew(&mut self, store: &mut Store) -> Result<(), Error> {
        let nodes = store.count_callback_node(self.node, LEASE)?.max(1);
        let fair = usize::from(self.count.unsigned_abs()).div_ceil(nodes);
        for shard in 0..self.count {
            let is_held = self.held.contains_key(&shard);
            if is_held && self.held.len() > fair {
                if let Some(claim) = self.held.remove(&shard) {
                    store.give_up(&claim)?;
                }
                continue;
            }
            if !is_held && self.held.len() >= fair {
                continue;
            }
            match store.lease(Source::callback(i32::from(shard)), self.node, LEASE)? {
                Some(claim) => {
                    let before = self.held.insert(shard, claim);
                    if before.is_none_or(|before| before.epoch != claim.epoch) {
                        tracing::info!(shard, epoch = claim.epoch, "callbacks of a shard taken");
                    }
                }
                None => self.lose(shard),
            }
        }
        Ok(())
    }

    /// Somebody else has claimed it; the next renewal tells whose it is.
    pub(super) fn lost(&mut self, claim: &Claim) {
        let lost = self.held.iter().find(|(_, held)| *held == claim).map(|(shard, _)| *shard);
        if let Some(shard) = lost {
            self.lose(shard);
        }
    }

    fn lose(&mut self, shard: i16) {
        if self.held.remove(&shard).is_some() {
            tracing::warn!(shard, "callbacks of a shard lost to another node");
        }
    }

    /// Others need not wait for the leases to end.
    pub(super) fn give_up(&mut self, store: &mut Store) -> Result<(), Error> {
        while let Some((_, claim)) = self.held.pop_first() {
            store.give_up(&claim)?;
        }
        Ok(())
    }
}
