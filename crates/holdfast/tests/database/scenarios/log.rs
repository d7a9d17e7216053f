//! What a file has written to the topics, and what the nodes have said there and to their operators.

use std::collections::BTreeSet;
use std::time::Instant;

use holdfast_kafka::{Outgoing, Producer, Record, Topic};
use holdfast_services::PATIENCE;
use serde_json::{Value, json};

use crate::world::{Telling, World};

/// Ends each value that a file writes. Readers do not mind, and nodes write none: so it is known who has said what.
const MARK: &[u8] = b" ";

/// A message on its way to a topic.
pub struct Written {
    topic: Topic,
    partition: u32,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Written {
    pub fn of(topic: Topic, partition: u32, message: &Value) -> Written {
        let value = [message["value"].to_string().as_bytes(), MARK].concat();
        Written { topic, partition, key: message["key"].to_string().into_bytes(), value }
    }

    fn outgoing(&self) -> Outgoing<'_> {
        Outgoing { topic: self.topic, partition: self.partition, key: &self.key, value: &self.value }
    }
}

pub fn write(producer: &mut Producer, all: &[Written]) {
    let all: Vec<Outgoing<'_>> = all.iter().map(Written::outgoing).collect();
    producer.send_all(&all, Instant::now() + PATIENCE).expect("Kafka takes it");
}

/// A message as it lies in its topic.
pub struct Said {
    pub topic: Topic,
    pub partition: u32,
    pub offset: u64,
    by_the_file: bool,
    key: Value,
    value: Value,
}

impl Said {
    /// All that lies in these topics, each partition in its order.
    pub fn all(world: &World, topics: &[Topic]) -> Vec<Said> {
        let read = |topic: &Topic| {
            world.records(*topic).into_iter().map(|record| Said::of(*topic, &record)).collect::<Vec<_>>()
        };
        topics.iter().flat_map(read).collect()
    }

    fn of(topic: Topic, record: &Record) -> Said {
        let json = |bytes: &[u8]| serde_json::from_slice(bytes).expect("all of it is JSON here");
        Said {
            topic,
            partition: record.partition,
            offset: record.offset,
            by_the_file: record.value.ends_with(MARK),
            key: json(&record.key),
            value: json(&record.value),
        }
    }

    fn is_of(&self, file: &str) -> bool {
        let order = self.key["order_id"].as_str().expect("a key names an order");
        order.strip_prefix(file).is_some_and(|rest| rest.starts_with('.'))
    }

    /// By a node, about an order of that file.
    pub fn is_answer_to(&self, file: &str) -> bool {
        !self.by_the_file && self.is_of(file)
    }

    /// As a file has it among what is sent.
    pub fn shown(&self) -> Value {
        json!({"topic": self.topic.name(), "key": self.key, "value": self.value})
    }

    /// One that its topic cannot have: where it was written by the file, it is one of those that are put aside.
    pub fn is_misplaced_by(&self, file: &str) -> bool {
        let types: &[&str] = match self.topic {
            Topic::Pay => &["pay", "can"],
            Topic::Stock => &["sub", "add"],
            _ => &["psucc", "pfail", "csucc", "ssucc", "sfail", "asucc", "trsucc", "trfail"],
        };
        self.is_of(file) && !types.contains(&self.value["type"].as_str().expect("a type"))
    }
}

/// What cannot be read of what these files have written, and nothing else, has become a dead letter.
pub fn assert_misplaced_are_put_aside<'f>(
    world: &World,
    said: &[Said],
    files: impl Iterator<Item = &'f str> + Clone,
) {
    let misplaced = said.iter().filter(|said| files.clone().any(|file| said.is_misplaced_by(file)));
    let misplaced: BTreeSet<_> =
        misplaced.map(|said| (said.topic.name().to_owned(), said.partition, said.offset)).collect();
    assert_eq!(dead_letters(world), misplaced);
}

/// How many messages a file expects to be misplaced.
pub fn misplaced(expect: &Value) -> usize {
    let alarms = expect["alarms"].as_array().expect("alarms").iter();
    alarms.filter(|alarm| alarm["alarm"] == "misplaced").count()
}

/// The places of all dead letters: topic, partition and offset.
fn dead_letters(world: &World) -> BTreeSet<(String, u32, u64)> {
    let sql =
        "SELECT table_name, enumeration, source_offset FROM dead_letter JOIN segment USING (segment_id)";
    let rows = world.sql().query(sql, &[]).expect("rows");
    let place = |row: &postgres::Row| {
        let (partition, offset): (i32, i64) = (row.get(1), row.get(2));
        (
            row.get(0),
            u32::try_from(partition).expect("a partition"),
            u64::try_from(offset).expect("an offset"),
        )
    };
    rows.iter().map(place).collect()
}

/// The alarms of a file as a set: a node that reads something again says it again. What is misplaced is a dead letter here.
pub fn expected_alarms(expect: &Value) -> BTreeSet<(String, String)> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let all = expect["alarms"].as_array().expect("a list").iter();
    let named = all.filter(|alarm| alarm["alarm"] != "misplaced" && !alarm["key"].is_null());
    named.map(|alarm| (text(&alarm["alarm"]), text(&alarm["reason"]))).collect()
}

/// The lines in which nodes have raised alarms.
pub fn alarm_lines(told: &[Telling]) -> Vec<String> {
    let text: String = told.iter().map(Telling::text).collect();
    text.lines().filter(|line| line.contains(" alarm=")).map(str::to_owned).collect()
}

/// The alarms among them about orders of that file.
pub fn alarms_about(file: &str, lines: &[String]) -> BTreeSet<(String, String)> {
    let beginning = format!(" order {file}.");
    let alarm = |line: &String| {
        let reason = &line[line.find(&beginning)? + 1..];
        let (reason, alarm) = reason.rsplit_once(" alarm=").expect("it has a name");
        Some((alarm.trim_matches('"').to_owned(), reason.to_owned()))
    };
    lines.iter().filter_map(alarm).collect()
}
