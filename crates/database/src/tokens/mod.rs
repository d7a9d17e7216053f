//! Tokens that all nodes select from: chosen in this node's memory, judged by PostgreSQL.
//!
//! Each node keeps a cache of the wallets it serves. A select chooses from the cache, then one statement locks the chosen
//! rows, all or none; if another node was faster, the cache is set right and others are chosen. The cache follows what
//! happens: at once what this node does, and by a table of changes what others do. It may be behind, and then costs an attempt;
//! it can never make a token be held or spent twice, since the rows alone decide.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `vault` | what a node works with, and how it asks the database |
//! | `calls` | what callers ask, as the port has it |
//! | `paying` | what was selected is spent, and tokens are locked for who will pay |
//! | `claims` | a claim on its way: set aside, judged, undone |
//! | `cache` | the wallets as this node sees them |
//! | `feed` | the cache kept up with what others do |
//! | `loads` | the cache loaded, owner by owner |
//! | `workers` | claims and spends of many callers in one statement each |
//! | `clock` | the database's time, as this node estimates it |
//! | `keeper` | what one node does for all: events to Kafka, and shattered wallets brought together |
//! | `housekeeping` | the same without Kafka: who does it, what is passed on, and what is over removed |
//! | `tidier` | what is over, removed bit by bit |
//! | `gather` | shattered wallets, brought together by that node |
//! | `alone` | a vault by itself, for tests and measurements |

#[doc(hidden)]
pub mod alone;
mod cache;
mod calls;
mod claims;
mod clock;
mod feed;
mod gather;
mod housekeeping;
mod keeper;
mod loads;
mod paying;
mod tidier;
mod vault;
mod workers;

pub use paying::Funded;
pub use vault::TokenVault;

pub(crate) use clock::TokenClock;
pub(crate) use gather::Gatherer;
pub(crate) use keeper::Keeper;

use std::sync::Arc;
use std::thread::JoinHandle;

use holdfast_tokens::{ConsolidationOptions, OwnerKind};

use crate::health::Part;
use crate::node::StartError;
use crate::reads::Reads;
use crate::settings::NodeSettings;
use crate::stop::Stop;

/// Every bound of the shared vault.
pub mod limits {
    use std::time::Duration;

    /// Tokens that a node keeps a cache of; beyond it begins anew with the wallets that are asked for.
    pub const CACHE_TOKENS_MAX: usize = 5_000_000;
    /// Owners whose tokens a node keeps a cache of; beyond it begins anew.
    pub const CACHE_OWNERS_MAX: usize = 100_000;
    /// How often a cache tries to take a lock over while the lock's tokens come and go.
    pub const LOCK_ATTEMPTS: usize = 8;
    /// Selects that wait at a node.
    pub const WAITERS_MAX: usize = 10_000;
    /// How often a select chooses anew, without waiting in between, when others were faster.
    pub const CLAIM_ATTEMPTS: usize = 64;
    /// Claims and spends on their way at a node.
    pub const REQUESTS_MAX: usize = 10_000;
    /// Claims or spends of one statement.
    pub const BATCH_REQUESTS: usize = 64;
    /// Inputs and outputs from which on a statement takes no more requests.
    pub const BATCH_INPUTS: usize = 2_000;
    /// Connections that claim and spend.
    pub const WORKERS: usize = 2;
    /// How often a node looks for changes that nobody told it of.
    pub const LOOK_EVERY: Duration = Duration::from_millis(100);
    /// The shortest time between two looks, however much is told.
    pub const LOOK_PAUSE: Duration = Duration::from_millis(2);
    /// The same while nobody waits at the node: who is refused reads for himself, and a cache that is behind by so much costs
    /// an attempt now and then.
    pub const LOOK_PAUSE_UNHURRIED: Duration = Duration::from_millis(10);
    /// How often a node asks how many others select from the same tokens.
    pub const SHARE_EVERY: Duration = Duration::from_secs(1);
    /// Changes read at a time.
    pub const CHANGES_READ: usize = 1_000;
    /// Live locks of an owner that a node learns at a time. With more, those that end first look free and cost an attempt each.
    pub const LOCKS_LEARNT: usize = 10_000;
    /// Tokens put into the cache at a time.
    pub const LOAD_PAGE: usize = 4_096;
    /// Owners loaded at a time, each on a connection of its own.
    pub const LOADS_MAX: usize = 4;
    /// For how long an owner is refused at once that was found to have more tokens than a cache may have,
    pub const TOO_LARGE_FOR: Duration = Duration::from_secs(10);
    /// and how many such owners are remembered.
    pub const TOO_LARGE_REMEMBERED: usize = 64;
    /// For how long ended selections and spends are remembered, so that a repeat gets its answer.
    pub const MEMORY: Duration = Duration::from_secs(7 * 24 * 3_600);
    /// For how long changes are kept when the topic has them. A node that is behind by more begins its cache anew.
    pub const HISTORY: Duration = Duration::from_secs(60);
    /// For how long tokens are locked for a prepare that is on its way through Kafka.
    pub const FUNDING_LEASE_MS: i64 = 300_000;
    /// How long a prepare waits for tokens that others hold for a moment.
    pub const FUNDING_WAIT_MS: i64 = 100;
    /// Conflicts in a row after which a node learns all locks of an owner, and not only those in its way.
    pub const CONFLICTS_BEFORE_REFRESH: usize = 3;
    /// Rows of each kind removed at a time.
    pub const TIDIED_ROWS: u32 = 5_000;
    /// How often is looked for what is over.
    pub const TIDY_EVERY: Duration = Duration::from_secs(1);
    /// For how long each kind is removed, at each look.
    pub const TIDY_TIME: Duration = Duration::from_millis(300);
    /// How often is looked from the very beginning, for what somebody had in hand when it was its turn.
    pub const ANEW_EVERY: Duration = Duration::from_secs(300);
    /// So far back leases are looked at that ended before the last look: what was in somebody's hand then.
    pub const LOOK_BACK_MS: i64 = 60_000;
    /// Tokens consumed by another ledger while they were held, as far as they are counted.
    pub const GONE_OUTSIDE_COUNTED: u32 = 10_000;
    /// Messages of `token-updates` in one transaction.
    pub const UPDATES_MAX: usize = 64;
    /// How long a claim or a spend waits for a row that another has in hand. Callers of one statement wait together.
    pub const ROW_WAIT: Duration = Duration::from_millis(100);
    /// Requests from which on another worker helps,
    pub const HELP_FROM: usize = 8;
    /// and how long the first may have waited for it until then.
    pub const HELP_AFTER: Duration = Duration::from_millis(2);
    /// The shortest time between two notifications of spends,
    pub const TELL_PAUSE: Duration = Duration::from_millis(5);
    /// and how long others may have to wait for one while more spends are at hand.
    pub const TELL_WITHIN: Duration = Duration::from_millis(20);
    /// Connections of a node that change tokens besides: issue, renew, release, update, and what a spender has.
    pub const CHANGERS_MAX: usize = 4;
    /// Tokens that another had in hand, remembered by one select.
    pub const LOST_REMEMBERED: usize = 10_000;
    /// The pause of a select that has lost all it could choose, in microseconds: a random one between the two.
    pub const LOST_PAUSE_US: std::ops::Range<u64> = 1_000..5_000;
    /// How long the same request a moment ago is waited for, beyond `waitMs`.
    pub const TWIN_WAIT_MS: i64 = 5_000;
    /// How often is looked whether it has its answer, also if nobody tells.
    pub const TWIN_LOOK: Duration = Duration::from_millis(250);
    /// Wallets that a look for shattered ones goes through.
    pub const WALLETS_LOOKED_AT: usize = 256;
    /// How often is looked for events to send, and what to remove.
    pub const KEEP_EVERY: Duration = Duration::from_millis(200);
}

/// What may be set of a node's vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VaultSettings {
    /// Tokens that the node keeps a cache of (`tokens.max`).
    pub cache_tokens_max: usize,
    /// How often a select chooses anew when others were faster (`tokens.claim_attempts`).
    pub claim_attempts: usize,
    /// Selects that wait at the node (`tokens.waiters_max`).
    pub waiters_max: usize,
    /// Indexes that are kept from the start (`tokens.indexes`).
    pub indexes: Vec<OwnerKind>,
    /// What is done about shattered wallets by the node that keeps housekeeping (`tokens.consolidate_…`); `None`: nothing.
    pub consolidation: Option<ConsolidationOptions>,
}

impl Default for VaultSettings {
    fn default() -> VaultSettings {
        VaultSettings {
            cache_tokens_max: limits::CACHE_TOKENS_MAX,
            claim_attempts: limits::CLAIM_ATTEMPTS,
            waiters_max: limits::WAITERS_MAX,
            indexes: vec![OwnerKind::Wallet],
            consolidation: None,
        }
    }
}

/// Starts the vault of a node, and its threads, which end when told so.
pub(crate) fn start(
    settings: &Arc<NodeSettings>,
    reads: &Arc<Reads>,
    part: Arc<Part>,
    stop: &Arc<Stop>,
    clock: TokenClock,
    spawn: impl Fn(&'static str, Box<dyn FnOnce() + Send>) -> Result<JoinHandle<()>, StartError>,
) -> Result<(TokenVault, Vec<JoinHandle<()>>), StartError> {
    let vault = TokenVault::new(settings, reads, part, clock);
    let mut threads = Vec::new();
    for _ in 0..limits::WORKERS {
        let worker = vault.worker();
        threads.push(spawn("tokens", Box::new(move || worker.run()))?);
    }
    let listener = vault.listener(stop);
    threads.push(spawn("token changes", Box::new(move || listener.run()))?);
    let timer = vault.timer(stop);
    threads.push(spawn("token timer", Box::new(move || timer.run()))?);
    Ok((vault, threads))
}
