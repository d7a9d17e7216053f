//! Rounds of select and spend over all nodes, as fast as they go or each at its own place in time.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::bail;
use holdfast_load::figures::{Latency, lock, per_second};
use holdfast_load::pace::{Starts, work};
use holdfast_load::tokens::tally::Tally;
use holdfast_tokens::{Name, Random};
use tokio::task::JoinSet;

use super::node::{Claims, INSUFFICIENT, Node, Nodes, Order};

/// Whose tokens are asked for, and how much of them.
#[derive(Debug, Clone)]
pub(crate) struct Wallets {
    pub(crate) names: Arc<[Name]>,
    pub(crate) amount: u64,
    /// Who is paid; `None`: another of the wallets.
    pub(crate) payee: Option<Name>,
    pub(crate) draw: Draw,
}

/// Which wallet a round asks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Draw {
    /// Any, by this seed.
    Any(u64),
    /// One after the other, so that all are used up alike.
    InTurn,
}

impl Wallets {
    /// The round of that number in a stretch of that name.
    pub(crate) fn order(&self, stretch: &str, number: u64) -> Order {
        let count = self.names.len();
        let in_turn = usize::try_from(number).unwrap_or(0) % count;
        let (wallet, other) = match self.draw {
            Draw::InTurn => (in_turn, (in_turn + 1) % count),
            Draw::Any(seed) => {
                let mut random = Random::new(seed ^ number.rotate_left(32));
                let wallet = random.index(count);
                (wallet, (wallet + 1 + random.index(count - 1)) % count)
            }
        };
        Order {
            spender: format!("{stretch}-{number}").into(),
            wallet: self.names[wallet].clone(),
            amount: self.amount,
            payee: self.payee.clone().unwrap_or_else(|| self.names[other].clone()),
        }
    }
}

/// A stretch of rounds. Its name makes its spenders different from those of others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch<'a> {
    pub(crate) name: &'a str,
    /// So many begin per second, each at its own place in time; `None`: as fast as they go.
    pub(crate) rate: Option<u64>,
    pub(crate) rounds_max: u64,
    pub(crate) time: Duration,
    pub(crate) callers: usize,
}

/// What a stretch came to.
pub(crate) struct Driven {
    pub(crate) tally: Tally,
    pub(crate) claims: Claims,
    /// Of those that ended within the time; whoever sleeps at its end is no measure of speed.
    pub(crate) rounds_per_second: f64,
}

/// Makes the rounds of a stretch.
pub(crate) async fn drive<N: Nodes>(
    nodes: &N,
    wallets: &Wallets,
    stretch: Stretch<'_>,
) -> anyhow::Result<Driven> {
    let Stretch { name, rate, rounds_max, time, callers } = stretch;
    let by_rate = rate.map_or(u64::MAX, |rate| rate.saturating_mul(time.as_secs().max(1)));
    let count = rounds_max.min(by_rate);
    let before = nodes.claims();
    // One for all: histograms of thousands of callers would be a gigabyte.
    let book = Arc::<Mutex<Book>>::default();
    let starts = Arc::new(Starts::new("rounds", rate, count, time, callers));
    let workers = (0..callers).map(|_| {
        let (nodes, wallets, starts) = (nodes.nodes().to_vec(), wallets.clone(), Arc::clone(&starts));
        let (name, book) = (name.to_owned(), Arc::clone(&book));
        async move {
            while let Some((number, begun)) = starts.next().await {
                let node = &nodes[usize::try_from(number).unwrap_or(0) % nodes.len()];
                let outcome = round(node, &wallets.order(&name, number)).await;
                lock(&book).note(begun, starts.ends(), outcome);
            }
        }
    });
    let took = work(&starts, true, workers, |()| Ok(())).await?;
    let Book { tally, in_time } = std::mem::take(&mut *lock(&book));
    let rounds_per_second = per_second(in_time, took.min(time));
    Ok(Driven { tally, claims: nodes.claims().since(before), rounds_per_second })
}

/// What all callers of a stretch have counted.
#[derive(Default)]
struct Book {
    tally: Tally,
    /// Rounds that came to their end within the time.
    in_time: u64,
}

/// A round that came to its end.
struct Done {
    inputs: u64,
    selected: Instant,
    spent: Instant,
}

impl Book {
    /// The latency of a round is from `begun`.
    fn note(&mut self, begun: Instant, ends: Instant, outcome: Result<Done, String>) {
        self.tally.rounds += 1;
        match outcome {
            Ok(Done { inputs, selected, spent }) => {
                self.tally.selected(inputs);
                self.tally.record(selected - begun, spent - selected, spent - begun);
                self.in_time += u64::from(spent <= ends);
            }
            Err(refusal) => self.tally.refused.note(refusal),
        }
    }
}

async fn round<N: Node>(node: &N, order: &Order) -> Result<Done, String> {
    let (held, inputs) = node.select(order).await?;
    let selected = Instant::now();
    node.spend(order, held).await?;
    Ok(Done { inputs, selected, spent: Instant::now() })
}

/// All requests at once, so many at each node, on one wallet.
pub(crate) async fn crowd<N: Nodes>(nodes: &N, wallets: &Wallets, requests: u64) -> anyhow::Result<Driven> {
    let before = nodes.claims();
    let (mut book, mut tasks) = (Book::default(), JoinSet::new());
    let started = Instant::now();
    for number in 0..requests * nodes.nodes().len() as u64 {
        let node = nodes.nodes()[usize::try_from(number / requests).unwrap_or(0)].clone();
        let order = wallets.order("crowd", number);
        tasks.spawn(async move { round(&node, &order).await });
    }
    while let Some(ended) = tasks.join_next().await {
        book.note(started, Instant::now(), ended?);
    }
    let rounds_per_second = per_second(book.tally.done, started.elapsed());
    Ok(Driven { tally: book.tally, claims: nodes.claims().since(before), rounds_per_second })
}

/// Requests that nobody can fill, one after the other: how long the no takes.
pub(crate) async fn shortages<N: Nodes>(
    nodes: &N,
    wallets: &Wallets,
    count: u64,
    time: Duration,
) -> anyhow::Result<Latency> {
    let (started, mut took) = (Instant::now(), Latency::default());
    for number in 0..count {
        if started.elapsed() >= time {
            break;
        }
        let node = &nodes.nodes()[usize::try_from(number).unwrap_or(0) % nodes.nodes().len()];
        let order = Order::too_much(format!("short-{number}").into(), wallets.order("", number).wallet);
        let begun = Instant::now();
        match node.select(&order).await {
            Err(refusal) if refusal == INSUFFICIENT => took.record(begun.elapsed()),
            Err(refusal) => bail!("a shortage came to {refusal}"),
            Ok(_) => bail!("more was selected than there is"),
        }
    }
    Ok(took)
}
