//! What a request asks of the selector. Its members have been held against their own bounds; what follows from several
//! of them together is looked at here.

use std::sync::Arc;

use holdfast_tokens::limits::BATCH_TOKENS_MAX;
use holdfast_tokens::{
    self as selector, ConsolidationRequest, DustSweep, Filter, Kind, Owner, Scope, SelectRequest,
    SpendRequest, TokenId,
};

use super::requests::{Consolidate, Issue, NewToken, Output, Policy, Redeem, Renew, Select, Spend, Updates};
use crate::{Attributes, Name, Object, PublicKey, Quantity};

/// Whose tokens: by at most one of their owner's names.
///
/// # Errors
/// If the owner is named twice.
pub fn owner(
    wallet: Option<Name>,
    external_id: Option<Name>,
    public_key: Option<PublicKey>,
) -> Result<Owner, String> {
    match (wallet, external_id, public_key) {
        (None, None, None) => Ok(Owner::Any),
        (Some(wallet), None, None) => Ok(Owner::Wallet(wallet.shared())),
        (None, Some(id), None) => Ok(Owner::ExternalId(id.shared())),
        (None, None, Some(key)) => Ok(Owner::PublicKey(key.shared())),
        _ => Err("wallet, externalId, publicKey: name the owner by one of them".to_owned()),
    }
}

/// The tokens of an owner; of the default type where none is named.
#[must_use]
pub fn scope(owner: Owner, currency: Name, token_type: Option<Name>) -> Scope {
    match token_type {
        None => Scope::new(owner, currency.shared()),
        Some(token_type) => Scope { owner, token_type: token_type.shared(), currency: currency.shared() },
    }
}

impl From<Policy> for selector::Policy {
    fn from(policy: Policy) -> selector::Policy {
        match policy {
            Policy::FewestInputs => selector::Policy::FewestInputs,
            Policy::NoChange => selector::Policy::NoChange,
            Policy::Consolidate => selector::Policy::Consolidate,
            Policy::Random => selector::Policy::Random,
        }
    }
}

impl Select {
    /// The request, and for how many milliseconds it waits.
    ///
    /// # Errors
    /// If the owner is named twice.
    pub fn ask(self) -> Result<(SelectRequest, i64), String> {
        let owner = owner(self.wallet, self.external_id, self.public_key)?;
        let scope = scope(owner, self.currency, self.token_type);
        let mut request = SelectRequest::new(self.spender.shared(), scope, self.amount.0);
        request.filter = Filter {
            issuer: self.issuer.map(Name::shared),
            notary: self.notary.map(Name::shared),
            attributes: self.attributes.unwrap_or_default().0,
        };
        request.policy = self.policy.map(selector::Policy::from).unwrap_or_default();
        request.max_inputs = self.max_inputs.map(crate::Count::size);
        request.allow_shortfall = self.allow_shortfall.unwrap_or_default();
        if let Some(lease) = self.lease_ms {
            request.lease_ms = lease.millis();
        }
        request.sweep = self.sweep.map(|Object(sweep)| DustSweep {
            quantity_max: sweep.quantity_max.0,
            inputs_max: sweep.inputs_max.size(),
        });
        Ok((request, self.wait_ms.map_or(0, crate::Count::millis)))
    }
}

impl NewToken {
    /// The token, if it names its id.
    ///
    /// # Errors
    /// If it does not.
    pub fn token(self) -> Result<selector::Token, String> {
        match self.id.clone() {
            Some(id) => Ok(self.named(TokenId::from(id.as_str()))),
            None => Err("id: is missing".to_owned()),
        }
    }

    fn named(self, id: TokenId) -> selector::Token {
        let mut kind = Kind::new(self.wallet.shared(), self.currency.shared());
        kind.external_id = self.external_id.map(Name::shared);
        kind.public_key = self.public_key.map(PublicKey::shared);
        if let Some(token_type) = self.token_type {
            kind.token_type = token_type.shared();
        }
        kind.issuer = self.issuer.map(Name::shared);
        kind.notary = self.notary.map(Name::shared);
        let Attributes(attributes) = self.attributes.unwrap_or_default();
        kind.attributes = (!attributes.is_empty()).then(|| Arc::new(attributes));
        selector::Token { id, quantity: self.quantity.0, kind: Arc::new(kind) }
    }
}

/// Neighbours of one kind share it, as those of one issue mostly do.
fn share_kinds(tokens: &mut [selector::Token]) {
    let mut last: Option<Arc<Kind>> = None;
    for token in tokens {
        match &last {
            Some(kind) if *kind == token.kind => token.kind = Arc::clone(kind),
            _ => last = Some(Arc::clone(&token.kind)),
        }
    }
}

impl Issue {
    /// The tokens; `new_id` names those that have no name.
    ///
    /// # Errors
    /// If there are none.
    pub fn ask(self, mut new_id: impl FnMut() -> TokenId) -> Result<Vec<selector::Token>, String> {
        if self.tokens.0.is_empty() {
            return Err("tokens: must not be empty".to_owned());
        }
        let named = self.tokens.0.into_iter().map(|Object(token)| {
            let id = token.id.as_ref().map_or_else(&mut new_id, |id| TokenId::from(id.as_str()));
            token.named(id)
        });
        let mut tokens: Vec<_> = named.collect();
        share_kinds(&mut tokens);
        Ok(tokens)
    }
}

impl Updates {
    /// The ids that went and the tokens that came.
    ///
    /// # Errors
    /// If it says nothing or too much, or has a token without an id: another ledger has named its tokens, and a name of
    /// ours would be another token with each repeat.
    pub fn ask(self) -> Result<(Vec<TokenId>, Vec<selector::Token>), String> {
        let consumed = self.consumed.unwrap_or_default().0;
        let consumed: Vec<_> = consumed.iter().map(|id| TokenId::from(id.as_str())).collect();
        let produced = self.produced.unwrap_or_default().0.into_iter().enumerate();
        let produced = produced
            .map(|(at, Object(token))| token.token().map_err(|problem| format!("produced[{at}].{problem}")));
        let mut produced = produced.collect::<Result<Vec<_>, _>>()?;
        share_kinds(&mut produced);
        let count = consumed.len() + produced.len();
        if count == 0 || count > BATCH_TOKENS_MAX {
            return Err(format!("consumed, produced: must have 1 to {BATCH_TOKENS_MAX} entries together"));
        }
        Ok((consumed, produced))
    }
}

impl From<Output> for selector::Output {
    fn from(output: Output) -> selector::Output {
        selector::Output {
            wallet: output.wallet.shared(),
            external_id: output.external_id.map(Name::shared),
            public_key: output.public_key.map(PublicKey::shared),
            quantity: output.quantity.0,
            attributes: output.attributes.unwrap_or_default().0,
        }
    }
}

impl Spend {
    /// The request.
    #[must_use]
    pub fn ask(self) -> SpendRequest {
        let outputs = self.outputs.0.into_iter().map(|Object(output)| output.into()).collect();
        let fence = self.fence.map(|fence| fence.0);
        SpendRequest { fence, ..SpendRequest::new(self.spender.shared(), outputs) }
    }
}

impl Redeem {
    /// The request.
    #[must_use]
    pub fn ask(self) -> SpendRequest {
        let fence = self.fence.map(|fence| fence.0);
        SpendRequest { fence, ..SpendRequest::redeem(self.spender.shared(), self.quantity.0) }
    }
}

impl Consolidate {
    /// The request; `new_spender` names one that was not named.
    #[must_use]
    pub fn ask(self, new_spender: impl FnOnce() -> selector::Name) -> ConsolidationRequest {
        let spender = self.spender.map_or_else(new_spender, Name::shared);
        let scope = scope(Owner::Wallet(self.wallet.shared()), self.currency, self.token_type);
        let mut request = ConsolidationRequest::new(spender, scope, self.outputs.size());
        if let Some(inputs) = self.max_inputs {
            request.max_inputs = inputs.size();
        }
        if let Some(Quantity(quantity)) = self.quantity_max {
            request.quantity_max = quantity;
        }
        request
    }
}

impl Renew {
    /// The lease from now on, and the fence of the lock if it was named.
    #[must_use]
    pub fn ask(self) -> (i64, Option<u64>) {
        (self.lease_ms.millis(), self.fence.map(|fence| fence.0))
    }
}
