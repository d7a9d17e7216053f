//! The cache kept up with what others do.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdfast_engine::Monitor;
use holdfast_postgres::tokens::{Next, Seen};
use holdfast_postgres::{Error, Source, Store};
use holdfast_tokens::{LockRecord, Name, Refusal, Scope, Share, TokenId, TokenSelector as _};

use super::cache::TokenCache;
use super::clock::TokenClock;
use super::housekeeping::adopt;
use super::limits::{CHANGES_READ, LOCKS_LEARNT, LOOK_EVERY, LOOK_PAUSE, LOOK_PAUSE_UNHURRIED, SHARE_EVERY};
use super::loads::Loads;
use super::vault::ended;
use crate::health::Part;
use crate::settings::{NODE_SEEN, NodeSettings, TROUBLE_PAUSE};
use crate::stop::Stop;

/// What a node knows of others' doings. Whoever reads changes or locks has it to himself, so that what was read is never
/// overtaken.
pub(super) struct Feed {
    settings: Arc<NodeSettings>,
    pub(super) clock: Arc<TokenClock>,
    cache: Monitor<Arc<TokenCache>>,
    reading: Monitor<Reading>,
    share: Monitor<Share>,
    /// The node is about to end: nobody waits any more.
    ending: AtomicBool,
    pub(super) loads: Arc<Loads>,
}

#[derive(Default)]
struct Reading {
    store: Option<Store>,
    /// The changes that need not be read any more; `None` before the first connection.
    seen: Option<Seen>,
    /// The owner that was last brought up to date, how, and when that began.
    refreshed: Option<(Scope, Refresh, Instant)>,
}

/// How an owner is brought up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refresh {
    /// What others did, and what they hold.
    News,
    /// Also what they hold no more: that a lease was renewed to an earlier end may not have been told, and nobody tells of a lock
    /// that was put back.
    AlsoEnds,
}

/// Why the cache could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub(super) enum FeedError {
    #[error(transparent)]
    Store(#[from] Error),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl From<FeedError> for Refusal {
    fn from(error: FeedError) -> Refusal {
        match error {
            FeedError::Store(error) => Refusal::StoreUnavailable(error.to_string()),
            FeedError::Refused(refusal) => refusal,
        }
    }
}

impl Feed {
    pub(super) fn new(settings: &Arc<NodeSettings>, clock: &Arc<TokenClock>) -> Feed {
        Feed {
            settings: Arc::clone(settings),
            clock: Arc::clone(clock),
            cache: Monitor::new(TokenCache::new(&settings.tokens)),
            reading: Monitor::default(),
            share: Monitor::new(Share::ALL),
            ending: AtomicBool::new(false),
            loads: Arc::new(Loads::new(settings)),
        }
    }

    /// The cache of this moment.
    pub(super) fn cache(&self) -> Arc<TokenCache> {
        Arc::clone(&self.cache.lock())
    }

    /// Where this node begins among equal tokens.
    pub(super) fn share(&self) -> Share {
        *self.share.lock()
    }

    pub(super) fn begin_anew(&self) -> Arc<TokenCache> {
        let new = TokenCache::new(&self.settings.tokens);
        let mut cache = self.cache.lock();
        let old = std::mem::replace(&mut *cache, Arc::clone(&new));
        drop(cache);
        // They ask again, of the new one.
        old.selector.end_waiting(&Refusal::Contention { attempts: 0 });
        old.followed.notify_waiters();
        if self.is_ending() {
            new.selector.end_waiting(&ended());
        }
        new
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    /// Answers all who wait for tokens; from now on nobody waits. Whoever can be served at once still is.
    pub(super) fn end_waiting(&self) {
        self.ending.store(true, Ordering::SeqCst);
        self.cache().selector.end_waiting(&ended());
    }

    /// Reads with the connection, which is made when there is none and dropped when it fails. A failure may be older than the
    /// question, so it is asked twice.
    pub(super) fn reading<T>(
        &self,
        mut read: impl FnMut(&mut Store, &mut Seen) -> Result<T, FeedError>,
    ) -> Result<T, FeedError> {
        let mut reading = self.reading.lock();
        self.reading_twice(&mut reading, &mut read)
    }

    fn reading_twice<T>(
        &self,
        reading: &mut Reading,
        mut read: impl FnMut(&mut Store, &mut Seen) -> Result<T, FeedError>,
    ) -> Result<T, FeedError> {
        match self.reading_once(reading, &mut read) {
            Err(FeedError::Store(Error::Unavailable(_))) => self.reading_once(reading, &mut read),
            other => other,
        }
    }

    fn reading_once<T>(
        &self,
        reading: &mut Reading,
        read: &mut impl FnMut(&mut Store, &mut Seen) -> Result<T, FeedError>,
    ) -> Result<T, FeedError> {
        let Reading { store, seen, .. } = reading;
        if store.is_none() {
            let mut opened = self.settings.connect_for_changes()?;
            adopt(&mut opened)?;
            *store = Some(opened);
        }
        let connection = store.as_mut().expect("just made");
        let seen = match seen {
            Some(seen) => seen,
            none => none.insert(self.all_seen(connection)?),
        };
        let answer = read(connection, seen);
        if matches!(answer, Err(FeedError::Store(_))) {
            *store = None;
        }
        answer
    }

    fn all_seen(&self, store: &mut Store) -> Result<Seen, Error> {
        let (seen, time) = store.all_token_changes_seen()?;
        self.clock.set(time);
        Ok(seen)
    }

    /// Reads what others did, up to now.
    pub(super) fn catch_up(&self) -> Result<(), FeedError> {
        self.reading(|store, seen| self.read_changes(store, seen))
    }

    /// Reads what shows now and did not the last time. If that fails in the middle, all of it is read again.
    fn read_changes(&self, store: &mut Store, seen: &mut Seen) -> Result<(), FeedError> {
        let mut page = None;
        loop {
            let changes = store.unseen_token_changes(seen, page.as_ref(), CHANGES_READ)?;
            self.clock.set(changes.time);
            if changes.gap {
                tracing::info!(
                    "changes of tokens were removed before this node read them; its cache begins anew"
                );
                // In this order: whoever loads into the new cache reads later than what counts as seen.
                *seen = self.all_seen(store)?;
                self.begin_anew();
                return Ok(());
            }
            let now = self.clock.now();
            for event in &changes.events {
                if let Err(refusal) = self.cache().follow(event, now) {
                    tracing::warn!(%refusal, "the cache of tokens could not follow; it begins anew");
                    self.begin_anew();
                }
            }
            match changes.next {
                Next::Page(next) => page = Some(next),
                Next::Seen(all) => {
                    *seen = all;
                    return Ok(());
                }
            }
        }
    }

    /// Takes over the live locks of an owner's tokens; all there are, unless they are too many (`None`).
    pub(super) fn learn_locks(
        &self,
        cache: &TokenCache,
        store: &mut Store,
        scope: &Scope,
    ) -> Result<Option<Vec<LockRecord>>, FeedError> {
        let now = self.clock.now();
        let locks = store.token_locks_of(Some(scope), LOCKS_LEARNT, self.clock.told())?;
        locks.iter().for_each(|record| cache.lock(record, now));
        Ok((locks.len() < LOCKS_LEARNT).then_some(locks))
    }

    /// Brings an owner up to date: what others did, and what they hold. As of one moment: a lock that was given back by then
    /// is not put back, and a token that is gone has its change beside it. Many may ask at once, when a wallet runs dry: who
    /// asked before another began is served by that one.
    pub(super) fn refresh(&self, scope: &Scope, how: Refresh, asked: Instant) -> Result<(), FeedError> {
        let mut reading = self.reading.lock();
        let serves = |other: &Scope, as_well: Refresh, began: Instant| {
            other == scope && as_well >= how && began > asked
        };
        if matches!(&reading.refreshed, Some((other, as_well, began)) if serves(other, *as_well, *began)) {
            return Ok(());
        }
        let began = Instant::now();
        // Before the database is read: what is locked here later may be too young for it.
        let (cache, now) = (self.cache(), self.clock.now());
        let known = match how {
            Refresh::News => Vec::new(),
            Refresh::AlsoEnds => cache.selector.locks(Some(scope), now)?,
        };
        let live = self.reading_twice(&mut reading, |store, seen| {
            store.at_one_moment(|store| {
                self.read_changes(store, seen)?;
                self.learn_locks(&self.cache(), store, scope)
            })
        })?;
        if let Some(live) = live {
            let live: HashSet<(&Name, u64)> = live.iter().map(|lock| (&lock.spender, lock.fence)).collect();
            let ended = known.iter().filter(|lock| !live.contains(&(&lock.spender, lock.fence)));
            ended.for_each(|lock| cache.unlock(&lock.spender, lock.fence, now));
        }
        reading.refreshed = Some((scope.clone(), how, began));
        Ok(())
    }

    /// Finds out why a claim on these tokens could not have them, as of one moment.
    pub(super) fn learn(&self, ids: &[TokenId]) -> Result<(), FeedError> {
        self.reading(|store, seen| {
            store.at_one_moment(|store| {
                self.read_changes(store, seen)?;
                let found = store.see_tokens(ids, self.clock.told())?;
                let (cache, now) = (self.cache(), self.clock.now());
                cache.remove(&found.gone, now)?;
                found.locks.iter().for_each(|record| cache.lock(record, now));
                Ok(())
            })
        })
    }
}

/// The thread that hears what others tell.
pub(crate) struct ChangeListener {
    pub(super) feed: Arc<Feed>,
    pub(super) part: Arc<Part>,
    pub(super) stop: Arc<Stop>,
}

/// The connection on which others are heard, and when it was last asked how many they are.
struct Line {
    store: Store,
    asked: Option<Instant>,
}

impl ChangeListener {
    pub(super) fn run(self) {
        let mut line: Option<Line> = None;
        while !self.stop.is_set() {
            let went = self.hear(&mut line).and_then(|()| self.feed.catch_up());
            match went {
                Ok(()) => self.part.works(),
                Err(error) => {
                    self.part.fails(&error);
                    line = None;
                    self.stop.pause(TROUBLE_PAUSE);
                }
            }
        }
        if let Some(Line { mut store, .. }) = line {
            // If it fails, the others find out a little later.
            let _: Result<(), Error> = store.leave(Source::Tokens, self.feed.settings.node_number());
        }
    }

    /// Waits until somebody tells something, or it is time to look anyway.
    fn hear(&self, line: &mut Option<Line>) -> Result<(), FeedError> {
        let Line { store, asked } = match line {
            Some(line) => line,
            none => {
                let store = self.feed.settings.connect_to_ask()?;
                let line = none.insert(Line { store, asked: None });
                line.store.listen_for_token_changes()?;
                // What was told meanwhile was told to nobody.
                return Ok(());
            }
        };
        if asked.is_none_or(|asked| asked.elapsed() >= SHARE_EVERY) {
            *asked = Some(Instant::now());
            let (before, all) =
                store.among_nodes(Source::Tokens, self.feed.settings.node_number(), NODE_SEEN)?;
            let count = |nodes| u32::try_from(nodes).unwrap_or(u32::MAX);
            let share = Share::new(count(before), count(all));
            *self.feed.share.lock() = share;
        }
        if store.hear_token_change(LOOK_EVERY)? {
            self.pause();
        }
        Ok(())
    }

    /// What is told in quick succession is read together: all the more while nobody waits for it.
    fn pause(&self) {
        let began = Instant::now();
        let mut over = self.stop.pause(LOOK_PAUSE);
        while !over && began.elapsed() < LOOK_PAUSE_UNHURRIED && self.feed.cache().selector.waiting() == 0 {
            over = self.stop.pause(LOOK_PAUSE);
        }
    }
}

/// The thread that lets time pass for those who wait. It asks nobody, so that deadlines hold also while the database is away.
pub(crate) struct Timer {
    pub(super) feed: Arc<Feed>,
    pub(super) clock: Arc<TokenClock>,
    pub(super) stop: Arc<Stop>,
}

impl Timer {
    pub(super) fn run(self) {
        loop {
            let cache = self.feed.cache();
            let next = cache.selector.next_wakeup();
            let wait = next.map_or(LOOK_EVERY, |next| {
                let pause = u64::try_from(next.saturating_sub(self.clock.now())).unwrap_or(0);
                Duration::from_millis(pause).clamp(LOOK_PAUSE, LOOK_EVERY)
            });
            if self.stop.pause(wait) {
                return;
            }
            let cache = self.feed.cache();
            cache.selector.tick(self.clock.now());
            cache.publish();
        }
    }
}
