//! Invariant 4. A token is locked by at most one live spender and consumed at most once. A spend that was acknowledged is
//! found again, a refused command left nothing behind, an ended lease spends nothing, and what lives is worth what came in
//! less what went out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_domain::command::Command;
use holdfast_domain::effects::Step;
use holdfast_domain::ids::Millis;
use holdfast_domain::tokens::{LockRow, Name, TokenCommand, TokenId, TokenOutcome, TokenRow};
use holdfast_domain::view::{Spenders, Spends, Tokens};
use holdfast_store::{MemoryStore, Tables};

use super::checkout_holds::CheckoutHolds;
use super::expect;
use super::token_books::{Held, TokenBooks};
use super::transfer_holds::TransferHolds;
use crate::diary::{Diary, Standing};
use crate::witness::Decided;

/// The books, and when they were last written.
#[derive(Debug, Default)]
pub struct TokensAreHeldOnce {
    books: TokenBooks,
    holds: TransferHolds,
    checkouts: CheckoutHolds,
    time: Millis,
}

impl TokensAreHeldOnce {
    /// Books a frame.
    pub fn see(&mut self, frame: &Decided<'_>) -> Result<(), String> {
        self.time = frame.header.time_ms;
        let steps: BTreeMap<u64, &Step> = frame.steps().map(|(offset, _, step)| (offset, step)).collect();
        for ((offset, command), outcome) in
            (frame.header.base_offset..).zip(frame.commands).zip(frame.effects.all(|step| &step.outcomes))
        {
            match (command, &outcome.token) {
                (Command::Token(command), Some(answer)) => {
                    self.books.book(self.time, offset, command, answer)?;
                }
                (Command::Token(command), None) => return Err(format!("{command:?} has no answer")),
                (_, Some(answer)) => return Err(format!("{command:?} is answered {answer:?}")),
                (Command::Shop(_), None) => {
                    let step = steps.get(&offset).ok_or("a command to the shop stands alone")?;
                    self.checkouts.book(&mut self.books, (self.time, offset), step, outcome)?;
                }
                (Command::Expire(expire), None) => {
                    self.holds.book(&mut self.books, frame, offset, command, outcome)?;
                    let step = steps.get(&offset).ok_or("an expiry stands alone")?;
                    self.checkouts.expired(&mut self.books, step);
                    let (holds, shop) = (frame.holds_ended(), frame.shop_ended());
                    let ended = usize::try_from(outcome.subject.ended()).unwrap_or(usize::MAX);
                    let leases = ended.saturating_sub(holds + shop);
                    let due = self.books.end_leases(self.time, leases);
                    // What is not ended is left for want of room, and not before the leases had their part of it.
                    let max = expire.holds_max as usize;
                    let is_short =
                        (ended < max || leases < max / 4) && self.books.end_leases(self.time, 1) > 0;
                    if ended != holds + due + shop || ended > max || is_short {
                        let ended = outcome.subject.ended();
                        return Err(format!(
                            "an expiry ended {ended}; due are {holds} holds and {due} leases, {shop} of the shop were"
                        ));
                    }
                }
                _ => self.holds.book(&mut self.books, frame, offset, command, outcome)?,
            }
        }
        Ok(())
    }

    /// Compares what is stored with the books.
    pub fn inspect(&self, store: &MemoryStore) -> Result<(), String> {
        let books = &self.books;
        let mut worth: BTreeMap<Name, i128> = BTreeMap::new();
        let mut rows: Vec<TokenRow> = Vec::new();
        store.tokens(&mut |row| rows.push(row.clone()));
        for row in &rows {
            *worth.entry(row.token.kind.currency.clone()).or_default() += i128::from(row.token.quantity);
            if books.live.get(&row.token.id) != Some(&row.token) {
                return Err(format!("{row:?} lives, and by the books it does not"));
            }
            if row.holder.as_ref().is_some_and(|holder| !books.holds(holder, &row.token.id)) {
                return Err(format!("{row:?} is held by somebody who does not hold it"));
            }
        }
        if rows.len() != books.live.len() {
            return Err(format!("{} tokens live, by the books {}", rows.len(), books.live.len()));
        }
        let expected = books.worth.iter().filter(|(_, sum)| **sum != 0);
        if !expected.eq(worth.iter()) {
            return Err(format!("what lives is worth {worth:?}; what came and went makes {:?}", books.worth));
        }
        self.inspect_locks(store, &rows)?;
        if let Some((spender, (spent, _))) = books.spends.iter().find(|(spender, (spent, body))| {
            store.spend(spender).is_none_or(|row| row.transaction != *spent || row.body != *body)
        }) {
            return Err(format!("{spender} has spent {spent:?}; found is {:?}", store.spend(spender)));
        }
        match books.gone.iter().find(|id| !store.is_consumed(id)) {
            Some(id) => Err(format!("{id} was consumed, and nobody knows")),
            None => Ok(()),
        }
    }

    fn inspect_locks(&self, store: &MemoryStore, rows: &[TokenRow]) -> Result<(), String> {
        let mut locks: Vec<Arc<LockRow>> = Vec::new();
        store.locks(&mut |row| locks.push(Arc::clone(row)));
        let mut locked: BTreeSet<&TokenId> = BTreeSet::new();
        for row in &locks {
            let held = self.books.locks.get(&row.spender);
            expect(held == Some(&held_by(row)), || format!("{row:?} is a lock, and by the books {held:?}"))?;
            if let Some(id) = row.tokens.iter().find(|id| row.expires_at > self.time && !locked.insert(id)) {
                return Err(format!("{id} is locked by two: {locks:?}"));
            }
        }
        if locks.len() != self.books.locks.len() {
            return Err(format!("{locks:?} are the locks, by the books {:?}", self.books.locks));
        }
        let free = |row: &&TokenRow| row.holder.is_none() && locked.contains(&row.token.id);
        match rows.iter().find(free) {
            Some(row) => Err(format!("{row:?} is locked and names no holder")),
            None => Ok(()),
        }
    }

    /// No lease that was over at `time` still has its lock.
    pub fn none_open_at(&self, time: Millis) -> Result<(), String> {
        match self.books.locks.iter().find(|(_, held)| held.end <= time) {
            Some((spender, held)) => Err(format!("the lease of {spender} was over at {time}: {held:?}")),
            None => Ok(()),
        }
    }

    /// Whether somebody held tokens at the last frame.
    pub fn has_live_lock(&self) -> bool {
        self.books.locks.values().any(|held| held.end > self.time)
    }

    /// No lock is there at all.
    pub fn none_open(&self) -> Result<(), String> {
        self.none_open_at(Millis::MAX)
    }

    /// A hub came back. What its clients were told is enough to know most of what must be there.
    pub fn restarted(&self, store: &MemoryStore, diary: &Diary) -> Result<(), String> {
        let mut may_end = MayEnd::default();
        let sent = diary.entries.iter().filter(|entry| entry.standing != Standing::NotTaken);
        sent.clone().for_each(|entry| may_end.note(&entry.command));
        for entry in sent {
            let (Command::Token(command), Standing::Answered(answer)) = (&entry.command, &entry.standing)
            else {
                continue;
            };
            let lost = |found: String| Err(format!("{command:?} was answered {answer:?}; found is {found}"));
            match (&**command, answer.token.as_deref()) {
                (TokenCommand::Issue { tokens }, Some(TokenOutcome::Issued)) => {
                    let there = |id| store.is_consumed(id) || store.token(id).is_some();
                    if let Some(token) = tokens.iter().find(|token| !there(&token.id)) {
                        return lost(format!("no token {}", token.id));
                    }
                }
                (_, Some(TokenOutcome::Spent(row))) => {
                    let spender = &row.transaction.spender;
                    if store.spend(spender) != Some(row) {
                        return lost(format!("{:?}", store.spend(spender)));
                    }
                    let lives = |id: &&TokenId| store.token(id).is_some() || !store.is_consumed(id);
                    if let Some(id) = row.transaction.consumed.iter().find(lives) {
                        return lost(format!("{id} alive"));
                    }
                }
                (_, Some(TokenOutcome::Locked(row)))
                    if row.expires_at > self.time
                        && !may_end.ends(row)
                        && store.lock(&row.spender) != Some(row) =>
                {
                    return lost(format!("{:?} at {}", store.lock(&row.spender), self.time));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl TokenBooks {
    fn holds(&self, spender: &Name, id: &TokenId) -> bool {
        self.locks.get(spender).is_some_and(|held| held.tokens.contains(id))
    }
}

pub(super) fn held_by(row: &LockRow) -> Held {
    let LockRow { fence, expires_at, amount, body, tokens, funding, .. } = row;
    let (tokens, payee) = (tokens.clone(), funding.clone());
    Held { fence: *fence, end: *expires_at, amount: *amount, body: *body, tokens, payee }
}

/// What anybody ever sent that may end a lock before its lease is over, or move the end.
#[derive(Default)]
struct MayEnd<'a> {
    spenders: BTreeSet<&'a str>,
    tokens: BTreeSet<&'a TokenId>,
}

impl<'a> MayEnd<'a> {
    fn note(&mut self, command: &'a Command) {
        let Command::Token(command) = command else { return };
        match &**command {
            TokenCommand::Spend(spend) => drop(self.spenders.insert(&spend.request.spender)),
            TokenCommand::Unlock { spender, .. } | TokenCommand::Renew { spender, .. } => {
                self.spenders.insert(spender);
            }
            TokenCommand::Update { consumed, .. } => self.tokens.extend(consumed),
            TokenCommand::Issue { .. } | TokenCommand::Lock(_) => {}
        }
    }

    fn ends(&self, row: &LockRow) -> bool {
        self.spenders.contains(&*row.spender) || row.tokens.iter().any(|id| self.tokens.contains(id))
    }
}
