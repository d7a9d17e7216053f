//! The kinds of live tokens, each once: tokens of one kind share it, wherever they came from.

use std::hash::BuildHasher;
use std::sync::Arc;

use holdfast_domain::tokens::Kind;

use super::seats::Sharded;
use super::vault::Secret;

pub(super) struct Kinds {
    secret: Secret,
    kinds: Sharded<Counted>,
}

/// A kind and how many live tokens have it.
struct Counted {
    kind: Arc<Kind>,
    tokens: u64,
}

impl Kinds {
    pub(super) fn new(secret: Secret) -> Kinds {
        Kinds { secret, kinds: Sharded::default() }
    }

    /// The one copy of that kind, for one token more.
    pub(super) fn share(&mut self, kind: &Arc<Kind>) -> Arc<Kind> {
        let hash = self.secret.hash_one(kind);
        if let Some(known) = self.kinds.find_mut(hash, |known| known.kind == *kind) {
            known.tokens += 1;
            return Arc::clone(&known.kind);
        }
        let new = Counted { kind: Arc::clone(kind), tokens: 1 };
        let secret = self.secret;
        self.kinds.insert(hash, new, |known| secret.hash_one(&known.kind));
        Arc::clone(kind)
    }

    /// One token of that kind is gone.
    pub(super) fn release(&mut self, kind: &Arc<Kind>) {
        let hash = self.secret.hash_one(kind);
        let known = self.kinds.find_mut(hash, |known| Arc::ptr_eq(&known.kind, kind));
        let known = known.expect("a live token's kind is kept");
        known.tokens -= 1;
        if known.tokens == 0 {
            self.kinds.remove(hash, |known| Arc::ptr_eq(&known.kind, kind));
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_disk::LogId;

    use super::*;

    #[test]
    fn equal_kinds_are_one_and_go_with_their_last_token() {
        let mut kinds = Kinds::new(Secret::of(LogId([3; 16])));
        let kind = |wallet: &str| Arc::new(Kind::new(wallet, "USD"));
        let first = kinds.share(&kind("ann"));
        let second = kinds.share(&kind("ann"));
        let other = kinds.share(&kind("bob"));
        assert!(Arc::ptr_eq(&first, &second) && !Arc::ptr_eq(&first, &other));
        kinds.release(&first);
        assert!(Arc::ptr_eq(&kinds.share(&kind("ann")), &first));
        kinds.release(&first);
        kinds.release(&first);
        kinds.release(&other);
        assert_eq!(kinds.kinds.len(), 0);
    }
}
