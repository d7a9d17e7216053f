//! A token: an amount of something, owned by somebody, named by an id.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::limits::NAME_BYTES_MAX;
use crate::refusal::Refusal;

/// A name that many tokens share.
pub type Name = Arc<str>;

/// The type of a token that names none.
pub const DEFAULT_TYPE: &str = "token";

thread_local! {
    static SHARED_DEFAULT_TYPE: Name = DEFAULT_TYPE.into();
}

/// The default type, shared within the thread: neither a new copy each time nor a count that all cores fight for.
pub(crate) fn default_type() -> Name {
    SHARED_DEFAULT_TYPE.with(Name::clone)
}

/// The id of a token: any string that is unique in the vault.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenId(Name);

impl TokenId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn same_place(&self, other: &TokenId) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for TokenId {
    fn from(text: &str) -> Self {
        TokenId(text.into())
    }
}

impl From<String> for TokenId {
    fn from(text: String) -> Self {
        TokenId(text.into())
    }
}

/// All that a token has besides id and quantity. Tokens of one kind share one copy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// The wallet that owns it.
    pub wallet: Name,
    /// The owner's account elsewhere.
    pub external_id: Option<Name>,
    /// The key that can sign for it.
    pub public_key: Option<Name>,
    /// Its type, [`DEFAULT_TYPE`] if not told.
    pub token_type: Name,
    /// Its currency, the token identifier.
    pub currency: Name,
    /// Who stands behind it.
    pub issuer: Option<Name>,
    /// Who notarises its spends; one selection never mixes notaries.
    pub notary: Option<Name>,
    /// Whatever else is known about it.
    pub attributes: Option<Arc<BTreeMap<String, String>>>,
}

impl Kind {
    /// A kind with an owner and a currency, and nothing else.
    #[must_use]
    pub fn new(wallet: impl Into<Name>, currency: impl Into<Name>) -> Self {
        Kind {
            wallet: wallet.into(),
            external_id: None,
            public_key: None,
            token_type: default_type(),
            currency: currency.into(),
            issuer: None,
            notary: None,
            attributes: None,
        }
    }

    /// Whether each wanted attribute is there with the wanted value.
    #[must_use]
    pub fn has_attributes(&self, wanted: &BTreeMap<String, String>) -> bool {
        wanted.iter().all(|(name, value)| {
            self.attributes.as_ref().and_then(|all| all.get(name)).is_some_and(|found| found == value)
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        let optional = [&self.external_id, &self.public_key, &self.issuer, &self.notary];
        let attributes: usize = self
            .attributes
            .iter()
            .flat_map(|all| all.iter().map(|(name, value)| name.len() + value.len() + 48))
            .sum();
        let names = [&self.wallet, &self.token_type, &self.currency];
        names.iter().map(|name| name.len()).sum::<usize>()
            + optional.iter().filter_map(|name| name.as_ref()).map(|name| name.len() + 16).sum::<usize>()
            + attributes
    }

    fn check(&self) -> Result<(), Refusal> {
        let optional = [&self.external_id, &self.public_key, &self.issuer, &self.notary];
        let names = [&self.wallet, &self.token_type, &self.currency];
        for name in names.into_iter().chain(optional.into_iter().flatten()) {
            check_name("a name of a token", name)?;
        }
        Ok(())
    }
}

/// A token. Cheap to clone: id and kind are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// How much it is worth, in the smallest unit of its currency.
    pub quantity: u64,
    /// All else.
    pub kind: Arc<Kind>,
}

impl Token {
    /// A token with an owner and a currency, and nothing else.
    #[must_use]
    pub fn new(
        id: impl Into<TokenId>,
        wallet: impl Into<Name>,
        currency: impl Into<Name>,
        quantity: u64,
    ) -> Self {
        Token { id: id.into(), quantity, kind: Arc::new(Kind::new(wallet, currency)) }
    }

    fn with(mut self, change: impl FnOnce(&mut Kind)) -> Self {
        change(Arc::make_mut(&mut self.kind));
        self
    }

    /// The same token of that type.
    #[must_use]
    pub fn of_type(self, token_type: impl Into<Name>) -> Self {
        self.with(|kind| kind.token_type = token_type.into())
    }

    /// The same token, owned under that external id too.
    #[must_use]
    pub fn external_id(self, id: impl Into<Name>) -> Self {
        self.with(|kind| kind.external_id = Some(id.into()))
    }

    /// The same token, owned under that public key too.
    #[must_use]
    pub fn public_key(self, key: impl Into<Name>) -> Self {
        self.with(|kind| kind.public_key = Some(key.into()))
    }

    /// The same token of that issuer.
    #[must_use]
    pub fn issuer(self, issuer: impl Into<Name>) -> Self {
        self.with(|kind| kind.issuer = Some(issuer.into()))
    }

    /// The same token under that notary.
    #[must_use]
    pub fn notary(self, notary: impl Into<Name>) -> Self {
        self.with(|kind| kind.notary = Some(notary.into()))
    }

    /// The same token with one more attribute.
    #[must_use]
    pub fn attribute(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with(|kind| {
            let all = kind.attributes.get_or_insert_with(Arc::default);
            Arc::make_mut(all).insert(name.into(), value.into());
        })
    }

    pub(crate) fn check(&self) -> Result<(), Refusal> {
        check_name("the id of a token", self.id.as_str())?;
        self.kind.check()?;
        if self.quantity == 0 {
            return Err(Refusal::Invalid(format!("token {} has quantity 0; leave it out", self.id)));
        }
        Ok(())
    }
}

pub(crate) fn check_name(what: &str, name: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        return Err(Refusal::Invalid(format!("{what} is empty")));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Refusal::Invalid(format!(
            "{what} has {} bytes, {NAME_BYTES_MAX} are allowed",
            name.len()
        )));
    }
    Ok(())
}
