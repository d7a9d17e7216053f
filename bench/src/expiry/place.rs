//! A database of its own on the server that was named: whatever lies there already is not touched.

use postgres::{Client, Config, NoTls};

use crate::BenchError;

/// The database of one run; gone when dropped, unless it is kept.
pub(crate) struct Place {
    server: Config,
    name: String,
    keep: bool,
    /// Where the store opens it.
    pub(crate) url: String,
}

impl Place {
    pub(crate) fn create(server: &str, keep: bool) -> Result<Place, BenchError> {
        Place::named(server, format!("holdfast_bench_{}", std::process::id()), keep)
    }

    /// One more beside the first, never kept.
    pub(crate) fn create_second(server: &str) -> Result<Place, BenchError> {
        Place::named(server, format!("holdfast_bench_{}_second", std::process::id()), false)
    }

    fn named(server: &str, name: String, keep: bool) -> Result<Place, BenchError> {
        let config: Config = server.parse().map_err(BenchError::database("read --store"))?;
        let url = with_database(server, &name)?;
        let mut client = config.connect(NoTls).map_err(BenchError::database("connect to the server"))?;
        client
            .batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
            .and_then(|()| client.batch_execute(&format!("CREATE DATABASE {name}")))
            .map_err(BenchError::database("create a database for the run"))?;
        Ok(Place { server: config, name, keep, url })
    }

    /// A plain connection, with the planner's own settings.
    pub(crate) fn client(&self) -> Result<Client, BenchError> {
        Client::connect(&self.url, NoTls).map_err(BenchError::database("connect to the run's database"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.keep {
            eprintln!("the data is in the database {}", self.name);
            return;
        }
        let dropped = self.server.connect(NoTls).and_then(|mut client| {
            client.batch_execute(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name))
        });
        if let Err(error) = dropped {
            eprintln!("holdfast: the database {} could not be removed: {error}", self.name);
        }
    }
}

/// The address with another database in it.
fn with_database(server: &str, name: &str) -> Result<String, BenchError> {
    let (address, options) =
        server.split_once('?').map_or((server, None), |(left, right)| (left, Some(right)));
    let (scheme, rest) = address.split_once("://").ok_or_else(|| {
        BenchError::Options("--store must be postgres://user@host:port/database".to_owned())
    })?;
    let host = rest.split_once('/').map_or(rest, |(host, _)| host);
    let options = options.map_or_else(String::new, |options| format!("?{options}"));
    Ok(format!("{scheme}://{host}/{name}{options}"))
}

#[cfg(test)]
mod tests {
    use super::with_database;

    #[test]
    fn only_the_database_changes() {
        let other = |server| with_database(server, "x").ok();
        assert_eq!(other("postgres://u:p@h:5/d").as_deref(), Some("postgres://u:p@h:5/x"));
        assert_eq!(other("postgres://h?sslmode=disable").as_deref(), Some("postgres://h/x?sslmode=disable"));
        assert_eq!(other("h/d"), None);
    }
}
