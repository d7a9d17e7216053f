//! What pays for checkouts that charge positions or wallets. It is held while its try is undecided, settled in the very step that
//! pays the order, and given back in the very step that fails it. Nothing else of it is ever settled.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::effects::Step;
use holdfast_domain::ids::{Millis, TransferId, TransferNo};
use holdfast_domain::shop::{Charge, Charging, OrderId, OrderState, ShopCommand, ShopEffect, SideBranch};
use holdfast_domain::tokens::{LockRow, Name, TokenEffect};
use holdfast_domain::transfers::{Transfer, TransferState};
use holdfast_domain::view::{Spenders, Transfers};
use holdfast_store::MemoryStore;

use super::expect;
use super::shop_books::{Paper, ShopBooks};

/// What is held for a try.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Held {
    /// The amount, by a transfer that runs out then.
    Position(TransferNo, TransferId, Millis),
    /// Tokens, in that name.
    Tokens(Name),
}

/// What is held, by order.
#[derive(Debug, Default)]
pub struct ShopCharges {
    held: BTreeMap<OrderId, Held>,
    /// Transfers of checkouts that have ended and did not pay.
    ended: BTreeSet<TransferNo>,
}

impl ShopCharges {
    /// Somebody else has a step: a payee may end what is held, and nobody may settle it.
    pub fn others(&mut self, step: &Step) -> Result<(), String> {
        self.note_ends(step);
        let settled = self.held.values().find(|held| is_settled(held, step));
        expect(settled.is_none(), || format!("settled {settled:?}, which a checkout holds"))
    }

    /// The shop has a step, or its deadlines have. The books have taken it down.
    pub fn see(
        &mut self,
        now: Millis,
        command: Option<&ShopCommand>,
        books: &ShopBooks,
        step: &Step,
    ) -> Result<(), String> {
        let begins = matches!(command, Some(ShopCommand::Checkout(_) | ShopCommand::Retry { .. }));
        let mut new = begun(step);
        expect(begins || new.is_none(), || format!("charged {new:?}, and nobody checked out"))?;
        self.note_ends(step);
        let mut paid = 0;
        for effect in &step.shop {
            let ShopEffect::Moved { order, state, .. } = effect else { continue };
            let paper = books.orders.get(order).ok_or("moved an order that nobody made")?;
            let was_open = self.held.remove(order);
            if begins {
                let is_charged = !books.outside.pay && !books.charging.is_credit() && paper.amount > 0;
                expect(is_charged || new.is_none(), || format!("charged {new:?} for {order}, of {paper:?}"))?;
                new.as_ref().map_or(Ok(()), |new| new.pays(paper, &books.charging))?;
            }
            let charge = was_open.or_else(|| new.take().and_then(Begun::held));
            let must = begins && !books.outside.pay && !books.charging.is_credit() && paper.amount > 0;
            match (state, charge) {
                (OrderState::Pending(_), charge) => self.opens(order, charge, books)?,
                (OrderState::Paid(_), Some(held)) => {
                    paid += 1;
                    expect(is_settled(&held, step), || format!("paid {order} and did not settle {held:?}"))?;
                }
                (OrderState::Paid(_), None) => {
                    expect(!must, || format!("paid {order}, and nothing was charged"))?;
                }
                (OrderState::NotPaid(_) | OrderState::Cancelling(_), Some(held)) => {
                    expect(self.is_given_back(&held, step, now), || {
                        format!("failed {order} and keeps {held:?}")
                    })?;
                }
                (OrderState::NotPaid(_) | OrderState::Cancelling(_), None) => {}
            }
        }
        let committed = step.state_changes.iter().filter(|change| change.state == TransferState::Committed);
        let spent = step.tokens.iter().filter(|effect| matches!(effect, TokenEffect::Spent(_)));
        let settled = committed.count() + spent.count();
        expect(settled == paid, || format!("settled {settled} charges and paid {paid} orders with them"))
    }

    /// The try stays undecided: what it has taken is held, and the open row names it.
    fn opens(&mut self, order: &OrderId, charge: Option<Held>, books: &ShopBooks) -> Result<(), String> {
        let Some(row) = books.open.get(order) else {
            return Err(format!("left {order} pending without a row"));
        };
        let has_taken = row.charge.is_some() && row.pay.branch == Some(SideBranch::Taken);
        let costs = books.orders.get(order).is_some_and(|paper| paper.amount > 0);
        expect((has_taken && costs) == charge.is_some(), || {
            format!("left {row:?} open and holds {charge:?}")
        })?;
        let Some(held) = charge else { return Ok(()) };
        let named = match (&held, row.charge) {
            (Held::Position(_, id, _), Some(Charge::Transfer { transfer, .. })) => *id == transfer,
            (Held::Tokens(name), Some(Charge::Tokens { spender })) => **name == *spender.to_string(),
            _ => false,
        };
        expect(named, || format!("left {row:?} open, and {held:?} pays for it"))?;
        self.held.insert(order.clone(), held);
        Ok(())
    }

    fn note_ends(&mut self, step: &Step) {
        let over = |state| matches!(state, TransferState::AbortedError | TransferState::ExpiredReserved);
        let ended = step.state_changes.iter().filter(|change| over(change.state));
        self.ended.extend(ended.map(|change| change.transfer));
    }

    fn is_given_back(&self, held: &Held, step: &Step, now: Millis) -> bool {
        match held {
            // A record that may not end all that is due leaves it to the next, which nobody else can forestall.
            Held::Position(no, _, runs_out) => self.ended.contains(no) || *runs_out < now,
            Held::Tokens(name) => {
                let frees = |effect: &TokenEffect| matches!(effect, TokenEffect::Unlocked { spender, .. } if spender == name);
                step.tokens.iter().any(frees) && !is_settled(held, step)
            }
        }
    }

    /// Whether an open checkout holds something.
    pub fn has_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// What is held is there.
    pub fn inspect(&self, store: &MemoryStore) -> Result<(), String> {
        for (order, held) in &self.held {
            let there = match held {
                Held::Position(no, id, _) => {
                    let state = store.transfer(*id).map(|row| row.state);
                    (state == Some(TransferState::Reserved)) != self.ended.contains(no)
                }
                Held::Tokens(name) => store.lock(name).is_some(),
            };
            expect(there, || format!("{order} is open, and {held:?} is not held for it"))?;
        }
        Ok(())
    }
}

/// What a step has charged for the try that it begins.
#[derive(Debug)]
enum Begun<'a> {
    Transfer { row: &'a Transfer, is_reserved: bool },
    Lock(&'a LockRow),
}

fn begun<'a>(step: &'a Step) -> Option<Begun<'a>> {
    let reserved = |row: &Transfer| {
        let mut changes = step.state_changes.iter().filter(|change| change.transfer == row.no);
        changes.any(|change| change.state == TransferState::Reserved)
    };
    let transfer = step.transfers.first().map(|row| Begun::Transfer { row, is_reserved: reserved(row) });
    transfer.or_else(|| {
        step.tokens.iter().find_map(|effect| match effect {
            TokenEffect::Locked(row) => Some(Begun::Lock(row)),
            _ => None,
        })
    })
}

impl Begun<'_> {
    fn held(self) -> Option<Held> {
        match self {
            Begun::Transfer { row, is_reserved } => {
                is_reserved.then_some(Held::Position(row.no, row.id, row.expiration))
            }
            Begun::Lock(row) => Some(Held::Tokens(row.spender.clone())),
        }
    }

    /// It is what the order costs, for whom the shop says.
    fn pays(&self, paper: &Paper, charging: &Charging) -> Result<(), String> {
        let amount = i128::from(paper.amount);
        let right = match (self, charging) {
            (Begun::Transfer { row, .. }, Charging::Transfers(by)) => {
                i128::from(row.amount.0) == amount * i128::from(by.unit.0)
                    && (row.payee, row.currency) == (by.payee, by.currency)
            }
            (Begun::Lock(row), Charging::Tokens(by)) => {
                i128::from(row.amount) == amount * i128::from(by.unit)
                    && row.funding.as_ref() == Some(&by.wallet)
            }
            _ => false,
        };
        expect(right, || format!("charged {self:?} for {paper:?}"))
    }
}

fn is_settled(held: &Held, step: &Step) -> bool {
    match held {
        Held::Position(no, _, _) => {
            let paid = |state| state == TransferState::Committed;
            step.state_changes.iter().any(|change| change.transfer == *no && paid(change.state))
        }
        Held::Tokens(name) => {
            let spends = |effect: &TokenEffect| matches!(effect, TokenEffect::Spent(row) if row.transaction.spender == *name);
            step.tokens.iter().any(spends)
        }
    }
}
