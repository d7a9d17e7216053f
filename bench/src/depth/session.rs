//! One data directory through several lives of its server, and what its books must say.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_client::Client;
use holdfast_domain::ids::Millis;

use super::{DepthBench, LONG_EXPIRY};
use holdfast_load::LoadError;
use holdfast_load::batches::{Halves, Load};
use holdfast_load::bench::patient_client;
use holdfast_load::meter::{Books, Reading};
use holdfast_load::payments::{Parties, Payers, Payments, after};
use holdfast_load::server::Server;

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
    pub(super) program: &'a Path,
    pub(super) options: &'a DepthBench,
    pub(super) place: &'a Path,
    server: Option<Server>,
    pub(super) client: Client,
    pub(super) payments: Payments,
    next: u64,
    /// What the books must say.
    pub(super) committed: u64,
    pub(super) open_holds: u64,
    pub(super) expired: u64,
    /// What may be asked for again.
    pub(super) stretches: Vec<Stretch>,
}

impl<'a> Session<'a> {
    pub(super) async fn open(
        program: &'a Path,
        options: &'a DepthBench,
        place: &'a Path,
    ) -> Result<Session<'a>, LoadError> {
        let server = Server::start(program, place)?;
        let client = patient_client(&server.address, options.connections).await?;
        let parties = Parties::create(&client, options.seed, options.accounts).await?;
        let payments = Payments::new(parties, Payers::Uniform, options.seed);
        Ok(Session {
            program,
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

    pub(super) fn pid(&self) -> u32 {
        self.server.as_ref().map_or(0, Server::pid)
    }

    pub(super) fn address(&self) -> &str {
        self.server.as_ref().map_or("", |server| &server.address)
    }

    pub(super) async fn reading(&self) -> Result<Reading, LoadError> {
        Reading::take(&self.client, self.pid(), self.place).await
    }

    /// Numbers that no other payment has.
    pub(super) fn take_numbers(&mut self, count: u64) -> Range<u64> {
        let start = self.next;
        self.next += count;
        start..self.next
    }

    /// Whole payments, ready to be sent, with the expiration that they say.
    pub(super) fn make_loads(&mut self, count: u64) -> Result<(Arc<Vec<Load>>, Millis), LoadError> {
        let (numbers, expiration) = (self.take_numbers(count), after(LONG_EXPIRY));
        let loads = self.make(numbers, Halves::Both, expiration)?;
        Ok((loads, expiration))
    }

    pub(super) fn make(
        &self,
        numbers: Range<u64>,
        halves: Halves,
        expiration: Millis,
    ) -> Result<Arc<Vec<Load>>, LoadError> {
        Load::make_all(&self.payments, numbers, self.options.batch, halves, expiration).map(Arc::new)
    }

    /// `kill -9`, and waits until the process is gone.
    pub(super) fn kill(&mut self) {
        drop(self.server.take());
    }

    /// Asks the server to end and waits until it has.
    pub(super) fn stop(&mut self) -> Result<(), LoadError> {
        self.server.take().map_or(Ok(()), |server| server.stop_within(START_MAX))
    }

    /// Starts a server on what the last one left.
    pub(super) async fn start(&mut self) -> Result<Started, LoadError> {
        let begun = Instant::now();
        let server = Server::start_within(self.program, self.place, START_MAX)?;
        let listening = begun.elapsed();
        self.client = patient_client(&server.address, self.options.connections).await?;
        self.server = Some(server);
        while let Err(error) = self.client.get("/health").await {
            if begun.elapsed() > START_MAX {
                return Err(LoadError::of("waiting for /health")(error));
            }
            tokio::time::sleep(HEALTH_EVERY).await;
        }
        Ok(Started { begun, listening, ready: begun.elapsed() })
    }

    /// The server must count what was acknowledged, no more and no less.
    pub(super) async fn check_books(&self, when: &str) -> Result<(), LoadError> {
        let Session { committed, open_holds, expired, .. } = *self;
        let expected = Books { committed, open_holds, expired, ..Books::default() };
        Books::read(&self.client).await?.must_be(expected, when)
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
