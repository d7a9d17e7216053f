//! The topic `position`: everything that can change an account or a limit test, on the key of the position account.

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use holdfast_domain::command::Admin;
use holdfast_domain::ids::{AccountId, Currency, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::positions::Action;
use holdfast_domain::transfers::ErrorInformation;

use super::wire::error;
use super::{Message, Place, Poison, Topic, TraceId, read, write};

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
        write(self.trace, Body::of(self.account, self.work))
    }

    fn from_json(value: &[u8]) -> Result<PositionMessage, Poison> {
        let (trace, body) = read::<Body>(value)?;
        let (account, work) = body.work();
        let message = PositionMessage { trace, account, work };
        if message.belongs() {
            Ok(message)
        } else {
            Err(Poison::field("settlement", "is not the settlement account of the account"))
        }
    }
}

#[skip_serializing_none]
#[derive(Serialize, Deserialize)]
#[serde(tag = "type", content = "body", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[serde(deny_unknown_fields)]
enum Body {
    Position {
        action: Action,
        account: AccountId,
        transfer: TransferId,
        amount: Amount,
        #[serde(default, with = "error")]
        error: Option<ErrorInformation>,
        origin: Option<Place>,
    },
    SetActive {
        account: AccountId,
        active: bool,
    },
    InitialPositionAndLimits {
        account: AccountId,
        participant: ParticipantId,
        currency: Currency,
        net_debit_cap: Amount,
        initial_position: Amount,
    },
    SetLimit {
        account: AccountId,
        participant: ParticipantId,
        currency: Currency,
        net_debit_cap: Amount,
        alarm_percentage: u16,
    },
    FundsIn {
        account: AccountId,
        settlement: AccountId,
        transfer: TransferId,
        currency: Currency,
        amount: Amount,
    },
    FundsOutPrepare {
        account: AccountId,
        settlement: AccountId,
        transfer: TransferId,
        currency: Currency,
        amount: Amount,
    },
    FundsOutCommit {
        account: AccountId,
        settlement: AccountId,
        transfer: TransferId,
    },
    FundsOutAbort {
        account: AccountId,
        settlement: AccountId,
        transfer: TransferId,
    },
}

impl Body {
    fn of(account: AccountId, work: PositionWork) -> Body {
        let admin = match work {
            PositionWork::Step(Step { action, transfer, amount, error, origin }) => {
                return Body::Position { action, account, transfer, amount, error, origin };
            }
            PositionWork::Admin(admin) => admin,
        };
        match admin {
            Admin::CreateParticipant { .. } | Admin::SetParticipantActive { .. } => {
                panic!("a command about an account, not {admin:?}")
            }
            Admin::SetAccountActive { active, .. } => Body::SetActive { account, active },
            Admin::InitialPositionAndLimits { participant, currency, net_debit_cap, initial_position } => {
                Body::InitialPositionAndLimits {
                    account,
                    participant,
                    currency,
                    net_debit_cap,
                    initial_position,
                }
            }
            Admin::SetLimit { participant, currency, net_debit_cap, alarm_percentage } => {
                Body::SetLimit { account, participant, currency, net_debit_cap, alarm_percentage }
            }
            Admin::FundsIn { id: transfer, account: settlement, currency, amount } => {
                Body::FundsIn { account, settlement, transfer, currency, amount }
            }
            Admin::FundsOutReserve { id: transfer, account: settlement, currency, amount } => {
                Body::FundsOutPrepare { account, settlement, transfer, currency, amount }
            }
            Admin::FundsOutCommit { id: transfer, account: settlement } => {
                Body::FundsOutCommit { account, settlement, transfer }
            }
            Admin::FundsOutAbort { id: transfer, account: settlement } => {
                Body::FundsOutAbort { account, settlement, transfer }
            }
        }
    }

    fn work(self) -> (AccountId, PositionWork) {
        let (account, admin) = match self {
            Body::Position { action, account, transfer, amount, error, origin } => {
                return (account, PositionWork::Step(Step { action, transfer, amount, error, origin }));
            }
            Body::SetActive { account, active } => (account, Admin::SetAccountActive { account, active }),
            Body::InitialPositionAndLimits {
                account,
                participant,
                currency,
                net_debit_cap,
                initial_position,
            } => {
                let limits = Admin::InitialPositionAndLimits {
                    participant,
                    currency,
                    net_debit_cap,
                    initial_position,
                };
                (account, limits)
            }
            Body::SetLimit { account, participant, currency, net_debit_cap, alarm_percentage } => {
                (account, Admin::SetLimit { participant, currency, net_debit_cap, alarm_percentage })
            }
            Body::FundsIn { account, settlement, transfer: id, currency, amount } => {
                (account, Admin::FundsIn { id, account: settlement, currency, amount })
            }
            Body::FundsOutPrepare { account, settlement, transfer: id, currency, amount } => {
                (account, Admin::FundsOutReserve { id, account: settlement, currency, amount })
            }
            Body::FundsOutCommit { account, settlement, transfer: id } => {
                (account, Admin::FundsOutCommit { id, account: settlement })
            }
            Body::FundsOutAbort { account, settlement, transfer: id } => {
                (account, Admin::FundsOutAbort { id, account: settlement })
            }
        };
        (account, PositionWork::Admin(admin))
    }
}
