//! Expiry: ends the holds that ran out, through the same bins as every other message.

use crate::codes::ErrorCode;
use crate::command::Expire;
use crate::effects::{Effects, Notification, NotificationKind, Party, StateChange};
use crate::ids::Millis;
use crate::positions::{Action, Message};
use crate::transfers::{TransferState, give_back};
use crate::view::View;

/// Takes the due holds out of their waiting states; those with a reservation go on to the position step, unless tokens were
/// reserved: then they are free again here.
pub(crate) fn expire(
    view: &impl View,
    now: Millis,
    expire: Expire,
    effects: &mut Effects,
) -> (u64, Vec<Message>) {
    let due = view.due(now, expire.holds_max as usize);
    let mut messages = Vec::with_capacity(due.len());
    for no in &due {
        let transfer = view.transfer_numbered(*no).expect("the expiry index names transfers that exist");
        assert!(transfer.expiration < now, "{} is not due", transfer.id);
        match transfer.state {
            TransferState::ReceivedPrepare => {
                let expired = StateChange::to(*no, TransferState::ExpiredPrepared);
                effects.state_changes.push(expired.with(ErrorCode::TransferExpired));
                effects.notifications.push(Notification {
                    transfer: *no,
                    to: Party::Payer,
                    kind: NotificationKind::Expired,
                    code: Some(ErrorCode::TransferExpired.into()),
                });
            }
            TransferState::Reserved if transfer.is_funded() => {
                effects.state_changes.push(StateChange::to(*no, TransferState::ReservedTimeout));
                give_back(view, transfer, TransferState::ExpiredReserved, effects);
            }
            TransferState::Reserved => {
                effects.state_changes.push(StateChange::to(*no, TransferState::ReservedTimeout));
                messages.push(transfer.release(Action::TimeoutReserved, TransferState::ReservedTimeout));
            }
            other => unreachable!("the expiry index holds {} which is {other}", transfer.id),
        }
    }
    (due.len() as u64, messages)
}
