//! Commands of any kind, in their order, decided wherever each belongs: transfers on the topic `transfers`, limits and funds
//! on the account's key, participants and endpoints in a transaction of their own.

use std::sync::mpsc;

use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Admin, Command};
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::AccountId;
use holdfast_engine::{Answer, Refusal, Written};

use crate::handle::NodeHandle;
use crate::reads::ReadError;

/// Whether a command goes through the topic `transfers`.
#[must_use]
pub(crate) const fn is_about_a_transfer(command: &Command) -> bool {
    matches!(command, Command::Prepare(_) | Command::Fulfil(_) | Command::Abort(_) | Command::Lookup(_))
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Refusal {
        match error {
            ReadError::Busy => Refusal::Busy,
            ReadError::Store(error) => Refusal::Unknown(error.to_string()),
        }
    }
}

impl NodeHandle {
    /// Has commands decided; the answer is called once with their outcomes. Those that are all about transfers travel at
    /// once, and `written` is called as soon as Kafka has them; others wait on a thread for each other.
    ///
    /// # Errors
    /// If they were not taken; the answer is not called then.
    pub fn decide(
        &self,
        commands: Vec<Command>,
        written: Option<Written>,
        answer: Answer,
    ) -> Result<(), Refusal> {
        if commands.iter().all(is_about_a_transfer) {
            return self.submit(commands, written, answer);
        }
        let Some(place) = self.one_by_one() else { return Err(Refusal::Busy) };
        let node = self.clone();
        let body = move || {
            let outcomes = node.in_order(commands);
            drop(place);
            answer(outcomes);
        };
        match std::thread::Builder::new().name("operator".to_owned()).spawn(body) {
            Ok(_) => Ok(()),
            Err(error) => Err(Refusal::Unknown(format!("a thread cannot be started: {error}"))),
        }
    }

    fn in_order(&self, commands: Vec<Command>) -> Result<Vec<Outcome>, Refusal> {
        let mut outcomes = Vec::with_capacity(commands.len());
        let mut rest = commands.into_iter().peekable();
        while let Some(command) = rest.next() {
            let done = outcomes.len();
            let told = |refusal| after_some(done, refusal);
            match command {
                Command::Admin(admin) => outcomes.push(self.operator(&admin).map_err(told)?),
                Command::SetEndpoint(endpoint) => {
                    outcomes.push(
                        self.reads
                            .write(|store| store.endpoint(&endpoint))
                            .map_err(Refusal::from)
                            .map_err(told)?,
                    );
                }
                command if is_about_a_transfer(&command) => {
                    let mut run = vec![command];
                    while let Some(next) = rest.next_if(is_about_a_transfer) {
                        run.push(next);
                    }
                    outcomes.extend(waited(|answer| self.submit(run, None, answer)).map_err(told)?);
                }
                // Commands about tokens and orders have ways of their own; the edge has refused these before.
                _ => outcomes.push(Outcome::refused(ErrorCode::InternalServerError)),
            }
        }
        Ok(outcomes)
    }

    fn operator(&self, admin: &Admin) -> Result<Outcome, Refusal> {
        if matches!(admin, Admin::CreateParticipant { .. } | Admin::SetParticipantActive { .. }) {
            return Ok(self.reads.write(|store| store.participant(admin))?);
        }
        let account = self.account_of(admin)?;
        let mut decided = waited(|answer| self.submit_admin(account, *admin, answer))?;
        decided.pop().ok_or_else(|| Refusal::Unknown("it was decided without an outcome".to_owned()))
    }

    /// The position account on whose key the command is decided. If there is none, that is decided too, and any key will do.
    fn account_of(&self, admin: &Admin) -> Result<AccountId, Refusal> {
        match *admin {
            Admin::SetLimit { participant, currency, .. }
            | Admin::InitialPositionAndLimits { participant, currency, .. } => {
                let found = self.ask(|store| store.position_account(participant, currency))?;
                Ok(found.unwrap_or(AccountId(0)))
            }
            Admin::FundsIn { account, .. }
            | Admin::FundsOutReserve { account, .. }
            | Admin::FundsOutCommit { account, .. }
            | Admin::FundsOutAbort { account, .. } => Ok(AccountId(account.0.saturating_sub(1))),
            Admin::SetAccountActive { account, .. } => Ok(account),
            Admin::CreateParticipant { .. } | Admin::SetParticipantActive { .. } => Ok(AccountId(0)),
        }
    }
}

/// Why the rest was not taken. What came before has happened: nobody may read that nothing has.
fn after_some(done: usize, refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::Unknown(_) => refusal,
        _ if done == 0 => refusal,
        _ => Refusal::Unknown(format!("the first {done} are done, then: {refusal}")),
    }
}

/// Waits for an answer. It always comes: whoever waits is told when time is up, or when the node ends.
fn waited(ask: impl FnOnce(Answer) -> Result<(), Refusal>) -> Result<Vec<Outcome>, Refusal> {
    let (send, told) = mpsc::channel();
    ask(Box::new(move |outcomes| {
        // Whoever asked waits below.
        let _: Result<(), _> = send.send(outcomes);
    }))?;
    told.recv().map_err(|_| Refusal::Unknown("the node has stopped".to_owned()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_half_done_is_not_told_as_untried() {
        assert_eq!(after_some(0, Refusal::Busy), Refusal::Busy, "nothing has happened");
        let half = after_some(2, Refusal::Busy);
        assert!(matches!(half, Refusal::Unknown(why) if why.starts_with("the first 2 are done")));
    }
}
