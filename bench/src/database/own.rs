//! A database of its own on the server that was named: whatever lies there already is not touched.

use anyhow::{Context, bail};
use holdfast_postgres::{Settings, Store};
use postgres::{Client, Config, NoTls};

/// The settings of a server that decide what its figures say.
const PROMISES: [&str; 8] = [
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "shared_buffers",
    "max_wal_size",
    "wal_compression",
];

/// The database of one run.
pub(crate) struct OwnDatabase {
    /// Where the store opens it.
    pub(crate) url: String,
    /// A plain connection, with the planner's own settings.
    pub(crate) client: Client,
    _own: Option<Own>,
}

/// A database that was made for the run; gone when dropped, unless it is kept.
struct Own {
    server: Config,
    name: String,
    keep: bool,
}

impl OwnDatabase {
    pub(crate) fn create(server: &str, keep: bool) -> anyhow::Result<OwnDatabase> {
        OwnDatabase::named(server, format!("holdfast_bench_{}", std::process::id()), keep)
    }

    /// One more beside the first, never kept.
    pub(crate) fn create_second(server: &str) -> anyhow::Result<OwnDatabase> {
        OwnDatabase::named(server, format!("holdfast_bench_{}_second", std::process::id()), false)
    }

    fn named(server: &str, name: String, keep: bool) -> anyhow::Result<OwnDatabase> {
        let config: Config = server.parse().context("cannot read --store")?;
        let url = with_database(server, &name)?;
        let mut client = config.connect(NoTls).context("cannot connect to the server")?;
        client
            .batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
            .and_then(|()| client.batch_execute(&format!("CREATE DATABASE {name}")))
            .context("cannot create a database for the run")?;
        let own = Own { server: config, name, keep };
        Ok(OwnDatabase { client: connect(&url)?, url, _own: Some(own) })
    }

    /// A database that is there already and stays.
    #[cfg(test)]
    pub(crate) fn given(url: &str) -> anyhow::Result<OwnDatabase> {
        Ok(OwnDatabase { client: connect(url)?, url: url.to_owned(), _own: None })
    }

    /// One connection more.
    pub(crate) fn connect(&self) -> anyhow::Result<Client> {
        connect(&self.url)
    }

    /// Opens the store, which makes its tables if there are none.
    pub(crate) fn store(&self) -> anyhow::Result<Store> {
        Ok(Store::open(&self.url, Settings::default())?)
    }

    pub(crate) fn number(&mut self, sql: &str) -> anyhow::Result<u64> {
        let row = self.client.query_one(sql, &[]).context("cannot read a count")?;
        Ok(row.get::<_, i64>(0).unsigned_abs())
    }

    pub(crate) fn execute(&mut self, what: &'static str, sql: &str) -> anyhow::Result<()> {
        self.client.batch_execute(sql).with_context(|| format!("cannot {what}"))
    }

    /// As a server that has grown slowly would have done by itself, and not while the clock runs.
    pub(crate) fn settle(&mut self) -> anyhow::Result<()> {
        self.execute("tidy up", "VACUUM (ANALYZE)")?;
        self.checkpoint()
    }

    /// A page's first change after a checkpoint is logged whole: what is compared begins right after one.
    pub(crate) fn checkpoint(&mut self) -> anyhow::Result<()> {
        self.execute("write what is dirty", "CHECKPOINT")
    }

    /// Every account and record agrees with its rows.
    pub(crate) fn verify(&self) -> anyhow::Result<()> {
        match self.store()?.verify()?.findings.first() {
            Some(finding) => bail!("the books do not balance: {}: {}", finding.table, finding.what),
            None => Ok(()),
        }
    }

    /// What the server promises, in one line, as a connection of a node would find it. A server that promises nothing is
    /// refused.
    pub(crate) fn promises(&mut self) -> anyhow::Result<String> {
        let mut found = Vec::new();
        for name in PROMISES {
            let row = self.client.query_one(&format!("SHOW {name}"), &[]);
            found.push((name, row.context("cannot read a setting of the server")?.get::<_, String>(0)));
        }
        check(&found)?;
        let told: Vec<String> = found.iter().map(|(name, value)| format!("{name} {value}")).collect();
        Ok(format!("PostgreSQL: {}", told.join(", ")))
    }
}

fn check(promises: &[(&str, String)]) -> anyhow::Result<()> {
    for (name, found) in promises {
        let is_safe = match *name {
            "fsync" | "full_page_writes" => found == "on",
            // `local` and stronger wait for the disk; `off` does not.
            "synchronous_commit" => found != "off",
            _ => true,
        };
        if !is_safe {
            bail!(
                "{name} is {found} on this PostgreSQL: what it acknowledges is not durable, so its figures say nothing. Set \
                 it to on"
            );
        }
    }
    Ok(())
}

fn connect(url: &str) -> anyhow::Result<Client> {
    Client::connect(url, NoTls).context("cannot connect to the run's database")
}

impl Drop for Own {
    fn drop(&mut self) {
        if self.keep {
            eprintln!("the data is in the database {}", self.name);
            return;
        }
        let dropped = self.server.connect(NoTls).and_then(|mut client| {
            client.batch_execute(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name))
        });
        if let Err(error) = dropped {
            eprintln!("holdfast-bench: the database {} could not be removed: {error}", self.name);
        }
    }
}

/// The address with another database in it.
fn with_database(server: &str, name: &str) -> anyhow::Result<String> {
    let (address, options) =
        server.split_once('?').map_or((server, None), |(left, right)| (left, Some(right)));
    let (scheme, rest) =
        address.split_once("://").context("--store must be postgres://user@host:port/database")?;
    let host = rest.split_once('/').map_or(rest, |(host, _)| host);
    let options = options.map_or_else(String::new, |options| format!("?{options}"));
    Ok(format!("{scheme}://{host}/{name}{options}"))
}

#[cfg(test)]
mod tests {
    use super::{check, with_database};

    #[test]
    fn only_the_database_changes() {
        let other = |server| with_database(server, "x").ok();
        assert_eq!(other("postgres://u:p@h:5/d").as_deref(), Some("postgres://u:p@h:5/x"));
        assert_eq!(other("postgres://h?sslmode=disable").as_deref(), Some("postgres://h/x?sslmode=disable"));
        assert_eq!(other("h/d"), None);
    }

    #[test]
    fn a_server_that_may_lose_what_it_acknowledged_is_refused() {
        let with = |name: &str, value: &str| {
            let mut promises =
                ["fsync", "synchronous_commit", "full_page_writes"].map(|name| (name, "on".to_owned()));
            promises
                .iter_mut()
                .filter(|(known, _)| *known == name)
                .for_each(|(_, found)| value.clone_into(found));
            check(&promises)
        };
        assert!(with("", "").is_ok());
        assert!(with("synchronous_commit", "local").is_ok());
        for name in ["fsync", "synchronous_commit", "full_page_writes"] {
            assert!(with(name, "off").is_err(), "{name}");
        }
    }
}
