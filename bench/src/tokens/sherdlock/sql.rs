//! The statements of sherdlock, and the connections that they go through: one at a time on each, as Go's pool has it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use holdfast_load::figures::lock;
use tokio::sync::Semaphore;
use tokio_postgres::{Client, NoTls, Statement};

use super::fetcher::Found;
use crate::tokens::node::CURRENCY;

/// What it needs beside the tokens: a mark of those that are spent, and its locks. The index is in its favour: an unlock
/// would read all of them else.
pub(crate) const TABLES: &str = "
    ALTER TABLE token ADD COLUMN is_deleted boolean NOT NULL DEFAULT false;
    CREATE TABLE sherdlock_lock (
        tx_id text COLLATE \"C\" PRIMARY KEY,
        consumer_tx_id text COLLATE \"C\" NOT NULL,
        created_at timestamptz NOT NULL
    );
    CREATE INDEX sherdlock_lock_consumer ON sherdlock_lock (consumer_tx_id);";

const ALL: &str =
    "SELECT wallet, token_id, quantity::bigint FROM token WHERE token_type = 'token' AND NOT is_deleted";
const OF_WALLET: &str = "SELECT token_id, quantity::bigint FROM token
     WHERE wallet = $1 AND token_type = 'token' AND currency = $2 AND NOT is_deleted";
const LOCK: &str = "INSERT INTO sherdlock_lock (tx_id, consumer_tx_id, created_at) VALUES ($1, $2, now())";
const UNLOCK: &str = "DELETE FROM sherdlock_lock WHERE consumer_tx_id = $1";
const CLEAN: &str =
    "DELETE FROM sherdlock_lock WHERE created_at < now() - $1::double precision * interval '1 second'";
/// One statement, so one transaction and one round trip. Nothing comes if an input was gone already.
const SPEND: &str = "
    WITH gone AS (UPDATE token SET is_deleted = true WHERE token_id = ANY($1) AND NOT is_deleted RETURNING 1)
    INSERT INTO token (token_id, wallet, token_type, currency, quantity, created_at)
    SELECT o.id, o.wallet, 'token', $5, o.quantity, now()
    FROM unnest($2::text[], $3::text[], $4::bigint[]) AS o (id, wallet, quantity)
    WHERE 1 / (CASE WHEN (SELECT count(*) FROM gone) = cardinality($1) THEN 1 ELSE 0 END) = 1";

/// PostgreSQL failed.
pub(crate) type Trouble = tokio_postgres::Error;

struct Connection {
    client: Client,
    all: Statement,
    of_wallet: Statement,
    lock: Statement,
    unlock: Statement,
    clean: Statement,
    spend: Statement,
}

impl Connection {
    async fn open(url: &str) -> Result<Connection, Trouble> {
        let client = connect(url).await?;
        Ok(Connection {
            all: client.prepare(ALL).await?,
            of_wallet: client.prepare(OF_WALLET).await?,
            lock: client.prepare(LOCK).await?,
            unlock: client.prepare(UNLOCK).await?,
            clean: client.prepare(CLEAN).await?,
            spend: client.prepare(SPEND).await?,
            client,
        })
    }
}

/// A connection on this runtime; it ends with its client.
pub(crate) async fn connect(url: &str) -> Result<Client, Trouble> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // Whatever ends it, the client hears of.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

/// The connections of one node.
pub(crate) struct Pool {
    idle: Mutex<Vec<Connection>>,
    seats: Semaphore,
}

/// A connection in use; it goes back when dropped.
struct Seat<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
    _permit: tokio::sync::SemaphorePermit<'a>,
}

impl std::ops::Deref for Seat<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("there until it is dropped")
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        lock(&self.pool.idle).extend(self.connection.take());
    }
}

impl Pool {
    pub(crate) async fn open(url: &str, connections: usize) -> Result<Arc<Pool>, Trouble> {
        let mut idle = Vec::new();
        for _ in 0..connections {
            idle.push(Connection::open(url).await?);
        }
        Ok(Arc::new(Pool { idle: Mutex::new(idle), seats: Semaphore::new(connections) }))
    }

    async fn seat(&self) -> Seat<'_> {
        let permit = self.seats.acquire().await.expect("never closed");
        let connection = lock(&self.idle).pop();
        Seat { pool: self, connection, _permit: permit }
    }

    pub(crate) async fn all_tokens(&self) -> Result<HashMap<String, Vec<Found>>, Trouble> {
        let seat = self.seat().await;
        let rows = seat.client.query(&seat.all, &[]).await?;
        drop(seat);
        let mut wallets: HashMap<String, Vec<Found>> = HashMap::new();
        for row in &rows {
            let wallet: &str = row.get(0);
            let found =
                Found { id: row.get::<_, &str>(1).into(), quantity: row.get::<_, i64>(2).unsigned_abs() };
            match wallets.get_mut(wallet) {
                Some(tokens) => tokens.push(found),
                None => drop(wallets.insert(wallet.to_owned(), vec![found])),
            }
        }
        Ok(wallets)
    }

    pub(crate) async fn tokens_of(&self, wallet: &str) -> Result<Vec<Found>, Trouble> {
        let seat = self.seat().await;
        let rows = seat.client.query(&seat.of_wallet, &[&wallet, &CURRENCY]).await?;
        let found = |row: &tokio_postgres::Row| Found {
            id: row.get::<_, &str>(0).into(),
            quantity: row.get::<_, i64>(1).unsigned_abs(),
        };
        Ok(rows.iter().map(found).collect())
    }

    /// Whether the token is the consumer's now. Whatever went wrong counts as another's lock, as it does there.
    pub(crate) async fn lock(&self, token: &str, consumer: &str) -> bool {
        let seat = self.seat().await;
        seat.client.execute(&seat.lock, &[&token, &consumer]).await.is_ok()
    }

    pub(crate) async fn unlock(&self, consumer: &str) -> Result<(), Trouble> {
        let seat = self.seat().await;
        seat.client.execute(&seat.unlock, &[&consumer]).await.map(drop)
    }

    /// Removes locks that are older than a lease.
    pub(crate) async fn clean(&self, lease: std::time::Duration) -> Result<(), Trouble> {
        let seat = self.seat().await;
        seat.client.execute(&seat.clean, &[&lease.as_secs_f64()]).await.map(drop)
    }

    pub(crate) async fn spend(
        &self,
        inputs: &[&str],
        (ids, wallets, quantities): (&[&str], &[&str], &[i64]),
    ) -> Result<(), Trouble> {
        let seat = self.seat().await;
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&inputs, &ids, &wallets, &quantities, &CURRENCY];
        seat.client.execute(&seat.spend, &parameters).await.map(drop)
    }
}
