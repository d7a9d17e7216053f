//! Where Kafka is, and what all clients have in common.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rdkafka::ClientConfig;

use crate::KafkaError;

/// The scheme of an address.
const SCHEME: &str = "kafka://";
/// How often a client tells what it sees of the brokers.
const STATISTICS_EVERY: Duration = Duration::from_secs(1);
/// The longest pause between two attempts to reach a broker. The client's own default of 10 s would be most of what a
/// takeover may take.
const RECONNECT_WAIT_MAX: Duration = Duration::from_secs(1);
/// The largest message in bytes, key and framing included, for clients and topics alike.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// The addresses of some brokers of a cluster; the client finds the others through them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brokers(String);

impl FromStr for Brokers {
    type Err = KafkaError;

    /// Reads `kafka://host:port`, with more brokers behind commas.
    fn from_str(text: &str) -> Result<Brokers, KafkaError> {
        let address = || KafkaError::Address(text.to_owned());
        let list = text.strip_prefix(SCHEME).ok_or_else(address)?;
        let good = |broker: &str| {
            broker.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty()
                    && !host.contains(['/', '@', ' '])
                    && port.parse::<u16>().is_ok_and(|port| port > 0)
            })
        };
        if list.split(',').all(good) { Ok(Brokers(list.to_owned())) } else { Err(address()) }
    }
}

impl fmt::Display for Brokers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Brokers {
    /// The settings that every client begins with.
    pub(crate) fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.0)
            .set("client.id", "holdfast")
            .set("message.max.bytes", MESSAGE_BYTES_MAX.to_string())
            .set("statistics.interval.ms", STATISTICS_EVERY.as_millis().to_string())
            .set("reconnect.backoff.max.ms", RECONNECT_WAIT_MAX.as_millis().to_string())
            // Small requests must not wait for the answers to earlier ones.
            .set("socket.nagle.disable", "true");
        config
    }

    /// The settings of those who only read.
    pub(crate) fn reading(&self, group: &str) -> ClientConfig {
        let mut config = self.config();
        config
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("check.crcs", "true")
            // A full queue is looked at again soon; the default of one second would show as a pause in the flow.
            .set("fetch.queue.backoff.ms", "5")
            // How long a broker may keep an empty answer back. A message that comes ends the wait at once.
            .set("fetch.wait.max.ms", "250");
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_brokers() {
        for (text, list) in
            [("kafka://localhost:9092", "localhost:9092"), ("kafka://a:1,b.c:2,[::1]:3", "a:1,b.c:2,[::1]:3")]
        {
            assert_eq!(text.parse::<Brokers>().unwrap().to_string(), list);
        }
        for bad in [
            "localhost:9092",
            "kafka://",
            "kafka://a",
            "kafka://a:0",
            "kafka://a:x",
            "kafka://a:1,",
            "kafka://a:1/b",
            "kafka://:9092",
            "kafka://a:70000",
        ] {
            assert!(matches!(bad.parse::<Brokers>(), Err(KafkaError::Address(_))), "{bad}");
        }
    }
}
