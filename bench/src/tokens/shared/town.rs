//! A database of a case's own, its tokens, and the books at the end.

use std::sync::Arc;

use holdfast_postgres::{Settings, Store};
use holdfast_tokens::Name;
use postgres::Client;

use super::drive::{Draw, Wallets};
use super::node::{CURRENCY, Nodes};
use super::sherdlock;
use crate::BenchError;
use crate::cluster::costs::{Costs, Reading, Watched};
use crate::cluster::town::Promises;
use crate::expiry::place::Place;
use crate::meter::Counters;

/// Tokens of one wallet are `wallet-N.QUANTITY.1` and so on.
const SEED: &str = "
    INSERT INTO token (token_id, wallet, token_type, currency, quantity, created_at)
    SELECT w.name || '.' || $4::bigint || '.' || n, w.name, 'token', $2, $4::bigint, hub_clock()
    FROM unnest($1::text[]) AS w (name) CROSS JOIN generate_series(1, $3::bigint) AS n";
const LOCKS: &str = "INSERT INTO token_lock (token_id) SELECT token_id FROM token ON CONFLICT DO NOTHING";

/// Tokens of equal amounts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tokens {
    /// How the wallets' names begin.
    pub(crate) prefix: &'static str,
    pub(crate) wallets: u32,
    pub(crate) each: u32,
    pub(crate) quantity: u64,
}

impl Tokens {
    pub(crate) fn names(&self) -> Arc<[Name]> {
        (0..self.wallets).map(|number| format!("{}-{number}", self.prefix).into()).collect()
    }

    pub(crate) fn wallets(&self, amount: u64, payee: Option<&str>, draw: Draw) -> Wallets {
        Wallets { names: self.names(), amount, payee: payee.map(Name::from), draw }
    }
}

/// A case's database.
pub(crate) struct Town {
    pub(crate) url: String,
    client: Client,
    watched: Watched,
    worth: u64,
    /// Last, so that nobody is connected any more.
    _place: Option<Place>,
}

impl Town {
    /// A new database on the server, gone at the end.
    pub(crate) fn found(server: &str, keep: bool) -> Result<Town, BenchError> {
        let place = Place::create(server, keep)?;
        let url = place.url.clone();
        Town::on(url, Some(place))
    }

    /// An empty database that is there already.
    pub(crate) fn on(url: String, place: Option<Place>) -> Result<Town, BenchError> {
        // Whoever opens it first makes the tables.
        drop(Store::open(&url, Settings::default())?);
        let mut client = Client::connect(&url, postgres::NoTls)
            .map_err(BenchError::database("connect to the run's database"))?;
        let watched = Watched::find(std::process::id(), &mut client, "", "")?;
        Ok(Town { url, client, watched, worth: 0, _place: place })
    }

    /// The tables of the other algorithm, too.
    pub(crate) fn add_sherdlock(&mut self) -> Result<(), BenchError> {
        self.execute("make sherdlock's tables", sherdlock::TABLES)
    }

    /// Tokens for the wallets.
    pub(crate) fn issue(&mut self, tokens: Tokens) -> Result<(), BenchError> {
        let names = tokens.names();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        let (each, quantity) = (i64::from(tokens.each), i64::try_from(tokens.quantity).unwrap_or(i64::MAX));
        let issued = self.client.execute(SEED, &[&names, &CURRENCY, &each, &quantity]);
        let issued = issued.map_err(BenchError::database("issue the tokens of the run"))?;
        self.worth += issued * tokens.quantity;
        Ok(())
    }

    /// All tokens can be selected from now on.
    pub(crate) fn open(&mut self) -> Result<(), BenchError> {
        self.execute("make the tokens' locks", LOCKS)
    }

    /// As a server that has grown slowly would have done by itself, and not while the clock runs.
    pub(crate) fn settle(&mut self) -> Result<(), BenchError> {
        self.execute("tidy up", "VACUUM (ANALYZE)")?;
        self.execute("write what is dirty", "CHECKPOINT")
    }

    fn execute(&mut self, what: &'static str, sql: &str) -> Result<(), BenchError> {
        self.client.batch_execute(sql).map_err(BenchError::database(what))
    }

    pub(crate) fn promises(&mut self) -> Result<Promises, BenchError> {
        Promises::read(&mut self.client)
    }

    /// Whether PostgreSQL's processes can be looked at.
    pub(crate) const fn sees_postgres(&self) -> bool {
        self.watched.sees_postgres()
    }

    pub(crate) fn read(&mut self) -> Result<Reading, BenchError> {
        self.watched.read(&mut self.client, Counters::default())
    }

    pub(crate) fn costs(&mut self, before: &Reading, rounds: u64) -> Result<Costs, BenchError> {
        let after = self.read()?;
        Ok(self.watched.costs(before, &after, rounds, &[]))
    }

    /// Nothing was spent twice and nothing is lost: what is there is worth what was issued.
    pub(crate) fn books<N: Nodes>(&mut self, _: &N) -> Result<(), BenchError> {
        let row = self.client.query_one(N::WORTH, &[]).map_err(BenchError::database("count the tokens"))?;
        let found = row.get::<_, i64>(0).unsigned_abs();
        if found != self.worth {
            return Err(BenchError::Books(format!("tokens worth {found} where {} were issued", self.worth)));
        }
        Ok(())
    }
}
