//! The topic `outcome-offsets`: from where a fresh order consumer has to read, partition by partition.

use std::collections::BTreeMap;

use holdfast_kafka::Topic;
use holdfast_services::PATIENCE;
use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;

use crate::support::world::on_runtime;
use crate::world::World;

/// Whether anything went wrong meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    Calm,
    /// What a node had in its hand when it was stopped may leave it later: a repeat of what was told before.
    Troubled,
}

/// What was told of each partition, in order.
fn told(world: &World) -> BTreeMap<u32, Vec<u64>> {
    let mut told: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    for record in world.records(Topic::OutcomeOffsets) {
        let partition = text(&record.key).parse().expect("the key is a partition");
        told.entry(partition).or_default().push(text(&record.value).parse().expect("an offset"));
    }
    told
}

/// Nothing is open: the topic and the table say that a fresh consumer need not read anything.
pub fn judge(world: &World, times: Times) {
    world.await_count("SELECT count(*) FROM outbox", |rows| rows == 0);
    let behind = "SELECT count(*) FROM segment s LEFT JOIN outcome_offset o ON o.partition = s.enumeration
        WHERE s.segment_type = 'consumer' AND s.table_name = 'outcomes' AND s.value > coalesce(o.value, 0)";
    assert_eq!(world.count(behind), 0, "nothing is open, so nothing has to be read again");
    let rows = world.sql().query("SELECT partition, value FROM outcome_offset", &[]).expect("rows");
    let stored: BTreeMap<u32, u64> = rows
        .iter()
        .map(|row| (u32::try_from(row.get::<_, i32>(0)), u64::try_from(row.get::<_, i64>(1))))
        .map(|(partition, value)| (partition.expect("a partition"), value.expect("an offset")))
        .collect();
    let told = told(world);
    let last: BTreeMap<u32, u64> =
        told.iter().map(|(partition, all)| (*partition, all.iter().copied().max().unwrap_or(0))).collect();
    assert_eq!(last, stored, "the topic tells what is stored, and of each partition");
    for (partition, all) in &told {
        assert!(all.len() > 1, "partition {partition} was told of only once: {all:?}");
        for (at, offset) in all.iter().enumerate() {
            let risen = all[..at].iter().all(|before| before < offset);
            let repeated = times == Times::Troubled && all[..at].contains(offset);
            assert!(risen || repeated, "partition {partition} falls to {offset}: {all:?}");
        }
    }
    assert_eq!(policy(world).as_deref(), Some("compact"), "of each partition the newest is kept");
}

fn policy(world: &World) -> Option<String> {
    let admin: AdminClient<DefaultClientContext> = world.other_client().create().expect("a client");
    let name = world.topics().name(Topic::OutcomeOffsets);
    let options = AdminOptions::new().request_timeout(Some(PATIENCE));
    let asked = on_runtime(admin.describe_configs([&ResourceSpecifier::Topic(&name)], &options));
    let found = asked.expect("Kafka answers").remove(0).expect("the topic has settings");
    found.entry_map().get("cleanup.policy").and_then(|entry| entry.value.clone())
}
