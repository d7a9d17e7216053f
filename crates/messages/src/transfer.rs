//! The topic `transfers`: what participants ask for, in the order of each transfer.

use serde::{Deserialize, Serialize};

use holdfast_domain::command::{Abort, Command, Fulfil, FulfilAction, Funding, Lookup, Prepare};
use holdfast_domain::ids::{Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::money::Amount;

use super::wire::{Digest, Opaque, Text};
use super::{Message, Poison, Topic, TraceId, open, write};

/// The last millisecond of the year 9999, as in the records of the embedded log.
const EXPIRATION_MAX: Millis = 253_402_300_799_999;

/// A message of the topic `transfers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferMessage {
    /// The request it came with.
    pub trace: TraceId,
    /// What is asked for.
    pub command: TransferCommand,
}

/// What participants ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "nearly all are prepares and fulfils")]
pub enum TransferCommand {
    /// Reserve.
    Prepare(Prepare),
    /// Settle.
    Fulfil(Fulfil),
    /// Release.
    Abort(Abort),
    /// Where does it stand?
    Lookup(Lookup),
}

impl TransferCommand {
    /// The transfer it is about.
    #[must_use]
    pub const fn transfer(&self) -> TransferId {
        match self {
            TransferCommand::Prepare(prepare) => prepare.id,
            TransferCommand::Fulfil(fulfil) => fulfil.id,
            TransferCommand::Abort(abort) => abort.id,
            TransferCommand::Lookup(lookup) => lookup.id,
        }
    }
}

impl From<TransferCommand> for Command {
    fn from(command: TransferCommand) -> Command {
        match command {
            TransferCommand::Prepare(prepare) => Command::Prepare(prepare),
            TransferCommand::Fulfil(fulfil) => Command::Fulfil(fulfil),
            TransferCommand::Abort(abort) => Command::Abort(abort),
            TransferCommand::Lookup(lookup) => Command::Lookup(lookup),
        }
    }
}

impl Message for TransferMessage {
    const TOPIC: Topic = Topic::Transfers;

    fn trace(&self) -> TraceId {
        self.trace
    }

    fn key(&self) -> String {
        self.command.transfer().to_string()
    }

    fn to_json(&self) -> Vec<u8> {
        let trace = self.trace;
        match &self.command {
            TransferCommand::Prepare(prepare) => write(trace, "prepare", &PrepareBody::of(prepare)),
            TransferCommand::Fulfil(fulfil) => write(trace, "fulfil", &FulfilBody::of(fulfil)),
            TransferCommand::Abort(abort) => write(trace, "abort", &AbortBody::of(abort)),
            TransferCommand::Lookup(Lookup { source, id }) => {
                write(trace, "lookup", &LookupBody { transfer: Text(*id), source: source.0 })
            }
        }
    }

    fn from_json(value: &[u8]) -> Result<TransferMessage, Poison> {
        let envelope = open(value)?;
        let command = match &*envelope.kind {
            "prepare" => TransferCommand::Prepare(envelope.body::<PrepareBody>()?.read()?),
            "fulfil" => TransferCommand::Fulfil(envelope.body::<FulfilBody>()?.read()),
            "abort" => TransferCommand::Abort(envelope.body::<AbortBody>()?.read()?),
            "lookup" => {
                let LookupBody { transfer, source } = envelope.body()?;
                TransferCommand::Lookup(Lookup { source: ParticipantId(source), id: transfer.0 })
            }
            _ => return envelope.unknown_type(),
        };
        Ok(TransferMessage { trace: envelope.trace.0, command })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PrepareBody {
    transfer: Text<TransferId>,
    source: u32,
    payer: u32,
    payee: u32,
    amount: Text<Amount>,
    currency: Text<Currency>,
    expiration: Millis,
    condition: Text<Digest>,
    /// As the edge computed it, over parts too that do not travel on their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<Text<Digest>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    funding: Option<FundingBody>,
    #[serde(default, skip_serializing_if = "Opaque::is_empty")]
    tail: Opaque,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FundingBody {
    payer_wallet: String,
    payee_wallet: String,
    tokens: Vec<String>,
}

impl PrepareBody {
    fn of(prepare: &Prepare) -> PrepareBody {
        PrepareBody {
            transfer: Text(prepare.id),
            source: prepare.source.0,
            payer: prepare.payer.0,
            payee: prepare.payee.0,
            amount: Text(prepare.amount),
            currency: Text(prepare.currency),
            expiration: prepare.expiration,
            condition: Text(Digest(prepare.condition)),
            hash: Some(Text(Digest(prepare.hash))),
            funding: prepare.funding.as_deref().map(|funding| FundingBody {
                payer_wallet: funding.payer_wallet.to_string(),
                payee_wallet: funding.payee_wallet.to_string(),
                tokens: funding.ids.iter().map(ToString::to_string).collect(),
            }),
            tail: Opaque(prepare.tail.clone()),
        }
    }

    /// Without a hash it is that of the fields alone, as in binary records.
    fn read(self) -> Result<Prepare, Poison> {
        if !(0..=EXPIRATION_MAX).contains(&self.expiration) {
            return Err(Poison::field("expiration", "is not between the years 1970 and 9999"));
        }
        let id = self.transfer.0;
        let funding = self.funding.map(|funding| {
            let ids = funding.tokens.iter().map(|id| id.as_str().into()).collect();
            Box::new(Funding::new(id, funding.payer_wallet.into(), funding.payee_wallet.into(), ids))
        });
        let prepare = Prepare {
            source: ParticipantId(self.source),
            id,
            payer: ParticipantId(self.payer),
            payee: ParticipantId(self.payee),
            amount: self.amount.0,
            expiration: self.expiration,
            currency: self.currency.0,
            condition: self.condition.0.0,
            hash: [0; 32],
            tail: self.tail.0,
            funding,
        };
        Ok(match self.hash {
            Some(Text(Digest(hash))) => Prepare { hash, ..prepare },
            None => prepare.hashed_with(&[0; 32], &[0; 32]),
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FulfilBody {
    transfer: Text<TransferId>,
    source: u32,
    action: ActionName,
    fulfilment: Text<Digest>,
    #[serde(default, skip_serializing_if = "Opaque::is_empty")]
    tail: Opaque,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ActionName {
    Commit,
    Reserve,
}

impl FulfilBody {
    fn of(fulfil: &Fulfil) -> FulfilBody {
        FulfilBody {
            transfer: Text(fulfil.id),
            source: fulfil.source.0,
            action: match fulfil.action {
                FulfilAction::Commit => ActionName::Commit,
                FulfilAction::Reserve => ActionName::Reserve,
            },
            fulfilment: Text(Digest(fulfil.fulfilment)),
            tail: Opaque(fulfil.tail.clone()),
        }
    }

    fn read(self) -> Fulfil {
        let action = match self.action {
            ActionName::Commit => FulfilAction::Commit,
            ActionName::Reserve => FulfilAction::Reserve,
        };
        Fulfil::new(ParticipantId(self.source), self.transfer.0, action, self.fulfilment.0.0)
            .with_tail(self.tail.0)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AbortBody {
    transfer: Text<TransferId>,
    source: u32,
    code: u16,
    digest: Text<Digest>,
    #[serde(default, skip_serializing_if = "Opaque::is_empty")]
    tail: Opaque,
}

impl AbortBody {
    fn of(abort: &Abort) -> AbortBody {
        AbortBody {
            transfer: Text(abort.id),
            source: abort.source.0,
            code: abort.code,
            digest: Text(Digest(abort.digest)),
            tail: Opaque(abort.tail.clone()),
        }
    }

    fn read(self) -> Result<Abort, Poison> {
        if !(1000..=9999).contains(&self.code) {
            return Err(Poison::field("code", format!("{} is not of four digits", self.code)));
        }
        let abort = Abort::new(ParticipantId(self.source), self.transfer.0, self.code, self.tail.0);
        Ok(abort.same_as(self.digest.0.0))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LookupBody {
    transfer: Text<TransferId>,
    source: u32,
}
