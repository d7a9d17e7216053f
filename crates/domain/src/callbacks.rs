//! Who is to be called about what: derived from a frame's effects, live and on replay alike.
//!
//! The effects say what happened; this says which message of the FSPIOP standard carries it to whom, including the
//! answers to repeats, refusals and lookups, which change nothing and therefore appear in no row.
//!
//! What a message says comes from the effects alone, never from where the transfer stands later. From the state after the
//! frame only what a transfer never changes is read: its id and its parties. So a state that is further on gives the same
//! callbacks.

use crate::codes::ErrorCode;
use crate::effects::{Asked, Effects, LimitAlarm, NotificationKind, Outcome, Party};
use crate::ids::{AccountId, HUB, ParticipantId, TransferId};
use crate::money::{Amount, Balance};
use crate::transfers::{Code, CompletionKind, ErrorInformation, Reason, TransferState};
use crate::view::{Accounts, Participants, Transfers};

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
    /// A position passed the alarm percentage of its cap, and stood at this value. Not of the standard, and about no transfer.
    #[allow(missing_docs, reason = "the names say it")]
    Alarm { account: AccountId, value: Balance, net_debit_cap: Amount },
}

impl CallbackMessage {
    /// Who is called of those that have an endpoint for it: the one it is for, or the hub with an alarm that this one does not want.
    pub fn receiver(
        self,
        to: ParticipantId,
        has_endpoint: impl Fn(ParticipantId, &'static str) -> bool,
    ) -> Option<ParticipantId> {
        let instead = matches!(self, CallbackMessage::Alarm { .. }).then_some(HUB);
        let kind = self.endpoint_type();
        std::iter::once(to).chain(instead).find(|to| has_endpoint(*to, kind))
    }

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
/// If `after` is a state before the effects.
pub fn callbacks(effects: &Effects, after: &(impl Transfers + Participants)) -> Vec<Callback> {
    let mut calls = Vec::with_capacity(effects.all(|step| &step.outcomes).count());
    let mut call = |origin, to, transfer, message| {
        if after.participant(to).is_some() {
            calls.push(Callback { to, transfer, message, origin });
        }
    };
    for row in effects.all(|step| &step.notifications).filter(|row| !row.silent) {
        let transfer = after.transfer_numbered(row.transfer).expect("a notification names a transfer");
        for party in row.parties() {
            let message = told(row.kind, party, row.completion, row.error);
            message.into_iter().for_each(|message| {
                call(row.cause, transfer.party(party), transfer.id, message);
            });
        }
    }
    for row in effects.all(|step| &step.answers) {
        let messages = answered(row.asked, row.repeat, effects.outcome(row.cause));
        messages.for_each(|message| call(row.cause, row.to, row.transfer, message));
    }
    // Notifications come bin by bin.
    calls.sort_by_key(|call| call.origin);
    calls
}

/// The limit alarms of a frame, each for whoever holds the account; they belong to its last command and stand after
/// its other callbacks.
pub fn alarms(effects: &Effects, after: &impl Accounts) -> Vec<Callback> {
    let origin = effects.steps.last().map_or(0, |last| last.cause().saturating_sub(1));
    let alarm = |alarm: &LimitAlarm| {
        let LimitAlarm { account, value, net_debit_cap } = *alarm;
        let message = CallbackMessage::Alarm { account, value, net_debit_cap };
        let to = after.account(account).map_or(HUB, |row| row.participant);
        Callback { to, transfer: NO_TRANSFER, message, origin }
    };
    effects.all(|step| &step.alarms).map(alarm).collect()
}

/// Stands where a callback is about no transfer.
pub const NO_TRANSFER: TransferId = TransferId(0);

/// What a party hears of a transfer that moved, or whose step was refused: both profiles call with this. `None` only for a
/// refusal without an error, which no decision makes.
#[must_use]
pub fn told(
    kind: NotificationKind,
    party: Party,
    completion: Option<CompletionKind>,
    error: Option<ErrorInformation>,
) -> Option<CallbackMessage> {
    let refusal = error.map(|(code, reason)| CallbackMessage::Error(code, reason));
    let waits = completion == Some(CompletionKind::Reserve);
    match kind {
        NotificationKind::Prepared => Some(CallbackMessage::ForwardPrepare),
        NotificationKind::Committed => Some(match party {
            _ if !waits => CallbackMessage::ForwardFulfil,
            Party::Payer => CallbackMessage::Put(TransferState::Committed),
            Party::Payee => CallbackMessage::Patch(TransferState::Committed),
        }),
        NotificationKind::Aborted if completion == Some(CompletionKind::Abort) => {
            Some(CallbackMessage::ForwardError)
        }
        // The wrong preimage; a payee that said RESERVED is told in its own way.
        NotificationKind::Aborted if waits && party == Party::Payee => {
            Some(CallbackMessage::Patch(TransferState::AbortedError))
        }
        NotificationKind::Aborted | NotificationKind::Expired | NotificationKind::Refused => refusal,
    }
}

/// What the sender of a command hears that moved nothing: both profiles call with this. Nothing where its own notification
/// is still to come.
pub fn answered(asked: Asked, repeat: bool, outcome: &Outcome) -> impl Iterator<Item = CallbackMessage> {
    let shown: Option<fn(TransferState) -> CallbackMessage> = match asked {
        Asked::Position | Asked::Admin => None,
        Asked::Reserve => Some(CallbackMessage::Patch),
        Asked::Prepare | Asked::Commit | Asked::Abort | Asked::Lookup => Some(CallbackMessage::Put),
    };
    let messages = shown.map(|shown| {
        let refusal = outcome.error().map(|(code, reason)| CallbackMessage::Error(code, reason));
        match outcome.state {
            // Without a state there was no transfer yet, or it is not the sender's business.
            None => [refusal, None],
            Some(state) if asked == Asked::Lookup => [Some(shown(state)), None],
            Some(state) if repeat => [state.is_final().then(|| shown(state)), None],
            // Who said RESERVED waits to be told how a transfer ended that did not wait for it.
            Some(state) if asked == Asked::Reserve => {
                [refusal, end_without_payee(state, outcome).map(CallbackMessage::Patch)]
            }
            Some(_) => [refusal, None],
        }
    });
    messages.into_iter().flatten().flatten()
}

/// How a transfer ends that refused its payee's fulfil because it ran out or had ended. `None` where the refusal
/// says nothing of it (another sender, another fulfil before) or where it may still be reserved.
fn end_without_payee(state: TransferState, refused: &Outcome) -> Option<TransferState> {
    let expired = refused.code == Some(ErrorCode::TransferExpired.into());
    let not_reserved = refused.reason == Some(Reason::NotReserved);
    match state {
        TransferState::Reserved if expired => Some(TransferState::ExpiredReserved),
        TransferState::ReservedTimeout if not_reserved => Some(TransferState::ExpiredReserved),
        state if not_reserved && state.is_final() => Some(state),
        _ => None,
    }
}
