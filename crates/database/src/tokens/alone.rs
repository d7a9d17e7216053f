//! A vault by itself, for tests and measurements that need no Kafka.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use holdfast_tokens::{Balance, Scope, Share, TokenSelector as _};

use super::clock::TokenClock;
use super::housekeeping::Housekeeping;
use super::limits::KEEP_EVERY;
use super::{TokenVault, start};
use crate::health::Part;
use crate::reads::Reads;
use crate::settings::NodeSettings;
use crate::stop::Stop;

/// A running vault; ends when dropped.
pub struct Alone {
    settings: Arc<NodeSettings>,
    vault: TokenVault,
    stop: Arc<Stop>,
    threads: Vec<JoinHandle<()>>,
}

fn spawn(name: &'static str, body: Box<dyn FnOnce() + Send>) -> Result<JoinHandle<()>, crate::StartError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(crate::StartError::Thread)
}

impl Alone {
    /// Starts on that database. With `now`, time stands still until [`Alone::at`].
    ///
    /// # Panics
    /// If threads cannot be started.
    #[must_use]
    pub fn start(settings: NodeSettings, now: Option<i64>) -> Alone {
        let (settings, stop) = (Arc::new(settings), Arc::<Stop>::default());
        let reads = Arc::new(Reads::new(Arc::clone(&settings), Part::new("store")));
        let clock = now.map_or_else(TokenClock::of_database, TokenClock::standing);
        let started = start(&settings, &reads, Part::new("tokens"), &stop, clock, spawn);
        let (vault, threads) = started.expect("threads can be started");
        Alone { settings, vault, stop, threads }
    }

    /// Does from now on what the node does that keeps housekeeping, as far as it needs no Kafka: changes are read as if they were
    /// sent, and what is over is removed. Changes are kept for `history`.
    ///
    /// # Panics
    /// If a thread cannot be started.
    pub fn keep_house(&mut self, history: Duration) {
        let stop = Arc::clone(&self.stop);
        let mut housekeeping = Housekeeping::new(&self.settings, &stop, history);
        let body = move || {
            while !stop.is_set() {
                if let Err(trouble) = housekeeping.keep(|_| Ok(())) {
                    tracing::warn!(%trouble, "housekeeping is not done");
                    housekeeping.note(&trouble);
                }
                stop.pause(KEEP_EVERY);
            }
            housekeeping.leave();
        };
        self.threads.push(spawn("token housekeeping", Box::new(body)).expect("a thread can be started"));
    }

    /// The vault.
    #[must_use]
    pub const fn vault(&self) -> &TokenVault {
        &self.vault
    }

    /// It is that time again and the node has seen nothing yet: the database was emptied.
    pub fn begin_anew(&self, now: i64) {
        self.vault.clock.stand_back_at(now);
        self.vault.feed.begin_anew();
    }

    /// Reads at once what others did up to now.
    ///
    /// # Panics
    /// If the database fails.
    pub fn catch_up(&self) {
        self.vault.feed.catch_up().expect("the changes can be read");
    }

    /// As a node does that was asked to end.
    pub fn end_waiting(&self) {
        self.vault.end_waiting()();
    }

    /// What the node's cache has of an owner; `None` if that is not loaded.
    #[must_use]
    pub fn cached(&self, scope: &Scope) -> Option<Balance> {
        let (cache, now) = (self.vault.feed.cache(), self.vault.clock.now());
        cache.selector.balance(scope, now).ok().filter(|_| cache.has(scope))
    }

    /// Where the node begins among equal tokens.
    #[must_use]
    pub fn share(&self) -> Share {
        self.vault.feed.share()
    }

    /// It is that time now, or later already.
    pub fn at(&self, now: i64) {
        self.vault.clock.stand_at(now);
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.stop.set();
        self.vault.close();
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}
