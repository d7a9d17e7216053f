//! The audit chain: one hash that runs over every frame and what it did.

use holdfast_domain::effects::Effects;
use holdfast_log::FrameHeader;

/// The running hash. Each frame carries the value that stood before it.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    hash: [u8; 32],
    effects: Vec<u8>,
}

impl From<[u8; 32]> for Chain {
    fn from(hash: [u8; 32]) -> Chain {
        Chain { hash, effects: Vec::new() }
    }
}

impl Chain {
    /// The value now: what the next frame carries.
    #[must_use]
    pub const fn hash(&self) -> [u8; 32] {
        self.hash
    }

    /// Takes in a frame and its effects: BLAKE3 over the value before, the header's fields, the payload and the
    /// canonical bytes of the effects.
    pub fn advance<'a>(
        &mut self,
        header: &FrameHeader,
        payload: impl Iterator<Item = &'a [u8]>,
        effects: &Effects,
    ) {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.hash);
        hasher.update(&header.base_offset.to_le_bytes());
        hasher.update(&header.count.to_le_bytes());
        hasher.update(&header.time_ms.to_le_bytes());
        hasher.update(&header.options.to_le_bytes());
        hasher.update(&header.rules_version.to_le_bytes());
        payload.for_each(|bytes| {
            hasher.update(bytes);
        });
        self.effects.clear();
        effects.write_digest(&mut self.effects);
        hasher.update(&self.effects);
        self.hash = *hasher.finalize().as_bytes();
    }
}
