//! Whether a broker answers, learned from the client's own statistics and errors, and without asking anybody.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rdkafka::error::{KafkaError as ClientError, RDKafkaErrorCode};
use rdkafka::statistics::Statistics;

/// Whether Kafka can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// No broker has answered yet.
    Connecting,
    /// At least one broker answers.
    Up,
    /// None does. The client goes on trying by itself.
    Down {
        /// Since when.
        since: Instant,
        /// What it last said.
        why: String,
    },
}

/// What a client has told of itself.
#[derive(Debug)]
pub(crate) struct Watch(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    health: Health,
    last_error: String,
    /// The end of each partition as the brokers last told it.
    ends: BTreeMap<(String, i32), i64>,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch(Mutex::new(Seen {
            health: Health::Connecting,
            last_error: String::new(),
            ends: BTreeMap::new(),
        }))
    }
}

impl Seen {
    /// The last error of a broker says why; how many are down, as the client has it, says little.
    fn go_down(&mut self, otherwise: &str) {
        let why = if self.last_error.is_empty() { otherwise.to_owned() } else { self.last_error.clone() };
        self.health = Health::Down { since: Instant::now(), why };
    }
}

/// The client's `BROKER/ID: Connect to … failed: CAUSE (after 3ms in state CONNECT)` with the cause first, and no more than
/// is needed: it stands in answers that have room for a line.
pub(crate) fn in_short(said: &str) -> String {
    let said = said.split(" (after ").next().unwrap_or(said);
    let Some((broker, what)) = said.split_once(": ") else { return said.to_owned() };
    let cause = what.rsplit("failed: ").next().unwrap_or(what);
    let broker = broker.split('/').next().unwrap_or(broker);
    format!("{cause} ({broker})")
}

impl Watch {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        // Whoever panicked left whole values behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client said how things stand.
    pub(crate) fn statistics(&self, statistics: &Statistics) {
        let mut seen = self.seen();
        // Those who were only named to find the others have no number and may well stay without a connection.
        let up = statistics.brokers.values().any(|broker| broker.state == "UP");
        if up {
            seen.health = Health::Up;
        } else if seen.health == Health::Up {
            seen.go_down("no broker answers");
        }
        for (topic, told) in &statistics.topics {
            for (partition, told) in &told.partitions {
                if told.hi_offset >= 0 {
                    seen.ends.insert((topic.clone(), *partition), told.hi_offset);
                }
            }
        }
    }

    /// The client met an error. Returns whether it is that all brokers are down.
    pub(crate) fn client_error(&self, error: &ClientError, why: &str) -> bool {
        let all_down = error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown);
        self.error(all_down, why);
        all_down
    }

    pub(crate) fn error(&self, all_down: bool, why: &str) {
        let mut seen = self.seen();
        if !all_down {
            seen.last_error = in_short(why);
        } else if !matches!(seen.health, Health::Down { .. }) {
            seen.go_down(why);
        }
    }

    /// A message came: somebody is there.
    pub(crate) fn heard(&self) {
        let mut seen = self.seen();
        if seen.health != Health::Up {
            seen.health = Health::Up;
        }
    }

    pub(crate) fn health(&self) -> Health {
        self.seen().health.clone()
    }

    /// Where the partition ended when the brokers last told.
    pub(crate) fn end(&self, topic: &str, partition: u32) -> Option<u64> {
        let partition = i32::try_from(partition).ok()?;
        self.seen().ends.get(&(topic.to_owned(), partition)).and_then(|end| u64::try_from(*end).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn down_is_said_once_and_ends_with_the_first_message() {
        let watch = Watch::default();
        assert_eq!(watch.health(), Health::Connecting);
        watch.error(false, "one broker went");
        assert_eq!(watch.health(), Health::Connecting);
        watch.error(true, "all went");
        let Health::Down { since, why } = watch.health() else { panic!("it is down") };
        assert_eq!(why, "one broker went", "that says more than how many are down");
        watch.error(true, "still");
        assert_eq!(watch.health(), Health::Down { since, why });
        watch.heard();
        assert_eq!(watch.health(), Health::Up);
    }

    #[test]
    fn the_cause_comes_first_and_alone() {
        let refused = "127.0.0.1:9092/bootstrap: Connect to ipv4#127.0.0.1:9092 failed: Connection refused \
                       (after 0ms in state CONNECT)";
        assert_eq!(in_short(refused), "Connection refused (127.0.0.1:9092)");
        assert_eq!(in_short("[::1]:1/1: Disconnected (after 7ms in state UP)"), "Disconnected ([::1]:1)");
        assert_eq!(in_short("2/2 brokers are down"), "2/2 brokers are down");
    }

    #[test]
    fn statistics_without_a_broker_end_what_was_up() {
        let watch = Watch::default();
        watch.statistics(&Statistics::default());
        assert_eq!(watch.health(), Health::Connecting);
        watch.heard();
        watch.error(false, "refused");
        watch.statistics(&Statistics::default());
        assert!(matches!(watch.health(), Health::Down { why, .. } if why == "refused"));
    }
}
