//! [`decide`](crate::decide()) cut where the topics of the database profile cut it: the transfers step, the position step and the expiry
//! scan, each over a whole batch.
//!
//! The embedded profile runs these steps inside one frame. In the database profile each is a transaction of its own and messages lie
//! between them, which may come twice. So the position step here first asks whether a message was decided before.

use crate::command::Admin;
use crate::decide::{FrameInput, begin, receive_transfers, step_positions, sub_batches};
use crate::effects::{Answer, Asked, Effects, Outcome, Step, Subject};
use crate::ids::{AccountId, Millis, TransferNo};
use crate::overlay::Overlay;
use crate::participants::decide_books;
use crate::positions::{Action, Message, PrepareOrder};
use crate::transfers::{Transfer, TransferState};
use crate::view::{Accounts, Books, Holds, Payments, Spenders, Transfers};

/// The transfers step: is it new, does it follow the rules, who may complete it? Besides what it did, the messages that go
/// on to the position step; the outcomes of their commands say nothing yet.
///
/// # Panics
/// If a command is about no transfer.
pub fn receive(view: &impl Payments, frame: &FrameInput<'_>) -> (Effects, Vec<Message>) {
    let mut effects = Effects::default();
    let mut passed = Vec::with_capacity(frame.commands.len());
    let mut overlay = Overlay::over(view);
    for batch in sub_batches(frame.commands) {
        let mut step = begin(&batch);
        let base_offset = frame.base_offset + batch.start as u64;
        let commands = &frame.commands[batch];
        let about_transfers = commands.iter().all(|command| command.transfer().is_some());
        assert!(about_transfers, "the transfers step takes transfers");
        let batch = FrameInput { base_offset, commands, ..*frame };
        passed.extend(receive_transfers(&overlay, &batch, &mut step));
        step.apply_payments(frame.time, &mut overlay);
        step.apply_tokens(&mut overlay);
        effects.steps.push(step);
    }
    (effects, passed)
}

/// One message of the topic `position`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum PositionCommand {
    /// A step of a transfer on the account that the message names. Its amount and state are those of its row.
    Transfer { account: AccountId, transfer: TransferNo, action: Action },
    /// Limits and funds of the account.
    Admin(Admin),
}

/// The position step: credits before debits, no limit ever broken; operator's commands between the transfers before and
/// after them. What was decided before does nothing and gets its stored outcome; its payer is answered with that.
///
/// # Panics
/// If a message names a transfer that the view does not have, or makes or activates a participant.
pub fn position(
    view: &(impl Books + Transfers),
    now: Millis,
    order: PrepareOrder,
    commands: &[PositionCommand],
) -> Effects {
    let mut effects = Effects::default();
    let mut overlay = Overlay::over(view);
    let moves = |command: &PositionCommand| matches!(command, PositionCommand::Transfer { .. });
    let mut first = 0;
    for run in commands.chunk_by(|left, right| moves(left) && moves(right)) {
        let mut step = begin(&(first..first + run.len()));
        first += run.len();
        if let [PositionCommand::Admin(admin)] = run {
            let outcome = decide_books(&overlay, now, admin, &mut step);
            step.outcomes.push(outcome);
        } else {
            position_run(&overlay, order, run, &mut step);
        }
        step.apply_payments(now, &mut overlay);
        effects.steps.push(step);
    }
    effects
}

fn position_run(
    view: &(impl Transfers + Accounts),
    order: PrepareOrder,
    run: &[PositionCommand],
    effects: &mut Step,
) {
    let mut messages = Vec::with_capacity(run.len());
    let mut repeats = Vec::new();
    for command in run {
        let PositionCommand::Transfer { account, transfer, action } = *command else {
            unreachable!("an operator's command stands alone")
        };
        let row = known(view, transfer);
        let (cause, completion) = (effects.cause(), row.completion().map(|taken| taken.kind));
        if was_decided(action, row.state) {
            repeats.push((cause, row));
            effects.outcomes.push(Outcome::of_prepared(view, row, Some(account)));
            continue;
        }
        let (amount, state, error) = (row.amount, row.state, row.error());
        messages.push(Message { account, transfer, action, amount, state, cause, completion, error });
        effects.outcomes.push(Outcome::done(Subject::Transfer(transfer), crate::money::Balance::ZERO));
    }
    let results = step_positions(view, order, &messages, effects);
    let again = messages.iter().zip(results).filter(|(_, result)| result.repeat);
    repeats.extend(again.map(|(message, _)| (message.cause, known(view, message.transfer))));
    repeats.sort_unstable_by_key(|(cause, _)| *cause);
    effects.answers.extend(repeats.into_iter().map(|(cause, row)| Answer {
        cause,
        to: row.payer,
        transfer: row.id,
        asked: Asked::Position,
        repeat: true,
        completion: row.completion().map(|taken| taken.kind),
    }));
}

fn known(view: &impl Transfers, no: TransferNo) -> &Transfer {
    view.transfer_numbered(no).expect("a message names a transfer that was loaded")
}

/// Whether a message with that action has already had its effect, judged by where its transfer stands. The first message
/// in a wrong state is no repeat.
#[must_use]
pub const fn was_decided(action: Action, state: TransferState) -> bool {
    use TransferState as S;
    match action {
        Action::Prepare => !matches!(state, S::ReceivedPrepare | S::Invalid | S::ExpiredPrepared),
        Action::Commit | Action::Reserve => matches!(state, S::Committed),
        Action::Abort => matches!(state, S::AbortedError),
        Action::TimeoutReserved => matches!(state, S::ExpiredReserved),
    }
}

/// The expiry scan: takes up to `holds_max` due holds of the view out of their waiting states. The messages go on to the
/// position step.
pub fn end_due_holds(
    view: &(impl Holds + Transfers + Spenders),
    now: Millis,
    holds_max: u32,
) -> (Effects, Vec<Message>) {
    let mut step = Step::default();
    let due = view.due(now, holds_max as usize);
    let messages = crate::expiry::expire(view, now, &due, &mut step);
    (Effects { steps: vec![step] }, messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message was decided exactly if its transfer stands where the message leads to, or further on.
    #[test]
    fn a_repeat_is_told_from_a_first_message_by_the_state() {
        let all = TransferState::ALL;
        let leads_to = |action| match action {
            Action::Prepare => vec![TransferState::Reserved, TransferState::AbortedRejected],
            Action::Commit | Action::Reserve => vec![TransferState::Committed],
            Action::Abort => vec![TransferState::AbortedError],
            Action::TimeoutReserved => vec![TransferState::ExpiredReserved],
        };
        for action in Action::ALL {
            let mut after = leads_to(action);
            let mut at = 0;
            while let Some(from) = after.get(at).copied() {
                after.extend(all.into_iter().filter(|to| to.may_follow(Some(from))));
                at += 1;
            }
            for state in all {
                assert_eq!(
                    was_decided(action, state),
                    after.contains(&state),
                    "{} in {state}",
                    action.name()
                );
            }
        }
    }
}
