//! A database of its own for one test.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

/// Longer than anything that a test waits for may take.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks whether something has come about.
const LOOK_EVERY: Duration = Duration::from_millis(5);

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A database on the server of the tests; gone when dropped. To be used on threads that may wait.
#[derive(Debug)]
pub struct Database {
    server: String,
    name: String,
    url: String,
}

impl Database {
    /// An empty one; `None` if this run has no server.
    ///
    /// # Panics
    /// If the server does not make it.
    #[must_use]
    pub fn new(purpose: &str) -> Option<Database> {
        let server = crate::postgres()?.url().to_owned();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("holdfast_{purpose}_{}_{number}", std::process::id());
        Some(Database::made(server, name, ""))
    }

    /// A copy of this one. Nobody may be connected to it.
    ///
    /// # Panics
    /// If the server does not make it.
    #[must_use]
    pub fn copy(&self) -> Database {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let template = format!("TEMPLATE {}", self.name);
        Database::made(self.server.clone(), format!("{}_copy{number}", self.name), &template)
    }

    fn made(server: String, name: String, how: &str) -> Database {
        let mut client = connected(&server);
        client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).expect("dropped");
        client.batch_execute(&format!("CREATE DATABASE {name} {how}")).expect("made");
        let (base, _) = server.rsplit_once('/').expect("an address ends with a database");
        let url = format!("{base}/{name}");
        Database { server, name, url }
    }

    /// Its name: letters, digits and underscores.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What stands before the names of a test's topics, so that they are as much its own as the database.
    #[must_use]
    pub fn topic_prefix(&self) -> String {
        format!("{}-", self.name.replace('_', "-"))
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Throws everybody out and lets nobody in, as if the server were gone.
    ///
    /// # Panics
    /// If the server refuses.
    pub fn shut(&self) {
        let mut server = connected(&self.server);
        server.batch_execute(&format!("ALTER DATABASE {} ALLOW_CONNECTIONS false", self.name)).expect("shut");
        let thrown_out = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = $1";
        server.execute(thrown_out, &[&self.name]).expect("everybody is thrown out");
    }

    /// Lets everybody in again.
    ///
    /// # Panics
    /// If the server refuses.
    pub fn reopen(&self) {
        let open = format!("ALTER DATABASE {} ALLOW_CONNECTIONS true", self.name);
        connected(&self.server).batch_execute(&open).expect("opened");
    }

    /// A connection, as soon as the server takes one.
    ///
    /// # Panics
    /// If it takes none in time.
    #[must_use]
    pub fn sql(&self) -> Client {
        connected(&self.url)
    }

    /// Has statements done.
    ///
    /// # Panics
    /// If one is refused.
    pub fn run(&self, sql: &str) {
        self.sql().batch_execute(sql).expect("the statements are done");
    }

    /// One number from a query.
    ///
    /// # Panics
    /// If it gives none.
    #[must_use]
    pub fn count(&self, sql: &str) -> i64 {
        self.sql().query_one(sql, &[]).expect("the query gives a number").get(0)
    }

    /// Waits until a query gives a number that will do, also if the server is away meanwhile.
    ///
    /// # Panics
    /// If that does not come about in time.
    pub fn await_count(&self, sql: &str, will_do: impl Fn(i64) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut client = self.sql();
        loop {
            let told = match client.query_one(sql, &[]) {
                Ok(row) => {
                    let found: i64 = row.get(0);
                    if will_do(found) {
                        return;
                    }
                    found.to_string()
                }
                Err(error) => {
                    client = self.sql();
                    error.to_string()
                }
            };
            assert!(Instant::now() < deadline, "{sql}: {told}");
            std::thread::park_timeout(LOOK_EVERY);
        }
    }
}

fn connected(url: &str) -> Client {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match Client::connect(url, NoTls) {
            Ok(client) => return client,
            Err(error) => assert!(Instant::now() < deadline, "{url}: {error}"),
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let remove = || {
            if let Ok(mut client) = Client::connect(&self.server, NoTls) {
                // What a failed test leaves behind is in nobody's way.
                let _: Result<(), _> =
                    client.batch_execute(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
            }
        };
        // On a thread of its own: it may be dropped where nobody may wait.
        std::thread::scope(|scope| drop(scope.spawn(remove).join()));
    }
}
