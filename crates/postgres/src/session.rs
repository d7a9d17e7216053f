//! One connection: its bounds, its prepared statements, and the numbers that it may give to new transfers.

use std::ops::Range;
use std::time::Duration;

use holdfast_domain::positions::PrepareOrder;
use holdfast_domain::shop::Sides;
use postgres::{Client, GenericClient, Statement};

use crate::Error;
use crate::callbacks::CallbackStatements;
use crate::connect::connect;
use crate::guard::{Claim, Source};
use crate::hung::{NODE, TOOL};
use crate::migrate::{is_current, migrate};
use crate::reads::Prepared;
use crate::shop::Serving;

/// The most messages of one batch; a block of transfer numbers is as large.
pub const BATCH_MESSAGES_MAX: usize = 10_000;

/// What a connection may take, and what it decides by.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Into how many shards the expiry scan is divided. Fixed for life.
    pub expiry_shards: i16,
    /// Into how many shards the callbacks are divided, by participant. Fixed for life.
    pub callback_shards: i16,
    /// The order of prepares within a bin.
    pub order: PrepareOrder,
    /// The sides of checkouts that are called over HTTP. All nodes must have the same.
    pub outside: Sides,
    /// The sides that programs of their own serve over Kafka. All nodes must have the same.
    pub on_kafka: Sides,
    /// Whether somebody wants to be told how checkouts end: then each end is also written down for whoever tells it.
    pub tells_outcomes: bool,
    /// How often a batch is tried when others are in the way.
    pub attempts_max: u32,
    /// How long to wait for the server when connecting.
    pub connect_timeout: Duration,
    /// How long to wait for a lock.
    pub lock_timeout: Duration,
    /// How long one statement may take.
    pub statement_timeout: Duration,
    /// After this the server gives up a transaction in which nothing happens: a node that hangs must not hold its guards.
    pub idle_timeout: Duration,
}

impl Settings {
    /// Who serves which side of checkouts.
    #[must_use]
    pub const fn serving(&self) -> Serving {
        Serving { called: self.outside, on_kafka: self.on_kafka }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            expiry_shards: 8,
            callback_shards: 8,
            order: PrepareOrder::Arrival,
            outside: Sides::NONE,
            on_kafka: Sides::NONE,
            tells_outcomes: false,
            attempts_max: 5,
            connect_timeout: Duration::from_secs(5),
            lock_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(3),
        }
    }
}

/// Under these names the counts of shards are stored.
const EXPIRY_SHARDS: &str = "expiry.shards";
const CALLBACK_SHARDS: &str = "callback.shards";

impl Settings {
    /// What is fixed for life.
    fn fixed(&self) -> [(&'static str, i64); 2] {
        [(EXPIRY_SHARDS, i64::from(self.expiry_shards)), (CALLBACK_SHARDS, i64::from(self.callback_shards))]
    }
}

/// Places in a step where a test may let something happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Point {
    Begun,
    GuardLocked,
    Loaded,
    Decided,
    EffectsWritten,
    OffsetWritten,
    Committed,
}

impl Point {
    /// Every place, in order.
    pub const ALL: [Point; 7] = [
        Point::Begun,
        Point::GuardLocked,
        Point::Loaded,
        Point::Decided,
        Point::EffectsWritten,
        Point::OffsetWritten,
        Point::Committed,
    ];
}

/// The state of the database profile, through one connection. A handler owns its thread and its store.
pub struct Store {
    pub(crate) client: Client,
    pub(crate) statements: Statements,
    pub(crate) settings: Settings,
    /// Numbers for new transfers that nobody else will use.
    pub(crate) numbers: Range<u64>,
    pub(crate) watch: Watch,
}

/// Who is told that a point was reached.
#[derive(Default)]
pub(crate) struct Watch(Option<Box<dyn FnMut(Point) + Send>>);

impl Watch {
    pub(crate) fn reached(&mut self, point: Point) {
        if let Some(watch) = &mut self.0 {
            watch(point);
        }
    }
}

impl Store {
    /// Connects, brings the schema up to date and prepares.
    ///
    /// # Errors
    /// If the server cannot be reached, its schema is too new, or it was set up with other fixed numbers.
    pub fn open(url: &str, settings: Settings) -> Result<Store, Error> {
        let mut store = Store::connect(url, NODE, settings)?;
        for (name, wanted) in store.settings.fixed() {
            store.fix(name, wanted)?;
        }
        Ok(store)
    }

    /// The same for tools that work beside the nodes: with the fixed numbers that the nodes have stored, if there are any.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_as_set_up(url: &str) -> Result<Store, Error> {
        let mut store = Store::connect(url, TOOL, Settings::default())?;
        for row in store.client.query("SELECT name, value FROM fixed_setting", &[])? {
            let count = || {
                i16::try_from(row.get::<_, i64>(1))
                    .map_err(|_| Error::corrupt("fixed_setting", "a count of shards"))
            };
            match row.get(0) {
                EXPIRY_SHARDS => store.settings.expiry_shards = count()?,
                CALLBACK_SHARDS => store.settings.callback_shards = count()?,
                _ => {}
            }
        }
        for (name, wanted) in store.settings.fixed() {
            store.fix(name, wanted)?;
        }
        Ok(store)
    }

    /// For tools that only look: nothing in the database can be changed through this connection, and nothing is made.
    ///
    /// # Errors
    /// If the server cannot be reached, or its schema is not there or of another version.
    pub fn open_to_read(url: &str) -> Result<Store, Error> {
        Store::connect_to(url, TOOL, Settings::default(), |client| {
            client.batch_execute("SET default_transaction_read_only = on")?;
            is_current(client)
        })
    }

    fn connect(url: &str, name: &str, settings: Settings) -> Result<Store, Error> {
        Store::connect_to(url, name, settings, migrate)
    }

    fn connect_to(
        url: &str,
        name: &str,
        settings: Settings,
        see_to_schema: impl FnOnce(&mut Client) -> Result<(), Error>,
    ) -> Result<Store, Error> {
        let mut client = connect(url, name, settings.connect_timeout)?;
        // Nothing here runs for long enough that compiling it pays. And what is read whole for want of another way, if only a
        // table of one row, counts as dearer than anything once that way is closed below: it would be compiled for 60 ms.
        client.batch_execute(&format!(
            "SET TIME ZONE 'UTC'; SET jit = off;
             SET statement_timeout = {};
             SET idle_in_transaction_session_timeout = {}",
            settings.statement_timeout.as_millis(),
            settings.idle_timeout.as_millis()
        ))?;
        // Not yet the timeout for locks: nodes that start together wait for the one that migrates.
        see_to_schema(&mut client)?;
        // All access is by key. A plan made while a table was small would otherwise read it whole when it is not.
        client.batch_execute(&format!(
            "SET lock_timeout = {};
             SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off",
            settings.lock_timeout.as_millis()
        ))?;
        let statements = Statements::prepare(&mut client)?;
        Ok(Store { client, statements, settings, numbers: 0..0, watch: Watch::default() })
    }

    /// The same for questions of all kinds, each planned when it is asked. A plan that is kept was made when the tables were
    /// small, and may walk through what has grown since.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_for_questions(url: &str, settings: Settings) -> Result<Store, Error> {
        let mut store = Store::open(url, settings)?;
        store.client.batch_execute("SET plan_cache_mode = force_custom_plan")?;
        Ok(store)
    }

    /// Takes over a source: a partition, or a shard of the expiry scan.
    ///
    /// # Errors
    /// If the database fails.
    pub fn claim(&mut self, source: &Source) -> Result<Claim, Error> {
        crate::guard::claim(&mut self.client, *source, self.settings.idle_timeout)
    }

    /// Stores a number that is fixed for life, such as the count of a topic's partitions, or compares it.
    ///
    /// # Errors
    /// [`Error::Fixed`] if another number is stored.
    pub fn fix(&mut self, name: &str, wanted: i64) -> Result<(), Error> {
        self.client.execute(
            "INSERT INTO fixed_setting (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            &[&name, &wanted],
        )?;
        let row = self.client.query_one("SELECT value FROM fixed_setting WHERE name = $1", &[&name])?;
        let stored: i64 = row.get(0);
        if stored == wanted { Ok(()) } else { Err(Error::Fixed { name: name.into(), stored, wanted }) }
    }

    /// Whether the server answers: the cheapest question that there is.
    ///
    /// # Errors
    /// If it does not.
    pub fn answers(&mut self) -> Result<(), Error> {
        Ok(self.client.batch_execute("SELECT 1")?)
    }

    /// For tests: `watch` is called at every point that a step reaches.
    #[doc(hidden)]
    pub fn watch(&mut self, watch: impl FnMut(Point) + Send + 'static) {
        self.watch = Watch(Some(Box::new(watch)));
    }

    /// For tests: the server's number of this connection.
    #[doc(hidden)]
    pub fn backend(&mut self) -> Result<i32, Error> {
        Ok(self.client.query_one("SELECT pg_backend_pid()", &[])?.get(0))
    }
}

/// Makes sure that `count` new transfers can be numbered without a gap between them. Numbers that are taken and not used are
/// gaps, and nobody's.
pub(crate) fn take_numbers(
    client: &mut impl GenericClient,
    numbers: &mut Range<u64>,
    count: usize,
) -> Result<(), Error> {
    let left = numbers.end - numbers.start;
    if left < count as u64 {
        let block: i64 = client.query_one("SELECT nextval('transfer_block')", &[])?.get(0);
        let size = BATCH_MESSAGES_MAX as u64;
        let first = crate::guard::unsigned("transfer_block", block)? * size;
        *numbers = first..first + size;
    }
    Ok(())
}

/// The statements of the hot path, and those that edges have asked with.
pub(crate) struct Statements {
    pub(crate) asked: Prepared,
    pub(crate) lock_guard: Statement,
    pub(crate) store_guard: Statement,
    pub(crate) clock: Statement,
    pub(crate) transfers_by_id: Statement,
    pub(crate) transfers_by_no: Statement,
    pub(crate) participants: Statement,
    pub(crate) position_accounts: Statement,
    pub(crate) lock_accounts: Statement,
    pub(crate) accounts: Statement,
    pub(crate) funds: Statement,
    pub(crate) due: Statement,
    pub(crate) due_shards: Statement,
    pub(crate) copy_transfers: Statement,
    pub(crate) copy_states: Statement,
    pub(crate) copy_changes: Statement,
    pub(crate) copy_timeouts: Statement,
    pub(crate) copy_opaque: Statement,
    pub(crate) copy_dead_letters: Statement,
    pub(crate) move_transfers: Statement,
    pub(crate) complete_transfers: Statement,
    pub(crate) end_timeouts: Statement,
    pub(crate) set_positions: Statement,
    pub(crate) callbacks: CallbackStatements,
}

/// The columns of a transfer, in the order in which they are read.
macro_rules! transfer_columns {
    () => {
        "transfer_no, transfer_id, payer_id, payee_id, payer_account, payee_account, currency_id, amount,
         expiration_date, ilp_condition, hash, source_offset, prepared_date, current_state, error_code,
         error_reason, changed_date, reserved_value, final_value, completion_kind, completion_digest"
    };
}
pub(crate) use transfer_columns;

impl Statements {
    fn prepare(client: &mut Client) -> Result<Statements, Error> {
        let callbacks = CallbackStatements::prepare(client)?;
        let mut prepare = |sql: &str| client.prepare(sql);
        Ok(Statements {
            asked: Prepared::default(),
            lock_guard: prepare(
                "SELECT value, outbox_next, audit_next, audit_hash, nextval('batch_id'), hub_clock() FROM segment
                 WHERE segment_id = $1 AND epoch = $2 FOR UPDATE",
            )?,
            store_guard: prepare(
                // One statement: each costs a way to the server and back.
                "WITH written AS (
                     INSERT INTO audit (segment_id, audit_no, batch_id, epoch, first_offset, next_offset,
                         state_changes, position_changes, effects_hash, hash, created_date, rows_hash)
                     VALUES ($1, $8, $9, $2, $10, $3, $11, $12, $13, $6, $14, $19)
                 ), gone AS (
                     DELETE FROM outbox WHERE segment_id = $1 AND outbox_no + messages <= $7
                 ), put AS (
                     INSERT INTO outbox (segment_id, outbox_no, messages, body)
                     SELECT $1, o.* FROM unnest($15::bigint[], $16::int[], $17::text[]) AS o
                 )
                 UPDATE segment SET value = $3, outbox_next = $4, audit_next = $5, audit_hash = $6,
                     outbox_sent = greatest(outbox_sent, $7), changed_date = hub_clock()
                 WHERE segment_id = $1 AND epoch = $2
                 RETURNING CASE WHEN NOT $18::boolean THEN set_config('synchronous_commit', 'off', true) END",
            )?,
            clock: prepare("SELECT hub_clock()")?,
            transfers_by_id: prepare(concat!(
                "SELECT ",
                transfer_columns!(),
                " FROM transfer WHERE transfer_id = ANY($1) ORDER BY transfer_no FOR UPDATE"
            ))?,
            transfers_by_no: prepare(concat!(
                "SELECT ",
                transfer_columns!(),
                " FROM transfer WHERE transfer_no = ANY($1) ORDER BY transfer_no FOR UPDATE SKIP LOCKED"
            ))?,
            participants: prepare(
                "SELECT participant_id, name, is_active, created_date FROM participant
                 WHERE participant_id = ANY($1)",
            )?,
            position_accounts: prepare(
                "SELECT c.participant_id, c.currency_id, c.participant_currency_id
                 FROM (SELECT DISTINCT p, k FROM unnest($1::int[], $2::text[]) AS wanted (p, k)) w
                 JOIN participant_currency c ON c.participant_id = w.p AND c.currency_id = w.k
                     AND c.ledger_account_type = 'POSITION'",
            )?,
            lock_accounts: prepare(
                "SELECT participant_currency_id FROM participant_position
                 WHERE participant_currency_id = ANY($1) ORDER BY participant_currency_id FOR UPDATE",
            )?,
            accounts: prepare(
                "SELECT c.participant_currency_id, c.participant_id, c.currency_id, c.ledger_account_type,
                     c.is_active, c.created_date, p.value, p.reserved_value, p.changes, p.changed_date,
                     l.value, l.threshold_alarm_percentage, hub_clock()
                 FROM participant_currency c
                 JOIN participant_position p USING (participant_currency_id)
                 LEFT JOIN participant_limit l
                     ON l.participant_currency_id = c.participant_currency_id AND l.is_active
                 WHERE c.participant_currency_id = ANY($1)",
            )?,
            funds: prepare(
                "SELECT transfer_id, participant_currency_id, amount, funds_state_id FROM participant_funds
                 WHERE transfer_id = ANY($1) ORDER BY transfer_id FOR UPDATE",
            )?,
            // The clock stands in a query of its own: read once, its value can bound the index. Called row by row it could
            // not, and every open hold would be looked at.
            due: prepare(
                "SELECT transfer_no FROM transfer_timeout
                 WHERE shard = $1 AND expiration_date < (SELECT hub_clock()) ORDER BY expiration_date LIMIT $2",
            )?,
            due_shards: prepare(
                "SELECT s::smallint FROM generate_series(0, $1::int - 1) AS s CROSS JOIN LATERAL (
                     SELECT 1 FROM transfer_timeout
                     WHERE shard = s::smallint AND expiration_date < (SELECT hub_clock()) LIMIT 1
                 ) AS due ORDER BY s",
            )?,
            copy_transfers: prepare(concat!(
                "COPY transfer (",
                transfer_columns!(),
                ") FROM STDIN (FORMAT binary)"
            ))?,
            copy_states: prepare(
                "COPY transfer_state_change (transfer_no, transfer_state_id, error_code, error_reason, batch_id,
                 created_date) FROM STDIN (FORMAT binary)",
            )?,
            copy_changes: prepare(
                "COPY participant_position_change (participant_currency_id, change_no, transfer_no, change, value,
                 batch_id, created_date) FROM STDIN (FORMAT binary)",
            )?,
            copy_timeouts: prepare(
                "COPY transfer_timeout (transfer_no, shard, expiration_date) FROM STDIN (FORMAT binary)",
            )?,
            copy_opaque: prepare("COPY transfer_opaque (transfer_no, part, body) FROM STDIN (FORMAT binary)")?,
            copy_dead_letters: prepare(
                "COPY dead_letter (segment_id, source_offset, trace, reason, body, created_date)
                 FROM STDIN (FORMAT binary)",
            )?,
            move_transfers: prepare(
                "UPDATE transfer t SET current_state = u.state, error_code = u.code, error_reason = u.reason,
                     changed_date = $2, reserved_value = u.reserved, final_value = u.final
                 FROM unnest($1::bigint[], $3::smallint[], $4::int[], $5::smallint[], $6::numeric[],
                     $7::numeric[]) AS u (no, state, code, reason, reserved, final)
                 WHERE t.transfer_no = u.no",
            )?,
            complete_transfers: prepare(
                "UPDATE transfer t SET current_state = u.state, error_code = u.code, error_reason = u.reason,
                     changed_date = $2, completion_kind = u.kind, completion_digest = u.digest,
                     reserved_value = u.reserved, final_value = u.final
                 FROM unnest($1::bigint[], $3::smallint[], $4::int[], $5::smallint[], $6::smallint[],
                     $7::bytea[], $8::numeric[], $9::numeric[])
                     AS u (no, state, code, reason, kind, digest, reserved, final)
                 WHERE t.transfer_no = u.no",
            )?,
            end_timeouts: prepare("DELETE FROM transfer_timeout WHERE transfer_no = ANY($1)")?,
            set_positions: prepare(
                "UPDATE participant_position p SET value = u.value, changes = u.changes, changed_date = $2
                 FROM unnest($1::int[], $3::numeric[], $4::bigint[]) AS u (id, value, changes)
                 WHERE p.participant_currency_id = u.id",
            )?,
            callbacks,
        })
    }
}

#[cfg(test)]
mod tests {
    use holdfast_services::Database;

    use super::*;

    /// However a connection is opened.
    #[test]
    fn nothing_is_compiled() {
        let Some(database) = Database::new("store_compiles_nothing") else { return };
        let ways = [Store::open, Store::open_for_questions, Store::open_for_tokens, Store::open_for_changes];
        for open in ways {
            let mut store = open(database.url(), Settings::default()).unwrap();
            assert_eq!(store.client.query_one("SHOW jit", &[]).unwrap().get::<_, &str>(0), "off");
        }
    }
}
