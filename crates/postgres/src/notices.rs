//! What participants are told of a transfer that moved.

use holdfast_domain::effects::{self, Outcome};
use holdfast_domain::transfers::Transfer;
use holdfast_messages::{Notice, Notification, Place, TraceId, TransferNotice};

use crate::outbox::Outbox;

/// A transfer that moved, or whose step was refused.
pub(crate) struct MovedTransfer<'a> {
    pub(crate) transfer: &'a Transfer,
    pub(crate) outcome: &'a Outcome,
    pub(crate) trace: TraceId,
    /// The message of `transfers` that led to it.
    pub(crate) origin: Option<Place>,
}

impl MovedTransfer<'_> {
    pub(crate) fn tell(&self, told: &effects::Notification, outbox: &mut Outbox<'_>) {
        let MovedTransfer { transfer, outcome, trace, origin } = *self;
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
