//! What was reserved for tries in place of credit: its rows, what is locked to end it, and who is told.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::{AccountId, TransferId};
use holdfast_domain::shop::{Charge, Charges, Secret, TryKey, Whole};
use holdfast_domain::tokens::Name as TokenName;
use holdfast_domain::transfers::Transfer;
use holdfast_domain::view::Accounts;
use holdfast_messages::{Alarm, Notice, Notification, TraceId};
use postgres::GenericClient;

use super::load::{id, tr_num, whole};
use super::write::{number, tr};
use crate::Error;
use crate::load::Loader;
use crate::loaded::Loaded;
use crate::notices::MovedTransfer;
use crate::outbox::Outbox;
use crate::session::Statements;
use crate::types::Uuid;
use crate::written::RowWriter;

const TABLE: &str = "checkout_charge";

/// What pays for tries, and how much of the shop's money it is.
pub(super) type Charged = BTreeMap<TryKey, (Charge, Whole)>;

/// What was reserved for these tries; those that credit pays for, or nothing, are left out.
pub(super) fn load<'k>(
    client: &mut impl GenericClient,
    statements: &Statements,
    keys: impl IntoIterator<Item = &'k TryKey>,
) -> Result<Charged, Error> {
    let mut charged = Charged::new();
    let (orders, tries): (Vec<&str>, Vec<i64>) =
        keys.into_iter().map(|key| (key.order_id.as_str(), tr(key.tr_num))).unzip();
    if orders.is_empty() {
        return Ok(charged);
    }
    let statement = statements.asked.prepared(
        client,
        "SELECT c.order_id, c.tr_num, c.amnt, c.charge_id, c.fulfilment
         FROM unnest($1::text[], $2::bigint[]) AS w (order_id, tr_num)
         CROSS JOIN LATERAL (
             SELECT * FROM checkout_charge WHERE order_id = w.order_id AND tr_num = w.tr_num OFFSET 0) c",
    )?;
    for row in client.query(&statement, &[&orders, &tries])? {
        let tr_num = tr_num(TABLE, row.get(1))?.ok_or_else(|| Error::corrupt(TABLE, "no try"))?;
        let Uuid(number) = row.get(3);
        let charge = match row.get::<_, Option<&[u8]>>(4).map(<[u8; 32]>::try_from) {
            None => Charge::Tokens { spender: TransferId(number) },
            Some(Ok(fulfilment)) => {
                Charge::Transfer { transfer: TransferId(number), fulfilment: Secret(fulfilment) }
            }
            Some(Err(_)) => return Err(Error::corrupt(TABLE, "a fulfilment")),
        };
        let key = TryKey { order_id: id(TABLE, row.get(0))?, tr_num };
        charged.insert(key, (charge, whole(TABLE, row.get(2))?));
    }
    Ok(charged)
}

/// Writes what was reserved.
pub(super) fn insert(writer: &mut RowWriter<'_, '_>, new: &Charged) -> Result<(), Error> {
    let fulfilment = |charge: &Charge| match charge {
        Charge::Transfer { fulfilment, .. } => Some(fulfilment.0.to_vec()),
        Charge::Tokens { .. } => None,
    };
    let orders: Vec<&str> = new.keys().map(|key| key.order_id.as_str()).collect();
    let tries: Vec<i64> = new.keys().map(|key| tr(key.tr_num)).collect();
    let amounts: Vec<i64> = new.values().map(|(_, amount)| number(*amount)).collect();
    let ids: Vec<Uuid> = new.values().map(|(charge, _)| Uuid(charge.id().0)).collect();
    let fulfilments: Vec<Option<Vec<u8>>> = new.values().map(|(charge, _)| fulfilment(charge)).collect();
    let sql = "INSERT INTO checkout_charge (order_id, tr_num, amnt, charge_id, fulfilment)
         SELECT u.* FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::uuid[], $5::bytea[]) AS u";
    writer.rows(sql, orders.len(), &[&orders, &tries, &amounts, &ids, &fulfilments])
}

impl Loader<'_, '_> {
    /// Locks what ends these charges: transfers, then tokens, then the accounts that `moved` names of each transfer, outbox
    /// those `accounts`. In that order, as every other handler; what more it needs without a lock comes after.
    pub(super) fn lock_charges(
        &mut self,
        charged: impl IntoIterator<Item = Charge>,
        claims: impl IntoIterator<Item = TransferId>,
        mut accounts: BTreeSet<AccountId>,
        moved: impl Fn(&Transfer) -> Option<AccountId>,
    ) -> Result<(), Error> {
        let mut transfers: BTreeSet<TransferId> = BTreeSet::new();
        let mut spenders: BTreeSet<TokenName> = claims.into_iter().map(spender).collect();
        for charge in charged {
            match charge {
                Charge::Transfer { transfer, .. } => drop(transfers.insert(transfer)),
                Charge::Tokens { spender: of } => drop(spenders.insert(spender(of))),
            }
        }
        self.lock_transfers(&transfers)?;
        self.lock_pledged(&spenders)?;
        accounts.extend(self.loaded.transfers.values().filter_map(moved));
        // A position account is judged with its settlement account, which has the number after.
        let settlements: Vec<AccountId> =
            accounts.iter().filter_map(|account| account.0.checked_add(1)).map(AccountId).collect();
        accounts.extend(settlements);
        self.lock_accounts(&accounts)
    }
}

/// In whose name tokens are locked.
pub(super) fn spender(number: TransferId) -> TokenName {
    number.to_string().into()
}

/// Tells participants what was done since they were told last, as an embedded shop does.
pub(super) fn tell(charges: &mut Charges<'_, Loaded>, loaded: &Loaded, outbox: &mut Outbox<'_>) {
    for (told, transfer) in charges.to_tell() {
        let outcome = &Outcome::of_transfer(transfer);
        MovedTransfer { transfer, outcome, trace: TraceId::NOBODY, origin: None }.tell(told, outbox);
    }
    for alarm in charges.alarms() {
        let to = loaded.account(alarm.account).map(|account| account.participant);
        outbox.send(&Notification { trace: TraceId::NOBODY, notice: Notice::Alarm(Alarm::of(alarm, to)) });
    }
    charges.mark_told();
}
