//! What participants are told of a transfer that moved.

use holdfast_domain::effects::{self, Outcome};
use holdfast_domain::transfers::Transfer;
use holdfast_domain::view::Accounts;
use holdfast_messages::{Alarm, Notice, Notification, Place, TraceId, TransferNotice};

use crate::loaded::Loaded;
use crate::outbox::Outbox;

/// A transfer that moved, or whose step was refused.
pub(crate) struct ToldTransfer<'a> {
    pub(crate) transfer: &'a Transfer,
    pub(crate) outcome: &'a Outcome,
    pub(crate) trace: TraceId,
    /// The message of `transfers` that led to it.
    pub(crate) origin: Option<Place>,
}

impl ToldTransfer<'_> {
    pub(crate) fn tell(&self, told: &effects::Notification, outbox: &mut Outbox<'_>) {
        let ToldTransfer { transfer, outcome, trace, origin } = *self;
        let effects::Notification { kind, action, completion, error, silent, .. } = *told;
        for party in told.parties().filter(|_| !silent) {
            let notice = Notice::Transfer(TransferNotice {
                to: Some(transfer.party(party)),
                party,
                transfer: transfer.id,
                kind,
                action,
                state: outcome.state,
                error,
                completion,
                subject: outcome.subject.number(),
                value: outcome.value,
                origin,
            });
            outbox.send(&Notification { trace, notice });
        }
    }
}

/// Tells the participant whose account it is, if that was loaded.
pub(crate) fn tell_alarm(alarm: &effects::LimitAlarm, loaded: &Loaded, outbox: &mut Outbox<'_>) {
    let to = loaded.account(alarm.account).map(|account| account.participant);
    outbox.send(&Notification { trace: TraceId::NOBODY, notice: Notice::Alarm(Alarm::of(alarm, to)) });
}
