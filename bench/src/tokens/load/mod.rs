//! `holdfast load tokens`: selections against a hub that is running already, each followed by its spend or release.
//! `bench tokens` uses [`run_http`] for its figure over HTTP.
//!
//! A run makes wallets of its own and issues tokens to them before the clock starts. A spend pays another wallet of the
//! run, so the wallets together keep what was issued, and the end of the run counts it. Refusals are counted, not fatal:
//! it is the hub that is looked at. As in `load transfers`, a closed loop begins a round when another has ended; in an
//! open loop rounds begin at their own places in time and their latency counts from there.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `options` | what is asked for, with its bounds |
//! | `requests` | names, amounts, and the bytes of requests |
//! | `report` | figures as data and for people |

pub mod options;
mod report;
mod requests;
#[cfg(test)]
mod tests;

pub use options::{Ending, TokenLoadOptions};
pub use report::TokenLoadReport;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::tally::Tally;
use crate::BenchError;
use crate::drive::micros;
use crate::line::{Line, Lost};
use crate::options::Pace;
use crate::pace::{Starts, length, work};
use crate::report::{Percentiles, per};
pub(crate) use requests::refusal;
use requests::{Balance, Requests, Selected};

/// Drives the hub as the options say.
///
/// # Errors
/// If the hub is not reached or does not take the tokens of the run.
pub fn load_tokens(options: &TokenLoadOptions) -> Result<TokenLoadReport, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(BenchError::Runtime)?.block_on(run_http(options))
}

/// The same on a runtime that is there already. What went wrong during the run stands in the report
/// ([`TokenLoadReport::is_clean`]).
///
/// # Errors
/// If the hub is not reached or does not take the tokens of the run.
pub async fn run_http(options: &TokenLoadOptions) -> Result<TokenLoadReport, BenchError> {
    options.check()?;
    let requests = Arc::new(Requests::of(options));
    let mut lines = Line::open_all(&options.address, options.in_flight).await?;
    must_be_new(&mut lines[0], &requests).await?;
    let (lines, worth_issued) = issue(lines, &requests).await?;
    let (count, time) = length(options.pace, options.seconds, options.rounds);
    let starts = Arc::new(Starts::new("rounds", options.pace, count, time, options.in_flight));
    let patience = Duration::from_millis(options.wait_ms.into());
    let workers = lines.into_iter().map(|line| {
        let (requests, starts) = (Arc::clone(&requests), Arc::clone(&starts));
        Worker { line, requests, starts, ending: options.ending, patience, tally: Tally::default() }.work()
    });
    let mut all = Tally::default();
    let took = work(&starts, options.progress, workers, |tally| {
        all.add(tally);
        Ok(())
    });
    let took = took.await?;
    let worth_found = count_worth(options, &requests).await.ok();
    Ok(report(options, all, took, worth_issued, worth_found))
}

/// The same seed would use the same spenders, which a hub never forgets.
async fn must_be_new(line: &mut Line, requests: &Requests) -> Result<(), BenchError> {
    if balance(line, requests, 0).await? == 0 {
        return Ok(());
    }
    let said = "the hub has tokens of a run with the same --seed: take another one, or leave it out";
    Err(BenchError::Refused(said.to_owned()))
}

async fn balance(line: &mut Line, requests: &Requests, wallet: u64) -> Result<u128, BenchError> {
    let mut out = Vec::new();
    requests.balance(wallet, &mut out);
    let read = |body: &[u8]| serde_json::from_slice::<Balance>(body).ok()?.total.parse().ok();
    line.must("asking for a balance", &out, 200, read).await
}

/// Issues all tokens, on every connection at once. Gives the connections back, and what was issued.
async fn issue(lines: Vec<Line>, requests: &Arc<Requests>) -> Result<(Vec<Line>, u128), BenchError> {
    let next = Arc::new(AtomicU64::new(0));
    let mut issuers = JoinSet::new();
    for mut line in lines {
        let (requests, next) = (Arc::clone(requests), Arc::clone(&next));
        issuers.spawn(async move {
            let (mut out, mut worth) = (Vec::new(), 0);
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= requests.issues() {
                    return Ok::<_, BenchError>((line, worth));
                }
                worth += requests.issue(number, &mut out);
                line.must("issuing tokens", &out, 201, |_| Some(())).await?;
            }
        });
    }
    let (mut lines, mut total) = (Vec::new(), 0);
    while let Some(ended) = issuers.join_next().await {
        let (line, worth) =
            ended.map_err(|error| BenchError::Refused(format!("an issuer ended early: {error}")))??;
        lines.push(line);
        total += worth;
    }
    Ok((lines, total))
}

/// What all wallets of the run have.
async fn count_worth(options: &TokenLoadOptions, requests: &Requests) -> Result<u128, BenchError> {
    let mut line = Line::open(&options.address).await?;
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
    tally: Tally,
}

impl Worker {
    async fn work(mut self) -> Tally {
        let mut out = Vec::with_capacity(1_024);
        while let Some((number, begun)) = self.starts.next().await {
            self.tally.rounds += 1;
            let Err(lost) = self.round(number, begun, &mut out).await else { continue };
            *self.tally.errors.entry(lost.name().to_owned()).or_default() += 1;
            // A hub that is gone ends the worker: nothing would come of more rounds.
            if self.line.reopen().await.is_err() {
                break;
            }
        }
        self.tally
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
        let select_us = micros(begun.elapsed());
        self.tally.selections += 1;
        self.tally.inputs += inputs;
        let second = Instant::now();
        self.requests.end(self.ending, number, &fence, out);
        let ended = self.line.ask(out, Duration::ZERO, |status, body| match status {
            200 => Ok(()),
            _ => Err(refusal(status, body)),
        });
        if let Err(name) = ended.await? {
            return self.refuse(name);
        }
        self.tally.record(select_us, micros(second.elapsed()), micros(begun.elapsed()));
        Ok(())
    }

    /// Counted; the connection is as good as before.
    fn refuse(&mut self, name: String) -> Result<(), Lost> {
        *self.tally.refused.entry(name).or_default() += 1;
        Ok(())
    }
}

fn report(
    options: &TokenLoadOptions,
    tally: Tally,
    took: Duration,
    worth_issued: u128,
    worth_found: Option<u128>,
) -> TokenLoadReport {
    TokenLoadReport {
        seconds: took.as_secs_f64(),
        rounds: tally.rounds,
        rounds_per_second: per(tally.rounds, micros(took)) * 1e6,
        rate: match options.pace {
            Pace::Open { rate } => Some(rate),
            Pace::Closed => None,
        },
        in_flight: options.in_flight,
        ending: options.ending,
        wallets: options.wallets,
        tokens_issued: u64::from(options.wallets) * u64::from(options.tokens),
        done: tally.done,
        inputs_per_selection: per(tally.inputs, tally.selections),
        refused: tally.refused,
        errors: tally.errors,
        worth_issued: worth_issued.to_string(),
        worth_found: worth_found.map(|worth| worth.to_string()),
        round_us: Percentiles::of(&tally.round_us),
        select_us: Percentiles::of(&tally.select_us),
        second_us: Percentiles::of(&tally.second_us),
    }
}
