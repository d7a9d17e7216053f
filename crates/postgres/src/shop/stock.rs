//! The topic `stock`. A batch is one transaction: the tries' rows are read, the items locked by ascending id, each message is
//! decided after the other by the pure participant, and rows, balances, answers and offset are written together. A repeat finds
//! its row and gets the same answer again.

use std::collections::BTreeSet;

use holdfast_checkout::participant::{Branch, Forward, Ledger, Side as _, Stock};
use holdfast_domain::effects::Effects;
use holdfast_domain::shop;
use holdfast_messages::{OutcomeMessage, StockMessage};
use postgres::Transaction;

use super::report;
use super::sides::{AsId as _, branches, lock_balances, write};
use crate::batch::{Batch, Begun, Done, Step};
use crate::loaded::Loaded;
use crate::session::{Point, Statements, Store};
use crate::write::{Besides, Writer};
use crate::{Claim, Error};

impl Store {
    /// The stock side over a batch of `stock`: stock is taken and given back. Each message is answered on the partition of
    /// `outcomes` that has the number of the one it was read from.
    ///
    /// # Errors
    /// As [`Store::transfers`].
    pub fn stock(&mut self, claim: &Claim, batch: &Batch<'_, StockMessage>) -> Result<Step, Error> {
        self.run(claim, batch, attempt)
    }
}

fn attempt(
    store: &mut Store,
    claim: &Claim,
    batch: &Batch<'_, StockMessage>,
    verdict: Option<&str>,
) -> Result<Step, Error> {
    let Some(Begun { mut tx, guard, statements, settings, watch, .. }) = store.begin(claim, batch.from)?
    else {
        return Ok(Step::Fenced);
    };
    let mut besides = Besides::default();
    let asked: Vec<&shop::Message> = besides
        .sort_out(claim.source, batch.messages, verdict)
        .into_iter()
        .map(|(_, message)| message.said())
        .collect();
    let before: Ledger<Stock> = load(&mut tx, statements, &asked)?;
    // The stock side knows no time: it only says when it did what it did.
    let now = guard.asked_at;
    watch.reached(Point::Loaded);

    let mut after = Ledger { branches: before.branches.clone(), balances: before.balances.clone() };
    let mut alarms = Vec::new();
    for message in asked {
        let (sent, mut more) = after.take(message);
        alarms.append(&mut more);
        if let Some(answer) = sent {
            let answer = OutcomeMessage::new(answer).expect("a side answers on outcomes");
            besides.send_to(claim.source.number(), &answer);
        }
    }
    report(&alarms);
    watch.reached(Point::Decided);

    write(&mut tx, statements, &before, &after)?;
    let mut writer = Writer { tx: &mut tx, statements, watch, now, shards: settings.expiry_shards };
    let none = Effects::default();
    let guard = writer.write(guard, batch.next, Loaded::default(), &none, &besides, batch.sent)?;
    tx.commit()?;
    watch.reached(Point::Committed);
    Ok(Step::Done(Done { alarms, ..Done::of(batch, besides, &guard, now) }))
}

/// The rows of the tries, and the balances of all holders that these or the messages name, locked.
fn load(
    tx: &mut Transaction<'_>,
    statements: &Statements,
    asked: &[&shop::Message],
) -> Result<Ledger<Stock>, Error> {
    let branches = branches::<Stock>(tx, statements, asked)?;
    let mut holders: BTreeSet<&str> = BTreeSet::new();
    for message in asked {
        if let Some(shop::AskedStep::Forward(value) | shop::AskedStep::Rollback(value)) =
            Stock::step(&message.body)
        {
            holders.extend(Stock::parts(value).map(|(holder, _)| holder.id()));
        }
    }
    for branch in branches.values() {
        if let Branch::Done(Forward::Taken(value)) = branch {
            holders.extend(Stock::parts(value).map(|(holder, _)| holder.id()));
        }
    }
    let balances = lock_balances::<Stock>(tx, statements, holders)?;
    Ok(Ledger { branches, balances })
}
