//! A stored offset that the log does not have is told and never guessed away.

use std::time::Instant;

use holdfast_kafka::{Fault, Topic};
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::support::{Cluster, Member, PATIENCE, Store, Told, shortly, soon};

fn faults_of(cluster: &Cluster, member: &mut Member) -> Vec<Told> {
    let mut consumer = cluster.consumer(Topic::Position);
    let faults = |member: &Member| -> Vec<Told> {
        member.told().into_iter().filter(|told| matches!(told, Told::Faulted(..))).collect()
    };
    let deadline = soon();
    while faults(member).is_empty() {
        assert!(Instant::now() < deadline, "{:?} {:?}", member.told(), consumer.numbers());
        let batch = consumer.poll(member, 10, shortly()).unwrap();
        assert_eq!(batch, None, "nothing of a partition whose offset is wrong");
    }
    // It is said once, and shown as long as it lasts.
    assert_eq!(consumer.poll(member, 10, shortly()).unwrap(), None);
    assert!(consumer.numbers().partitions[0].fault.is_some());
    faults(member)
}

#[test]
fn an_offset_below_the_start_of_the_log_is_told() {
    let Some(cluster) = Cluster::new("below", 1) else { return };
    cluster.write(&mut cluster.producer(), Topic::Position, 0..100);
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", cluster.brokers.to_string()).create().unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&cluster.topics.name(Topic::Position), 0, Offset::Offset(50)).unwrap();
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(admin.delete_records(&list, &options)).expect("Kafka deletes");

    let fault = Fault::OutsideLog { wanted: 0, first: 50, end: 100 };
    assert_eq!(faults_of(&cluster, &mut Member::default()), [Told::Faulted(0, fault)]);
    assert!(fault.to_string().contains("next offset is 0 and Kafka has 50 to 100"));
}

#[test]
fn an_offset_behind_the_end_of_the_log_is_told() {
    let Some(cluster) = Cluster::new("behind", 1) else { return };
    cluster.write(&mut cluster.producer(), Topic::Position, 0..100);
    let store = Store::default();
    store.rows().guards.insert(0, (1, 500));
    let fault = Fault::OutsideLog { wanted: 500, first: 0, end: 100 };
    assert_eq!(faults_of(&cluster, &mut Member::of(&store)), [Told::Faulted(0, fault)]);
}
