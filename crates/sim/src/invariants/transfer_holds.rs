//! Tokens that pay for transfers, in the same books: locked without a lease from RESERVED on, paid out or given back once,
//! with the end of their transfer.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Command, Prepare};
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::{Millis, TransferId, TransferNo};
use holdfast_domain::tokens::{Fingerprint, Name, SpendRow, Token, TokenEffect};
use holdfast_domain::transfers::TransferState;

use super::expect;
use super::token_books::{Held, TokenBooks};
use crate::witness::Decided;
use crate::world::UNIT;

/// Which transfers hold tokens.
#[derive(Debug, Default)]
pub struct TransferHolds {
    known: BTreeSet<TransferId>,
    open: BTreeMap<TransferNo, Name>,
}

impl TransferHolds {
    /// Books a command about a transfer whose record lies at `offset`.
    pub fn book(
        &mut self,
        books: &mut TokenBooks,
        frame: &Decided<'_>,
        offset: u64,
        command: &Command,
        outcome: &Outcome,
    ) -> Result<(), String> {
        match command {
            Command::Prepare(prepare) if outcome.state.is_some() && self.known.insert(prepare.id) => {
                self.prepare(books, frame.header.time_ms, offset, prepare, outcome)
            }
            Command::Fulfil(_) | Command::Abort(_) => match outcome.state {
                Some(TransferState::Committed) => {
                    self.pay_out(books, TransferNo(outcome.subject.number()), frame)
                }
                Some(TransferState::AbortedError) => {
                    self.give_back(books, TransferNo(outcome.subject.number()));
                    Ok(())
                }
                _ => Ok(()),
            },
            Command::Expire(_) => {
                let over = |state| state == TransferState::ExpiredReserved;
                let changes =
                    frame.effects.all(|step| &step.state_changes).filter(|change| over(change.state));
                changes.for_each(|change| self.give_back(books, change.transfer));
                Ok(())
            }
            _ => Ok(()),
        }
        .map_err(|said| format!("at {}, offset {offset}: {command:?} {said}", frame.header.time_ms))
    }

    fn prepare(
        &mut self,
        books: &mut TokenBooks,
        now: Millis,
        offset: u64,
        prepare: &Prepare,
        outcome: &Outcome,
    ) -> Result<(), String> {
        let Some(funding) =
            prepare.funding.as_ref().filter(|_| outcome.state != Some(TransferState::Invalid))
        else {
            return Ok(());
        };
        let letters = prepare.currency.letters();
        let fits = |token: &&Token| {
            token.kind.wallet == funding.payer_wallet
                && token.kind.currency.as_bytes() == letters
                && &*token.kind.token_type == "token"
        };
        let fitting: Vec<&Token> =
            funding.ids.iter().filter_map(|id| books.live.get(id)).filter(fits).collect();
        let sum: i64 = fitting.iter().map(|token| i64::try_from(token.quantity).expect("a small one")).sum();
        let quantity = prepare.amount.0 / UNIT;
        let free = !books.spends.contains_key(&funding.spender)
            && books.is_live(now, &funding.spender).is_none()
            && books.against_lock(now, &funding.spender, &funding.ids).is_empty();
        let covered = free && fitting.len() == funding.ids.len() && sum >= quantity;
        let (state, code) = if covered {
            (TransferState::Reserved, None)
        } else {
            (TransferState::AbortedRejected, Some(ErrorCode::PayerInsufficientLiquidity.number()))
        };
        let answered = (outcome.state, outcome.code.map(|code| code.number()));
        expect(answered == (Some(state), code), || format!("should be {state}, and was {outcome:?}"))?;
        if covered {
            let half = prepare.hash.first_chunk().expect("a hash has 32 bytes");
            let held = Held {
                fence: offset + 1,
                end: Millis::MAX,
                amount: u64::try_from(quantity).expect("it was above 0"),
                body: Fingerprint(u128::from_le_bytes(*half)),
                tokens: funding.ids.clone(),
                payee: Some(funding.payee_wallet.clone()),
            };
            books.put(&funding.spender, held);
            self.open.insert(TransferNo(outcome.subject.number()), funding.spender.clone());
        }
        Ok(())
    }

    /// The first answer of a transfer that is COMMITTED is the one that made it so.
    fn pay_out(&mut self, books: &mut TokenBooks, no: TransferNo, frame: &Decided<'_>) -> Result<(), String> {
        let Some(spender) = self.open.remove(&no) else { return Ok(()) };
        let held = books.locks.get(&spender).cloned().ok_or("holds nothing")?;
        let row: &SpendRow = frame
            .effects
            .all(|step| &step.tokens)
            .find_map(|effect| match effect {
                TokenEffect::Spent(row) if row.transaction.spender == spender => Some(&**row),
                _ => None,
            })
            .ok_or("pays nothing out")?;
        books.pay_out(&held, row)
    }

    fn give_back(&mut self, books: &mut TokenBooks, no: TransferNo) {
        if let Some(spender) = self.open.remove(&no) {
            books.locks.remove(&spender);
        }
    }
}
