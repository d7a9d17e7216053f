//! A node that selects and spends on the tables that all nodes share: Holdfast's vault here, sherdlock's way beside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow};
use holdfast_database::tokens::TokenVault;
use holdfast_database::tokens::alone::Alone;
use holdfast_database::{NodeSettings, Wallets as _};
use holdfast_tokens::{Name, Output, Scope, SelectRequest, Selection, SpendRequest};
use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tokio::task::JoinSet;

/// The currency of all tokens.
pub(crate) const CURRENCY: &str = "EUR";
/// What the engines are called.
pub(crate) const HOLDFAST: &str = "holdfast";
pub(crate) const SHERDLOCK: &str = "sherdlock";
pub(crate) const SHERDLOCK_LAZY: &str = "sherdlock, lazy";
/// What both call a plain shortage.
pub(crate) const INSUFFICIENT: &str = "insufficient-funds";
/// More than all tokens are worth together.
const TOO_MUCH: u64 = 1 << 60;
/// What the vault calls its counter of claims that lost, and its histogram of requests in one statement.
const CONFLICTS: &str = "holdfast_token_conflicts_total";
const BATCHES: &str = "holdfast_token_batch_requests";

/// A round: so much of a wallet goes to a payee, the rest comes back.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) spender: Name,
    pub(crate) wallet: Name,
    pub(crate) amount: u64,
    pub(crate) payee: Name,
}

impl Order {
    /// More than any wallet has.
    pub(crate) fn too_much(spender: Name, wallet: Name) -> Order {
        Order { spender, payee: wallet.clone(), wallet, amount: TOO_MUCH }
    }
}

/// What a node can do. Errors are their names, as the node's callers get them.
pub(crate) trait Node: Clone + Send + Sync + 'static {
    /// Tokens that are locked for an order.
    type Held: Send;

    /// Locks tokens; how many.
    fn select(&self, order: &Order) -> impl Future<Output = Result<(Self::Held, u64), String>> + Send;

    /// Pays with them.
    fn spend(&self, order: &Order, held: Self::Held) -> impl Future<Output = Result<(), String>> + Send;
}

/// Several nodes and what they count.
pub(crate) trait Nodes: Sync {
    type Node: Node;

    /// Counts what is not spent, rows of neighbours left out.
    const WORTH: &'static str;

    /// Lets every node see these wallets once, as after a while all have.
    fn see(&self, wallets: &[Name]) -> impl Future<Output = anyhow::Result<()>> + Send;

    fn nodes(&self) -> &[Self::Node];

    /// Tries to lock, and those of them that lost, so far.
    fn claims(&self) -> Claims;
}

/// Claims on tokens: by the statement of one request at Holdfast, by the token at sherdlock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) tried: u64,
    pub(crate) lost: u64,
    /// Statements that claim or spend.
    pub(crate) statements: u64,
}

impl Claims {
    pub(crate) const fn since(self, before: Claims) -> Claims {
        Claims {
            tried: self.tried - before.tried,
            lost: self.lost - before.lost,
            statements: self.statements - before.statements,
        }
    }
}

/// A vault, seen by its callers.
#[derive(Clone)]
pub(crate) struct Ours {
    vault: TokenVault,
    selected: Arc<AtomicU64>,
    wait_ms: i64,
}

impl Node for Ours {
    type Held = Selection;

    async fn select(&self, order: &Order) -> Result<(Selection, u64), String> {
        let scope = Scope::wallet(order.wallet.clone(), CURRENCY);
        let request = SelectRequest::new(order.spender.clone(), scope, order.amount);
        let selection =
            self.vault.select(request, self.wait_ms).await.map_err(|refusal| refusal.name().to_owned())?;
        self.selected.fetch_add(1, Ordering::Relaxed);
        let inputs = selection.tokens.len() as u64;
        Ok((selection, inputs))
    }

    async fn spend(&self, order: &Order, held: Selection) -> Result<(), String> {
        let outputs = vec![Output::new(order.payee.clone(), order.amount)];
        let request =
            SpendRequest { fence: Some(held.fence), ..SpendRequest::new(order.spender.clone(), outputs) };
        self.vault.spend(request).await.map(drop).map_err(|refusal| refusal.name().to_owned())
    }
}

/// Vaults in this process.
pub(crate) struct Vaults {
    nodes: Vec<Ours>,
    counts: Counts,
    selected: Arc<AtomicU64>,
    _running: Vec<Alone>,
}

impl Vaults {
    /// So many on one database; their selects wait so long for what others hold. What was spent is removed after `history`.
    pub(crate) fn start(url: &str, nodes: usize, wait_ms: i64, history: Duration) -> anyhow::Result<Vaults> {
        let (counts, selected) = (Counts::default(), Arc::<AtomicU64>::default());
        let mut running = Vec::new();
        for number in 1..=nodes as u64 {
            // Nothing is sent there: these nodes have no Kafka.
            let nowhere = "kafka://nobody:1".parse().context("cannot name a broker")?;
            let settings = NodeSettings::new(nowhere, url, number);
            running.push(metrics::with_local_recorder(&counts, || Alone::start(settings, None)));
        }
        // What nodes do beside the payments is a part of their price.
        if let Some(first) = running.first_mut() {
            first.keep_house(history);
        }
        let nodes = running.iter().map(|alone| Ours {
            vault: alone.vault().clone(),
            selected: Arc::clone(&selected),
            wait_ms,
        });
        Ok(Vaults { nodes: nodes.collect(), counts, selected, _running: running })
    }
}

impl Nodes for Vaults {
    type Node = Ours;

    const WORTH: &'static str = "SELECT coalesce(sum(quantity), 0)::bigint FROM token t
         JOIN token_lock l ON l.token_id = t.token_id WHERE NOT l.spent";

    /// A request that nobody can fill loads the wallet.
    async fn see(&self, wallets: &[Name]) -> anyhow::Result<()> {
        let mut viewers = JoinSet::new();
        for node in &self.nodes {
            let (node, wallets) = (node.clone(), wallets.to_vec());
            viewers.spawn(async move {
                for wallet in wallets {
                    let shortage = Order::too_much("view".into(), wallet);
                    match node.select(&shortage).await {
                        Err(refusal) if refusal == INSUFFICIENT => {}
                        other => return Err(format!("{:?}", other.map(|(_, inputs)| inputs))),
                    }
                }
                Ok(())
            });
        }
        while let Some(ended) = viewers.join_next().await {
            let viewed = ended.map_err(|error| error.to_string()).flatten();
            viewed.map_err(|what| anyhow!("a request for too much came to {what}"))?;
        }
        Ok(())
    }

    fn nodes(&self) -> &[Ours] {
        &self.nodes
    }

    fn claims(&self) -> Claims {
        let lost = self.counts.conflicts.load(Ordering::Relaxed);
        Claims {
            tried: self.selected.load(Ordering::Relaxed) + lost,
            lost,
            statements: self.counts.batches.0.load(Ordering::Relaxed),
        }
    }
}

/// Listens to the two figures of a vault that are told here.
#[derive(Debug, Default)]
struct Counts {
    conflicts: Arc<AtomicU64>,
    batches: Arc<Statements>,
}

#[derive(Debug, Default)]
struct Statements(AtomicU64);

impl HistogramFn for Statements {
    fn record(&self, _: f64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match key.name() {
            CONFLICTS => Counter::from_arc(Arc::clone(&self.conflicts)),
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        match key.name() {
            BATCHES => Histogram::from_arc(Arc::clone(&self.batches)),
            _ => Histogram::noop(),
        }
    }
}
