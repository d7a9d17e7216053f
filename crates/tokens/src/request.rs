//! What a caller asks for, as plain data.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::quality::FixedState;

use crate::limits::{INPUTS_MAX, LEASE_MS_DEFAULT, LEASE_MS_MAX};
use crate::refusal::Refusal;
use crate::token::{Name, Token, check_name, default_type};

/// By what an owner is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OwnerKind {
    /// By wallet. Always kept.
    Wallet,
    /// By external id.
    ExternalId,
    /// By public key.
    PublicKey,
    /// By nothing: all tokens of a type and currency.
    TokenOnly,
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

    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.owner != Owner::Any {
            check_name("the owner", self.owner.name())?;
        }
        check_name("the type", &self.token_type)?;
        check_name("the currency", &self.currency)
    }
}

/// How tokens are chosen. All prefer one token of exactly the amount, except `Consolidate` and `Random`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// One token of the amount, else an exact sum if a short search finds one, else the fewest inputs.
    #[default]
    FewestInputs,
    /// An exact sum or nothing.
    NoChange,
    /// Many small inputs, up to the most allowed, so that the wallet has fewer tokens afterwards.
    Consolidate,
    /// Any tokens that cover the amount.
    Random,
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

/// A request's content as a number: two requests with the same are taken for the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u128);

impl Fingerprint {
    pub(crate) fn of(value: &impl Hash) -> Self {
        let low = FixedState::with_seed(0x486f_6c64).hash_one(value);
        let high = FixedState::with_seed(0x6661_7374).hash_one(value);
        Fingerprint(u128::from(high) << 64 | u128::from(low))
    }
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
        Fingerprint::of(self)
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

pub(crate) fn check_lease(lease_ms: i64) -> Result<(), Refusal> {
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
        Fingerprint::of(&(&self.spender, &self.outputs, self.redeem))
    }
}
