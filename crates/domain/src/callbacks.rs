//! Who is to be called about what: derived from a frame's commands and effects, live and on replay alike.
//!
//! The effects say what happened; this says which message of the FSPIOP standard carries it to whom, including the
//! answers to repeats, refusals and lookups, which change nothing and therefore appear in no row.
//!
//! What a message says comes from the outcome of its own command, never from where the transfer stands later. From
//! the state after the frame only what a transfer never changes is read: its id, its parties, the hash of its prepare
//! and the completion that it took. So a state that is further on gives the same callbacks.

use crate::codes::ErrorCode;
use crate::command::{Command, FulfilAction};
use crate::effects::{Effects, LimitAlarm, Notification, NotificationKind, Outcome, Party, Step};
use crate::ids::{AccountId, HUB, ParticipantId, TransferId, TransferNo};
use crate::money::{Amount, Balance};
use crate::shop::CHARGE_ABORTED;
use crate::transfers::{Code, Completion, CompletionKind, Reason, TransferState};
use crate::view::View;

/// A message to one participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Callback {
    /// Who is called.
    pub to: ParticipantId,
    /// About which transfer.
    pub transfer: TransferId,
    /// With what.
    pub message: CallbackMessage,
    /// The command of the frame that caused it, by its index; its bytes are what a forward hands on. What ran out
    /// has the expiry as its origin.
    pub origin: u32,
}

/// What a callback says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallbackMessage {
    /// `POST /transfers` with the payer's own bytes.
    ForwardPrepare,
    /// `PUT /transfers/{id}` with the payee's own bytes.
    ForwardFulfil,
    /// `PUT /transfers/{id}/error` with the payee's own bytes.
    ForwardError,
    /// `PUT /transfers/{id}` by the hub: where the transfer stood; participants are shown its `external()`.
    Put(TransferState),
    /// `PATCH /transfers/{id}` by the hub, to a payee that said RESERVED: how the transfer ended. The state is
    /// final; for a transfer that ran out and awaits the scan, the one that the scan will bring.
    Patch(TransferState),
    /// `PUT /transfers/{id}/error` by the hub.
    Error(Code, Option<Reason>),
    /// A position passed the alarm percentage of its cap. Not of the standard, and about no transfer.
    Alarm {
        /// The position account.
        account: AccountId,
        /// What it stood at.
        value: Balance,
        /// The cap.
        net_debit_cap: Amount,
    },
}

impl CallbackMessage {
    /// The type under which a participant registers where it wants this message.
    #[must_use]
    pub const fn endpoint_type(self) -> &'static str {
        match self {
            CallbackMessage::ForwardPrepare => "FSPIOP_CALLBACK_URL_TRANSFER_POST",
            CallbackMessage::ForwardFulfil | CallbackMessage::Put(_) | CallbackMessage::Patch(_) => {
                "FSPIOP_CALLBACK_URL_TRANSFER_PUT"
            }
            CallbackMessage::ForwardError | CallbackMessage::Error(..) => {
                "FSPIOP_CALLBACK_URL_TRANSFER_ERROR"
            }
            CallbackMessage::Alarm { .. } => "ALARM_NOTIFICATION_URL",
        }
    }
}

/// The callbacks of a frame; `after` is the state after it.
///
/// They come in the order of the commands that caused them, those of one command payer first, an error before the
/// PATCH that follows from it. Nobody is called who is not a participant.
///
/// # Panics
/// If the effects are not those of the commands, or `after` is a state before them.
pub fn callbacks(commands: &[Command], effects: &Effects, after: &impl View) -> Vec<Callback> {
    assert_eq!(commands.len(), effects.outcomes.len(), "every command has one outcome");
    let mut calls = Vec::with_capacity(commands.len());
    let mut first = 0;
    for step in effects.steps() {
        let end = first + step.outcomes.len();
        StepCalls::new(&commands[first..end], first, step, after).derive(&mut calls);
        first = end;
    }
    calls
}

/// The limit alarms of a frame, each for whoever holds the account; they belong to its last command and stand after
/// its other callbacks.
pub fn alarms(commands: &[Command], effects: &Effects, after: &impl View) -> Vec<Callback> {
    let origin = u32::try_from(commands.len().saturating_sub(1)).expect("a frame is bounded");
    let alarm = |alarm: &LimitAlarm| {
        let LimitAlarm { account, value, net_debit_cap } = *alarm;
        let message = CallbackMessage::Alarm { account, value, net_debit_cap };
        let to = after.account(account).map_or(HUB, |row| row.participant);
        Callback { to, transfer: NO_TRANSFER, message, origin }
    };
    effects.alarms.iter().map(alarm).collect()
}

/// Stands where a callback is about no transfer.
pub const NO_TRANSFER: TransferId = TransferId(0);

/// One sub-batch: at most one command for each transfer, or an expiry alone.
struct StepCalls<'a, V> {
    commands: &'a [Command],
    first: usize,
    step: Step<'a>,
    after: &'a V,
    /// Which command is about which transfer, ordered by transfer.
    by_transfer: Vec<(TransferNo, usize)>,
}

impl<'a, V: View> StepCalls<'a, V> {
    fn new(commands: &'a [Command], first: usize, step: Step<'a>, after: &'a V) -> StepCalls<'a, V> {
        let about_transfers = commands.iter().zip(step.outcomes).enumerate();
        let mut by_transfer: Vec<(TransferNo, usize)> = about_transfers
            .filter(|(_, (command, outcome))| command.transfer().is_some() && outcome.state.is_some())
            .map(|(at, (_, outcome))| (TransferNo(outcome.subject), at))
            .collect();
        by_transfer.sort_unstable();
        StepCalls { commands, first, step, after, by_transfer }
    }

    /// The command that moved the transfer: the one about it, else the expiry, which stands alone.
    fn mover(&self, transfer: TransferNo) -> usize {
        let found = self.by_transfer.binary_search_by_key(&transfer, |(no, _)| *no);
        found.map_or(0, |found| self.by_transfer[found].1)
    }

    fn derive(&self, calls: &mut Vec<Callback>) {
        let begin = calls.len();
        let mut moves = vec![false; self.commands.len()];
        self.step.state_changes.iter().for_each(|change| moves[self.mover(change.transfer)] = true);
        self.step.notifications.iter().for_each(|row| self.notified(row, calls));
        for at in (0..self.commands.len()).filter(|at| !moves[*at]) {
            self.unmoved(at, calls);
        }
        // Notifications come bin by bin.
        calls[begin..].sort_by_key(|call| call.origin);
    }

    fn call(
        &self,
        at: usize,
        to: ParticipantId,
        transfer: TransferId,
        message: CallbackMessage,
        calls: &mut Vec<Callback>,
    ) {
        let origin = u32::try_from(self.first + at).expect("a frame is bounded");
        if self.after.participant(to).is_some() {
            calls.push(Callback { to, transfer, message, origin });
        }
    }

    /// The transfer moved and a notification says so.
    fn notified(&self, row: &Notification, calls: &mut Vec<Callback>) {
        let transfer = self.after.transfer_numbered(row.transfer).expect("a notification names a transfer");
        let at = self.mover(row.transfer);
        let (command, outcome) = (&self.commands[at], &self.step.outcomes[at]);
        let mut tell = |to, message| self.call(at, to, transfer.id, message, calls);
        let to = match row.to {
            Party::Payer => transfer.payer,
            Party::Payee => transfer.payee,
        };
        match (row.kind, command) {
            // Nobody is asked: the shop itself settles it or gives it up.
            (NotificationKind::Prepared, Command::Shop(_)) => {}
            (NotificationKind::Prepared, _) => tell(to, CallbackMessage::ForwardPrepare),
            (NotificationKind::Committed, Command::Fulfil(fulfil)) => match (fulfil.action, row.to) {
                (FulfilAction::Commit, _) => tell(to, CallbackMessage::ForwardFulfil),
                (FulfilAction::Reserve, Party::Payer) => {
                    tell(to, CallbackMessage::Put(TransferState::Committed))
                }
                (FulfilAction::Reserve, Party::Payee) => {
                    tell(to, CallbackMessage::Patch(TransferState::Committed))
                }
            },
            (NotificationKind::Aborted, Command::Fulfil(fulfil)) => {
                // The wrong preimage: the payee must hear of it too, or it believes that it was paid.
                let wrong = CallbackMessage::Error(ErrorCode::ValidationError.into(), outcome.reason);
                tell(transfer.payer, wrong);
                match fulfil.action {
                    FulfilAction::Commit => tell(transfer.payee, wrong),
                    FulfilAction::Reserve => {
                        tell(transfer.payee, CallbackMessage::Patch(TransferState::AbortedError));
                    }
                }
            }
            (NotificationKind::Committed, Command::Shop(_)) => match row.to {
                Party::Payer => tell(to, CallbackMessage::Put(TransferState::Committed)),
                Party::Payee => tell(to, CallbackMessage::Patch(TransferState::Committed)),
            },
            // A checkout that failed, or whose deadline has passed.
            (NotificationKind::Aborted, Command::Shop(_) | Command::Expire(_)) => {
                let code = Code::of_payee(CHARGE_ABORTED).expect("it is not zero");
                tell(to, CallbackMessage::Error(code, None));
            }
            (NotificationKind::Aborted, _) => tell(to, CallbackMessage::ForwardError),
            (NotificationKind::Expired, _) => {
                tell(to, CallbackMessage::Error(ErrorCode::TransferExpired.into(), None));
            }
            (NotificationKind::Refused, _) => {
                let code = row.code.expect("a refusal carries its code");
                tell(to, CallbackMessage::Error(code, outcome.reason));
            }
            (NotificationKind::Committed, _) => unreachable!("only a fulfil commits"),
        }
    }

    /// The command moved nothing: a repeat, a refusal or a question. Its sender alone is told.
    fn unmoved(&self, at: usize, calls: &mut Vec<Callback>) {
        let (command, outcome) = (&self.commands[at], &self.step.outcomes[at]);
        let Some(id) = command.transfer() else { return };
        let mut tell = |to, message| self.call(at, to, id, message, calls);
        let refusal = outcome.code.map(|code| CallbackMessage::Error(code, outcome.reason));
        // Without a state there was no transfer yet, or it is not the sender's business.
        let Some(state) = outcome.state else {
            let refusal = refusal.expect("what is not told a state is told why");
            return tell(sender(command), refusal);
        };
        let finished = state.is_final();
        match command {
            Command::Prepare(prepare) => {
                let known = self.after.transfer(id).expect("a transfer that has a state is known");
                if known.hash != prepare.hash {
                    tell(prepare.source, CallbackMessage::Error(ErrorCode::ModifiedRequest.into(), None));
                } else if finished {
                    tell(prepare.source, CallbackMessage::Put(state));
                }
            }
            Command::Lookup(lookup) => tell(lookup.source, CallbackMessage::Put(state)),
            Command::Fulfil(fulfil) => {
                let (kind, again): (_, fn(_) -> _) = match fulfil.action {
                    FulfilAction::Commit => (CompletionKind::Commit, CallbackMessage::Put),
                    FulfilAction::Reserve => (CompletionKind::Reserve, CallbackMessage::Patch),
                };
                if self.took(id, fulfil.source, Completion { kind, digest: fulfil.fulfilment }) {
                    if finished {
                        tell(fulfil.source, again(state));
                    }
                } else {
                    tell(fulfil.source, refusal.expect("what is no repeat was refused"));
                    // It waits to be told how a transfer ended that did not wait for it.
                    if let (FulfilAction::Reserve, Some(end)) = (fulfil.action, end_without_payee(outcome)) {
                        tell(fulfil.source, CallbackMessage::Patch(end));
                    }
                }
            }
            Command::Abort(abort) => {
                let completion = Completion { kind: CompletionKind::Abort, digest: abort.digest };
                if !self.took(id, abort.source, completion) {
                    tell(abort.source, refusal.expect("what is no repeat was refused"));
                } else if finished {
                    tell(abort.source, CallbackMessage::Put(state));
                }
            }
            Command::Expire(_)
            | Command::Admin(_)
            | Command::SetEndpoint(_)
            | Command::Token(_)
            | Command::Shop(_) => {}
        }
    }

    /// Whether the transfer took this very completion from its payee before this step.
    ///
    /// Asked of the state after the frame, for a command that found the transfer and did not move it. That is the
    /// same: what a transfer refuses once (not RESERVED, or too late) it never takes later.
    fn took(&self, id: TransferId, source: ParticipantId, completion: Completion) -> bool {
        let known = self.after.transfer(id).expect("a transfer that has a state is known");
        known.payee == source && known.completion() == Some(completion)
    }
}

/// Who sent a command that is about a transfer.
fn sender(command: &Command) -> ParticipantId {
    match command {
        Command::Prepare(prepare) => prepare.source,
        Command::Fulfil(fulfil) => fulfil.source,
        Command::Abort(abort) => abort.source,
        Command::Lookup(lookup) => lookup.source,
        Command::Expire(_)
        | Command::Admin(_)
        | Command::SetEndpoint(_)
        | Command::Token(_)
        | Command::Shop(_) => HUB,
    }
}

/// How a transfer ends that refused its payee's fulfil because it ran out or had ended. `None` where the refusal
/// says nothing of it (another sender, another fulfil before) or where it may still be reserved.
#[must_use]
pub fn end_without_payee(refused: &Outcome) -> Option<TransferState> {
    let expired = refused.code == Some(ErrorCode::TransferExpired.into());
    let not_reserved = refused.reason == Some(Reason::NotReserved);
    match refused.state? {
        TransferState::Reserved if expired => Some(TransferState::ExpiredReserved),
        TransferState::ReservedTimeout if not_reserved => Some(TransferState::ExpiredReserved),
        state if not_reserved && state.is_final() => Some(state),
        _ => None,
    }
}
