//! The PostgreSQL and the Kafka that tests run against.
//!
//! `cargo xtask test` starts both and sets the variables below, so that every test runs. Plain `cargo test` sets none:
//! then [`postgres()`] and [`kafka`] give nothing and the test passes by without a word. A user may name servers of
//! their own; those can be used but neither stopped nor started.
//!
//! | variable | holds |
//! | --- | --- |
//! | `HOLDFAST_TEST_POSTGRES` | `postgres://user@host:port/database` |
//! | `HOLDFAST_TEST_KAFKA` | `kafka://host:port` |
//! | `HOLDFAST_TEST_POSTGRES_CONTROL`, `HOLDFAST_TEST_KAFKA_CONTROL` | the xtask program that stops and starts it |
//! | `HOLDFAST_TEST_REQUIRE_SERVICES` | `1`: a missing server is a failure |
//!
//! A test that stops a service disturbs every other test of its own test binary: give it a binary to itself. Cargo
//! runs one binary after the other.

mod database;

use std::env;
use std::path::PathBuf;
use std::process::Command;

pub use database::{Database, PATIENCE};

/// A server that a test may use.
#[derive(Debug, Clone)]
pub struct Service {
    name: &'static str,
    url: String,
    control: Option<PathBuf>,
}

/// PostgreSQL, if there is one for this run.
///
/// # Panics
/// If there is none although `HOLDFAST_TEST_REQUIRE_SERVICES` is 1.
pub fn postgres() -> Option<Service> {
    find("postgres", "HOLDFAST_TEST_POSTGRES", |name| env::var(name).ok())
}

/// Kafka, if there is one for this run.
///
/// # Panics
/// As [`postgres()`].
pub fn kafka() -> Option<Service> {
    find("kafka", "HOLDFAST_TEST_KAFKA", |name| env::var(name).ok())
}

fn find(name: &'static str, variable: &str, read: impl Fn(&str) -> Option<String>) -> Option<Service> {
    let read = |variable: &str| read(variable).filter(|value| !value.is_empty());
    let Some(url) = read(variable) else {
        let required = read("HOLDFAST_TEST_REQUIRE_SERVICES").is_some_and(|value| value == "1");
        assert!(!required, "{variable} is not set: run the tests with cargo xtask test, or name a server");
        return None;
    };
    Some(Service { name, url, control: read(&format!("{variable}_CONTROL")).map(PathBuf::from) })
}

impl Service {
    /// As Holdfast's own settings take it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Host and port alone, as Kafka's clients want them.
    pub fn address(&self) -> &str {
        self.url.split_once("://").map_or(&self.url, |(_, address)| address)
    }

    /// The means to stop and start it; none for a user's own server.
    pub fn control(&self) -> Option<Control<'_>> {
        self.control.as_ref().map(|program| Control { name: self.name, program })
    }
}

/// Stops and starts a service. Each call returns when it is done: a started service answers, on the port it had.
#[derive(Debug, Clone, Copy)]
pub struct Control<'a> {
    name: &'static str,
    program: &'a PathBuf,
}

impl Control<'_> {
    /// Starts it; nothing happens if it runs.
    pub fn start(&self) {
        self.run("start");
    }

    /// Lets it end in order; nothing happens if it is stopped.
    pub fn stop(&self) {
        self.run("stop");
    }

    /// kill -9.
    pub fn kill(&self) {
        self.run("kill");
    }

    /// # Panics
    /// If the command fails; its own words say why.
    fn run(&self, command: &str) {
        let Control { name, program } = self;
        let done = Command::new(program).args(["services", command, name]).output();
        let done = done.unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "services {command} {name} failed: {said}");
    }
}

#[cfg(test)]
mod tests {
    use super::find;

    fn read<'a>(pairs: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned())
    }

    #[test]
    fn a_server_of_the_user_is_used_and_left_alone() {
        let service = find("kafka", "K", read(&[("K", "kafka://h:1")])).unwrap();
        assert_eq!((service.url(), service.address()), ("kafka://h:1", "h:1"));
        assert!(service.control().is_none());
        let ours = find("kafka", "K", read(&[("K", "kafka://h:1"), ("K_CONTROL", "/xtask")])).unwrap();
        assert!(ours.control().is_some());
    }

    #[test]
    fn without_a_server_a_test_passes_by() {
        assert!(find("kafka", "K", read(&[])).is_none());
        assert!(find("kafka", "K", read(&[("K", "")])).is_none());
    }

    #[test]
    #[should_panic(expected = "K is not set")]
    fn a_required_server_must_be_there() {
        find("kafka", "K", read(&[("HOLDFAST_TEST_REQUIRE_SERVICES", "1")]));
    }
}
