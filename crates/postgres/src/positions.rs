//! Handler 2: the topic `position`. Bins by account, credits before debits, limits, funds; notifications follow.

use std::collections::BTreeSet;

use holdfast_domain::command::Admin;
use holdfast_domain::effects::{Asked, DeadLetterReason, Effects};
use holdfast_domain::hops::{PositionCommand, position};
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::positions::Action;
use holdfast_domain::view::{Accounts, Transfers};
use holdfast_messages::{
    Answer, Notice, Notification, Place, PositionMessage, PositionWork, Step as PositionStep,
};

use crate::batch::{Batch, Part};
use crate::guard::Source;
use crate::incoming::Incoming;
use crate::load::Loader;
use crate::loaded::Loaded;
use crate::notices::{ToldTransfer, tell_alarm};
use crate::operated::Operated;
use crate::outbox::Outbox;
use crate::session::{Settings, Store};
use crate::step::{Decided, Opened, Step, Work};
use crate::{Claim, Error};

impl Store {
    /// Handler 2 over a batch: steps of transfers, limits and funds.
    ///
    /// # Errors
    /// As [`Store::transfers`].
    pub fn positions(&mut self, claim: &Claim, batch: &Batch<'_, PositionMessage>) -> Result<Step, Error> {
        self.run(claim, batch, |store, part| part.step(store, Positions { part }))
    }
}

/// A message that can be decided, and as what.
struct Request<'a> {
    incoming: &'a Incoming<PositionMessage>,
    message: &'a PositionMessage,
    command: PositionCommand,
}

impl Request<'_> {
    /// The message of `transfers` that led to it.
    const fn origin(&self) -> Option<Place> {
        match self.message.work {
            PositionWork::Step(PositionStep { origin, .. }) => origin,
            PositionWork::Admin(_) => None,
        }
    }
}

struct Positions<'p, 'm> {
    part: Part<'p, 'm, PositionMessage>,
}

impl<'m> Work<'m> for Positions<'_, 'm> {
    type Known = (Operated, Loaded, Millis);
    type Rows = Operated;

    fn load(&mut self, step: &mut Opened<'_>) -> Result<(Operated, Loaded, Millis), Error> {
        let Part { batch, verdict, .. } = self.part;
        let operated = Operated::load(&mut step.tx, batch.messages)?;
        let mut loader = step.loader();
        if verdict.is_none() {
            load(&mut loader, batch.messages)?;
        }
        let (loaded, now) = loader.finish()?;
        Ok((operated, loaded, now))
    }

    fn decide(
        self,
        (mut operated, loaded, now): (Operated, Loaded, Millis),
        settings: &Settings,
    ) -> Option<Decided<'m, Self::Rows>> {
        let Part { claim: Claim { source, .. }, batch, verdict } = self.part;
        let mut outbox = Outbox::default();
        let requests = sort_out(*source, &loaded, batch.messages, verdict, &mut operated, &mut outbox);
        let commands: Vec<PositionCommand> = requests.iter().map(|request| request.command).collect();
        let effects = position(&loaded, now, settings.order, &commands);
        tell(*source, &loaded, &requests, &effects, &mut outbox);
        Some(Decided { loaded, effects, ..self.part.decided(now, outbox, operated) })
    }

    fn write(operated: Operated, step: &mut Opened<'_>, _: &mut Outbox<'m>) -> Result<(), Error> {
        operated.store(&mut step.tx, step.now)
    }
}

fn load(loader: &mut Loader<'_, '_>, messages: &[Incoming<PositionMessage>]) -> Result<(), Error> {
    let mut transfers: BTreeSet<TransferId> = BTreeSet::new();
    let mut accounts: BTreeSet<AccountId> = BTreeSet::new();
    let mut parties: BTreeSet<(ParticipantId, Currency)> = BTreeSet::new();
    let mut funds: BTreeSet<TransferId> = BTreeSet::new();
    for message in messages.iter().filter_map(|incoming| incoming.message.as_ref().ok()) {
        match message.work {
            PositionWork::Step(step) => {
                transfers.insert(step.transfer);
                accounts.insert(message.account);
            }
            PositionWork::Admin(admin) => match admin {
                Admin::SetLimit { participant, currency, .. }
                | Admin::InitialPositionAndLimits { participant, currency, .. } => {
                    parties.insert((participant, currency));
                }
                Admin::FundsIn { id, account, .. }
                | Admin::FundsOutReserve { id, account, .. }
                | Admin::FundsOutCommit { id, account }
                | Admin::FundsOutAbort { id, account } => {
                    funds.insert(id);
                    // Its position account has the number before.
                    accounts.extend([account, AccountId(account.0.saturating_sub(1))]);
                }
                Admin::SetAccountActive { account, .. } => {
                    accounts.insert(account);
                }
                Admin::CreateParticipant { .. } | Admin::SetParticipantActive { .. } => {}
            },
        }
    }
    loader.lock_transfers(&transfers)?;
    loader.participants(&parties)?;
    for participant in loader.loaded.participants.values() {
        accounts.extend(participant.accounts.iter().map(|(_, account)| *account));
    }
    loader.lock_with_settlements(accounts)?;
    loader.lock_funds(&funds)
}

/// What cannot be decided at all becomes a dead letter; an operator's message that was decided already is passed over.
fn sort_out<'a>(
    source: Source,
    loaded: &Loaded,
    messages: &'a [Incoming<PositionMessage>],
    verdict: Option<&str>,
    operated: &mut Operated,
    outbox: &mut Outbox<'a>,
) -> Vec<Request<'a>> {
    let mut requests = Vec::with_capacity(messages.len());
    for incoming in messages {
        let fate = match (&incoming.message, verdict) {
            (_, Some(verdict)) => Err(verdict.to_owned()),
            (Err(poison), None) => Err(poison.to_string()),
            (Ok(message), None) => command_of(loaded, message).map(|command| (message, command)),
        };
        match fate {
            // Whoever asked was answered when it was decided.
            Ok(_) if operated.is_repeat(incoming) => {}
            Ok((message, command)) => requests.push(Request { incoming, message, command }),
            Err(reason) => outbox.bury(incoming.dead(source, reason)),
        }
    }
    requests
}

fn command_of(loaded: &Loaded, message: &PositionMessage) -> Result<PositionCommand, String> {
    let account = message.account;
    match message.work {
        PositionWork::Admin(Admin::CreateParticipant { .. } | Admin::SetParticipantActive { .. }) => {
            Err("participants are made and changed at the node that is asked, not on the topic position"
                .into())
        }
        PositionWork::Admin(admin) => Ok(PositionCommand::Admin(admin)),
        PositionWork::Step(PositionStep { transfer, action, .. }) => {
            let row = loaded.transfer(transfer).ok_or_else(|| format!("there is no transfer {transfer}"))?;
            let expected = match action {
                Action::Commit | Action::Reserve => row.payee_account,
                Action::Prepare | Action::Abort | Action::TimeoutReserved => row.payer_account,
            };
            // Told apart here and not in the bins, where it could pass for the first message of its kind and make the right
            // one a repeat. Another account's guard is not ours, outbox.
            if loaded.account(account).is_none() {
                return Err(format!("there is no account {}", account.0));
            }
            if expected != Some(account) {
                let action = action.name();
                return Err(format!(
                    "account {} is not the one that {action} of {transfer} changes",
                    account.0
                ));
            }
            Ok(PositionCommand::Transfer { account, transfer: row.no, action })
        }
    }
}

/// Notifications, answers to the operator, alarms, dead letters, and stored answers to repeats: every message leads to at
/// least one of these, with its trace.
fn tell<'a>(
    source: Source,
    loaded: &Loaded,
    requests: &[Request<'a>],
    effects: &Effects,
    outbox: &mut Outbox<'a>,
) {
    let caused = |cause: u32| (&requests[cause as usize], effects.outcome(cause));
    for told in effects.all(|step| &step.notifications) {
        let (request, outcome) = caused(told.cause);
        let (transfer, trace) = (&loaded.transfers[&told.transfer], request.message.trace);
        ToldTransfer { transfer, outcome, trace, origin: request.origin() }.tell(told, outbox);
    }
    for (Request { message, .. }, outcome) in requests.iter().zip(effects.all(|step| &step.outcomes)) {
        if let PositionWork::Admin(admin) = &message.work {
            let answer = Answer::of(outcome, Asked::Admin, movement_of(admin));
            outbox.send(&Notification { trace: message.trace, notice: Notice::Answer(answer) });
        }
    }
    effects.all(|step| &step.alarms).for_each(|alarm| tell_alarm(alarm, loaded, outbox));
    for letter in effects.all(|step| &step.dead_letters) {
        let reason = match letter.reason {
            DeadLetterReason::UnknownAccount(account) => format!("there is no account {}", account.0),
            DeadLetterReason::WrongState(state) => {
                format!("2001: {} does not fit a transfer that is {state}", letter.action.name())
            }
        };
        outbox.bury(caused(letter.cause).0.incoming.dead(source, reason));
    }
    for row in effects.all(|step| &step.answers) {
        let (request, outcome) = caused(row.cause);
        outbox.send(&Notification::answer(row, outcome, request.message.trace, request.origin()));
    }
}

/// The movement of funds that the operator's command is about.
const fn movement_of(admin: &Admin) -> Option<TransferId> {
    match *admin {
        Admin::FundsIn { id, .. }
        | Admin::FundsOutReserve { id, .. }
        | Admin::FundsOutCommit { id, .. }
        | Admin::FundsOutAbort { id, .. } => Some(id),
        _ => None,
    }
}
