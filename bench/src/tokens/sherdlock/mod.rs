//! sherdlock, the selector of Panurus (once fabric-token-sdk), as its source was read in July 2026: its algorithm in small,
//! on the same table of tokens. No line of it is copied. What is followed:
//!
//! - tokens are locked one by one, each by a plain INSERT into a table whose primary key is the token; any error reads as
//!   "locked by another";
//! - a request tries the wallet's tokens in a random order of its own until the sum suffices. When none is left: a shortage
//!   if no lock was lost, else the wallet is read again at once, at most six times after the last lock that was won; what was
//!   locked stays locked meanwhile (`retry`);
//! - then all its locks go, it waits for a random time below 5 s, and begins again: four attempts, and the pause follows the
//!   last one, too. Its callers hear "insufficient funds" in the end, here told apart as `aborted-too-many-times`;
//! - a node reads all wallets in one go; older than 1 s they are read again first, after 5 answers beside the use; a wallet
//!   that shows nothing there is read by itself (`fetcher`);
//! - locks are not removed by the spend but by a job that looks every minute for those older than 3 minutes.
//!
//! In its favour: no foreign key from locks to tokens, an index for unlocking, spends as one statement, and as many
//! connections as a node of Holdfast may use at most. Left out: locks of requests that the ledger has refused.

mod fetcher;
mod retry;
mod sql;

pub(crate) use fetcher::Reading;
pub(crate) use sql::{TABLES, Trouble, connect};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fetcher::{Fetcher, Found};
use holdfast_tokens::{Name, Random};
use retry::{Attempt, RETRIES, RanOut};
use sql::Pool;
use tokio::task::JoinSet;

use super::node::{Claims, INSUFFICIENT, Node, Nodes, Order};

/// A lock that is older is nobody's.
const LEASE: Duration = Duration::from_secs(180);
/// How often is looked for such.
const CLEAN_EVERY: Duration = Duration::from_secs(60);
/// As many as a vault has: two that claim and spend, one that reads changes, one that hears of them, four for questions.
const CONNECTIONS: usize = 8;

#[derive(Debug, Default)]
struct Counts {
    tried: AtomicU64,
    lost: AtomicU64,
    statements: AtomicU64,
    draws: AtomicU64,
}

/// One node.
#[derive(Clone)]
pub(crate) struct Sherdlock {
    pool: Arc<Pool>,
    fetcher: Arc<Fetcher>,
    counts: Arc<Counts>,
}

/// Several, with their cleaning jobs.
pub(crate) struct Sherdlocks {
    nodes: Vec<Sherdlock>,
    counts: Arc<Counts>,
    _cleaners: JoinSet<()>,
}

impl Sherdlocks {
    /// So many on one database, which has its tables.
    pub(crate) async fn start(url: &str, nodes: usize, reading: Reading) -> Result<Sherdlocks, Trouble> {
        let (counts, mut started, mut cleaners) = (Arc::<Counts>::default(), Vec::new(), JoinSet::new());
        for _ in 0..nodes {
            let pool = Pool::open(url, CONNECTIONS).await?;
            cleaners.spawn(clean(Arc::clone(&pool)));
            let fetcher = Fetcher::new(&pool, reading);
            started.push(Sherdlock { pool, fetcher, counts: Arc::clone(&counts) });
        }
        Ok(Sherdlocks { nodes: started, counts, _cleaners: cleaners })
    }
}

async fn clean(pool: Arc<Pool>) {
    loop {
        tokio::time::sleep(CLEAN_EVERY).await;
        // If it fails, the next look finds the same.
        drop(pool.clean(LEASE).await);
    }
}

impl Nodes for Sherdlocks {
    type Node = Sherdlock;

    const WORTH: &'static str = "SELECT coalesce(sum(quantity), 0)::bigint FROM token
         WHERE token_type = 'token' AND NOT is_deleted";

    /// Its first request sees all wallets at once.
    async fn see(&self, _: &[Name]) -> anyhow::Result<()> {
        Ok(())
    }

    fn nodes(&self) -> &[Sherdlock] {
        &self.nodes
    }

    fn claims(&self) -> Claims {
        let Counts { tried, lost, statements, .. } = &*self.counts;
        let [tried, lost, statements] = [tried, lost, statements].map(|count| count.load(Ordering::Relaxed));
        Claims { tried, lost, statements }
    }
}

impl Sherdlock {
    async fn attempt(
        &self,
        order: &Order,
        random: &mut Random,
    ) -> Result<Result<(Vec<Found>, u64), RanOut>, Trouble> {
        let mut attempt = Attempt::new(order.amount);
        let (mut held, mut untried) = (Vec::new(), Vec::new());
        loop {
            let Some(token): Option<Found> = untried.pop() else {
                match attempt.ran_out() {
                    RanOut::ReadAgain => untried = self.fetcher.tokens(&order.wallet, random).await?,
                    end => return Ok(Err(end)),
                }
                continue;
            };
            self.counts.tried.fetch_add(1, Ordering::Relaxed);
            self.counts.statements.fetch_add(1, Ordering::Relaxed);
            if self.pool.lock(&token.id, &order.spender).await {
                let enough = attempt.won(token.quantity);
                held.push(token);
                if enough {
                    return Ok(Ok((held, attempt.sum())));
                }
            } else {
                self.counts.lost.fetch_add(1, Ordering::Relaxed);
                attempt.lost();
            }
        }
    }
}

impl Node for Sherdlock {
    /// What is locked, and its sum.
    type Held = (Vec<Found>, u64);

    async fn select(&self, order: &Order) -> Result<(Self::Held, u64), String> {
        let mut random = Random::new(self.counts.draws.fetch_add(1, Ordering::Relaxed));
        let told = |error: Trouble| error.to_string();
        for _ in 0..=RETRIES {
            let end = match self.attempt(order, &mut random).await.map_err(told)? {
                Ok(held) => {
                    let inputs = held.0.len() as u64;
                    return Ok((held, inputs));
                }
                Err(end) => end,
            };
            self.pool.unlock(&order.spender).await.map_err(told)?;
            if end == RanOut::Insufficient {
                return Err(INSUFFICIENT.to_owned());
            }
            tokio::time::sleep(retry::pause(&mut random)).await;
        }
        Err("aborted-too-many-times".to_owned())
    }

    async fn spend(&self, order: &Order, (inputs, sum): Self::Held) -> Result<(), String> {
        let ids: Vec<&str> = inputs.iter().map(|token| &*token.id).collect();
        let (paid, change) = (format!("{}.0", order.spender), format!("{}.1", order.spender));
        let rest = sum - order.amount;
        let outputs = if rest == 0 { 1 } else { 2 };
        let signed = |quantity: u64| i64::try_from(quantity).unwrap_or(i64::MAX);
        let quantities = [signed(order.amount), signed(rest)];
        let (names, wallets) = ([&*paid, &*change], [&*order.payee, &*order.wallet]);
        self.counts.statements.fetch_add(1, Ordering::Relaxed);
        let spent = self.pool.spend(&ids, (&names[..outputs], &wallets[..outputs], &quantities[..outputs]));
        spent.await.map_err(|error| error.to_string())
    }
}
