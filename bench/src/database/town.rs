//! A database and topics of the run's own on the servers that were named, and a node between them.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use holdfast_client::Client;
use holdfast_kafka::{Brokers, TopicSettings};
use holdfast_load::LoadError;
use holdfast_load::bench::{patient_client, runtime};
use holdfast_load::meter::Counters;
use holdfast_load::report::Report;
use holdfast_load::server::Server;
use tokio::runtime::Runtime;

use super::Servers;
use super::costs::{Costs, Watched};
use super::own::OwnDatabase;

/// How long a node may take until it listens: it makes topics and tables first.
const START_MAX: Duration = Duration::from_secs(90);
/// How long Kafka may take to forget the run's topics.
const REMOVE_WAIT: Duration = Duration::from_secs(30);

/// Removes the run's topics when it goes.
pub(crate) struct Topics {
    pub(crate) brokers: Brokers,
    pub(crate) settings: TopicSettings,
}

impl Drop for Topics {
    fn drop(&mut self) {
        let removed = self.settings.remove(&self.brokers, Instant::now() + REMOVE_WAIT);
        if let Err(error) = removed {
            eprintln!("holdfast-bench: the topics {}* could not be removed: {error}", self.settings.prefix);
        }
    }
}

/// A node that runs, and who looks at it.
struct Node {
    server: Server,
    client: Client,
    watched: Watched,
}

/// Everything that the run has made. The node goes first, then topics and databases.
pub(crate) struct Town {
    node: Option<Node>,
    pub(crate) topics: Topics,
    pub(crate) place: OwnDatabase,
    /// What the servers promise.
    pub(crate) promises: String,
    pub(crate) runtime: Runtime,
}

impl Town {
    /// The servers, and no node yet. Topics and tables are made by whoever needs them first.
    pub(crate) fn lay_out(servers: &Servers) -> anyhow::Result<Town> {
        let Servers { log, store, partitions, keep, .. } = servers;
        let brokers: Brokers = log.parse().context("cannot read --log")?;
        let mut place = OwnDatabase::create(store, *keep)?;
        let promises = format!(
            "{}; Kafka: acks=all, idempotent producers, {partitions} partitions each; Kafka, PostgreSQL, one node with all \
             roles and the load on this machine",
            place.promises()?
        );
        let prefix = format!("bench-{}-", std::process::id());
        let settings = TopicSettings { shop: Some(*partitions), ..TopicSettings::of(prefix, *partitions) };
        let topics = Topics { brokers, settings };
        Ok(Town { node: None, topics, place, promises, runtime: runtime()? })
    }

    /// Starts the node, with so many connections to it.
    pub(crate) fn open_node(
        &mut self,
        program: &Path,
        servers: &Servers,
        directory: &Path,
        connections: usize,
    ) -> anyhow::Result<()> {
        let (partitions, prefix) = (servers.partitions.to_string(), &self.topics.settings.prefix);
        let flags: [(&str, &str); 4] = [
            ("log", &servers.log),
            ("store", &self.place.url),
            ("cluster.prefix", prefix),
            ("cluster.partitions", &partitions),
        ];
        // A node keeps no data, but looks for its keys there: not for those of whoever runs this.
        let mut arguments: Vec<OsString> = vec!["--data".into(), Server::data_folder(directory).into()];
        for (name, value) in flags {
            arguments.extend(["--set".into(), format!("{name}={value}").into()]);
        }
        let server = Server::start_with(program, directory, &arguments, START_MAX)?;
        let client = self.runtime.block_on(patient_client(&server.address, connections))?;
        let watched = Watched::find(server.pid(), &mut self.place.client, &servers.log, prefix)?;
        self.node = Some(Node { server, client, watched });
        Ok(())
    }

    /// Ends the node. What it has left unfinished would show in the books.
    pub(crate) fn close_node(&mut self) -> anyhow::Result<()> {
        self.node.take().map_or(Ok(()), |node| Ok(node.server.stop()?))
    }

    /// Where the node listens; nowhere if there is none.
    pub(crate) fn address(&self) -> &str {
        self.node.as_ref().map_or("", |node| &node.server.address)
    }

    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        self.node.as_ref().map(|node| node.client.clone()).context("there is no node")
    }

    /// Says so if not all costs can be read.
    pub(crate) fn note_unseen(&self, report: &mut Report) {
        if !self.node.as_ref().is_some_and(|node| node.watched.sees_all()) {
            report.note("costs of servers that cannot be looked into from here are 0");
        }
    }

    /// Has so many rounds driven, and tells what each cost; of the handlers those of these topics.
    pub(crate) fn measure<T>(
        &mut self,
        rounds: u64,
        topics: &[&str],
        drive: impl Future<Output = Result<T, LoadError>>,
    ) -> anyhow::Result<(T, Costs)> {
        let Town { node, place, runtime, .. } = self;
        let Node { client, watched, .. } = node.as_ref().context("there is no node")?;
        let mut read = || {
            let counters = runtime.block_on(Counters::read(client))?;
            watched.read(&mut place.client, counters)
        };
        let before = read()?;
        let driven = runtime.block_on(drive)?;
        let after = read()?;
        Ok((driven, watched.costs(&before, &after, rounds, topics)))
    }
}
