//! Tokens that pay for checkouts, in the same books: locked without a lease, paid out or given back once, by their try alone.

use std::collections::BTreeSet;

use holdfast_domain::effects::{Outcome, Step};
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{ShopOutcome, ShopRefusal};
use holdfast_domain::tokens::{LockRow, Name, Token, TokenEffect};

use super::expect;
use super::token_books::TokenBooks;
use super::tokens_are_held_once::held_by;

/// In whose names checkouts hold tokens.
#[derive(Debug, Default)]
pub struct CheckoutHolds {
    open: BTreeSet<Name>,
}

impl CheckoutHolds {
    /// Books a command to the shop whose record lies at `offset`.
    pub fn book(
        &mut self,
        books: &mut TokenBooks,
        (now, offset): (Millis, u64),
        step: &Step,
        outcome: &Outcome,
    ) -> Result<(), String> {
        if let Some(ShopOutcome::Refused(ShopRefusal::ChooseTokens { taken: Some(id), .. })) =
            outcome.shop.as_deref()
        {
            let taken = books.locks.values().any(|held| now < held.end && held.tokens.contains(id));
            expect(taken, || {
                format!("at {now}, offset {offset}: {id} is free, and a checkout was told otherwise")
            })?;
        }
        let spent = spent_in(step);
        for effect in &step.tokens {
            match effect {
                TokenEffect::Locked(row) => self.lock(books, (now, offset), row),
                TokenEffect::Spent(row) => {
                    let spender = &row.transaction.spender;
                    let held = books.locks.get(spender).cloned().filter(|_| self.open.remove(spender));
                    let held = held.ok_or_else(|| format!("{spender} pays with what it does not hold"))?;
                    books.pay_out(&held, row)
                }
                TokenEffect::Unlocked { spender, .. } if self.open.contains(spender) => {
                    if !spent.contains(spender) {
                        self.give_back(books, spender);
                    }
                    Ok(())
                }
                // A lease that is over makes room; what locks its tokens takes it off the books.
                TokenEffect::Unlocked { spender, .. } => {
                    expect(books.is_live(now, spender).is_none(), || {
                        format!("a checkout ends the lock of {spender}")
                    })
                }
                TokenEffect::Consumed(_) | TokenEffect::Produced(_) => Ok(()),
                TokenEffect::Renewed(row) => Err(format!("a checkout renews {row:?}")),
            }
            .map_err(|said| format!("at {now}, offset {offset}: {said}"))?;
        }
        Ok(())
    }

    /// Deadlines give tokens back. Leases that end beside them are not theirs.
    pub fn expired(&mut self, books: &mut TokenBooks, step: &Step) {
        for effect in &step.tokens {
            if let TokenEffect::Unlocked { spender, .. } = effect {
                self.give_back(books, spender);
            }
        }
    }

    fn give_back(&mut self, books: &mut TokenBooks, spender: &Name) {
        if self.open.remove(spender) {
            books.locks.remove(spender);
        }
    }

    fn lock(
        &mut self,
        books: &mut TokenBooks,
        (now, offset): (Millis, u64),
        row: &LockRow,
    ) -> Result<(), String> {
        let against = books.against_lock(now, &row.spender, &row.tokens);
        expect(against.is_empty(), || format!("{row:?} is put on, and against it stand {against:?}"))?;
        let tokens: Vec<&Token> = row.tokens.iter().filter_map(|id| books.live.get(id)).collect();
        let worth: u128 = tokens.iter().map(|token| u128::from(token.quantity)).sum();
        let wallets: BTreeSet<&Name> = tokens.iter().map(|token| &token.kind.wallet).collect();
        let right = wallets.len() == 1
            && worth >= u128::from(row.amount)
            && (row.fence, row.since, row.expires_at) == (offset + 1, now, Millis::MAX)
            && row.funding.is_some()
            && !books.spends.contains_key(&row.spender)
            && books.is_live(now, &row.spender).is_none();
        expect(right, || format!("{row:?} is put on {tokens:?}"))?;
        books.put(&row.spender, held_by(row));
        self.open.insert(row.spender.clone());
        Ok(())
    }
}

/// Who has spent in the step.
fn spent_in(step: &Step) -> BTreeSet<Name> {
    let spent = step.tokens.iter().filter_map(|effect| match effect {
        TokenEffect::Spent(row) => Some(row.transaction.spender.clone()),
        _ => None,
    });
    spent.collect()
}
