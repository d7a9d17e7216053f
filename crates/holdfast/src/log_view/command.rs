//! One command of the log as JSON, with what became of it.

use holdfast_domain::command::{Admin, Command, FulfilAction};
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::ParticipantId;
use holdfast_domain::view::View;
use serde_json::{Value, json};

pub(super) fn show(command: &Command, outcome: &Outcome, state: &impl View) -> Value {
    let mut shown = match command {
        Command::Prepare(prepare) => json!({
            "action": "prepare",
            "transferId": prepare.id.to_string(),
            "payerFsp": name(state, prepare.payer),
            "payeeFsp": name(state, prepare.payee),
            "amount": prepare.amount.to_string(),
            "currency": prepare.currency.to_string(),
            "expiration": time(prepare.expiration),
        }),
        Command::Fulfil(fulfil) => json!({
            "action": match fulfil.action { FulfilAction::Commit => "commit", FulfilAction::Reserve => "reserve" },
            "transferId": fulfil.id.to_string(),
            "source": name(state, fulfil.source),
        }),
        Command::Abort(abort) => json!({
            "action": "abort",
            "transferId": abort.id.to_string(),
            "source": name(state, abort.source),
            "payeeError": abort.code.to_string(),
        }),
        Command::Expire(expire) => json!({
            "action": "expire",
            "holdsMax": expire.holds_max,
            "ended": outcome.subject.ended(),
        }),
        Command::Lookup(lookup) => json!({
            "action": "lookup",
            "transferId": lookup.id.to_string(),
            "source": name(state, lookup.source),
        }),
        Command::SetEndpoint(endpoint) => json!({
            "action": "setEndpoint",
            "participant": name(state, endpoint.participant()),
            "type": endpoint.kind(),
            "value": endpoint.value(),
        }),
        Command::Admin(admin) => show_admin(*admin, state),
        Command::Token(command) => return super::tokens::show(command, outcome),
        Command::Shop(command) => return super::shop::show(command, outcome),
    };
    if let (Command::Prepare(prepare), Value::Object(members)) = (command, &mut shown)
        && let Some(funding) = &prepare.funding
    {
        let ids: Vec<&str> = funding.ids.iter().map(holdfast_domain::tokens::TokenId::as_str).collect();
        let (payer, payee) = (&*funding.payer_wallet, &*funding.payee_wallet);
        let funding = json!({"payerWallet": payer, "payeeWallet": payee, "tokens": ids});
        members.insert("funding".to_owned(), funding);
    }
    if let Value::Object(members) = &mut shown {
        members.insert("state".to_owned(), outcome.state.map_or(Value::Null, |state| json!(state.name())));
        let error = outcome.code.map_or(Value::Null, |code| json!(code.number().to_string()));
        members.insert("error".to_owned(), error);
    }
    shown
}

fn show_admin(admin: Admin, state: &impl View) -> Value {
    match admin {
        Admin::CreateParticipant { name, currency } => {
            json!({"action": "createParticipant", "name": name.as_str(), "currency": currency.to_string()})
        }
        Admin::SetParticipantActive { participant, active } => {
            json!({"action": "setParticipantActive", "participant": name(state, participant), "isActive": active})
        }
        Admin::SetAccountActive { account, active } => {
            json!({"action": "setAccountActive", "account": account.0, "isActive": active})
        }
        Admin::InitialPositionAndLimits { participant, currency, net_debit_cap, initial_position } => json!({
            "action": "initialPositionAndLimits",
            "participant": name(state, participant),
            "currency": currency.to_string(),
            "netDebitCap": net_debit_cap.to_string(),
            "initialPosition": initial_position.to_string(),
        }),
        Admin::SetLimit { participant, currency, net_debit_cap, alarm_percentage } => json!({
            "action": "setLimit",
            "participant": name(state, participant),
            "currency": currency.to_string(),
            "netDebitCap": net_debit_cap.to_string(),
            "alarmPercentage": alarm_percentage,
        }),
        Admin::FundsIn { id, account, currency, amount } => json!({
            "action": "recordFundsIn",
            "transferId": id.to_string(),
            "account": account.0,
            "amount": amount.to_string(),
            "currency": currency.to_string(),
        }),
        Admin::FundsOutReserve { id, account, currency, amount } => json!({
            "action": "recordFundsOutPrepareReserve",
            "transferId": id.to_string(),
            "account": account.0,
            "amount": amount.to_string(),
            "currency": currency.to_string(),
        }),
        Admin::FundsOutCommit { id, account } => {
            json!({"action": "recordFundsOutCommit", "transferId": id.to_string(), "account": account.0})
        }
        Admin::FundsOutAbort { id, account } => {
            json!({"action": "recordFundsOutAbort", "transferId": id.to_string(), "account": account.0})
        }
    }
}

fn name(state: &impl View, participant: ParticipantId) -> Value {
    state.participant(participant).map_or_else(|| json!(participant.0), |row| json!(row.name.as_str()))
}

/// RFC 3339 with milliseconds.
pub(crate) fn time(at: holdfast_domain::ids::Millis) -> String {
    jiff::Timestamp::from_millisecond(at).map_or_else(|_| at.to_string(), |instant| format!("{instant:.3}"))
}
