//! The cases, for whichever nodes: one input, a hundred inputs, one hot token.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use holdfast_load::machine::load_average;
use holdfast_load::report::Row;
use tokio::runtime::Runtime;

use super::drive::{Draw, Driven, Stretch, Wallets, crowd, drive, shortages};
use super::neighbour::{Felt, look};
use super::node::{HOLDFAST, Nodes};
use super::town::{Tokens, Town};
use super::{HALF_CALLERS, NODES, Shape, Speed, TokensBench};
use crate::database::half as half_of;

/// What a token of the first case is worth, and what is asked for.
const QUANTITY: u64 = 100;
/// Of the tokens of value 1, so many hundredths are used up at most.
const USED_MAX: u64 = 90;
/// Small tokens beside the hot one.
const SMALL_TOKENS: u32 = 4;
/// Wallets of the rounds before the clock runs, and tokens of each.
const WARM: Tokens = Tokens { prefix: "warm", wallets: 16, each: 400, quantity: 1 };
const WARM_CALLERS: usize = 16;
const WARM_TIME: Duration = Duration::from_secs(60);
/// Requests for too much, and how long is asked at most.
const SHORTAGES: u64 = 1_000;
const SHORTAGE_TIME: Duration = Duration::from_secs(3);
/// How long a neighbour looks.
const NEIGHBOUR_TIME: Duration = Duration::from_secs(4);

/// Something to be measured on nodes of any kind.
pub(crate) trait Case {
    type Found;

    /// Its tokens.
    fn tokens(&self, options: &TokensBench) -> Vec<Tokens>;

    /// How long a select may wait for what others hold, in milliseconds.
    const WAIT_MS: i64 = 0;

    fn measure<N: Nodes>(&self, stage: &mut Stage<'_>, nodes: &N) -> anyhow::Result<Self::Found>;
}

/// Where a case is measured.
pub(crate) struct Stage<'a> {
    pub(crate) options: &'a TokensBench,
    pub(crate) runtime: &'a Runtime,
    pub(crate) town: Town,
}

impl Stage<'_> {
    /// Connections are made, plans settled, pages in memory; then the case, then the books.
    pub(crate) fn play<N: Nodes, C: Case>(&mut self, nodes: &N, case: &C) -> anyhow::Result<C::Found> {
        let warm = WARM.wallets(1, Some("payee"), Draw::InTurn);
        let rounds = self.options.sizes.warm_up;
        let warmed = self.runtime.block_on(drive(
            nodes,
            &warm,
            Stretch { name: "warm", rate: None, rounds_max: rounds, time: WARM_TIME, callers: WARM_CALLERS },
        ))?;
        must_be_clean(nodes, &warmed)?;
        // Only now, so that no plan is made for tables that seem to be empty.
        self.town.place.settle()?;
        let found = case.measure(self, nodes)?;
        self.town.books(nodes)?;
        Ok(found)
    }

    fn measured<N: Nodes>(
        &mut self,
        nodes: &N,
        shape: Shape,
        rate: Option<u64>,
        drive: impl Future<Output = anyhow::Result<Driven>>,
    ) -> anyhow::Result<Speed> {
        let before = self.town.read()?;
        let driven = self.runtime.block_on(drive)?;
        let costs = self.town.costs(&before, driven.tally.done)?;
        if shape != Shape::HotToken {
            must_be_clean(nodes, &driven)?;
        }
        Ok(Speed { engine: nodes.name(), shape, rate, driven, costs, load_average: load_average() })
    }

    fn neighbour<N: Nodes>(
        &mut self,
        nodes: &N,
        wallets: &Wallets,
        rate: Option<u64>,
    ) -> anyhow::Result<[Row; 2]> {
        let stop = Arc::<AtomicBool>::default();
        let name = format!("foreign-{}", rate.unwrap_or(0));
        let looking =
            look(self.town.place.url.clone(), name.clone(), Arc::clone(&wallets.names), Arc::clone(&stop));
        let load = async {
            match rate {
                Some(rate) => drop(drive(nodes, wallets, half(&name, rate, NEIGHBOUR_TIME)).await?),
                None => tokio::time::sleep(NEIGHBOUR_TIME).await,
            }
            stop.store(true, Ordering::Relaxed);
            anyhow::Ok(())
        };
        let (felt, loaded) = self.runtime.block_on(async { tokio::join!(tokio::spawn(looking), load) });
        loaded?;
        let Felt { read, write } = felt?.context("cannot use the table beside the nodes")?;
        let row = |what: &str| {
            Row::of("what", what).word("beside", nodes.name()).count("rounds/s", rate.unwrap_or(0))
        };
        Ok([
            row("another reads a wallet").latency(&read.percentiles()),
            row("another adds a row").latency(&write.percentiles()),
        ])
    }
}

/// Rounds at their own places in time.
const fn half(name: &str, rate: u64, time: Duration) -> Stretch<'_> {
    Stretch { name, rate: Some(rate), rounds_max: u64::MAX, time, callers: HALF_CALLERS }
}

/// Holdfast may refuse nothing where there is enough for all; of the other it is told.
fn must_be_clean<N: Nodes>(nodes: &N, driven: &Driven) -> anyhow::Result<()> {
    let refused = &driven.tally.refused;
    ensure!(
        nodes.name() != HOLDFAST || refused.is_empty(),
        "rounds were refused that must not be: {refused:?}"
    );
    Ok(())
}

/// Many wallets, equal tokens, one of them asked for and paid to another wallet.
pub(crate) struct OneInput {
    /// Whether only the peak is of interest.
    pub(crate) brief: bool,
    /// A further rate at which the neighbour looks.
    pub(crate) compared: Option<u64>,
}

/// What [`OneInput`] found.
pub(crate) struct OneInputFound {
    pub(crate) peak: Speed,
    pub(crate) half: Option<Speed>,
    /// How long it takes to hear that there is too little, and what others at the table feel.
    pub(crate) beside: Vec<Row>,
}

impl Case for OneInput {
    type Found = OneInputFound;

    fn tokens(&self, options: &TokensBench) -> Vec<Tokens> {
        let sizes = options.sizes;
        vec![Tokens { prefix: "wallet", wallets: sizes.wallets, each: sizes.tokens, quantity: QUANTITY }]
    }

    fn measure<N: Nodes>(&self, stage: &mut Stage<'_>, nodes: &N) -> anyhow::Result<OneInputFound> {
        let options = stage.options;
        let wallets = self.tokens(options)[0].wallets(QUANTITY, None, Draw::Any(options.seed));
        stage.runtime.block_on(nodes.see(&wallets.names))?;
        let peak = Stretch {
            name: "peak",
            rate: None,
            rounds_max: u64::MAX,
            time: options.time(),
            callers: options.callers,
        };
        let peak = stage.measured(nodes, Shape::OneInput, None, drive(nodes, &wallets, peak))?;
        let mut found = OneInputFound { peak, half: None, beside: Vec::new() };
        if self.brief {
            return Ok(found);
        }
        let rate = half_of(found.peak.per_second());
        let stretch = drive(nodes, &wallets, half("half", rate, options.time()));
        found.half = Some(stage.measured(nodes, Shape::OneInput, Some(rate), stretch)?);
        let asked = shortages(nodes, &wallets, SHORTAGES, SHORTAGE_TIME);
        let took = stage.runtime.block_on(asked)?;
        let shortage = Row::of("what", "a plain shortage").word("beside", nodes.name()).count("rounds/s", 0);
        found.beside.push(shortage.latency(&took.percentiles()));
        // First without any load.
        let loads = [Some(rate), self.compared].into_iter().flatten().map(Some);
        for load in std::iter::once(None).chain(loads) {
            found.beside.extend(stage.neighbour(nodes, &wallets, load)?);
        }
        Ok(found)
    }
}

/// Tokens of value 1, many of them asked for.
pub(crate) struct ManyInputs;

impl Case for ManyInputs {
    type Found = Speed;

    fn tokens(&self, options: &TokensBench) -> Vec<Tokens> {
        let sizes = options.sizes;
        vec![Tokens { prefix: "wallet", wallets: sizes.many_wallets, each: sizes.many_tokens, quantity: 1 }]
    }

    fn measure<N: Nodes>(&self, stage: &mut Stage<'_>, nodes: &N) -> anyhow::Result<Speed> {
        let options = stage.options;
        let (tokens, inputs) = (self.tokens(options)[0], u64::from(options.sizes.inputs));
        // Paid to somebody else: a wallet that got the sum in one piece would pay with that.
        let wallets = tokens.wallets(inputs, Some("payee"), Draw::InTurn);
        stage.runtime.block_on(nodes.see(&wallets.names))?;
        let all = u64::from(tokens.wallets) * (u64::from(tokens.each) / inputs);
        let stretch = Stretch {
            name: "many",
            rate: None,
            rounds_max: (all * USED_MAX / 100).max(1),
            time: options.time(),
            callers: options.callers,
        };
        stage.measured(nodes, Shape::ManyInputs, None, drive(nodes, &wallets, stretch))
    }
}

/// One wallet with some tokens of 1 and one with all the rest. Every request of 1 is at a node at once, and the rest of the
/// large token returns to the wallet: there is exactly enough for all.
pub(crate) struct HotToken;

impl Case for HotToken {
    type Found = Speed;

    /// Longer than all take.
    const WAIT_MS: i64 = 30_000;

    fn tokens(&self, options: &TokensBench) -> Vec<Tokens> {
        let requests = options.sizes.requests * NODES as u64;
        let small = Tokens { prefix: "wallet", wallets: 1, each: SMALL_TOKENS, quantity: 1 };
        let rest = requests.saturating_sub(SMALL_TOKENS.into()).max(1);
        vec![small, Tokens { each: 1, quantity: rest, ..small }]
    }

    fn measure<N: Nodes>(&self, stage: &mut Stage<'_>, nodes: &N) -> anyhow::Result<Speed> {
        let options = stage.options;
        let wallets = self.tokens(options)[0].wallets(1, Some("payee"), Draw::InTurn);
        stage.runtime.block_on(nodes.see(&wallets.names))?;
        let crowd = crowd(nodes, &wallets, options.sizes.requests);
        stage.measured(nodes, Shape::HotToken, None, crowd)
    }
}

/// Opens the case's tokens, and those of the rounds before.
pub(crate) fn fill<C: Case>(town: &mut Town, case: &C, options: &TokensBench) -> anyhow::Result<()> {
    case.tokens(options).into_iter().chain([WARM]).try_for_each(|tokens| town.issue(tokens))?;
    town.open()
}
