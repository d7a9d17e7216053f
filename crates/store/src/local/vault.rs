//! Live tokens and locks: their rows, and the ways to find one. What was consumed or spent lies in an archive.
//!
//! Rows lie in pages that a checkpoint shares. A row has 72 bytes, in which ids of up to 38 bytes lie themselves; about ten
//! more are for its place in the table. Kinds are shared.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use holdfast_disk::LogId;
use holdfast_domain::ids::Millis;
use holdfast_domain::tokens::{LockRow, NO_END, Name, Token, TokenId, TokenRow};
use siphasher::sip::SipHasher13;

use super::kinds::Kinds;
use super::seats::Seats;
use super::slab::Slab;
use crate::hold_index::Seat;

/// Hashes texts that clients choose, under a key that they never see.
#[derive(Clone, Copy)]
pub(super) struct Secret(u64, u64);

impl Secret {
    #[allow(clippy::cast_possible_truncation, reason = "both halves are used")]
    pub(super) const fn of(log_id: LogId) -> Secret {
        let whole = u128::from_le_bytes(log_id.0);
        Secret(whole as u64, (whole >> 64) as u64)
    }

    pub(super) fn text(self, text: &str) -> u64 {
        let mut hasher = self.build_hasher();
        hasher.write(text.as_bytes());
        hasher.finish()
    }
}

impl BuildHasher for Secret {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, self.1)
    }
}

pub(crate) struct Vault {
    secret: Secret,
    pub(super) tokens: Slab<TokenRow>,
    ids: Seats,
    kinds: Kinds,
    pub(super) locks: Slab<Arc<LockRow>>,
    spenders: Seats,
    /// Locks that end by themselves: when, their fence, their seat.
    pub(super) leases: BTreeSet<(Millis, u64, Seat)>,
}

impl Vault {
    pub(crate) fn new(log_id: LogId) -> Vault {
        let secret = Secret::of(log_id);
        Vault {
            secret,
            tokens: Slab::default(),
            ids: Seats::default(),
            kinds: Kinds::new(secret),
            locks: Slab::default(),
            spenders: Seats::default(),
            leases: BTreeSet::new(),
        }
    }

    /// Makes room in the table for so many tokens.
    pub(crate) fn make_room(&mut self, tokens: usize) {
        // A little more, since the parts of the table do not fill alike.
        self.ids.reserve(tokens + tokens / 8);
    }

    fn seat_of(&self, id: &TokenId) -> Option<Seat> {
        self.seat_at(self.hash(id), id)
    }

    fn seat_at(&self, hash: u64, id: &TokenId) -> Option<Seat> {
        self.ids.find(hash, |seat| self.tokens.get(seat).token.id == *id)
    }

    pub(crate) fn hash(&self, id: &TokenId) -> u64 {
        self.secret.hash_one(id)
    }

    /// Whether the token of that id and hash lives.
    pub(crate) fn lives(&self, hash: u64, id: &TokenId) -> bool {
        self.seat_at(hash, id).is_some()
    }

    pub(crate) fn token(&self, id: &TokenId) -> Option<&TokenRow> {
        self.seat_of(id).map(|seat| self.tokens.get(seat))
    }

    fn seat_of_lock(&self, spender: &str) -> Option<Seat> {
        let hash = self.secret.text(spender);
        self.spenders.find(hash, |seat| *self.locks.get(seat).spender == *spender)
    }

    pub(crate) fn lock(&self, spender: &str) -> Option<&Arc<LockRow>> {
        self.seat_of_lock(spender).map(|seat| self.locks.get(seat))
    }

    /// A new live token.
    pub(crate) fn produce(&mut self, token: &Token) {
        assert!(self.seat_of(&token.id).is_none(), "token {} lives already", token.id);
        self.put_back(TokenRow { token: token.clone(), holder: None });
    }

    /// Puts a token back that a checkpoint found live. Its holder's lock is there already.
    pub(crate) fn put_back(&mut self, mut row: TokenRow) {
        row.token.kind = self.kinds.share(&row.token.kind);
        if let Some(lock) = row.holder.as_deref().and_then(|spender| self.lock(spender)) {
            row.holder = Some(Name::clone(&lock.spender));
        }
        let hash = self.secret.hash_one(&row.token.id);
        self.ids.insert(hash, self.tokens.insert(row));
    }

    /// The token is gone, if it was there.
    pub(crate) fn consume(&mut self, id: &TokenId) {
        let Some(seat) = self.seat_of(id) else { return };
        self.ids.remove(self.secret.hash_one(id), seat);
        let row = self.tokens.remove(seat);
        self.kinds.release(&row.token.kind);
    }

    /// Locks the tokens of that lock.
    pub(crate) fn put_lock(&mut self, row: &Arc<LockRow>) {
        self.hold(row, Some(&row.spender));
        self.put_lock_back(Arc::clone(row));
    }

    /// Puts a lock back that a checkpoint has. Its tokens know their holder.
    pub(crate) fn put_lock_back(&mut self, row: Arc<LockRow>) {
        assert!(self.seat_of_lock(&row.spender).is_none(), "{} holds a lock already", row.spender);
        let (hash, fence, expires_at) = (self.secret.text(&row.spender), row.fence, row.expires_at);
        let seat = self.locks.insert(row);
        self.spenders.insert(hash, seat);
        if expires_at != NO_END {
            self.leases.insert((expires_at, fence, seat));
        }
    }

    fn hold(&mut self, lock: &LockRow, holder: Option<&Name>) {
        for id in lock.tokens.iter() {
            if let Some(seat) = self.seat_of(id) {
                self.tokens.get_mut(seat).holder = holder.cloned();
            }
        }
    }

    /// Ends a lock that is there.
    pub(crate) fn unlock(&mut self, spender: &str, fence: u64) {
        let seat = self.seat_of_lock(spender).expect("a lock that ends is there");
        let row = self.locks.remove(seat);
        assert_eq!(row.fence, fence, "the lock of {spender} that ends is the one there");
        self.spenders.remove(self.secret.text(spender), seat);
        self.leases.remove(&(row.expires_at, row.fence, seat));
        self.hold(&row, None);
    }

    /// Moves the end of a lock that is there.
    pub(crate) fn renew(&mut self, spender: &str, fence: u64, expires_at: Millis) {
        let seat = self.seat_of_lock(spender).expect("a lock that is renewed is there");
        let row = Arc::make_mut(self.locks.get_mut(seat));
        assert_eq!(row.fence, fence, "the lock of {spender} that is renewed is the one there");
        let before = std::mem::replace(&mut row.expires_at, expires_at);
        self.leases.remove(&(before, fence, seat));
        if expires_at != NO_END {
            self.leases.insert((expires_at, fence, seat));
        }
    }

    pub(crate) fn due_leases(&self, now: Millis, max: usize) -> Vec<Arc<LockRow>> {
        let due = self.leases.range(..=(now, u64::MAX, Seat::MAX)).take(max);
        due.map(|(_, _, seat)| Arc::clone(self.locks.get(*seat))).collect()
    }
}
