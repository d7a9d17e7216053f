//! The topic `pay`: the payment side. It takes the users' credit, or in its place reserves a transfer or locks tokens; which of
//! them, the row of `charging` says when `pay` comes. What a try took is kept with it, so `can` gives back the same, whatever
//! is charged by then.
//!
//! A batch is one transaction, also where it reserves: the transfer goes through both of its hops here, under the locks of
//! its accounts. So there is nothing to wait for, and the answer leaves with the reservation.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_checkout::participant::{Branch, Forward, Ledger, Pay, Side};
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::participants::Name;
use holdfast_domain::shop::{
    self, AskedStep, ByTokens, ByTransfers, Charges, Charging, ChosenTokens, Payment, Reserved, TryKey,
    UserId, Whole,
};
use holdfast_messages::{OutcomeMessage, PayMessage};
use holdfast_tokens::TokenId;

use super::again;
use super::charges::{self, Charged, spender, tell};
use super::charging::charging;
use super::load::{id, tr_num};
use super::report;
use super::sides::{branches, lock_balances, write};
use crate::batch::{Batch, Begun, Done, Step};
use crate::load::{Loader, number};
use crate::loaded::Loaded;
use crate::session::{Point, Store, take_numbers};
use crate::types::Moment;
use crate::write::{Besides, Writer};
use crate::{Claim, Error, Incoming};

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

/// A try that waits for its sides.
#[derive(Clone, Copy)]
struct Waiting {
    started_at: Millis,
    /// It is cancelled after this.
    deadline: Millis,
}

/// What a batch of the payment side begins with.
struct Till {
    /// Rows of tries, and the credit of those whom credit is taken from or given back to.
    ledger: Ledger<Pay>,
    /// What tries charge that come for the first time.
    charging: Charging,
    /// Those tries. Whoever is not there does not wait any more.
    waiting: BTreeMap<TryKey, Waiting>,
    /// What earlier batches have reserved.
    charged: Charged,
}

impl Till {
    fn open(
        loader: &mut Loader<'_, '_>,
        asked: &[(u64, &PayMessage)],
        pledges: &Pledges,
    ) -> Result<Till, Error> {
        let said: Vec<&shop::Message> = asked.iter().map(|(_, message)| message.said()).collect();
        let branches = branches::<Pay>(loader.tx, loader.statements, &said)?;
        let first: Vec<(&TryKey, &Payment)> = said
            .iter()
            .filter_map(|message| forward(message))
            .filter(|(key, _)| !branches.contains_key(*key))
            .collect();
        let taken: BTreeSet<&TryKey> = said
            .iter()
            .map(|message| &message.key)
            .filter(|key| matches!(branches.get(key), Some(Branch::Done(Forward::Taken(_)))))
            .collect();
        let mut till = Till {
            charged: charges::load(loader.tx, loader.statements, taken.iter().copied())?,
            charging: Charging::Credit,
            waiting: BTreeMap::new(),
            ledger: Ledger { branches, balances: BTreeMap::new() },
        };
        if !first.is_empty() {
            till.charging = charging(loader.tx, loader.statements)?;
        }
        let mut users: BTreeSet<&str> = BTreeSet::new();
        for key in taken.into_iter().filter(|key| !till.charged.contains_key(*key)) {
            if let Some(Branch::Done(Forward::Taken(payment))) = till.ledger.branches.get(key) {
                users.insert(payment.user_id.as_str());
            }
        }
        if till.charging.is_credit() {
            users.extend(first.iter().map(|(_, payment)| payment.user_id.as_str()));
        } else {
            till.waiting = loader.waiting(first.iter().map(|(key, _)| *key))?;
        }
        let balances = lock_balances::<Pay>(loader.tx, loader.statements, users)?;
        till.ledger.balances = balances;
        till.lock(loader, &first, pledges)?;
        Ok(till)
    }

    /// Locks what the batch may charge or give back. The payee's account is not changed here, and one payee is in every
    /// batch: it is only read.
    fn lock(
        &self,
        loader: &mut Loader<'_, '_>,
        first: &[(&TryKey, &Payment)],
        pledges: &Pledges,
    ) -> Result<(), Error> {
        let mut payers: BTreeSet<AccountId> = BTreeSet::new();
        let mut payee: BTreeSet<AccountId> = BTreeSet::new();
        let mut claims: Vec<TransferId> = Vec::new();
        match &self.charging {
            Charging::Credit => {}
            Charging::Transfers(by) => (payers, payee) = loader.parties(by, first)?,
            Charging::Tokens(by) => claims = pledged(by, first, pledges),
        }
        let charged = self.charged.values().map(|(charge, _)| *charge);
        loader.lock_charges(charged, claims, payers, |transfer| transfer.payer_account)?;
        payee.retain(|account| !loader.loaded.accounts.contains_key(account));
        loader.accounts(&payee)
    }

    /// The claims that are there as they were pledged.
    fn name_claims(&self, loaded: &mut Loaded, pledges: &Pledges) -> BTreeSet<TransferId> {
        let pledged = pledges.iter().filter_map(|(number, pledge)| match pledge {
            Pledge::Tokens(ids) => Some((*number, ids)),
            Pledge::Want => None,
        });
        let claimed = pledged.filter(|(number, ids)| loaded.pledged.name(&spender(*number), ids));
        claimed.map(|(number, _)| number).collect()
    }
}

/// The bills of these tries for which something was locked.
fn pledged(by: &ByTokens, first: &[(&TryKey, &Payment)], pledges: &Pledges) -> Vec<TransferId> {
    first.iter().map(|(key, _)| by.spender(key)).filter(|number| pledges.contains_key(number)).collect()
}

impl Loader<'_, '_> {
    /// Those of these tries that wait for their sides.
    fn waiting<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k TryKey>,
    ) -> Result<BTreeMap<TryKey, Waiting>, Error> {
        let keys: BTreeSet<&TryKey> = keys.collect();
        let orders: Vec<&str> = keys.iter().map(|key| key.order_id.as_str()).collect();
        let statement = self.statements.asked.prepared(
            self.tx,
            "SELECT order_id, tr_num, started_at, deadline FROM orders
             WHERE order_id = ANY($1) AND state = 'pending' AND deadline IS NOT NULL",
        )?;
        let mut waiting = BTreeMap::new();
        for row in self.tx.query(&statement, &[&orders])? {
            let tr_num = tr_num("orders", row.get(1))?.ok_or_else(|| Error::corrupt("orders", "no try"))?;
            let key = TryKey { order_id: id("orders", row.get(0))?, tr_num };
            let (Moment(started_at), Moment(deadline)) = (row.get(2), row.get(3));
            if keys.contains(&key) {
                waiting.insert(key, Waiting { started_at, deadline });
            }
        }
        Ok(waiting)
    }

    /// Reads who pays and who is paid: the position accounts of the payers, and that of the payee with its settlement.
    fn parties(
        &mut self,
        by: &ByTransfers,
        first: &[(&TryKey, &Payment)],
    ) -> Result<(BTreeSet<AccountId>, BTreeSet<AccountId>), Error> {
        let names: BTreeSet<Name> = first
            .iter()
            .filter_map(|(_, payment)| Name::new(payment.user_id.as_str()).map(Name::folded))
            .collect();
        let names: Vec<&str> = names.iter().map(Name::as_str).collect();
        let sql = "SELECT participant_id FROM participant WHERE lower(name) = ANY($1)";
        let statement = self.statements.asked.prepared(self.tx, sql)?;
        let mut parties: BTreeSet<(ParticipantId, Currency)> = BTreeSet::from([(by.payee, by.currency)]);
        for row in self.tx.query(&statement, &[&names])? {
            parties.insert((ParticipantId(number("participant", row.get(0))?), by.currency));
        }
        self.participants(&parties)?;
        let (mut payers, mut payee) = (BTreeSet::new(), BTreeSet::new());
        for participant in self.loaded.participants.values() {
            for (_, account) in &participant.accounts {
                if participant.id == by.payee {
                    payee.extend([*account, AccountId(account.0.saturating_add(1))]);
                } else {
                    payers.insert(*account);
                }
            }
        }
        Ok((payers, payee))
    }
}

/// What a message may take, or what it gives back to.
enum Cover {
    /// The user's credit, as the ledger has it.
    Credit,
    /// So much stands for it elsewhere; `None`: nobody pays.
    Elsewhere(UserId, Option<Whole>),
}

/// One message of the batch, with all that it may charge.
struct Paying<'p, 'v> {
    till: &'p Till,
    pledges: &'p Pledges,
    named: &'p BTreeSet<TransferId>,
    new: &'p mut Charged,
    charges: &'p mut Charges<'v, Loaded>,
}

impl Paying<'_, '_> {
    /// Reserves for a message, or gives back, where that is not a matter of credit; `None`: its tokens must be chosen anew.
    fn cover(&mut self, ledger: &Ledger<Pay>, offset: u64, message: &shop::Message) -> Option<Cover> {
        let key = &message.key;
        match (Pay::step(&message.body), ledger.branches.get(key)) {
            (Some(AskedStep::Forward(payment)), None) if !self.till.charging.is_credit() => {
                let paid = self.reserve(offset, key, payment)?;
                let cover = match paid {
                    Reserved::By(charge) => {
                        self.new.insert(key.clone(), (charge, payment.amnt));
                        Some(payment.amnt)
                    }
                    Reserved::Nothing => Some(payment.amnt),
                    Reserved::Refused => None,
                };
                Some(Cover::Elsewhere(payment.user_id.clone(), cover))
            }
            (Some(AskedStep::Rollback(_)), Some(Branch::Done(Forward::Taken(taken)))) => {
                let charged = self.new.get(key).or_else(|| self.till.charged.get(key)).copied();
                if let Some((charge, amount)) = charged {
                    self.charges.abort(charge, amount);
                }
                // What cost nothing has nobody to be given back to.
                let elsewhere = charged.is_some() || taken.amnt == Whole::ZERO;
                let none = || Cover::Elsewhere(taken.user_id.clone(), Some(Whole::ZERO));
                Some(if elsewhere { none() } else { Cover::Credit })
            }
            _ => Some(Cover::Credit),
        }
    }

    fn reserve(&mut self, offset: u64, key: &TryKey, payment: &Payment) -> Option<Reserved> {
        // Whoever was cancelled meanwhile is told to give back next: nothing has to be taken before.
        let Some(Waiting { deadline, .. }) = self.till.waiting.get(key) else {
            return Some(Reserved::Refused);
        };
        let mut chosen = None;
        if self.till.charging.is_paid_by_itself(payment) {
            return Some(Reserved::Refused);
        }
        if let Charging::Tokens(by) = &self.till.charging
            && by.quantity(payment.amnt).is_some_and(|amount| amount > 0)
        {
            let number = by.spender(key);
            match self.pledges.get(&number)? {
                Pledge::Want => return Some(Reserved::Refused),
                Pledge::Tokens(ids) => {
                    self.named.get(&number)?;
                    chosen = Some(ChosenTokens::new(number, ids.clone()));
                }
            }
        }
        let at = (*deadline, offset);
        self.charges.reserve(&self.till.charging, (key, payment), at, chosen.as_ref()).ok()
    }
}

/// The participant's own rules, over what covers the message. Credit that was loaded stays as it is if it does not.
fn covered(
    ledger: &mut Ledger<Pay>,
    cover: Cover,
    message: &shop::Message,
) -> (Option<shop::Message>, Vec<shop::Alarm>) {
    let Cover::Elsewhere(user, amount) = cover else { return ledger.take(message) };
    let credit = match amount {
        Some(amount) => ledger.balances.insert(user.clone(), amount),
        None => ledger.balances.remove(&user),
    };
    let did = ledger.take(message);
    match credit {
        Some(credit) => drop(ledger.balances.insert(user, credit)),
        None => drop(ledger.balances.remove(&user)),
    }
    did
}
