//! The topics `token-events`, which tells what happened to tokens, and `token-updates`, by which an outside ledger tells what
//! it did with them. A token looks as it does over HTTP: quantities are strings, what it does not have is left out.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_domain::ids::Millis;
use holdfast_domain::tokens::HOLD_PREFIX;
use holdfast_tokens::limits::BATCH_TOKENS_MAX;
use holdfast_tokens::{DEFAULT_TYPE, Fingerprint, Kind, Name, Token, TokenId, Transaction};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_with_macros::skip_serializing_none;

use super::wire::Text;
use super::{Message, Only, Poison, Topic, TraceId, read, read_only, write};

/// The one type of message in `token-updates`.
const UPDATE: &str = "update";

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenUpdate {
    /// Follows it through the logs.
    #[serde(skip)]
    pub trace: TraceId,
    /// What is gone.
    #[serde(default, with = "ids")]
    pub consumed: Vec<TokenId>,
    /// What came.
    #[serde(default, with = "tokens")]
    pub produced: Vec<Token>,
}

#[skip_serializing_none]
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireToken {
    id: String,
    quantity: Text<u64>,
    wallet: String,
    #[serde(rename = "type", default = "default_type")]
    token_type: String,
    currency: String,
    external_id: Option<String>,
    public_key: Option<String>,
    issuer: Option<String>,
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

/// Tokens of a message.
mod tokens {
    use super::{Deserialize, Deserializer, Error, Serializer, Token, WireToken};

    pub(crate) fn serialize<S: Serializer>(tokens: &[Token], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(tokens.iter().map(WireToken::of))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Token>, D::Error> {
        let tokens: Vec<WireToken> = Deserialize::deserialize(deserializer)?;
        tokens.into_iter().map(WireToken::read).collect::<Result<_, _>>().map_err(D::Error::custom)
    }
}

/// Ids of tokens.
mod ids {
    use super::{Deserialize, Deserializer, Serializer, TokenId};

    pub(crate) fn serialize<S: Serializer>(ids: &[TokenId], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(ids.iter().map(TokenId::as_str))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TokenId>, D::Error> {
        let ids: Vec<String> = Deserialize::deserialize(deserializer)?;
        Ok(ids.into_iter().map(TokenId::from).collect())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", content = "body", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[serde(deny_unknown_fields)]
enum Body {
    Issued {
        #[serde(with = "tokens")]
        tokens: Vec<Token>,
    },
    Spent {
        spender: String,
        fence: Text<u64>,
        body: Text<Hex>,
        transaction: String,
        #[serde(with = "ids")]
        consumed: Vec<TokenId>,
        #[serde(with = "tokens")]
        produced: Vec<Token>,
    },
    Updated {
        #[serde(with = "ids")]
        consumed: Vec<TokenId>,
        #[serde(with = "tokens")]
        produced: Vec<Token>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        broken: Vec<Released>,
    },
    Released(Released),
    Shortened {
        spender: String,
        fence: Text<u64>,
        expires_at: Millis,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Released {
    spender: String,
    fence: Text<u64>,
}

impl Released {
    fn of(spender: &str, fence: u64) -> Released {
        Released { spender: spender.to_owned(), fence: Text(fence) }
    }
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
        let body = match self.clone() {
            TokenEvent::Issued(tokens) => Body::Issued { tokens },
            TokenEvent::Spent { fence, body, transaction } => Body::Spent {
                spender: transaction.spender.to_string(),
                fence: Text(fence),
                body: Text(Hex(body.0)),
                transaction: transaction.id.to_string(),
                consumed: transaction.consumed,
                produced: transaction.produced,
            },
            TokenEvent::Updated { consumed, produced, broken } => {
                let broken = broken.iter().map(|(spender, fence)| Released::of(spender, *fence)).collect();
                Body::Updated { consumed, produced, broken }
            }
            TokenEvent::Released { spender, fence } => Body::Released(Released::of(&spender, fence)),
            TokenEvent::Shortened { spender, fence, expires_at } => {
                Body::Shortened { spender: spender.to_string(), fence: Text(fence), expires_at }
            }
        };
        write(self.trace(), body)
    }

    fn from_json(value: &[u8]) -> Result<TokenEvent, Poison> {
        Ok(match read(value)?.1 {
            Body::Issued { tokens } => TokenEvent::Issued(tokens),
            Body::Spent { spender, fence, body, transaction, consumed, produced } => {
                let (id, spender) = (transaction.into(), spender.into());
                let transaction = Transaction { id, spender, consumed, produced };
                TokenEvent::Spent { fence: fence.0, body: Fingerprint(body.0.0), transaction }
            }
            Body::Updated { consumed, produced, broken } => {
                let broken = broken.into_iter().map(|ended| (ended.spender.into(), ended.fence.0)).collect();
                TokenEvent::Updated { consumed, produced, broken }
            }
            Body::Released(Released { spender, fence }) => {
                TokenEvent::Released { spender: spender.into(), fence: fence.0 }
            }
            Body::Shortened { spender, fence, expires_at } => {
                TokenEvent::Shortened { spender: spender.into(), fence: fence.0, expires_at }
            }
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
        write(self.trace, Only { kind: UPDATE, body: self })
    }

    fn from_json(value: &[u8]) -> Result<TokenUpdate, Poison> {
        let (trace, update): (_, TokenUpdate) = read_only(UPDATE, value)?;
        let TokenUpdate { consumed, produced, .. } = &update;
        if consumed.len() + produced.len() > BATCH_TOKENS_MAX {
            return Err(Poison::field("tokens", format!("must be at most {BATCH_TOKENS_MAX}")));
        }
        for id in consumed {
            holdfast_tokens::check_name("a consumed id", id.as_str())
                .map_err(|why| Poison::field("consumed", why.to_string()))?;
        }
        if let Some(token) = produced.iter().find(|token| token.id.as_str().starts_with(HOLD_PREFIX)) {
            let why =
                format!("{} begins with {HOLD_PREFIX}, which transfers and checkouts alone make", token.id);
            return Err(Poison::field("produced", why));
        }
        Ok(TokenUpdate { trace, ..update })
    }
}
