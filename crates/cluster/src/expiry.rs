//! The shards of the expiry scan: held by lease, shared among the nodes, scanned in turn.
//!
//! Each node takes its fair share of the shards and renews its leases with every look. A node that says nothing for the time of a
//! lease loses them to others, whose claims have a higher epoch; if it comes back in the middle of a scan, it writes
//! nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use holdfast_postgres::{Claim, Error, Source, Step, Store};

use crate::board::Board;
use crate::health::Part;
use crate::meters::ExpiryMeters;
use crate::settings::{LEASE, NodeSettings, SCAN_EVERY, SCAN_HOLDS};
use crate::stop::Stop;

pub(crate) struct Expiry {
    pub(crate) settings: Arc<NodeSettings>,
    pub(crate) board: Arc<Board>,
    pub(crate) part: Arc<Part>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) meters: ExpiryMeters,
}

impl Expiry {
    pub(crate) fn run(self) {
        let mut store: Option<Store> = None;
        let mut held: BTreeMap<i16, Claim> = BTreeMap::new();
        while !self.stop.is_set() {
            let went = match &mut store {
                Some(store) => self.round(store, &mut held),
                none => self.settings.connect().and_then(|opened| self.round(none.insert(opened), &mut held)),
            };
            match went {
                Ok(()) => self.part.works(),
                Err(error) => {
                    self.part.fails(&error);
                    self.meters.failures.increment(1);
                    store = None;
                }
            }
            ExpiryMeters::shards(held.len());
            self.stop.pause(SCAN_EVERY);
        }
        if let Some(store) = &mut store {
            for claim in held.values() {
                if let Err(error) = store.give_up(claim) {
                    tracing::warn!(%error, "a shard is not given up; others take it when its lease has ended");
                    break;
                }
            }
        }
    }

    /// One look at every shard: keep, take or give up; then end what ran out.
    fn round(&self, store: &mut Store, held: &mut BTreeMap<i16, Claim>) -> Result<(), Error> {
        let node = self.settings.node_number();
        let nodes = store.count_node(node, LEASE)?.max(1);
        let shards = self.settings.store.expiry_shards;
        let fair = usize::from(shards.unsigned_abs()).div_ceil(nodes);
        for shard in 0..shards {
            if held.len() > fair && held.contains_key(&shard) {
                if let Some(claim) = held.remove(&shard) {
                    self.board.remove(&claim);
                    store.give_up(&claim)?;
                }
                continue;
            }
            if !held.contains_key(&shard) && held.len() >= fair {
                continue;
            }
            let source = Source::timeout(i32::from(shard));
            match store.lease(source, node, LEASE)? {
                Some(claim) => {
                    let before = held.insert(shard, claim);
                    if before.is_none_or(|before| before.epoch != claim.epoch) {
                        tracing::info!(shard, epoch = claim.epoch, "shard taken");
                        self.board.put(claim);
                    }
                }
                None => {
                    if let Some(claim) = held.remove(&shard) {
                        tracing::warn!(shard, "shard lost");
                        self.board.remove(&claim);
                    }
                }
            }
        }
        // One look at all of them: nearly always nothing is due anywhere.
        let due = store.due_shards()?;
        // A shard with much to do does not keep the others waiting, nor the leases.
        let until = Instant::now() + SCAN_EVERY;
        let mut busy: Vec<(i16, Claim)> = held
            .iter()
            .filter(|(shard, _)| due.contains(shard))
            .map(|(shard, claim)| (*shard, *claim))
            .collect();
        while !busy.is_empty() && Instant::now() < until && !self.stop.is_set() {
            let mut more = Vec::with_capacity(busy.len());
            for (shard, claim) in busy {
                if self.scan(store, shard, &claim)? {
                    more.push((shard, claim));
                }
            }
            busy = more;
        }
        Ok(())
    }

    /// Ends what ran out in a shard; whether there may be more.
    fn scan(&self, store: &mut Store, shard: i16, claim: &Claim) -> Result<bool, Error> {
        let began = Instant::now();
        let Step::Done(done) = store.expire(claim, shard, SCAN_HOLDS)? else {
            // The next lease tells whose it is.
            self.board.remove(claim);
            return Ok(false);
        };
        self.meters.scan.record(began.elapsed().as_secs_f64());
        if done.messages > 0 {
            self.meters.expired.increment(done.messages as u64);
            self.board.ring(claim.segment_id);
        }
        Ok(done.messages >= usize::try_from(SCAN_HOLDS).unwrap_or(usize::MAX))
    }
}
