//! The picture loaded, and kept up with what others do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use holdfast_postgres::tokens::Position;
use holdfast_postgres::{Error, Store};
use holdfast_tokens::{Refusal, Scope, TokenId};

use super::clock::TokenClock;
use super::limits::{CHANGES_READ, LOAD_PAGE, LOCKS_LEARNT, LOOK_EVERY, LOOK_PAUSE};
use super::picture::Picture;
use crate::health::Part;
use crate::settings::{NodeSettings, TROUBLE_PAUSE};
use crate::stop::Stop;

/// What a node knows of others' doings. Whoever reads or loads has it to himself, so that what was read is never overtaken.
pub(super) struct Feed {
    settings: Arc<NodeSettings>,
    clock: Arc<TokenClock>,
    picture: Mutex<Arc<Picture>>,
    reading: Mutex<Reading>,
}

#[derive(Default)]
struct Reading {
    store: Option<Store>,
    /// From where on changes are to be read; `None` before the first connection.
    position: Option<Position>,
    /// The owner that was last brought up to date, and when that began.
    refreshed: Option<(Scope, Instant)>,
}

/// Why the picture could not be brought up to date.
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
            picture: Mutex::new(Picture::new(&settings.tokens)),
            reading: Mutex::default(),
        }
    }

    /// The picture of this moment.
    pub(super) fn picture(&self) -> Arc<Picture> {
        Arc::clone(&self.picture.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn begin_anew(&self) -> Arc<Picture> {
        let new = Picture::new(&self.settings.tokens);
        let mut picture = self.picture.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *picture, Arc::clone(&new));
        drop(picture);
        // They ask again, of the new one.
        old.selector.end_waiting(&Refusal::Contention { attempts: 0 });
        old.followed.notify_waiters();
        new
    }

    /// Reads with the connection, which is made when there is none and dropped when it fails. A failure may be older than the
    /// question, so it is asked twice.
    fn reading<T>(
        &self,
        mut read: impl FnMut(&mut Store, &mut Position) -> Result<T, FeedError>,
    ) -> Result<T, FeedError> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        self.reading_twice(&mut reading, &mut read)
    }

    fn reading_twice<T>(
        &self,
        reading: &mut MutexGuard<'_, Reading>,
        mut read: impl FnMut(&mut Store, &mut Position) -> Result<T, FeedError>,
    ) -> Result<T, FeedError> {
        match self.reading_once(reading, &mut read) {
            Err(FeedError::Store(Error::Unavailable(_))) => self.reading_once(reading, &mut read),
            other => other,
        }
    }

    fn reading_once<T>(
        &self,
        reading: &mut MutexGuard<'_, Reading>,
        read: &mut impl FnMut(&mut Store, &mut Position) -> Result<T, FeedError>,
    ) -> Result<T, FeedError> {
        let Reading { store, position, .. } = &mut **reading;
        if store.is_none() {
            *store = Some(self.connect()?);
        }
        let connection = store.as_mut().expect("just made");
        let place = match position {
            Some(position) => position,
            none => none.insert(self.newest(connection)?),
        };
        let answer = read(connection, place);
        if matches!(answer, Err(FeedError::Store(_))) {
            *store = None;
        }
        answer
    }

    fn newest(&self, store: &mut Store) -> Result<Position, Error> {
        let (position, time) = store.newest_token_change()?;
        self.clock.set(time);
        Ok(position)
    }

    fn connect(&self) -> Result<Store, Error> {
        self.settings.connect_to_ask()
    }

    /// Reads what others did, up to now.
    pub(super) fn catch_up(&self) -> Result<(), FeedError> {
        self.reading(|store, position| self.read_changes(store, position))
    }

    /// Reads to the end of what shows. The next reading begins where nothing older can come any more.
    fn read_changes(&self, store: &mut Store, position: &mut Position) -> Result<(), FeedError> {
        let mut at = *position;
        loop {
            let changes = store.token_changes(at, CHANGES_READ)?;
            self.clock.set(changes.time);
            if changes.gap {
                tracing::info!(
                    "changes of tokens were removed before this node read them; its picture begins anew"
                );
                self.begin_anew();
                *position = self.newest(store)?;
                return Ok(());
            }
            let now = self.clock.now();
            for (_, event) in &changes.events {
                if let Err(refusal) = self.picture().follow(event, now) {
                    tracing::warn!(%refusal, "the picture of tokens could not follow; it begins anew");
                    self.begin_anew();
                }
            }
            *position = (*position).max(changes.next);
            match changes.events.last() {
                Some((last, _)) if changes.more => at = *last,
                _ => return Ok(()),
            }
        }
    }

    /// Makes sure that all tokens of an owner are in the picture, with their locks.
    pub(super) fn load(&self, scope: &Scope) -> Result<Arc<Picture>, FeedError> {
        self.reading(|store, _| {
            let mut picture = self.picture();
            if picture.has(scope) {
                return Ok(picture);
            }
            if picture.is_full_of_owners() {
                picture = self.begin_anew();
            }
            match self.load_into(&picture, store, scope) {
                Err(FeedError::Refused(Refusal::Full { .. })) => {
                    let fresh = self.begin_anew();
                    self.load_into(&fresh, store, scope)?;
                    Ok(fresh)
                }
                loaded => loaded.map(|()| picture),
            }
        })
    }

    fn load_into(&self, picture: &Picture, store: &mut Store, scope: &Scope) -> Result<(), FeedError> {
        let now = self.clock.now();
        let mut page = Vec::new();
        let mut added = Ok(());
        store.tokens_of(scope, |token| {
            page.push(token);
            if page.len() == LOAD_PAGE && added.is_ok() {
                added = picture.add(std::mem::take(&mut page), now);
            }
        })?;
        added?;
        picture.add(page, now)?;
        self.learn_locks(picture, store, scope)?;
        picture.note_loaded(scope);
        Ok(())
    }

    fn learn_locks(&self, picture: &Picture, store: &mut Store, scope: &Scope) -> Result<(), FeedError> {
        let now = self.clock.now();
        for record in store.token_locks_of(Some(scope), LOCKS_LEARNT, self.clock.told())? {
            picture.lock(&record, now);
        }
        Ok(())
    }

    /// Brings an owner up to date: what others did, and what they hold. As of one moment: a lock that was given back by then
    /// is not put back, and a token that is gone has its change beside it. Many may ask at once, when a wallet runs dry: who
    /// asked before another began is served by that one.
    pub(super) fn refresh(&self, scope: &Scope, asked: Instant) -> Result<(), FeedError> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(&reading.refreshed, Some((other, began)) if other == scope && *began > asked) {
            return Ok(());
        }
        let began = Instant::now();
        self.reading_twice(&mut reading, |store, position| {
            store.at_one_moment(|store| {
                self.read_changes(store, position)?;
                self.learn_locks(&self.picture(), store, scope)
            })
        })?;
        reading.refreshed = Some((scope.clone(), began));
        Ok(())
    }

    /// Finds out why a claim on these tokens could not have them, as of one moment.
    pub(super) fn learn(&self, ids: &[TokenId]) -> Result<(), FeedError> {
        self.reading(|store, position| {
            store.at_one_moment(|store| {
                self.read_changes(store, position)?;
                let seen = store.see_tokens(ids, self.clock.told())?;
                let (picture, now) = (self.picture(), self.clock.now());
                picture.remove(&seen.gone, now)?;
                seen.locks.iter().for_each(|record| picture.lock(record, now));
                Ok(())
            })
        })
    }
}

/// The thread that hears what others tell.
pub(crate) struct Ear {
    pub(super) feed: Arc<Feed>,
    pub(super) part: Arc<Part>,
    pub(super) stop: Arc<Stop>,
}

impl Ear {
    pub(super) fn run(self) {
        let mut store: Option<Store> = None;
        while !self.stop.is_set() {
            let went = self.hear(&mut store).and_then(|()| self.feed.catch_up());
            match went {
                Ok(()) => self.part.works(),
                Err(error) => {
                    self.part.fails(&error);
                    store = None;
                    self.stop.pause(TROUBLE_PAUSE);
                }
            }
        }
    }

    /// Waits until somebody tells something, or it is time to look anyway.
    fn hear(&self, store: &mut Option<Store>) -> Result<(), FeedError> {
        let store = match store {
            Some(store) => store,
            none => {
                let opened = none.insert(self.feed.connect()?);
                opened.listen_for_token_changes()?;
                // What was told meanwhile was told to nobody.
                return Ok(());
            }
        };
        if store.hear_token_change(LOOK_EVERY)? {
            // What is told in quick succession is read together.
            self.stop.pause(LOOK_PAUSE);
        }
        Ok(())
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
            let picture = self.feed.picture();
            let next = picture.selector.next_wakeup();
            let wait = next.map_or(LOOK_EVERY, |next| {
                let pause = u64::try_from(next.saturating_sub(self.clock.now())).unwrap_or(0);
                Duration::from_millis(pause).clamp(LOOK_PAUSE, LOOK_EVERY)
            });
            if self.stop.pause(wait) {
                return;
            }
            let picture = self.feed.picture();
            picture.selector.tick(self.clock.now());
            picture.publish();
        }
    }
}
