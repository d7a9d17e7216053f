//! The position step alone: `positions::process` on one core, over frames in which prepares and commits are mixed.

use std::time::Instant;

use holdfast_domain::effects::Effects;
use holdfast_domain::ids::{AccountId, TransferNo};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::positions::{Action, Message, PositionAccount, PositionAccounts, PrepareOrder, process};
use holdfast_domain::transfers::TransferState;

use crate::options::Payers;
use crate::payments::mix;

/// Messages per frame.
pub(crate) const FRAME_MESSAGES: usize = 4_096;
/// Frames that are gone through again and again.
const FRAMES: usize = 64;

struct Accounts(Vec<PositionAccount>);

impl PositionAccounts for Accounts {
    fn position_account(&self, id: AccountId) -> Option<PositionAccount> {
        self.0.get(id.0 as usize).copied()
    }
}

/// Processes about `messages` messages and gives how many per second; `None` if one was refused.
pub(crate) fn messages_per_second(accounts: u32, payers: Payers, messages: u64, seed: u64) -> Option<f64> {
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
    let mut effects = Effects::default();
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
    let seconds = started.elapsed().as_secs_f64();
    let sent = rounds * (FRAMES * FRAME_MESSAGES) as u64;
    #[allow(clippy::cast_precision_loss, reason = "a printed rate")]
    (accepted == sent).then_some(sent as f64 / seconds)
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
