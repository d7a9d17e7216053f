//! Topics are made once, by whoever comes first, and their partitions never change.

use std::thread;
use std::time::{Duration, Instant};

use holdfast_kafka::{KafkaError, Topic, TopicSettings, partition_of};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};

use crate::support::{Cluster, PATIENCE, soon};

#[test]
fn missing_topics_are_made_by_any_number_of_nodes_at_once() {
    let Some(kafka) = holdfast_services::kafka() else { return };
    let cluster = Cluster::named(&kafka, &format!("kafka-made-{}-", std::process::id()), 3);
    let Cluster { brokers, topics } = &cluster;
    thread::scope(|scope| {
        let nodes = [(); 4].map(|()| scope.spawn(|| topics.ensure(brokers, soon())));
        nodes.into_iter().for_each(|node| node.join().unwrap().expect("all start"));
    });
    let client: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", brokers.to_string()).create().unwrap();
    for (topic, partitions) in [(Topic::Transfers, 3), (Topic::Notifications, 3), (Topic::DeadLetters, 1)] {
        let metadata = client.fetch_metadata(Some(&topics.name(topic)), PATIENCE).unwrap();
        assert_eq!(metadata.topics()[0].partitions().len(), partitions, "{topic:?}");
    }
}

#[test]
fn another_number_of_partitions_is_refused_with_what_to_do() {
    let Some(cluster) = Cluster::new("count", 3) else { return };
    let changed = TopicSettings { position: 4, ..cluster.topics.clone() };
    let error = changed.ensure(&cluster.brokers, soon()).unwrap_err();
    assert!(matches!(&error, KafkaError::PartitionCount { wanted: 4, found: 3, .. }), "{error}");
    let name = cluster.topics.name(Topic::Position);
    for part in [name.as_str(), "has 3 partitions", "Set the partitions of"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    cluster.topics.ensure(&cluster.brokers, soon()).expect("nothing has changed");
}

#[test]
fn a_kafka_that_is_not_there_is_named_by_the_deadline() {
    let began = Instant::now();
    let nobody = "kafka://127.0.0.1:1".parse().unwrap();
    let error = TopicSettings::default().ensure(&nobody, began + Duration::from_millis(300)).unwrap_err();
    assert!(error.to_string().contains("Kafka at 127.0.0.1:1 did not answer"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn librdkafka_puts_a_key_where_we_put_it() {
    use rdkafka::producer::{FutureProducer, FutureRecord};
    let Some(cluster) = Cluster::new("murmur", 7) else { return };
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.brokers.to_string()).set("partitioner", "murmur2");
    let theirs: FutureProducer = config.create().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let topic = cluster.topics.name(Topic::Transfers);
    for number in 0_u32..50 {
        let key = "x".repeat(number as usize % 9) + &number.wrapping_mul(2_654_435_761).to_string();
        let record = FutureRecord::to(&topic).key(&key).payload("");
        let delivery = runtime.block_on(theirs.send(record, PATIENCE)).expect("Kafka writes");
        assert_eq!(u32::try_from(delivery.partition).unwrap(), partition_of(key.as_bytes(), 7), "{key}");
    }
}

#[test]
fn topics_that_were_only_tried_can_be_removed() {
    let Some(cluster) = Cluster::new("removed", 3) else { return };
    cluster.topics.remove(&cluster.brokers, soon()).expect("they are there");
    // Once more: nothing is left, and that is no error.
    cluster.topics.remove(&cluster.brokers, soon()).expect("they are gone");
    // What is gone can be made anew, with other partitions.
    let fewer = TopicSettings { position: 1, ..cluster.topics.clone() };
    fewer.ensure(&cluster.brokers, soon()).expect("made anew");
}
