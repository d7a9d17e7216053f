//! What participants are told of a transfer that moved.

use holdfast_domain::effects::{self, NotificationKind, Outcome, Party};
use holdfast_domain::positions::Action;
use holdfast_domain::transfers::{CompletionKind, Transfer};
use holdfast_messages::{Notice, Notification, Place, TraceId, TransferNotice};

use crate::outbox::Outbox;

/// A transfer that moved, or whose step was refused.
pub(crate) struct MovedTransfer<'a> {
    pub(crate) transfer: &'a Transfer,
    /// The fulfil or abort that it took.
    pub(crate) completion: Option<CompletionKind>,
    /// The step that did it; none did if it never came to that.
    pub(crate) action: Option<Action>,
    pub(crate) outcome: &'a Outcome,
    pub(crate) trace: TraceId,
    /// The message of `transfers` that led to it.
    pub(crate) origin: Option<Place>,
}

impl MovedTransfer<'_> {
    pub(crate) fn tell(&self, notification: &effects::Notification, outbox: &mut Outbox<'_>) {
        self.tell_party(notification.kind, notification.to, outbox);
        // The wrong preimage: the payee must hear of it too, or it believes that it was paid.
        if notification.kind == NotificationKind::Aborted && self.completion != Some(CompletionKind::Abort) {
            self.tell_party(notification.kind, Party::Payee, outbox);
        }
    }

    /// The same to that party alone.
    pub(crate) fn tell_party(&self, kind: NotificationKind, party: Party, outbox: &mut Outbox<'_>) {
        let MovedTransfer { transfer, completion, action, outcome, trace, origin } = *self;
        let notice = Notice::Transfer(TransferNotice {
            transfer: transfer.id,
            kind,
            party,
            action,
            state: outcome.state,
            error: outcome.code.map(|code| (code, outcome.reason)),
            completion,
            subject: outcome.subject,
            value: outcome.value,
            origin,
        });
        let to = match party {
            Party::Payer => transfer.payer,
            Party::Payee => transfer.payee,
        };
        outbox.send(&Notification { trace, to: Some(to), notice });
    }
}
