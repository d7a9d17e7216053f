//! API keys: who may speak for a participant, and who is an operator.
//!
//! A key is 256 bits from the operating system, shown once when it is made. What is kept is its SHA-256. A slow hash
//! such as argon2 protects secrets that people choose, because those can be guessed; nobody guesses 256 random bits,
//! so a slow hash would protect nothing here and would cost every request milliseconds of the two cores.
//!
//! A key reads `hf_ID_SECRET`. The ID (not secret) finds the one hash to compare with; the comparison takes the same
//! time wherever the first difference lies, and an unknown ID is compared with a hash that nothing has.

mod file;

pub use file::{KeyFileError, KeysFile};

use std::collections::BTreeMap;
use std::fmt;

use holdfast_domain::ids::Millis;
use holdfast_domain::participants::Name;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Keys that one hub knows at most.
pub const KEYS_MAX: usize = 4_096;
/// What every key begins with, so that people and secret scanners recognise one.
pub const KEY_PREFIX: &str = "hf_";
/// Random bytes of the secret.
pub const SECRET_BYTES: usize = 32;
/// Random bytes of the id.
pub const ID_BYTES: usize = 4;

/// The public part of a key: eight hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub [u8; ID_BYTES]);

impl KeyId {
    /// The id that a text names, if it names one.
    #[must_use]
    pub fn parse(text: &str) -> Option<KeyId> {
        read_hex(text).map(KeyId)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&write_hex(&self.0))
    }
}

/// For whom a key speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// May do everything, also in the name of a participant.
    Operator,
    /// May send what this participant may send.
    Participant(Name),
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Operator => f.write_str("operator"),
            Role::Participant(name) => write!(f, "participant {name}"),
        }
    }
}

/// A key as its holder has it. Shown once, never kept, and not to be seen in traces.
pub struct Secret(String);

impl Secret {
    /// The whole text `hf_ID_SECRET`.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What is kept of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptKey {
    /// Its public part.
    pub id: KeyId,
    /// For whom it speaks.
    pub role: Role,
    /// When it was made.
    pub created: Millis,
    hash: [u8; 32],
}

impl KeptKey {
    /// Makes a key of random bytes: what its holder gets, and what is kept.
    #[must_use]
    pub fn make(
        role: Role,
        created: Millis,
        id: [u8; ID_BYTES],
        secret: &[u8; SECRET_BYTES],
    ) -> (Secret, KeptKey) {
        let text = format!("{KEY_PREFIX}{}_{}", write_hex(&id), write_hex(secret));
        let hash = Sha256::digest(text.as_bytes()).into();
        (Secret(text), KeptKey { id: KeyId(id), role, created, hash })
    }
}

/// All keys of a hub.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keyring {
    keys: BTreeMap<KeyId, KeptKey>,
}

impl Keyring {
    /// The keys in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &KeptKey> {
        self.keys.values()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Adds a key; `false` if its id is taken or there are [`KEYS_MAX`] already.
    pub fn add(&mut self, key: KeptKey) -> bool {
        let fits = self.keys.len() < KEYS_MAX && !self.keys.contains_key(&key.id);
        if fits {
            self.keys.insert(key.id, key);
        }
        fits
    }

    /// Takes a key out of use.
    pub fn revoke(&mut self, id: KeyId) -> Option<KeptKey> {
        self.keys.remove(&id)
    }

    /// Whose key this is; `None` if it is nobody's.
    #[must_use]
    pub fn identify(&self, sent: &[u8]) -> Option<&KeptKey> {
        const NOBODY: [u8; 32] = [0; 32];
        let id = sent.strip_prefix(KEY_PREFIX.as_bytes()).and_then(|rest| rest.get(..2 * ID_BYTES));
        let id = id.and_then(|id| std::str::from_utf8(id).ok()).and_then(KeyId::parse);
        let kept = id.and_then(|id| self.keys.get(&id));
        let hash: [u8; 32] = Sha256::digest(sent).into();
        let same = hash.ct_eq(kept.map_or(&NOBODY, |kept| &kept.hash));
        kept.filter(|_| bool::from(same))
    }
}

pub(crate) fn write_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let lower = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    if text.len() != 2 * N || !text.as_bytes().iter().all(lower) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_keys() -> (Keyring, Secret, Secret) {
        let fsp = Role::Participant(Name::new("fsp1").unwrap());
        let (first, kept_first) = KeptKey::make(Role::Operator, 1, [1; 4], &[7; 32]);
        let (second, kept_second) = KeptKey::make(fsp, 2, [2; 4], &[8; 32]);
        let mut ring = Keyring::default();
        assert!(ring.add(kept_first) && ring.add(kept_second));
        (ring, first, second)
    }

    #[test]
    fn each_key_is_known_by_its_own_secret_only() {
        let (ring, first, second) = two_keys();
        assert_eq!(ring.identify(first.reveal().as_bytes()).unwrap().role, Role::Operator);
        assert_eq!(ring.identify(second.reveal().as_bytes()).unwrap().id, KeyId([2; 4]));
        let mixed = format!("hf_01010101_{}", &second.reveal()[12..]);
        assert_eq!(ring.identify(mixed.as_bytes()), None, "an id with another key's secret");
        // A difference at any place, the first byte to the last, is a difference.
        for at in 0..first.reveal().len() {
            let mut other = first.reveal().as_bytes().to_vec();
            other[at] ^= 1;
            assert_eq!(ring.identify(&other), None, "changed at {at}");
        }
        for odd in
            ["", "hf_", "hf_01010101", "hf_01010101_", "hf_zzzzzzzz_00", "hf_\u{e9}\u{e9}\u{e9}\u{e9}x"]
        {
            assert_eq!(ring.identify(odd.as_bytes()), None, "{odd}");
        }
        assert_eq!(ring.identify(&[0xff; 80]), None);
    }

    #[test]
    fn a_revoked_key_is_nobodys() {
        let (mut ring, first, _) = two_keys();
        assert!(ring.revoke(KeyId([1; 4])).is_some());
        assert_eq!(ring.identify(first.reveal().as_bytes()), None);
        assert!(ring.revoke(KeyId([1; 4])).is_none());
    }

    #[test]
    fn a_secret_is_not_seen_in_traces() {
        let (_, first, _) = two_keys();
        assert_eq!(format!("{first:?}"), "Secret(…)");
    }
}
