//! Tokens that come and go: issue, updates from an outside ledger, loading a vault page by page.

use hashbrown::HashSet;

use super::ids::Known;
use super::stripe::Stripe;
use super::{After, MemorySelector, Stripes};
use crate::choose::lane::Handle;
use crate::limits::{BATCH_TOKENS_MAX, CLAIM_ATTEMPTS, KIND_BYTES};
use crate::refusal::Refusal;
use crate::sync::Ordering;
use crate::token::{Token, TokenId};

pub(super) fn check_batch(tokens: &[Token], others: usize) -> Result<(), Refusal> {
    if tokens.len() + others > BATCH_TOKENS_MAX {
        let what = format!("{} tokens in one call, {BATCH_TOKENS_MAX} are allowed", tokens.len() + others);
        return Err(Refusal::Invalid(what));
    }
    tokens.iter().try_for_each(Token::check)
}

impl MemorySelector {
    /// Takes so many tokens and bytes from their bounds.
    fn reserve(&self, coming: usize, going: usize, bytes: usize) -> Result<(), Refusal> {
        let before = self.tokens.0.fetch_add(coming, Ordering::Relaxed);
        let reserved = if before.saturating_add(coming).saturating_sub(going) > self.config.tokens_max {
            Err(Refusal::Full { what: "the number of tokens is", limit: self.config.tokens_max })
        } else {
            self.reserve_bytes(bytes)
        };
        reserved.inspect_err(|_| {
            self.tokens.0.fetch_sub(coming, Ordering::Relaxed);
        })
    }

    /// Gives them back.
    fn give_back(&self, tokens: usize, bytes: usize) {
        self.tokens.0.fetch_sub(tokens, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Puts a token into its stripe and notes where it lies; says what is known of its id if it is not new.
    fn put(&self, stripe: &mut Stripe, hash: u64, token: Token) -> (Handle, Result<(), Known>) {
        let id = token.id.clone();
        let (handle, kind_bytes) =
            stripe.insert(hash, self.kind_hash(&token), token, |name| self.shared_name(name));
        if let Some(bytes) = kind_bytes {
            self.bytes.fetch_add(bytes + KIND_BYTES, Ordering::Relaxed);
        }
        (handle, self.ids.insert(&id, handle))
    }

    /// Takes tokens in, all or none, into stripes that are locked. `going` tokens are about to leave in the same step. The
    /// tokens come back sharing the kinds that were there.
    pub(crate) fn insert_all(
        &self,
        stripes: &mut Stripes<'_>,
        tokens: &mut [Token],
        going: usize,
        after: &mut After,
    ) -> Result<(), Refusal> {
        let bytes = tokens.iter().map(|token| self.token_bytes(&token.id)).sum();
        self.reserve(tokens.len(), going, bytes)?;
        let mut done: Vec<Handle> = Vec::with_capacity(tokens.len());
        for place in 0..tokens.len() {
            let token = &mut tokens[place];
            let hash = self.pool_hash_of(&token.kind);
            let stripe = stripes.get(self.stripe_number(hash));
            let (handle, noted) = self.put(stripe, hash, token.clone());
            done.push(handle);
            if let Err(known) = noted {
                let refusal = match known {
                    Known::Consumed => Refusal::TokenConsumed(token.id.clone()),
                    _ => Refusal::TokenExists(token.id.clone()),
                };
                self.take_back(stripes, &done, tokens.len(), bytes);
                return Err(refusal);
            }
            token.kind = stripe.slots.get(handle.slot()).expect("just put there").token.kind.clone();
        }
        let kinds = self.mirrored();
        for (token, handle) in tokens.iter().zip(done) {
            self.mirrors.add(kinds, token, handle, None);
            self.note_freed(&token.kind, after);
        }
        Ok(())
    }

    /// Undoes a half-done insertion whose last token was not noted by its id.
    fn take_back(&self, stripes: &mut Stripes<'_>, done: &[Handle], tokens: usize, bytes: usize) {
        for (place, handle) in done.iter().enumerate() {
            let token = self.remove_from_stripe(stripes.get(handle.stripe()), handle.slot());
            if place + 1 < done.len() {
                self.ids.remove(&token.id);
            }
        }
        self.give_back(tokens, bytes);
    }

    fn kind_hash(&self, token: &Token) -> u64 {
        std::hash::BuildHasher::hash_one(&self.hasher, &token.kind)
    }

    fn remove_from_stripe(&self, stripe: &mut Stripe, slot: u32) -> Token {
        let token = &stripe.slots.get(slot).expect("the caller found it").token;
        let (pool, kind) = (self.pool_hash_of(&token.kind), self.kind_hash(token));
        let (token, kind_bytes) = stripe.remove(pool, kind, slot);
        if let Some(bytes) = kind_bytes {
            self.bytes.fetch_sub(bytes + KIND_BYTES, Ordering::Relaxed);
        }
        token
    }

    /// Consumes a token: out of its stripe and its mirrors, and a tombstone for its id.
    pub(crate) fn remove_token(&self, stripe: &mut Stripe, slot: u32) -> Token {
        let token = self.remove_from_stripe(stripe, slot);
        self.mirrors.remove(self.mirrored(), &token, Handle::new(stripe.number, slot));
        self.ids.consume(&token.id);
        self.give_back(1, self.token_bytes(&token.id));
        token
    }

    /// As [`crate::TokenSelector::update`], of any size: for a host whose log says so, whatever it bounds at its edges.
    pub fn apply_update(
        &self,
        consumed: &[TokenId],
        produced: Vec<Token>,
        now: i64,
    ) -> Result<(usize, usize), Refusal> {
        produced.iter().try_for_each(Token::check)?;
        self.update_inner(consumed, produced, now)
    }

    pub(crate) fn update_inner(
        &self,
        consumed: &[TokenId],
        mut produced: Vec<Token>,
        now: i64,
    ) -> Result<(usize, usize), Refusal> {
        let gone: HashSet<&TokenId, foldhash::quality::FixedState> = consumed.iter().collect();
        let mut seen: HashSet<TokenId, foldhash::quality::FixedState> = HashSet::default();
        produced.retain(|token| !gone.contains(&token.id) && seen.insert(token.id.clone()));
        for _ in 0..CLAIM_ATTEMPTS {
            let counts = self.then_finish(now, |after| self.try_update(consumed, &produced, after))?;
            if let Some(counts) = counts {
                return Ok(counts);
            }
        }
        Err(Refusal::Contention { attempts: CLAIM_ATTEMPTS })
    }

    /// `None` if a token came or went between the look and the locks.
    fn try_update(
        &self,
        consumed: &[TokenId],
        produced: &[Token],
        after: &mut After,
    ) -> Result<Option<(usize, usize)>, Refusal> {
        let mut live: Vec<(&TokenId, Handle)> = Vec::new();
        let mut early: Vec<&TokenId> = Vec::new();
        for id in consumed {
            match self.ids.find(id) {
                Known::Live(handle) => live.push((id, handle)),
                Known::Nothing => early.push(id),
                Known::Consumed => {}
            }
        }
        live.sort_unstable();
        live.dedup();
        // A produce that is known already, alive or dead, is a repeat.
        let mut new: Vec<Token> = produced.to_vec();
        new.retain(|token| self.ids.find(&token.id) == Known::Nothing);
        let mut numbers: Vec<u32> = live.iter().map(|(_, handle)| handle.stripe()).collect();
        numbers.extend(new.iter().map(|token| self.stripe_of(&token.kind)));
        let mut stripes = self.stripes(numbers);
        let still_there = live.iter().all(|(id, handle)| {
            let slot = stripes.get(handle.stripe()).slots.get(handle.slot());
            slot.is_some_and(|slot| slot.token.id == **id)
        });
        if !still_there {
            return Ok(None);
        }
        let keep_all = self.loading.load(Ordering::Relaxed);
        for id in early {
            match self.ids.consume_early(id, keep_all) {
                Ok(true) => {}
                Ok(false) => {
                    let limit = self.config.tombstones_max;
                    return Err(Refusal::Full { what: "the memory of early consumes is", limit });
                }
                Err(_) => return Ok(None),
            }
        }
        match self.insert_all(&mut stripes, &mut new, live.len(), after) {
            Ok(()) => {}
            Err(Refusal::TokenExists(_) | Refusal::TokenConsumed(_)) => return Ok(None),
            Err(refusal) => return Err(refusal),
        }
        for (_, handle) in &live {
            let token = self.remove_token(stripes.get(handle.stripe()), handle.slot());
            self.note_freed(&token.kind, after);
        }
        Ok(Some((live.len(), new.len())))
    }

    /// Begins to load a vault. Until [`MemorySelector::end_load`] every selection is refused as `loading`; issues and updates
    /// are taken meanwhile, in any order with the pages.
    pub fn begin_load(&self) {
        self.loading.store(true, Ordering::Relaxed);
    }

    /// Takes in one page. What updates brought or consumed meanwhile is passed over. Returns how many tokens were new.
    pub fn load_page(&self, tokens: Vec<Token>) -> Result<usize, Refusal> {
        tokens.iter().try_for_each(Token::check)?;
        if !self.is_loading() {
            return Err(Refusal::Invalid("a page outside of a load; begin one, or issue the tokens".into()));
        }
        let mut taken = 0;
        let mut by_stripe: Vec<(u32, u64, Token)> = Vec::with_capacity(tokens.len());
        for token in tokens {
            let hash = self.pool_hash_of(&token.kind);
            by_stripe.push((self.stripe_number(hash), hash, token));
        }
        by_stripe.sort_by_key(|(stripe, hash, _)| (*stripe, *hash));
        let mut rest = by_stripe.into_iter().peekable();
        while let Some((number, _, _)) = rest.peek() {
            let number = *number;
            let mut stripe = self.stripe(number);
            while let Some((_, hash, token)) = rest.next_if(|(stripe, _, _)| *stripe == number) {
                taken += usize::from(self.load_one(&mut stripe, hash, token)?);
            }
        }
        Ok(taken)
    }

    /// Selection is refused while loading and the mirrors follow, so nobody has to be told.
    fn load_one(&self, stripe: &mut Stripe, hash: u64, token: Token) -> Result<bool, Refusal> {
        let bytes = self.token_bytes(&token.id);
        self.reserve(1, 0, bytes)?;
        let (handle, noted) = self.put(stripe, hash, token);
        if noted.is_err() {
            self.remove_from_stripe(stripe, handle.slot());
            self.give_back(1, bytes);
            return Ok(false);
        }
        if self.mirrored() != 0 {
            let token = &stripe.slots.get(handle.slot()).expect("just put there").token;
            self.mirrors.add(self.mirrored(), token, handle, None);
        }
        Ok(true)
    }

    /// The vault is loaded: selections are answered from now on. Put locks back before this.
    pub fn end_load(&self) {
        self.loading.store(false, Ordering::Relaxed);
    }

    /// Whether a load is under way.
    #[must_use]
    pub fn is_loading(&self) -> bool {
        self.loading.load(Ordering::Relaxed)
    }
}
