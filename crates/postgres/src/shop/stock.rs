//! The topic `stock`. A batch is one transaction: the tries' rows are read, the items locked by ascending id, each message is
//! decided after the other by the pure participant, and rows, balances, answers and offset are written together. A repeat finds
//! its row and gets the same answer again.

use std::collections::BTreeSet;

use holdfast_checkout::participant::{Branch, Forward, Ledger, Side as _, Stock};
use holdfast_domain::ids::Millis;
use holdfast_domain::shop;
use holdfast_messages::StockMessage;

use super::sides::{Kept, Taken};
use crate::batch::{Batch, Reading};
use crate::load::Loader;
use crate::outbox::Outbox;
use crate::session::{Settings, Store};
use crate::step::{Decided, Opened, Step, Work};
use crate::{Claim, Error};

impl Store {
    /// The stock side over a batch of `stock`: stock is taken and given back. Each message is answered on the partition of
    /// `outcomes` that has the number of the one it was read from.
    ///
    /// # Errors
    /// As [`Store::transfers`].
    pub fn stock(&mut self, claim: &Claim, batch: &Batch<'_, StockMessage>) -> Result<Step, Error> {
        self.run(claim, batch, |store, part| part.step(store, Taking(part.read())))
    }
}

struct Taking<'p, 'm>(Reading<'p, 'm, StockMessage>);

impl<'m> Work<'m> for Taking<'_, 'm> {
    type Known = (Ledger<Stock>, Millis);
    type Rows = Taken<Stock>;

    fn load(&mut self, step: &mut Opened<'_>) -> Result<(Ledger<Stock>, Millis), Error> {
        // The stock side knows no time: it only says when it did what it did.
        let asked: Vec<&shop::Message> = self.0.messages.iter().map(|(_, message)| message.said()).collect();
        Ok((load(&mut step.loader(), &asked)?, step.guard.asked_at))
    }

    fn decide(self, (before, now): (Ledger<Stock>, Millis), _: &Settings) -> Option<Decided<'m, Self::Rows>> {
        let Reading { part, messages, mut outbox } = self.0;
        let (mut after, mut alarms) = (before.clone(), Vec::new());
        for (_, message) in messages {
            let (sent, mut more) = after.take(message.said());
            alarms.append(&mut more);
            outbox.answer(part.claim.source, sent);
        }
        let mut decided = part.decided(now, outbox, Taken { before, after });
        decided.done.alarms = alarms;
        Some(decided)
    }

    fn write(taken: Taken<Stock>, step: &mut Opened<'_>, _: &mut Outbox<'m>) -> Result<(), Error> {
        taken.write(step)
    }
}

/// The rows of the tries, and the balances of all holders that these or the messages name, locked.
fn load(loader: &mut Loader<'_, '_>, asked: &[&shop::Message]) -> Result<Ledger<Stock>, Error> {
    let branches = loader.branches::<Stock>(asked)?;
    let mut holders: BTreeSet<&str> = BTreeSet::new();
    for message in asked {
        if let Some(shop::AskedStep::Forward(value) | shop::AskedStep::Rollback(value)) =
            Stock::step(&message.body)
        {
            holders.extend(Stock::parts(value).map(|(holder, _)| Stock::name(holder)));
        }
    }
    for branch in branches.values() {
        if let Branch::Done(Forward::Taken(value)) = branch {
            holders.extend(Stock::parts(value).map(|(holder, _)| Stock::name(holder)));
        }
    }
    let balances = loader.lock_balances::<Stock>(holders)?;
    Ok(Ledger { branches, balances })
}
