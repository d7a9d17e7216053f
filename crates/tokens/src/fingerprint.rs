//! The content of a request as a number that is the same in every release and on every machine: hosts write it into logs.
//!
//! The bytes: numbers as eight bytes, the lowest first; a name and a list behind their length; something optional behind a
//! byte that says whether it is there. A field added later may only write bytes when it is not at its default, and last, so
//! that old records keep their numbers. The hash is SipHash-2-4 with 128 bits and a fixed key: what matters is that two
//! different requests never meet by accident. Nobody is kept from making two of his own meet.

use std::collections::BTreeMap;
use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};

/// Any two numbers, never to be changed.
const KEY: (u64, u64) = (0x486f_6c64_6661_7374, 0x746f_6b65_6e73_2d31);
/// Requests of usual size are hashed in one go.
const BUFFER: usize = 256;

/// A request's content as a number: two requests with the same are taken for the same. It does not change between releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u128);

/// The bytes of a request on their way into the hash.
pub(crate) struct Canonical {
    hasher: SipHasher24,
    buffer: [u8; BUFFER],
    filled: usize,
}

impl Canonical {
    /// Begins with what kind of request it is.
    pub(crate) fn new(what: &[u8]) -> Self {
        let hasher = SipHasher24::new_with_keys(KEY.0, KEY.1);
        let mut bytes = Canonical { hasher, buffer: [0; BUFFER], filled: 0 };
        bytes.count(what.len());
        bytes.write(what);
        bytes
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(place) = self.buffer.get_mut(self.filled..self.filled + bytes.len()) {
            place.copy_from_slice(bytes);
            self.filled += bytes.len();
            return;
        }
        self.hasher.write(&self.buffer[..self.filled]);
        self.hasher.write(bytes);
        self.filled = 0;
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.write(&number.to_le_bytes());
    }

    pub(crate) fn count(&mut self, count: usize) {
        self.number(u64::try_from(count).expect("a usize fits"));
    }

    /// One of few.
    pub(crate) fn choice(&mut self, choice: u8) {
        self.write(&[choice]);
    }

    pub(crate) fn name(&mut self, name: &str) {
        self.count(name.len());
        self.write(name.as_bytes());
    }

    pub(crate) fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.choice(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub(crate) fn pairs(&mut self, pairs: &BTreeMap<String, String>) {
        self.count(pairs.len());
        for (name, value) in pairs {
            self.name(name);
            self.name(value);
        }
    }

    pub(crate) fn fingerprint(mut self) -> Fingerprint {
        self.hasher.write(&self.buffer[..self.filled]);
        Fingerprint(self.hasher.finish128().as_u128())
    }
}

#[cfg(test)]
mod tests {
    use super::{BUFFER, Canonical};

    #[test]
    fn the_buffer_does_not_show() {
        let long = "x".repeat(BUFFER - 20);
        let all = |names: &[&str]| {
            let mut bytes = Canonical::new(b"test");
            names.iter().for_each(|name| bytes.name(name));
            bytes.fingerprint()
        };
        // The same bytes in the end, cut at different places.
        let mut whole = Canonical::new(b"test");
        let text: Vec<u8> = [long.as_str(), "abc", long.as_str()]
            .iter()
            .flat_map(|name| {
                [&u64::try_from(name.len()).expect("small").to_le_bytes(), name.as_bytes()].concat()
            })
            .collect();
        text.iter().for_each(|byte| whole.choice(*byte));
        assert_eq!(all(&[&long, "abc", &long]), whole.fingerprint());
        assert_ne!(all(&["ab", "c"]), all(&["a", "bc"]));
    }
}
