//! The document's tables in a test's database, and ours beside them.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use holdfast_bench::expiry::seed::{Found, Process, TABLES};
use holdfast_domain::ids::{Millis, ParticipantId};
use holdfast_postgres::{Point, Store};
use postgres::error::SqlState;
use postgres::{Client, Error};

use crate::world::{Node, World, prepare};

const LONG: Duration = Duration::from_secs(9);
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

    /// With a transfer `x` that runs out at that distance from now.
    pub fn with_x(world: &World, runs_out: &str, states: &[&str]) -> Document {
        let mut document = Document::new(world);
        document.transfer("x", runs_out, states);
        document
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

/// A step that is written and waits right before its commit.
pub struct Held {
    written: Receiver<()>,
    release: Sender<()>,
}

impl Held {
    /// Holds up the steps of that store.
    pub fn in_store(store: &mut Store) -> Held {
        let ((written, is_written), (release, released)) = (channel(), channel());
        store.watch(move |point| {
            if point == Point::OffsetWritten {
                written.send(()).unwrap();
                released.recv_timeout(LONG).unwrap();
            }
        });
        Held { written: is_written, release }
    }

    pub fn await_written(&self) {
        self.written.recv_timeout(LONG).unwrap();
    }

    pub fn release(&self) {
        self.release.send(()).unwrap();
    }
}

/// One node with two participants, at NOW.
pub fn ours(world: &World) -> (Node, ParticipantId, ParticipantId) {
    let mut cluster = Node::new(world, 1);
    let (payer, _) = cluster.participant("payer", 1_000, 1_000);
    let (payee, _) = cluster.participant("payee", 1_000, 1_000);
    world.set_clock(NOW);
    (cluster, payer, payee)
}

/// The same, with the hold of transfer 1, which runs out in ten milliseconds; and its payee.
pub fn ours_with_a_hold(world: &World) -> (Node, ParticipantId) {
    let (mut cluster, payer, payee) = ours(world);
    cluster.ask(&[prepare(1, payer.0, payee.0, 1, NOW + 10)]);
    (cluster, payee)
}
