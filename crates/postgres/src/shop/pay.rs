//! The topic `pay`: the payment side. It takes the users' credit, or in its place reserves a transfer or locks tokens; which of
//! them, the row of `charging` says when `pay` comes. What a try took is kept with it, so `can` gives back the same, whatever
//! is charged by then.
//!
//! A batch is one transaction, also where it reserves: the transfer goes through both of its hops here, under the locks of
//! its accounts. So there is nothing to wait for, and the answer leaves with the reservation.

mod cover;
mod till;

use std::collections::BTreeMap;

use holdfast_checkout::participant::{Pay, Side};
use holdfast_domain::ids::{Currency, TransferId};
use holdfast_domain::shop::{self, AskedStep, Charges, Charging, Payment, TryKey, UserId};
use holdfast_messages::{OutcomeMessage, PayMessage};
use holdfast_tokens::TokenId;

use super::again;
use super::charges::{self, Charged, tell};
use super::charging::charging;
use super::report;
use super::sides::{branches, write};
use crate::batch::{Batch, Begun, Done, Step};
use crate::load::Loader;
use crate::session::{Point, Store, take_numbers};
use crate::write::{Besides, Writer};
use crate::{Claim, Error, Incoming};
use cover::{Paying, covered};
use till::{Till, Waiting};

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
        self.run(claim, batch, |store, claim, batch, verdict| attempt(store, claim, batch, verdict, None))
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
        self.run(claim, batch, |store, claim, batch, verdict| {
            attempt(store, claim, batch, verdict, Some(pledges))
        })
    }

    /// What is to be locked before these messages are handled: nothing, unless tokens pay. Who was answered already, or no
    /// longer waits, has no bill.
    ///
    /// # Errors
    /// If the database fails.
    pub fn bills(&mut self, messages: &[Incoming<PayMessage>]) -> Result<Vec<Bill>, Error> {
        let Store { client, statements, .. } = self;
        let mut tx = client.transaction()?;
        let Charging::Tokens(by) = charging(&mut tx, statements)? else { return Ok(Vec::new()) };
        let asked: Vec<&shop::Message> =
            messages.iter().filter_map(|incoming| Some(incoming.message.as_ref().ok()?.said())).collect();
        let known = branches::<Pay>(&mut tx, statements, &asked)?;
        let mut loader = Loader::new(&mut tx, statements);
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

fn attempt(
    store: &mut Store,
    claim: &Claim,
    batch: &Batch<'_, PayMessage>,
    verdict: Option<&str>,
    pledges: Option<&Pledges>,
) -> Result<Step, Error> {
    let (has_vault, none) = (pledges.is_some(), Pledges::new());
    let pledges = pledges.unwrap_or(&none);
    let Some(Begun { mut tx, guard, statements, settings, numbers, watch }) =
        store.begin(claim, batch.from)?
    else {
        return Ok(Step::Fenced);
    };
    let mut besides = Besides::default();
    let asked: Vec<(u64, &PayMessage)> = besides
        .sort_out(claim.source, batch.messages, verdict)
        .into_iter()
        .map(|(incoming, message)| (incoming.offset, message))
        .collect();
    let mut loader = Loader::new(&mut tx, statements);
    let till = Till::open(&mut loader, &asked, pledges)?;
    if matches!(till.charging, Charging::Tokens(_)) && !has_vault {
        return Err(Error::Charging(NO_VAULT.to_owned()));
    }
    let now = loader.clock()?;
    let mut loaded = loader.loaded;
    let named = till.name_claims(&mut loaded, pledges);
    if matches!(till.charging, Charging::Transfers(_)) {
        take_numbers(&mut tx, numbers, asked.len())?;
        loaded.next_transfer = numbers.start;
    }
    watch.reached(Point::Loaded);

    let (mut alarms, mut new, mut resting) = (Vec::new(), Charged::new(), Vec::new());
    let mut after = till.ledger.clone();
    let mut charges = Charges::over(&loaded, now);
    for (offset, message) in asked {
        let mut paying = Paying { till: &till, pledges, named: &named, new: &mut new, charges: &mut charges };
        let Some(cover) = paying.cover(&after, offset, message.said()) else {
            // Its tokens are others' for the moment. It comes again, and no longer than until its deadline.
            let key = &message.said().key;
            let began = till.waiting.get(key).map_or(now, |waiting| waiting.started_at);
            match again::rests_until(began, now) {
                None => besides.send_to(claim.source.number(), message),
                Some(until) => resting.push((key, until)),
            }
            continue;
        };
        let (sent, mut more) = covered(&mut after, cover, message.said());
        tell(&mut charges, &loaded, &mut besides);
        alarms.append(&mut more);
        if let Some(answer) = sent {
            let answer = OutcomeMessage::new(answer).expect("a side answers on outcomes");
            besides.send_to(claim.source.number(), &answer);
        }
    }
    let effects = charges.into_effects();
    report(&alarms);
    watch.reached(Point::Decided);

    write(&mut tx, statements, &till.ledger, &after)?;
    charges::insert(&mut tx, statements, &new)?;
    again::put(&mut tx, statements, &resting)?;
    let (transfers, moves_tokens) = (effects.transfers.len() as u64, loaded.pledged.moves(&effects));
    let mut writer = Writer { tx: &mut tx, statements, watch, now, shards: settings.expiry_shards };
    let guard = writer.write(guard, batch.next, loaded, &effects, &besides, batch.sent)?;
    tx.commit()?;
    watch.reached(Point::Committed);
    numbers.start += transfers;
    if moves_tokens {
        store.tell_token_change();
    }
    Ok(Step::Done(Done { alarms, ..Done::of(batch, besides, &guard, now) }))
}
