//! A database for one test, and the topics of a node as queues in memory.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_domain::command::{Abort, Admin, Command, Fulfil, FulfilAction, Prepare};
use holdfast_domain::effects::{Outcome, Subject};
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_messages::{
    DeadLetter, Message, Notification, PositionMessage, Topic, TraceId, TransferCommand, TransferMessage,
};
use holdfast_postgres::{
    Batch, Claim, Done, Error, Finding, Incoming, OutboxRow, Point, Settings, Source, Step, Store,
};
use holdfast_services::Database;
use postgres::Client;

/// A database of its own, and what the store's tests do with it.
pub struct World {
    database: Database,
    pub url: String,
}

impl World {
    /// `None` if this run has no server.
    pub fn new() -> Option<World> {
        Database::new("store").map(World::on)
    }

    fn on(database: Database) -> World {
        World { url: database.url().to_owned(), database }
    }

    /// A copy of this database. Nobody may be connected to it.
    pub fn copy(&self) -> World {
        World::on(self.database.copy())
    }

    pub fn store(&self) -> Store {
        Store::open(&self.url, Settings::default()).unwrap()
    }

    pub fn sql(&self) -> Client {
        self.database.sql()
    }

    /// From now on it is this late in this database, until told otherwise. A store must have been opened before.
    pub fn set_clock(&self, now: Millis) {
        let mut client = self.sql();
        if client.execute("UPDATE test_clock SET at = to_timestamp($1::bigint / 1000.0)", &[&now]).is_err() {
            let install = format!(
                "CREATE TABLE test_clock AS SELECT to_timestamp({now} / 1000.0) AS at;
                 CREATE OR REPLACE FUNCTION hub_clock() RETURNS timestamptz LANGUAGE sql VOLATILE
                 AS $$ SELECT at FROM test_clock $$"
            );
            client.batch_execute(&install).unwrap();
        }
    }

    /// Waits until that connection waits for a lock.
    pub fn await_blocked(&self, backend: i32) {
        let mut client = self.sql();
        let deadline = Instant::now() + Duration::from_secs(20);
        let blocked = "SELECT cardinality(pg_blocking_pids($1)) > 0";
        while !client.query_one(blocked, &[&backend]).unwrap().get::<_, bool>(0) {
            assert!(Instant::now() < deadline, "it never waited for a lock");
            std::thread::yield_now();
        }
    }

    /// Waits until somebody waits for a lock.
    pub fn await_waiting(&self) {
        let waiting = "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock'";
        self.await_count(waiting, 1);
    }

    /// A store whose connection is cut when it reaches that point.
    pub fn doomed(&self, at: Point) -> Store {
        let (mut store, mut sql) = (self.store(), self.sql());
        let backend = store.backend().unwrap();
        store.watch(move |point| {
            if point == at {
                let cut = sql.query_one("SELECT pg_terminate_backend($1, 10000)", &[&backend]).unwrap();
                assert!(cut.get::<_, bool>(0), "the connection did not end");
            }
        });
        store
    }

    /// Where a source stands.
    pub fn offset(&self, claim: &Claim) -> i64 {
        self.count(&format!("SELECT value FROM segment WHERE segment_id = {}", claim.segment_id))
    }

    /// How many messages of a source wait in the outbox.
    pub fn unsent(&self, claim: &Claim) -> i64 {
        let sql = "SELECT coalesce(sum(messages), 0)::bigint FROM outbox WHERE segment_id =";
        self.count(&format!("{sql} {}", claim.segment_id))
    }

    /// Fails unless those rows were written by the transaction that moved the source on.
    pub fn share_a_transaction(&self, claim: &Claim, rows: &[&str]) {
        let writers = |rows: &str| self.texts(&format!("SELECT DISTINCT xmin::text FROM {rows}"));
        let step = writers(&format!("segment WHERE segment_id = {}", claim.segment_id));
        for rows in rows {
            assert_eq!(writers(rows), step, "{rows}");
        }
    }

    /// Does something by hand.
    pub fn run(&self, sql: &str) {
        self.sql().batch_execute(sql).unwrap();
    }

    /// One number from a query.
    pub fn count(&self, sql: &str) -> i64 {
        self.database.count(sql)
    }

    /// How many rows there are of that table, with those conditions.
    pub fn rows(&self, of: &str) -> i64 {
        self.count(&format!("SELECT count(*) FROM {of}"))
    }

    /// The first column of a query, as text.
    pub fn texts(&self, sql: &str) -> Vec<String> {
        self.sql().query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect()
    }

    /// What time it is in this database.
    pub fn now(&self) -> Millis {
        self.count("SELECT (extract(epoch FROM hub_clock()) * 1000)::bigint")
    }

    /// Waits until a query gives that number.
    pub fn await_count(&self, sql: &str, wanted: i64) {
        self.database.await_count(sql, |found| found == wanted);
    }

    /// Everything that a step may change, as text. Two equal ones are two equal databases.
    pub fn snapshot(&self) -> String {
        let tables = self.texts(
            "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'test_clock' ORDER BY 1",
        );
        let mut all = String::new();
        for table in tables {
            for row in self.texts(&format!("SELECT row({table}.*)::text FROM {table} ORDER BY 1")) {
                all.push_str(&format!("{table}: {row}\n"));
            }
        }
        all
    }

    /// Fails unless everything adds up.
    pub fn verify(&self) {
        let verified = self.store().verify().unwrap();
        assert_eq!(verified.findings, [], "{verified:?}");
    }

    /// Fails unless something is found in that table, or told in such words.
    pub fn finds(&self, what: &str) {
        let verified = self.store().verify().unwrap();
        let is_it = |found: &Finding| found.table == what || found.what.contains(what);
        assert!(verified.findings.iter().any(is_it), "{what}: {verified:?}");
    }

    /// Fails unless that change by hand is found.
    pub fn notices(&self, by_hand: &str, what: &str) {
        assert!(self.sql().execute(by_hand, &[]).unwrap() > 0, "{by_hand}");
        self.finds(what);
    }

    pub fn states(&self) -> BTreeMap<TransferId, String> {
        let rows = self.sql().query(
            "SELECT transfer_id::text, enumeration FROM transfer
             JOIN transfer_state ON transfer_state_id = current_state",
            &[],
        );
        rows.unwrap().iter().map(|row| (row.get::<_, &str>(0).parse().unwrap(), row.get(1))).collect()
    }

    pub fn state(&self, id: TransferId) -> String {
        self.states().remove(&id).unwrap_or_else(|| "none".into())
    }

    /// What an account stands at, in whole units.
    pub fn value(&self, account: AccountId) -> i64 {
        self.count(&format!(
            "SELECT value::bigint FROM participant_position WHERE participant_currency_id = {}",
            account.0
        ))
    }
}

pub fn usd() -> Currency {
    "USD".parse().unwrap()
}

/// 2096: what a test reserves does not run out by itself.
pub const FAR: Millis = 4_000_000_000_000;

pub const PREIMAGE: [u8; 32] = [7; 32];

pub fn prepare(id: u128, payer: u32, payee: u32, units: i64, expiration: Millis) -> Command {
    let (payer, payee) = (ParticipantId(payer), ParticipantId(payee));
    let condition = Fulfil::new(payee, TransferId(id), FulfilAction::Commit, PREIMAGE).digest;
    Command::Prepare(
        Prepare {
            source: payer,
            id: TransferId(id),
            payer,
            payee,
            amount: Amount::whole(units).unwrap(),
            expiration,
            currency: usd(),
            condition,
            hash: [0; 32],
            tail: Vec::new(),
            funding: None,
        }
        .hashed(),
    )
}

pub fn fulfil(id: u128, payee: u32) -> Command {
    Command::Fulfil(Fulfil::new(ParticipantId(payee), TransferId(id), FulfilAction::Commit, PREIMAGE))
}

pub fn abort(id: u128, payee: u32) -> Command {
    Command::Abort(Abort::new(ParticipantId(payee), TransferId(id), 5001, Vec::new()))
}

/// The trace of the n-th command that a node was asked; of the n-th operator's command; of what lies at an offset.
pub fn asked(number: usize) -> TraceId {
    TraceId(0xc000_0000_0000 + number as u128)
}

fn operated(number: usize) -> TraceId {
    TraceId(0xa000_0000_0000 + number as u128)
}

pub fn lying_at(offset: u64) -> TraceId {
    TraceId(0x0f00_0000_0000 + u128::from(offset))
}

pub fn transfer_message(trace: TraceId, command: &Command) -> TransferMessage {
    let command = match command.clone() {
        Command::Prepare(prepare) => TransferCommand::Prepare(prepare),
        Command::Fulfil(fulfil) => TransferCommand::Fulfil(fulfil),
        Command::Abort(abort) => TransferCommand::Abort(abort),
        Command::Lookup(lookup) => TransferCommand::Lookup(lookup),
        other => panic!("{other:?} has no message"),
    };
    TransferMessage { trace, command }
}

/// As it is read from its topic.
pub fn incoming<M: Message>(offset: u64, message: &M) -> Incoming<M> {
    Incoming::read(offset, message.key().into_bytes(), message.to_json())
}

pub fn all(from: u64, commands: &[Command]) -> Vec<Incoming<TransferMessage>> {
    (from..)
        .zip(commands)
        .map(|(offset, command)| incoming(offset, &transfer_message(lying_at(offset), command)))
        .collect()
}

/// Fails unless a step came to that point and no further: before its commit nothing of it was done.
pub fn died<T: std::fmt::Debug>(outcome: Result<T, Error>, at: Point) {
    match outcome {
        Ok(_) => assert_eq!(at, Point::Committed),
        Err(Error::Unavailable(_)) => assert_ne!(at, Point::Committed),
        other => panic!("{at:?}: {other:?}"),
    }
}

pub fn done(step: Step) -> Done {
    match step {
        Step::Done(done) => done,
        Step::Fenced => panic!("fenced"),
    }
}

/// The trace of commands that come once more, later.
pub const AGAIN: TraceId = TraceId(0xe000_0000_0000);

/// One node that does everything, over queues in memory. `duplicate`: every message is delivered twice in its batch, and
/// once more in a later one.
pub struct Node {
    pub store: Store,
    pub transfers: Queue<TransferMessage>,
    pub positions: Vec<Queue<PositionMessage>>,
    pub shards: Vec<Claim>,
    pub notifications: Vec<Notification>,
    pub dead_letters: Vec<DeadLetter>,
    pub duplicate: bool,
    /// How many commands the operator gave.
    pub operations: usize,
    again: Vec<(usize, OutboxRow)>,
}

pub struct Queue<M> {
    pub claim: Claim,
    pub log: Vec<Incoming<M>>,
    pub at: u64,
}

impl<M: Message> Queue<M> {
    pub fn new(store: &mut Store, partition: u32) -> Queue<M> {
        let claim = store.claim(&Source::Consumer(M::TOPIC, partition)).unwrap();
        Queue { claim, log: Vec::new(), at: claim.offset }
    }

    /// Another node takes the partition over, and begins where the stored offset says.
    pub fn taken_over(&mut self, store: &mut Store) {
        self.claim = store.claim(&self.claim.source).unwrap();
        self.at = self.claim.offset;
    }

    pub fn push(&mut self, key: &str, value: &[u8]) {
        let offset = self.log.len() as u64;
        self.log.push(Incoming::read(offset, key.as_bytes().to_vec(), value.to_vec()));
    }

    pub fn say(&mut self, message: &M) {
        self.push(&message.key(), &message.to_json());
    }

    pub fn pending(&self) -> &[Incoming<M>] {
        &self.log[usize::try_from(self.at).unwrap()..]
    }

    pub fn batch(&self) -> Batch<'_, M> {
        Batch::new(self.at, self.pending())
    }

    /// Has what waits decided in one batch, if something does.
    pub fn take(
        &mut self,
        decide: impl FnOnce(&Claim, &Batch<'_, M>) -> Result<Step, Error>,
    ) -> Option<Done> {
        if self.pending().is_empty() {
            return None;
        }
        let batch = self.batch();
        let done = done(decide(&self.claim, &batch).unwrap());
        self.at = batch.next;
        Some(done)
    }
}

/// A database and a node over it, with so many partitions of `position`; `None` if this run has no server.
pub fn node(partitions: u32) -> Option<(World, Node)> {
    let world = World::new()?;
    let node = Node::new(&world, partitions);
    Some((world, node))
}

/// The same with one partition, and those two participants.
pub fn payer_and_payee(funds: i64, cap: i64) -> Option<(World, Node)> {
    let world = World::new()?;
    let node = Node::of_two(&world, funds, cap);
    Some((world, node))
}

pub const PAYER_ACCOUNT: AccountId = AccountId(1);
pub const PAYEE_ACCOUNT: AccountId = AccountId(3);

impl Node {
    pub fn new(world: &World, partitions: u32) -> Node {
        let mut store = world.store();
        Node {
            transfers: Queue::new(&mut store, 0),
            positions: (0..partitions).map(|partition| Queue::new(&mut store, partition)).collect(),
            shards: (0..8).map(|shard| store.claim(&Source::Timeout(shard)).unwrap()).collect(),
            store,
            notifications: Vec::new(),
            dead_letters: Vec::new(),
            duplicate: false,
            operations: 0,
            again: Vec::new(),
        }
    }

    /// One with participant 1, who pays and has so many funds and that cap, and participant 2, who has nothing.
    pub fn of_two(world: &World, funds: i64, cap: i64) -> Node {
        let mut node = Node::new(world, 1);
        assert_eq!(node.participant("payer", funds, cap), (ParticipantId(1), PAYER_ACCOUNT));
        assert_eq!(node.participant("payee", 0, 10), (ParticipantId(2), PAYEE_ACCOUNT));
        node
    }

    pub fn ask(&mut self, commands: &[Command]) {
        let first = self.transfers.log.len();
        for (at, command) in commands.iter().enumerate() {
            let message = transfer_message(asked(first + at), command);
            for _ in 0..=usize::from(self.duplicate) {
                self.transfers.say(&message);
            }
        }
        self.drain();
        if self.duplicate {
            for command in commands {
                self.transfers.say(&transfer_message(AGAIN, command));
            }
            self.drain();
        }
    }

    /// An operator's command, on the key of a position account.
    pub fn operate(&mut self, account: AccountId, admin: Admin) {
        let partition = partition_of(account, self.positions.len());
        let message = PositionMessage::admin(operated(self.operations), account, admin);
        self.operations += 1;
        self.positions[partition].say(&message.expect("it is about the account"));
        self.drain();
    }

    /// Lets every handler and relay work until nothing is left to do.
    pub fn drain(&mut self) {
        self.drain_once();
        // What the relay could not know to be sent, it sends again.
        for (partition, row) in std::mem::take(&mut self.again) {
            self.positions[partition].push(&row.key, &row.value);
        }
        self.drain_once();
        self.again.clear();
    }

    fn drain_once(&mut self) {
        while self.drain_transfers().is_some() | self.drain_positions() | self.relay() {}
    }

    /// The transfers step alone, for all that waits.
    pub fn drain_transfers(&mut self) -> Option<Done> {
        self.transfers.take(|claim, batch| self.store.transfers(claim, batch))
    }

    /// The transfers step alone, for these commands. What it sends is not relayed.
    pub fn first_hop(&mut self, commands: &[Command]) -> Done {
        self.transfers.log.extend(all(self.transfers.at, commands));
        self.drain_transfers().expect("there are some")
    }

    pub fn relay(&mut self) -> bool {
        let mut sources: Vec<Claim> = vec![self.transfers.claim];
        sources.extend(self.positions.iter().map(|queue| queue.claim));
        sources.extend(&self.shards);
        let mut sent = false;
        for claim in sources {
            let rows = self.store.unsent(&claim, 10_000).unwrap();
            let Some(last) = rows.last().map(|row| row.number) else { continue };
            for row in rows {
                for _ in 0..=usize::from(self.duplicate) {
                    let (key, value) = (row.key.as_bytes(), &row.value[..]);
                    match row.topic {
                        Topic::Position => {
                            let account = AccountId(row.key.parse().unwrap());
                            let partition = partition_of(account, self.positions.len());
                            self.positions[partition].push(&row.key, value);
                            if self.duplicate {
                                self.again.push((partition, row.clone()));
                            }
                        }
                        Topic::Notifications => {
                            self.notifications.push(Notification::read(key, value).unwrap());
                        }
                        Topic::DeadLetters => self.dead_letters.push(DeadLetter::read(key, value).unwrap()),
                        other => panic!("nothing of a transfer goes to {other:?}"),
                    }
                }
            }
            assert!(self.store.mark_sent(&claim, last + 1).unwrap());
            sent = true;
        }
        sent
    }

    /// What whoever waits for that trace is told first.
    pub fn answered(&self, trace: TraceId) -> Outcome {
        let told = self.notifications.iter().find(|told| told.trace == trace);
        told.and_then(|told| told.notice.outcome()).expect("it was answered")
    }

    /// The last answer.
    pub fn last(&self) -> Outcome {
        self.notifications.iter().rev().find_map(|told| told.notice.outcome()).expect("something was told")
    }

    /// The position step alone, for all that waits.
    pub fn drain_positions(&mut self) -> bool {
        let mut decided = 0;
        for queue in &mut self.positions {
            decided += usize::from(queue.take(|claim, batch| self.store.positions(claim, batch)).is_some());
        }
        decided > 0
    }

    /// Scans every shard until nothing is due; what follows is done too.
    pub fn expire(&mut self) -> usize {
        let ended = self.expire_only();
        self.drain();
        ended
    }

    /// Scans every shard until nothing is due.
    pub fn expire_only(&mut self) -> usize {
        let mut ended = 0;
        for (shard, claim) in (0..).zip(self.shards.clone()) {
            loop {
                let step = done(self.store.expire(&claim, shard, 1_000).unwrap());
                ended += step.messages;
                if step.messages == 0 {
                    break;
                }
            }
        }
        ended
    }

    /// A participant with an active account: funds and cap in whole units.
    pub fn participant(&mut self, name: &str, funds: i64, cap: i64) -> (ParticipantId, AccountId) {
        let create = Admin::CreateParticipant { name: Name::new(name).unwrap(), currency: usd() };
        let outcome = self.store.participant(&create).unwrap();
        assert_eq!(outcome.code, None);
        let Subject::Member(participant, account) = outcome.subject else { panic!("{outcome:?}") };
        for admin in first_steps(participant, account, funds, cap) {
            self.operate(account, admin);
        }
        (participant, account)
    }
}

/// Position accounts have every other number.
fn partition_of(account: AccountId, partitions: usize) -> usize {
    account.0 as usize / 2 % partitions
}

/// The limits, and the funds.
pub fn first_steps(participant: ParticipantId, account: AccountId, funds: i64, cap: i64) -> Vec<Admin> {
    let limits = Admin::InitialPositionAndLimits {
        participant,
        currency: usd(),
        net_debit_cap: Amount::whole(cap).unwrap(),
        initial_position: Amount::ZERO,
    };
    let funds_in = Admin::FundsIn {
        id: TransferId(0xf000_0000 + u128::from(account.0)),
        account: AccountId(account.0 + 1),
        currency: usd(),
        amount: Amount::whole(funds).unwrap(),
    };
    if funds > 0 { vec![limits, funds_in] } else { vec![limits] }
}
