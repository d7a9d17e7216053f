//! What a node of sherdlock knows of the wallets: all of them, read in one go and used for a while; one of them, read when
//! that shows nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use holdfast_tokens::Random;
use tokio::sync::Mutex;

use super::sql::{Pool, Trouble};

/// Older than this, the whole is read again before it is used.
pub(crate) const REFRESH: Duration = Duration::from_secs(1);
/// Used so often, it is read again beside its use.
pub(crate) const ANSWERS_MAX: u32 = 5;

/// A token that can be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) id: Arc<str>,
    pub(crate) quantity: u64,
}

/// How wallets are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// From the whole, and by itself if that shows nothing: what it ships.
    Mixed,
    /// Each by itself, every time: written there, but cannot be chosen.
    Lazy,
}

/// All wallets as they were.
#[derive(Debug)]
struct Whole {
    wallets: HashMap<String, Vec<Found>>,
    read_at: Instant,
    answers: AtomicU32,
}

impl Whole {
    fn is_stale(&self) -> bool {
        self.read_at.elapsed() > REFRESH
    }

    fn is_overused(&self) -> bool {
        self.answers.load(Ordering::Relaxed) >= ANSWERS_MAX
    }
}

/// The reader of one node.
pub(crate) struct Fetcher {
    pool: Arc<Pool>,
    reading: Reading,
    whole: RwLock<Option<Arc<Whole>>>,
    /// Whoever reads the whole has it.
    refreshing: Mutex<()>,
}

impl Fetcher {
    pub(crate) fn new(pool: &Arc<Pool>, reading: Reading) -> Arc<Fetcher> {
        let pool = Arc::clone(pool);
        Arc::new(Fetcher { pool, reading, whole: RwLock::default(), refreshing: Mutex::default() })
    }

    fn whole(&self) -> Option<Arc<Whole>> {
        self.whole.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tokens of a wallet that can be tried, in an order of their own for every request.
    pub(crate) async fn tokens(
        self: &Arc<Self>,
        wallet: &str,
        random: &mut Random,
    ) -> Result<Vec<Found>, Trouble> {
        let mut tokens = match self.reading {
            Reading::Mixed => self.from_whole(wallet).await,
            Reading::Lazy => Vec::new(),
        };
        if tokens.is_empty() {
            tokens = self.pool.tokens_of(wallet).await?;
        }
        let count = tokens.len();
        random.shuffle_front(&mut tokens, count);
        Ok(tokens)
    }

    async fn from_whole(self: &Arc<Self>, wallet: &str) -> Vec<Found> {
        let known = self.whole();
        if known.as_ref().is_none_or(|whole| whole.is_stale()) {
            self.refresh().await;
        } else if known.is_some_and(|whole| whole.is_overused()) {
            let fetcher = Arc::clone(self);
            tokio::spawn(async move {
                // Somebody reads already: one is enough.
                if let Ok(_alone) = fetcher.refreshing.try_lock() {
                    fetcher.read_whole().await;
                }
            });
        }
        let Some(whole) = self.whole() else { return Vec::new() };
        whole.answers.fetch_add(1, Ordering::Relaxed);
        whole.wallets.get(wallet).cloned().unwrap_or_default()
    }

    /// Reads the whole, or waits for whoever does.
    async fn refresh(&self) {
        let _alone = self.refreshing.lock().await;
        if self.whole().is_none_or(|whole| whole.is_stale()) {
            self.read_whole().await;
        }
    }

    /// After a failure the old one stays.
    async fn read_whole(&self) {
        let Ok(wallets) = self.pool.all_tokens().await else { return };
        let whole = Whole { wallets, read_at: Instant::now(), answers: AtomicU32::new(0) };
        *self.whole.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(whole));
    }
}
