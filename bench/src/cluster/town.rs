//! The servers: what they promise, a database and topics of the run's own on them, and the node between.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use holdfast_kafka::{Brokers, TopicSettings};
use holdfast_postgres::{Settings, Store};
use postgres::Client;
use serde::Serialize;

use crate::BenchError;
use crate::child::Server;
use crate::expiry::place::Place;

/// How long a node may take until it listens: it makes topics and tables first.
const START_MAX: Duration = Duration::from_secs(90);
/// How long Kafka may take to forget the run's topics.
const REMOVE_WAIT: Duration = Duration::from_secs(30);

/// What PostgreSQL says of itself.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Promises {
    pub postgres: String,
    pub fsync: String,
    pub synchronous_commit: String,
    pub full_page_writes: String,
    pub wal_sync_method: String,
    pub shared_buffers: String,
    pub max_wal_size: String,
    pub wal_compression: String,
}

impl Promises {
    /// Reads them, as a connection of the node would find them, and refuses a server that promises nothing.
    pub(crate) fn read(client: &mut Client) -> Result<Promises, BenchError> {
        let mut show = |name: &str| -> Result<String, BenchError> {
            let row = client.query_one(&format!("SHOW {name}"), &[]);
            Ok(row.map_err(BenchError::database("read a setting of the server"))?.get(0))
        };
        let promises = Promises {
            postgres: show("server_version")?,
            fsync: show("fsync")?,
            synchronous_commit: show("synchronous_commit")?,
            full_page_writes: show("full_page_writes")?,
            wal_sync_method: show("wal_sync_method")?,
            shared_buffers: show("shared_buffers")?,
            max_wal_size: show("max_wal_size")?,
            wal_compression: show("wal_compression")?,
        };
        promises.check()?;
        Ok(promises)
    }

    /// In one line without its end.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Promises { postgres, fsync, synchronous_commit, full_page_writes, wal_sync_method, .. } = self;
        write!(
            f,
            "PostgreSQL {postgres}: fsync {fsync}, synchronous_commit {synchronous_commit}, full_page_writes \
             {full_page_writes}, {wal_sync_method}, shared_buffers {}, max_wal_size {}, wal_compression {}",
            self.shared_buffers, self.max_wal_size, self.wal_compression
        )
    }

    fn check(&self) -> Result<(), BenchError> {
        for (name, found) in [("fsync", &self.fsync), ("full_page_writes", &self.full_page_writes)] {
            if found != "on" {
                return Err(BenchError::Refused(format!(
                    "{name} is {found} on this PostgreSQL: what it acknowledges is not durable, so its figures say nothing. \
                     Set it to on"
                )));
            }
        }
        // `local` and stronger wait for the disk; `off` does not.
        if self.synchronous_commit == "off" {
            return Err(BenchError::Refused(
                "synchronous_commit is off on this PostgreSQL: set it to on, or its figures say nothing"
                    .to_owned(),
            ));
        }
        Ok(())
    }
}

/// Removes the run's topics when it goes.
struct Topics {
    brokers: Brokers,
    settings: TopicSettings,
}

impl Drop for Topics {
    fn drop(&mut self) {
        let removed = self.settings.remove(&self.brokers, Instant::now() + REMOVE_WAIT);
        if let Err(error) = removed {
            eprintln!("holdfast: the topics {}* could not be removed: {error}", self.settings.prefix);
        }
    }
}

/// The servers that a run is given, and the program that is started between them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub(crate) program: &'a Path,
    pub(crate) log: &'a str,
    pub(crate) store: &'a str,
    pub(crate) partitions: u32,
    pub(crate) keep: bool,
}

/// Everything that the run has made. The node goes first, then topics and databases.
pub(crate) struct Town {
    server: Option<Server>,
    topics: Topics,
    pub(crate) place: Place,
    pub(crate) client: Client,
    pub(crate) promises: Promises,
}

impl Town {
    /// Servers with a node between them.
    pub(crate) fn found(ground: &Ground<'_>, directory: &Path) -> Result<Town, BenchError> {
        let mut town = Town::lay_out(ground)?;
        town.open_node(ground, directory)?;
        Ok(town)
    }

    /// The servers, and no node yet. Topics and tables are made by whoever needs them first.
    pub(crate) fn lay_out(ground: &Ground<'_>) -> Result<Town, BenchError> {
        let brokers: Brokers = ground.log.parse().map_err(BenchError::kafka("read --log"))?;
        let place = Place::create(ground.store, ground.keep)?;
        let mut client = place.client()?;
        let promises = Promises::read(&mut client)?;
        let prefix = format!("bench-{}-", std::process::id());
        let settings =
            TopicSettings { shop: Some(ground.partitions), ..TopicSettings::of(prefix, ground.partitions) };
        Ok(Town { server: None, topics: Topics { brokers, settings }, place, client, promises })
    }

    /// Starts the node.
    pub(crate) fn open_node(&mut self, ground: &Ground<'_>, directory: &Path) -> Result<(), BenchError> {
        self.server = Some(start(ground, &self.place, &self.topics.settings.prefix, directory)?);
        Ok(())
    }

    /// Where the node listens; nowhere if there is none.
    pub(crate) fn address(&self) -> &str {
        self.server.as_ref().map_or("", |server| &server.address)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.server.as_ref().map_or(0, Server::pid)
    }

    pub(crate) const fn brokers(&self) -> &Brokers {
        &self.topics.brokers
    }

    pub(crate) const fn topics(&self) -> &TopicSettings {
        &self.topics.settings
    }

    /// Ends the node. What it has left unfinished would show in the books.
    pub(crate) fn close_node(&mut self) -> Result<(), BenchError> {
        self.server.take().map_or(Ok(()), Server::stop)
    }

    pub(crate) fn number(&mut self, sql: &str) -> Result<u64, BenchError> {
        let row = self.client.query_one(sql, &[]).map_err(BenchError::database("read a count"))?;
        Ok(row.get::<_, i64>(0).unsigned_abs())
    }

    pub(crate) fn execute(&mut self, what: &'static str, sql: &str) -> Result<(), BenchError> {
        self.client.batch_execute(sql).map_err(BenchError::database(what))
    }

    pub(crate) fn store(&self) -> Result<Store, BenchError> {
        Ok(Store::open(&self.place.url, Settings::default())?)
    }
}

fn start(ground: &Ground<'_>, place: &Place, prefix: &str, directory: &Path) -> Result<Server, BenchError> {
    let partitions = ground.partitions.to_string();
    let flags: [(&str, &str); 4] = [
        ("log", ground.log),
        ("store", &place.url),
        ("cluster.prefix", prefix),
        ("cluster.partitions", &partitions),
    ];
    // A node keeps no data, but looks for its keys there: not for those of whoever runs this.
    let mut arguments: Vec<OsString> = vec!["--data".into(), Server::data_folder(directory).into()];
    for (name, value) in flags {
        arguments.extend(["--set".into(), format!("{name}={value}").into()]);
    }
    Server::start_with(ground.program, directory, &arguments, START_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_may_lose_what_it_acknowledged_is_refused() {
        let safe = Promises {
            postgres: "17".into(),
            fsync: "on".into(),
            synchronous_commit: "on".into(),
            full_page_writes: "on".into(),
            wal_sync_method: "fdatasync".into(),
            shared_buffers: "256MB".into(),
            max_wal_size: "2GB".into(),
            wal_compression: "off".into(),
        };
        assert!(safe.check().is_ok());
        assert!(Promises { synchronous_commit: "local".into(), ..safe.clone() }.check().is_ok());
        for unsafe_one in [
            Promises { fsync: "off".into(), ..safe.clone() },
            Promises { synchronous_commit: "off".into(), ..safe.clone() },
            Promises { full_page_writes: "off".into(), ..safe },
        ] {
            assert!(unsafe_one.check().is_err(), "{unsafe_one:?}");
        }
    }
}
