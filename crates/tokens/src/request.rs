//! What a caller asks for, as plain data.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fingerprint::{Canonical, Fingerprint};
use crate::limits::{INPUTS_MAX, LEASE_MS_DEFAULT, LEASE_MS_MAX};
use crate::refusal::Refusal;
use crate::token::{Name, Token, check_name, default_type};

/// By what an owner is named. The numbers stand in fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum OwnerKind {
    /// By wallet. Always kept.
    Wallet = 0,
    /// By external id.
    ExternalId = 1,
    /// By public key.
    PublicKey = 2,
    /// By nothing: all tokens of a type and currency.
    TokenOnly = 3,
}

/// Whose tokens: an owner by one of its names, or nobody in particular.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// The tokens of a wallet.
    Wallet(Name),
    /// The tokens under an external id, in whatever wallets.
    ExternalId(Name),
    /// The tokens under a public key, in whatever wallets.
    PublicKey(Name),
    /// All tokens.
    Any,
}

impl Owner {
    /// By what it names the owner.
    #[must_use]
    pub fn kind(&self) -> OwnerKind {
        match self {
            Owner::Wallet(_) => OwnerKind::Wallet,
            Owner::ExternalId(_) => OwnerKind::ExternalId,
            Owner::PublicKey(_) => OwnerKind::PublicKey,
            Owner::Any => OwnerKind::TokenOnly,
        }
    }

    /// The owner's name; empty for [`Owner::Any`].
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Owner::Wallet(name) | Owner::ExternalId(name) | Owner::PublicKey(name) => name,
            Owner::Any => "",
        }
    }
}

/// The tokens a request is about: one owner, one type, one currency.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope {
    /// Whose.
    pub owner: Owner,
    /// Of which type.
    pub token_type: Name,
    /// Of which currency.
    pub currency: Name,
}

impl Scope {
    /// The tokens of an owner in a currency, of the default type.
    #[must_use]
    pub fn new(owner: Owner, currency: impl Into<Name>) -> Self {
        Scope { owner, token_type: default_type(), currency: currency.into() }
    }

    /// The tokens of a wallet in a currency, of the default type.
    #[must_use]
    pub fn wallet(wallet: impl Into<Name>, currency: impl Into<Name>) -> Self {
        Scope::new(Owner::Wallet(wallet.into()), currency)
    }

    /// Whether a token is of that owner, type and currency.
    #[must_use]
    pub fn owns(&self, token: &Token) -> bool {
        let kind = &token.kind;
        let owned = match &self.owner {
            Owner::Wallet(name) => kind.wallet == *name,
            Owner::ExternalId(name) => kind.external_id.as_ref() == Some(name),
            Owner::PublicKey(name) => kind.public_key.as_ref() == Some(name),
            Owner::Any => true,
        };
        owned && kind.token_type == self.token_type && kind.currency == self.currency
    }

    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.owner != Owner::Any {
            check_name("the owner", self.owner.name())?;
        }
        check_name("the type", &self.token_type)?;
        check_name("the currency", &self.currency)
    }
}

/// How tokens are chosen. All prefer one token of exactly the amount, except `Consolidate` and `Random`. The numbers stand in
/// fingerprints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Policy {
    /// One token of the amount, else an exact sum if a short search finds one, else the fewest inputs.
    #[default]
    FewestInputs = 0,
    /// An exact sum or nothing.
    NoChange = 1,
    /// Many small inputs, up to the most allowed, so that the wallet has fewer tokens afterwards.
    Consolidate = 2,
    /// Any tokens that cover the amount.
    Random = 3,
}

/// Which tokens of the scope may be chosen. Empty means all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Filter {
    /// Only this issuer's.
    pub issuer: Option<Name>,
    /// Only under this notary.
    pub notary: Option<Name>,
    /// Only with all of these attributes.
    pub attributes: BTreeMap<String, String>,
}

/// Small tokens that a selection takes along when there is change anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DustSweep {
    /// Tokens of at most this quantity count as dust.
    pub quantity_max: u64,
    /// Most of them taken along.
    pub inputs_max: usize,
}

/// Any test of a token, beyond what [`Filter`] offers. It runs under a lock: short, and without calls back.
pub type Predicate = Arc<dyn Fn(&Token) -> bool + Send + Sync>;

/// A request for tokens worth an amount, locked for a spender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SelectRequest {
    /// For whom they are locked; at most one live selection each.
    pub spender: Name,
    /// From which tokens.
    pub scope: Scope,
    /// Worth how much at least.
    pub amount: u64,
    /// Which of them.
    pub filter: Filter,
    /// How they are chosen.
    pub policy: Policy,
    /// Most inputs; `None` takes the selector's default.
    pub max_inputs: Option<usize>,
    /// Whether less than the amount will do, if there is not more.
    pub allow_shortfall: bool,
    /// For how long they are locked.
    pub lease_ms: i64,
    /// Dust taken along.
    pub sweep: Option<DustSweep>,
}

impl SelectRequest {
    /// A request with the default policy and lease.
    #[must_use]
    pub fn new(spender: impl Into<Name>, scope: Scope, amount: u64) -> Self {
        SelectRequest {
            spender: spender.into(),
            scope,
            amount,
            filter: Filter::default(),
            policy: Policy::default(),
            max_inputs: None,
            allow_shortfall: false,
            lease_ms: LEASE_MS_DEFAULT,
            sweep: None,
        }
    }

    /// The request's content as a number.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let mut bytes = Canonical::new(b"select");
        bytes.name(&self.spender);
        bytes.choice(self.scope.owner.kind() as u8);
        bytes.name(self.scope.owner.name());
        bytes.name(&self.scope.token_type);
        bytes.name(&self.scope.currency);
        bytes.number(self.amount);
        bytes.optional(self.filter.issuer.as_ref(), |bytes, name| bytes.name(name));
        bytes.optional(self.filter.notary.as_ref(), |bytes, name| bytes.name(name));
        bytes.pairs(&self.filter.attributes);
        bytes.choice(self.policy as u8);
        bytes.optional(self.max_inputs, Canonical::count);
        bytes.choice(self.allow_shortfall.into());
        bytes.number(self.lease_ms.cast_unsigned());
        bytes.optional(self.sweep, |bytes, dust| {
            bytes.number(dust.quantity_max);
            bytes.count(dust.inputs_max);
        });
        bytes.fingerprint()
    }

    /// Refuses what no selector can answer.
    pub fn check(&self) -> Result<(), Refusal> {
        check_name("the spender", &self.spender)?;
        self.scope.check()?;
        if self.amount == 0 {
            return Err(Refusal::Invalid("the amount is 0; ask for at least 1".into()));
        }
        if self.max_inputs.is_some_and(|max| max == 0 || max > INPUTS_MAX) {
            return Err(Refusal::Invalid(format!("max inputs must be 1 to {INPUTS_MAX}")));
        }
        check_lease(self.lease_ms)
    }
}

/// Refuses a lease that is none, or too long.
pub fn check_lease(lease_ms: i64) -> Result<(), Refusal> {
    if (1..=LEASE_MS_MAX).contains(&lease_ms) {
        return Ok(());
    }
    Err(Refusal::Invalid(format!("a lease of {lease_ms} ms; 1 to {LEASE_MS_MAX} are allowed")))
}

/// What a spend pays, and to whom. Type, currency, issuer and notary follow from the inputs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Output {
    /// The receiving wallet.
    pub wallet: Name,
    /// The receiver's external id.
    pub external_id: Option<Name>,
    /// The receiver's public key.
    pub public_key: Option<Name>,
    /// How much.
    pub quantity: u64,
    /// Attributes of the produced tokens.
    pub attributes: BTreeMap<String, String>,
}

impl Output {
    /// An output to a wallet.
    #[must_use]
    pub fn new(wallet: impl Into<Name>, quantity: u64) -> Self {
        Output {
            wallet: wallet.into(),
            external_id: None,
            public_key: None,
            quantity,
            attributes: BTreeMap::new(),
        }
    }
}

/// A spend of all that a spender has selected. What the outputs and the redeemed part leave over returns to the sender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpendRequest {
    /// Who selected.
    pub spender: Name,
    /// The selection's fence, if the caller knows it.
    pub fence: Option<u64>,
    /// Payments.
    pub outputs: Vec<Output>,
    /// How much leaves the vault for good.
    pub redeem: u64,
}

impl SpendRequest {
    /// A spend to these outputs.
    #[must_use]
    pub fn new(spender: impl Into<Name>, outputs: Vec<Output>) -> Self {
        SpendRequest { spender: spender.into(), fence: None, outputs, redeem: 0 }
    }

    /// A spend that takes a quantity out of the vault.
    #[must_use]
    pub fn redeem(spender: impl Into<Name>, quantity: u64) -> Self {
        SpendRequest { spender: spender.into(), fence: None, outputs: Vec::new(), redeem: quantity }
    }

    /// What is paid, as a number; the fence is no part of it.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let mut bytes = Canonical::new(b"spend");
        bytes.name(&self.spender);
        bytes.count(self.outputs.len());
        for output in &self.outputs {
            bytes.name(&output.wallet);
            bytes.optional(output.external_id.as_ref(), |bytes, name| bytes.name(name));
            bytes.optional(output.public_key.as_ref(), |bytes, name| bytes.name(name));
            bytes.number(output.quantity);
            bytes.pairs(&output.attributes);
        }
        bytes.number(self.redeem);
        bytes.fingerprint()
    }
}

#[cfg(test)]
mod tests {
    use super::{DustSweep, Output, Owner, Policy, Scope, SelectRequest, SpendRequest};

    fn full_select() -> SelectRequest {
        let mut request =
            SelectRequest::new("payment-1", Scope::new(Owner::PublicKey("key".into()), "EUR"), 1_000);
        request.filter.issuer = Some("bank".into());
        request.filter.attributes.insert("colour".into(), "blue".into());
        (request.policy, request.max_inputs, request.allow_shortfall) = (Policy::NoChange, Some(7), true);
        request.sweep = Some(DustSweep { quantity_max: 9, inputs_max: 3 });
        request
    }

    /// These numbers lie in logs. If this test fails, old records no longer know their requests: change the code, not the
    /// numbers.
    #[test]
    fn fingerprints_stay_for_ever() {
        let plain = SelectRequest::new("payment-1", Scope::wallet("alice", "EUR"), 100);
        assert_eq!(plain.fingerprint().0, 0x8a99_94ce_deed_90ff_6606_22e6_cd93_8e10);
        assert_eq!(full_select().fingerprint().0, 0x7ecb_4e31_cd99_b976_f405_d84d_6848_4e2c);
        let mut output = Output::new("bob", 60);
        output.external_id = Some("account".into());
        output.attributes.insert("colour".into(), "blue".into());
        let mut spend = SpendRequest::new("payment-1", vec![output, Output::new("carol", 30)]);
        spend.redeem = 10;
        assert_eq!(spend.fingerprint().0, 0x20f8_db5e_ccf1_a021_4ff3_6e8a_0c7e_3815);
        assert_eq!(
            SpendRequest::redeem("payment-1", 100).fingerprint().0,
            0x26d3_f8f4_7149_088c_d181_5322_58b2_9c1a
        );
    }

    #[test]
    fn every_field_counts_but_the_fence_of_a_spend() {
        let base = full_select();
        let changes: [fn(&mut SelectRequest); 13] = [
            |request| request.spender = "payment-2".into(),
            |request| request.scope.owner = Owner::ExternalId("key".into()),
            |request| request.scope.owner = Owner::PublicKey("kez".into()),
            |request| request.scope.token_type = "bond".into(),
            |request| request.scope.currency = "USD".into(),
            |request| request.amount += 1,
            |request| request.filter.issuer = None,
            |request| request.filter.notary = Some("bank".into()),
            |request| request.filter.attributes.clear(),
            |request| request.policy = Policy::Random,
            |request| request.max_inputs = None,
            |request| request.allow_shortfall = false,
            |request| request.sweep = None,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut other = base.clone();
            change(&mut other);
            assert_ne!(other.fingerprint(), base.fingerprint(), "change {number}");
        }
        let mut other = base.clone();
        other.lease_ms += 1;
        assert_ne!(other.fingerprint(), base.fingerprint());
        let spend = SpendRequest::new("s", vec![Output::new("bob", 1)]);
        let mut fenced = spend.clone();
        fenced.fence = Some(9);
        assert_eq!(fenced.fingerprint(), spend.fingerprint());
        fenced.outputs[0].public_key = Some("key".into());
        assert_ne!(fenced.fingerprint(), spend.fingerprint());
    }
}
