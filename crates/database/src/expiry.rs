//! What runs out: this node's shards of holds, or of checkouts, looked at together and scanned in turn.

use std::sync::Arc;
use std::time::Instant;

use holdfast_postgres::{Claim, Error, Source, Step, Store};

use crate::health::Part;
use crate::meters::ExpiryMeters;
use crate::outboxes::Outboxes;
use crate::settings::{NodeSettings, SCAN_EVERY, SCAN_HOLDS, SEND_WAIT};
use crate::shards::{Change, Shards};
use crate::stop::Stop;

/// What runs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Holds of transfers.
    Holds,
    /// Checkouts that nobody decided in time; and idempotency keys.
    Checkouts,
}

/// Idempotency keys removed at a time.
const KEYS_AT_ONCE: u32 = 1_000;

impl Kind {
    const fn source(self) -> fn(i32) -> Source {
        match self {
            Kind::Holds => Source::Timeout,
            Kind::Checkouts => Source::Deadline,
        }
    }

    fn due_shards(self, store: &mut Store) -> Result<Vec<i16>, Error> {
        match self {
            Kind::Holds => store.due_shards(),
            Kind::Checkouts => store.due_checkout_shards(),
        }
    }

    fn end(self, store: &mut Store, claim: &Claim, shard: i16) -> Result<Step, Error> {
        match self {
            Kind::Holds => store.expire(claim, shard, SCAN_HOLDS),
            Kind::Checkouts => store.expire_checkouts(claim, shard, SCAN_HOLDS),
        }
    }
}

pub(crate) struct Expiry {
    pub(crate) kind: Kind,
    pub(crate) settings: Arc<NodeSettings>,
    pub(crate) outboxes: Arc<Outboxes>,
    pub(crate) part: Arc<Part>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) meters: ExpiryMeters,
}

impl Expiry {
    pub(crate) fn run(self) {
        let mut store: Option<Store> = None;
        let mut shards =
            Shards::new(self.settings.node_number(), self.settings.store.expiry_shards, self.kind.source());
        while !self.stop.is_set() {
            let connected = self.settings.connected(&mut store);
            match connected.and_then(|store| self.round(store, &mut shards)) {
                Ok(()) => self.part.works(),
                Err(error) => {
                    self.part.fails(&error);
                    self.meters.failures.increment(1);
                    // A scan may have been committed without an answer, and was not handed over.
                    shards.held().for_each(|(_, claim)| self.outboxes.ring(&claim));
                    store = None;
                }
            }
            self.meters.shards(shards.held().count());
            self.stop.pause(SCAN_EVERY);
        }
        self.outboxes.await_sent(SEND_WAIT);
        if let Some(Err(error)) = store.as_mut().map(|store| shards.give_up(store)) {
            tracing::warn!(kind = ?self.kind, %error, "shards of the expiry scan are not given up; others take them when their leases have ended");
        }
    }

    /// One look at every shard: keep, take or give up; then end what ran out.
    fn round(&self, store: &mut Store, shards: &mut Shards) -> Result<(), Error> {
        shards.renew(store, |change| match change {
            Change::Taken(claim) => self.outboxes.put(claim),
            Change::Lost(claim) => self.outboxes.remove(&claim),
        })?;
        // One look at all of them: nearly always nothing is due anywhere.
        let due = self.kind.due_shards(store)?;
        // A shard with much to do does not keep the others waiting, nor the leases.
        let until = Instant::now() + SCAN_EVERY;
        let mut busy: Vec<(i16, Claim)> = shards.held().filter(|(shard, _)| due.contains(shard)).collect();
        // What one shard cannot end keeps nobody else's holds.
        let mut failed = None;
        while !busy.is_empty() && Instant::now() < until && !self.stop.is_set() {
            let mut more = Vec::with_capacity(busy.len());
            for (shard, claim) in busy {
                match self.scan(store, shard, &claim) {
                    Ok(true) => more.push((shard, claim)),
                    Ok(false) => {}
                    Err(error @ Error::Unavailable(_)) => return Err(error),
                    Err(error) => {
                        tracing::warn!(kind = ?self.kind, shard, %error, "a shard could not be scanned; it is tried again");
                        failed = Some(error);
                    }
                }
            }
            busy = more;
        }
        if self.kind == Kind::Checkouts && shards.held().any(|(shard, _)| shard == 0) {
            let may_go_on = || Instant::now() < until && !self.stop.is_set();
            by_pages(KEYS_AT_ONCE, may_go_on, || store.remove_ended_keys(KEYS_AT_ONCE))?;
        }
        failed.map_or(Ok(()), Err)
    }

    /// Ends what ran out in a shard; whether there may be more.
    fn scan(&self, store: &mut Store, shard: i16, claim: &Claim) -> Result<bool, Error> {
        let began = Instant::now();
        let Step::Done(done) = self.kind.end(store, claim, shard)? else {
            // The next lease tells whose it is.
            self.outboxes.remove(claim);
            return Ok(false);
        };
        self.meters.done(&done, began.elapsed());
        if !done.outbox.is_empty() {
            self.outboxes.hand_over(claim, done.outbox, began);
        }
        Ok(done.more)
    }
}

/// Has pages removed as long as they are full, one at least: whatever comes in faster than a page a round goes out as fast.
fn by_pages<E>(
    page: u32,
    may_go_on: impl Fn() -> bool,
    mut remove: impl FnMut() -> Result<u64, E>,
) -> Result<(), E> {
    while remove()? >= u64::from(page) && may_go_on() {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_removed_until_one_is_not_full_or_the_time_is_over() {
        let removed = |rows: u64, times: u32| {
            let (left, rounds) = (std::cell::Cell::new(rows), std::cell::Cell::new(0));
            let remove = || {
                let page = left.get().min(10);
                left.set(left.get() - page);
                rounds.set(rounds.get() + 1);
                Ok::<u64, ()>(page)
            };
            by_pages(10, || rounds.get() < times, remove).unwrap();
            (left.get(), rounds.get())
        };
        assert_eq!(removed(0, 100), (0, 1));
        assert_eq!(removed(35, 100), (0, 4));
        assert_eq!(removed(35, 2), (15, 2));
        assert_eq!(removed(35, 0), (25, 1), "a round without time removes one");
    }
}
