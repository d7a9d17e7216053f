//! Who may see what of an outcome.
//!
//! An operator, and every caller of a hub without keys, sees all of it. A participant sees the state of its own transfers and
//! the balance of its own account. Of a transfer of others it learns that the id is taken, and nothing more.
//!
//! The outcome does not name the parties, and the rule asks nobody for them: it follows from what the sender asked and what the
//! hub said. Where that leaves open whether the sender is a party, the answer is as for one who is none.

use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::Command;
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::ParticipantId;
use holdfast_domain::money::Balance;
use holdfast_domain::transfers::{Reason, Transfer, TransferState};

use super::Caller;
use super::sources::source;

/// What a caller may see of the outcome of one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// All of it.
    Everything,
    /// What concerns the participant that sent the command.
    Own(ParticipantId, Asked),
    /// The code and its reason.
    Code,
}

/// What the sender asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// To be the payer.
    Prepare,
    /// As the payee, to fulfil or to abort.
    Completion,
    /// As either of them, where the transfer stands.
    Lookup,
}

impl Sight {
    /// What this caller may see of the outcome of its command.
    pub(crate) const fn of(caller: Caller, command: &Command) -> Sight {
        if matches!(caller, Caller::Operator | Caller::Anyone) {
            return Sight::Everything;
        }
        let asked = match command {
            Command::Prepare(_) => Asked::Prepare,
            Command::Fulfil(_) | Command::Abort(_) => Asked::Completion,
            Command::Lookup(_) => Asked::Lookup,
            _ => return Sight::Code,
        };
        match source(command) {
            Some(source) => Sight::Own(source, asked),
            None => Sight::Code,
        }
    }

    /// The same for each command of a batch; empty where the caller sees everything.
    pub(crate) fn of_each(caller: Caller, commands: &[Command]) -> Vec<Sight> {
        match caller {
            Caller::Operator | Caller::Anyone => Vec::new(),
            _ => commands.iter().map(|command| Sight::of(caller, command)).collect(),
        }
    }

    /// Takes out of an outcome what the caller may not see.
    pub(crate) fn narrow(self, outcome: &mut Outcome) {
        // The balance is the payee's once a transfer is COMMITTED, the payer's until then.
        let is_payees = outcome.state == Some(TransferState::Committed);
        let (is_party, has_balance) = match self {
            Sight::Everything => return,
            Sight::Code => (false, false),
            Sight::Own(_, Asked::Prepare) => {
                (outcome.code != Some(ErrorCode::ModifiedRequest.into()), !is_payees)
            }
            Sight::Own(_, Asked::Completion) => (outcome.reason != Some(Reason::WrongSource), is_payees),
            // Parties alone are told a state.
            Sight::Own(_, Asked::Lookup) => (true, false),
        };
        if !is_party {
            let (code, reason) = (outcome.code, outcome.reason);
            *outcome = Outcome { code, reason, ..Outcome::refused(ErrorCode::ModifiedRequest) };
        } else if !has_balance {
            outcome.value = Balance::ZERO;
        }
    }

    /// Whether the caller may see where this transfer stands.
    pub(crate) const fn shows(self, row: &Transfer) -> bool {
        match self {
            Sight::Everything => true,
            Sight::Own(source, _) => row.has_party(source),
            Sight::Code => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_domain::command::{Abort, Admin, Fulfil, FulfilAction, Lookup, Prepare};
    use holdfast_domain::effects::Subject;
    use holdfast_domain::ids::{Currency, TransferId, TransferNo};
    use holdfast_domain::money::Amount;
    use holdfast_domain::participants::Name;

    use super::*;

    const ID: TransferId = TransferId(1);
    const SENDER: ParticipantId = ParticipantId(3);

    fn usd() -> Currency {
        "USD".parse().unwrap()
    }

    fn prepare() -> Command {
        Command::Prepare(Prepare {
            source: SENDER,
            id: ID,
            payer: SENDER,
            payee: ParticipantId(4),
            amount: Amount(1),
            expiration: 1,
            currency: usd(),
            condition: [0; 32],
            hash: [0; 32],
            tail: Vec::new(),
            funding: None,
        })
    }

    fn fulfil() -> Command {
        Command::Fulfil(Fulfil::new(SENDER, ID, FulfilAction::Commit, [0; 32]))
    }

    fn abort() -> Command {
        Command::Abort(Abort::new(SENDER, ID, 5104, Vec::new()))
    }

    fn lookup() -> Command {
        Command::Lookup(Lookup { source: SENDER, id: ID })
    }

    fn admin() -> Command {
        Command::Admin(Admin::CreateParticipant { name: Name::new("fsp9").unwrap(), currency: usd() })
    }

    fn outcome(state: TransferState, error: Option<(ErrorCode, Option<Reason>)>) -> Outcome {
        Outcome {
            state: Some(state),
            code: error.map(|(code, _)| code.into()),
            reason: error.and_then(|(_, reason)| reason),
            subject: Subject::Transfer(TransferNo(7)),
            value: Balance(50),
            token: None,
            shop: None,
        }
    }

    /// State, number and balance that the caller is shown; zeros where it is shown none.
    fn shown(caller: Caller, command: &Command, outcome: &Outcome) -> (Option<TransferState>, u64, i128) {
        let mut narrowed = outcome.clone();
        Sight::of(caller, command).narrow(&mut narrowed);
        assert_eq!(
            (narrowed.code, narrowed.reason),
            (outcome.code, outcome.reason),
            "the answer itself stays"
        );
        (narrowed.state, narrowed.subject.number(), narrowed.value.0)
    }

    #[test]
    fn a_participant_sees_its_own_transfers_and_its_own_balance() {
        use TransferState::{AbortedError, AbortedRejected, Committed, Reserved};
        let sender = Caller::Participant(Name::new("fsp3").unwrap());
        let modified = Some((ErrorCode::ModifiedRequest, None));
        let stranger = Some((ErrorCode::ValidationError, Some(Reason::WrongSource)));
        let wrong = Some((ErrorCode::ValidationError, Some(Reason::WrongFulfilment)));
        let late = Some((ErrorCode::TransferExpired, None));
        let cap = Some((ErrorCode::PayerLimitError, None));
        let (all, no_balance, nothing) = ((true, true), (true, false), (false, false));
        let cases = [
            (prepare(), Reserved, None, all),
            (prepare(), AbortedRejected, cap, all),
            (prepare(), Committed, None, no_balance),
            (prepare(), Reserved, modified, nothing),
            (prepare(), Committed, modified, nothing),
            (fulfil(), Committed, None, all),
            (fulfil(), Committed, modified, all),
            (fulfil(), Reserved, late, no_balance),
            (fulfil(), AbortedError, wrong, no_balance),
            (fulfil(), Reserved, stranger, nothing),
            (fulfil(), Committed, stranger, nothing),
            (abort(), AbortedError, None, no_balance),
            (abort(), Committed, modified, all),
            (abort(), Reserved, stranger, nothing),
            (abort(), Committed, stranger, nothing),
            (lookup(), Reserved, None, no_balance),
            (lookup(), Committed, None, no_balance),
            (admin(), Reserved, None, nothing),
        ];
        for (command, state, error, (has_state, has_balance)) in cases {
            let outcome = outcome(state, error);
            let whole = (Some(state), 7, 50);
            let expected =
                (has_state.then_some(state), if has_state { 7 } else { 0 }, if has_balance { 50 } else { 0 });
            assert_eq!(shown(sender, &command, &outcome), expected, "{command:?} {state} {error:?}");
            assert_eq!(shown(Caller::Operator, &command, &outcome), whole, "{command:?}");
            assert_eq!(shown(Caller::Anyone, &command, &outcome), whole, "{command:?}");
            assert_eq!(shown(Caller::Stranger, &command, &outcome), expected, "{command:?}");
        }
    }

    #[test]
    fn a_refusal_without_a_transfer_is_as_it_was() {
        let sender = Caller::Participant(Name::new("fsp3").unwrap());
        for code in ErrorCode::ALL {
            for command in [prepare(), fulfil(), abort(), lookup()] {
                let refused = Outcome::refused(code);
                let mut narrowed = refused.clone();
                Sight::of(sender, &command).narrow(&mut narrowed);
                assert_eq!(narrowed, refused, "{command:?}");
            }
        }
    }

    #[test]
    fn each_record_of_a_batch_has_its_sight() {
        let sender = Caller::Participant(Name::new("fsp3").unwrap());
        let commands = [prepare(), lookup(), admin()];
        let sights = [Sight::Own(SENDER, Asked::Prepare), Sight::Own(SENDER, Asked::Lookup), Sight::Code];
        assert_eq!(Sight::of_each(sender, &commands), sights);
        assert!(Sight::of_each(Caller::Operator, &commands).is_empty());
        assert!(Sight::of_each(Caller::Anyone, &commands).is_empty());
    }
}
