//! Expiry: ends the holds that ran out, through the same bins as every other message.
//!
//! One record ends holds of transfers, leases of tokens, checkouts and idempotency keys, so many in all. They are dealt to the
//! four kinds in turn, so that a crowd of one kind does not keep the others from ending.

use std::sync::Arc;

use crate::codes::ErrorCode;
use crate::command::Expire;
use crate::effects::{Notification, NotificationKind, Party, StateChange, Step};
use crate::ids::{Millis, TransferNo};
use crate::positions::{Action, Message};
use crate::shop::{CheckoutRow, KeyRow};
use crate::tokens::LockRow;
use crate::transfers::{End, TransferState, give_back};
use crate::view::{Checkouts, Holds, KeyEnds, Leases, Spenders, Transfers};

/// What one record ends, each kind from its oldest on.
pub(crate) struct Due {
    pub(crate) holds: Vec<TransferNo>,
    pub(crate) leases: Vec<Arc<LockRow>>,
    pub(crate) checkouts: Vec<Arc<CheckoutRow>>,
    pub(crate) keys: Vec<Arc<KeyRow>>,
}

impl Due {
    /// Of what is due at `now`, as much as the record at `offset` may end.
    pub(crate) fn of(
        view: &(impl Holds + Leases + Checkouts + KeyEnds),
        now: Millis,
        expire: Expire,
        offset: u64,
    ) -> Due {
        let max = expire.holds_max as usize;
        let mut due = Due {
            holds: view.due(now, max),
            leases: view.due_leases(now, max),
            checkouts: view.due_checkouts(now, max),
            keys: view.due_keys(now, max),
        };
        let Due { holds, leases, checkouts, keys } = &mut due;
        let waiting = [holds.len(), leases.len(), checkouts.len(), keys.len()];
        let [of_holds, of_leases, of_checkouts, of_keys] = deal(max, waiting, offset);
        holds.truncate(of_holds);
        leases.truncate(of_leases);
        checkouts.truncate(of_checkouts);
        keys.truncate(of_keys);
        due
    }

    /// How many it are.
    pub(crate) fn count(&self) -> u64 {
        (self.holds.len() + self.leases.len() + self.checkouts.len() + self.keys.len()) as u64
    }
}

/// Deals `max` among kinds of which so many wait, one to each in turn until nothing is left to deal or to end. Whose turn is
/// first depends on the record's place in the log, so that with less than one for each none of them always comes last.
fn deal<const KINDS: usize>(max: usize, waiting: [usize; KINDS], offset: u64) -> [usize; KINDS] {
    let mut dealt = [0; KINDS];
    let mut left = max.min(waiting.iter().sum());
    let first = usize::try_from(offset % KINDS as u64).expect("less than the number of kinds");
    for kind in (0..KINDS).cycle().skip(first) {
        if left == 0 {
            break;
        }
        if dealt[kind] < waiting[kind] {
            dealt[kind] += 1;
            left -= 1;
        }
    }
    dealt
}

/// Takes the due holds out of their waiting states; those with a reservation go on to the position step, unless tokens were
/// reserved: then they are free again here.
pub(crate) fn expire(
    view: &(impl Transfers + Spenders),
    now: Millis,
    due: &[TransferNo],
    effects: &mut Step,
) -> Vec<Message> {
    let mut messages = Vec::with_capacity(due.len());
    let (cause, code) = (effects.cause(), ErrorCode::TransferExpired);
    for no in due {
        let transfer = view.transfer_numbered(*no).expect("the expiry index names transfers that exist");
        assert!(transfer.expiration < now, "{} is not due", transfer.id);
        match transfer.state {
            TransferState::ReceivedPrepare => {
                let expired = StateChange::to(*no, TransferState::ExpiredPrepared);
                effects.state_changes.push(expired.with(code));
                effects.notifications.push(Notification {
                    cause,
                    transfer: *no,
                    to: Party::Payer,
                    kind: NotificationKind::Expired,
                    action: None,
                    completion: None,
                    error: Some((code.into(), None)),
                    silent: false,
                });
            }
            TransferState::Reserved if transfer.is_funded() => {
                effects.state_changes.push(StateChange::to(*no, TransferState::ReservedTimeout));
                give_back(view, transfer, End::RanOut, effects);
            }
            TransferState::Reserved => {
                effects.state_changes.push(StateChange::to(*no, TransferState::ReservedTimeout));
                messages.push(transfer.message(
                    Action::TimeoutReserved,
                    TransferState::ReservedTimeout,
                    cause,
                ));
            }
            other => unreachable!("the expiry index holds {} which is {other}", transfer.id),
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_gets_its_part_and_nothing_is_left_undealt() {
        assert_eq!(deal(100, [1_000, 0, 0, 0], 0), [100, 0, 0, 0], "one kind alone gets all");
        assert_eq!(deal(100, [1_000, 1_000, 1_000, 1_000], 0), [25; 4]);
        assert_eq!(deal(100, [1_000, 0, 3, 1_000], 2), [48, 0, 3, 49]);
        assert_eq!(deal(100, [1, 2, 3, 4], 7), [1, 2, 3, 4]);
        assert_eq!(deal(0, [1, 2, 3, 4], 7), [0; 4]);
        let firsts: Vec<[usize; 4]> = (0..4).map(|offset| deal(1, [9; 4], offset)).collect();
        assert_eq!(firsts, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], "each has its turn");
        assert_eq!(deal(1, [9, 0, 0, 9], 1), [0, 0, 0, 1], "whoever is next and waits");
    }
}
