//! A dry run of the position step: one batch, in one pass, through the bin processor that the hub uses.
//!
//! What the case leaves open is settled here:
//!
//! - Bins run by ascending account, compared as strings ("10" before "9"). `accounts` in the answer has every
//!   account of the case in that order, touched or not.
//! - If two messages of one transfer claim different states, the claim of the first one in the file counts:
//!   `state_before` is the state at load, and a transfer is loaded once.
//! - A message's amount may be zero, which moves nothing, but not below: no action has a meaning for it. (A hub
//!   never gets as far with either: its prepare is INVALID before the position step.)
//! - An abort tells the payer with error `null`: the code would be the payee's own, and a case has none.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::{Result, ensure};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use holdfast_domain::effects::{DeadLetter, DeadLetterReason, Notification, Party, PositionChange, Step};
use holdfast_domain::ids::{AccountId, TransferNo};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::positions::{
    Action, BATCH_MESSAGES_MAX, Message, MessageResult, PositionAccount, PositionAccounts, PrepareOrder,
    process,
};
use holdfast_domain::transfers::{ErrorInformation, TransferState};

use super::Object;

/// Balances beyond this could outgrow their 128 bits when the batch is added to them.
const BALANCE_MAX: Balance = Balance(i128::MAX / 4);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(default)]
    order: PrepareOrder,
    #[serde(deserialize_with = "super::objects")]
    accounts: Vec<CaseAccount>,
    #[serde(deserialize_with = "super::objects")]
    messages: Vec<CaseMessage>,
}

super::parts! {
    Case: "a case",
    CaseAccount: "an account",
    CaseMessage: "a message",
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseAccount {
    account: String,
    #[serde(deserialize_with = "super::parsed")]
    position: Balance,
    #[serde(deserialize_with = "super::parsed")]
    reserved: Balance,
    #[serde(deserialize_with = "super::parsed")]
    settlement_position: Balance,
    #[serde(deserialize_with = "super::parsed_or_null")]
    net_debit_cap: Option<Amount>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseMessage {
    #[serde(deserialize_with = "action")]
    action: Action,
    account: String,
    transfer: String,
    #[serde(deserialize_with = "super::parsed")]
    amount: Amount,
    #[serde(deserialize_with = "state")]
    state_before: TransferState,
}

fn action<'de, D: Deserializer<'de>>(field: D) -> Result<Action, D::Error> {
    super::named(field, &Action::ALL, Action::name)
}

fn state<'de, D: Deserializer<'de>>(field: D) -> Result<TransferState, D::Error> {
    super::named(field, &TransferState::ALL, TransferState::name)
}

/// Runs the case and returns the answer.
///
/// # Errors
/// Says what is wrong with the case.
pub(crate) fn run(text: &str) -> Result<Value> {
    let Object(case): Object<Case> = serde_json::from_str(text)?;
    let names = Names::of(&case);
    let mut accounts = Accounts::of(&case, &names)?;
    let messages = messages(&case, &names)?;
    let mut effects = Step::default();
    let results = process(&accounts, case.order, &messages, &mut effects);
    for change in &effects.position_changes {
        accounts.0.entry(change.account).and_modify(|account| account.value = change.value);
    }
    Ok(names.answer(&messages, &results, &accounts, &effects))
}

/// The case's strings, and the numbers that stand for them in the decision.
struct Names<'a> {
    /// Every account that is mentioned, in the order of their numbers, which is that of the strings.
    accounts: Vec<&'a str>,
    /// Every transfer, in the order of their numbers, which is that of their first message.
    transfers: Vec<&'a str>,
    account_numbers: HashMap<&'a str, AccountId>,
    transfer_numbers: HashMap<&'a str, TransferNo>,
}

impl<'a> Names<'a> {
    fn of(case: &'a Case) -> Names<'a> {
        let known = case.accounts.iter().map(|account| account.account.as_str());
        let addressed = case.messages.iter().map(|message| message.account.as_str());
        let accounts: BTreeSet<&str> = known.chain(addressed).collect();
        let accounts: Vec<&str> = accounts.into_iter().collect();
        let account_numbers =
            (0..).zip(&accounts).map(|(number, account)| (*account, AccountId(number))).collect();
        let mut transfers = Vec::new();
        let mut transfer_numbers = HashMap::new();
        for message in &case.messages {
            transfer_numbers.entry(message.transfer.as_str()).or_insert_with(|| {
                transfers.push(message.transfer.as_str());
                TransferNo(transfers.len() as u64 - 1)
            });
        }
        Names { accounts, transfers, account_numbers, transfer_numbers }
    }

    fn account(&self, id: AccountId) -> &'a str {
        self.accounts[id.0 as usize]
    }

    fn transfer(&self, no: TransferNo) -> &'a str {
        self.transfers[usize::try_from(no.0).expect("numbers are places in a list")]
    }

    fn answer(
        &self,
        messages: &[Message],
        results: &[MessageResult],
        accounts: &Accounts,
        effects: &Step,
    ) -> Value {
        let result = |(message, result): (&Message, &MessageResult)| {
            json!({
                "transfer": self.transfer(message.transfer),
                "action": message.action.name(),
                "state": result.state.name(),
                "error": error(result.error),
            })
        };
        let account = |(id, account): (&AccountId, &PositionAccount)| json!({"account": self.account(*id), "position": account.value.to_string()});
        let change = |row: &PositionChange| {
            json!({
                "account": self.account(row.account),
                "transfer": self.transfer(row.transfer),
                "change": row.change.to_string(),
                "value": row.value.to_string(),
            })
        };
        let notification = |row: &Notification| {
            let to = match row.to {
                Party::Payer => "payer",
                Party::Payee => "payee",
            };
            json!({"to": to, "transfer": self.transfer(row.transfer), "error": error(row.error)})
        };
        let dead_letter = |row: &DeadLetter| {
            let action = row.action.name();
            let reason = match row.reason {
                DeadLetterReason::UnknownAccount(id) => format!("there is no account {}", self.account(id)),
                DeadLetterReason::WrongState(state) => format!("{action} does not fit the state {state}"),
            };
            json!({"transfer": self.transfer(row.transfer), "action": action, "reason": reason})
        };
        json!({
            "results": messages.iter().zip(results).map(result).collect::<Vec<_>>(),
            "accounts": accounts.0.iter().map(account).collect::<Vec<_>>(),
            "position_changes": effects.position_changes.iter().map(change).collect::<Vec<_>>(),
            "notifications": effects.notifications.iter().map(notification).collect::<Vec<_>>(),
            "dead_letters": effects.dead_letters.iter().map(dead_letter).collect::<Vec<_>>(),
        })
    }
}

fn error(error: Option<ErrorInformation>) -> Option<String> {
    error.map(|(code, _)| code.number().to_string())
}

/// The accounts that the case has; others that its messages name are unknown.
struct Accounts(BTreeMap<AccountId, PositionAccount>);

impl Accounts {
    fn of(case: &Case, names: &Names<'_>) -> Result<Accounts> {
        let mut accounts = BTreeMap::new();
        for row in &case.accounts {
            let name = row.account.as_str();
            for balance in [row.position, row.reserved, row.settlement_position] {
                let fits = (-BALANCE_MAX.0..=BALANCE_MAX.0).contains(&balance.0);
                ensure!(fits, "account {name}: {balance} is too large, the limit is {BALANCE_MAX}");
            }
            let account = PositionAccount {
                value: row.position,
                reserved: row.reserved,
                settlement: row.settlement_position,
                net_debit_cap: row.net_debit_cap,
                alarm_percentage: 100,
            };
            let twice = accounts.insert(names.account_numbers[name], account).is_some();
            ensure!(!twice, "account {name} is there twice: give each account one entry");
        }
        Ok(Accounts(accounts))
    }
}

impl PositionAccounts for Accounts {
    fn position_account(&self, id: AccountId) -> Option<PositionAccount> {
        self.0.get(&id).copied()
    }
}

fn messages(case: &Case, names: &Names<'_>) -> Result<Vec<Message>> {
    let count = case.messages.len();
    ensure!(count <= BATCH_MESSAGES_MAX, "{count} messages are too many, the limit is {BATCH_MESSAGES_MAX}");
    let message = |(cause, row): (u32, &CaseMessage)| {
        let CaseMessage { transfer, action, amount, .. } = row;
        let positive = *amount >= Amount::ZERO;
        ensure!(positive, "the {} of {transfer} has the amount {amount}, below zero", action.name());
        Ok(Message {
            account: names.account_numbers[row.account.as_str()],
            transfer: names.transfer_numbers[transfer.as_str()],
            action: *action,
            amount: *amount,
            state: row.state_before,
            cause,
            completion: None,
            error: None,
        })
    };
    (0..).zip(&case.messages).map(message).collect()
}
