//! Handler 2: the topic `position`. Bins by account, credits before debits, limits, funds; notifications follow.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::command::Admin;
use holdfast_domain::effects::{DeadLetterReason, Effects, NotificationKind, Outcome, Party};
use holdfast_domain::hops::{PositionCommand, position};
use holdfast_domain::ids::{AccountId, Currency, HUB, ParticipantId, TransferId, TransferNo};
use holdfast_domain::positions::Action;
use holdfast_domain::transfers::Transfer;
use holdfast_domain::view::View;

use crate::batch::{Batch, Done, Step};
use crate::guard::Guard;
use crate::load::Loader;
use crate::loaded::Loaded;
use crate::messages::{Asked, Incoming, Notice, Outgoing, PositionMessage, PositionRequest, Told};
use crate::session::{Point, Store};
use crate::write::{Besides, DeadRow, Writer};
use crate::{Claim, Error};

impl Store {
    /// Handler 2 over a batch: steps of transfers, limits and funds.
    ///
    /// # Errors
    /// As [`Store::transfers`].
    pub fn positions(&mut self, claim: &Claim, batch: &Batch<'_, PositionRequest>) -> Result<Step, Error> {
        self.run(claim, batch, attempt)
    }
}

type Request<'a> = (&'a Incoming<PositionRequest>, PositionCommand);

fn attempt(
    store: &mut Store,
    claim: &Claim,
    batch: &Batch<'_, PositionRequest>,
    verdict: Option<&str>,
) -> Result<Step, Error> {
    let Store { client, statements, settings, watch, .. } = store;
    let mut tx = client.transaction()?;
    watch.reached(Point::Begun);
    let Some(guard) = Guard::lock(&mut tx, statements, claim)?.filter(|guard| guard.offset == batch.from)
    else {
        return Ok(Step::Fenced);
    };
    watch.reached(Point::GuardLocked);

    let mut loader = Loader::new(&mut tx, statements);
    if verdict.is_none() {
        load(&mut loader, batch.messages)?;
    }
    let now = loader.clock()?;
    let loaded = loader.loaded;
    watch.reached(Point::Loaded);

    let mut besides = Besides::default();
    let requests = sort_out(&loaded, batch.messages, verdict, &mut besides);
    let commands: Vec<PositionCommand> = requests.iter().map(|(_, command)| *command).collect();
    let positioned = position(&loaded, now, settings.order, &commands);
    tell(&loaded, &requests, &positioned.effects, &positioned.repeats, &mut besides);
    watch.reached(Point::Decided);

    let mut writer = Writer { tx: &mut tx, statements, watch, now, shards: settings.expiry_shards };
    writer.write(guard, batch.next, loaded, &positioned.effects, &besides)?;
    tx.commit()?;
    watch.reached(Point::Committed);
    Ok(Step::Done(Done {
        messages: batch.messages.len(),
        dead_letters: besides.dead_letters.len(),
        sent: besides.outgoing.len(),
        transactions: 1,
        time: now,
    }))
}

fn load(loader: &mut Loader<'_, '_>, messages: &[Incoming<PositionRequest>]) -> Result<(), Error> {
    let mut transfers: BTreeSet<TransferId> = BTreeSet::new();
    let mut accounts: BTreeSet<AccountId> = BTreeSet::new();
    let mut parties: BTreeSet<(ParticipantId, Currency)> = BTreeSet::new();
    let mut funds: BTreeSet<TransferId> = BTreeSet::new();
    for request in messages.iter().filter_map(|incoming| incoming.message.as_ref().ok()) {
        match request {
            PositionRequest::Transfer(message) => {
                transfers.insert(message.transfer);
                accounts.insert(message.account);
            }
            PositionRequest::Admin(admin) => match *admin {
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
    // A limit is tested against the settlement account, which has the number after.
    let settlements: Vec<AccountId> =
        accounts.iter().filter_map(|account| account.0.checked_add(1)).map(AccountId).collect();
    accounts.extend(settlements);
    loader.lock_accounts(&accounts)?;
    loader.lock_funds(&funds)
}

/// What cannot be decided at all becomes a dead letter.
fn sort_out<'a>(
    loaded: &Loaded,
    messages: &'a [Incoming<PositionRequest>],
    verdict: Option<&str>,
    besides: &mut Besides<'a>,
) -> Vec<Request<'a>> {
    let mut requests = Vec::with_capacity(messages.len());
    for incoming in messages {
        let fate = match (&incoming.message, verdict) {
            (_, Some(verdict)) => Err(verdict.to_owned()),
            (Err(reason), None) => Err(reason.clone()),
            (Ok(request), None) => command_of(loaded, request),
        };
        match fate {
            Ok(command) => requests.push((incoming, command)),
            Err(reason) => besides.dead_letters.push(dead(incoming, reason)),
        }
    }
    requests
}

fn dead(incoming: &Incoming<PositionRequest>, reason: String) -> DeadRow<'_> {
    let Incoming { offset, trace, body, .. } = incoming;
    DeadRow { offset: *offset, trace, reason, body }
}

fn command_of(loaded: &Loaded, request: &PositionRequest) -> Result<PositionCommand, String> {
    match *request {
        PositionRequest::Admin(Admin::CreateParticipant { .. } | Admin::SetParticipantActive { .. }) => {
            Err("participants are made and changed at the node that is asked, not on the topic position"
                .into())
        }
        PositionRequest::Admin(admin) => Ok(PositionCommand::Admin(admin)),
        PositionRequest::Transfer(PositionMessage { transfer, account, action, .. }) => {
            let row = loaded.transfer(transfer).ok_or_else(|| format!("there is no transfer {transfer}"))?;
            let expected = match action {
                Action::Commit | Action::Reserve => row.payee_account,
                Action::Prepare | Action::Abort | Action::TimeoutReserved => row.payer_account,
            };
            // Told apart here and not in the bins, where it could pass for the first message of its kind and make the right
            // one a repeat. Another account's guard is not ours, besides.
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

/// Notifications, answers to the operator, stored answers to repeats, alarms and dead letters.
fn tell<'a>(
    loaded: &Loaded,
    requests: &[Request<'a>],
    effects: &Effects,
    repeats: &[usize],
    besides: &mut Besides<'a>,
) {
    let mut of_transfer: BTreeMap<(TransferNo, Action), usize> = BTreeMap::new();
    for (index, (_, command)) in requests.iter().enumerate() {
        if let PositionCommand::Transfer { transfer, action, .. } = command {
            of_transfer.entry((*transfer, *action)).or_insert(index);
        }
    }
    let row = |no: TransferNo| &loaded.transfers[&no];
    for notification in &effects.notifications {
        let actions = caused_by(notification.kind, notification.to);
        let found = actions.iter().find_map(|action| of_transfer.get(&(notification.transfer, *action)));
        let index = *found.expect("a message of the batch caused it");
        let transfer = row(notification.transfer);
        let to = match notification.to {
            Party::Payer => transfer.payer,
            Party::Payee => transfer.payee,
        };
        let outcome = &effects.outcomes[index];
        let notice = notice(Told::Happened(notification.kind, notification.to), to, transfer, outcome);
        besides.outgoing.push((&requests[index].0.trace, Outgoing::Notification(notice)));
    }
    let again = Told::Answer { asked: Asked::Position, repeat: true };
    for index in repeats {
        let (incoming, command) = &requests[*index];
        let PositionCommand::Transfer { transfer, .. } = command else { continue };
        let transfer = row(*transfer);
        let notice = notice(again, transfer.payer, transfer, &effects.outcomes[*index]);
        besides.outgoing.push((&incoming.trace, Outgoing::Notification(notice)));
    }
    for (index, (incoming, command)) in requests.iter().enumerate() {
        if let PositionCommand::Admin(admin) = command {
            let notice = operator_notice(admin, &effects.outcomes[index]);
            besides.outgoing.push((&incoming.trace, Outgoing::Notification(notice)));
        }
    }
    for alarm in &effects.alarms {
        let to = loaded.account(alarm.account).map_or(HUB, |account| account.participant);
        let told = Told::Alarm { account: alarm.account, net_debit_cap: alarm.net_debit_cap };
        let notice = Notice { told, to, value: alarm.value, ..nothing() };
        besides.outgoing.push(("", Outgoing::Notification(notice)));
    }
    for letter in &effects.dead_letters {
        let index = of_transfer[&(letter.transfer, letter.action)];
        let reason = match letter.reason {
            DeadLetterReason::UnknownAccount(account) => format!("there is no account {}", account.0),
            DeadLetterReason::WrongState(state) => {
                format!("2001: {} does not fit a transfer that is {state}", letter.action.name())
            }
        };
        besides.dead_letters.push(dead(requests[index].0, reason));
    }
}

/// The actions that lead to such a notification.
const fn caused_by(kind: NotificationKind, to: Party) -> &'static [Action] {
    match (kind, to) {
        (NotificationKind::Committed, _) | (NotificationKind::Refused, Party::Payee) => {
            &[Action::Commit, Action::Reserve]
        }
        (NotificationKind::Aborted, _) => &[Action::Abort],
        (NotificationKind::Expired, _) => &[Action::TimeoutReserved],
        (NotificationKind::Prepared, _) | (NotificationKind::Refused, Party::Payer) => &[Action::Prepare],
    }
}

pub(crate) fn notice(told: Told, to: ParticipantId, transfer: &Transfer, outcome: &Outcome) -> Notice {
    Notice {
        told,
        to,
        transfer: Some(transfer.id),
        state: outcome.state,
        code: outcome.code,
        reason: outcome.reason,
        completion: transfer.completion().map(|completion| completion.kind),
        subject: transfer.no.0,
        value: outcome.value,
    }
}

fn operator_notice(admin: &Admin, outcome: &Outcome) -> Notice {
    let transfer = match *admin {
        Admin::FundsIn { id, .. }
        | Admin::FundsOutReserve { id, .. }
        | Admin::FundsOutCommit { id, .. }
        | Admin::FundsOutAbort { id, .. } => Some(id),
        _ => None,
    };
    Notice {
        told: Told::Answer { asked: Asked::Admin, repeat: false },
        transfer,
        code: outcome.code,
        reason: outcome.reason,
        subject: outcome.subject,
        value: outcome.value,
        ..nothing()
    }
}

const fn nothing() -> Notice {
    Notice {
        told: Told::Answer { asked: Asked::Admin, repeat: false },
        to: HUB,
        transfer: None,
        state: None,
        code: None,
        reason: None,
        completion: None,
        subject: 0,
        value: holdfast_domain::money::Balance::ZERO,
    }
}
