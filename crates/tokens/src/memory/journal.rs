//! For a host with a log of its own: claim first, write it down, then confirm or undo; on replay apply what was written.
//!
//! `claim` chooses in the caller's thread. The host appends the ids with a fence and a lease end, and its decision comes
//! back as `confirm`, `undo` or, from a host that applies its log to the index itself, `apply_lock`. Replay calls `apply_*`
//! with what the log says; nothing is chosen again, and what is only claimed gives way.

use std::convert::Infallible;
use std::sync::Arc;

use super::claim::{Begin, Claim, Claimed};
use super::hold::lost;
use super::ids::Known;
use super::spenders::{Entry, Held, SpenderEntries, SpenderState};
use super::stripe::Terms;
use super::waiting::claimed;
use super::{After, MemorySelector, Stripes};
use crate::answer::{Lease, LockRecord, Restored, Selection, Transaction};
use crate::choose::Pick;
use crate::choose::lane::Handle;
use crate::fingerprint::Fingerprint;
use crate::random::Random;
use crate::refusal::Refusal;
use crate::request::{Predicate, SelectRequest};
use crate::token::{Token, TokenId};

/// Usually the record has the claim's order.
fn same_tokens(tokens: &[Token], ids: &[TokenId]) -> bool {
    if tokens.len() != ids.len() {
        return false;
    }
    if tokens.iter().zip(ids).all(|(token, id)| token.id == *id) {
        return true;
    }
    let mut claimed: Vec<&TokenId> = tokens.iter().map(|token| &token.id).collect();
    let mut recorded: Vec<&TokenId> = ids.iter().collect();
    claimed.sort_unstable();
    recorded.sort_unstable();
    claimed == recorded
}

impl MemorySelector {
    /// Chooses tokens and sets them aside. They stay so until [`MemorySelector::confirm`] or [`MemorySelector::undo`].
    pub fn claim(
        &self,
        request: &SelectRequest,
        predicate: Option<&Predicate>,
        now: i64,
        random: &mut Random,
    ) -> Result<Claimed, Refusal> {
        let outcome = self.then_finish(now, |after| {
            self.claim_inner(request, predicate, Begin::Pending, now, random, after)
        });
        outcome.map(|(held, new)| claimed(request.spender.clone(), held, new))
    }

    /// Makes a claim a lock with the fence and the end that the host has written down. If a token of it was consumed or
    /// locked by the log meanwhile, the lease is lost; [`MemorySelector::undo`] frees the rest. A claim that
    /// [`MemorySelector::apply_lock`] has made a lock of that fence already is answered as it stands.
    pub fn confirm(&self, claim: &Claim, fence: u64, expires_at: i64) -> Result<Selection, Refusal> {
        let spender = &claim.spender;
        let mut entries = self.spenders.entries(spender);
        let found = entries.held_mut(spender).filter(|held| held.terms.claim == claim.number);
        let held = found.filter(|held| held.terms.pending || held.terms.fence == fence);
        let held = held.ok_or_else(|| lost(spender, "there is no such claim"))?;
        if held.terms.pending {
            let since = held.terms.since;
            let mut stripes = self.stripes(Self::part_stripes(held));
            self.check_live(&mut stripes, spender, held, since)?;
            self.settle_claim(&mut stripes, held, fence, since, expires_at);
        }
        Ok(held.selection(spender.clone()))
    }

    /// A pending claim becomes a lock.
    fn settle_claim(
        &self,
        stripes: &mut Stripes<'_>,
        held: &mut Held,
        fence: u64,
        since: i64,
        expires_at: i64,
    ) {
        held.terms = Terms { fence, since, expires_at, pending: false, ..held.terms };
        for (stripe, number) in held.parts.all() {
            let stripe = stripes.get(*stripe);
            stripe.change_lock(*number, held.terms);
            self.note_end(stripe.number, expires_at);
            self.show_lock(stripe, *number);
        }
        self.raise_fence(fence);
    }

    /// Gives a claim's tokens back. `false` if it was confirmed or undone before, or gave way to the log.
    pub fn undo(&self, claim: &Claim, now: i64) -> bool {
        self.then_finish(now, |after| {
            let mut entries = self.spenders.entries(&claim.spender);
            let ours =
                |held: &Held| Ok::<_, Infallible>(held.terms.pending && held.terms.claim == claim.number);
            let Ok(Some(held)) = entries.take_held(&claim.spender, ours) else { return false };
            self.free_parts(&held, after);
            true
        })
    }

    /// Locks the recorded tokens. `now` is the record's time: a lock whose lease had ended by then gives way. A lock of the
    /// same spender and fence that stands already is left as it is, so that a record may be applied twice.
    ///
    /// The log is right and claims follow it. A pending claim of the same spender on exactly these tokens becomes this
    /// lock, as with [`MemorySelector::confirm`]; on others it gives way, and its tokens are free even if the record is
    /// refused. A pending claim of another spender loses the recorded tokens: its confirm fails and its undo frees the rest.
    pub fn apply_lock(&self, record: &LockRecord, now: i64) -> Result<(), Refusal> {
        self.then_finish(now, |after| self.apply_lock_inner(record, now, after))
    }

    fn apply_lock_inner(&self, record: &LockRecord, now: i64, after: &mut After) -> Result<(), Refusal> {
        let spender = &record.spender;
        let mut entries = self.spenders.entries(spender);
        if self.claim_becomes_lock(&mut entries, record) {
            return Ok(());
        }
        match entries.find(spender).map(|entry| entry.state.clone()) {
            Some(SpenderState::Held(held)) if held.terms.fence == record.fence && !held.terms.pending => {
                return Ok(());
            }
            Some(SpenderState::Held(held)) if !held.terms.pending && self.is_live(&held, now) => {
                let reason = "it holds another selection";
                return Err(Refusal::SpenderInUse { spender: spender.clone(), reason });
            }
            Some(SpenderState::Held(held)) => {
                self.free_parts(&held, after);
                entries.remove(spender);
            }
            Some(SpenderState::Spent(_)) | None => {}
        }
        let mut handles: Vec<Handle> = Vec::with_capacity(record.ids.len());
        for id in record.ids.iter() {
            match self.ids.find(id) {
                Known::Live(handle) => handles.push(handle),
                Known::Consumed => return Err(Refusal::TokenConsumed(id.clone())),
                Known::Nothing => return Err(Refusal::UnknownToken(id.clone())),
            }
        }
        let mut sorted = handles.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|two| two[0] == two[1]) {
            return Err(Refusal::Invalid(format!("the lock of {spender} names a token twice")));
        }
        let mut stripes = self.stripes(handles.iter().map(|handle| handle.stripe()).collect());
        stripes.guards.iter_mut().for_each(|stripe| self.reclaim(stripe, now, after));
        let mut tokens: Vec<Token> = Vec::with_capacity(handles.len());
        for (handle, id) in handles.iter().zip(record.ids.iter()) {
            let stripe = stripes.get(handle.stripe());
            match stripe.slots.get(handle.slot()) {
                Some(slot) if slot.token.id == *id => tokens.push(slot.token.clone()),
                _ => return Err(Refusal::TokenConsumed(id.clone())),
            }
            if stripe.is_locked_for_good(handle.slot()) {
                return Err(Refusal::Contention { attempts: 1 });
            }
        }
        for handle in &handles {
            stripes.get(handle.stripe()).take_from_claim(handle.slot());
        }
        let LockRecord { fence, since, expires_at, .. } = *record;
        let terms = Terms { claim: self.next_number(), fence, since, expires_at, pending: false };
        let pick = |(handle, token): (&Handle, &Token)| Pick { handle: *handle, quantity: token.quantity };
        let picks: Vec<Pick> = handles.iter().zip(&tokens).map(pick).collect();
        let parts = self.lock_in_stripes(&mut stripes, &picks, spender, terms);
        let held = Held::new(terms, record.amount, tokens.into(), parts);
        entries.put(Entry {
            spender: spender.clone(),
            body: record.body,
            state: SpenderState::Held(Box::new(held)),
        });
        self.raise_fence(record.fence);
        Ok(())
    }

    /// Whether the spender has a pending claim, whole, on exactly the recorded tokens. Then it is the lock from now on.
    fn claim_becomes_lock(&self, entries: &mut SpenderEntries<'_>, record: &LockRecord) -> bool {
        let spender = &record.spender;
        let Some(held) = entries.held_mut(spender).filter(|held| held.terms.pending) else { return false };
        if !same_tokens(&held.tokens, &record.ids) {
            return false;
        }
        let mut stripes = self.stripes(Self::part_stripes(held));
        if self.check_live(&mut stripes, spender, held, record.since).is_err() {
            return false;
        }
        held.amount = record.amount;
        self.settle_claim(&mut stripes, held, record.fence, record.since, record.expires_at);
        drop(stripes);
        entries.set_body(spender, record.body);
        true
    }

    /// Exchanges tokens as a recorded spend says, ends the spender's lock and remembers the transaction under the spend's
    /// content. Pending claims on the consumed tokens lose them. Applied twice it changes nothing.
    pub fn apply_spend(&self, transaction: &Transaction, body: Fingerprint, now: i64) -> Result<(), Refusal> {
        let spender = &transaction.spender;
        self.update_inner(&transaction.consumed, transaction.produced.clone(), now)?;
        self.then_finish(now, |after| {
            let mut entries = self.spenders.entries(spender);
            if let Some(held) = entries.held_mut(spender) {
                self.free_parts(held, after);
            }
            let state = SpenderState::Spent(Arc::new(transaction.clone()));
            entries.put(Entry { spender: spender.clone(), body, state });
        });
        Ok(())
    }

    /// Frees what a spender has locked, as the log says. Returns how many tokens.
    pub fn apply_unlock(&self, spender: &str, fence: Option<u64>, now: i64) -> Result<usize, Refusal> {
        self.end_lock(spender, fence, now)
    }

    /// Ends a lock whose lease has run out by the log's clock. A newer lock of the same spender stays.
    pub fn apply_lease_end(&self, spender: &str, fence: u64, now: i64) -> usize {
        self.end_lock(spender, Some(fence), now).unwrap_or(0)
    }

    /// Moves the end of a lock, as the log says; [`crate::limits::NO_END`] makes it a hold without lease.
    pub fn apply_renew(
        &self,
        spender: &str,
        fence: u64,
        expires_at: i64,
        now: i64,
    ) -> Result<Lease, Refusal> {
        self.renew_until(spender, Some(fence), expires_at, now)
    }

    /// The live locks, to be put back after a restart. Claims that are not confirmed are left out.
    #[must_use]
    pub fn export_locks(&self, now: i64) -> Vec<LockRecord> {
        let mut records = Vec::new();
        let mut candidates: Vec<(Entry, Held)> = Vec::new();
        self.spenders.each(|entry| {
            if let SpenderState::Held(held) = &entry.state
                && !held.terms.pending
            {
                candidates.push((entry.clone(), Held::clone(held)));
            }
        });
        for (entry, held) in candidates.into_iter().filter(|(_, held)| self.is_live(held, now)) {
            let ids: Arc<[TokenId]> = held.tokens.iter().map(|token| token.id.clone()).collect();
            records.push(LockRecord {
                spender: entry.spender,
                fence: held.terms.fence,
                since: held.terms.since,
                expires_at: held.terms.expires_at,
                amount: held.amount,
                body: entry.body,
                ids,
            });
        }
        records.sort_by_key(|record| record.fence);
        records
    }

    /// Puts exported locks back with their absolute end. Do this before [`MemorySelector::end_load`], so that nobody selects
    /// in between. What cannot be put back whole is named, not passed over.
    pub fn restore_locks(&self, records: &[LockRecord], now: i64) -> Restored {
        let mut restored = Restored::default();
        for record in records {
            if record.expires_at <= now {
                self.raise_fence(record.fence);
                restored.expired += 1;
                continue;
            }
            match self.apply_lock(record, now) {
                Ok(()) => restored.locks += 1,
                Err(_) => restored.broken.push(record.spender.clone()),
            }
        }
        restored
    }
}
