//! `holdfast log --log`: the topics of a real Kafka, as a person sees them.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Instant;

use holdfast_domain::command::Lookup;
use holdfast_domain::ids::{ParticipantId, TransferId};
use holdfast_kafka::{Brokers, Producer, ProducerSettings, Topic, TopicSettings};
use holdfast_messages::{DeadLetter, Message, Place, TraceId, TransferCommand, TransferMessage};
use holdfast_services::PATIENCE;
use serde_json::{Value, json};

use crate::support::command::{json_lines, refused};
use crate::support::server::{binary, run};

struct Topics {
    url: String,
    settings: TopicSettings,
    producer: Producer,
}

impl Topics {
    fn new(name: &str) -> Option<Topics> {
        let url = holdfast_services::kafka()?.url().to_owned();
        let brokers: Brokers = url.parse().unwrap();
        let prefix = format!("log-{name}-{:016x}-", rand::random::<u64>());
        let settings = TopicSettings { prefix, transfers: 3, ..TopicSettings::default() };
        settings.ensure(&brokers, Instant::now() + PATIENCE).unwrap();
        let producer = Producer::new(ProducerSettings::new(brokers, settings.clone())).unwrap();
        Some(Topics { url, settings, producer })
    }

    fn send(&mut self, topic: Topic, key: &str, value: &[u8]) {
        let message = self.settings.outgoing(topic, key.as_bytes(), value);
        self.producer.send_all(&[message], Instant::now() + PATIENCE).unwrap();
    }

    fn send_message<M: Message>(&mut self, message: &M) {
        self.send(M::TOPIC, &message.key(), &message.to_json());
    }

    fn log(&self, more: &[&str]) -> std::process::Output {
        run(&[&["log", "--log", &self.url, "--prefix", &self.settings.prefix], more].concat())
    }

    fn lines(&self, more: &[&str]) -> Vec<Value> {
        json_lines(&self.log(more))
    }
}

fn lookup(id: u128) -> TransferMessage {
    let lookup = Lookup { source: ParticipantId(4), id: TransferId(id) };
    TransferMessage { trace: TraceId(id), command: TransferCommand::Lookup(lookup) }
}

#[test]
fn every_message_shows_where_it_lies_and_what_it_says() {
    let Some(mut topics) = Topics::new("read") else { return };
    for id in 1..=20 {
        topics.send_message(&lookup(id));
    }
    topics.send(Topic::Transfers, "nobody", b"\xffpoison");
    let place = Place { partition: 2, offset: 9 };
    topics.send_message(&DeadLetter::of("transfers", place, b"nobody", b"\xffpoison", "it is no JSON"));

    let all = topics.lines(&["read", "transfers"]);
    assert_eq!(all.len(), 21);
    let one = all.iter().find(|line| line["key"] == TransferId(7).to_string()).expect("it is there");
    assert_eq!((&one["topic"], &one["type"]), (&json!("transfers"), &json!("lookup")));
    assert_eq!(one["trace"], TraceId(7).to_string());
    assert!(one["time"].as_str().is_some_and(|time| time.starts_with("20")), "{one}");
    assert!(all.iter().any(|line| line["value"] == "\u{fffd}poison"));
    for partition in 0..3 {
        let name = partition.to_string();
        let some = topics.lines(&["read", "transfers", "--partition", &name]);
        let offsets: Vec<u64> = some.iter().map(|line| line["offset"].as_u64().unwrap()).collect();
        assert_eq!(offsets, (0..offsets.len() as u64).collect::<Vec<_>>(), "in order");
        assert!(some.iter().all(|line| line["partition"] == partition));
        let later = topics.lines(&["read", "transfers", "--partition", &name, "--from", "1"]);
        assert_eq!(later, some[1..]);
    }
    assert_eq!(topics.lines(&["read", "transfers", "--count", "5"]).len(), 5);

    let dead = topics.lines(&["read", "dead-letters"]);
    assert_eq!((dead.len(), &dead[0]["key"]), (1, &json!("transfers/2/9")));
    assert_eq!(dead[0]["body"]["reason"], "it is no JSON");
    let counts = topics.lines(&["topics", "--output", "json"]);
    let count = |name: &str| counts.iter().find(|line| line["topic"] == name).unwrap()["messages"].clone();
    assert_eq!(
        (count("transfers"), count("position"), count("dead-letters")),
        (json!(21), json!(0), json!(1))
    );

    for (bad, why) in [
        (&["read", "shop"][..], "there are transfers"),
        (&["read", "transfers", "--partition", "3"], "0 to 2"),
    ] {
        refused(&topics.log(bad), 2, &[why]);
    }
}

#[test]
fn a_tail_shows_what_comes() {
    let Some(mut topics) = Topics::new("tail") else { return };
    topics.send_message(&lookup(1));
    let mut child = binary()
        .args(["log", "--log", &topics.url, "--prefix", &topics.settings.prefix])
        .args(["tail", "transfers", "--from", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["key"], TransferId(1).to_string(), "what was there");
    topics.send_message(&lookup(2));
    assert_eq!(next()["key"], TransferId(2).to_string(), "and what is new");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn flags_of_the_database_profile_need_it() {
    refused(&run(&["log", "read", "transfers", "--partition", "1"]), 2, &["--log"]);
}
