//! Each body that a caller sends.

use holdfast_tokens::limits::{BATCH_TOKENS_MAX, INPUTS_MAX, LEASE_MS_MAX, WAIT_MS_MAX};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with_macros::skip_serializing_none;

use crate::{Attributes, Count, List, Name, Object, PublicKey, Quantity, Whole};

/// Tokens of one request.
type Inputs = Count<1, { INPUTS_MAX as u64 }>;
type LeaseMs = Count<1, { LEASE_MS_MAX.unsigned_abs() }>;
type WaitMs = Count<0, { WAIT_MS_MAX.unsigned_abs() }>;
/// What one call may carry.
type Batch<T> = List<T, BATCH_TOKENS_MAX>;

words! {
    /// How tokens are chosen.
    Policy {
        /// One token of the amount, else an exact sum if a short search finds one, else the fewest inputs.
        FewestInputs = "fewest-inputs",
        /// An exact sum or nothing.
        NoChange = "no-change",
        /// Many small inputs.
        Consolidate = "consolidate",
        /// Any tokens that cover the amount.
        Random = "random",
    }
}

/// A token that is issued or was produced elsewhere.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({"id": "t1", "wallet": "alice", "currency": "EUR", "quantity": "100"}))]
pub struct NewToken {
    /// Unique in the vault; without it the token gets a UUID (needed in updates)
    pub id: Option<Name>,
    /// Who owns it
    pub wallet: Name,
    /// The owner's account elsewhere
    pub external_id: Option<Name>,
    /// The key that can sign for it
    pub public_key: Option<PublicKey>,
    /// `token` without it
    #[serde(rename = "type")]
    pub token_type: Option<Name>,
    /// The token identifier
    pub currency: Name,
    /// How much it is worth, from 1 to 18446744073709551615
    pub quantity: Quantity,
    /// Who stands behind it
    pub issuer: Option<Name>,
    /// Who notarises its spends; one selection never mixes notaries
    pub notary: Option<Name>,
    /// Names of up to 64 characters, values of up to 256
    pub attributes: Option<Attributes>,
}

/// `POST /tokens/issue`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "TokenIssue",
    example = json!({"tokens": [{"id": "t1", "wallet": "alice", "currency": "EUR", "quantity": "100"}]})
)]
pub struct Issue {
    /// The new tokens: all of them, or none
    #[schemars(length(min = 1))]
    pub tokens: Batch<Object<NewToken>>,
}

/// `POST /tokens/select`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(
    rename = "TokenSelect",
    example = json!({"spender": "payment-1", "wallet": "alice", "currency": "EUR", "amount": "100", "waitMs": 2000})
)]
pub struct Select {
    /// For whom the tokens are locked, such as the id of a payment; at most one live selection each
    pub spender: Name,
    /// From whose tokens; or one of the next two; from all without any
    pub wallet: Option<Name>,
    /// The owner by external id
    pub external_id: Option<Name>,
    /// The owner by public key
    pub public_key: Option<PublicKey>,
    /// Of which currency
    pub currency: Name,
    /// Of which type; `token` without it
    #[serde(rename = "type")]
    pub token_type: Option<Name>,
    /// Worth how much at least, from 1
    pub amount: Quantity,
    /// Only this issuer's
    pub issuer: Option<Name>,
    /// Only under this notary
    pub notary: Option<Name>,
    /// Only those with these attributes
    pub attributes: Option<Attributes>,
    /// How they are chosen; `fewest-inputs` without it
    pub policy: Option<Policy>,
    /// Most tokens
    pub max_inputs: Option<Inputs>,
    /// Less than the amount will do if there is not more
    pub allow_shortfall: Option<bool>,
    /// For how long the tokens are locked; 60,000 without it
    pub lease_ms: Option<LeaseMs>,
    /// How long to wait for what others hold; not at all without it
    pub wait_ms: Option<WaitMs>,
    /// The dust that is taken along
    pub sweep: Option<Object<Sweep>>,
}

/// The dust that a selection takes along.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "TokenSweep", example = json!({"quantityMax": "10", "inputsMax": 20}))]
pub struct Sweep {
    /// Tokens of at most this quantity count as dust
    pub quantity_max: Quantity,
    /// Most of them taken along
    pub inputs_max: Inputs,
}

/// Whom a spend pays.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "TokenOutput", example = json!({"wallet": "bob", "quantity": "100"}))]
pub struct Output {
    /// Who is paid
    pub wallet: Name,
    /// How much, from 1
    pub quantity: Quantity,
    /// The receiver's account elsewhere
    pub external_id: Option<Name>,
    /// The receiver's public key
    pub public_key: Option<PublicKey>,
    /// Names of up to 64 characters, values of up to 256
    pub attributes: Option<Attributes>,
}

/// `POST /tokens/spend`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "TokenSpend",
    example = json!({"spender": "payment-1", "fence": "1731", "outputs": [{"wallet": "bob", "quantity": "100"}]})
)]
pub struct Spend {
    /// Who selected
    pub spender: Name,
    /// The selection's fence; one that is older is refused
    pub fence: Option<Whole>,
    /// Who gets how much
    pub outputs: Batch<Object<Output>>,
}

/// `POST /tokens/redeem`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TokenRedeem", example = json!({"spender": "payment-1", "quantity": "100"}))]
pub struct Redeem {
    /// Who selected
    pub spender: Name,
    /// The selection's fence; one that is older is refused
    pub fence: Option<Whole>,
    /// How much leaves the vault, from 1
    pub quantity: Quantity,
}

/// `POST /tokens/updates`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "TokenUpdates",
    example = json!({"consumed": ["t1"], "produced": [{"id": "t2", "wallet": "bob", "currency": "EUR", "quantity": "100"}]})
)]
pub struct Updates {
    /// Ids of tokens that went; with `produced` 1 to 10,000 entries
    pub consumed: Option<Batch<Name>>,
    /// Tokens that came, each with its id
    pub produced: Option<Batch<Object<NewToken>>>,
}

/// `POST /tokens/consolidate`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(
    rename = "TokenConsolidate",
    example = json!({"wallet": "alice", "currency": "EUR", "outputs": 4, "maxInputs": 100})
)]
pub struct Consolidate {
    /// Whose tokens
    pub wallet: Name,
    /// Of which currency
    pub currency: Name,
    /// Of which type; `token` without it
    #[serde(rename = "type")]
    pub token_type: Option<Name>,
    /// Into how many tokens: each can be locked by one spender only
    pub outputs: Inputs,
    /// Most tokens brought together; 64 without it
    pub max_inputs: Option<Inputs>,
    /// Only tokens of at most this quantity
    pub quantity_max: Option<Quantity>,
    /// For whom they are locked meanwhile; a new name without it
    pub spender: Option<Name>,
}

/// `POST /tokens/locks/{spender}/renew`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "TokenRenewal", example = json!({"leaseMs": 60000}))]
pub struct Renew {
    /// For how long the tokens are locked from now on
    pub lease_ms: LeaseMs,
    /// The selection's fence; one that is older is refused
    pub fence: Option<Whole>,
}
