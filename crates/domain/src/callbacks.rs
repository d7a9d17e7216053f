//! Who is to be called about what: derived from a frame's commands and effects, live and on replay alike.
//!
//! The effects say what happened; this says which message of the FSPIOP standard carries it to whom, including the
//! answers to repeats, refusals and lookups, which change nothing and therefore appear in no row.

use crate::codes::ErrorCode;
use crate::command::{Command, FulfilAction};
use crate::effects::{Effects, Notification, NotificationKind, Outcome, Party, Step};
use crate::ids::{ParticipantId, TransferId, TransferNo};
use crate::transfers::{Code, Completion, CompletionKind, Reason, Transfer, TransferState};
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
    /// The command of the frame that caused it, by its index; its bytes are what a forward hands on.
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
    /// `PUT /transfers/{id}` by the hub: where the transfer stands.
    Put(TransferState),
    /// `PATCH /transfers/{id}` by the hub: how a reserved transfer ended.
    Patch(TransferState),
    /// `PUT /transfers/{id}/error` by the hub.
    Error(Code, Option<Reason>),
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
            CallbackMessage::ForwardError | CallbackMessage::Error(..) => "FSPIOP_CALLBACK_URL_TRANSFER_ERROR",
        }
    }
}

/// The callbacks of a frame, in its order; `after` is the state after it.
pub fn callbacks(commands: &[Command], effects: &Effects, after: &impl View) -> Vec<Callback> {
    let mut calls = Vec::new();
    let mut first = 0;
    for step in effects.steps() {
        let end = first + step.outcomes.len();
        StepCalls::new(&commands[first..end], first, step, after).derive(&mut calls);
        first = end;
    }
    calls
}

struct StepCalls<'a, V> {
    commands: &'a [Command],
    first: usize,
    step: Step<'a>,
    after: &'a V,
    /// The transfers that this sub-batch moved, and by which command (none: by expiry).
    moved: Vec<TransferNo>,
    by_transfer: Vec<(TransferNo, usize)>,
}

impl<'a, V: View> StepCalls<'a, V> {
    fn new(commands: &'a [Command], first: usize, step: Step<'a>, after: &'a V) -> StepCalls<'a, V> {
        let mut moved: Vec<TransferNo> = step.state_changes.iter().map(|change| change.transfer).collect();
        moved.sort_unstable();
        moved.dedup();
        let about_transfers = commands.iter().zip(step.outcomes).enumerate();
        let mut by_transfer: Vec<(TransferNo, usize)> = about_transfers
            .filter(|(_, (command, outcome))| command.transfer().is_some() && outcome.state.is_some())
            .map(|(at, (_, outcome))| (TransferNo(outcome.subject), at))
            .collect();
        by_transfer.sort_unstable();
        StepCalls { commands, first, step, after, moved, by_transfer }
    }

    fn derive(&self, calls: &mut Vec<Callback>) {
        for (at, (command, outcome)) in self.commands.iter().zip(self.step.outcomes).enumerate() {
            let fresh = outcome.state.is_some() && self.moved.binary_search(&TransferNo(outcome.subject)).is_ok();
            let lookup = matches!(command, Command::Lookup(_));
            if command.transfer().is_some() && (!fresh || lookup) {
                self.unmoved(at, command, outcome, calls);
            }
        }
        self.step.notifications.iter().for_each(|row| self.moved_by(row, calls));
    }

    fn call(&self, to: ParticipantId, transfer: TransferId, message: CallbackMessage, at: usize) -> Callback {
        let origin = u32::try_from(self.first + at).expect("a frame is bounded");
        Callback { to, transfer, message, origin }
    }

    /// The transfer moved and a notification says so.
    fn moved_by(&self, row: &Notification, calls: &mut Vec<Callback>) {
        let Some(transfer) = self.after.transfer_numbered(row.transfer) else { return };
        let found = self.by_transfer.binary_search_by_key(&row.transfer, |(no, _)| *no);
        let at = found.map_or(0, |found| self.by_transfer[found].1);
        let to = match row.to {
            Party::Payer => transfer.payer,
            Party::Payee => transfer.payee,
        };
        let error = |code: ErrorCode| CallbackMessage::Error(code.into(), transfer.reason);
        let message = match (row.kind, self.commands.get(at)) {
            (NotificationKind::Prepared, _) => CallbackMessage::ForwardPrepare,
            (NotificationKind::Committed, Some(Command::Fulfil(fulfil))) => match (fulfil.action, row.to) {
                (FulfilAction::Commit, _) => CallbackMessage::ForwardFulfil,
                (FulfilAction::Reserve, Party::Payer) => CallbackMessage::Put(TransferState::Committed),
                (FulfilAction::Reserve, Party::Payee) => CallbackMessage::Patch(TransferState::Committed),
            },
            (NotificationKind::Committed, _) => CallbackMessage::Put(TransferState::Committed),
            (NotificationKind::Aborted, Some(Command::Fulfil(fulfil))) => {
                // The wrong preimage: the payee must hear of it too, or it believes that it was paid.
                let to_payee = match fulfil.action {
                    FulfilAction::Commit => error(ErrorCode::ValidationError),
                    FulfilAction::Reserve => CallbackMessage::Patch(TransferState::AbortedError),
                };
                calls.push(self.call(transfer.payee, transfer.id, to_payee, at));
                error(ErrorCode::ValidationError)
            }
            (NotificationKind::Aborted, _) => CallbackMessage::ForwardError,
            (NotificationKind::Expired, _) => error(ErrorCode::TransferExpired),
            (NotificationKind::Refused, _) => match row.code {
                Some(code) => CallbackMessage::Error(code, transfer.reason),
                None => error(ErrorCode::InternalServerError),
            },
        };
        calls.push(self.call(to, transfer.id, message, at));
    }

    /// The command moved nothing: a repeat, a refusal or a question. Its sender alone is told.
    fn unmoved(&self, at: usize, command: &Command, outcome: &Outcome, calls: &mut Vec<Callback>) {
        let known = command.transfer().and_then(|id| self.after.transfer(id));
        let mut tell = |to, message| {
            calls.extend(command.transfer().map(|id| self.call(to, id, message, at)));
        };
        let refusal = outcome.code.map(|code| CallbackMessage::Error(code, outcome.reason));
        match command {
            Command::Prepare(prepare) => match (outcome.state, refusal) {
                // Another sender than the payer was refused before anything was looked at.
                (None, Some(refusal)) => tell(prepare.source, refusal),
                _ if known.is_some_and(|known| known.hash != prepare.hash) => {
                    tell(prepare.source, CallbackMessage::Error(ErrorCode::ModifiedRequest.into(), None));
                }
                (Some(state), _) if state.is_final() => tell(prepare.source, CallbackMessage::Put(state)),
                _ => {}
            },
            Command::Lookup(lookup) => match (outcome.state, refusal) {
                (Some(state), _) => tell(lookup.source, CallbackMessage::Put(state)),
                (None, Some(refusal)) => tell(lookup.source, refusal),
                (None, None) => {}
            },
            Command::Fulfil(fulfil) => {
                let (kind, reserves) = match fulfil.action {
                    FulfilAction::Commit => (CompletionKind::Commit, false),
                    FulfilAction::Reserve => (CompletionKind::Reserve, true),
                };
                let repeat = Completion { kind, digest: fulfil.fulfilment };
                if is_repeat(known, fulfil.source, repeat) {
                    if let Some(state) = outcome.state {
                        let again = if reserves { CallbackMessage::Patch(state) } else { CallbackMessage::Put(state) };
                        tell(fulfil.source, again);
                    }
                } else if let Some(refusal) = refusal {
                    tell(fulfil.source, refusal);
                    // A payee that reserved must not roll back or forward before it is told how it ended.
                    let too_late = outcome.code == Some(ErrorCode::TransferExpired.into());
                    let aborted = outcome.state.is_some_and(|state| state.external() == "ABORTED");
                    if reserves && (too_late || aborted) && known.is_some_and(|known| known.payee == fulfil.source) {
                        tell(fulfil.source, CallbackMessage::Patch(TransferState::ExpiredReserved));
                    }
                }
            }
            Command::Abort(abort) => {
                let repeat = Completion { kind: CompletionKind::Abort, digest: abort.digest };
                match (outcome.state, refusal) {
                    (Some(state), _) if is_repeat(known, abort.source, repeat) => {
                        tell(abort.source, CallbackMessage::Put(state));
                    }
                    (_, Some(refusal)) => tell(abort.source, refusal),
                    (_, None) => {}
                }
            }
            Command::Expire(_) | Command::Admin(_) | Command::SetEndpoint(_) => {}
        }
    }
}

/// Whether the completion is the one that the transfer took already, from its payee.
fn is_repeat(known: Option<&Transfer>, source: ParticipantId, completion: Completion) -> bool {
    known.is_some_and(|known| known.payee == source && known.completion == Some(completion))
}
