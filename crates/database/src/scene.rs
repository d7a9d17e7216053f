//! Topics and a database for one test of a part of a node.

use std::sync::Arc;
use std::time::Instant;

use holdfast_kafka::TopicSettings;
use holdfast_services::{Database, PATIENCE};

use crate::settings::NodeSettings;

/// A node's settings for that database, where nobody needs Kafka.
pub(crate) fn without_kafka(database: &Database) -> Arc<NodeSettings> {
    Arc::new(NodeSettings::new("kafka://a:1".parse().unwrap(), database.url(), 1))
}

/// A database, topics of so many partitions each, and a node's settings for them; `None` if this run has no servers.
pub(crate) fn servers(purpose: &str, partitions: u32) -> Option<(Database, NodeSettings)> {
    let brokers: holdfast_kafka::Brokers = holdfast_services::kafka()?.url().parse().unwrap();
    let database = Database::new(purpose)?;
    let topics = TopicSettings::of(database.topic_prefix(), partitions);
    topics.ensure(&brokers, Instant::now() + PATIENCE).unwrap();
    let settings = NodeSettings { topics, ..NodeSettings::new(brokers, database.url(), 1) };
    Some((database, settings))
}
