//! `bench tokens`, the journalled part: selections through the vault of a hub inside this process, each on the disk before it
//! is answered. No HTTP: what wallets feel of that is measured by `load`.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use hdrhistogram::Histogram;
use holdfast_disk::RealFs;
use holdfast_engine::clock::SystemClock;
use holdfast_hub::limits::HubOptions;
use holdfast_hub::tokens::TokenDesk;
use holdfast_hub::{Hub, Opened};
use holdfast_log::{LogId, SegmentOptions};
use holdfast_tokens::{Scope, SelectRequest, Token};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::BenchError;
use crate::drive::{micros, new_histogram};
use crate::meter::{Usage, device_written_bytes};
use crate::report::{Percentiles, per};

/// Tokens that are issued together.
const ISSUE_TOGETHER: usize = 1_000;

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct JournalOptions {
    /// Wallets.
    pub wallets: u32,
    /// Tokens of each.
    pub tokens: u32,
    /// Selections under way at once.
    pub in_flight: usize,
    /// Selections in all.
    pub selections: u64,
    /// Whether each is given back, which is journalled too.
    pub release: bool,
}

/// What was found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct JournalReport {
    pub wallets: u32,
    pub tokens: u64,
    pub in_flight: usize,
    pub release: bool,
    pub selections: u64,
    pub selections_per_second: f64,
    pub inputs_per_selection: f64,
    /// From the call to the durable answer.
    pub select_us: Percentiles,
    /// Of this process: vault, log and callers together.
    pub cpu_us_per_selection: f64,
    /// By the device; a release is in it.
    pub written_bytes_per_selection: Option<f64>,
    pub rss_bytes: u64,
    /// A start on the same data, the index loaded.
    pub restart_ms: u64,
}

/// Selects, and releases if asked to; a release stands outside of the figure's count, but inside its time.
///
/// # Errors
/// If the hub cannot be started, or a selection is refused.
pub fn run_journalled(options: &JournalOptions, data: &Path) -> Result<JournalReport, BenchError> {
    // One thread of callers: writer, journal and they share two cores.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(BenchError::Runtime)?;
    let hub = start(data)?;
    let handle = hub.handle();
    let desk = handle.tokens().clone();
    runtime.block_on(issue(&desk, options))?;
    let before = (Usage::of(std::process::id()), device_written_bytes(data));
    let started = Instant::now();
    let tally = runtime.block_on(select(&desk, options))?;
    let took = started.elapsed();
    let after = (Usage::of(std::process::id()), device_written_bytes(data));
    let written = after.1.zip(before.1).map(|(after, before)| after.saturating_sub(before));
    drop((desk, handle));
    hub.stop();
    let restarted = Instant::now();
    start(data)?.stop();
    let selections = options.selections;
    Ok(JournalReport {
        wallets: options.wallets,
        tokens: u64::from(options.wallets) * u64::from(options.tokens),
        in_flight: options.in_flight,
        release: options.release,
        selections,
        #[allow(clippy::cast_precision_loss, reason = "a printed rate")]
        selections_per_second: selections as f64 / took.as_secs_f64(),
        inputs_per_selection: per(tally.inputs, selections),
        select_us: Percentiles::of(&tally.select_us),
        cpu_us_per_selection: per(after.0.cpu_us.saturating_sub(before.0.cpu_us), selections),
        written_bytes_per_selection: written.map(|written| per(written, selections)),
        rss_bytes: after.0.rss_bytes,
        restart_ms: u64::try_from(restarted.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}

fn start(data: &Path) -> Result<Hub, BenchError> {
    let refused =
        |error: holdfast_hub::OpenError| BenchError::Refused(format!("the hub did not start: {error}"));
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

async fn issue(desk: &TokenDesk, options: &JournalOptions) -> Result<(), BenchError> {
    let refused =
        |error: holdfast_hub::tokens::TokenError| BenchError::Refused(format!("no tokens: {error}"));
    let tokens_each = u64::from(options.tokens);
    let all = (0..u64::from(options.wallets) * tokens_each).map(|number| {
        let (owner, number) = (number / tokens_each, number % tokens_each);
        let id = format!("00000000-0000-4000-8000-{owner:06}{number:06}");
        Token::new(id, wallet(owner), "EUR", quantity(number))
    });
    let mut page = Vec::with_capacity(ISSUE_TOGETHER);
    for token in all {
        page.push(token);
        if page.len() == ISSUE_TOGETHER {
            desk.issue(std::mem::take(&mut page)).await.map_err(refused)?;
        }
    }
    if page.is_empty() { Ok(()) } else { desk.issue(page).await.map_err(refused) }
}

/// What the callers saw.
struct Tally {
    select_us: Histogram<u64>,
    inputs: u64,
}

async fn select(desk: &TokenDesk, options: &JournalOptions) -> Result<Tally, BenchError> {
    let next = Arc::new(AtomicU64::new(0));
    // One for all: a histogram for each of a thousand would crowd the tokens out of the machine's caches.
    let tally = Arc::new(Mutex::new(Tally { select_us: new_histogram(), inputs: 0 }));
    let mut workers = JoinSet::new();
    for _ in 0..options.in_flight {
        let (desk, next, tally, options) = (desk.clone(), Arc::clone(&next), Arc::clone(&tally), *options);
        workers.spawn(async move { work(&desk, &next, &tally, &options).await });
    }
    while let Some(ended) = workers.join_next().await {
        ended.map_err(|_| BenchError::Refused("a worker ended early".to_owned()))??;
    }
    Ok(Arc::into_inner(tally).expect("all workers have ended").into_inner().expect("none has panicked"))
}

async fn work(
    desk: &TokenDesk,
    next: &AtomicU64,
    tally: &Mutex<Tally>,
    options: &JournalOptions,
) -> Result<(), BenchError> {
    let refused =
        |error: holdfast_hub::tokens::TokenError| BenchError::Refused(format!("a selection: {error}"));
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= options.selections {
            return Ok(());
        }
        // Wallets far from each other, amounts that one to three tokens come to.
        let owner = number.wrapping_mul(0x9e37_79b9) % u64::from(options.wallets);
        let amount =
            quantity(number % 48) + if number.is_multiple_of(3) { 0 } else { quantity(number / 7 % 48) };
        let spender: holdfast_tokens::Name = format!("payment-{number}").into();
        let request = SelectRequest::new(Arc::clone(&spender), Scope::wallet(wallet(owner), "EUR"), amount);
        let started = Instant::now();
        let selection = desk.select(request, 10_000).await.map_err(refused)?;
        {
            let mut seen = tally.lock().expect("none has panicked");
            seen.select_us.saturating_record(micros(started.elapsed()));
            seen.inputs += selection.tokens.len() as u64;
        }
        if options.release {
            desk.release(spender, Some(selection.fence)).await.map_err(refused)?;
        }
    }
}
