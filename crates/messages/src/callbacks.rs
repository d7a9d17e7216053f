//! Which message of the FSPIOP standard a notification becomes: the same as the embedded hub derives from a frame.

use holdfast_domain::callbacks::{CallbackMessage, end_without_payee};
use holdfast_domain::effects::{LimitAlarm, NotificationKind, Party};
use holdfast_domain::transfers::{CompletionKind, TransferState};

use super::{Answer, Asked, Notice, Notification, TransferNotice};

impl Notification {
    /// What [`Notification::to`] is sent, in this order. Nothing where only somebody may be waiting for the trace, such
    /// as for the answer to a repeat that is still on its way. What a forward hands on lies at the notice's origin.
    #[must_use]
    pub fn callbacks(&self) -> Vec<CallbackMessage> {
        if self.to.is_none() {
            return Vec::new();
        }
        match &self.notice {
            Notice::Transfer(notice) => notice.callback().into_iter().collect(),
            Notice::Answer(answer) => answer.callbacks(),
            Notice::Alarm(LimitAlarm { account, value, net_debit_cap }) => {
                vec![CallbackMessage::Alarm {
                    account: *account,
                    value: *value,
                    net_debit_cap: *net_debit_cap,
                }]
            }
            // Whoever checks out waits at a node, or asks again.
            Notice::Checkout(_) => Vec::new(),
        }
    }
}

impl TransferNotice {
    /// `None` only for a notice that no handler writes, such as a refusal without an error.
    fn callback(&self) -> Option<CallbackMessage> {
        let refusal = self.error.map(|(code, reason)| CallbackMessage::Error(code, reason));
        let reserved = self.completion == Some(CompletionKind::Reserve);
        match self.kind {
            NotificationKind::Prepared => Some(CallbackMessage::ForwardPrepare),
            NotificationKind::Committed => Some(match self.party {
                _ if !reserved => CallbackMessage::ForwardFulfil,
                Party::Payer => CallbackMessage::Put(TransferState::Committed),
                Party::Payee => CallbackMessage::Patch(TransferState::Committed),
            }),
            NotificationKind::Aborted if self.completion == Some(CompletionKind::Abort) => {
                Some(CallbackMessage::ForwardError)
            }
            // The wrong preimage; a payee that said RESERVED is told in its own way.
            NotificationKind::Aborted if reserved && self.party == Party::Payee => {
                Some(CallbackMessage::Patch(TransferState::AbortedError))
            }
            NotificationKind::Aborted | NotificationKind::Expired | NotificationKind::Refused => refusal,
        }
    }
}

impl Answer {
    fn callbacks(&self) -> Vec<CallbackMessage> {
        let shown: fn(TransferState) -> CallbackMessage = match self.asked {
            Asked::Position | Asked::Admin => return Vec::new(),
            Asked::Reserve => CallbackMessage::Patch,
            Asked::Prepare | Asked::Commit | Asked::Abort | Asked::Lookup => CallbackMessage::Put,
        };
        let refusal = self.error.map(|(code, reason)| CallbackMessage::Error(code, reason));
        match self.state {
            // Without a state there was no transfer yet, or it is not the sender's business.
            None => refusal.into_iter().collect(),
            Some(state) if self.asked == Asked::Lookup => vec![shown(state)],
            Some(state) if self.repeat => state.is_final().then(|| shown(state)).into_iter().collect(),
            Some(_) => {
                let waits = self.asked == Asked::Reserve;
                let end = waits.then(|| end_without_payee(&self.outcome())).flatten();
                refusal.into_iter().chain(end.map(CallbackMessage::Patch)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_domain::codes::ErrorCode;
    use holdfast_domain::effects::Outcome;
    use holdfast_domain::ids::{AccountId, ParticipantId, TransferId};
    use holdfast_domain::money::{Amount, Balance};
    use holdfast_domain::transfers::Reason;

    use super::*;
    use crate::TraceId;

    fn callbacks(notice: Notice) -> Vec<CallbackMessage> {
        Notification { trace: TraceId(1), to: Some(ParticipantId(3)), notice }.callbacks()
    }

    fn answer(asked: Asked, repeat: bool, outcome: &Outcome) -> Vec<CallbackMessage> {
        let answer = Answer { repeat, ..Answer::of(outcome, asked, Some(TransferId(1))) };
        callbacks(Notice::Answer(answer))
    }

    fn at(state: TransferState) -> Outcome {
        Outcome {
            state: Some(state),
            code: None,
            reason: None,
            subject: 1,
            value: Balance::ZERO,
            token: None,
            shop: None,
        }
    }

    #[test]
    fn answers_tell_the_sender_what_its_command_came_to() {
        use CallbackMessage::{Error, Patch, Put};
        use TransferState::{Committed, ExpiredReserved, Reserved, ReservedTimeout};
        let (invalid, not_reserved) = (ErrorCode::ValidationError.into(), Some(Reason::NotReserved));
        assert_eq!(answer(Asked::Lookup, false, &at(Reserved)), [Put(Reserved)]);
        assert_eq!(answer(Asked::Prepare, true, &at(Reserved)), [], "its own notification is still to come");
        assert_eq!(answer(Asked::Prepare, true, &at(Committed)), [Put(Committed)]);
        assert_eq!(answer(Asked::Reserve, true, &at(Committed)), [Patch(Committed)]);
        assert_eq!(answer(Asked::Position, true, &at(Committed)), []);
        let late = Outcome { code: Some(invalid), reason: not_reserved, ..at(ReservedTimeout) };
        assert_eq!(answer(Asked::Commit, false, &late), [Error(invalid, not_reserved)]);
        let both = [Error(invalid, not_reserved), Patch(ExpiredReserved)];
        assert_eq!(answer(Asked::Reserve, false, &late), both, "it waits to be told how it ended");
    }

    #[test]
    fn an_alarm_goes_to_whoever_holds_the_account() {
        let (account, value, net_debit_cap) = (AccountId(7), Balance(9), Amount(10));
        let notice = Notice::Alarm(LimitAlarm { account, value, net_debit_cap });
        assert_eq!(callbacks(notice.clone()), [CallbackMessage::Alarm { account, value, net_debit_cap }]);
        assert_eq!(Notification { trace: TraceId::NOBODY, to: None, notice }.callbacks(), []);
    }
}
