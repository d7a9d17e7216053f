//! The log as topics: views over its frames, for people who think in messages.
//!
//! `transfers`, `admin`, `tokens`, `shop` and `expiry` are what lies in the log. `position`, `notifications`, `alarms` and
//! `dead-letters`, and the topics of checkouts, are derived by deciding the frames again, as the hub does.

mod command;
mod shop;
mod tokens;

pub(crate) use command::time;

use clap::ValueEnum;
use holdfast_domain::command::Command;
use holdfast_domain::effects::{DeadLetterReason, Effects, NotificationKind, Party};
use holdfast_domain::ids::{AccountId, TransferNo};
use holdfast_domain::shop::Topic as ShopTopic;
use holdfast_domain::view::View;
use holdfast_log::Frame;
use holdfast_store::Store;
use serde_json::{Value, json};

/// A topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Topic {
    /// Prepare, fulfil and abort, as they came
    Transfers,
    /// What the operator asked for
    Admin,
    /// Tokens issued, locked, spent, as it was asked
    Tokens,
    /// Users, items, orders and checkouts, as it was asked
    Shop,
    /// The records that end holds
    Expiry,
    /// Changes of positions, with the running value
    Position,
    /// Who is to be told what
    Notifications,
    /// Positions that passed the alarm percentage of their cap
    Alarms,
    /// Messages that fitted nowhere
    DeadLetters,
    /// What the payment side of checkouts is asked
    Pay,
    /// What the stock side of checkouts is asked
    Stock,
    /// What both sides answered, and what was decided
    Outcomes,
    /// Where the oldest open checkout begins
    OutcomeOffsets,
    /// What happened to tokens, in the database profile
    TokenEvents,
    /// What outside ledgers did with tokens, in the database profile
    TokenUpdates,
    /// Checkouts asked for, cancelled and tried again, in the database profile
    Orders,
}

impl Topic {
    /// Those of a data directory.
    pub(crate) fn of_a_directory() -> impl Iterator<Item = Topic> {
        Topic::value_variants().iter().copied().filter(|topic| topic.is_of_a_directory())
    }

    /// Whether a data directory has it, and not only the database profile.
    pub(crate) const fn is_of_a_directory(self) -> bool {
        !matches!(self, Topic::TokenEvents | Topic::TokenUpdates | Topic::Orders)
    }

    /// As the command line has it.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().expect("none is left out").get_name().to_owned()
    }

    /// What this topic shows of a frame that was just decided, one value per message. The `offset` of a message
    /// lying in the log is its own, that of a derived one its frame's, or its record's in the topics of checkouts.
    pub(crate) fn messages(
        self,
        frame: &Frame,
        commands: &[Command],
        effects: &Effects,
        state: &impl Store,
    ) -> Vec<(u64, Value)> {
        let base = frame.header.base_offset;
        let of_frame = |values: Vec<Value>| values.into_iter().map(|value| (base, value)).collect();
        let commands_where = |wanted: fn(&Command) -> bool| {
            let numbered = (base..).zip(commands.iter().zip(effects.all(|step| &step.outcomes)));
            numbered
                .filter(|(_, (command, _))| wanted(command))
                .map(|(offset, (command, outcome))| (offset, command::show(command, outcome, state)))
                .collect()
        };
        match self {
            Topic::Transfers => commands_where(|command| command.transfer().is_some()),
            Topic::Admin => {
                commands_where(|command| matches!(command, Command::Admin(_) | Command::SetEndpoint(_)))
            }
            Topic::Tokens => commands_where(|command| matches!(command, Command::Token(_))),
            Topic::Shop => commands_where(|command| matches!(command, Command::Shop(_))),
            Topic::Expiry => commands_where(|command| matches!(command, Command::Expire(_))),
            Topic::Position => of_frame(positions(effects, state)),
            Topic::Notifications => of_frame(notifications(effects, state)),
            Topic::Alarms => of_frame(alarms(effects, state)),
            Topic::DeadLetters => of_frame(dead_letters(effects, state)),
            Topic::TokenEvents | Topic::TokenUpdates | Topic::Orders => Vec::new(),
            Topic::Pay => shop::messages(effects, ShopTopic::Pay),
            Topic::Stock => shop::messages(effects, ShopTopic::Stock),
            Topic::Outcomes => shop::messages(effects, ShopTopic::Outcomes),
            Topic::OutcomeOffsets => of_frame(
                shop::outcome_offset(effects, frame.header.end_offset(), state).into_iter().collect(),
            ),
        }
    }
}

fn id(state: &impl View, no: TransferNo) -> Value {
    state.transfer_numbered(no).map_or(Value::Null, |row| json!(row.id.to_string()))
}

fn owner(state: &impl View, account: AccountId) -> Value {
    let participant = state.account(account).and_then(|row| state.participant(row.participant));
    participant.map_or(Value::Null, |row| json!(row.name.as_str()))
}

fn positions(effects: &Effects, state: &impl View) -> Vec<Value> {
    let show = |row: &holdfast_domain::effects::PositionChange| {
        json!({
            "account": row.account.0,
            "participant": owner(state, row.account),
            "transferId": id(state, row.transfer),
            "change": row.change.to_string(),
            "value": row.value.to_string(),
        })
    };
    effects.all(|step| &step.position_changes).map(show).collect()
}

fn notifications(effects: &Effects, state: &impl View) -> Vec<Value> {
    let show = |row: &holdfast_domain::effects::Notification| {
        let transfer = state.transfer_numbered(row.transfer);
        let (to, receiver) = match row.to {
            Party::Payer => ("payer", transfer.map(|row| row.payer)),
            Party::Payee => ("payee", transfer.map(|row| row.payee)),
        };
        let name = receiver.and_then(|id| state.participant(id)).map(|row| row.name.as_str().to_owned());
        let tells = match row.kind {
            NotificationKind::Prepared => "prepared",
            NotificationKind::Committed => "committed",
            NotificationKind::Aborted => "aborted",
            NotificationKind::Expired => "expired",
            NotificationKind::Refused => "refused",
        };
        json!({
            "to": to,
            "participant": name,
            "transferId": id(state, row.transfer),
            "tells": tells,
            "error": row.error.map(|(code, _)| code.number().to_string()),
        })
    };
    effects.all(|step| &step.notifications).map(show).collect()
}

fn alarms(effects: &Effects, state: &impl View) -> Vec<Value> {
    let show = |row: &holdfast_domain::effects::LimitAlarm| {
        json!({
            "account": row.account.0,
            "participant": owner(state, row.account),
            "position": row.value.to_string(),
            "netDebitCap": row.net_debit_cap.to_string(),
        })
    };
    effects.all(|step| &step.alarms).map(show).collect()
}

fn dead_letters(effects: &Effects, state: &impl View) -> Vec<Value> {
    let show = |row: &holdfast_domain::effects::DeadLetter| {
        let reason = match row.reason {
            DeadLetterReason::UnknownAccount(account) => format!("there is no account {}", account.0),
            DeadLetterReason::WrongState(state) => format!("the transfer is {state}"),
        };
        json!({"transferId": id(state, row.transfer), "action": row.action.name(), "reason": reason})
    };
    effects.all(|step| &step.dead_letters).map(show).collect()
}
