//! One data directory through several lives of its server, and what its books must say.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_client::{Client, ClientOptions};
use holdfast_domain::ids::Millis;

use super::flow::{Halves, Load};
use super::options::{DepthOptions, LONG_EXPIRY};
use crate::BenchError;
use crate::child::Server;
use crate::drive::after;
use crate::meter::Books;
use crate::options::{CALL_DEADLINE, IN_FLIGHT_MAX, Payers};
use crate::payments::{Parties, Payments};

/// How long a server with much history may take until it listens, so that a slow one is measured and not given up.
const START_MAX: Duration = Duration::from_secs(900);
/// The pause between two questions for `/health`.
const HEALTH_EVERY: Duration = Duration::from_millis(2);

/// Payments in a row that were all acknowledged.
#[derive(Debug, Clone)]
pub(super) struct Stretch {
    pub(super) name: String,
    pub(super) numbers: Range<u64>,
    /// A repeat must say the same.
    pub(super) expiration: Millis,
}

/// How long a start took, from the start of the program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Started {
    pub(super) begun: Instant,
    pub(super) listening: Duration,
    pub(super) ready: Duration,
}

pub(super) struct Session<'a> {
    pub(super) options: &'a DepthOptions,
    pub(super) place: &'a Path,
    server: Option<Server>,
    client: Client,
    payments: Payments,
    next: u64,
    /// What the books must say.
    pub(super) committed: u64,
    pub(super) open_holds: u64,
    pub(super) expired: u64,
    /// What may be asked for again.
    pub(super) stretches: Vec<Stretch>,
}

impl<'a> Session<'a> {
    pub(super) async fn open(options: &'a DepthOptions, place: &'a Path) -> Result<Session<'a>, BenchError> {
        let server = Server::start(&options.program, place)?;
        let client = connect(options, &server.address).await?;
        let parties = Parties::create(&client, options.seed, options.accounts).await?;
        let payments = Payments::new(parties, Payers::Uniform, options.seed);
        Ok(Session {
            options,
            place,
            server: Some(server),
            client,
            payments,
            next: 0,
            committed: 0,
            open_holds: 0,
            expired: 0,
            stretches: Vec::new(),
        })
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn payments(&self) -> &Payments {
        &self.payments
    }

    pub(super) fn pid(&self) -> u32 {
        self.server.as_ref().map_or(0, Server::pid)
    }

    pub(super) fn address(&self) -> &str {
        self.server.as_ref().map_or("", |server| &server.address)
    }

    /// Numbers that no other payment has.
    pub(super) fn take_numbers(&mut self, count: u64) -> Range<u64> {
        let start = self.next;
        self.next += count;
        start..self.next
    }

    /// Whole payments, ready to be sent, with the expiration that they say.
    pub(super) fn make_loads(&mut self, count: u64) -> Result<(Arc<Vec<Load>>, Millis), BenchError> {
        let (numbers, expiration) = (self.take_numbers(count), after(LONG_EXPIRY));
        let loads = self.make(numbers, Halves::Both, expiration)?;
        Ok((loads, expiration))
    }

    pub(super) fn make(
        &self,
        numbers: Range<u64>,
        halves: Halves,
        expiration: Millis,
    ) -> Result<Arc<Vec<Load>>, BenchError> {
        Load::make_all(&self.payments, numbers, self.options.records(), halves, expiration).map(Arc::new)
    }

    /// `kill -9`, and waits until the process is gone.
    pub(super) fn kill(&mut self) {
        drop(self.server.take());
    }

    /// Asks the server to end and waits until it has.
    pub(super) fn stop(&mut self) -> Result<(), BenchError> {
        self.server.take().map_or(Ok(()), |server| server.stop_within(START_MAX))
    }

    /// Starts a server on what the last one left.
    pub(super) async fn start(&mut self) -> Result<Started, BenchError> {
        let begun = Instant::now();
        let server = Server::start_within(&self.options.program, self.place, START_MAX)?;
        let listening = begun.elapsed();
        self.client = connect(self.options, &server.address).await?;
        self.server = Some(server);
        while let Err(error) = self.client.get("/health").await {
            if begun.elapsed() > START_MAX {
                return Err(BenchError::client("waiting for /health")(error));
            }
            tokio::time::sleep(HEALTH_EVERY).await;
        }
        Ok(Started { begun, listening, ready: begun.elapsed() })
    }

    /// The server must count what was acknowledged, no more and no less.
    pub(super) async fn check_books(&self, when: &str) -> Result<(), BenchError> {
        let books = Books::read(&self.client).await?;
        let expected = Books {
            committed: self.committed,
            open_holds: self.open_holds,
            expired: self.expired,
            ..Books::default()
        };
        if books == expected {
            return Ok(());
        }
        Err(BenchError::Books(format!("{when}: {books:?} where {expected:?} was acknowledged")))
    }

    /// Bytes on the disk by folder of the data directory; loose files count as `files`.
    pub(super) fn folder_bytes(&self) -> BTreeMap<String, u64> {
        let mut folders = BTreeMap::new();
        for entry in std::fs::read_dir(Server::data_folder(self.place)).into_iter().flatten().flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let name =
                if is_folder { entry.file_name().to_string_lossy().into_owned() } else { "files".into() };
            *folders.entry(name).or_insert(0) += bytes_below(&entry.path());
        }
        folders
    }
}

/// What a file or folder takes on the disk. A file that goes away meanwhile counts as nothing.
fn bytes_below(path: &Path) -> u64 {
    const BLOCK_BYTES: u64 = 512;
    let Ok(meta) = std::fs::symlink_metadata(path) else { return 0 };
    let own = if meta.is_file() { meta.blocks() * BLOCK_BYTES } else { 0 };
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    own + entries.map(|entry| bytes_below(&entry.path())).sum::<u64>()
}

async fn connect(options: &DepthOptions, address: &str) -> Result<Client, BenchError> {
    let client = Client::connect(ClientOptions {
        connections: options.connections(),
        calls_max: IN_FLIGHT_MAX,
        deadline: CALL_DEADLINE,
        attempt_max: CALL_DEADLINE,
        ..ClientOptions::to(address)
    });
    client.await.map_err(BenchError::client("connecting to the server"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_takes_what_its_files_take() {
        let folder = tempfile::tempdir().expect("a folder");
        let deep = folder.path().join("a/b");
        std::fs::create_dir_all(&deep).expect("folders");
        assert_eq!(bytes_below(folder.path()), 0);
        let file = deep.join("c");
        std::fs::write(&file, vec![7; 100_000]).expect("a file");
        std::fs::File::open(&file).and_then(|file| file.sync_all()).expect("synced");
        assert!(bytes_below(folder.path()) >= 100_000);
        assert_eq!(bytes_below(&folder.path().join("none")), 0);
    }
}
