//! One connection: its bounds, its prepared statements, and the numbers that it may give to new transfers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use holdfast_domain::ids::Millis;
use holdfast_domain::positions::PrepareOrder;
use holdfast_domain::shop::Sides;
use postgres::{Client, GenericClient, Row, Statement};

use crate::Error;
use crate::connect::connect;
use crate::guard::{Claim, Source};
use crate::hung::{NODE, TOOL};
use crate::migrate::{is_current, migrate};
use crate::shop::Serving;
use crate::types::Moment;
use crate::written::Parameters;

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
///
/// Every method that gives an [`Error`] fails if the database fails. Only what else it fails by stands with it.
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
        Store::connect(url, NODE, settings)?.fixed()
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
        store.fixed()
    }

    /// Stores what is fixed for life, or compares it.
    fn fixed(mut self) -> Result<Store, Error> {
        let Settings { expiry_shards, callback_shards, .. } = self.settings;
        self.fix(EXPIRY_SHARDS, expiry_shards.into())?;
        self.fix(CALLBACK_SHARDS, callback_shards.into())?;
        Ok(self)
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
        let (statements, watch) = (Statements::default(), Watch::default());
        Ok(Store { client, statements, settings, numbers: 0..0, watch })
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

/// The statements of a connection, each prepared when it is first asked for.
#[derive(Default)]
pub(crate) struct Statements(RefCell<HashMap<&'static str, Statement>>);

impl Statements {
    /// The statement of that text, inside or outside of a transaction.
    pub(crate) fn prepared(
        &self,
        client: &mut impl GenericClient,
        sql: &'static str,
    ) -> Result<Statement, Error> {
        if let Some(known) = self.0.borrow().get(sql) {
            return Ok(known.clone());
        }
        let statement = client.prepare(sql)?;
        self.0.borrow_mut().insert(sql, statement.clone());
        Ok(statement)
    }

    pub(crate) fn query(
        &self,
        client: &mut impl GenericClient,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Error> {
        let statement = self.prepared(client, sql)?;
        Ok(client.query(&statement, parameters)?)
    }

    /// The first row, if there is one.
    pub(crate) fn query_opt(
        &self,
        client: &mut impl GenericClient,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Option<Row>, Error> {
        let statement = self.prepared(client, sql)?;
        Ok(client.query_opt(&statement, parameters)?)
    }

    /// How many rows were written.
    pub(crate) fn execute(
        &self,
        client: &mut impl GenericClient,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<u64, Error> {
        let statement = self.prepared(client, sql)?;
        Ok(client.execute(&statement, parameters)?)
    }

    /// The one clock.
    pub(crate) fn clock(&self, client: &mut impl GenericClient) -> Result<Millis, Error> {
        let statement = self.prepared(client, "SELECT hub_clock()")?;
        let Moment(now) = client.query_one(&statement, &[])?.get(0);
        Ok(now)
    }
}

impl Store {
    /// Asks with a prepared statement.
    pub(crate) fn query(&mut self, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>, Error> {
        self.statements.query(&mut self.client, sql, parameters)
    }

    /// The same where there is one row at most.
    pub(crate) fn query_opt(
        &mut self,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Option<Row>, Error> {
        self.statements.query_opt(&mut self.client, sql, parameters)
    }

    /// The same where there is one row.
    pub(crate) fn query_one(&mut self, sql: &'static str, parameters: Parameters<'_>) -> Result<Row, Error> {
        let statement = self.statements.prepared(&mut self.client, sql)?;
        Ok(self.client.query_one(&statement, parameters)?)
    }

    /// Writes with a prepared statement; how many rows.
    pub(crate) fn execute(&mut self, sql: &'static str, parameters: Parameters<'_>) -> Result<u64, Error> {
        self.statements.execute(&mut self.client, sql, parameters)
    }
}

/// The columns of a transfer, in the order in which they are read, between two pieces of a statement.
macro_rules! transfer_columns {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            "transfer_no, transfer_id, payer_id, payee_id, payer_account, payee_account, currency_id, amount,
         expiration_date, ilp_condition, hash, source_offset, prepared_date, current_state, error_code,
         error_reason, changed_date, reserved_value, final_value, completion_kind, completion_digest",
            $after
        )
    };
}
pub(crate) use transfer_columns;

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
