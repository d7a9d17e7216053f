//! What a callback is written from: parties, address, transfer, and the very bytes that it hands on.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::callbacks::{CallbackMessage, NO_TRANSFER};
use holdfast_domain::command::{Abort, Command, Fulfil, FulfilAction, Prepare};
use holdfast_domain::ids::{Currency, HUB, ParticipantId, TransferId};
use holdfast_domain::participants::{ALARM_PERCENTAGE_DEFAULT, HUB_NAME};
use holdfast_domain::transfers::Transfer;

use super::{DueCallback, endpoints};
use crate::Error;
use crate::guard::{signed, unsigned};
use crate::load::{currency_of, number, transfer_of};
use crate::session::{Store, transfer_columns};
use crate::types::Uuid;
use crate::write::account_number;

/// What is known about one callback.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallbackFacts {
    /// The name of who is called.
    pub receiver: Option<String>,
    /// The registered address for this message, as a template.
    pub endpoint: Option<String>,
    /// The payer's name.
    pub payer: Option<String>,
    /// The payee's name.
    pub payee: Option<String>,
    /// The transfer.
    pub transfer: Option<Transfer>,
    /// What its sender asked, with its own bytes: what is handed on, or the prepare that is answered.
    pub origin: Option<Command>,
    /// Of an alarm: whose account it is, its currency and percentage.
    pub alarmed: Option<(String, Currency, u16)>,
}

/// The part of `transfer_opaque` that a callback needs.
const fn part_of(callback: &DueCallback) -> Option<i16> {
    match callback.message {
        CallbackMessage::ForwardPrepare => Some(0),
        CallbackMessage::ForwardFulfil | CallbackMessage::ForwardError => Some(1),
        _ if callback.answers_prepare => Some(0),
        _ => None,
    }
}

const OPAQUE: &str =
    "SELECT o.transfer_no, o.part, o.body FROM unnest($1::bigint[], $2::smallint[]) AS w (no, part)
     CROSS JOIN LATERAL (
         SELECT * FROM transfer_opaque WHERE transfer_no = w.no AND part = w.part OFFSET 0) o";
const ACCOUNTS: &str = "SELECT c.participant_currency_id, p.name, c.currency_id, l.threshold_alarm_percentage
     FROM participant_currency c JOIN participant p USING (participant_id)
     LEFT JOIN participant_limit l
         ON l.participant_currency_id = c.participant_currency_id AND l.is_active
     WHERE c.participant_currency_id = ANY($1)";

impl Store {
    /// What is known about these callbacks, in their order: a handful of queries, however many they are.
    ///
    /// # Errors
    /// If the database fails, or a row makes no sense.
    pub fn callback_facts(&mut self, callbacks: &[DueCallback]) -> Result<Vec<CallbackFacts>, Error> {
        let transfers = self.told_transfers(callbacks)?;
        let mut people: BTreeSet<ParticipantId> = callbacks.iter().map(|callback| callback.to).collect();
        people.extend(transfers.values().flat_map(|(transfer, _)| [transfer.payer, transfer.payee]));
        let names = self.names(&people)?;
        let name = |id| if id == HUB { Some(HUB_NAME.to_owned()) } else { names.get(&id).cloned() };
        let endpoints = endpoints(&mut self.client, &self.statements, &people)?;
        let opaque = self.opaque(callbacks, &transfers)?;
        let alarmed = self.alarmed(callbacks)?;
        let facts = callbacks.iter().map(|callback| {
            let known = transfers.get(&callback.transfer);
            let transfer = known.map(|(transfer, _)| transfer.clone());
            let origin = part_of(callback).zip(known).and_then(|(part, (transfer, condition))| {
                let tail = opaque.get(&(transfer.no.0, part)).cloned().unwrap_or_default();
                origin(callback, transfer, *condition, tail)
            });
            CallbackFacts {
                receiver: name(callback.to),
                endpoint: endpoints.get(&(callback.to, callback.message.endpoint_type().to_owned())).cloned(),
                payer: transfer.as_ref().and_then(|transfer| name(transfer.payer)),
                payee: transfer.as_ref().and_then(|transfer| name(transfer.payee)),
                transfer,
                origin,
                alarmed: match callback.message {
                    CallbackMessage::Alarm { account, .. } => alarmed.get(&account.0).cloned(),
                    _ => None,
                },
            }
        });
        Ok(facts.collect())
    }

    /// The transfers with their conditions, which ended ones need no more but their prepares have.
    fn told_transfers(
        &mut self,
        callbacks: &[DueCallback],
    ) -> Result<BTreeMap<TransferId, (Transfer, [u8; 32])>, Error> {
        let ids: BTreeSet<TransferId> = callbacks.iter().map(|callback| callback.transfer).collect();
        let ids: Vec<Uuid> = ids.iter().filter(|id| **id != NO_TRANSFER).map(|id| Uuid(id.0)).collect();
        const TRANSFERS: &str = transfer_columns!("SELECT ", " FROM transfer WHERE transfer_id = ANY($1)");
        let rows = self.query(TRANSFERS, &[&ids])?;
        rows.iter()
            .map(|row| {
                let transfer = transfer_of(row)?;
                let condition: &[u8] = row.get(9);
                let condition =
                    condition.try_into().map_err(|_| Error::corrupt("transfer", "a condition"))?;
                Ok((transfer.id, (transfer, condition)))
            })
            .collect()
    }

    fn names(&mut self, people: &BTreeSet<ParticipantId>) -> Result<BTreeMap<ParticipantId, String>, Error> {
        let people: Vec<i32> = people.iter().filter_map(|id| i32::try_from(id.0).ok()).collect();
        let sql = "SELECT participant_id, name FROM participant WHERE participant_id = ANY($1)";
        let rows = self.query(sql, &[&people])?;
        rows.iter().map(|row| Ok((ParticipantId(number("participant", row.get(0))?), row.get(1)))).collect()
    }

    fn opaque(
        &mut self,
        callbacks: &[DueCallback],
        transfers: &BTreeMap<TransferId, (Transfer, [u8; 32])>,
    ) -> Result<BTreeMap<(u64, i16), Vec<u8>>, Error> {
        let wanted: BTreeSet<(i64, i16)> = callbacks
            .iter()
            .filter_map(|callback| {
                let (transfer, _) = transfers.get(&callback.transfer)?;
                Some((signed(transfer.no.0), part_of(callback)?))
            })
            .collect();
        let (numbers, parts): (Vec<i64>, Vec<i16>) = wanted.into_iter().unzip();
        let rows = self.query(OPAQUE, &[&numbers, &parts])?;
        rows.iter()
            .map(|row| Ok(((unsigned("transfer_opaque", row.get(0))?, row.get(1)), row.get(2))))
            .collect()
    }

    fn alarmed(
        &mut self,
        callbacks: &[DueCallback],
    ) -> Result<BTreeMap<u32, (String, Currency, u16)>, Error> {
        let accounts: Vec<i32> = callbacks
            .iter()
            .filter_map(|callback| match callback.message {
                CallbackMessage::Alarm { account, .. } => Some(account_number(account)),
                _ => None,
            })
            .collect();
        if accounts.is_empty() {
            return Ok(BTreeMap::new());
        }
        let rows = self.query(ACCOUNTS, &[&accounts])?;
        rows.iter()
            .map(|row| {
                let percentage: Option<i16> = row.get(3);
                let percentage = percentage.and_then(|percentage| u16::try_from(percentage).ok());
                let account = number("participant_currency", row.get(0))?;
                let percentage = percentage.unwrap_or(ALARM_PERCENTAGE_DEFAULT);
                Ok((account, (row.get(1), currency_of(row.get(2))?, percentage)))
            })
            .collect()
    }
}

/// The command that a callback hands on or answers, from the row that it made.
fn origin(
    callback: &DueCallback,
    transfer: &Transfer,
    condition: [u8; 32],
    tail: Vec<u8>,
) -> Option<Command> {
    let Transfer { id, payer, payee, amount, currency, expiration, hash, .. } = *transfer;
    match callback.message {
        CallbackMessage::ForwardFulfil => {
            let fulfilment = transfer.completion()?.digest;
            let fulfil = Fulfil::new(payee, id, FulfilAction::Commit, fulfilment);
            Some(Command::Fulfil(fulfil.with_tail(tail)))
        }
        CallbackMessage::ForwardError => {
            let code = transfer.code.map_or(0, |code| code.number());
            Some(Command::Abort(Abort::new(payee, id, code, tail)))
        }
        _ => Some(Command::Prepare(Prepare {
            source: payer,
            id,
            payer,
            payee,
            amount,
            expiration,
            currency,
            condition,
            hash,
            tail,
            funding: None,
        })),
    }
}
