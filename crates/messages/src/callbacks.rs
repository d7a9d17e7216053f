//! Which message of the FSPIOP standard a notification becomes: the same as the embedded hub derives from a frame.

use holdfast_domain::callbacks::{CallbackMessage, answered, told};

use super::{Alarm, Notice, Notification, TransferNotice};

impl Notification {
    /// What [`Notice::to`] is sent, in this order. Nothing where only somebody may be waiting for the trace, such
    /// as for the answer to a repeat that is still on its way. What a forward hands on lies at the notice's origin.
    #[must_use]
    pub fn callbacks(&self) -> Vec<CallbackMessage> {
        if self.notice.to().is_none() {
            return Vec::new();
        }
        match &self.notice {
            Notice::Transfer(TransferNotice { kind, party, completion, error, .. }) => {
                told(*kind, *party, *completion, *error).into_iter().collect()
            }
            Notice::Answer(answer) => answered(answer.asked, answer.repeat, &answer.outcome()).collect(),
            Notice::Alarm(Alarm { account, value, net_debit_cap, .. }) => {
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

#[cfg(test)]
mod tests {
    use holdfast_domain::codes::ErrorCode;
    use holdfast_domain::effects::{Asked, Outcome, Subject};
    use holdfast_domain::ids::{AccountId, ParticipantId, TransferId, TransferNo};
    use holdfast_domain::money::{Amount, Balance};
    use holdfast_domain::transfers::{Reason, TransferState};

    use super::*;
    use crate::{Answer, TraceId};

    const TO: Option<ParticipantId> = Some(ParticipantId(3));

    fn callbacks(notice: Notice) -> Vec<CallbackMessage> {
        Notification { trace: TraceId(1), notice }.callbacks()
    }

    fn answer(asked: Asked, repeat: bool, outcome: &Outcome) -> Vec<CallbackMessage> {
        let answer = Answer { to: TO, repeat, ..Answer::of(outcome, asked, Some(TransferId(1))) };
        callbacks(Notice::Answer(answer))
    }

    fn at(state: TransferState) -> Outcome {
        Outcome {
            state: Some(state),
            code: None,
            reason: None,
            subject: Subject::Transfer(TransferNo(1)),
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
        let alarm = |to| Notice::Alarm(Alarm { to, account, value, net_debit_cap });
        assert_eq!(callbacks(alarm(TO)), [CallbackMessage::Alarm { account, value, net_debit_cap }]);
        assert_eq!(callbacks(alarm(None)), []);
    }
}
