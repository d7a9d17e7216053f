//! What can go wrong between us and Kafka, said with the name of the thing and what to do.

use std::time::Duration;

/// Why Kafka could not be used.
#[derive(Debug, thiserror::Error)]
pub enum KafkaError {
    /// Not an address of brokers.
    #[error("'{0}' is not an address of Kafka such as kafka://host:9092 or kafka://a:9092,b:9092")]
    Address(String),
    /// librdkafka refuses a setting.
    #[error("the Kafka client cannot be made: {0}")]
    Client(Box<rdkafka::error::KafkaError>),
    /// No broker answered in time.
    #[error("Kafka at {brokers} did not answer within {:.0} s ({doing}): is it running?", waited.as_secs_f64())]
    NoAnswer {
        /// Who was asked.
        brokers: String,
        /// For how long.
        waited: Duration,
        /// For what.
        doing: &'static str,
        /// What the client said. Not a source: its words name no place, and each layer of them says the same.
        cause: Option<Box<rdkafka::error::KafkaError>>,
    },
    /// Kafka refused to make or remove a topic.
    #[error("topic {topic} cannot be {asked}: {why}")]
    Refused {
        /// The topic.
        topic: String,
        /// What was to be done with it.
        asked: &'static str,
        /// Kafka's own words.
        why: String,
    },
    /// A topic has another number of partitions than the settings say.
    #[error(
        "topic {topic} has {found} partitions and the settings say {wanted}. Partition counts are fixed for life: a key \
         that moves to another partition loses its order. Set the partitions of {topic} to {found}, or choose another \
         topic prefix for a new hub"
    )]
    PartitionCount {
        /// The topic.
        topic: String,
        /// What the settings say.
        wanted: u32,
        /// What Kafka has.
        found: u32,
    },
    /// There is no such topic.
    #[error("there is no topic {0}: start a node once, it makes the topics that are missing")]
    NoTopic(String),
    /// The client has given up for good; it must be made anew.
    #[error("the Kafka client has failed for good and must be made anew: {0}")]
    Fatal(String),
}

impl KafkaError {
    pub(crate) fn client(error: rdkafka::error::KafkaError) -> KafkaError {
        KafkaError::Client(Box::new(error))
    }
}
