//! What callers hear, written straight into the body: quantities and sums as strings, times in RFC 3339.

use holdfast_tokens::limits::NO_END;
use holdfast_tokens::{
    Balance, Fragmentation, Lease, LockView, Selection, Token, TokenId, TokenPage, Transaction,
};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::times;

/// A number as a string: what 2^53 does to others does not happen to it.
pub(super) struct Digits<T>(pub(super) T);

impl<T: std::fmt::Display> Serialize for Digits<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// An instant; `null` for the end of a lock that has none.
pub(super) struct At(pub(super) i64);

impl Serialize for At {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 == NO_END {
            serializer.serialize_none()
        } else {
            serializer.serialize_str(&times::format(self.0))
        }
    }
}

/// A list of whatever is written by `show`.
struct Each<'a, T, F>(&'a [T], F);

impl<'a, T, F: Fn(&'a T) -> R, R: Serialize> Serialize for Each<'a, T, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for entry in self.0 {
            list.serialize_element(&(self.1)(entry))?;
        }
        list.end()
    }
}

/// A token; what it does not have is left out. `locked` adds its state.
pub(super) struct ShownToken<'a> {
    pub(super) token: &'a Token,
    pub(super) locked: Option<bool>,
}

impl<'a> ShownToken<'a> {
    pub(super) const fn plain(token: &'a Token) -> ShownToken<'a> {
        ShownToken { token, locked: None }
    }

    const fn with_state((token, locked): &'a (Token, bool)) -> ShownToken<'a> {
        ShownToken { token, locked: Some(*locked) }
    }
}

impl Serialize for ShownToken<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kind = &*self.token.kind;
        let mut members = serializer.serialize_map(None)?;
        members.serialize_entry("id", self.token.id.as_str())?;
        members.serialize_entry("quantity", &Digits(self.token.quantity))?;
        members.serialize_entry("wallet", &*kind.wallet)?;
        members.serialize_entry("type", &*kind.token_type)?;
        members.serialize_entry("currency", &*kind.currency)?;
        let optional = [
            ("externalId", &kind.external_id),
            ("publicKey", &kind.public_key),
            ("issuer", &kind.issuer),
            ("notary", &kind.notary),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                members.serialize_entry(name, &**value)?;
            }
        }
        if let Some(attributes) = &kind.attributes {
            members.serialize_entry("attributes", &**attributes)?;
        }
        if let Some(locked) = self.locked {
            members.serialize_entry("state", if locked { "locked" } else { "free" })?;
        }
        members.end()
    }
}

/// What an issue has made.
pub(in crate::tokens) struct Issued<'a>(pub(in crate::tokens) &'a [Token]);

impl Serialize for Issued<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(Some(1))?;
        members.serialize_entry("tokens", &Each(self.0, ShownToken::plain))?;
        members.end()
    }
}

/// What a select has locked.
pub(in crate::tokens) struct Selected<'a>(pub(in crate::tokens) &'a Selection);

impl Serialize for Selected<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let selection = self.0;
        let mut members = serializer.serialize_map(Some(6))?;
        members.serialize_entry("spender", &*selection.spender)?;
        members.serialize_entry("tokens", &Each(&selection.tokens, ShownToken::plain))?;
        members.serialize_entry("sum", &Digits(selection.sum))?;
        members.serialize_entry("change", &Digits(selection.change()))?;
        members.serialize_entry("expiresAt", &At(selection.expires_at))?;
        members.serialize_entry("fence", &Digits(selection.fence))?;
        members.end()
    }
}

/// What a spend has done; `None` where there was nothing to do.
pub(in crate::tokens) struct Spent<'a>(pub(in crate::tokens) Option<&'a Transaction>);

impl Serialize for Spent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let consumed = self.0.map_or(&[][..], |transaction| &transaction.consumed);
        let produced = self.0.map_or(&[][..], |transaction| &transaction.produced);
        let mut members = serializer.serialize_map(Some(3))?;
        members.serialize_entry("transaction", &self.0.map(|transaction| &*transaction.id))?;
        members.serialize_entry("consumed", &Each(consumed, TokenId::as_str))?;
        members.serialize_entry("produced", &Each(produced, ShownToken::plain))?;
        members.end()
    }
}

/// How much an update has changed: what was known already does not count.
pub(in crate::tokens) struct Updated {
    pub(in crate::tokens) produced: usize,
    pub(in crate::tokens) consumed: usize,
}

impl Serialize for Updated {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(Some(2))?;
        members.serialize_entry("consumed", &self.consumed)?;
        members.serialize_entry("produced", &self.produced)?;
        members.end()
    }
}

/// A lease with its new end.
pub(in crate::tokens) struct Renewed<'a> {
    pub(in crate::tokens) spender: &'a str,
    pub(in crate::tokens) lease: Lease,
}

impl Serialize for Renewed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(Some(3))?;
        members.serialize_entry("spender", self.spender)?;
        members.serialize_entry("expiresAt", &At(self.lease.expires_at))?;
        members.serialize_entry("fence", &Digits(self.lease.fence))?;
        members.end()
    }
}

/// How many tokens a release has freed.
pub(in crate::tokens) struct Released(pub(in crate::tokens) usize);

impl Serialize for Released {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(Some(1))?;
        members.serialize_entry("released", &self.0)?;
        members.end()
    }
}

/// What an owner has, and in what pieces.
pub(in crate::tokens) struct Holdings {
    pub(in crate::tokens) balance: Balance,
    pub(in crate::tokens) fragmentation: Fragmentation,
}

/// Free tokens of so many digits.
struct Pieces {
    digits: usize,
    tokens: usize,
    sum: u128,
}

impl Serialize for Pieces {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(Some(3))?;
        members.serialize_entry("digits", &self.digits)?;
        members.serialize_entry("tokens", &self.tokens)?;
        members.serialize_entry("sum", &Digits(self.sum))?;
        members.end()
    }
}

impl Serialize for Holdings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Holdings { balance, fragmentation } = self;
        let counts = fragmentation.tokens.iter().zip(fragmentation.sums).enumerate();
        let pieces: Vec<Pieces> = counts
            .filter(|(_, (tokens, _))| **tokens > 0)
            .map(|(at, (tokens, sum))| Pieces { digits: at + 1, tokens: *tokens, sum })
            .collect();
        let mut members = serializer.serialize_map(Some(8))?;
        members.serialize_entry("total", &Digits(balance.total))?;
        members.serialize_entry("free", &Digits(balance.free))?;
        members.serialize_entry("locked", &Digits(balance.locked))?;
        members.serialize_entry("tokens", &balance.tokens)?;
        members.serialize_entry("lockedTokens", &balance.locked_tokens)?;
        members.serialize_entry("largestFree", &balance.largest_free.map(Digits))?;
        members.serialize_entry("smallestFree", &balance.smallest_free.map(Digits))?;
        members.serialize_entry("fragmentation", &pieces)?;
        members.end()
    }
}

/// A page of tokens, each with its state.
pub(in crate::tokens) struct Listed(pub(in crate::tokens) TokenPage);

impl Serialize for Listed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Listed(page) = self;
        let mut members = serializer.serialize_map(Some(2))?;
        members.serialize_entry("tokens", &Each(&page.tokens, ShownToken::with_state))?;
        members.serialize_entry("next", &page.next.as_ref().map(TokenId::as_str))?;
        members.end()
    }
}

/// A page of locks, as they stand at `now`.
pub(in crate::tokens) struct LockPage {
    pub(in crate::tokens) locks: Vec<LockView>,
    pub(in crate::tokens) next: Option<u64>,
    pub(in crate::tokens) now: i64,
}

struct ShownLock<'a>(&'a LockView, i64);

impl Serialize for ShownLock<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ShownLock(lock, now) = self;
        let mut members = serializer.serialize_map(Some(6))?;
        members.serialize_entry("holder", &*lock.spender)?;
        members.serialize_entry("fence", &Digits(lock.fence))?;
        members.serialize_entry("since", &At(lock.since))?;
        // A clock that was set back makes nothing younger than new.
        members.serialize_entry("ageMs", &lock.age_ms(*now).max(0))?;
        members.serialize_entry("expiresAt", &At(lock.expires_at))?;
        members.serialize_entry("tokens", &Each(&lock.tokens, ShownToken::plain))?;
        members.end()
    }
}

impl Serialize for LockPage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(Some(2))?;
        members.serialize_entry("locks", &Each(&self.locks, |lock| ShownLock(lock, self.now)))?;
        members.serialize_entry("next", &self.next.map(Digits))?;
        members.end()
    }
}
