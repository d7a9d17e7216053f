//! The indexes by external id, by public key and by nothing: copies of what the stripes hold.
//!
//! A mirror is changed only under the lock of the token's stripe, so it follows the stripes. It is read without them: what
//! is chosen here is a proposal that the stripes confirm. In one step, tokens that come are shown before tokens that go,
//! so that no reader sees less than there is.

use std::hash::BuildHasher;

use foldhash::quality::FixedState;
use hashbrown::{HashMap, HashTable};

use super::locked;
use crate::choose::Shelf;
use crate::choose::lane::{Handle, Lane};
use crate::request::{Owner, OwnerKind, Scope};
use crate::sync::Mutex;
use crate::token::{Kind, Name, Token};

const SHARDS: usize = 256;

/// The kinds that are mirrors; wallets are the stripes themselves.
pub(crate) const MIRRORED: [OwnerKind; 3] =
    [OwnerKind::ExternalId, OwnerKind::PublicKey, OwnerKind::TokenOnly];

/// The bit of a kind in the set of kinds kept.
pub(crate) fn bit(kind: OwnerKind) -> u8 {
    match kind {
        OwnerKind::Wallet => 0,
        OwnerKind::ExternalId => 1,
        OwnerKind::PublicKey => 2,
        OwnerKind::TokenOnly => 4,
    }
}

/// The owner of a token under an index kind, if it has one.
pub(crate) fn owner_of(kind: &Kind, by: OwnerKind) -> Option<Owner> {
    match by {
        OwnerKind::Wallet => Some(Owner::Wallet(kind.wallet.clone())),
        OwnerKind::ExternalId => kind.external_id.clone().map(Owner::ExternalId),
        OwnerKind::PublicKey => kind.public_key.clone().map(Owner::PublicKey),
        OwnerKind::TokenOnly => Some(Owner::Any),
    }
}

pub(crate) fn scope_of(kind: &Kind, by: OwnerKind) -> Option<Scope> {
    let owner = owner_of(kind, by)?;
    Some(Scope { owner, token_type: kind.token_type.clone(), currency: kind.currency.clone() })
}

#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) token: Token,
    lane: usize,
    /// Who holds it, and until when.
    pub(crate) holder: Option<(Name, i64)>,
}

/// The tokens of one scope.
#[derive(Debug)]
pub(crate) struct Bucket {
    scope: Scope,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) copies: HashMap<Handle, Copy, FixedState>,
}

impl Shelf for Bucket {
    fn token(&self, handle: Handle) -> &Token {
        &self.copies.get(&handle).expect("a lane holds only tokens that are there").token
    }
}

type Table = HashTable<(u64, Bucket)>;

#[derive(Debug)]
pub(crate) struct Mirrors {
    shards: Vec<Mutex<Table>>,
    hasher: FixedState,
}

impl Mirrors {
    pub(crate) fn new(seed: u64) -> Self {
        Mirrors {
            shards: (0..SHARDS).map(|_| Mutex::new(Table::new())).collect(),
            hasher: FixedState::with_seed(seed ^ 0x3177),
        }
    }

    fn place(&self, scope: &Scope) -> (u64, &Mutex<Table>) {
        let hash = self.hasher.hash_one(scope);
        (hash, &self.shards[usize::try_from((hash >> 32) & 0xff).expect("a byte fits")])
    }

    /// Shows the bucket of a scope, locked.
    pub(crate) fn read<T>(&self, scope: &Scope, show: impl FnOnce(Option<&Bucket>) -> T) -> T {
        let (hash, shard) = self.place(scope);
        let table = locked(shard);
        show(table.find(hash, |(_, bucket)| bucket.scope == *scope).map(|(_, bucket)| bucket))
    }

    fn change(&self, kinds: u8, kind: &Kind, mut change: impl FnMut(&mut Bucket)) {
        for by in MIRRORED {
            if kinds & bit(by) != 0
                && let Some(scope) = scope_of(kind, by)
            {
                self.change_one(scope, &mut change);
            }
        }
    }

    fn change_one(&self, scope: Scope, change: &mut impl FnMut(&mut Bucket)) {
        let (hash, shard) = self.place(&scope);
        let mut table = locked(shard);
        let same = |(_, bucket): &(u64, Bucket)| bucket.scope == scope;
        let entry = table.entry(hash, same, |(hash, _)| *hash);
        let mut entry = entry.or_insert_with(|| {
            let copies = HashMap::with_hasher(self.hasher.clone());
            (hash, Bucket { scope: scope.clone(), lanes: Vec::new(), copies })
        });
        change(&mut entry.get_mut().1);
        if entry.get().1.copies.is_empty() {
            entry.remove();
        }
    }

    pub(crate) fn add(&self, kinds: u8, token: &Token, handle: Handle, holder: Option<(&Name, i64)>) {
        self.change(kinds, &token.kind, |bucket| {
            let (notary, issuer) = (&token.kind.notary, &token.kind.issuer);
            let found = bucket.lanes.iter().position(|lane| lane.notary == *notary && lane.issuer == *issuer);
            let lane = found.unwrap_or_else(|| {
                bucket.lanes.push(Lane::new(notary.clone(), issuer.clone()));
                bucket.lanes.len() - 1
            });
            bucket.lanes[lane].add_free(token.quantity, handle);
            let mut copy = Copy { token: token.clone(), lane, holder: None };
            if let Some((spender, end)) = holder {
                bucket.lanes[lane].lock(token.quantity, handle);
                copy.holder = Some((spender.clone(), end));
            }
            bucket.copies.insert(handle, copy);
        });
    }

    pub(crate) fn remove(&self, kinds: u8, token: &Token, handle: Handle) {
        self.change(kinds, &token.kind, |bucket| {
            let copy = bucket.copies.remove(&handle).expect("a mirror follows its stripes");
            match copy.holder {
                None => bucket.lanes[copy.lane].remove_free(token.quantity, handle),
                Some(_) => bucket.lanes[copy.lane].remove_locked(token.quantity),
            }
        });
    }

    /// Locks a free token, or notes another holder or end for a locked one.
    pub(crate) fn lock(&self, kinds: u8, token: &Token, handle: Handle, spender: &Name, end: i64) {
        self.change(kinds, &token.kind, |bucket| {
            let copy = bucket.copies.get_mut(&handle).expect("a mirror follows its stripes");
            if copy.holder.replace((spender.clone(), end)).is_none() {
                bucket.lanes[copy.lane].lock(token.quantity, handle);
            }
        });
    }

    pub(crate) fn unlock(&self, kinds: u8, token: &Token, handle: Handle) {
        self.change(kinds, &token.kind, |bucket| {
            let copy = bucket.copies.get_mut(&handle).expect("a mirror follows its stripes");
            if copy.holder.take().is_some() {
                bucket.lanes[copy.lane].unlock(token.quantity, handle);
            }
        });
    }
}
