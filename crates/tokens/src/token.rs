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

/// Texts up to this long lie where they are used, without memory of their own: a UUID, also with `.0` to `.9` behind it.
const SHORT: usize = 38;

/// A text that is read far more often than made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    Short {
        len: u8,
        /// Zeros behind the text, so that equal texts are equal here.
        bytes: [u8; SHORT],
    },
    Long(Name),
}

impl Text {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Text::Short { len, bytes } => &bytes[..usize::from(*len)],
            Text::Long(name) => name.as_bytes(),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        match self {
            Text::Short { .. } => std::str::from_utf8(self.as_bytes()).expect("made from a text"),
            Text::Long(name) => name,
        }
    }

    /// Memory outside of the value itself, with what an allocation costs.
    fn bytes_elsewhere(&self) -> usize {
        match self {
            Text::Short { .. } => 0,
            Text::Long(name) => name.len() + 32,
        }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        match u8::try_from(text.len()) {
            Ok(len) if text.len() <= SHORT => {
                let mut bytes = [0; SHORT];
                bytes[..text.len()].copy_from_slice(text.as_bytes());
                Text::Short { len, bytes }
            }
            _ => Text::Long(text.into()),
        }
    }
}

/// The id of a token: any string that is unique in the vault. Short ones, such as UUIDs, are copied instead of shared.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenId(Text);

impl TokenId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    pub(crate) fn bytes_elsewhere(&self) -> usize {
        self.0.bytes_elsewhere()
    }
}

impl std::hash::Hash for TokenId {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl PartialOrd for TokenId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TokenId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&str> for TokenId {
    fn from(text: &str) -> Self {
        TokenId(text.into())
    }
}

impl From<String> for TokenId {
    fn from(text: String) -> Self {
        TokenId(text.as_str().into())
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

/// A token. Cheap to clone: the kind is shared, and the id is short or shared.
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

    /// Refuses what no vault can hold: empty or overlong names, a quantity of 0.
    pub fn check(&self) -> Result<(), Refusal> {
        check_name("the id of a token", self.id.as_str())?;
        self.kind.check()?;
        if self.quantity == 0 {
            return Err(Refusal::Invalid(format!("token {} has quantity 0; leave it out", self.id)));
        }
        Ok(())
    }
}

/// Refuses a name that is empty or too long.
pub fn check_name(what: &str, name: &str) -> Result<(), Refusal> {
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

#[cfg(test)]
mod tests {
    use super::{SHORT, TokenId};

    #[test]
    fn ids_are_the_same_whatever_their_length() {
        let texts: Vec<String> =
            (0..2 * SHORT).map(|len| "é".repeat(len / 2) + &"x".repeat(len % 2)).collect();
        let ids: Vec<TokenId> = texts.iter().map(|text| TokenId::from(text.as_str())).collect();
        for (text, id) in texts.iter().zip(&ids) {
            assert_eq!((id.as_str(), id.to_string()), (text.as_str(), text.clone()));
            assert_eq!(*id, TokenId::from(text.clone()));
            assert_eq!(format!("{id:?}"), format!("{text:?}"));
            for (other_text, other) in texts.iter().zip(&ids) {
                assert_eq!(id.cmp(other), text.cmp(other_text));
                assert_eq!(id == other, text == other_text);
            }
        }
    }
}
