//! The position step alone: `positions::process` on one core, over frames in which prepares and commits are mixed.

use std::path::Path;
use std::time::Instant;

use holdfast_domain::effects::Step;
use holdfast_domain::ids::{AccountId, TransferNo};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::positions::{Action, Message, PositionAccount, PositionAccounts, PrepareOrder, process};
use holdfast_domain::transfers::TransferState;
use holdfast_load::LoadError;
use holdfast_load::figures::{median, per_second};
use holdfast_load::options::{ACCOUNTS_DEFAULT, ACCOUNTS_MAX, RUNS_DEFAULT, RUNS_MAX, check_range};
use holdfast_load::payments::{Payers, mix};
use holdfast_load::report::{Report, Row};

/// Messages of a run.
const MESSAGES: u64 = 20_000_000;
/// Messages per frame.
const FRAME_MESSAGES: usize = 4_096;
/// Frames that are gone through again and again.
const FRAMES: usize = 64;

/// The position step alone, on one core, without a hub.
#[derive(Debug, Clone, clap::Args)]
pub struct BinsBench {
    /// Accounts that messages are spread over
    #[arg(long, default_value_t = ACCOUNTS_DEFAULT)]
    accounts: u32,
    /// Runs; the median is the figure
    #[arg(long, default_value_t = RUNS_DEFAULT)]
    runs: u32,
    /// From where accounts and amounts come
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Measures the position step over many accounts and over one.
///
/// # Errors
/// If the options make no sense, or a message is refused.
pub fn bench_bins(options: &BinsBench) -> Result<Report, LoadError> {
    check_range("--accounts", options.accounts.into(), 1, ACCOUNTS_MAX.into())?;
    check_range("--runs", options.runs.into(), 1, RUNS_MAX.into())?;
    let title = format!("the position step alone, one core, {FRAME_MESSAGES} messages a frame");
    let mut report = Report::measured(title, Path::new("."));
    let mut rows = Vec::new();
    for payers in [Payers::Uniform, Payers::Hot] {
        let rates = (0..options.runs).map(|number| {
            let seed = options.seed.wrapping_add(number.into());
            let rate = messages_per_second(options.accounts, payers, MESSAGES, seed);
            rate.ok_or_else(|| LoadError::Refused("a message of the position step was refused".to_owned()))
        });
        let rates = rates.collect::<Result<Vec<f64>, LoadError>>()?;
        let accounts = match payers {
            Payers::Uniform => options.accounts.to_string(),
            Payers::Hot => "one hot".to_owned(),
        };
        rows.push(Row::of("accounts", accounts).number("messages/s", median(&rates), 0).each(
            "every run",
            &rates,
            0,
        ));
    }
    report.table("", rows);
    Ok(report)
}

struct Accounts(Vec<PositionAccount>);

impl PositionAccounts for Accounts {
    fn position_account(&self, id: AccountId) -> Option<PositionAccount> {
        self.0.get(id.0 as usize).copied()
    }
}

/// Processes about `messages` messages and gives how many per second; `None` if one was refused.
fn messages_per_second(accounts: u32, payers: Payers, messages: u64, seed: u64) -> Option<f64> {
    let account = PositionAccount {
        value: Balance::ZERO,
        reserved: Balance::ZERO,
        settlement: Balance(-1_000_000_000_000_000),
        net_debit_cap: Some(Amount(1_000_000_000_000_000)),
        alarm_percentage: 10,
    };
    let rows = Accounts(vec![account; accounts as usize]);
    let frames: Vec<Vec<Message>> =
        (0..FRAMES).map(|frame| frame_of(frame, accounts, payers, seed)).collect();
    let rounds = messages.div_ceil((FRAMES * FRAME_MESSAGES) as u64).max(1);
    let mut effects = Step::default();
    let mut accepted = 0_u64;
    let started = Instant::now();
    for _ in 0..rounds {
        for frame in &frames {
            effects.state_changes.clear();
            effects.position_changes.clear();
            effects.notifications.clear();
            effects.alarms.clear();
            let results = process(&rows, PrepareOrder::Arrival, frame, &mut effects);
            accepted += results.iter().filter(|result| result.error.is_none()).count() as u64;
        }
    }
    let (took, sent) = (started.elapsed(), rounds * (FRAMES * FRAME_MESSAGES) as u64);
    (accepted == sent).then(|| per_second(sent, took))
}

fn frame_of(frame: usize, accounts: u32, payers: Payers, seed: u64) -> Vec<Message> {
    let message = |number: u64| {
        let random = mix(seed, number);
        let (action, state) = match (random >> 40) % 2 {
            0 => (Action::Prepare, TransferState::ReceivedPrepare),
            _ => (Action::Commit, TransferState::ReceivedFulfil),
        };
        let account = match payers {
            Payers::Uniform => u32::try_from(random % u64::from(accounts)).expect("below a u32"),
            Payers::Hot => 0,
        };
        Message {
            account: AccountId(account),
            transfer: TransferNo(number),
            action,
            amount: Amount(1 + i64::try_from(random >> 48).expect("sixteen bits")),
            state,
            cause: 0,
            completion: None,
            error: None,
        }
    };
    let first = (frame * FRAME_MESSAGES) as u64;
    (first..first + FRAME_MESSAGES as u64).map(message).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_accepted() {
        assert!(messages_per_second(10, Payers::Uniform, 1, 3).is_some());
        assert!(messages_per_second(10, Payers::Hot, 1, 3).is_some());
    }
}
