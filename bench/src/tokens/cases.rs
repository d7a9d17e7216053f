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
use super::{HALF_CALLERS, NODES, Sizes, Speed, TokensBench};
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

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Many wallets, equal tokens, one of them asked for and paid to another wallet.
    OneInput,
    /// Tokens of value 1, many of them asked for.
    ManyInputs,
    /// One wallet with some tokens of 1 and one with all the rest. Every request of 1 is at a node at once, and the rest of the
    /// large token returns to the wallet: there is exactly enough for all.
    HotToken,
}

impl Shape {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Shape::OneInput => "one input",
            Shape::ManyInputs => "many inputs",
            Shape::HotToken => "one hot token",
        }
    }

    /// How long a select may wait for what others hold, in milliseconds: where there is one token, longer than all take.
    pub(crate) const fn wait_ms(self) -> i64 {
        if matches!(self, Shape::HotToken) { 30_000 } else { 0 }
    }

    /// The tokens that are asked for, and others beside them.
    fn tokens(self, sizes: Sizes) -> (Tokens, Option<Tokens>) {
        let of = |wallets, each, quantity| Tokens { prefix: "wallet", wallets, each, quantity };
        match self {
            Shape::OneInput => (of(sizes.wallets, sizes.tokens, QUANTITY), None),
            Shape::ManyInputs => (of(sizes.many_wallets, sizes.many_tokens, 1), None),
            Shape::HotToken => {
                let requests = sizes.requests * NODES as u64;
                let rest = requests.saturating_sub(SMALL_TOKENS.into()).max(1);
                (of(1, SMALL_TOKENS, 1), Some(of(1, 1, rest)))
            }
        }
    }
}

/// Something to be measured on nodes of any kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) shape: Shape,
    /// Whether more than the peak is of interest: half load, a shortage, and what others at the table feel.
    pub(crate) is_whole: bool,
    /// A further rate at which the neighbour looks.
    pub(crate) compared: Option<u64>,
}

impl Case {
    pub(crate) const fn peak(shape: Shape) -> Case {
        Case { shape, is_whole: false, compared: None }
    }
}

/// What a case found.
pub(crate) struct Found {
    pub(crate) peak: Speed,
    pub(crate) half: Option<Speed>,
    /// How long it takes to hear that there is too little, and what others at the table feel.
    pub(crate) beside: Vec<Row>,
}

/// Where a case is measured.
pub(crate) struct Stage<'a> {
    pub(crate) options: &'a TokensBench,
    pub(crate) runtime: &'a Runtime,
    pub(crate) town: Town,
    /// What the nodes are called.
    pub(crate) engine: &'static str,
}

impl Stage<'_> {
    /// Connections are made, plans settled, pages in memory; then the case, then the books.
    pub(crate) fn play<N: Nodes>(&mut self, nodes: &N, case: Case) -> anyhow::Result<Found> {
        let warm = WARM.wallets(1, Some("payee"), Draw::InTurn);
        let rounds = self.options.sizes.warm_up;
        let warmed = self.runtime.block_on(drive(
            nodes,
            &warm,
            Stretch { name: "warm", rate: None, rounds_max: rounds, time: WARM_TIME, callers: WARM_CALLERS },
        ))?;
        self.must_be_clean(&warmed)?;
        // Only now, so that no plan is made for tables that seem to be empty.
        self.town.place.settle()?;
        let found = self.measure(nodes, case)?;
        self.town.books(nodes)?;
        Ok(found)
    }

    fn measure<N: Nodes>(&mut self, nodes: &N, case: Case) -> anyhow::Result<Found> {
        let (options, shape) = (self.options, case.shape);
        let (tokens, _) = shape.tokens(options.sizes);
        let inputs = u64::from(options.sizes.inputs);
        let wallets = match shape {
            Shape::OneInput => tokens.wallets(QUANTITY, None, Draw::Any(options.seed)),
            // Paid to somebody else: a wallet that got the sum in one piece would pay with that.
            Shape::ManyInputs => tokens.wallets(inputs, Some("payee"), Draw::InTurn),
            Shape::HotToken => tokens.wallets(1, Some("payee"), Draw::InTurn),
        };
        self.runtime.block_on(nodes.see(&wallets.names))?;
        let (time, callers) = (options.time(), options.callers);
        let peak = Stretch { name: "peak", rate: None, rounds_max: u64::MAX, time, callers };
        let peak = match shape {
            Shape::OneInput => self.measured(shape, None, drive(nodes, &wallets, peak))?,
            Shape::ManyInputs => {
                let all = u64::from(tokens.wallets) * (u64::from(tokens.each) / inputs);
                let many = Stretch { rounds_max: (all * USED_MAX / 100).max(1), ..peak };
                self.measured(shape, None, drive(nodes, &wallets, many))?
            }
            Shape::HotToken => self.measured(shape, None, crowd(nodes, &wallets, options.sizes.requests))?,
        };
        let mut found = Found { peak, half: None, beside: Vec::new() };
        if !case.is_whole {
            return Ok(found);
        }
        let rate = half_of(found.peak.per_second());
        let stretch = drive(nodes, &wallets, half("half", rate, time));
        found.half = Some(self.measured(shape, Some(rate), stretch)?);
        let took = self.runtime.block_on(shortages(nodes, &wallets, SHORTAGES, SHORTAGE_TIME))?;
        let shortage = Row::of("what", "a plain shortage").word("beside", self.engine).count("rounds/s", 0);
        found.beside.push(shortage.latency(&took.percentiles()));
        found.beside.extend(self.neighbour(nodes, &wallets, None)?);
        for rate in std::iter::once(rate).chain(case.compared) {
            found.beside.extend(self.neighbour(nodes, &wallets, Some(rate))?);
        }
        Ok(found)
    }

    fn measured(
        &mut self,
        shape: Shape,
        rate: Option<u64>,
        drive: impl Future<Output = anyhow::Result<Driven>>,
    ) -> anyhow::Result<Speed> {
        let before = self.town.read()?;
        let driven = self.runtime.block_on(drive)?;
        let costs = self.town.costs(&before, driven.tally.done)?;
        if shape != Shape::HotToken {
            self.must_be_clean(&driven)?;
        }
        Ok(Speed { engine: self.engine, shape, rate, driven, costs, load_average: load_average() })
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
            Row::of("what", what).word("beside", self.engine).count("rounds/s", rate.unwrap_or(0))
        };
        Ok([
            row("another reads a wallet").latency(&read.percentiles()),
            row("another adds a row").latency(&write.percentiles()),
        ])
    }

    /// Holdfast may refuse nothing where there is enough for all; of the other it is told.
    fn must_be_clean(&self, driven: &Driven) -> anyhow::Result<()> {
        let refused = &driven.tally.refused;
        let is_clean = self.engine != HOLDFAST || refused.is_empty();
        ensure!(is_clean, "rounds were refused that must not be: {refused:?}");
        Ok(())
    }
}

/// Rounds at their own places in time.
const fn half(name: &str, rate: u64, time: Duration) -> Stretch<'_> {
    Stretch { name, rate: Some(rate), rounds_max: u64::MAX, time, callers: HALF_CALLERS }
}

/// Opens the tokens of a shape, and those of the rounds before.
pub(crate) fn fill(town: &mut Town, shape: Shape, sizes: Sizes) -> anyhow::Result<()> {
    let (asked, more) = shape.tokens(sizes);
    [asked].into_iter().chain(more).chain([WARM]).try_for_each(|tokens| town.issue(tokens))?;
    town.open()
}
