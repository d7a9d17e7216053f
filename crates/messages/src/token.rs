//! The topics `token-events`, which tells what happened to tokens, and `token-updates`, by which an outside ledger tells what
//! it did with them. A token looks as it does over HTTP: quantities are strings, what it does not have is left out.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_domain::ids::Millis;
use holdfast_domain::tokens::HOLD_PREFIX;
use holdfast_tokens::limits::BATCH_TOKENS_MAX;
use holdfast_tokens::{DEFAULT_TYPE, Fingerprint, Kind, Name, Token, TokenId, Transaction};
use serde::{Deserialize, Serialize};

use super::wire::Text;
use super::{Message, Poison, Topic, TraceId, open, write};

/// What happened to tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenEvent {
    /// These are new.
    Issued(Vec<Token>),
    /// A selection was spent.
    Spent {
        /// The selection's fence.
        fence: u64,
        /// What was paid, as a number that knows a repeat.
        body: Fingerprint,
        /// Inputs and outputs.
        transaction: Transaction,
    },
    /// An outside ledger did this.
    Updated {
        /// What is gone.
        consumed: Vec<TokenId>,
        /// What came.
        produced: Vec<Token>,
        /// Selections that lost a token by it and have ended.
        broken: Vec<(Arc<str>, u64)>,
    },
    /// A selection was given back.
    Released {
        /// Whose.
        spender: Arc<str>,
        /// The selection's fence.
        fence: u64,
    },
    /// A selection was renewed to an earlier end. Of a later one nobody is told: who comes too soon finds out.
    Shortened {
        /// Whose.
        spender: Arc<str>,
        /// The selection's fence.
        fence: u64,
        /// Its new end, in milliseconds since 1970.
        expires_at: Millis,
    },
}

/// What an outside ledger did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenUpdate {
    /// Follows it through the logs.
    pub trace: TraceId,
    /// What is gone.
    pub consumed: Vec<TokenId>,
    /// What came.
    pub produced: Vec<Token>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireToken {
    id: String,
    quantity: Text<u64>,
    wallet: String,
    #[serde(rename = "type", default = "default_type")]
    token_type: String,
    currency: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    public_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notary: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    attributes: BTreeMap<String, String>,
}

fn default_type() -> String {
    DEFAULT_TYPE.to_owned()
}

impl WireToken {
    fn of(token: &Token) -> WireToken {
        let kind = &*token.kind;
        let optional = |name: &Option<Name>| name.as_ref().map(Name::to_string);
        WireToken {
            id: token.id.as_str().to_owned(),
            quantity: Text(token.quantity),
            wallet: kind.wallet.to_string(),
            token_type: kind.token_type.to_string(),
            currency: kind.currency.to_string(),
            external_id: optional(&kind.external_id),
            public_key: optional(&kind.public_key),
            issuer: optional(&kind.issuer),
            notary: optional(&kind.notary),
            attributes: kind.attributes.as_deref().cloned().unwrap_or_default(),
        }
    }

    fn read(self) -> Result<Token, Poison> {
        let kind = Kind {
            wallet: self.wallet.into(),
            external_id: self.external_id.map(Name::from),
            public_key: self.public_key.map(Name::from),
            token_type: self.token_type.into(),
            currency: self.currency.into(),
            issuer: self.issuer.map(Name::from),
            notary: self.notary.map(Name::from),
            attributes: (!self.attributes.is_empty()).then(|| Arc::new(self.attributes)),
        };
        let token = Token { id: self.id.into(), quantity: self.quantity.0, kind: Arc::new(kind) };
        token.check().map_err(|why| Poison::field("token", why.to_string()))?;
        Ok(token)
    }
}

fn written(tokens: &[Token]) -> Vec<WireToken> {
    tokens.iter().map(WireToken::of).collect()
}

fn read(tokens: Vec<WireToken>) -> Result<Vec<Token>, Poison> {
    tokens.into_iter().map(WireToken::read).collect()
}

fn texts(ids: &[TokenId]) -> Vec<String> {
    ids.iter().map(|id| id.as_str().to_owned()).collect()
}

fn ids(texts: Vec<String>) -> Vec<TokenId> {
    texts.into_iter().map(TokenId::from).collect()
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Issued {
    tokens: Vec<WireToken>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spent {
    spender: String,
    fence: Text<u64>,
    body: Text<Hex>,
    transaction: String,
    consumed: Vec<String>,
    produced: Vec<WireToken>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Updated {
    consumed: Vec<String>,
    produced: Vec<WireToken>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    broken: Vec<Released>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Released {
    spender: String,
    fence: Text<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Shortened {
    spender: String,
    fence: Text<u64>,
    expires_at: Millis,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateBody {
    #[serde(default)]
    consumed: Vec<String>,
    #[serde(default)]
    produced: Vec<WireToken>,
}

/// A fingerprint in 32 hex digits.
struct Hex(u128);

impl std::fmt::Display for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl std::str::FromStr for Hex {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Hex, Self::Err> {
        u128::from_str_radix(text, 16).map(Hex)
    }
}

impl Message for TokenEvent {
    const TOPIC: Topic = Topic::TokenEvents;

    fn trace(&self) -> TraceId {
        TraceId::NOBODY
    }

    /// Whom it concerns: a wallet, or the spender. The topic has one partition, so all events lie in one order.
    fn key(&self) -> String {
        let wallet = |tokens: &[Token]| tokens.first().map(|token| token.kind.wallet.to_string());
        match self {
            TokenEvent::Issued(tokens) => wallet(tokens).unwrap_or_default(),
            TokenEvent::Spent { transaction, .. } => transaction.spender.to_string(),
            TokenEvent::Updated { consumed, produced, .. } => wallet(produced)
                .or_else(|| consumed.first().map(|id| id.as_str().to_owned()))
                .unwrap_or_default(),
            TokenEvent::Released { spender, .. } | TokenEvent::Shortened { spender, .. } => {
                spender.to_string()
            }
        }
    }

    fn to_json(&self) -> Vec<u8> {
        match self {
            TokenEvent::Issued(tokens) => write(self.trace(), "issued", &Issued { tokens: written(tokens) }),
            TokenEvent::Spent { fence, body, transaction } => {
                let body = Spent {
                    spender: transaction.spender.to_string(),
                    fence: Text(*fence),
                    body: Text(Hex(body.0)),
                    transaction: transaction.id.to_string(),
                    consumed: texts(&transaction.consumed),
                    produced: written(&transaction.produced),
                };
                write(self.trace(), "spent", &body)
            }
            TokenEvent::Updated { consumed, produced, broken } => {
                let ended = |(spender, fence): &(Arc<str>, u64)| Released {
                    spender: spender.to_string(),
                    fence: Text(*fence),
                };
                let body = Updated {
                    consumed: texts(consumed),
                    produced: written(produced),
                    broken: broken.iter().map(ended).collect(),
                };
                write(self.trace(), "updated", &body)
            }
            TokenEvent::Released { spender, fence } => write(
                self.trace(),
                "released",
                &Released { spender: spender.to_string(), fence: Text(*fence) },
            ),
            TokenEvent::Shortened { spender, fence, expires_at } => {
                let (spender, fence) = (spender.to_string(), Text(*fence));
                write(self.trace(), "shortened", &Shortened { spender, fence, expires_at: *expires_at })
            }
        }
    }

    fn from_json(value: &[u8]) -> Result<TokenEvent, Poison> {
        let envelope = open(value)?;
        Ok(match &*envelope.kind {
            "issued" => TokenEvent::Issued(read(envelope.body::<Issued>()?.tokens)?),
            "spent" => {
                let Spent { spender, fence, body, transaction, consumed, produced } = envelope.body()?;
                let (consumed, produced) = (ids(consumed), read(produced)?);
                TokenEvent::Spent {
                    fence: fence.0,
                    body: Fingerprint(body.0.0),
                    transaction: Transaction {
                        id: transaction.into(),
                        spender: spender.into(),
                        consumed,
                        produced,
                    },
                }
            }
            "updated" => {
                let Updated { consumed, produced, broken } = envelope.body()?;
                let broken = broken.into_iter().map(|ended| (ended.spender.into(), ended.fence.0)).collect();
                TokenEvent::Updated { consumed: ids(consumed), produced: read(produced)?, broken }
            }
            "released" => {
                let Released { spender, fence } = envelope.body()?;
                TokenEvent::Released { spender: spender.into(), fence: fence.0 }
            }
            "shortened" => {
                let Shortened { spender, fence, expires_at } = envelope.body()?;
                TokenEvent::Shortened { spender: spender.into(), fence: fence.0, expires_at }
            }
            _ => return envelope.unknown_type(),
        })
    }
}

impl Message for TokenUpdate {
    const TOPIC: Topic = Topic::TokenUpdates;

    fn trace(&self) -> TraceId {
        self.trace
    }

    /// Updates may come in any order, so any key will do; this one keeps a token's own in order where it can.
    fn key(&self) -> String {
        let produced = self.produced.first().map(|token| token.id.as_str());
        self.consumed.first().map(TokenId::as_str).or(produced).unwrap_or_default().to_owned()
    }

    /// Whatever key an outside ledger has chosen is as good.
    fn read(_: &[u8], value: &[u8]) -> Result<TokenUpdate, Poison> {
        TokenUpdate::from_json(value)
    }

    fn to_json(&self) -> Vec<u8> {
        let body = UpdateBody { consumed: texts(&self.consumed), produced: written(&self.produced) };
        write(self.trace, "update", &body)
    }

    fn from_json(value: &[u8]) -> Result<TokenUpdate, Poison> {
        let envelope = open(value)?;
        if envelope.kind != "update" {
            return envelope.unknown_type();
        }
        let UpdateBody { consumed, produced } = envelope.body()?;
        if consumed.len() + produced.len() > BATCH_TOKENS_MAX {
            return Err(Poison::field("tokens", format!("must be at most {BATCH_TOKENS_MAX}")));
        }
        for id in &consumed {
            holdfast_tokens::check_name("a consumed id", id)
                .map_err(|why| Poison::field("consumed", why.to_string()))?;
        }
        let produced = read(produced)?;
        if let Some(token) = produced.iter().find(|token| token.id.as_str().starts_with(HOLD_PREFIX)) {
            let why =
                format!("{} begins with {HOLD_PREFIX}, which transfers and checkouts alone make", token.id);
            return Err(Poison::field("produced", why));
        }
        Ok(TokenUpdate { trace: envelope.trace.0, consumed: ids(consumed), produced })
    }
}
