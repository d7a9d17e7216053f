//! What the selector shows: balances, fragmentation, locks, counters; and the contract it keeps.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::claim::Begin;
use super::ids::Known;
use super::mirrors::Bucket;
use super::spenders::SpenderState;
use super::stripe::{NO_LOCK, Stripe};
use super::updates::check_batch;
use super::{After, MemorySelector, locked};
use crate::answer::{Balance, Counters, Fragmentation, Lease, LockSummary, LockView, Selection, Transaction};
use crate::choose::lane::{Handle, Lane};
use crate::contract::TokenSelector;
use crate::limits::LIST_TOKENS_MAX;
use crate::random::Random;
use crate::refusal::Refusal;
use crate::request::{Owner, Predicate, Scope, SelectRequest, SpendRequest, check_lease};
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

/// A part of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenPage {
    /// The tokens, each with whether somebody holds it.
    pub tokens: Vec<(Token, bool)>,
    /// Where to go on, if there may be more. It need not be a token of the scope.
    pub next: Option<TokenId>,
}

/// A look along the places of the stripes.
struct Look<'a> {
    scope: &'a Scope,
    state: Option<TokenState>,
    max: usize,
    places_left: usize,
    page: TokenPage,
}

impl Look<'_> {
    /// Breaks off when the page is full or long enough has been looked, at a token from which one can go on.
    fn at(&mut self, stripe: &Stripe, from: u32) -> ControlFlow<()> {
        for (_, place) in stripe.slots.iter_from(from) {
            self.places_left = self.places_left.saturating_sub(1);
            let Some(slot) = place else { continue };
            let locked = slot.lock != NO_LOCK;
            let wanted = self.state.is_none_or(|state| (state == TokenState::Locked) == locked);
            if wanted && self.scope.owns(&slot.token) {
                self.page.tokens.push((slot.token.clone(), locked));
            }
            if self.page.tokens.len() >= self.max.max(1) || self.places_left == 0 {
                self.page.next = Some(slot.token.id.clone());
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
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
        self.then_finish(now, |after| {
            if let Owner::Wallet(wallet) = &scope.owner {
                let hash = self.pool_hash(wallet, &scope.token_type, &scope.currency);
                let mut stripe = self.stripe(self.stripe_number(hash));
                self.reclaim(&mut stripe, now, after);
                let pool = stripe.pool(hash, wallet, &scope.token_type, &scope.currency);
                let numbers = pool.map_or(&[][..], |pool| pool.lanes.all());
                return Ok(show(&mut numbers.iter().filter_map(|number| stripe.lanes.get(*number))));
            }
            self.keep_index(scope.owner.kind())?;
            self.reclaim_everywhere(now, after);
            let lanes = |bucket: Option<&Bucket>| show(&mut bucket.iter().flat_map(|bucket| &bucket.lanes));
            Ok(self.mirrors.read(scope, lanes))
        })
    }

    /// How shattered the free tokens of a scope are. Looks at every amount once.
    pub fn fragmentation(&self, scope: &Scope, now: i64) -> Result<Fragmentation, Refusal> {
        self.with_lanes(scope, now, |lanes| {
            let mut found = Fragmentation::default();
            for (quantity, equals) in lanes.flat_map(|lane| lane.upwards(0)) {
                let digits = usize::try_from(quantity.max(1).ilog10()).expect("at most 19");
                found.tokens[digits] += equals.len();
                found.sums[digits] +=
                    u128::from(quantity) * u128::try_from(equals.len()).expect("a usize fits");
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
                    let owner = Owner::Wallet(wallet.into());
                    found.push(Scope { owner, token_type: token_type.clone(), currency: currency.clone() });
                }
            }
            if found.len() >= max {
                return (found, number + 1);
            }
        }
        (found, 0)
    }

    /// The tokens of a scope, after the one given, at most `max` of them, in an order of the selector's own that holds as
    /// long as it lives: a token that stays is seen exactly once, one that comes meanwhile perhaps. Looks at no more than
    /// [`LIST_TOKENS_MAX`] places and the empty ones that follow, so a page may be short, or bare, and yet not the last: only
    /// [`TokenPage::next`] tells.
    /// `after` may have been consumed meanwhile; if it is forgotten, or was never here, it is unknown and the listing has
    /// to begin anew.
    pub fn tokens(
        &self,
        scope: &Scope,
        state: Option<TokenState>,
        after: Option<&TokenId>,
        max: usize,
        now: i64,
    ) -> Result<TokenPage, Refusal> {
        scope.check()?;
        let last = after.map(|id| self.ids.last_place(id).ok_or_else(|| Refusal::UnknownToken(id.clone())));
        let last = last.transpose()?;
        let (first, behind_last) = match &scope.owner {
            Owner::Wallet(wallet) => {
                let hash = self.pool_hash(wallet, &scope.token_type, &scope.currency);
                let only = self.stripe_number(hash);
                (only, only + 1)
            }
            _ => (0, u32::try_from(self.stripes.len()).expect("clamped at the start")),
        };
        let mut look = Look { scope, state, max, places_left: LIST_TOKENS_MAX, page: TokenPage::default() };
        self.then_finish(now, |after| {
            for number in first.max(last.map_or(0, Handle::stripe))..behind_last {
                let from = last.filter(|last| last.stripe() == number).map_or(0, |last| last.slot() + 1);
                let mut stripe = self.stripe(number);
                self.reclaim(&mut stripe, now, after);
                if look.at(&stripe, from).is_break() {
                    break;
                }
            }
        });
        Ok(look.page)
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

impl TokenSelector for MemorySelector {
    fn issue(&self, mut tokens: Vec<Token>, now: i64) -> Result<(), Refusal> {
        check_batch(&tokens, 0)?;
        self.then_finish(now, |after| {
            let mut stripes = self.stripes(tokens.iter().map(|token| self.stripe_of(&token.kind)).collect());
            self.insert_all(&mut stripes, &mut tokens, 0, after)
        })
    }

    fn update(
        &self,
        consumed: &[TokenId],
        produced: Vec<Token>,
        now: i64,
    ) -> Result<(usize, usize), Refusal> {
        check_batch(&produced, consumed.len())?;
        self.update_inner(consumed, produced, now)
    }

    fn select_where(
        &self,
        request: &SelectRequest,
        predicate: Option<&Predicate>,
        now: i64,
        random: &mut Random,
    ) -> Result<Selection, Refusal> {
        let outcome = self
            .then_finish(now, |after| self.claim_inner(request, predicate, Begin::Held, now, random, after));
        outcome.map(|(held, _)| held.selection(request.spender.clone()))
    }

    fn spend(&self, request: &SpendRequest, now: i64) -> Result<Transaction, Refusal> {
        self.spend_inner(request, now)
    }

    fn renew(&self, spender: &str, fence: Option<u64>, lease_ms: i64, now: i64) -> Result<Lease, Refusal> {
        check_lease(lease_ms)?;
        self.renew_until(spender, fence, now.saturating_add(lease_ms), now)
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
            // A claim on its way is no lock yet: it has neither fence nor end.
            for (_, lock) in stripe.locks.iter().filter(|(_, lock)| !lock.terms.pending) {
                let slots = lock.slots.all().iter().filter_map(|slot| stripe.slots.get(*slot));
                let tokens = slots.map(|slot| &slot.token);
                let tokens = tokens.filter(|token| scope.is_none_or(|scope| scope.owns(token)));
                let tokens: Vec<Token> = tokens.cloned().collect();
                if tokens.is_empty() {
                    continue;
                }
                let view = found.entry(lock.terms.claim).or_insert_with(|| LockView {
                    spender: lock.spender.clone(),
                    fence: lock.terms.fence,
                    since: lock.terms.since,
                    expires_at: lock.terms.expires_at,
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
    /// How many locks are live and since when the oldest is. Looks at every spender and copies nothing. A lock that lost
    /// all its tokens to an update counts until its lease ends, though [`TokenSelector::locks`] has nothing to show of it.
    #[must_use]
    pub fn lock_summary(&self, now: i64) -> LockSummary {
        self.then_finish(now, |after| self.reclaim_everywhere(now, after));
        let mut summary = LockSummary::default();
        self.spenders.each(|entry| {
            if let SpenderState::Held(held) = &entry.state
                && !held.terms.pending
            {
                summary.locks += 1;
                summary.oldest_since = summary.oldest_since.into_iter().chain([held.terms.since]).min();
            }
        });
        summary
    }

    /// How many tokens live.
    #[must_use]
    pub fn token_count(&self) -> usize {
        self.tokens.0.load(Ordering::Relaxed)
    }

    /// How many tokens a spender has locked or claimed.
    #[must_use]
    pub fn held_tokens(&self, spender: &str) -> usize {
        self.spenders.entries(spender).held_mut(spender).map_or(0, |held| held.tokens.len())
    }

    /// How many requests wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.now()
    }

    /// Whether that token is here.
    #[must_use]
    pub fn has_token(&self, id: &TokenId) -> bool {
        matches!(self.ids.find(id), Known::Live(_))
    }

    /// Whether that token is here and nobody has it locked or claimed. Whether a lease has ended is not looked at.
    #[must_use]
    pub fn is_free(&self, id: &TokenId) -> bool {
        let Known::Live(handle) = self.ids.find(id) else { return false };
        let stripe = self.stripe(handle.stripe());
        stripe.slots.get(handle.slot()).is_some_and(|slot| slot.token.id == *id && slot.lock == NO_LOCK)
    }

    /// What a spender holds, as far as its lock still stands here. Whether its lease has ended is not looked at.
    #[must_use]
    pub fn held(&self, spender: &str) -> Option<Selection> {
        let entries = self.spenders.entries(spender);
        match &entries.find(spender)?.state {
            SpenderState::Held(held) if !held.terms.pending => Some(held.selection(spender.into())),
            _ => None,
        }
    }

    /// Forgets a spender, with its lock and its spend, for a host that knows better. A claim on its way stays.
    pub fn forget_spender(&self, spender: &str, now: i64) {
        // Without a fence there is nothing to refuse.
        drop(self.end_lock(spender, None, now));
        let mut entries = self.spenders.entries(spender);
        if matches!(entries.find(spender).map(|entry| &entry.state), Some(SpenderState::Spent(_))) {
            entries.remove(spender);
        }
    }

    /// The bounds it was made with.
    #[must_use]
    pub fn config(&self) -> &crate::limits::Config {
        &self.config
    }
}
