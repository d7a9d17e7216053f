//! The topic `position`: everything that can change an account or a limit test, on the key of the position account.

use serde::{Deserialize, Serialize};

use holdfast_domain::command::Admin;
use holdfast_domain::ids::{AccountId, Currency, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::positions::Action;
use holdfast_domain::transfers::ErrorInformation;

use super::wire::Text;
use super::{Message, Place, Poison, Topic, TraceId, WireError, open, write};

/// A message of the topic `position`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositionMessage {
    /// The request it came with.
    pub trace: TraceId,
    /// The position account: the key.
    pub account: AccountId,
    /// What is to be done with it.
    pub work: PositionWork,
}

/// What is to be done with an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PositionWork {
    /// A transfer's position step.
    Step(Step),
    /// The operator's command. Of those, only what one account is about: participants are made elsewhere.
    Admin(Admin),
}

/// A transfer's position step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What to do.
    pub action: Action,
    /// The transfer.
    pub transfer: TransferId,
    /// Its amount, for people; the row's is what counts.
    pub amount: Amount,
    /// The error that an abort goes on with.
    pub error: Option<ErrorInformation>,
    /// The message of `transfers` that led to it; none for what ran out.
    pub origin: Option<Place>,
}

impl PositionMessage {
    /// The operator's command as a message to the account that decides it.
    ///
    /// `None` if it is about no account, or if its settlement account does not belong to `account`.
    #[must_use]
    pub fn admin(trace: TraceId, account: AccountId, admin: Admin) -> Option<PositionMessage> {
        let message = PositionMessage { trace, account, work: PositionWork::Admin(admin) };
        message.belongs().then_some(message)
    }

    /// Whether the work is about the account of the key. A settlement account is the number after its position account.
    fn belongs(&self) -> bool {
        let settlement = |account: AccountId| self.account.0.checked_add(1) == Some(account.0);
        match self.work {
            PositionWork::Step(_) => true,
            PositionWork::Admin(admin) => match admin {
                Admin::CreateParticipant { .. } | Admin::SetParticipantActive { .. } => false,
                Admin::SetAccountActive { account, .. } => account == self.account,
                Admin::InitialPositionAndLimits { .. } | Admin::SetLimit { .. } => true,
                Admin::FundsIn { account, .. }
                | Admin::FundsOutReserve { account, .. }
                | Admin::FundsOutCommit { account, .. }
                | Admin::FundsOutAbort { account, .. } => settlement(account),
            },
        }
    }
}

impl Message for PositionMessage {
    const TOPIC: Topic = Topic::Position;

    fn trace(&self) -> TraceId {
        self.trace
    }

    fn key(&self) -> String {
        self.account.0.to_string()
    }

    /// # Panics
    /// If it holds a command that belongs to no account: [`PositionMessage::admin`] makes none.
    fn to_json(&self) -> Vec<u8> {
        let (trace, account) = (self.trace, self.account.0);
        match self.work {
            PositionWork::Step(step) => write(trace, "position", &StepBody::of(account, &step)),
            PositionWork::Admin(admin) => {
                let (kind, body) = AdminBody::of(account, &admin).expect("a command about an account");
                write(trace, kind, &body)
            }
        }
    }

    fn from_json(value: &[u8]) -> Result<PositionMessage, Poison> {
        let envelope = open(value)?;
        let trace = envelope.trace.0;
        let message = if envelope.kind == "position" {
            let body: StepBody = envelope.body()?;
            let account = AccountId(body.account);
            PositionMessage { trace, account, work: PositionWork::Step(body.read()?) }
        } else {
            let body = AdminBody::read(&envelope.kind, || envelope.body());
            let Some(body) = body? else { return envelope.unknown_type() };
            let account = AccountId(body.account);
            PositionMessage { trace, account, work: PositionWork::Admin(body.admin(&envelope.kind)?) }
        };
        if message.belongs() {
            Ok(message)
        } else {
            Err(Poison::field("settlement", "is not the settlement account of the account"))
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StepBody {
    action: String,
    account: u32,
    transfer: Text<TransferId>,
    amount: Text<Amount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<WireError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Place>,
}

impl StepBody {
    fn of(account: u32, step: &Step) -> StepBody {
        StepBody {
            action: step.action.name().to_owned(),
            account,
            transfer: Text(step.transfer),
            amount: Text(step.amount),
            error: WireError::of(step.error),
            origin: step.origin,
        }
    }

    fn read(self) -> Result<Step, Poison> {
        Ok(Step {
            action: action_named(&self.action)?,
            transfer: self.transfer.0,
            amount: self.amount.0,
            error: WireError::read(self.error)?,
            origin: self.origin,
        })
    }
}

pub(super) fn action_named(name: &str) -> Result<Action, Poison> {
    let named = Action::ALL.into_iter().find(|action| action.name() == name);
    named.ok_or_else(|| Poison::field("action", format!("'{name}' is not an action")))
}

/// All fields that the operator's commands have among them; each type wants exactly its own.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AdminBody {
    account: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settlement: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    participant: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    transfer: Option<Text<TransferId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    currency: Option<Text<Currency>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    amount: Option<Text<Amount>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    net_debit_cap: Option<Text<Amount>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    initial_position: Option<Text<Amount>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    alarm_percentage: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    active: Option<bool>,
}

const ACTIVE: &str = "set-active";
const INITIAL: &str = "initial-position-and-limits";
const LIMIT: &str = "set-limit";
const FUNDS_IN: &str = "funds-in";
const FUNDS_OUT: &str = "funds-out-prepare";
const FUNDS_OUT_COMMIT: &str = "funds-out-commit";
const FUNDS_OUT_ABORT: &str = "funds-out-abort";

impl AdminBody {
    fn of(account: u32, admin: &Admin) -> Option<(&'static str, AdminBody)> {
        let empty = AdminBody { account, ..AdminBody::default() };
        let limits = |participant: ParticipantId, currency, net_debit_cap, empty| AdminBody {
            participant: Some(participant.0),
            currency: Some(Text(currency)),
            net_debit_cap: Some(Text(net_debit_cap)),
            ..empty
        };
        let funds = |id, settlement: AccountId, empty| AdminBody {
            transfer: Some(Text(id)),
            settlement: Some(settlement.0),
            ..empty
        };
        Some(match *admin {
            Admin::CreateParticipant { .. } | Admin::SetParticipantActive { .. } => return None,
            Admin::SetAccountActive { active, .. } => (ACTIVE, AdminBody { active: Some(active), ..empty }),
            Admin::InitialPositionAndLimits { participant, currency, net_debit_cap, initial_position } => {
                let limits = limits(participant, currency, net_debit_cap, empty);
                (INITIAL, AdminBody { initial_position: Some(Text(initial_position)), ..limits })
            }
            Admin::SetLimit { participant, currency, net_debit_cap, alarm_percentage } => {
                let limits = limits(participant, currency, net_debit_cap, empty);
                (LIMIT, AdminBody { alarm_percentage: Some(alarm_percentage), ..limits })
            }
            Admin::FundsIn { id, account, currency, amount } => {
                let funds = funds(id, account, empty);
                (FUNDS_IN, AdminBody { currency: Some(Text(currency)), amount: Some(Text(amount)), ..funds })
            }
            Admin::FundsOutReserve { id, account, currency, amount } => {
                let funds = funds(id, account, empty);
                (FUNDS_OUT, AdminBody { currency: Some(Text(currency)), amount: Some(Text(amount)), ..funds })
            }
            Admin::FundsOutCommit { id, account } => (FUNDS_OUT_COMMIT, funds(id, account, empty)),
            Admin::FundsOutAbort { id, account } => (FUNDS_OUT_ABORT, funds(id, account, empty)),
        })
    }

    /// The body, if the type is one of these.
    fn read(
        kind: &str,
        body: impl FnOnce() -> Result<AdminBody, Poison>,
    ) -> Result<Option<AdminBody>, Poison> {
        let known = [ACTIVE, INITIAL, LIMIT, FUNDS_IN, FUNDS_OUT, FUNDS_OUT_COMMIT, FUNDS_OUT_ABORT];
        if known.contains(&kind) { body().map(Some) } else { Ok(None) }
    }

    fn admin(mut self, kind: &str) -> Result<Admin, Poison> {
        let account = AccountId(self.account);
        let admin = match kind {
            ACTIVE => Admin::SetAccountActive { account, active: want("active", &mut self.active)? },
            INITIAL => Admin::InitialPositionAndLimits {
                participant: ParticipantId(want("participant", &mut self.participant)?),
                currency: want("currency", &mut self.currency)?.0,
                net_debit_cap: want("netDebitCap", &mut self.net_debit_cap)?.0,
                initial_position: want("initialPosition", &mut self.initial_position)?.0,
            },
            LIMIT => Admin::SetLimit {
                participant: ParticipantId(want("participant", &mut self.participant)?),
                currency: want("currency", &mut self.currency)?.0,
                net_debit_cap: want("netDebitCap", &mut self.net_debit_cap)?.0,
                alarm_percentage: want("alarmPercentage", &mut self.alarm_percentage)?,
            },
            _ => self.funds(kind)?,
        };
        // What is left over belongs to another type.
        let rest = serde_json::to_value(AdminBody { account: 0, ..self });
        match rest.ok().as_ref().and_then(serde_json::Value::as_object) {
            Some(rest) if rest.len() == 1 => Ok(admin),
            _ => Err(Poison::Shape(format!("a field too many for '{kind}'"))),
        }
    }

    fn funds(&mut self, kind: &str) -> Result<Admin, Poison> {
        let id = want("transfer", &mut self.transfer)?.0;
        let account = AccountId(want("settlement", &mut self.settlement)?);
        match kind {
            FUNDS_OUT_COMMIT => return Ok(Admin::FundsOutCommit { id, account }),
            FUNDS_OUT_ABORT => return Ok(Admin::FundsOutAbort { id, account }),
            _ => {}
        }
        let currency = want("currency", &mut self.currency)?.0;
        let amount = want("amount", &mut self.amount)?.0;
        Ok(match kind {
            FUNDS_IN => Admin::FundsIn { id, account, currency, amount },
            _ => Admin::FundsOutReserve { id, account, currency, amount },
        })
    }
}

fn want<T>(field: &'static str, value: &mut Option<T>) -> Result<T, Poison> {
    value.take().ok_or_else(|| Poison::field(field, "is missing"))
}
