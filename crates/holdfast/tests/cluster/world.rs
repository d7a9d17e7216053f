//! Topics, a database, and nodes as child processes.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use holdfast_kafka::{Brokers, From, Producer, ProducerSettings, Reader, Topic, TopicSettings};
use holdfast_services::{Database, PATIENCE};
use postgres::Client;
use rustix::process::{Pid, Signal, kill_process};

use crate::inbox::Inbox;
use crate::support::server::{Server, any_port, binary};

pub const PARTITIONS: u32 = 4;

pub struct World {
    database: Database,
    kafka: String,
    /// Where participants are called.
    pub inbox: Inbox,
    nodes: Vec<Server>,
    /// Where requests may go now.
    pub addresses: Arc<Mutex<Vec<SocketAddr>>>,
}

impl World {
    /// `None` if this run has no servers.
    pub fn new() -> Option<World> {
        let kafka = holdfast_services::kafka()?.url().to_owned();
        let database = Database::new("chaos")?;
        Some(World { database, kafka, inbox: Inbox::open(), nodes: Vec::new(), addresses: Arc::default() })
    }

    /// The address of the database.
    pub fn url(&self) -> &str {
        self.database.url()
    }

    fn prefix(&self) -> String {
        self.database.topic_prefix()
    }

    pub fn topics(&self) -> TopicSettings {
        TopicSettings { shop: Some(PARTITIONS), ..TopicSettings::of(self.prefix(), PARTITIONS) }
    }

    pub fn brokers(&self) -> Brokers {
        self.kafka.parse().expect("an address of Kafka")
    }

    pub fn producer(&self) -> Producer {
        Producer::new(ProducerSettings::new(self.brokers(), self.topics())).expect("a producer")
    }

    pub fn add_nodes(&mut self, count: usize) {
        self.add_nodes_with(count, &[]);
    }

    /// The same, started with more to say.
    pub fn add_nodes_with(&mut self, count: usize, arguments: &[&str]) {
        for _ in 0..count {
            self.nodes.push(Server::launch(&mut self.command(arguments)));
        }
        self.list();
    }

    /// A node more, which tells what it does.
    pub fn add_telling_node(&mut self, arguments: &[&str]) -> Telling {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file for its log");
        let mut command = self.command(arguments);
        command.env("HOLDFAST_TRACE", "info").stderr(file.reopen().expect("it can be written"));
        self.nodes.push(Server::launch(&mut command));
        self.list();
        Telling(file)
    }

    /// The command that starts a node.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = binary();
        command.args(["serve", "--listen", &any_port().to_string(), "--log", &self.kafka]);
        command.args(["--store", self.url()]);
        command.args(["--set", &format!("cluster.prefix={}", self.prefix())]);
        command.args(["--set", &format!("cluster.partitions={PARTITIONS}")]);
        command.args(["--data", env!("CARGO_TARGET_TMPDIR")]).args(arguments);
        command.env("HOLDFAST_TRACE", "warn");
        command
    }

    /// The nodes that take requests from now on.
    fn list(&self) {
        let mut addresses = self.addresses.lock().expect("whole");
        *addresses = self.nodes.iter().map(|node| node.address).collect();
    }

    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// A node, by its place.
    pub fn node(&self, at: usize) -> &Server {
        &self.nodes[at % self.nodes.len()]
    }

    /// Takes the oldest node out; requests on their way to it get no answer.
    pub fn take_node(&mut self) -> Server {
        let node = self.nodes.remove(0);
        self.list();
        node
    }

    pub fn put_back(&mut self, node: Server) {
        self.nodes.push(node);
        self.list();
    }

    pub fn signal(node: &Server, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(node.id()).expect("a process id")).expect("not zero");
        kill_process(pid, signal).expect("the node was running");
    }

    /// All values that lie in a topic now, partition by partition.
    pub fn read_topic(&self, topic: Topic) -> Vec<Vec<u8>> {
        let deadline = Instant::now() + PATIENCE;
        let reader = Reader::open(&self.brokers(), &self.topics().name(topic), &From::Start, deadline);
        let mut reader = reader.expect("the topic is there");
        let mut values = Vec::new();
        while !reader.at_end() && Instant::now() < deadline {
            let records = reader.poll(1_000, deadline).expect("Kafka answers");
            values.extend(records.into_iter().map(|record| record.value));
        }
        values
    }

    pub fn sql(&self) -> Client {
        self.database.sql()
    }

    pub fn count(&self, sql: &str) -> i64 {
        self.database.count(sql)
    }

    /// Waits until a query gives a number that will do.
    pub fn await_count(&self, sql: &str, will_do: impl Fn(i64) -> bool) {
        self.database.await_count(sql, will_do);
    }

    /// Waits until every transfer has ended and everything was sent.
    pub fn await_quiet(&self) {
        for state in ["RECEIVED_PREPARE", "RECEIVED_FULFIL", "RECEIVED_ERROR", "RESERVED_TIMEOUT", "RESERVED"]
        {
            let open = format!(
                "SELECT count(*) FROM transfer t JOIN transfer_state s ON s.transfer_state_id = t.current_state
                 WHERE s.enumeration = '{state}'"
            );
            self.await_count(&open, |open| open == 0);
        }
        self.await_count("SELECT count(*) FROM outbox", |rows| rows == 0);
        // Also what came twice: all that lies in the topics has been looked at.
        for topic in [Topic::Transfers, Topic::Position, Topic::Notifications] {
            let name = self.topics().name(topic);
            let reader = Reader::open(&self.brokers(), &name, &From::End, Instant::now() + PATIENCE);
            let ends = reader.expect("the topic is there").next_offsets().iter().sum::<u64>();
            let looked_at = format!(
                "SELECT coalesce(sum(value), 0)::bigint FROM segment
                 WHERE segment_type = 'consumer' AND table_name = '{}'",
                topic.name()
            );
            self.await_count(&looked_at, |looked_at| u64::try_from(looked_at).is_ok_and(|at| at >= ends));
        }
        self.await_count("SELECT count(*) FROM outbox", |rows| rows == 0);
        // Delivered ones are gone; nobody here refuses a call for good.
        self.await_count("SELECT count(*) FROM callback", |rows| rows == 0);
    }
}

/// What a node has said so far.
pub struct Telling(tempfile::NamedTempFile);

impl Telling {
    pub fn text(&self) -> String {
        std::fs::read_to_string(self.0.path()).expect("its log can be read")
    }

    /// The lines with that in them, as soon as there are enough.
    pub fn await_lines(&self, part: &str, count: usize) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = self.text();
            // The last may not be written to its end.
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let found: Vec<String> =
                whole.lines().filter(|line| line.contains(part)).map(str::to_owned).collect();
            if found.len() >= count {
                return found;
            }
            assert!(Instant::now() < deadline, "'{part}' stands {} times in: {text}", found.len());
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Before the database goes.
        self.nodes.clear();
    }
}
