//! `bench tokens`, the journalled part: selections through the vault of a hub inside this process, each on the disk before it
//! is answered. No HTTP: what wallets feel of that is measured by `load`.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use holdfast_disk::RealFs;
use holdfast_engine::Wallets as _;
use holdfast_engine::clock::SystemClock;
use holdfast_hub::limits::HubOptions;
use holdfast_hub::tokens::HubVault;
use holdfast_hub::{Hub, Opened};
use holdfast_log::{LogId, SegmentOptions};
use holdfast_tokens::{Scope, SelectRequest, Token};

use crate::LoadError;
use crate::figures::{Latency, micros, per, per_second};
use crate::meter::{Usage, device_written_bytes};
use crate::options::LOAD_SECONDS_MAX;
use crate::pace::{Starts, work};
use crate::report::Row;

/// Tokens that are issued together.
const ISSUE_TOGETHER: usize = 1_000;

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Journal {
    pub(super) wallets: u32,
    /// Of each wallet.
    pub(super) tokens: u32,
    /// Selections under way at once.
    pub(super) in_flight: usize,
    /// In all.
    pub(super) selections: u64,
    /// Whether each is given back, which is journalled too.
    pub(super) release: bool,
}

/// Selects, and releases if asked to; a release stands outside of the figure's count, but inside its time.
pub(super) fn run_journalled(journal: &Journal, data: &Path) -> Result<Row, LoadError> {
    // One thread of callers: writer, journal and they share two cores.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(LoadError::of("cannot start the runtime of the callers"))?;
    let hub = start(data)?;
    let handle = hub.handle();
    let vault = handle.tokens().clone();
    runtime.block_on(issue(&vault, journal))?;
    let reading = || (Usage::of(std::process::id()), device_written_bytes(data));
    let (usage, device) = reading();
    let started = Instant::now();
    let tally = runtime.block_on(select(&vault, journal))?;
    let took = started.elapsed();
    let (usage_after, device_after) = reading();
    drop((vault, handle));
    hub.stop();
    let restarted = Instant::now();
    start(data)?.stop();
    let Journal { wallets, tokens, in_flight, selections, release } = *journal;
    let each = |after: u64, before: u64| per(after.saturating_sub(before), selections);
    Ok(Row::of("each", if release { "select, release" } else { "select" })
        .count("in flight", in_flight as u64)
        .count("wallets", wallets.into())
        .count("tokens", u64::from(wallets) * u64::from(tokens))
        .count("selections", selections)
        .number("per second", per_second(selections, took), 0)
        .number("inputs", per(tally.inputs, selections), 2)
        .latency(&tally.select.percentiles())
        // Of this process: vault, log and callers together.
        .number("CPU µs", each(usage_after.cpu_us, usage.cpu_us), 2)
        .maybe("B written", device_after.zip(device).map(|(after, before)| each(after, before)), 0)
        .mebibytes("MiB", usage_after.rss_bytes)
        .count("restart ms", micros(restarted.elapsed()) / 1_000))
}

fn start(data: &Path) -> Result<Hub, LoadError> {
    let refused =
        |error: holdfast_hub::OpenError| LoadError::Refused(format!("the hub did not start: {error}"));
    let opened = Opened::open(Arc::new(RealFs), data, SegmentOptions::default(), LogId([7; 16]));
    Hub::start(opened.map_err(refused)?, Arc::new(SystemClock::new()), HubOptions::default()).map_err(refused)
}

fn wallet(number: u64) -> String {
    format!("wallet-{number:06}")
}

/// Quantities over six orders of magnitude, and each wallet has some of each.
fn quantity(number: u64) -> u64 {
    10_u64.pow(u32::try_from(number % 6).expect("below 6")) * (1 + number / 6 % 9)
}

async fn issue(vault: &HubVault, journal: &Journal) -> Result<(), LoadError> {
    let refused = |error: holdfast_engine::TokenError| LoadError::Refused(format!("no tokens: {error}"));
    let tokens_each = u64::from(journal.tokens);
    let all = (0..u64::from(journal.wallets) * tokens_each).map(|number| {
        let (owner, number) = (number / tokens_each, number % tokens_each);
        let id = format!("00000000-0000-4000-8000-{owner:06}{number:06}");
        Token::new(id, wallet(owner), "EUR", quantity(number))
    });
    let mut page = Vec::with_capacity(ISSUE_TOGETHER);
    for token in all {
        page.push(token);
        if page.len() == ISSUE_TOGETHER {
            vault.issue(std::mem::take(&mut page)).await.map_err(refused)?;
        }
    }
    if page.is_empty() { Ok(()) } else { vault.issue(page).await.map_err(refused) }
}

/// What the callers saw.
#[derive(Default)]
struct Tally {
    select: Latency,
    inputs: u64,
}

async fn select(vault: &HubVault, journal: &Journal) -> Result<Tally, LoadError> {
    let time = Duration::from_secs(LOAD_SECONDS_MAX);
    let starts = Arc::new(Starts::new("selections", None, journal.selections, time, journal.in_flight));
    // One for all: a histogram for each of a thousand would crowd the tokens out of the machine's caches.
    let tally = Arc::<Mutex<Tally>>::default();
    let workers = (0..journal.in_flight).map(|_| {
        let (vault, starts, tally, journal) =
            (vault.clone(), Arc::clone(&starts), Arc::clone(&tally), *journal);
        async move { select_in_turn(&vault, &starts, &tally, &journal).await }
    });
    work(&starts, true, workers, |ended| ended).await?;
    Ok(Arc::into_inner(tally).expect("all workers have ended").into_inner().expect("none has panicked"))
}

async fn select_in_turn(
    vault: &HubVault,
    starts: &Starts,
    tally: &Mutex<Tally>,
    journal: &Journal,
) -> Result<(), LoadError> {
    let refused = |error: holdfast_engine::TokenError| LoadError::Refused(format!("a selection: {error}"));
    while let Some((number, started)) = starts.next().await {
        // Wallets far from each other, amounts that one to three tokens come to.
        let owner = number.wrapping_mul(0x9e37_79b9) % u64::from(journal.wallets);
        let amount =
            quantity(number % 48) + if number.is_multiple_of(3) { 0 } else { quantity(number / 7 % 48) };
        let spender: holdfast_tokens::Name = format!("payment-{number}").into();
        let request = SelectRequest::new(Arc::clone(&spender), Scope::wallet(wallet(owner), "EUR"), amount);
        let selection = vault.select(request, 10_000).await.map_err(refused)?;
        {
            let mut seen = tally.lock().expect("none has panicked");
            seen.select.record(started.elapsed());
            seen.inputs += selection.tokens.len() as u64;
        }
        if journal.release {
            vault.release(spender, Some(selection.fence)).await.map_err(refused)?;
        }
    }
    Ok(())
}
