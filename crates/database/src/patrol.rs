//! The patrol: looks for transfers that stand half-way, and counts the accounts of each partition.

use std::sync::Arc;
use std::time::Instant;

use holdfast_domain::ids::AccountId;
use holdfast_messages::Topic;
use holdfast_postgres::Stalled;
use holdfast_postgres::stalled::HALF_WAY;
use metrics::gauge;

use crate::health::Part;
use crate::reads::{ReadError, Reads};
use crate::settings::{
    ACCOUNTS_COUNTED_MAX, COUNT_ACCOUNTS_EVERY, NodeSettings, PATROL_EVERY, STALLED_AFTER,
};
use crate::stop::Stop;

pub(crate) struct Patrol {
    pub(crate) settings: Arc<NodeSettings>,
    pub(crate) reads: Arc<Reads>,
    pub(crate) part: Arc<Part>,
    pub(crate) stop: Arc<Stop>,
}

impl Patrol {
    pub(crate) fn run(self) {
        let mut told = Stalled::default();
        let mut counted: Option<Instant> = None;
        while !self.stop.is_set() {
            let went = self.look(&mut told).and_then(|()| {
                if counted.is_none_or(|at| at.elapsed() >= COUNT_ACCOUNTS_EVERY) {
                    self.count_accounts()?;
                    counted = Some(Instant::now());
                }
                Ok(())
            });
            match went {
                // All connections are in use: the next round will do.
                Ok(()) | Err(ReadError::Busy) => self.part.works(),
                Err(ReadError::Store(error)) => self.part.fails(error),
            }
            self.stop.pause(PATROL_EVERY);
        }
    }

    fn look(&self, told: &mut Stalled) -> Result<(), ReadError> {
        let stalled = self.reads.ask(|store| store.stalled(STALLED_AFTER))?;
        for (state, count) in HALF_WAY.into_iter().zip(stalled.counts) {
            let count = u32::try_from(count).map_or(f64::MAX, f64::from);
            gauge!("holdfast_cluster_stalled_transfers", "state" => state.name()).set(count);
        }
        if stalled != *told {
            tell(&stalled);
            *told = stalled;
        }
        Ok(())
    }

    fn count_accounts(&self) -> Result<(), ReadError> {
        let accounts = self.reads.ask(|store| store.position_accounts(ACCOUNTS_COUNTED_MAX))?;
        for (partition, count) in (0..).zip(per_partition(&self.settings, &accounts)) {
            let partition: u32 = partition;
            gauge!("holdfast_cluster_accounts", "partition" => partition.to_string()).set(f64::from(count));
        }
        Ok(())
    }
}

/// How many of the accounts each partition of `position` has.
fn per_partition(settings: &NodeSettings, accounts: &[u32]) -> Vec<u32> {
    let topics = &settings.topics;
    let mut counts = vec![0; topics.partitions(Topic::Position) as usize];
    for account in accounts {
        let key = AccountId(*account).0.to_string();
        counts[topics.partition(Topic::Position, key.as_bytes()) as usize] += 1;
    }
    counts
}

fn tell(stalled: &Stalled) {
    let total = stalled.total();
    if total == 0 {
        tracing::info!("no transfer stands half-way any more");
        return;
    }
    let name = |(id, state, since): &(_, _, i64)| format!("{id} {state} since {since}");
    let oldest = stalled.examples.iter().map(name).collect::<Vec<_>>().join(", ");
    tracing::error!(
        total,
        oldest,
        "transfers stand half-way between two hops; see docs/operations.md and the table stalled_transfer"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_account_is_counted_in_the_partition_of_its_key() {
        let settings = NodeSettings::new("kafka://a:1".parse().unwrap(), "postgres://u@h/d", 1);
        let accounts: Vec<u32> = (0..500).map(|number| 2 * number + 1).collect();
        let counts = per_partition(&settings, &accounts);
        assert_eq!((counts.len(), counts.iter().sum::<u32>()), (12, 500));
        assert!(counts.iter().all(|count| *count > 10), "they spread: {counts:?}");
    }
}
