//! The cache loaded, owner by owner. A large owner takes seconds; nobody waits for that but those who ask for its tokens.
//!
//! Tokens are read as of some moment and taken in later, while changes are followed. Nothing is missed and nothing comes back:
//! the cache expects the owner before its tokens are read, so it takes in what comes after that moment, and of what goes it
//! keeps a mark (`cache`). What happened before that moment shows in what is read.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use holdfast_engine::Monitor;
use holdfast_postgres::{Error, Store};
use holdfast_tokens::{Refusal, Scope, Token};
use tokio::sync::Notify;

use super::cache::TokenCache;
use super::feed::{Feed, FeedError};
use super::limits::{LOAD_PAGE, LOADS_MAX, TOO_LARGE_FOR, TOO_LARGE_REMEMBERED};
use crate::settings::NodeSettings;

/// The loads of a node.
pub(super) struct Loads {
    settings: Arc<NodeSettings>,
    state: Monitor<LoadsState>,
    /// Told whenever a load has ended.
    pub(super) ended: Notify,
    /// Held alone by a load that found no room beside others.
    room: RwLock<()>,
}

#[derive(Default)]
struct LoadsState {
    /// The owners that are being loaded, at most [`LOADS_MAX`].
    running: Vec<Scope>,
    /// Connections that are not in use.
    idle: Vec<Store>,
    /// Owners that no cache has room for, and when that was found.
    too_large: VecDeque<(Scope, Instant)>,
}

/// The turn to load an owner. It ends when this is dropped.
pub(super) struct Turn {
    loads: Arc<Loads>,
    scope: Scope,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.loads.state.lock().running.retain(|scope| *scope != self.scope);
        self.loads.ended.notify_waiters();
    }
}

impl Loads {
    pub(super) fn new(settings: &Arc<NodeSettings>) -> Loads {
        Loads {
            settings: Arc::clone(settings),
            state: Monitor::default(),
            ended: Notify::new(),
            room: RwLock::default(),
        }
    }

    /// Whether the owner was found a moment ago to be larger than a cache. Each attempt costs all others their place in it.
    fn is_too_large(&self, scope: &Scope) -> bool {
        let mut state = self.state.lock();
        state.too_large.retain(|(_, found)| found.elapsed() < TOO_LARGE_FOR);
        state.too_large.iter().any(|(other, _)| other == scope)
    }

    fn note_too_large(&self, scope: &Scope) {
        let mut state = self.state.lock();
        if state.too_large.len() >= TOO_LARGE_REMEMBERED {
            state.too_large.pop_front();
        }
        state.too_large.push_back((scope.clone(), Instant::now()));
    }

    /// The turn to load that owner; `None` if another does already, or too many do: then wait until one has ended.
    pub(super) fn turn(self: &Arc<Loads>, scope: &Scope) -> Option<Turn> {
        let mut state = self.state.lock();
        if state.running.len() >= LOADS_MAX || state.running.contains(scope) {
            return None;
        }
        state.running.push(scope.clone());
        Some(Turn { loads: Arc::clone(self), scope: scope.clone() })
    }

    /// Shows all tokens of an owner. A connection may have been lost before it was asked, so it is asked twice.
    fn read(&self, scope: &Scope, mut show: impl FnMut(Token)) -> Result<(), Error> {
        match self.read_once(scope, &mut show) {
            Err(Error::Unavailable(_)) => {
                // The others were made to the same server.
                let lost = std::mem::take(&mut self.state.lock().idle);
                drop(lost);
                self.read_once(scope, &mut show)
            }
            read => read,
        }
    }

    fn read_once(&self, scope: &Scope, show: &mut impl FnMut(Token)) -> Result<(), Error> {
        let idle = self.state.lock().idle.pop();
        let mut store = match idle {
            Some(store) => store,
            None => self.settings.connect_to_ask()?,
        };
        store.tokens_of(scope, show)?;
        self.state.lock().idle.push(store);
        Ok(())
    }
}

impl Feed {
    /// Makes sure that all tokens of an owner are in the cache, with their locks.
    pub(super) fn load(&self, turn: &Turn) -> Result<Arc<TokenCache>, FeedError> {
        let (scope, room) = (&turn.scope, &self.loads.room);
        if self.loads.is_too_large(scope) {
            let limit = self.loads.settings.tokens.cache_tokens_max;
            return Err(Refusal::Full { what: "the number of tokens is", limit }.into());
        }
        // From here on changes are followed.
        self.reading(|_, _| Ok(()))?;
        let beside_others = {
            let _room = room.read().unwrap_or_else(PoisonError::into_inner);
            let mut cache = self.cache();
            if cache.has(scope) {
                return Ok(cache);
            }
            if cache.is_full_of_owners() {
                cache = self.begin_anew();
            }
            self.load_into(&cache, scope).map(|()| cache)
        };
        match beside_others {
            Err(FeedError::Refused(Refusal::Full { .. })) => {
                let _room = room.write().unwrap_or_else(PoisonError::into_inner);
                let fresh = self.begin_anew();
                let loaded = self.load_into(&fresh, scope);
                if matches!(loaded, Err(FeedError::Refused(Refusal::Full { .. }))) {
                    self.loads.note_too_large(scope);
                    // The next would find it full of what is of no use.
                    self.begin_anew();
                }
                loaded.map(|()| fresh)
            }
            loaded => loaded,
        }
    }

    fn load_into(&self, cache: &TokenCache, scope: &Scope) -> Result<(), FeedError> {
        let coming = cache.expect(scope);
        let now = self.clock.now();
        let mut page = Vec::new();
        let mut added = Ok(());
        self.loads.read(scope, |token| {
            page.push(token);
            if page.len() == LOAD_PAGE {
                let full = std::mem::take(&mut page);
                if added.is_ok() {
                    added = cache.add(full, now);
                }
            }
        })?;
        added?;
        cache.add(page, now)?;
        // Not beside a reading of changes: a lock that they have ended would be put back.
        self.reading(|store, _| {
            store.at_one_moment(|store| self.learn_locks(cache, store, scope))?;
            coming.note_loaded();
            Ok(())
        })
    }
}
