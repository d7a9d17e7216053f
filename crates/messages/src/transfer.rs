//! The topic `transfers`: what participants ask for, in the order of each transfer.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_with_macros::skip_serializing_none;

use holdfast_domain::command::{Abort, Command, Fulfil, FulfilAction, Funding, Lookup, Prepare};
use holdfast_domain::ids::{Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::money::Amount;

use super::wire::{digest, opaque};
use super::{Message, Poison, Topic, TraceId, read, write};

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "body", rename_all = "lowercase")]
#[allow(clippy::large_enum_variant, reason = "nearly all are prepares and fulfils")]
pub enum TransferCommand {
    /// Reserve.
    #[serde(with = "PrepareBody")]
    Prepare(Prepare),
    /// Settle.
    #[serde(with = "FulfilBody")]
    Fulfil(Fulfil),
    /// Release.
    #[serde(with = "AbortBody")]
    Abort(Abort),
    /// Where does it stand?
    #[serde(with = "LookupBody")]
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

    /// The same with what is computed and not written, if its values are within their bounds.
    fn completed(self) -> Result<TransferCommand, Poison> {
        match self {
            TransferCommand::Fulfil(Fulfil { source, id, action, fulfilment, tail, digest: _ }) => {
                Ok(TransferCommand::Fulfil(Fulfil::new(source, id, action, fulfilment).with_tail(tail)))
            }
            TransferCommand::Abort(Abort { code, .. }) if !(1000..=9999).contains(&code) => {
                Err(Poison::field("code", format!("{code} is not of four digits")))
            }
            complete => Ok(complete),
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
        write(self.trace, &self.command)
    }

    fn from_json(value: &[u8]) -> Result<TransferMessage, Poison> {
        let (trace, command) = read::<TransferCommand>(value)?;
        Ok(TransferMessage { trace, command: command.completed()? })
    }
}

/// A prepare on its way; its funding does not say again which transfer it is for.
#[skip_serializing_none]
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PrepareBody {
    transfer: TransferId,
    source: ParticipantId,
    payer: ParticipantId,
    payee: ParticipantId,
    amount: Amount,
    currency: Currency,
    expiration: Millis,
    #[serde(with = "digest")]
    condition: [u8; 32],
    /// As the edge computed it, over parts too that do not travel on their own. Without one (or with one of zeros, which no
    /// bytes have) it is that of the fields alone, as in binary records.
    #[serde(default, with = "digest")]
    hash: [u8; 32],
    funding: Option<FundingBody>,
    #[serde(default, with = "opaque", skip_serializing_if = "Vec::is_empty")]
    tail: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FundingBody {
    payer_wallet: String,
    payee_wallet: String,
    tokens: Vec<String>,
}

impl PrepareBody {
    fn serialize<S: Serializer>(prepare: &Prepare, serializer: S) -> Result<S::Ok, S::Error> {
        let body = PrepareBody {
            transfer: prepare.id,
            source: prepare.source,
            payer: prepare.payer,
            payee: prepare.payee,
            amount: prepare.amount,
            currency: prepare.currency,
            expiration: prepare.expiration,
            condition: prepare.condition,
            hash: prepare.hash,
            funding: prepare.funding.as_deref().map(|funding| FundingBody {
                payer_wallet: funding.payer_wallet.to_string(),
                payee_wallet: funding.payee_wallet.to_string(),
                tokens: funding.ids.iter().map(ToString::to_string).collect(),
            }),
            tail: prepare.tail.clone(),
        };
        Serialize::serialize(&body, serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Prepare, D::Error> {
        let body: PrepareBody = Deserialize::deserialize(deserializer)?;
        if !(0..=EXPIRATION_MAX).contains(&body.expiration) {
            return Err(D::Error::custom("expiration is not between the years 1970 and 9999"));
        }
        let id = body.transfer;
        let funding = body.funding.map(|funding| {
            let ids = funding.tokens.iter().map(|id| id.as_str().into()).collect();
            Box::new(Funding::new(id, funding.payer_wallet.into(), funding.payee_wallet.into(), ids))
        });
        let prepare = Prepare {
            source: body.source,
            id,
            payer: body.payer,
            payee: body.payee,
            amount: body.amount,
            expiration: body.expiration,
            currency: body.currency,
            condition: body.condition,
            hash: body.hash,
            tail: body.tail,
            funding,
        };
        Ok(if body.hash == [0; 32] { prepare.hashed_with(&[0; 32], &[0; 32]) } else { prepare })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Fulfil", deny_unknown_fields)]
struct FulfilBody {
    #[serde(rename = "transfer")]
    id: TransferId,
    source: ParticipantId,
    action: FulfilAction,
    #[serde(with = "digest")]
    fulfilment: [u8; 32],
    #[serde(skip)]
    digest: [u8; 32],
    #[serde(default, with = "opaque", skip_serializing_if = "Vec::is_empty")]
    tail: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Abort", deny_unknown_fields)]
struct AbortBody {
    #[serde(rename = "transfer")]
    id: TransferId,
    source: ParticipantId,
    code: u16,
    #[serde(with = "digest")]
    digest: [u8; 32],
    #[serde(default, with = "opaque", skip_serializing_if = "Vec::is_empty")]
    tail: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Lookup", deny_unknown_fields)]
struct LookupBody {
    #[serde(rename = "transfer")]
    id: TransferId,
    source: ParticipantId,
}
