//! What the selector shows: balances, fragmentation, locks, counters; and the contract it keeps.

use std::collections::BTreeMap;

use super::claim::Begin;
use super::stripe::{NO_LOCK, Stripe};
use super::{After, MemorySelector, locked};
use crate::answer::{Balance, Counters, Fragmentation, Lease, LockView, Selection, Transaction};
use crate::choose::lane::Lane;
use crate::contract::TokenSelector;
use crate::random::Random;
use crate::refusal::Refusal;
use crate::request::{Owner, Predicate, Scope, SelectRequest, SpendRequest};
use crate::sync::Ordering;
use crate::token::{Token, TokenId};

/// Tokens to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenState {
    /// Those that can be selected.
    Free,
    /// Those that somebody holds.
    Locked,
}

impl MemorySelector {
    /// Shows the lanes of a scope, after the ends of leases are taken into account.
    fn with_lanes<T>(
        &self,
        scope: &Scope,
        now: i64,
        show: impl FnOnce(&mut dyn Iterator<Item = &Lane>) -> T,
    ) -> Result<T, Refusal> {
        scope.check()?;
        let mut after = After::default();
        let shown = if let Owner::Wallet(wallet) = &scope.owner {
            let hash = self.pool_hash(wallet, &scope.token_type, &scope.currency);
            let mut stripe = self.stripe(self.stripe_number(hash));
            self.reclaim(&mut stripe, now, &mut after);
            let pool = stripe.pool(hash, wallet, &scope.token_type, &scope.currency);
            let numbers = pool.map_or(&[][..], |pool| pool.lanes.all());
            show(&mut numbers.iter().filter_map(|number| stripe.lanes.get(*number)))
        } else {
            self.keep_index(scope.owner.kind())?;
            self.reclaim_everywhere(now, &mut after);
            self.mirrors.read(scope, |bucket| show(&mut bucket.iter().flat_map(|bucket| &bucket.lanes)))
        };
        self.finish(after, now);
        Ok(shown)
    }

    /// How shattered the free tokens of a scope are. Looks at every amount once.
    pub fn fragmentation(&self, scope: &Scope, now: i64) -> Result<Fragmentation, Refusal> {
        self.with_lanes(scope, now, |lanes| {
            let mut found = Fragmentation::default();
            for (quantity, equals) in lanes.flat_map(|lane| lane.upwards(0)) {
                let digits = usize::try_from(quantity.max(&1).ilog10()).expect("at most 19");
                found.tokens[digits] += equals.len();
                found.sums[digits] +=
                    u128::from(*quantity) * u128::try_from(equals.len()).expect("a usize fits");
            }
            found
        })
    }

    /// Wallets with at least `tokens_min` free tokens of one type and currency, from stripe `from` on, at most `max`. Also
    /// returns where to go on; 0 after the last stripe.
    #[must_use]
    pub fn fragmented(&self, tokens_min: usize, from: usize, max: usize) -> (Vec<Scope>, usize) {
        let mut found = Vec::new();
        for (number, stripe) in self.stripes.iter().enumerate().skip(from) {
            let stripe = locked(&stripe.0);
            for (wallet, token_type, currency, lanes) in stripe.pools() {
                let free = |number: &u32| stripe.lanes.get(*number).map_or(0, |lane| lane.free_tokens);
                if lanes.iter().map(free).sum::<usize>() >= tokens_min {
                    let owner = Owner::Wallet(wallet.clone());
                    found.push(Scope { owner, token_type: token_type.clone(), currency: currency.clone() });
                }
            }
            if found.len() >= max {
                return (found, number + 1);
            }
        }
        (found, 0)
    }

    /// The tokens of a wallet by id, after the one given, at most `max`. Looks at all tokens of the wallet's stripe.
    #[must_use]
    pub fn tokens(
        &self,
        scope: &Scope,
        state: Option<TokenState>,
        after_id: Option<&TokenId>,
        max: usize,
        now: i64,
    ) -> Vec<Token> {
        let mut after = After::default();
        self.reclaim_everywhere(now, &mut after);
        let mut found: Vec<Token> = Vec::new();
        let mut look = |stripe: &Stripe| {
            for (_, slot) in stripe.slots.iter() {
                let wanted = match state {
                    None => true,
                    Some(TokenState::Free) => slot.lock == NO_LOCK,
                    Some(TokenState::Locked) => slot.lock != NO_LOCK,
                };
                if wanted
                    && in_scope(&slot.token, scope)
                    && after_id.is_none_or(|after| slot.token.id > *after)
                {
                    found.push(slot.token.clone());
                }
            }
        };
        match &scope.owner {
            Owner::Wallet(wallet) => {
                let hash = self.pool_hash(wallet, &scope.token_type, &scope.currency);
                look(&self.stripe(self.stripe_number(hash)));
            }
            _ => self.stripes.iter().for_each(|stripe| look(&locked(&stripe.0))),
        }
        self.finish(after, now);
        found.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        found.truncate(max);
        found
    }

    /// Every token, in no order, for a host that keeps its own checkpoints.
    #[must_use]
    pub fn export_tokens(&self) -> Vec<Token> {
        let mut all = Vec::with_capacity(self.tokens.0.load(Ordering::Relaxed));
        for stripe in &self.stripes {
            all.extend(locked(&stripe.0).slots.iter().map(|(_, slot)| slot.token.clone()));
        }
        all
    }

    /// Counters since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut all = Counters::default();
        for stripe in &self.stripes {
            let here = locked(&stripe.0).counters;
            all.selections += here.selections;
            all.inputs += here.inputs;
            all.refused += here.refused;
            all.conflicts += here.conflicts;
            all.lease_ends += here.lease_ends;
            all.inputs_histogram.iter_mut().zip(here.inputs_histogram).for_each(|(sum, one)| *sum += one);
        }
        all.waits = self.waiting.ever();
        all.waiting = u64::try_from(self.waiting.now()).unwrap_or(u64::MAX);
        all.tokens = u64::try_from(self.tokens.0.load(Ordering::Relaxed)).unwrap_or(u64::MAX);
        all.bytes = u64::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or(u64::MAX);
        all
    }
}

fn in_scope(token: &Token, scope: &Scope) -> bool {
    let kind = &token.kind;
    let owned = match &scope.owner {
        Owner::Wallet(name) => kind.wallet == *name,
        Owner::ExternalId(name) => kind.external_id.as_ref() == Some(name),
        Owner::PublicKey(name) => kind.public_key.as_ref() == Some(name),
        Owner::Any => true,
    };
    owned && kind.token_type == scope.token_type && kind.currency == scope.currency
}

impl TokenSelector for MemorySelector {
    fn issue(&self, tokens: Vec<Token>, now: i64) -> Result<(), Refusal> {
        self.issue_inner(tokens, now)
    }

    fn update(
        &self,
        consumed: &[TokenId],
        produced: Vec<Token>,
        now: i64,
    ) -> Result<(usize, usize), Refusal> {
        self.update_inner(consumed, produced, now)
    }

    fn select_where(
        &self,
        request: &SelectRequest,
        predicate: Option<&Predicate>,
        now: i64,
        random: &mut Random,
    ) -> Result<Selection, Refusal> {
        let mut after = After::default();
        let outcome = self.claim_inner(request, predicate, Begin::Held, now, random, &mut after);
        self.finish(after, now);
        outcome.map(|(held, _)| held.selection(request.spender.clone()))
    }

    fn spend(&self, request: &SpendRequest, now: i64) -> Result<Transaction, Refusal> {
        self.spend_inner(request, now)
    }

    fn renew(&self, spender: &str, fence: Option<u64>, lease_ms: i64, now: i64) -> Result<Lease, Refusal> {
        self.renew_for(spender, fence, lease_ms, now)
    }

    fn release(&self, spender: &str, fence: Option<u64>, now: i64) -> Result<usize, Refusal> {
        self.end_lock(spender, fence, now)
    }

    fn balance(&self, scope: &Scope, now: i64) -> Result<Balance, Refusal> {
        self.with_lanes(scope, now, |lanes| {
            let mut balance = Balance::default();
            for lane in lanes {
                balance.free += lane.free_sum;
                balance.locked += lane.locked_sum;
                balance.tokens += lane.free_tokens + lane.locked_tokens;
                balance.locked_tokens += lane.locked_tokens;
                balance.largest_free = balance.largest_free.max(lane.largest());
                balance.smallest_free = [balance.smallest_free, lane.smallest()].into_iter().flatten().min();
            }
            balance.total = balance.free + balance.locked;
            balance
        })
    }

    fn locks(&self, scope: Option<&Scope>, now: i64) -> Result<Vec<LockView>, Refusal> {
        scope.map_or(Ok(()), Scope::check)?;
        let mut after = After::default();
        self.reclaim_everywhere(now, &mut after);
        let mut found: BTreeMap<u64, LockView> = BTreeMap::new();
        for stripe in &self.stripes {
            let stripe = locked(&stripe.0);
            for (_, lock) in stripe.locks.iter() {
                let tokens =
                    lock.slots.iter().filter_map(|slot| stripe.slots.get(*slot)).map(|slot| &slot.token);
                let tokens = tokens.filter(|token| scope.is_none_or(|scope| in_scope(token, scope)));
                let tokens: Vec<Token> = tokens.cloned().collect();
                if tokens.is_empty() {
                    continue;
                }
                let view = found.entry(lock.claim).or_insert_with(|| LockView {
                    spender: lock.spender.clone(),
                    fence: lock.fence,
                    since: lock.since,
                    expires_at: lock.expires_at,
                    tokens: Vec::new(),
                });
                view.tokens.extend(tokens);
            }
        }
        self.finish(after, now);
        Ok(found.into_values().collect())
    }
}

impl MemorySelector {
    /// How it was set up.
    #[must_use]
    pub fn config(&self) -> &crate::limits::Config {
        &self.config
    }
}
