//! What one node does for all, apart from where it tells it: what happened to tokens is passed on, and what is over is removed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_messages::TokenEvent;
use holdfast_postgres::tokens::Position;
use holdfast_postgres::{Claim, Error, Source, Store};

use super::limits::CHANGES_READ;
use super::tidier::Tidier;
use crate::relay::Trouble;
use crate::settings::{FRESH, LEASE, NodeSettings};
use crate::stop::Stop;

/// What this node needs for housekeeping, if its turn comes.
pub(super) struct Housekeeping {
    settings: Arc<NodeSettings>,
    stop: Arc<Stop>,
    tidier: Tidier,
    store: Option<Store>,
    held: Option<Claim>,
}

/// Housekeeping that this node does.
pub(super) struct Kept<'a> {
    pub(super) store: &'a mut Store,
    /// Since when, at least. Later than [`FRESH`] from then on it may be another's.
    pub(super) since: Instant,
}

impl Housekeeping {
    /// Changes are kept for `history`.
    pub(super) fn new(settings: &Arc<NodeSettings>, stop: &Arc<Stop>, history: Duration) -> Housekeeping {
        let (settings, stop) = (Arc::clone(settings), Arc::clone(stop));
        Housekeeping { settings, stop, tidier: Tidier::new(history), store: None, held: None }
    }

    /// One round, if the lease is to be had: `take` is given what happened, then what is over goes. `None` if another keeps it.
    pub(super) fn keep(
        &mut self,
        take: impl FnMut(&[(Position, TokenEvent)]) -> Result<(), NotAll>,
    ) -> Result<Option<Kept<'_>>, Trouble> {
        let Housekeeping { settings, stop, tidier, store, held } = self;
        let store = match store {
            Some(store) => store,
            none => {
                // A server that was away may be another than before.
                tidier.forget_sent();
                let mut opened = settings.connect()?;
                adopt(&mut opened)?;
                none.insert(opened)
            }
        };
        let since = Instant::now();
        *held = store.lease(Source::Tokens, settings.node_number(), LEASE)?;
        let Some(claim) = *held else {
            tidier.hand_over();
            return Ok(None);
        };
        // Later than that the lease may be another's; the next round goes on.
        let passed_on = pass_on(store, &claim, || since.elapsed() < FRESH && !stop.is_set(), take);
        // That has time of its own: whatever is to be sent, and also without Kafka, what nobody needs goes.
        let gone = tidier.look(store, &claim, || !stop.is_set())?;
        if !gone.is_nothing() {
            tracing::debug!(?gone, "removed what is over of tokens");
        }
        passed_on?;
        Ok(Some(Kept { store, since }))
    }

    /// A round went wrong.
    pub(super) fn note(&mut self, trouble: &Trouble) {
        if matches!(trouble, Trouble::Store(_)) {
            self.store = None;
        }
    }

    /// Another may keep it at once.
    pub(super) fn leave(&mut self) {
        if let (Some(store), Some(claim)) = (&mut self.store, self.held.take())
            && let Err(error) = store.give_up(&claim)
        {
            tracing::warn!(%error, "the tokens' housekeeping is not given up; another node takes it when the lease has ended");
        }
    }
}

/// Whoever was to take events took only the first of them.
pub(super) struct NotAll {
    pub(super) taken: usize,
    pub(super) trouble: Trouble,
}

/// Has somebody take what nothing older can come before any more, and notes how far he has: also in the middle, so that what is
/// slow to take comes to an end nevertheless.
fn pass_on(
    store: &mut Store,
    claim: &Claim,
    may_go_on: impl Fn() -> bool,
    mut take: impl FnMut(&[(Position, TokenEvent)]) -> Result<(), NotAll>,
) -> Result<(), Trouble> {
    let (mut position, _) = store.tokens_sent()?;
    loop {
        let settled = store.settled_token_changes(position, CHANGES_READ)?;
        if settled.is_empty() {
            return Ok(());
        }
        let NotAll { taken, trouble } = match take(&settled) {
            Ok(()) => {
                position = settled[settled.len() - 1].0;
                if !store.mark_tokens_sent(claim, position)? || !may_go_on() {
                    return Ok(());
                }
                continue;
            }
            Err(not_all) => not_all,
        };
        if let Some((last, _)) = settled[..taken].last() {
            store.mark_tokens_sent(claim, *last)?;
        }
        return Err(trouble);
    }
}

/// Before anything is read from a connection: the tables may have come from another server.
pub(super) fn adopt(store: &mut Store) -> Result<(), Error> {
    if store.adopt_token_changes()? {
        tracing::warn!("the tables of tokens came from another server; their changes were numbered anew");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use holdfast_services::Database;
    use holdfast_tokens::Token;

    use super::*;
    use crate::scene::without_kafka;

    /// What is slow to take comes to an end nevertheless: whoever takes a part of it at a time is given the rest.
    #[test]
    fn what_was_taken_is_not_given_again() {
        let Some(database) = Database::new("tokens_passed_on") else { return };
        let (settings, stop) = (without_kafka(&database), Arc::<Stop>::default());
        let mut store = settings.connect().unwrap();
        for id in ["a", "b", "c"] {
            store.issue_tokens(&[Token::new(id, "alice", "EUR", 1)], None).unwrap().unwrap();
        }
        // Transactions run in other databases, too.
        let settled = "SELECT count(*) FROM token_change WHERE xid < pg_snapshot_xmin(pg_current_snapshot())";
        database.await_count(settled, |settled| settled == 3);
        let mut housekeeping = Housekeeping::new(&settings, &stop, Duration::from_secs(60));
        let mut given = Vec::new();
        for _ in 0..3 {
            let kept = housekeeping.keep(|events| {
                given.push(events.len());
                Err(NotAll { taken: 1, trouble: Trouble::Store(Error::Unavailable("slow".to_owned())) })
            });
            assert!(kept.is_err());
        }
        assert_eq!(given, [3, 2, 1]);
        assert!(
            housekeeping.keep(|events| panic!("{} again", events.len())).is_ok_and(|kept| kept.is_some())
        );
    }
}
