//! What cannot be read goes to the dead letters, and everything behind it goes on.

use holdfast_domain::command::Lookup;
use holdfast_domain::ids::{ParticipantId, TransferId};
use holdfast_kafka::Topic;
use holdfast_messages::{DeadLetter, Message, Place, TraceId, TransferCommand, TransferMessage};

use crate::support::{Cluster, Member, next_batch, soon};

fn lookup(id: u128) -> TransferMessage {
    let lookup = Lookup { source: ParticipantId(1), id: TransferId(id) };
    TransferMessage { trace: TraceId(id), command: TransferCommand::Lookup(lookup) }
}

#[test]
fn poison_is_skipped_to_the_dead_letters() {
    let Some(cluster) = Cluster::new("poison", 1) else { return };
    let mut producer = cluster.producer();
    let good = [lookup(1), lookup(2), lookup(3)].map(|message| (message.key(), message.to_json()));
    let later = String::from_utf8(good[1].1.clone()).unwrap().replace("\"v\":1", "\"v\":9");
    let messages: Vec<(&str, &[u8])> = vec![
        (&good[0].0, &good[0].1),
        ("junk", b"\xff\x00 not JSON"),
        (&good[1].0, &good[1].1),
        (&good[1].0, later.as_bytes()),
        ("another key", &good[2].1),
        (&good[2].0, b""),
        (&good[2].0, &good[2].1),
    ];
    producer.send_all(&cluster.batch(Topic::Transfers, &messages), soon()).unwrap();

    let mut consumer = cluster.consumer(Topic::Transfers);
    let mut member = Member::default();
    let (mut taken, mut dead) = (Vec::new(), Vec::new());
    while taken.len() + dead.len() < messages.len() {
        for record in next_batch(&mut consumer, &mut member, 3).records {
            match TransferMessage::read(&record.key, &record.value) {
                Ok(message) => taken.push(message),
                Err(poison) => {
                    let topic = cluster.topics.name(Topic::Transfers);
                    let place = Place { partition: record.partition, offset: record.offset };
                    dead.push(DeadLetter::of(topic, place, &record.key, &record.value, poison.to_string()));
                }
            }
        }
    }
    assert_eq!(taken, [lookup(1), lookup(2), lookup(3)]);
    let letters: Vec<(String, Vec<u8>)> =
        dead.iter().map(|letter| (letter.key(), letter.to_json())).collect();
    producer.send_all(&cluster.batch(Topic::DeadLetters, &letters), soon()).unwrap();

    let read: Vec<DeadLetter> = cluster
        .all(Topic::DeadLetters)
        .iter()
        .map(|record| DeadLetter::read(&record.key, &record.value).unwrap())
        .collect();
    assert_eq!(read, dead);
    let reasons: Vec<(u64, &str)> =
        read.iter().map(|letter| (letter.offset, letter.reason.as_str())).collect();
    let expected =
        [(1, "not a message"), (3, "version 9"), (4, "the key is 'another key'"), (5, "not a message")];
    assert_eq!(reasons.len(), expected.len(), "{reasons:?}");
    for ((offset, reason), (at, said)) in reasons.into_iter().zip(expected) {
        assert!(offset == at && reason.contains(said), "{offset}: {reason} does not say {said}");
    }
    assert_eq!(read[0].value, b"\xff\x00 not JSON");
}
