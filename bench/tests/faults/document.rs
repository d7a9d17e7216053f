//! The document's tables in a test's database, and ours beside them.

use holdfast_bench::expiry::seed::{Found, Process, TABLES};
use holdfast_domain::ids::{Millis, ParticipantId};
use postgres::error::SqlState;
use postgres::{Client, Error};

use crate::world::{Node, World};

pub const NOW: Millis = 1_800_000_000_000;
pub const AN_HOUR_AGO: &str = "-1 hour";
pub const IN_AN_HOUR: &str = "1 hour";

pub struct Document {
    pub client: Client,
    pub process: Process,
}

impl Document {
    pub fn new(world: &World) -> Document {
        let mut client = world.sql();
        client.batch_execute(TABLES).unwrap();
        Document { client, process: Process::default() }
    }

    /// A transfer that runs out at that distance from now, with its history.
    pub fn transfer(&mut self, id: &str, runs_out: &str, states: &[&str]) {
        self.client
            .execute(
                "INSERT INTO seed.transfer VALUES ($1, localtimestamp + $2::text::interval)",
                &[&id, &runs_out],
            )
            .unwrap();
        states.iter().for_each(|state| self.moves(id, state));
    }

    pub fn moves(&mut self, id: &str, state: &str) {
        moves(&mut self.client, id, state);
    }

    pub fn run(&mut self) -> Result<Found, Error> {
        self.process.run(&mut self.client, |_| ())
    }

    /// Runs it and gives what is listed; something happens after a step.
    pub fn listed_with(&mut self, step: u8, mut what: impl FnMut()) -> Result<Vec<String>, Error> {
        let found = self.process.run(&mut self.client, |at| {
            if at == step {
                what();
            }
        });
        found.map(|found| found.listed)
    }

    pub fn listed(&mut self) -> Vec<String> {
        self.run().unwrap().listed
    }

    pub fn segments(&mut self) -> i64 {
        self.client.query_one("SELECT count(*) FROM seed.segment", &[]).unwrap().get(0)
    }
}

pub fn moves(client: &mut Client, id: &str, state: &str) {
    client
        .execute(
            "INSERT INTO seed.transferStateChange (transferId, transferStateId) VALUES ($1, $2)",
            &[&id, &state],
        )
        .unwrap();
}

pub fn is(error: &Error, state: &SqlState) -> bool {
    error.code() == Some(state)
}

/// A cluster of one node with two participants, at NOW.
pub fn ours(world: &World) -> (Node, ParticipantId, ParticipantId) {
    let mut cluster = Node::new(world, 1);
    let (payer, _) = cluster.participant("payer", 1_000, 1_000);
    let (payee, _) = cluster.participant("payee", 1_000, 1_000);
    world.set_clock(NOW);
    (cluster, payer, payee)
}
