//! The topic `pay`: the payment side. It takes the users' credit, or in its place reserves a transfer or locks tokens; which of
//! them, the row of `charging` says when `pay` comes. What a try took is kept with it, so `can` gives back the same, whatever
//! is charged by then.
//!
//! A batch is one transaction, also where it reserves: the transfer goes through both of its hops here, under the locks of
//! its accounts. So there is nothing to wait for, and the answer leaves with the reservation.

mod cover;
mod payments;

use std::collections::{BTreeMap, BTreeSet};

use holdfast_checkout::participant::{Pay, Side};
use holdfast_domain::ids::{Currency, Millis, TransferId};
use holdfast_domain::shop::{self, AskedStep, Charges, Charging, Payment, TryKey, UserId};
use holdfast_messages::PayMessage;
use holdfast_tokens::TokenId;

use super::again;
use super::charges::{self, Charged, tell};
use super::charging::charging;
use super::sides::Taken;
use crate::batch::{Batch, Reading};
use crate::load::Loader;
use crate::loaded::Loaded;
use crate::outbox::Outbox;
use crate::session::{Settings, Store};
use crate::step::{Decided, Opened, Step, Work};
use crate::{Claim, Error, Incoming};
use cover::{Covering, covered};
use payments::{Payments, Waiting, name_claims};

/// Tokens that a try is to be paid with, and that are to be locked before its step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bill {
    /// In whose name.
    pub spender: TransferId,
    /// Of which wallet.
    pub wallet: UserId,
    /// In which currency.
    pub currency: Currency,
    /// How much.
    pub amount: u64,
    /// How long the try has in all, from its start to its deadline.
    pub time_ms: i64,
}

/// What came of a bill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pledge {
    /// These are locked in the name of the bill.
    Tokens(Vec<TokenId>),
    /// The wallet can never pay that.
    Want,
}

/// By the name of the bill. A try whose bill is not among them is asked for again.
pub type Pledges = BTreeMap<TransferId, Pledge>;

impl Store {
    /// The payment side over a batch of `pay`. Each message is answered on the partition of `outcomes` that has the number of
    /// the one it was read from.
    ///
    /// # Errors
    /// As [`Store::transfers`]; [`Error::Charging`] if tokens pay, since nobody has locked any.
    pub fn pay(&mut self, claim: &Claim, batch: &Batch<'_, PayMessage>) -> Result<Step, Error> {
        self.run(claim, batch, |store, part| part.step(store, Paying { reading: part.read(), pledges: None }))
    }

    /// The same where tokens pay, with what was locked for the bills of the batch. What it does not take is given back with
    /// the step; a try without its tokens is put behind the others, and comes again.
    ///
    /// # Errors
    /// As [`Store::transfers`].
    pub fn pay_with(
        &mut self,
        claim: &Claim,
        batch: &Batch<'_, PayMessage>,
        pledges: &Pledges,
    ) -> Result<Step, Error> {
        self.run(claim, batch, |store, part| {
            part.step(store, Paying { reading: part.read(), pledges: Some(pledges) })
        })
    }

    /// What is to be locked before these messages are handled: nothing, unless tokens pay. Who was answered already, or no
    /// longer waits, has no bill.
    pub fn bills(&mut self, messages: &[Incoming<PayMessage>]) -> Result<Vec<Bill>, Error> {
        let Store { client, statements, .. } = self;
        let mut tx = client.transaction()?;
        let Charging::Tokens(by) = charging(&mut tx, statements)? else { return Ok(Vec::new()) };
        let asked: Vec<&shop::Message> =
            messages.iter().filter_map(|incoming| Some(incoming.message.as_ref().ok()?.said())).collect();
        let mut loader = Loader::new(&mut tx, statements);
        let known = loader.branches::<Pay>(&asked)?;
        let waiting = loader.waiting(asked.iter().map(|message| &message.key))?;
        let mut bills = BTreeMap::new();
        for (key, payment) in asked.iter().filter_map(|message| forward(message)) {
            let Some(Waiting { started_at, deadline }) =
                waiting.get(key).filter(|_| !known.contains_key(key))
            else {
                continue;
            };
            let is_own = by.is_paid_by_itself(&payment.user_id);
            if let Some(amount) = by.quantity(payment.amnt).filter(|amount| *amount > 0 && !is_own) {
                let (spender, wallet) = (by.spender(key), payment.user_id.clone());
                let time_ms = deadline.saturating_sub(*started_at);
                bills.insert(spender, Bill { spender, wallet, currency: by.currency, amount, time_ms });
            }
        }
        Ok(bills.into_values().collect())
    }
}

const NO_VAULT: &str = "checkouts charge tokens by now, and this node was started to charge something else: restart it with \
                        the shop settings of the other nodes";

fn forward(message: &shop::Message) -> Option<(&TryKey, &Payment)> {
    match Pay::step(&message.body) {
        Some(AskedStep::Forward(payment)) => Some((&message.key, payment)),
        Some(AskedStep::Rollback(_)) | None => None,
    }
}

struct Paying<'p, 'm> {
    reading: Reading<'p, 'm, PayMessage>,
    /// `None`: this node has nothing that locks tokens.
    pledges: Option<&'p Pledges>,
}

/// What payments are decided by.
struct Known {
    payments: Payments,
    /// The bills whose tokens are locked as they were pledged.
    named: BTreeSet<TransferId>,
    loaded: Loaded,
    now: Millis,
}

/// What only the payment side writes.
struct Paid<'m> {
    taken: Taken<Pay>,
    charged: Charged,
    /// Tries whose tokens are others' for the moment, and until when they rest.
    resting: Vec<(&'m TryKey, Millis)>,
}

impl<'m> Work<'m> for Paying<'_, 'm> {
    type Known = Known;
    type Rows = Paid<'m>;

    fn load(&mut self, step: &mut Opened<'_>) -> Result<Known, Error> {
        let none = Pledges::new();
        let pledges = self.pledges.unwrap_or(&none);
        let mut loader = step.loader();
        let payments = Payments::load(&mut loader, &self.reading.messages, pledges)?;
        if matches!(payments.charging, Charging::Tokens(_)) && self.pledges.is_none() {
            return Err(Error::Charging(NO_VAULT.to_owned()));
        }
        let (mut loaded, now) = loader.finish()?;
        let named = name_claims(&mut loaded, pledges);
        if matches!(payments.charging, Charging::Transfers(_)) {
            loaded.next_transfer = step.take_numbers(self.reading.messages.len())?;
        }
        Ok(Known { payments, named, loaded, now })
    }

    fn decide(self, known: Known, _: &Settings) -> Option<Decided<'m, Self::Rows>> {
        let Paying { reading: Reading { part, messages, mut outbox }, pledges } = self;
        let Known { payments, named, loaded, now } = known;
        let (source, none) = (part.claim.source, Pledges::new());
        let pledges = pledges.unwrap_or(&none);
        let (mut alarms, mut charged, mut resting) = (Vec::new(), Charged::new(), Vec::new());
        let mut after = payments.ledger.clone();
        let mut charges = Charges::over(&loaded, now);
        for (incoming, message) in messages {
            let (new, charges) = (&mut charged, &mut charges);
            let mut covering = Covering { payments: &payments, pledges, named: &named, new, charges };
            let Some(cover) = covering.cover(&after, incoming.offset, message.said()) else {
                // It comes again, and no longer than until its deadline.
                let key = &message.said().key;
                let began = payments.waiting.get(key).map_or(now, |waiting| waiting.started_at);
                match again::rests_until(began, now) {
                    None => outbox.send_to(source.number(), message),
                    Some(until) => resting.push((key, until)),
                }
                continue;
            };
            let (sent, mut more) = covered(&mut after, cover, message.said());
            tell(charges, &loaded, &mut outbox);
            alarms.append(&mut more);
            outbox.answer(source, sent);
        }
        let effects = charges.into_effects();
        let taken = Taken { before: payments.ledger, after };
        let mut decided = part.decided(now, outbox, Paid { taken, charged, resting });
        decided.done.alarms = alarms;
        Some(Decided { loaded, effects, ..decided })
    }

    fn write(paid: Paid<'m>, step: &mut Opened<'_>, _: &mut Outbox<'m>) -> Result<(), Error> {
        let Paid { taken, charged, resting } = paid;
        taken.write(step)?;
        charges::insert(&mut step.writer(), &charged)?;
        again::put(&mut step.writer(), &resting)
    }
}
