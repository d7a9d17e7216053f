//! Choosing and locking in one step.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::decide::{Ask, Locks, decide, nothing_there};
use super::mirrors::Bucket;
use super::spenders::{Entry, Held, Parts, SpenderEntries, SpenderState};
use super::stripe::{Lock, NO_LOCK, Stripe, Terms};
use super::{After, MemorySelector, Stripes};
use crate::answer::Selection;
use crate::choose::lane::{Handle, Lane};
use crate::choose::{Pick, Shelf, Want};
use crate::fingerprint::Fingerprint;
use crate::limits::CLAIM_ATTEMPTS;
use crate::random::Random;
use crate::refusal::Refusal;
use crate::request::{Owner, Predicate, SelectRequest};
use crate::sync::{MutexGuard, Ordering};
use crate::token::{Name, Token};

/// Tokens chosen and set aside, for a host that writes them down before they are locked for good. It neither ends by itself
/// nor by being dropped: confirm it or undo it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a claim holds its tokens until it is confirmed or undone"]
pub struct Claim {
    /// Names the claim.
    pub number: u64,
    /// For whom.
    pub spender: Name,
    /// The tokens.
    pub tokens: Arc<[Token]>,
    /// What they are worth together.
    pub sum: u128,
    /// What was asked for.
    pub amount: u64,
}

/// What a claim came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// New tokens are set aside.
    New(Claim),
    /// The spender asked the same before and still holds this.
    Held(Selection),
}

/// How the new lock begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Held at once, with a fence of our own.
    Held,
    /// Set aside until the host confirms.
    Pending,
    /// Not at all: only a look whether the answer is a lasting no. A yes comes as contention.
    Look,
}

/// Locked tokens of a wallet's pool.
struct PoolLocks<'a> {
    stripe: &'a Stripe,
    lanes: &'a [u32],
}

impl Locks for PoolLocks<'_> {
    fn each(&self, show: &mut dyn FnMut(&Token, &Name, i64)) {
        for (_, lock) in self.stripe.locks.iter() {
            for slot in lock.slots.all().iter().filter_map(|slot| self.stripe.slots.get(*slot)) {
                if self.lanes.contains(&slot.lane) {
                    show(&slot.token, &lock.spender, lock.end());
                }
            }
        }
    }
}

impl Locks for Bucket {
    fn each(&self, show: &mut dyn FnMut(&Token, &Name, i64)) {
        for copy in self.copies.values() {
            if let Some((spender, end)) = &copy.holder {
                show(&copy.token, spender, *end);
            }
        }
    }
}

/// What was taken, and where its locks are.
type Taken = (Arc<[Token]>, Parts);

impl MemorySelector {
    /// Chooses and locks, or says what the spender holds already. `before` is what was known under the spender's lock.
    pub(crate) fn claim_inner(
        &self,
        request: &SelectRequest,
        predicate: Option<&Predicate>,
        begin: Begin,
        now: i64,
        random: &mut Random,
        after: &mut After,
    ) -> Result<(Held, bool), Refusal> {
        request.check()?;
        if self.loading.load(Ordering::Relaxed) {
            return Err(Refusal::Loading { tokens: self.tokens.0.load(Ordering::Relaxed) });
        }
        let body = request.fingerprint();
        let mut entries = self.spenders.entries(&request.spender);
        if let Some(entry) = entries.find(&request.spender) {
            let in_use = |reason| Refusal::SpenderInUse { spender: request.spender.clone(), reason };
            match &entry.state {
                SpenderState::Spent(_) => return Err(in_use("it has spent already")),
                SpenderState::Held(held) if self.is_live(held, now) => {
                    return match (entry.body == body, held.terms.pending) {
                        (true, false) => Ok((Held::clone(held), false)),
                        (true, true) => Err(in_use(crate::refusal::NOT_DECIDED)),
                        (false, _) => Err(in_use("it holds a selection of another request")),
                    };
                }
                SpenderState::Held(held) => {
                    let held = held.clone();
                    self.free_parts(&held, after);
                    entries.remove(&request.spender);
                }
            }
        }
        self.claim_new(&mut entries, request, body, predicate, begin, now, random, after)
            .map(|held| (held, true))
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "one call site; the arguments are the request and its surroundings"
    )]
    fn claim_new(
        &self,
        entries: &mut SpenderEntries<'_>,
        request: &SelectRequest,
        body: Fingerprint,
        predicate: Option<&Predicate>,
        begin: Begin,
        now: i64,
        random: &mut Random,
        after: &mut After,
    ) -> Result<Held, Refusal> {
        let wanted = &request.filter.attributes;
        // A predicate that panics says no: nothing is half done because of it.
        let test = |token: &Token| {
            token.kind.has_attributes(wanted)
                && predicate
                    .is_none_or(|test| catch_unwind(AssertUnwindSafe(|| test(token))).unwrap_or(false))
        };
        let tested = !wanted.is_empty() || predicate.is_some();
        let ask = Ask {
            want: Want {
                amount: request.amount,
                policy: request.policy,
                max_inputs: request.max_inputs,
                inputs_default: self.config.inputs_default,
                allow_shortfall: request.allow_shortfall,
                sweep: request.sweep,
            },
            filter: &request.filter,
            test: tested.then_some(&test),
            look: begin == Begin::Look,
        };
        let claim = self.next_number();
        let terms = Terms {
            claim,
            fence: claim,
            since: now,
            expires_at: now.saturating_add(request.lease_ms),
            pending: begin == Begin::Pending,
        };
        let (tokens, parts) = match &request.scope.owner {
            Owner::Wallet(wallet) => self.take_from_wallet(wallet, request, &ask, terms, random, after)?,
            _ => self.take_from_mirror(request, &ask, terms, random, after)?,
        };
        let held = Held::new(terms, request.amount, tokens, parts);
        let (spender, state) = (request.spender.clone(), SpenderState::Held(Box::new(held.clone())));
        entries.add(Entry { spender, body, state });
        Ok(held)
    }

    fn take_from_wallet(
        &self,
        wallet: &str,
        request: &SelectRequest,
        ask: &Ask<'_>,
        terms: Terms,
        random: &mut Random,
        after: &mut After,
    ) -> Result<Taken, Refusal> {
        let (token_type, currency) = (&request.scope.token_type, &request.scope.currency);
        let hash = self.pool_hash(wallet, token_type, currency);
        let mut stripe = self.stripe(self.stripe_number(hash));
        self.reclaim(&mut stripe, terms.since, after);
        let numbers =
            stripe.pool(hash, wallet, token_type, currency).map_or(&[][..], |pool| pool.lanes.all());
        let lanes = numbers.iter().filter_map(|number| stripe.lanes.get(*number));
        let mut lanes = lanes.filter(|lane| ask.takes(lane));
        // Nearly always there is one lane, and a list of it would cost more than a look.
        let (mut one, mut many): ([&Lane; 1], Vec<&Lane>);
        let lanes: &mut [&Lane] = match (lanes.next(), lanes.next()) {
            (None, _) => &mut [],
            (Some(only), None) => {
                one = [only];
                &mut one
            }
            (Some(first), Some(second)) => {
                many = [first, second].into_iter().chain(lanes).collect();
                &mut many
            }
        };
        let locks = PoolLocks { stripe: &stripe, lanes: numbers };
        let picks = match decide(lanes, &*stripe, &locks, ask, random) {
            Ok(picks) => picks,
            Err(refusal) => {
                stripe.counters.refused += 1;
                return Err(refusal);
            }
        };
        if ask.look {
            return Err(Refusal::Contention { attempts: 0 });
        }
        let lane = if let [only] = numbers { Some(*only) } else { None };
        let part = self.lock_picks(&mut stripe, &picks, lane, &request.spender, terms);
        let tokens = picks.iter().map(|pick| stripe.token(pick.handle).clone()).collect();
        count(&mut stripe, picks.len());
        Ok((tokens, Parts::One([part])))
    }

    /// Chooses from the mirror, then locks the stripes of the chosen and looks again. All or nothing: a token that is gone
    /// meanwhile sends the whole choice back.
    fn take_from_mirror(
        &self,
        request: &SelectRequest,
        ask: &Ask<'_>,
        terms: Terms,
        random: &mut Random,
        after: &mut After,
    ) -> Result<Taken, Refusal> {
        self.keep_index(request.scope.owner.kind())?;
        for _ in 0..CLAIM_ATTEMPTS {
            self.reclaim_everywhere(terms.since, after);
            let proposed = self.mirrors.read(&request.scope, |bucket| {
                let Some(bucket) = bucket else { return Err(nothing_there(ask)) };
                let mut lanes: Vec<&Lane> =
                    bucket.lanes.iter().filter(|lane| !lane.is_empty() && ask.takes(lane)).collect();
                let picks = decide(&mut lanes, bucket, bucket, ask, random)?;
                Ok(picks.iter().map(|pick| (*pick, bucket.copies[&pick.handle].token.clone())).collect())
            });
            let proposed: Vec<(Pick, Token)> = match proposed {
                Ok(proposed) => proposed,
                Err(refusal) => {
                    self.stripe(0).counters.refused += 1;
                    return Err(refusal);
                }
            };
            if ask.look {
                return Err(Refusal::Contention { attempts: 0 });
            }
            let (picks, tokens): (Vec<Pick>, Vec<Token>) = proposed.into_iter().unzip();
            let mut stripes = self.stripes(picks.iter().map(|pick| pick.handle.stripe()).collect());
            let all_there = picks.iter().zip(&tokens).all(|(pick, token)| {
                let stripe = stripes.get(pick.handle.stripe());
                let slot = stripe.slots.get(pick.handle.slot());
                slot.is_some_and(|slot| slot.lock == NO_LOCK && slot.token == *token)
            });
            if !all_there {
                stripes.guards[0].counters.conflicts += 1;
                continue;
            }
            let parts = self.lock_in_stripes(&mut stripes, &picks, &request.spender, terms);
            count(&mut stripes.guards[0], picks.len());
            return Ok((tokens.into(), parts));
        }
        Err(Refusal::Contention { attempts: CLAIM_ATTEMPTS })
    }

    /// Locks free tokens of these stripes, some in each. Returns where the locks are.
    pub(crate) fn lock_in_stripes(
        &self,
        stripes: &mut Stripes<'_>,
        picks: &[Pick],
        spender: &Name,
        terms: Terms,
    ) -> Parts {
        let lock_here = |stripe: &mut MutexGuard<'_, Stripe>| {
            let here = |pick: &&Pick| pick.handle.stripe() == stripe.number;
            let picks: Vec<Pick> = picks.iter().filter(here).copied().collect();
            self.lock_picks(stripe, &picks, None, spender, terms)
        };
        stripes.guards.iter_mut().map(lock_here).collect()
    }

    /// Locks free tokens of one stripe; `lane` is theirs if they have only one. Returns where the lock is.
    fn lock_picks(
        &self,
        stripe: &mut Stripe,
        picks: &[Pick],
        lane: Option<u32>,
        spender: &Name,
        terms: Terms,
    ) -> (u32, u32) {
        let lock = Lock {
            spender: spender.clone(),
            terms,
            broken: false,
            slots: picks.iter().map(|pick| pick.handle.slot()).collect(),
        };
        let end = lock.end();
        let number = stripe.add_lock(lock, picks, lane);
        self.note_end(stripe.number, end);
        self.show_lock(stripe, number);
        (stripe.number, number)
    }

    /// Lets the mirrors see a lock as it is now.
    pub(crate) fn show_lock(&self, stripe: &Stripe, number: u32) {
        let kinds = self.mirrored();
        if kinds == 0 {
            return;
        }
        let lock = stripe.locks.get(number).expect("the caller has it");
        for slot in lock.slots.all() {
            let handle = Handle::new(stripe.number, *slot);
            self.mirrors.lock(kinds, stripe.token(handle), handle, &lock.spender, lock.end());
        }
    }
}

fn count(stripe: &mut Stripe, inputs: usize) {
    let counters = &mut stripe.counters;
    counters.selections += 1;
    counters.inputs += u64::try_from(inputs).unwrap_or(u64::MAX);
    let class = usize::try_from(inputs.max(1).next_power_of_two().ilog2()).unwrap_or(15).min(15);
    counters.inputs_histogram[class] += 1;
}
