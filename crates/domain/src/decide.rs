//! `decide`: the one function through which everything that changes state passes.
//!
//! A frame is cut into sub-batches wherever a command must see what an earlier one of the same frame did: at a
//! second command for the same transfer, and around every command that changes accounts or ends holds. Within a
//! sub-batch all transfers go through one position step together.

use std::ops::Range;

use crate::command::Command;
use crate::effects::{Effects, Outcome, Step, Subject};
use crate::expiry::{Due, expire};
use crate::ids::{AccountId, Millis, TransferId, TransferNo};
use crate::overlay::Overlay;
use crate::participants::{AccountKind, decide_admin, set_endpoint};
use crate::positions::{Message, MessageResult, PositionAccount, PositionAccounts, PrepareOrder, process};
use crate::shop::{decide_shop, end_due};
use crate::tokens::{decide_tokens, end_leases};
use crate::transfers::{abort, answer, fulfil, lookup, prepare};
use crate::view::{Accounts, Payments, View};

/// A frame as the decision sees it: commands, and all that the hub stamped on them.
#[derive(Debug, Clone, Copy)]
pub struct FrameInput<'a> {
    /// Where the first command lies in the log.
    pub base_offset: u64,
    /// The frame's time.
    pub time: Millis,
    /// The order of prepares in force when the frame was closed.
    pub order: PrepareOrder,
    /// The commands in the order of the log.
    pub commands: &'a [Command],
}

/// Decides a whole frame against the state before it.
pub fn decide(view: &impl View, frame: &FrameInput<'_>) -> Effects {
    let batches = sub_batches(frame.commands);
    if let [whole] = batches.as_slice() {
        return Effects { steps: vec![decide_sub_batch(view, frame, whole.clone())] };
    }
    let mut overlay = Overlay::over(view);
    let mut steps = Vec::with_capacity(batches.len());
    for batch in batches {
        let step = decide_sub_batch(&overlay, frame, batch);
        step.apply(frame.time, &mut overlay);
        steps.push(step);
    }
    Effects { steps }
}

/// Where the frame is cut. A transfer's second command begins a new sub-batch; admin and expiry stand alone.
pub(crate) fn sub_batches(commands: &[Command]) -> Vec<Range<usize>> {
    let earlier = earlier_commands(commands);
    let mut batches = Vec::with_capacity(1);
    let mut start = 0;
    for (at, command) in commands.iter().enumerate() {
        let after_lone = at > start && commands[at - 1].stands_alone();
        let sees_earlier =
            earlier.get(at).is_some_and(|earlier| earlier.is_some_and(|earlier| earlier >= start));
        if at > start && (after_lone || command.stands_alone() || sees_earlier) {
            batches.push(start..at);
            start = at;
        }
    }
    if start < commands.len() {
        batches.push(start..commands.len());
    }
    batches
}

/// For each command the place of the last one before it with the same transfer. Empty if no transfer occurs
/// twice, which is nearly always.
fn earlier_commands(commands: &[Command]) -> Vec<Option<usize>> {
    let mut places: Vec<(TransferId, usize)> =
        commands.iter().enumerate().filter_map(|(at, command)| Some((command.transfer()?, at))).collect();
    places.sort_unstable();
    if places.windows(2).all(|pair| pair[0].0 != pair[1].0) {
        return Vec::new();
    }
    let mut earlier = vec![None; commands.len()];
    for pair in places.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        earlier[pair[1].1] = Some(pair[0].1);
    }
    earlier
}

fn decide_sub_batch(view: &impl View, frame: &FrameInput<'_>, batch: Range<usize>) -> Step {
    let mut step = begin(&batch);
    let effects = &mut step;
    let base_offset = frame.base_offset + batch.start as u64;
    let commands = &frame.commands[batch];
    match commands {
        [Command::Admin(admin)] => {
            let outcome = decide_admin(view, frame.time, admin, effects);
            effects.outcomes.push(outcome);
        }
        [Command::SetEndpoint(endpoint)] => {
            let outcome = set_endpoint(view, endpoint, effects);
            effects.outcomes.push(outcome);
        }
        [Command::Expire(command)] => {
            let due = Due::of(view, frame.time, *command, base_offset);
            let messages = expire(view, frame.time, &due.holds, effects);
            process(&Limits(view), frame.order, &messages, effects);
            end_leases(&due.leases, frame.time, effects);
            end_due(view, (frame.time, base_offset), &due.checkouts, &due.keys, effects);
            effects.outcomes.push(Outcome::done(Subject::Ended(due.count()), crate::money::Balance::ZERO));
        }
        [Command::Token(command)] => {
            let outcome = decide_tokens(view, frame.time, base_offset, command, effects);
            effects.outcomes.push(Outcome::of_tokens(outcome));
        }
        [Command::Shop(command)] => {
            let outcome = decide_shop(view, frame.time, base_offset, command, effects);
            effects.outcomes.push(Outcome::of_shop(outcome));
        }
        _ => decide_transfers(view, &FrameInput { base_offset, commands, ..*frame }, effects),
    }
    step
}

/// The step of that sub-batch, with room for what transfers do.
pub(crate) fn begin(batch: &Range<usize>) -> Step {
    let first = u32::try_from(batch.start).expect("a frame is bounded");
    let outcomes = Vec::with_capacity(batch.len());
    if batch.len() == 1 {
        return Step { outcomes, ..Step::at(first) };
    }
    Step {
        transfers: Vec::with_capacity(batch.len()),
        state_changes: Vec::with_capacity(2 * batch.len()),
        position_changes: Vec::with_capacity(batch.len()),
        notifications: Vec::with_capacity(batch.len()),
        outcomes,
        ..Step::at(first)
    }
}

/// Decides a command about a transfer that a command of another kind leads to. Nobody sent it, so nobody is answered.
pub(crate) fn decide_inner(
    view: &impl Payments,
    (time, base_offset): (Millis, u64),
    command: &Command,
    effects: &mut Step,
) -> Outcome {
    let commands = std::slice::from_ref(command);
    let answers = effects.answers.len();
    // Alone in its step it has no order among others.
    decide_transfers(
        view,
        &FrameInput { base_offset, time, order: PrepareOrder::Arrival, commands },
        effects,
    );
    effects.answers.truncate(answers);
    effects.outcomes.pop().expect("every command has one outcome")
}

/// The transfers step for each command, then one position step for all that passed it.
fn decide_transfers(view: &impl Payments, frame: &FrameInput<'_>, effects: &mut Step) {
    let messages = receive_transfers(view, frame, effects);
    step_positions(view, frame.order, &messages, effects);
}

/// One position step for messages whose commands await their outcomes.
pub(crate) fn step_positions(
    view: &impl Accounts,
    order: PrepareOrder,
    messages: &[Message],
    effects: &mut Step,
) -> Vec<MessageResult> {
    let results = process(&Limits(view), order, messages, effects);
    for (message, result) in messages.iter().zip(&results) {
        let MessageResult { state, error, value, .. } = *result;
        *effects.outcome_mut(message.cause) = Outcome::reached(message.transfer, state, error, value);
    }
    results
}

/// The transfers step for each command: the messages of those that passed it. Their outcomes say nothing yet.
pub(crate) fn receive_transfers(
    view: &impl Payments,
    frame: &FrameInput<'_>,
    effects: &mut Step,
) -> Vec<Message> {
    let FrameInput { base_offset, time: now, order: _, commands } = *frame;
    let mut messages: Vec<Message> = Vec::with_capacity(commands.len());
    let mut next = view.next_transfer();
    for (offset, command) in (base_offset..).zip(commands) {
        let (cause, told) = (effects.cause(), effects.notifications.len());
        let new_before = effects.transfers.len();
        let step = match command {
            Command::Prepare(command) => prepare(view, now, (next, offset), command, effects),
            Command::Fulfil(command) => fulfil(view, now, command, effects),
            Command::Abort(command) => abort(view, now, command, effects),
            Command::Lookup(command) => Err(lookup(view, *command)),
            Command::Expire(_)
            | Command::Admin(_)
            | Command::SetEndpoint(_)
            | Command::Token(_)
            | Command::Shop(_) => {
                unreachable!("they stand alone in their sub-batch")
            }
        };
        if effects.transfers.len() > new_before {
            next = TransferNo(next.0 + 1);
        }
        match step {
            Ok(message) => {
                messages.push(message);
                effects.outcomes.push(Outcome::done(Subject::Nothing, crate::money::Balance::ZERO));
            }
            Err(outcome) => {
                // What moved a transfer has told its parties.
                if effects.notifications.len() == told {
                    effects.answers.extend(answer(view, cause, command, &outcome));
                }
                effects.outcomes.push(outcome);
            }
        }
    }
    messages
}

/// The accounts of a view, as the position step wants them.
pub(crate) struct Limits<'a, V>(pub(crate) &'a V);

impl<V: Accounts> PositionAccounts for Limits<'_, V> {
    fn position_account(&self, id: AccountId) -> Option<PositionAccount> {
        let account = self.0.account(id).filter(|account| account.kind == AccountKind::Position)?;
        let settlement = self.0.account(account.settlement())?;
        Some(PositionAccount {
            value: account.value,
            reserved: account.reserved,
            settlement: settlement.value,
            net_debit_cap: account.net_debit_cap,
            alarm_percentage: account.alarm_percentage,
        })
    }
}
