//! What callers ask for: each body as a struct of its fields, and what becomes of it.

use std::sync::Arc;

use holdfast_tokens::limits::{BATCH_TOKENS_MAX, INPUTS_MAX, LEASE_MS_MAX, WAIT_MS_MAX};
use holdfast_tokens::{
    ConsolidationRequest, DustSweep, Filter, Kind, Name, Output, Owner, Policy, Scope, SelectRequest,
    SpendRequest, Token, TokenId,
};
use serde::Deserialize;

use super::given::{Attributes, Count, Flag, Given, List, Object, Place, Text};

/// The words for policies.
pub(crate) const POLICIES: [(&str, Policy); 4] = [
    ("fewest-inputs", Policy::FewestInputs),
    ("no-change", Policy::NoChange),
    ("consolidate", Policy::Consolidate),
    ("random", Policy::Random),
];

const WAIT_MAX: u64 = WAIT_MS_MAX.unsigned_abs();
const LEASE_MAX: u64 = LEASE_MS_MAX.unsigned_abs();

/// A number of milliseconds that was held against its bound.
fn millis(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A number of things that was held against its bound.
fn size(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// The body of `POST /tokens/select`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Select<'a> {
    #[serde(borrow)]
    spender: Given<Text<'a>>,
    #[serde(borrow)]
    wallet: Given<Text<'a>>,
    #[serde(borrow)]
    external_id: Given<Text<'a>>,
    #[serde(borrow)]
    public_key: Given<Text<'a>>,
    #[serde(borrow)]
    currency: Given<Text<'a>>,
    #[serde(borrow, rename = "type")]
    token_type: Given<Text<'a>>,
    #[serde(borrow)]
    amount: Given<Text<'a>>,
    #[serde(borrow)]
    issuer: Given<Text<'a>>,
    #[serde(borrow)]
    notary: Given<Text<'a>>,
    attributes: Given<Attributes>,
    #[serde(borrow)]
    policy: Given<Text<'a>>,
    max_inputs: Given<Count>,
    allow_shortfall: Given<Flag>,
    lease_ms: Given<Count>,
    wait_ms: Given<Count>,
    #[serde(borrow)]
    sweep: Given<Object<Sweep<'a>>>,
}

/// The dust that a selection takes along.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Sweep<'a> {
    #[serde(borrow)]
    quantity_max: Given<Text<'a>>,
    inputs_max: Given<Count>,
}

impl Select<'_> {
    /// The request, and for how many milliseconds it waits.
    pub(super) fn read(self) -> Result<(SelectRequest, i64), String> {
        let at = Place::Body;
        let spender = self.spender.needed_name(at, "spender")?;
        let owner = owner(
            self.wallet.name(at, "wallet")?,
            self.external_id.name(at, "externalId")?,
            self.public_key.public_key(at, "publicKey")?,
        )?;
        let currency = self.currency.needed_name(at, "currency")?;
        let scope = scope(owner, currency, self.token_type.name(at, "type")?);
        let amount = self.amount.quantity(at, "amount")?;
        let mut request = SelectRequest::new(spender, scope, amount);
        request.filter = Filter {
            issuer: self.issuer.name(at, "issuer")?,
            notary: self.notary.name(at, "notary")?,
            attributes: self.attributes.attributes(at)?,
        };
        request.policy = self.policy.word(at, "policy", &POLICIES)?.unwrap_or_default();
        request.max_inputs = self.max_inputs.within(at, "maxInputs", 1, INPUTS_MAX as u64)?.map(size);
        request.allow_shortfall = self
            .allow_shortfall
            .optional(at, "allowShortfall", "true or false")?
            .is_some_and(|Flag(allowed)| allowed);
        if let Some(lease) = self.lease_ms.within(at, "leaseMs", 1, LEASE_MAX)? {
            request.lease_ms = millis(lease);
        }
        request.sweep = self
            .sweep
            .optional(at, "sweep", "an object")?
            .map(|Object(sweep)| {
                let at = Place::In("sweep");
                let inputs = sweep.inputs_max.within(at, "inputsMax", 1, INPUTS_MAX as u64)?;
                Ok::<_, String>(DustSweep {
                    quantity_max: sweep.quantity_max.quantity(at, "quantityMax")?,
                    inputs_max: size(inputs.ok_or_else(|| at.wrong("inputsMax", "is missing"))?),
                })
            })
            .transpose()?;
        let wait = self.wait_ms.within(at, "waitMs", 0, WAIT_MAX)?;
        Ok((request, wait.map_or(0, millis)))
    }
}

/// Whose tokens: by at most one of their owner's names.
pub(in crate::tokens) fn owner(
    wallet: Option<Name>,
    external_id: Option<Name>,
    public_key: Option<Name>,
) -> Result<Owner, String> {
    match (wallet, external_id, public_key) {
        (None, None, None) => Ok(Owner::Any),
        (Some(wallet), None, None) => Ok(Owner::Wallet(wallet)),
        (None, Some(id), None) => Ok(Owner::ExternalId(id)),
        (None, None, Some(key)) => Ok(Owner::PublicKey(key)),
        _ => Err("wallet, externalId, publicKey: name the owner by one of them".to_owned()),
    }
}

/// The tokens of an owner; of the default type where none is named.
pub(in crate::tokens) fn scope(owner: Owner, currency: Name, token_type: Option<Name>) -> Scope {
    match token_type {
        None => Scope::new(owner, currency),
        Some(token_type) => Scope { owner, token_type, currency },
    }
}

/// A token that is issued or was produced elsewhere.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct NewToken<'a> {
    #[serde(borrow)]
    id: Given<Text<'a>>,
    #[serde(borrow)]
    wallet: Given<Text<'a>>,
    #[serde(borrow)]
    external_id: Given<Text<'a>>,
    #[serde(borrow)]
    public_key: Given<Text<'a>>,
    #[serde(borrow, rename = "type")]
    token_type: Given<Text<'a>>,
    #[serde(borrow)]
    currency: Given<Text<'a>>,
    #[serde(borrow)]
    quantity: Given<Text<'a>>,
    #[serde(borrow)]
    issuer: Given<Text<'a>>,
    #[serde(borrow)]
    notary: Given<Text<'a>>,
    attributes: Given<Attributes>,
}

impl NewToken<'_> {
    /// The token; `new_id` names one that has no name, or says that it must have one.
    pub(super) fn read(
        self,
        at: Place<'_>,
        new_id: &mut dyn FnMut() -> Option<TokenId>,
    ) -> Result<Token, String> {
        let id = match self.id.name(at, "id")? {
            Some(id) => TokenId::from(&*id),
            None => new_id().ok_or_else(|| at.wrong("id", "is missing"))?,
        };
        let wallet = self.wallet.needed_name(at, "wallet")?;
        let mut kind = Kind::new(wallet, self.currency.needed_name(at, "currency")?);
        kind.external_id = self.external_id.name(at, "externalId")?;
        kind.public_key = self.public_key.public_key(at, "publicKey")?;
        if let Some(token_type) = self.token_type.name(at, "type")? {
            kind.token_type = token_type;
        }
        kind.issuer = self.issuer.name(at, "issuer")?;
        kind.notary = self.notary.name(at, "notary")?;
        let attributes = self.attributes.attributes(at)?;
        kind.attributes = (!attributes.is_empty()).then(|| Arc::new(attributes));
        let quantity = self.quantity.quantity(at, "quantity")?;
        Ok(Token { id, quantity, kind: Arc::new(kind) })
    }
}

type Tokens<'a> = Given<List<Object<NewToken<'a>>>>;

/// The tokens of a list. Neighbours of one kind share it, as those of one issue mostly do.
fn tokens(
    list: Tokens<'_>,
    name: &str,
    new_id: &mut dyn FnMut() -> Option<TokenId>,
) -> Result<Option<Vec<Token>>, String> {
    let mut last: Option<Arc<Kind>> = None;
    list.entries(name, "an object", |Object(token), at| {
        let mut token = token.read(Place::Entry(name, at), new_id)?;
        match &last {
            Some(kind) if *kind == token.kind => token.kind = Arc::clone(kind),
            _ => last = Some(Arc::clone(&token.kind)),
        }
        Ok(token)
    })
}

/// The body of `POST /tokens/issue`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Issue<'a> {
    #[serde(borrow)]
    tokens: Tokens<'a>,
}

impl Issue<'_> {
    pub(super) fn read(self, mut new_id: impl FnMut() -> TokenId) -> Result<Vec<Token>, String> {
        let tokens = tokens(self.tokens, "tokens", &mut || Some(new_id()))?;
        let tokens = tokens.ok_or("tokens: is missing")?;
        if tokens.is_empty() { Err("tokens: must not be empty".to_owned()) } else { Ok(tokens) }
    }
}

/// The body of `POST /tokens/updates`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Updates<'a> {
    #[serde(borrow)]
    consumed: Given<List<Text<'a>>>,
    #[serde(borrow)]
    produced: Tokens<'a>,
}

impl Updates<'_> {
    /// The ids that went and the tokens that came.
    pub(super) fn read(self) -> Result<(Vec<TokenId>, Vec<Token>), String> {
        let consumed = self.consumed.entries("consumed", "a string", |Text(id), at| {
            let id = super::given::name(&id).map_err(|problem| format!("consumed[{at}]: {problem}"))?;
            Ok(TokenId::from(&*id))
        })?;
        // Another ledger has named its tokens; a name of ours would be another token with each repeat.
        let produced = tokens(self.produced, "produced", &mut || None)?;
        let (consumed, produced) = (consumed.unwrap_or_default(), produced.unwrap_or_default());
        let count = consumed.len() + produced.len();
        if count == 0 || count > BATCH_TOKENS_MAX {
            return Err(format!("consumed, produced: must have 1 to {BATCH_TOKENS_MAX} entries together"));
        }
        Ok((consumed, produced))
    }
}

/// The body of `POST /tokens/spend`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Spend<'a> {
    #[serde(borrow)]
    spender: Given<Text<'a>>,
    #[serde(borrow)]
    fence: Given<Text<'a>>,
    #[serde(borrow)]
    outputs: Given<List<Object<NewOutput<'a>>>>,
}

/// Whom a spend pays.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct NewOutput<'a> {
    #[serde(borrow)]
    wallet: Given<Text<'a>>,
    #[serde(borrow)]
    quantity: Given<Text<'a>>,
    #[serde(borrow)]
    external_id: Given<Text<'a>>,
    #[serde(borrow)]
    public_key: Given<Text<'a>>,
    attributes: Given<Attributes>,
}

impl Spend<'_> {
    pub(super) fn read(self) -> Result<SpendRequest, String> {
        let spender = self.spender.needed_name(Place::Body, "spender")?;
        let fence = self.fence.whole(Place::Body, "fence")?;
        let outputs = self.outputs.entries("outputs", "an object", |Object(output), at| {
            let at = Place::Entry("outputs", at);
            Ok(Output {
                wallet: output.wallet.needed_name(at, "wallet")?,
                external_id: output.external_id.name(at, "externalId")?,
                public_key: output.public_key.public_key(at, "publicKey")?,
                quantity: output.quantity.quantity(at, "quantity")?,
                attributes: output.attributes.attributes(at)?,
            })
        })?;
        let outputs = outputs.ok_or("outputs: is missing")?;
        Ok(SpendRequest { fence, ..SpendRequest::new(spender, outputs) })
    }
}

/// The body of `POST /tokens/redeem`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Redeem<'a> {
    #[serde(borrow)]
    spender: Given<Text<'a>>,
    #[serde(borrow)]
    fence: Given<Text<'a>>,
    #[serde(borrow)]
    quantity: Given<Text<'a>>,
}

impl Redeem<'_> {
    pub(super) fn read(self) -> Result<SpendRequest, String> {
        let at = Place::Body;
        let spender = self.spender.needed_name(at, "spender")?;
        let fence = self.fence.whole(at, "fence")?;
        let quantity = self.quantity.quantity(at, "quantity")?;
        Ok(SpendRequest { fence, ..SpendRequest::redeem(spender, quantity) })
    }
}

/// The body of `POST /tokens/consolidate`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Consolidate<'a> {
    #[serde(borrow)]
    spender: Given<Text<'a>>,
    #[serde(borrow)]
    wallet: Given<Text<'a>>,
    #[serde(borrow)]
    currency: Given<Text<'a>>,
    #[serde(borrow, rename = "type")]
    token_type: Given<Text<'a>>,
    outputs: Given<Count>,
    max_inputs: Given<Count>,
    #[serde(borrow)]
    quantity_max: Given<Text<'a>>,
}

impl Consolidate<'_> {
    /// The request; `new_spender` names one that was not named.
    pub(super) fn read(self, new_spender: impl FnOnce() -> Name) -> Result<ConsolidationRequest, String> {
        let at = Place::Body;
        let spender = self.spender.name(at, "spender")?.unwrap_or_else(new_spender);
        let wallet = self.wallet.needed_name(at, "wallet")?;
        let currency = self.currency.needed_name(at, "currency")?;
        let scope = scope(Owner::Wallet(wallet), currency, self.token_type.name(at, "type")?);
        let outputs = self.outputs.within(at, "outputs", 1, INPUTS_MAX as u64)?;
        let outputs = outputs.ok_or("outputs: is missing")?;
        let mut request = ConsolidationRequest::new(spender, scope, size(outputs));
        if let Some(inputs) = self.max_inputs.within(at, "maxInputs", 1, INPUTS_MAX as u64)? {
            request.max_inputs = size(inputs);
        }
        if let Some(quantity) = self.quantity_max.positive(at, "quantityMax")? {
            request.quantity_max = quantity;
        }
        Ok(request)
    }
}

/// The body of `POST /tokens/locks/{spender}/renew`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Renew<'a> {
    lease_ms: Given<Count>,
    #[serde(borrow)]
    fence: Given<Text<'a>>,
}

impl Renew<'_> {
    /// The lease from now on, and the fence of the lock if it was named.
    pub(super) fn read(self) -> Result<(i64, Option<u64>), String> {
        let lease = self.lease_ms.within(Place::Body, "leaseMs", 1, LEASE_MAX)?;
        let lease = lease.ok_or("leaseMs: is missing")?;
        Ok((millis(lease), self.fence.whole(Place::Body, "fence")?))
    }
}
