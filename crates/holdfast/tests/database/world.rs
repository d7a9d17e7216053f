//! Topics, a database, and nodes as child processes.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use holdfast_kafka::{Brokers, From, Producer, ProducerSettings, Reader, Record, Topic, TopicSettings};
use holdfast_services::{Database, PATIENCE};
use postgres::Client;
use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, Producer as _};
use rustix::process::{Pid, Signal, kill_process};

use crate::called::partitions_of;
use crate::inbox::Inbox;
use crate::servers::Servers;
use crate::support::server::{Server, any_port, binary, run};
use crate::support::wait::{await_that, wait_for};

pub const PARTITIONS: u32 = 4;
pub const OPEN_CHECKOUTS: &str = "SELECT count(*) FROM orders WHERE state IN ('pending', 'cancelling')";

pub struct World {
    database: Database,
    kafka: String,
    /// Of each topic.
    partitions: u32,
    /// Where participants are called.
    pub inbox: Inbox,
    nodes: Vec<Server>,
    /// Where requests may go now.
    pub addresses: Arc<Mutex<Vec<SocketAddr>>>,
    _servers: Servers,
}

impl World {
    /// One that has the servers to itself; `None` if this run has none.
    pub fn alone() -> Option<World> {
        World::of(Servers::alone(), PARTITIONS)
    }

    /// One beside others.
    pub fn beside_others() -> Option<World> {
        World::of(Servers::beside_others(), PARTITIONS)
    }

    /// One whose topics have so many partitions.
    pub fn of(servers: Servers, partitions: u32) -> Option<World> {
        let kafka = holdfast_services::kafka()?.url().to_owned();
        let (database, inbox) = (Database::new("chaos")?, Inbox::open());
        let (nodes, addresses) = (Vec::new(), Arc::default());
        Some(World { database, kafka, partitions, inbox, nodes, addresses, _servers: servers })
    }

    /// The address of the database.
    pub fn url(&self) -> &str {
        self.database.url()
    }

    fn prefix(&self) -> String {
        self.database.topic_prefix()
    }

    pub fn topics(&self) -> TopicSettings {
        TopicSettings { shop: Some(self.partitions), ..TopicSettings::of(self.prefix(), self.partitions) }
    }

    pub fn brokers(&self) -> Brokers {
        self.kafka.parse().expect("an address of Kafka")
    }

    pub fn producer(&self) -> Producer {
        Producer::new(ProducerSettings::new(self.brokers(), self.topics())).expect("a producer")
    }

    /// Settings of a client that is not ours.
    pub fn other_client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.brokers().to_string());
        config
    }

    /// A producer that writes in transactions, under this name.
    pub fn transactional(&self, name: &str) -> BaseProducer {
        let producer: BaseProducer =
            self.other_client().set("transactional.id", name).create().expect("a producer");
        producer.init_transactions(PATIENCE).expect("Kafka knows transactions");
        producer
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
        command.args(["--set", &format!("cluster.partitions={}", self.partitions)]);
        if !arguments.contains(&"--data") {
            command.args(["--data", env!("CARGO_TARGET_TMPDIR")]);
        }
        command.args(arguments);
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

    /// Waits until the nodes, which all read these topics, have shared the partitions evenly: from then on none moves any more.
    pub fn await_shared(&self, topics: &[Topic]) {
        for topic in topics {
            let all = self.topics().partitions(*topic);
            let nodes = u32::try_from(self.nodes.len()).expect("few");
            let fair = all / nodes..=all.div_ceil(nodes);
            let shares = || self.nodes.iter().map(|node| partitions_of(node, *topic)).collect();
            await_that(&format!("{} is shared evenly", topic.name()), shares, |shares: &Vec<u32>| {
                shares.iter().sum::<u32>() == all && shares.iter().all(|share| fair.contains(share))
            });
        }
    }

    /// So many new keys for each partition of a topic, each with its number among those of its partition.
    pub fn for_each_partition(
        &self,
        topic: Topic,
        count: usize,
        new: impl Fn() -> String,
    ) -> Vec<(String, usize)> {
        let topics = self.topics();
        let mut found = vec![0; topics.partitions(topic) as usize];
        let mut all = Vec::new();
        while found.iter().any(|found| *found < count) {
            let key = new();
            let found = &mut found[topics.partition(topic, key.as_bytes()) as usize];
            if *found < count {
                all.push((key, *found));
                *found += 1;
            }
        }
        all
    }

    /// All values that lie in a topic now, each partition in its order.
    pub fn read_topic(&self, topic: Topic) -> Vec<Vec<u8>> {
        self.records(topic).into_iter().map(|record| record.value).collect()
    }

    /// The same with their places and keys.
    pub fn records(&self, topic: Topic) -> Vec<Record> {
        let deadline = Instant::now() + PATIENCE;
        let reader = Reader::open(&self.brokers(), &self.topics().name(topic), &From::Start, deadline);
        let mut reader = reader.expect("the topic is there");
        let mut records = Vec::new();
        while !reader.at_end() && Instant::now() < deadline {
            records.extend(reader.poll(1_000, deadline).expect("Kafka answers"));
        }
        records
    }

    /// Where the partitions of a topic end now.
    pub fn ends(&self, topic: Topic) -> Vec<u64> {
        let name = self.topics().name(topic);
        let reader = Reader::open(&self.brokers(), &name, &From::End, Instant::now() + PATIENCE);
        reader.expect("the topic is there").next_offsets().to_vec()
    }

    /// How far the handlers of a topic have come in each partition.
    pub fn looked_at(&self, topic: Topic) -> Vec<u64> {
        let sql =
            "SELECT enumeration, value FROM segment WHERE segment_type = 'consumer' AND table_name = $1";
        let mut looked_at = vec![0; self.topics().partitions(topic) as usize];
        for row in self.sql().query(sql, &[&topic.name()]).expect("rows") {
            let (partition, offset): (i32, i64) = (row.get(0), row.get(1));
            looked_at[usize::try_from(partition).expect("few")] = u64::try_from(offset).expect("an offset");
        }
        looked_at
    }

    /// Waits until all that lies in these topics now was looked at.
    pub fn await_looked_at(&self, topics: &[Topic]) {
        for topic in topics {
            let ends = self.ends(*topic);
            let what = format!("{} is looked at up to {ends:?}", topic.name());
            await_that(
                &what,
                || self.looked_at(*topic),
                |at| at.iter().zip(&ends).all(|(at, end)| at >= end),
            );
        }
    }

    /// The same, and until all that came of it was sent, and so on until nothing more comes.
    pub fn await_read(&self, topics: &[Topic]) {
        let ends = || topics.iter().map(|topic| self.ends(*topic)).collect::<Vec<_>>();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let before = ends();
            self.await_looked_at(topics);
            self.await_count("SELECT count(*) FROM outbox", |rows| rows == 0);
            if ends() == before {
                return;
            }
            assert!(Instant::now() < deadline, "more and more comes: {before:?}");
        }
    }

    pub fn sql(&self) -> Client {
        self.database.sql()
    }

    pub fn count(&self, sql: &str) -> i64 {
        self.database.count(sql)
    }

    /// Runs `holdfast verify` and requires that everything adds up.
    #[track_caller]
    pub fn verify(&self) {
        let verified = run(&["verify", "--store", self.url()]);
        assert!(verified.status.success(), "{verified:?}");
    }

    /// Waits until no checkout is open.
    pub fn await_no_open_checkout(&self) {
        self.await_count(OPEN_CHECKOUTS, |open| open == 0);
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
        self.await_looked_at(&[Topic::Transfers, Topic::Position, Topic::Notifications]);
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
        wait_for(&format!("{count} lines with '{part}'"), || {
            let text = self.text();
            // The last may not be written to its end.
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let found: Vec<String> =
                whole.lines().filter(|line| line.contains(part)).map(str::to_owned).collect();
            if found.len() >= count { Ok(found) } else { Err(text) }
        })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Before the database goes.
        self.nodes.clear();
    }
}
