//! What the operator's commands do. Each is decided alone, between the transfers before and after it.

use super::{
    ALARM_PERCENTAGE_DEFAULT, Account, AccountKind, CURRENCIES_MAX, FundsMovement, FundsState, Name,
    Participant,
};
use crate::codes::ErrorCode;
use crate::command::{Admin, SetEndpoint};
use crate::effects::{Outcome, Step, Subject};
use crate::ids::{AccountId, Currency, HUB, Millis, ParticipantId, TransferId};
use crate::money::{AMOUNT_LIMIT, Amount, Balance};
use crate::view::{Accounts, Books, ParticipantNumbers, Participants};

/// Decides one admin command and pushes its rows; the outcome names the participant, account or value it changed.
pub(crate) fn decide_admin(
    view: &(impl Books + ParticipantNumbers),
    now: Millis,
    admin: &Admin,
    effects: &mut Step,
) -> Outcome {
    match admin {
        Admin::CreateParticipant { .. } | Admin::SetParticipantActive { .. } => {
            decide_participant(view, now, admin, effects)
        }
        _ => decide_books(view, now, admin, effects),
    }
}

/// Decides about a participant: it is made, with accounts in a currency, or activated or not.
///
/// # Panics
/// If the command is about an account.
pub fn decide_participant(
    view: &(impl Participants + ParticipantNumbers),
    now: Millis,
    admin: &Admin,
    effects: &mut Step,
) -> Outcome {
    let outcome = match *admin {
        Admin::CreateParticipant { name, currency } => {
            return create_participant(view, now, name, currency, effects);
        }
        Admin::SetParticipantActive { participant, active } => view.participant(participant).map(|row| {
            effects.participants.push(Participant { active, ..row.clone() });
            Outcome::done(Subject::Participant(participant), Balance::ZERO)
        }),
        other => panic!("{other:?} is about an account"),
    };
    outcome.unwrap_or_else(|| Outcome::refused(ErrorCode::IdNotFound))
}

/// Decides about an account: its limits, its funds, and whether it is active.
///
/// # Panics
/// If the command is about a participant.
pub(crate) fn decide_books(view: &impl Books, now: Millis, admin: &Admin, effects: &mut Step) -> Outcome {
    let first = effects.accounts.len();
    let outcome = decide(view, admin, effects).unwrap_or_else(Outcome::refused);
    effects.accounts[first..].iter_mut().for_each(|row| row.changed_at = now);
    outcome
}

/// Decides where a participant wants to be called.
pub fn set_endpoint(view: &impl Participants, endpoint: &SetEndpoint, effects: &mut Step) -> Outcome {
    let participant = endpoint.participant();
    // The hub has no row and yet addresses of its own, such as those of its operators' mail.
    if participant != HUB && view.participant(participant).is_none() {
        return Outcome::refused(ErrorCode::IdNotFound);
    }
    effects.endpoints.push(endpoint.clone());
    Outcome::done(Subject::Participant(participant), Balance::ZERO)
}

fn decide(view: &impl Books, admin: &Admin, effects: &mut Step) -> Result<Outcome, ErrorCode> {
    match *admin {
        Admin::CreateParticipant { .. } | Admin::SetParticipantActive { .. } => {
            panic!("{admin:?} is about a participant")
        }
        Admin::SetAccountActive { account, active } => {
            let row = account_of(view, account, AccountKind::Position)?;
            // Without a limit it would have no cap: the first limit is what activates it.
            require(!active || row.net_debit_cap.is_some(), ErrorCode::InternalServerError)?;
            effects.accounts.push(Account { active, ..*row });
            Ok(Outcome::done(Subject::Account(account), row.value))
        }
        Admin::InitialPositionAndLimits { participant, currency, net_debit_cap, initial_position } => {
            let row = position_account(view, participant, currency)?;
            require(row.net_debit_cap.is_none(), ErrorCode::InternalServerError)?;
            require(is_cap(net_debit_cap) && is_position(initial_position), ErrorCode::ValidationError)?;
            // Added, not set: an account without limits can have been paid already.
            let value = row.value.plus(initial_position);
            let settlement = view.account(row.settlement()).expect("both accounts are made together");
            let net_debit_cap = Some(net_debit_cap);
            effects.accounts.push(Account { active: true, value, net_debit_cap, ..*row });
            effects.accounts.push(Account { active: true, ..*settlement });
            Ok(Outcome::done(Subject::Account(row.id), value))
        }
        Admin::SetLimit { participant, currency, net_debit_cap, alarm_percentage } => {
            let row = position_account(view, participant, currency)?;
            require(row.net_debit_cap.is_some(), ErrorCode::InternalServerError)?;
            require(is_cap(net_debit_cap) && alarm_percentage <= 100, ErrorCode::ValidationError)?;
            let net_debit_cap = Some(net_debit_cap);
            effects.accounts.push(Account { net_debit_cap, alarm_percentage, ..*row });
            Ok(Outcome::done(Subject::Account(row.id), row.value))
        }
        Admin::FundsIn { id, account, currency, amount } => {
            let state = FundsState::ReceivedIn;
            move_funds(view, FundsMovement { id, account, amount, state }, currency, effects)
        }
        Admin::FundsOutReserve { id, account, currency, amount } => {
            let state = FundsState::OutReserved;
            move_funds(view, FundsMovement { id, account, amount, state }, currency, effects)
        }
        Admin::FundsOutCommit { id, account } => {
            end_funds_out(view, FundsState::OutCommitted, id, account, effects)
        }
        Admin::FundsOutAbort { id, account } => {
            end_funds_out(view, FundsState::OutAborted, id, account, effects)
        }
    }
}

fn require(holds: bool, refusal: ErrorCode) -> Result<(), ErrorCode> {
    if holds { Ok(()) } else { Err(refusal) }
}

fn is_cap(cap: Amount) -> bool {
    (Amount::ZERO..AMOUNT_LIMIT).contains(&cap)
}

fn is_position(position: Amount) -> bool {
    (Amount(-AMOUNT_LIMIT.0)..AMOUNT_LIMIT).contains(&position)
}

fn account_of(view: &impl Accounts, id: AccountId, kind: AccountKind) -> Result<&Account, ErrorCode> {
    view.account(id).filter(|row| row.kind == kind).ok_or(ErrorCode::IdNotFound)
}

fn position_account(
    view: &(impl Participants + Accounts),
    participant: ParticipantId,
    currency: Currency,
) -> Result<&Account, ErrorCode> {
    view.participant(participant)
        .and_then(|row| row.position_account(currency))
        .and_then(|account| view.account(account))
        .ok_or(ErrorCode::IdNotFound)
}

fn create_participant(
    view: &(impl Participants + ParticipantNumbers),
    now: Millis,
    name: Name,
    currency: Currency,
    effects: &mut Step,
) -> Outcome {
    if name.is_hub() {
        return Outcome::refused(ErrorCode::ClientError);
    }
    let mut row = match view.participant_named(name) {
        Some(known) => known.clone(),
        None => Participant {
            id: view.next_participant(),
            name,
            active: true,
            accounts: Vec::new(),
            created_at: now,
        },
    };
    // The record has no id, so a caller who repeats it after a lost answer learns the numbers from the refusal.
    if let Some(position) = row.position_account(currency) {
        return Outcome {
            subject: Subject::Member(row.id, position),
            ..Outcome::refused(ErrorCode::ClientError)
        };
    }
    if row.accounts.len() >= CURRENCIES_MAX {
        return Outcome::refused(ErrorCode::ClientError);
    }
    let id = view.next_account();
    let account = |id, kind| Account {
        id,
        participant: row.id,
        currency,
        kind,
        active: false,
        value: Balance::ZERO,
        reserved: Balance::ZERO,
        net_debit_cap: None,
        alarm_percentage: ALARM_PERCENTAGE_DEFAULT,
        created_at: now,
        changed_at: now,
    };
    effects.accounts.push(account(id, AccountKind::Position));
    effects.accounts.push(account(AccountId(id.0 + 1), AccountKind::Settlement));
    row.accounts.push((currency, id));
    let subject = Subject::Member(row.id, id);
    effects.participants.push(row);
    Outcome::done(subject, Balance::ZERO)
}

/// Funds in lower the settlement account. Funds out are taken at once, and only what no position stands on.
fn move_funds(
    view: &impl Books,
    movement: FundsMovement,
    currency: Currency,
    effects: &mut Step,
) -> Result<Outcome, ErrorCode> {
    let FundsMovement { id, account, amount, state } = movement;
    let row = account_of(view, account, AccountKind::Settlement)?;
    let incoming = state == FundsState::ReceivedIn;
    if let Some(known) = view.funds(id) {
        let same = (known.account, known.amount, row.currency) == (account, amount, currency)
            && incoming == (known.state == FundsState::ReceivedIn);
        require(same, ErrorCode::ModifiedRequest)?;
        return Ok(Outcome::done(Subject::Account(account), row.value));
    }
    require(row.currency == currency && row.active, ErrorCode::InternalServerError)?;
    require(amount > Amount::ZERO && amount < AMOUNT_LIMIT, ErrorCode::ValidationError)?;
    let value = if incoming { row.value.minus(amount) } else { row.value.plus(amount) };
    if !incoming {
        let position = view.account(AccountId(account.0 - 1)).expect("both accounts are made together");
        let used = (position.value + position.reserved).max(Balance::ZERO);
        require(value.negated() >= used, ErrorCode::PayerInsufficientLiquidity)?;
    }
    effects.accounts.push(Account { value, ..*row });
    effects.funds.push(movement);
    Ok(Outcome::done(Subject::Account(account), value))
}

fn end_funds_out(
    view: &impl Books,
    state: FundsState,
    id: TransferId,
    account: AccountId,
    effects: &mut Step,
) -> Result<Outcome, ErrorCode> {
    let movement = view.funds(id).filter(|row| row.account == account);
    let (movement, row) = movement.zip(view.account(account)).ok_or(ErrorCode::TransferIdNotFound)?;
    if movement.state == state {
        return Ok(Outcome::done(Subject::Account(account), row.value));
    }
    require(movement.state == FundsState::OutReserved, ErrorCode::InternalServerError)?;
    let mut value = row.value;
    if state == FundsState::OutAborted {
        value = value.minus(movement.amount);
        effects.accounts.push(Account { value, ..*row });
    }
    effects.funds.push(FundsMovement { state, ..*movement });
    Ok(Outcome::done(Subject::Account(account), value))
}
