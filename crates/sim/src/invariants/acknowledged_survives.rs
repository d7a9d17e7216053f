//! Invariant 5. What was acknowledged is there after every restart: the same state or a legal successor, the same
//! refusal, the same answer to the same id. What was refused as not stored left nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Admin, Command};
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::{TransferId, TransferNo};
use holdfast_domain::participants::FundsState;
use holdfast_domain::tokens::{TokenOutcome, TokenRefusal};
use holdfast_domain::transfers::TransferState;
use holdfast_domain::view::{Funds, Transfers};
use holdfast_hub::Core;
use holdfast_store::MemoryStore;

use super::legal_moves::{is_end, may_become};
use super::orders_are_paid_once::shop_again;
use crate::diary::{Diary, Entry, Standing};
use crate::process::Arrival;
use crate::witness::Decided;

/// How far the log is known to be, and what the last frame in it decided.
#[derive(Debug, Default)]
pub struct AcknowledgedSurvives {
    /// The offset after the last command that was answered.
    acknowledged_end: u64,
    last_outcomes: Vec<Outcome>,
    /// Transfers that checkouts made: nobody sent a prepare for them.
    charged: BTreeSet<TransferId>,
}

fn has_code(outcome: &Outcome, code: ErrorCode) -> bool {
    outcome.code.is_some_and(|given| given.number() == code.number())
}

impl AcknowledgedSurvives {
    /// Remembers what a frame decided for its clients.
    pub fn see(&mut self, frame: &Decided<'_>) {
        let own = usize::from(matches!(frame.commands.first(), Some(Command::Expire(_))));
        self.last_outcomes = frame.effects.all(|step| &step.outcomes).skip(own).cloned().collect();
        for (_, _, step) in frame.steps().filter(|(_, commands, _)| matches!(commands, [Command::Shop(_)])) {
            self.charged.extend(step.transfers.iter().map(|row| row.id));
        }
    }

    /// Answers went out; the live log then ended at `end`.
    pub const fn acknowledged(&mut self, end: u64) {
        self.acknowledged_end = end;
    }

    /// What the clients of the last frame were told is what the log's bytes decide.
    pub fn answers_agree(&self, arrivals: &[Arrival]) -> Result<(), String> {
        let told: Vec<Outcome> =
            arrivals.iter().filter_map(|(_, answer)| answer.as_ref().ok()).flatten().cloned().collect();
        if told == self.last_outcomes {
            return Ok(());
        }
        Err(format!("clients were told {told:?}, and the log decides {:?}", self.last_outcomes))
    }

    /// The same command was answered before: the new answer must go with the old one.
    pub fn answer_again(&self, command: &Command, before: &Outcome, now: &Outcome) -> Result<(), String> {
        let goes_together = match command {
            Command::Admin(Admin::FundsIn { .. } | Admin::FundsOutReserve { .. }) => {
                let modified = |outcome| has_code(outcome, ErrorCode::ModifiedRequest);
                (before.code.is_some() || now.code.is_none()) && (!modified(before) || modified(now))
            }
            Command::Admin(Admin::FundsOutCommit { .. } | Admin::FundsOutAbort { .. }) => {
                before.code.is_some() || now.code.is_none()
            }
            Command::Admin(_) | Command::SetEndpoint(_) | Command::Expire(_) => true,
            Command::Prepare(_) | Command::Fulfil(_) | Command::Abort(_) | Command::Lookup(_) => {
                transfer_again(before, now)
            }
            Command::Token(_) => match (&before.token, &now.token) {
                (Some(before), Some(now)) => tokens_again(before, now),
                _ => false,
            },
            Command::Shop(command) => match (&before.shop, &now.shop) {
                (Some(before), Some(now)) => shop_again(command, before, now),
                _ => false,
            },
        };
        if goes_together { Ok(()) } else { Err(format!("{command:?}: first {before:?}, then {now:?}")) }
    }

    /// A hub came back with the state of `core`.
    pub fn restarted(&self, core: &Core<MemoryStore>, diary: &Diary) -> Result<(), String> {
        // Clients first: what they miss says more than an offset.
        for entry in &diary.entries {
            if let Standing::Answered(outcome) = &entry.standing {
                still_there(core.store(), entry, outcome)?;
            }
        }
        if core.end() < self.acknowledged_end {
            let end = self.acknowledged_end;
            return Err(format!("the log ends at {}; answers went out up to {end}", core.end()));
        }
        let mut rows = core.store().transfers_from(TransferNo(0));
        let may_exist = diary.may_exist();
        match rows.find(|row| !may_exist.contains(&row.id) && !self.charged.contains(&row.id)) {
            Some(row) => Err(format!("{} was refused as not stored and has a row", row.id)),
            None => Ok(()),
        }
    }
}

fn transfer_again(before: &Outcome, now: &Outcome) -> bool {
    let Some(was) = before.state else {
        // Either nothing was known of the transfer, or the sender was not its payer.
        return has_code(before, ErrorCode::TransferIdNotFound) || before == now;
    };
    let Some(is) = now.state else { return false };
    let too_late = has_code(before, ErrorCode::TransferExpired);
    let modified = has_code(before, ErrorCode::ModifiedRequest);
    may_become(was, is)
        && (!is_end(was) || (before.code, before.reason) == (now.code, now.reason))
        && (was != is || was == TransferState::AbortedRejected || before.value == now.value)
        && !(too_late && is == TransferState::Committed)
        && (!modified || has_code(now, ErrorCode::ModifiedRequest))
}

/// What was issued, spent or taken over once is so for good. A lock may end, be prolonged and be made anew.
fn tokens_again(before: &TokenOutcome, now: &TokenOutcome) -> bool {
    match (before, now) {
        (TokenOutcome::Issued, now) => {
            matches!(now, TokenOutcome::Refused(TokenRefusal::Exists(_) | TokenRefusal::Consumed(_)))
        }
        (TokenOutcome::Spent(before), now) => *now == TokenOutcome::Spent(Arc::clone(before)),
        (TokenOutcome::Updated { .. }, now) => *now == TokenOutcome::Updated { produced: 0, consumed: 0 },
        (TokenOutcome::Locked(before), TokenOutcome::Locked(now)) => {
            now.fence > before.fence || (now.fence, &now.tokens) == (before.fence, &before.tokens)
        }
        (TokenOutcome::Renewed { fence: before, .. }, TokenOutcome::Renewed { fence: now, .. }) => {
            now >= before
        }
        _ => true,
    }
}

fn still_there(store: &MemoryStore, entry: &Entry, outcome: &Outcome) -> Result<(), String> {
    let lost = |found: String| Err(format!("{:?} was answered {outcome:?}; found {found}", entry.command));
    match &entry.command {
        Command::Prepare(_) | Command::Fulfil(_) | Command::Abort(_) => {
            let (Some(id), Some(state)) = (entry.command.transfer(), outcome.state) else { return Ok(()) };
            let Some(row) = store.transfer(id) else { return lost("no row".to_owned()) };
            let modified = has_code(outcome, ErrorCode::ModifiedRequest);
            let same_prepare = match &entry.command {
                Command::Prepare(prepare) => (prepare.hash == row.hash) != modified,
                _ => true,
            };
            let own_end = matches!(entry.command, Command::Prepare(_)) && is_end(state) && !modified;
            if !may_become(state, row.state) || !same_prepare || (own_end && outcome.code != row.code) {
                return lost(format!("{row:?}"));
            }
        }
        Command::Admin(
            Admin::FundsIn { id, .. }
            | Admin::FundsOutReserve { id, .. }
            | Admin::FundsOutCommit { id, .. }
            | Admin::FundsOutAbort { id, .. },
        ) if outcome.code.is_none() => {
            let state = store.funds(*id).map(|row| row.state);
            let fits = match entry.command {
                Command::Admin(Admin::FundsIn { .. }) => state == Some(FundsState::ReceivedIn),
                Command::Admin(Admin::FundsOutCommit { .. }) => state == Some(FundsState::OutCommitted),
                Command::Admin(Admin::FundsOutAbort { .. }) => state == Some(FundsState::OutAborted),
                _ => state.is_some_and(|state| state != FundsState::ReceivedIn),
            };
            if !fits {
                return lost(format!("{state:?}"));
            }
        }
        // What became of tokens and of orders is told by auditors of their own.
        Command::Admin(_)
        | Command::SetEndpoint(_)
        | Command::Lookup(_)
        | Command::Expire(_)
        | Command::Token(_)
        | Command::Shop(_) => {}
    }
    Ok(())
}
