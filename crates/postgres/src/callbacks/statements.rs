//! The statements of callbacks.

use postgres::{Client, Statement};

use crate::Error;
use crate::session::transfer_columns;

/// The statements that every batch of callbacks runs.
pub(crate) struct CallbackStatements {
    pub(super) endpoints: Statement,
    pub(super) add: Statement,
    pub(super) due: Statement,
    pub(super) end: Statement,
    pub(super) fail: Statement,
    pub(super) names: Statement,
    pub(super) transfers: Statement,
    pub(super) opaque: Statement,
    pub(super) accounts: Statement,
}

impl CallbackStatements {
    pub(crate) fn prepare(client: &mut Client) -> Result<CallbackStatements, Error> {
        let mut prepare = |sql: &str| client.prepare(sql);
        Ok(CallbackStatements {
            endpoints: prepare(
                "SELECT participant_id, endpoint_type, value FROM participant_endpoint
                 WHERE participant_id = ANY($1)",
            )?,
            add: prepare(
                "INSERT INTO callback (shard, participant_id, transfer_id, message_type, transfer_state_id,
                     error_code, error_reason, participant_currency_id, value, net_debit_cap, trace,
                     answers_prepare, decided_date, next_try)
                 SELECT shard, who, transfer, kind, state, code, reason, account, value, cap, trace, answers, $1, $1
                 FROM unnest($2::smallint[], $3::int[], $4::uuid[], $5::text[], $6::smallint[], $7::int[],
                     $8::smallint[], $9::int[], $10::numeric[], $11::numeric[], $12::uuid[], $13::boolean[])
                     WITH ORDINALITY AS u (shard, who, transfer, kind, state, code, reason, account, value, cap,
                     trace, answers, place)
                 ORDER BY place
                 ON CONFLICT (transfer_id, participant_id, trace, message_type) DO NOTHING",
            )?,
            // Participant by participant, by a walk over the index: whoever has a million waiting costs as much as one who
            // has ten. The clock stands in a subquery because an index is not asked for a value that may change.
            due: prepare(
                "WITH RECURSIVE held AS (
                     SELECT s.enumeration::smallint AS shard
                     FROM unnest($1::int[], $2::bigint[]) AS c (id, epoch)
                     JOIN segment s ON s.segment_id = c.id AND s.epoch = c.epoch
                 ), who (shard, participant_id) AS (
                     SELECT h.shard, (SELECT c.participant_id FROM callback c
                         WHERE c.shard = h.shard AND c.is_waiting ORDER BY c.participant_id LIMIT 1)
                     FROM held h
                 UNION ALL
                     SELECT w.shard, (SELECT c.participant_id FROM callback c
                         WHERE c.shard = w.shard AND c.is_waiting AND c.participant_id > w.participant_id
                         ORDER BY c.participant_id LIMIT 1)
                     FROM who w WHERE w.participant_id IS NOT NULL
                 )
                 SELECT d.* FROM who w CROSS JOIN LATERAL (
                     SELECT c.callback_id, c.participant_id, c.transfer_id, c.message_type, c.transfer_state_id,
                         c.error_code, c.error_reason, c.participant_currency_id, c.value, c.net_debit_cap,
                         c.answers_prepare, c.decided_date, c.attempts, c.next_try
                     FROM callback c
                     WHERE c.shard = w.shard AND c.participant_id = w.participant_id AND c.is_waiting
                         AND c.next_try <= (SELECT hub_clock()) AND c.callback_id <> ALL($3)
                         AND NOT EXISTS (SELECT 1 FROM callback b
                             WHERE b.transfer_id = c.transfer_id AND b.participant_id = c.participant_id
                                 AND b.is_waiting AND b.callback_id < c.callback_id)
                     ORDER BY c.next_try, c.callback_id LIMIT $4) d
                 WHERE w.participant_id IS NOT NULL AND w.participant_id <> ALL($5)
                 ORDER BY d.next_try, d.callback_id LIMIT $6",
            )?,
            end: prepare(
                "WITH ours AS MATERIALIZED (
                     SELECT 1 FROM segment WHERE segment_id = $1 AND epoch = $2 FOR SHARE
                 ), ended AS (
                     DELETE FROM callback WHERE callback_id = ANY($3) AND EXISTS (SELECT 1 FROM ours)
                 )
                 SELECT EXISTS (SELECT 1 FROM ours)",
            )?,
            fail: prepare(
                "WITH ours AS MATERIALIZED (
                     SELECT 1 FROM segment WHERE segment_id = $1 AND epoch = $2 FOR SHARE
                 ), failed AS (
                     UPDATE callback c SET attempts = u.attempts, url = u.url, last_error = u.why,
                         next_try = (SELECT hub_clock()) + coalesce(u.pause, 0) * interval '1 millisecond',
                         is_waiting = u.pause IS NOT NULL,
                         dead_date = CASE WHEN u.pause IS NULL THEN (SELECT hub_clock()) ELSE c.dead_date END
                     FROM unnest($3::bigint[], $4::int[], $5::text[], $6::text[], $7::bigint[])
                         AS u (id, attempts, url, why, pause)
                     WHERE c.callback_id = u.id AND EXISTS (SELECT 1 FROM ours)
                 )
                 SELECT EXISTS (SELECT 1 FROM ours)",
            )?,
            names: prepare("SELECT participant_id, name FROM participant WHERE participant_id = ANY($1)")?,
            transfers: prepare(concat!(
                "SELECT ",
                transfer_columns!(),
                " FROM transfer WHERE transfer_id = ANY($1)"
            ))?,
            opaque: prepare(
                "SELECT o.transfer_no, o.part, o.body FROM unnest($1::bigint[], $2::smallint[]) AS w (no, part)
                 CROSS JOIN LATERAL (
                     SELECT * FROM transfer_opaque WHERE transfer_no = w.no AND part = w.part OFFSET 0) o",
            )?,
            accounts: prepare(
                "SELECT c.participant_currency_id, p.name, c.currency_id, l.threshold_alarm_percentage
                 FROM participant_currency c JOIN participant p USING (participant_id)
                 LEFT JOIN participant_limit l
                     ON l.participant_currency_id = c.participant_currency_id AND l.is_active
                 WHERE c.participant_currency_id = ANY($1)",
            )?,
        })
    }
}
