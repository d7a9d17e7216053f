//! What a batch of the payment side begins with: rows, balances and reservations, loaded and locked.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_checkout::participant::{Branch, Forward, Ledger, Pay};
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::participants::Name;
use holdfast_domain::shop::{self, ByTokens, ByTransfers, Charging, Payment, TryKey};
use holdfast_messages::PayMessage;

use super::super::charges::{self, Charged, spender};
use super::super::charging::charging;
use super::super::load::try_of;
use super::{Pledge, Pledges, forward};
use crate::Error;
use crate::batch::Readable;
use crate::load::{Loader, number};
use crate::loaded::Loaded;
use crate::types::{Moment, list};

/// A try that waits for its sides.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    pub(super) started_at: Millis,
    /// It is cancelled after this.
    pub(super) deadline: Millis,
}

/// What a batch of the payment side begins with.
pub(super) struct Payments {
    /// Rows of tries, and the credit of those whom credit is taken from or given back to.
    pub(super) ledger: Ledger<Pay>,
    /// What tries charge that come for the first time.
    pub(super) charging: Charging,
    /// Those tries. Whoever is not there does not wait any more.
    pub(super) waiting: BTreeMap<TryKey, Waiting>,
    /// What earlier batches have reserved.
    pub(super) charged: Charged,
}

impl Payments {
    pub(super) fn load(
        loader: &mut Loader<'_, '_>,
        asked: &[Readable<'_, PayMessage>],
        pledges: &Pledges,
    ) -> Result<Payments, Error> {
        let said: Vec<&shop::Message> = asked.iter().map(|(_, message)| message.said()).collect();
        let branches = loader.branches::<Pay>(&said)?;
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
        let mut payments = Payments {
            charged: charges::load(loader.tx, loader.statements, taken.iter().copied())?,
            charging: Charging::Credit,
            waiting: BTreeMap::new(),
            ledger: Ledger { branches, balances: BTreeMap::new() },
        };
        if !first.is_empty() {
            payments.charging = charging(loader.tx, loader.statements)?;
        }
        let mut users: BTreeSet<&str> = BTreeSet::new();
        for key in taken.into_iter().filter(|key| !payments.charged.contains_key(*key)) {
            if let Some(Branch::Done(Forward::Taken(payment))) = payments.ledger.branches.get(key) {
                users.insert(payment.user_id.as_str());
            }
        }
        if payments.charging.is_credit() {
            users.extend(first.iter().map(|(_, payment)| payment.user_id.as_str()));
        } else {
            payments.waiting = loader.waiting(first.iter().map(|(key, _)| *key))?;
        }
        let balances = loader.lock_balances::<Pay>(users)?;
        payments.ledger.balances = balances;
        payments.lock(loader, &first, pledges)?;
        Ok(payments)
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
}

/// The claims that are there as they were pledged.
pub(super) fn name_claims(loaded: &mut Loaded, pledges: &Pledges) -> BTreeSet<TransferId> {
    let pledged = pledges.iter().filter_map(|(number, pledge)| match pledge {
        Pledge::Tokens(ids) => Some((*number, ids)),
        Pledge::Want => None,
    });
    let claimed = pledged.filter(|(number, ids)| loaded.pledged.name(&spender(*number), ids));
    claimed.map(|(number, _)| number).collect()
}

/// The bills of these tries for which something was locked.
fn pledged(by: &ByTokens, first: &[(&TryKey, &Payment)], pledges: &Pledges) -> Vec<TransferId> {
    first.iter().map(|(key, _)| by.spender(key)).filter(|number| pledges.contains_key(number)).collect()
}

impl Loader<'_, '_> {
    /// Those of these tries that wait for their sides.
    pub(super) fn waiting<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k TryKey>,
    ) -> Result<BTreeMap<TryKey, Waiting>, Error> {
        let keys: BTreeSet<&TryKey> = keys.collect();
        let orders = list(keys.iter().copied(), |key| key.order_id.as_str());
        let sql = "SELECT order_id, tr_num, started_at, deadline FROM orders
             WHERE order_id = ANY($1) AND state = 'pending' AND deadline IS NOT NULL";
        let mut waiting = BTreeMap::new();
        for row in self.query(sql, &[&orders])? {
            let key = try_of("orders", &row)?;
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
        let names = list(&names, Name::as_str);
        let sql = "SELECT participant_id FROM participant WHERE lower(name) = ANY($1)";
        let mut parties: BTreeSet<(ParticipantId, Currency)> = BTreeSet::from([(by.payee, by.currency)]);
        for row in self.query(sql, &[&names])? {
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
