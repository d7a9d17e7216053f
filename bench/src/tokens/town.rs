//! A database of a case's own, its tokens, and the books at the end.

use std::sync::Arc;

use anyhow::{Context, ensure};
use holdfast_load::meter::Counters;
use holdfast_tokens::Name;

use super::drive::{Draw, Wallets};
use super::node::{CURRENCY, Nodes};
use crate::database::costs::{Costs, Reading, Watched};
use crate::database::own::OwnDatabase;

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
    pub(crate) place: OwnDatabase,
    pub(crate) watched: Watched,
    worth: u64,
}

impl Town {
    /// In an empty database.
    pub(crate) fn found(mut place: OwnDatabase) -> anyhow::Result<Town> {
        // Whoever opens it first makes the tables.
        drop(place.store()?);
        let watched = Watched::find(std::process::id(), &mut place.client, "", "")?;
        Ok(Town { place, watched, worth: 0 })
    }

    /// Tokens for the wallets.
    pub(crate) fn issue(&mut self, tokens: Tokens) -> anyhow::Result<()> {
        let names = tokens.names();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        let (each, quantity) = (i64::from(tokens.each), i64::try_from(tokens.quantity).unwrap_or(i64::MAX));
        let issued = self.place.client.execute(SEED, &[&names, &CURRENCY, &each, &quantity]);
        self.worth += issued.context("cannot issue the tokens of the run")? * tokens.quantity;
        Ok(())
    }

    /// All tokens can be selected from now on.
    pub(crate) fn open(&mut self) -> anyhow::Result<()> {
        self.place.execute("make the tokens' locks", LOCKS)
    }

    pub(crate) fn read(&mut self) -> anyhow::Result<Reading> {
        self.watched.read(&mut self.place.client, Counters::default())
    }

    pub(crate) fn costs(&mut self, before: &Reading, rounds: u64) -> anyhow::Result<Costs> {
        let after = self.read()?;
        Ok(self.watched.costs(before, &after, rounds, &[]))
    }

    /// Nothing was spent twice and nothing is lost: what is there is worth what was issued.
    pub(crate) fn books<N: Nodes>(&mut self, _: &N) -> anyhow::Result<()> {
        let (found, issued) = (self.place.number(N::WORTH)?, self.worth);
        ensure!(found == issued, "the books do not balance: tokens worth {found} where {issued} were issued");
        Ok(())
    }
}
