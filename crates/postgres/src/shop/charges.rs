//! What was reserved for tries in place of credit: its rows, what is locked to end it, and who is told.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::{AccountId, TransferId};
use holdfast_domain::shop::{Charge, Charges, Secret, TryKey, Whole};
use holdfast_domain::tokens::Name as TokenName;
use holdfast_domain::transfers::Transfer;
use holdfast_messages::TraceId;
use postgres::GenericClient;

use super::load::{try_of, whole};
use super::write::{number, try_lists};
use crate::Error;
use crate::load::Loader;
use crate::loaded::Loaded;
use crate::notices::{ToldTransfer, tell_alarm};
use crate::outbox::Outbox;
use crate::session::Statements;
use crate::types::{Uuid, list};
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
    let (orders, tries) = try_lists(keys);
    if orders.is_empty() {
        return Ok(charged);
    }
    let rows = statements.query(
        client,
        "SELECT c.order_id, c.tr_num, c.amnt, c.charge_id, c.fulfilment
         FROM unnest($1::text[], $2::bigint[]) AS w (order_id, tr_num)
         CROSS JOIN LATERAL (
             SELECT * FROM checkout_charge WHERE order_id = w.order_id AND tr_num = w.tr_num OFFSET 0) c",
        &[&orders, &tries],
    )?;
    for row in &rows {
        let Uuid(number) = row.get(3);
        let charge = match row.get::<_, Option<&[u8]>>(4).map(<[u8; 32]>::try_from) {
            None => Charge::Tokens { spender: TransferId(number) },
            Some(Ok(fulfilment)) => {
                Charge::Transfer { transfer: TransferId(number), fulfilment: Secret(fulfilment) }
            }
            Some(Err(_)) => return Err(Error::corrupt(TABLE, "a fulfilment")),
        };
        charged.insert(try_of(TABLE, row)?, (charge, whole(TABLE, row.get(2))?));
    }
    Ok(charged)
}

/// Writes what was reserved.
pub(super) fn insert(writer: &mut RowWriter<'_, '_>, new: &Charged) -> Result<(), Error> {
    let fulfilment = |charge: &Charge| match charge {
        Charge::Transfer { fulfilment, .. } => Some(fulfilment.0.to_vec()),
        Charge::Tokens { .. } => None,
    };
    let (orders, tries) = try_lists(new.keys());
    let amounts = list(new.values(), |(_, amount)| number(*amount));
    let ids = list(new.values(), |(charge, _)| Uuid(charge.id().0));
    let fulfilments = list(new.values(), |(charge, _)| fulfilment(charge));
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
        self.lock_with_settlements(accounts)
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
        ToldTransfer { transfer, outcome, trace: TraceId::NOBODY, origin: None }.tell(told, outbox);
    }
    charges.alarms().for_each(|alarm| tell_alarm(alarm, loaded, outbox));
    charges.mark_told();
}
