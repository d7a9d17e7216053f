//! `holdfast load tokens`: selections against a hub that is running already, each followed by its spend or release.
//!
//! A run makes wallets of its own and issues tokens to them before the clock starts. A spend pays another wallet of the
//! run, so the wallets together keep what was issued, and the end of the run counts it. Refusals are counted, not fatal:
//! it is the hub that is looked at. As in `load transfers`, a closed loop begins a round when another has ended; in an
//! open loop rounds begin at their own places in time and their latency counts from there.

mod requests;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::tally::Tally;
use crate::batches::worker_lost;
use crate::bench::runtime;
use crate::figures::{lock, per, per_second};
use crate::line::{Line, Lost};
use crate::options::{Hub, LINES_MAX, PAYMENTS_MAX, Pacing, check_range, parse_count};
use crate::pace::{Starts, work};
use crate::payments::seed_of;
use crate::report::{Report, grouped};
use crate::{LoadError, Loaded};
pub(crate) use requests::refusal;
use requests::{Balance, Requests, Selected};

/// The most wallets: their tokens are issued before the clock starts, and each is asked for its balance at the end.
const WALLETS_MAX: u32 = 100_000;
/// The most tokens of each wallet.
const TOKENS_MAX: u32 = 1_000_000;
/// The most tokens of all wallets together.
const TOKENS_TOTAL_MAX: u64 = 10_000_000;
/// The longest wait for funds that others hold, in milliseconds.
const WAIT_MS_MAX: u32 = 60_000;

/// Selections of tokens, each followed by its spend or release, from wallets that are made for the run.
///
/// Each of --in-flight rounds has a connection of its own. Without --rate each round begins when another has ended
/// (closed loop). With --rate rounds begin at their own places in time and latencies count from there. At the end the
/// wallets must have what was issued to them.
#[derive(Debug, Clone, clap::Args)]
pub struct TokenLoad {
    /// The hub.
    #[command(flatten)]
    pub hub: Hub,
    /// When rounds begin.
    #[command(flatten)]
    pub pacing: Pacing,
    /// How many rounds to make, such as 500000 or 500k
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub rounds: Option<u64>,
    /// What follows each selection
    #[arg(long, value_enum, default_value = "spend")]
    pub then: Ending,
    /// Wallets, made for this run
    #[arg(long, default_value_t = 1_000)]
    pub wallets: u32,
    /// Tokens issued to each wallet
    #[arg(long, default_value_t = 100)]
    pub tokens: u32,
    /// Amounts and quantities are drawn from 1 up to this
    #[arg(long, value_name = "AMOUNT", default_value_t = 1_000)]
    pub amount_max: u64,
    /// How long a selection may wait for funds that others hold
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub wait_ms: u32,
    /// From where names and amounts come [default: another one each time]
    #[arg(long)]
    pub seed: Option<u64>,
}

/// What follows each selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// A spend to another wallet of the run
    Spend,
    /// A release
    Release,
}

impl Ending {
    /// As a word.
    pub const fn name(self) -> &'static str {
        match self {
            Ending::Spend => "spend",
            Ending::Release => "release",
        }
    }
}

impl TokenLoad {
    /// A closed loop of select and spend with the defaults.
    pub fn to(address: &str, seed: u64) -> TokenLoad {
        TokenLoad {
            hub: Hub::at(address),
            pacing: Pacing::default(),
            rounds: None,
            then: Ending::Spend,
            wallets: 1_000,
            tokens: 100,
            amount_max: 1_000,
            wait_ms: 0,
            seed: Some(seed),
        }
    }

    fn check(&self) -> Result<(), LoadError> {
        check_range("--rounds", self.rounds.unwrap_or(1), 1, PAYMENTS_MAX * 1_000)?;
        check_range("--wallets", self.wallets.into(), 1, WALLETS_MAX.into())?;
        check_range("--tokens", self.tokens.into(), 1, TOKENS_MAX.into())?;
        let total = u64::from(self.wallets) * u64::from(self.tokens);
        check_range("--wallets times --tokens", total, 1, TOKENS_TOTAL_MAX)?;
        check_range("--amount-max", self.amount_max, 1, u64::MAX / TOKENS_TOTAL_MAX)?;
        check_range("--wait-ms", self.wait_ms.into(), 0, WAIT_MS_MAX.into())?;
        self.pacing.check(LINES_MAX)
    }
}

/// Drives the hub as the options say.
///
/// # Errors
/// If the hub is not reached or does not take the tokens of the run.
pub fn load_tokens(options: &TokenLoad) -> Result<Loaded, LoadError> {
    runtime()?.block_on(run_http(options))
}

/// The same on a runtime that is there already.
async fn run_http(options: &TokenLoad) -> Result<Loaded, LoadError> {
    let driven = drive(options).await?;
    let Driven { worth_issued, .. } = driven;
    let mut report = report(options, &driven);
    report.figure("worthIssued", worth_issued.to_string());
    report.figure("worthFound", driven.worth_found.as_ref().ok().map(u128::to_string));
    let wrong = match driven.worth_found {
        Ok(found) if found == worth_issued => {
            report.note(format!("{found} was issued to {} wallets and is still there", options.wallets));
            None
        }
        Ok(found) => {
            let wrong = format!("{worth_issued} was issued, {found} is there");
            report.note(format!("THE BOOKS DO NOT BALANCE: {wrong}"));
            Some(LoadError::Books(wrong))
        }
        Err(error) => {
            Some(LoadError::of("the hub could not be asked for the wallets' balances at the end")(error))
        }
    };
    Ok(Loaded { report, wrong })
}

/// What the clock saw, and the worth of the wallets before and after.
pub(super) struct Driven {
    pub(super) tally: Tally,
    pub(super) took: Duration,
    starts: Arc<Starts>,
    worth_issued: u128,
    pub(super) worth_found: Result<u128, LoadError>,
}

pub(super) async fn drive(options: &TokenLoad) -> Result<Driven, LoadError> {
    options.check()?;
    let requests = Arc::new(Requests::of(options, seed_of(options.seed)));
    let mut lines = Line::open_all(&options.hub.address, options.pacing.in_flight).await?;
    must_be_new(&mut lines[0], &requests).await?;
    let (lines, worth_issued) = issue(lines, &requests).await?;
    let starts = Arc::new(Starts::paced("rounds", &options.pacing, options.rounds));
    let patience = Duration::from_millis(options.wait_ms.into());
    // One for all: a histogram for each of a thousand would crowd the machine's caches.
    let tally = Arc::<Mutex<Tally>>::default();
    let workers = lines.into_iter().map(|line| {
        let (requests, starts, tally) = (Arc::clone(&requests), Arc::clone(&starts), Arc::clone(&tally));
        Worker { line, requests, starts, ending: options.then, patience, tally }.work()
    });
    let took = work(&starts, options.pacing.quiet, workers, |()| Ok(())).await?;
    let tally = std::mem::take(&mut *lock(&tally));
    let worth_found = count_worth(options, &requests).await;
    Ok(Driven { tally, took, starts, worth_issued, worth_found })
}

/// The same seed would use the same spenders, which a hub never forgets.
async fn must_be_new(line: &mut Line, requests: &Requests) -> Result<(), LoadError> {
    if balance(line, requests, 0).await? == 0 {
        return Ok(());
    }
    let said = "the hub has tokens of a run with the same --seed: take another one, or leave it out";
    Err(LoadError::Refused(said.to_owned()))
}

async fn balance(line: &mut Line, requests: &Requests, wallet: u64) -> Result<u128, LoadError> {
    let mut out = Vec::new();
    requests.balance(wallet, &mut out);
    let read = |body: &[u8]| serde_json::from_slice::<Balance>(body).ok()?.total.parse().ok();
    line.must("asking for a balance", &out, 200, read).await
}

/// Issues all tokens, on every connection at once. Gives the connections back, and what was issued.
async fn issue(lines: Vec<Line>, requests: &Arc<Requests>) -> Result<(Vec<Line>, u128), LoadError> {
    let next = Arc::new(AtomicU64::new(0));
    let mut issuers = JoinSet::new();
    for mut line in lines {
        let (requests, next) = (Arc::clone(requests), Arc::clone(&next));
        issuers.spawn(async move {
            let (mut out, mut worth) = (Vec::new(), 0);
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= requests.issues() {
                    return Ok::<_, LoadError>((line, worth));
                }
                worth += requests.issue(number, &mut out);
                line.must("issuing tokens", &out, 201, |_| Some(())).await?;
            }
        });
    }
    let (mut lines, mut total) = (Vec::new(), 0);
    while let Some(ended) = issuers.join_next().await {
        let (line, worth) = ended.map_err(worker_lost)??;
        lines.push(line);
        total += worth;
    }
    Ok((lines, total))
}

/// What all wallets of the run have.
async fn count_worth(options: &TokenLoad, requests: &Requests) -> Result<u128, LoadError> {
    let mut line = Line::open(&options.hub.address).await?;
    let mut sum = 0;
    for wallet in 0..u64::from(options.wallets) {
        sum += balance(&mut line, requests, wallet).await?;
    }
    Ok(sum)
}

/// One round after another on one connection.
struct Worker {
    line: Line,
    requests: Arc<Requests>,
    starts: Arc<Starts>,
    ending: Ending,
    patience: Duration,
    tally: Arc<Mutex<Tally>>,
}

impl Worker {
    async fn work(mut self) {
        let mut out = Vec::with_capacity(1_024);
        while let Some((number, begun)) = self.starts.next().await {
            lock(&self.tally).rounds += 1;
            let Err(lost) = self.round(number, begun, &mut out).await else { continue };
            lock(&self.tally).errors.note(lost.name());
            // A hub that is gone ends the worker: nothing would come of more rounds.
            if self.line.reopen().await.is_err() {
                break;
            }
        }
    }

    async fn round(&mut self, number: u64, begun: Instant, out: &mut Vec<u8>) -> Result<(), Lost> {
        self.requests.select(number, out);
        let selected = self.line.ask(out, self.patience, |status, body| {
            let selection = (status == 200).then(|| serde_json::from_slice::<Selected<'_>>(body).ok());
            match selection.flatten() {
                Some(selection) => Ok((selection.fence.into_owned(), selection.tokens.len() as u64)),
                None => Err(refusal(status, body)),
            }
        });
        let (fence, inputs) = match selected.await? {
            Ok(selected) => selected,
            Err(name) => return self.refuse(name),
        };
        let select_took = begun.elapsed();
        lock(&self.tally).selected(inputs);
        let second = Instant::now();
        self.requests.end(self.ending, number, &fence, out);
        let ended = self.line.ask(out, Duration::ZERO, |status, body| match status {
            200 => Ok(()),
            _ => Err(refusal(status, body)),
        });
        if let Err(name) = ended.await? {
            return self.refuse(name);
        }
        lock(&self.tally).record(select_took, second.elapsed(), begun.elapsed());
        Ok(())
    }

    /// Counted; the connection is as good as before.
    fn refuse(&self, name: String) -> Result<(), Lost> {
        lock(&self.tally).refused.note(name);
        Ok(())
    }
}

fn report(options: &TokenLoad, driven: &Driven) -> Report {
    let Driven { tally, took, starts, .. } = driven;
    let ending = options.then.name();
    let parts = [("round", &tally.round_us), ("select", &tally.select_us), (ending, &tally.second_us)];
    let mut report = starts.report(&options.pacing, tally.rounds, *took, &parts);
    let inputs = per(tally.inputs, tally.selections);
    report.set_title(format!(
        "{} rounds of select and {ending} in {:.1} s: {}/s; done {}, refused {}, unknown {}; {inputs:.1} inputs each",
        tally.rounds,
        took.as_secs_f64(),
        grouped(per_second(tally.rounds, *took), 0),
        tally.done,
        tally.refused.total(),
        tally.errors.total(),
    ));
    for (name, count) in tally.refused.iter().chain(tally.errors.iter()) {
        report.note(format!("  {name}: {count}"));
    }
    report.figures(tally);
    report.figure("ending", options.then);
    report.figure("wallets", options.wallets);
    report.figure("tokensIssued", u64::from(options.wallets) * u64::from(options.tokens));
    report.figure("inputsPerSelection", inputs);
    report
}
