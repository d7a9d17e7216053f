//! What a holder can do with its lock besides spending: renew it, give it back.

use super::spenders::Held;
use super::{After, MemorySelector, Stripes};
use crate::answer::Lease;
use crate::refusal::Refusal;

pub(crate) fn lost(spender: &str, reason: &'static str) -> Refusal {
    Refusal::LeaseLost { spender: spender.into(), reason }
}

impl MemorySelector {
    /// Whether every part of a lock still stands.
    pub(crate) fn is_live(&self, held: &Held, now: i64) -> bool {
        held.parts.all().iter().all(|(stripe, number)| {
            let stripe = self.stripe(*stripe);
            stripe.lock_of(*number, held.terms.claim).is_some_and(|lock| lock.is_live(now))
        })
    }

    /// The same with the stripes in hand; says what is missing.
    pub(crate) fn check_live(
        &self,
        stripes: &mut Stripes<'_>,
        spender: &str,
        held: &Held,
        now: i64,
    ) -> Result<(), Refusal> {
        for (stripe, number) in held.parts.all() {
            match stripes.get(*stripe).lock_of(*number, held.terms.claim) {
                None => return Err(lost(spender, "its lease has ended and others may hold its tokens")),
                Some(lock) if !lock.is_live(now) => return Err(lost(spender, "its lease has ended")),
                Some(lock) if lock.broken => {
                    return Err(lost(spender, "a token of it was consumed elsewhere"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    pub(crate) fn part_stripes(held: &Held) -> Vec<u32> {
        held.parts.all().iter().map(|(stripe, _)| *stripe).collect()
    }

    /// Frees what is left of a lock. Returns how many tokens.
    pub(crate) fn free_parts(&self, held: &Held, after: &mut After) -> usize {
        if let [(stripe, number)] = held.parts.all() {
            let mut stripe = self.stripe(*stripe);
            let standing = stripe.lock_of(*number, held.terms.claim).is_some();
            return if standing { self.free_lock(&mut stripe, *number, after).slots.all().len() } else { 0 };
        }
        let mut stripes = self.stripes(Self::part_stripes(held));
        let mut freed = 0;
        for (stripe, number) in held.parts.all() {
            let stripe = stripes.get(*stripe);
            if stripe.lock_of(*number, held.terms.claim).is_some() {
                freed += self.free_lock(stripe, *number, after).slots.all().len();
            }
        }
        freed
    }

    pub(crate) fn renew_until(
        &self,
        spender: &str,
        fence: Option<u64>,
        expires_at: i64,
        now: i64,
    ) -> Result<Lease, Refusal> {
        let mut entries = self.spenders.entries(spender);
        let Some(held) = entries.held_mut(spender).filter(|held| !held.terms.pending) else {
            return Err(lost(spender, "it holds nothing"));
        };
        if fence.is_some_and(|fence| fence != held.terms.fence) {
            return Err(lost(spender, "the fence is of another selection"));
        }
        let mut stripes = self.stripes(Self::part_stripes(held));
        self.check_live(&mut stripes, spender, held, now)?;
        held.terms.expires_at = expires_at;
        for (stripe, number) in held.parts.all() {
            let stripe = stripes.get(*stripe);
            stripe.change_lock(*number, held.terms);
            self.note_end(stripe.number, expires_at);
            self.show_lock(stripe, *number);
        }
        Ok(Lease { expires_at, fence: held.terms.fence })
    }

    /// Ends a spender's lock, whatever its lease. Pending claims are the host's to undo.
    pub(crate) fn end_lock(&self, spender: &str, fence: Option<u64>, now: i64) -> Result<usize, Refusal> {
        self.then_finish(now, |after| {
            let mut entries = self.spenders.entries(spender);
            let held = entries.take_held(spender, |held| match fence {
                _ if held.terms.pending => Ok(false),
                Some(fence) if fence != held.terms.fence => {
                    Err(lost(spender, "the fence is of another selection"))
                }
                _ => Ok(true),
            })?;
            let Some(held) = held else { return Ok(0) };
            Ok(self.free_parts(&held, after))
        })
    }
}
