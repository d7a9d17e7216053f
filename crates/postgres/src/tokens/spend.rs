//! Spends: inputs go, outputs and change come, and the selection is remembered as spent, in one statement.

use std::collections::HashSet;

use holdfast_domain::ids::Millis;
use holdfast_messages::{Message as _, TokenEvent};
use holdfast_tokens::{Fingerprint, TokenId, Transaction};
use postgres::GenericClient;

use super::claim::fence_of;
use super::moment;
use super::rows::lists_of;
use crate::Error;
use crate::session::{Statements, Store};
use crate::types::{Uuid, list};

/// A spend whose outputs the node has worked out from the selection of that fence.
#[derive(Debug, Clone)]
pub struct WantedSpend {
    /// The selection's number.
    pub fence: u64,
    /// What is paid, as a number.
    pub body: Fingerprint,
    /// Inputs and outputs.
    pub transaction: Transaction,
}

/// What became of a spend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpendVerdict {
    /// It is done.
    Spent,
    /// The same was done before: this.
    Repeated(Transaction),
    /// The spender has spent to other outputs.
    Other,
    /// The lease has ended, or it is another selection, or there is none.
    Lost,
}

/// Bounded as a claim is, whatever the plan.
const SPEND: &str = "
    WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, hub_clock()) AS now),
    wanted AS MATERIALIZED (
        SELECT * FROM unnest($2::int[], $3::text[], $4::bigint[], $5::uuid[], $6::int[], $7::text[], $22::text[])
            AS w (place, spender, fence, body, inputs, event, kept)),
    held AS MATERIALIZED (
        SELECT w.place, s.state, s.fence, s.expires_at, s.spend_body, s.event, s.token_ids,
            s.payee_wallet IS NOT NULL AS of_transfer
        FROM wanted w JOIN token_selection s ON s.spender_tx_id = w.spender WHERE s.spender_tx_id = ANY($3)
        ORDER BY s.spender_tx_id FOR UPDATE OF s),
    live AS MATERIALIZED (
        SELECT w.place, w.spender, w.fence, w.body, w.inputs FROM held h JOIN wanted w ON w.place = h.place CROSS JOIN moment m
        WHERE h.state = 'HELD' AND h.fence = w.fence AND h.expires_at > m.now AND cardinality(h.token_ids) = w.inputs
            AND h.of_transfer = $21),
    gone AS (
        UPDATE token_lock l SET spent = true
        FROM unnest($8::int[], $9::text[]) AS p (place, token_id) JOIN live w ON w.place = p.place
        WHERE l.token_id = p.token_id AND l.token_id = ANY($9) AND NOT l.spent AND l.spender_tx_id = w.spender AND l.fence = w.fence
        RETURNING w.place),
    counted AS (SELECT place, count(*) AS inputs FROM gone GROUP BY place),
    moved AS (
        UPDATE token_selection s SET state = 'SPENT', changed_at = m.now, spend_body = w.body, event = e.kept::json
        FROM live w JOIN wanted e ON e.place = w.place CROSS JOIN moment m
        WHERE s.spender_tx_id = w.spender AND s.spender_tx_id = ANY($3)),
    produced AS MATERIALIZED (
        SELECT p.* FROM unnest($10::int[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[],
                $16::text[], $17::numeric[], $18::text[], $19::text[], $20::text[])
            AS p (place, token_id, wallet, external_id, public_key, token_type, currency, quantity, issuer, notary,
                attributes)
        JOIN live w ON w.place = p.place),
    made AS (
        INSERT INTO token (token_id, wallet, external_id, public_key, token_type, currency, quantity, issuer,
            notary, attributes, created_at)
        SELECT token_id, wallet, external_id, public_key, token_type, currency, quantity, issuer, notary,
            attributes::json, m.now FROM produced CROSS JOIN moment m),
    fresh AS (INSERT INTO token_lock (token_id) SELECT token_id FROM produced),
    told AS (
        INSERT INTO token_change (event) SELECT e.event FROM live w JOIN wanted e ON e.place = w.place
        ORDER BY w.place)
    SELECT h.place, w.place IS NOT NULL, h.state = 'SPENT', h.spend_body,
        CASE WHEN h.state = 'SPENT' THEN h.event::text END, CASE WHEN h.state = 'SPENT' THEN h.token_ids END,
        CASE WHEN w.place IS NOT NULL AND c.inputs IS DISTINCT FROM w.inputs THEN token_race() END
    FROM held h LEFT JOIN live w ON w.place = h.place LEFT JOIN counted c ON c.place = h.place";

/// The transaction of a stored event and the tokens of its selection. What it has consumed is written with the selection; in
/// the event it stands in old rows alone.
pub(super) fn transaction_of(event: &str, selected: &[&str]) -> Result<Transaction, Error> {
    match TokenEvent::from_json(event.as_bytes()) {
        Ok(TokenEvent::Spent { mut transaction, .. }) => {
            if transaction.consumed.is_empty() {
                transaction.consumed = selected.iter().map(|id| TokenId::from(*id)).collect();
            }
            Ok(transaction)
        }
        _ => Err(Error::corrupt("token_selection", "an event that is no spend")),
    }
}

impl Store {
    /// Spends selections. One verdict per spend, in their order; the second of one spender in a call is not looked at and
    /// must be asked again (`None`).
    ///
    /// # Errors
    /// If the database fails, or others were in the way too often. Nothing is spent then.
    pub fn spend_tokens(
        &mut self,
        spends: &[WantedSpend],
        now: Option<Millis>,
    ) -> Result<Vec<Option<SpendVerdict>>, Error> {
        self.retrying(|store| spend_in(&mut store.client, &store.statements, spends, now, Spender::Anybody))
    }
}

/// Who spends: a transfer what it holds, anybody else what no transfer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spender {
    Anybody,
    Transfer,
}

/// Spends within whatever the client is in.
pub(super) fn spend_in(
    client: &mut impl GenericClient,
    statements: &Statements,
    spends: &[WantedSpend],
    now: Option<Millis>,
    by: Spender,
) -> Result<Vec<Option<SpendVerdict>>, Error> {
    let mut spenders = HashSet::new();
    let wanted: Vec<(i32, &WantedSpend)> =
        (0..).zip(spends).filter(|(_, spend)| spenders.insert(&spend.transaction.spender)).collect();
    let mut pieces: Vec<(&str, i32)> = Vec::new();
    let (mut made_by, mut produced) = (Vec::new(), Vec::new());
    for (place, spend) in &wanted {
        pieces.extend(spend.transaction.consumed.iter().map(|id| (id.as_str(), *place)));
        made_by.extend(spend.transaction.produced.iter().map(|_| *place));
        produced.extend(&spend.transaction.produced);
    }
    let event = |spend: &WantedSpend, consumed: &[TokenId]| {
        let WantedSpend { fence, body, transaction: Transaction { id, spender, produced, .. } } =
            spend.clone();
        let transaction = Transaction { id, spender, consumed: consumed.to_vec(), produced };
        let event = TokenEvent::Spent { fence, body, transaction };
        String::from_utf8(event.to_json()).expect("JSON is text")
    };
    let count =
        |spend: &WantedSpend| i32::try_from(spend.transaction.consumed.len()).expect("inputs are bounded");
    let [id, wallet, external, key, kind, currency, quantity, issuer, notary, attributes] =
        lists_of(&produced);
    let rows = statements.query(
        client,
        SPEND,
        &[
            &moment(now),
            &list(&wanted, |(place, _)| *place),
            &list(&wanted, |(_, spend)| &*spend.transaction.spender),
            &list(&wanted, |(_, spend)| fence_of(spend.fence)),
            &list(&wanted, |(_, spend)| Uuid(spend.body.0)),
            &list(&wanted, |(_, spend)| count(spend)),
            &list(&wanted, |(_, spend)| event(spend, &spend.transaction.consumed)),
            &list(&pieces, |(_, place)| *place),
            &list(&pieces, |(id, _)| *id),
            &made_by,
            &*id,
            &*wallet,
            &*external,
            &*key,
            &*kind,
            &*currency,
            &*quantity,
            &*issuer,
            &*notary,
            &*attributes,
            &(by == Spender::Transfer),
            &list(&wanted, |(_, spend)| event(spend, &[])),
        ],
    )?;
    let mut verdicts = vec![None; spends.len()];
    for (place, _) in wanted {
        // Whoever has no row has never selected.
        verdicts[usize::try_from(place).expect("counted from 0")] = Some(SpendVerdict::Lost);
    }
    for row in rows {
        let place = usize::try_from(row.get::<_, i32>(0)).expect("counted from 0");
        let body: Option<Uuid> = row.get(3);
        verdicts[place] = Some(match (row.get(1), row.get(2)) {
            (true, _) => SpendVerdict::Spent,
            (false, true) if body == Some(Uuid(spends[place].body.0)) => {
                SpendVerdict::Repeated(transaction_of(row.get(4), &row.get::<_, Vec<&str>>(5))?)
            }
            (false, true) => SpendVerdict::Other,
            (false, false) => SpendVerdict::Lost,
        });
    }
    Ok(verdicts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_consumed_is_told_by_the_selection_and_by_old_rows_themselves() {
        let of = |consumed: &[&str]| {
            let consumed = consumed.iter().map(|id| TokenId::from(*id)).collect();
            let transaction =
                Transaction { id: "t".into(), spender: "s".into(), consumed, produced: Vec::new() };
            let event = TokenEvent::Spent { fence: 1, body: Fingerprint(2), transaction };
            String::from_utf8(event.to_json()).unwrap()
        };
        for stored in [of(&[]), of(&["a", "b"])] {
            let read = transaction_of(&stored, &["a", "b"]).unwrap();
            assert_eq!(read.consumed, ["a", "b"].map(TokenId::from), "{stored}");
        }
    }
}
