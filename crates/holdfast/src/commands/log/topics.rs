//! The log of the database profile: the topics of its Kafka, read without a group, so that nobody's place in them moves.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use holdfast_kafka::{
    Brokers, From, Health, KafkaError, Outgoing, Producer, ProducerSettings, Reader, Record,
    Topic as KafkaTopic, TopicSettings,
};
use holdfast_messages::{DeadLetter, Message as _};
use serde_json::{Value, json};

use super::super::{Output, bad_input};
use super::{Lines, What};
use crate::log_view::{Topic, time};

/// How long Kafka may be silent while there is something to be read.
const ANSWER_WAIT: Duration = Duration::from_secs(30);
/// The most messages that are taken at once.
const TAKE_MESSAGES: usize = 1_000;
/// Between two looks whether Kafka is still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The topics of the database profile.
pub(super) struct Topics {
    pub(super) brokers: Brokers,
    pub(super) prefix: String,
    pub(super) partition: Option<u32>,
}

impl Topics {
    pub(super) fn run(&self, what: &What, output: Output, lines: &mut Lines<'_>) -> anyhow::Result<()> {
        match *what {
            What::Topics => self.topics(output, lines),
            What::Read { topic, from, count } => self.read(lies_in(topic)?, from, count, lines),
            What::Tail { topic, from } => self.tail(lies_in(topic)?, from, lines),
            What::Retry { ref letter } => self.retry(letter, output, lines),
        }
    }

    fn settings(&self) -> TopicSettings {
        TopicSettings { prefix: self.prefix.clone(), ..TopicSettings::default() }
    }

    fn open(&self, topic: KafkaTopic, from: &From) -> anyhow::Result<Reader> {
        let name = self.settings().name(topic);
        let reader = Reader::open(&self.brokers, &name, from, Instant::now() + ANSWER_WAIT)
            .with_context(|| format!("cannot read the topic {name}"))?;
        let partitions = reader.ends().len();
        if self.partition.is_some_and(|wanted| wanted as usize >= partitions) {
            return Err(bad_input(format!("the topic {name} has the partitions 0 to {}", partitions - 1)));
        }
        Ok(reader)
    }

    fn topics(&self, output: Output, lines: &mut Lines<'_>) -> anyhow::Result<()> {
        for topic in KafkaTopic::ALL {
            let reader = match self.open(topic, &From::Start) {
                // A hub that has had no shop so far.
                Err(error) if topic.is_of_shop() && is_no_topic(&error) => continue,
                opened => opened?,
            };
            let spans = reader.next_offsets().iter().zip(reader.ends()).enumerate();
            let wanted = spans.filter(|(partition, _)| self.wants(u32::try_from(*partition).ok()));
            let messages: u64 = wanted.map(|(_, (first, end))| end.saturating_sub(*first)).sum();
            let partitions = reader.ends().len();
            match output {
                Output::Json => lines
                    .line(&json!({"topic": topic.name(), "messages": messages, "partitions": partitions}))?,
                Output::Text => lines.line(&format_args!("{:<16} {messages}", topic.name()))?,
            }
        }
        Ok(())
    }

    fn wants(&self, partition: Option<u32>) -> bool {
        self.partition.is_none() || self.partition == partition
    }

    /// What lies there now, partition by partition in order.
    fn read(&self, topic: KafkaTopic, from: u64, mut left: u64, lines: &mut Lines<'_>) -> anyhow::Result<()> {
        let mut reader = self.open(topic, &From::Offset(from))?;
        let ends = reader.ends().to_vec();
        let mut heard = Instant::now();
        while !reader.at_end() && left > 0 && !lines.closed {
            for record in heard_of(&mut reader, &mut heard)? {
                let was_there = ends.get(record.partition as usize).is_some_and(|end| record.offset < *end);
                if left > 0 && was_there && record.offset >= from && self.wants(Some(record.partition)) {
                    left -= 1;
                    lines.line(&shown(topic, &record))?;
                }
            }
        }
        Ok(())
    }

    /// Writes the message of a dead letter once more, as it lies in its topic, behind all others of its partition.
    fn retry(&self, letter: &str, output: Output, lines: &mut Lines<'_>) -> anyhow::Result<()> {
        let Some(dead) = self.dead_letter(letter)? else {
            return Err(bad_input(format!(
                "there is no dead letter {letter}; `holdfast log read dead-letters` shows them all"
            )));
        };
        let DeadLetter { topic, partition, offset, .. } = dead;
        let Some(topic) = KafkaTopic::from_name(&topic) else {
            bail!("{letter} is of no topic of this program")
        };
        let name = self.settings().name(topic);
        let deadline = Instant::now() + ANSWER_WAIT;
        let mut reader =
            Reader::open_partition(&self.brokers, &name, partition, &From::Offset(offset), deadline)?;
        let mut found = None;
        while found.is_none() && !reader.at_end() && Instant::now() < deadline {
            found = reader.poll(1, deadline)?.into_iter().next();
        }
        let Some(message) = found.filter(|record| record.offset == offset) else {
            bail!("the message of {letter} lies in its topic no more: {name} keeps less than that")
        };
        let outgoing = Outgoing { topic, partition, key: &message.key, value: &message.value };
        let mut producer = Producer::new(ProducerSettings::new(self.brokers.clone(), self.settings()))?;
        producer
            .send_all(&[outgoing], deadline)
            .map_err(|error| anyhow::anyhow!("Kafka does not take it: {}", error.cause))?;
        match output {
            Output::Json => lines.line(&json!({"writtenAgain": letter})),
            Output::Text => lines.line(&format_args!(
                "{letter} was written again; if it cannot be taken it is a dead letter again"
            )),
        }
    }

    fn dead_letter(&self, letter: &str) -> anyhow::Result<Option<DeadLetter>> {
        let mut reader = self.open(KafkaTopic::DeadLetters, &From::Start)?;
        let mut heard = Instant::now();
        while !reader.at_end() {
            let records = heard_of(&mut reader, &mut heard)?;
            if let Some(record) = records.iter().find(|record| record.key == letter.as_bytes()) {
                return DeadLetter::from_json(&record.value)
                    .map(Some)
                    .map_err(|poison| anyhow::anyhow!("{poison}"));
            }
        }
        Ok(None)
    }

    fn tail(&self, topic: KafkaTopic, from: Option<u64>, lines: &mut Lines<'_>) -> anyhow::Result<()> {
        let begin = from.map_or(From::End, From::Offset);
        let mut reader = self.open(topic, &begin)?;
        let mut is_down = false;
        while !lines.closed {
            for record in reader.poll(TAKE_MESSAGES, Instant::now() + LOOK_EVERY)? {
                if record.offset >= from.unwrap_or(0) && self.wants(Some(record.partition)) {
                    lines.line(&shown(topic, &record))?;
                }
            }
            lines.flush()?;
            let health = reader.health();
            if let (Health::Down { why, .. }, false) = (&health, is_down) {
                eprintln!("holdfast: Kafka does not answer and is waited for: {why}");
            }
            is_down = matches!(health, Health::Down { .. });
        }
        Ok(())
    }
}

/// What comes next. Kafka may not be silent for too long while there is something to be read; `heard` is when it last said something.
fn heard_of(reader: &mut Reader, heard: &mut Instant) -> anyhow::Result<Vec<Record>> {
    let records = reader.poll(TAKE_MESSAGES, Instant::now() + LOOK_EVERY)?;
    if !records.is_empty() {
        *heard = Instant::now();
    } else if heard.elapsed() > ANSWER_WAIT {
        bail!("Kafka has given nothing for {ANSWER_WAIT:?}, and there is more to read");
    }
    Ok(records)
}

fn is_no_topic(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(KafkaError::NoTopic(_)))
}

/// The database profile has a few topics; all else is rows of its database.
fn lies_in(topic: Topic) -> anyhow::Result<KafkaTopic> {
    KafkaTopic::from_name(&topic.name()).ok_or_else(|| {
        let names: Vec<&str> = KafkaTopic::ALL.into_iter().map(KafkaTopic::name).collect();
        let names = names.join(", ");
        bad_input(format!("the database profile has no topic {}; there are {names}", topic.name()))
    })
}

/// One line: where it lies, and what it says. What is no JSON object is shown as text.
fn shown(topic: KafkaTopic, record: &Record) -> Value {
    let mut line = json!({
        "topic": topic.name(),
        "partition": record.partition,
        "offset": record.offset,
        "time": time(record.timestamp),
        "key": String::from_utf8_lossy(&record.key),
    });
    let said = serde_json::from_slice(&record.value);
    match (&mut line, said) {
        (Value::Object(line), Ok(Value::Object(said)))
            if !line.keys().any(|name| said.contains_key(name)) =>
        {
            line.extend(said);
        }
        (line, _) => line["value"] = json!(String::from_utf8_lossy(&record.value)),
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(value: &[u8]) -> Record {
        Record { partition: 3, offset: 7, key: b"k".to_vec(), value: value.to_vec(), timestamp: 0 }
    }

    #[test]
    fn a_line_says_where_a_message_lies_and_what_it_says() {
        let line = shown(KafkaTopic::Position, &record(br#"{"v":1,"type":"position","body":{"account":5}}"#));
        assert_eq!(
            (&line["topic"], &line["partition"], &line["offset"]),
            (&json!("position"), &json!(3), &json!(7))
        );
        assert_eq!((&line["key"], &line["body"]["account"]), (&json!("k"), &json!(5)));
        for other in [&b"\xff not JSON"[..], b"", b"[1]", br#"{"offset":1}"#] {
            let line = shown(KafkaTopic::Transfers, &record(other));
            assert_eq!(line["offset"], 7, "what lies there cannot say where");
            assert_eq!(line["value"], json!(String::from_utf8_lossy(other)));
        }
    }

    #[test]
    fn only_topics_of_the_database_profile_can_be_read() {
        assert_eq!(lies_in(Topic::DeadLetters).unwrap(), KafkaTopic::DeadLetters);
        assert!(lies_in(Topic::Shop).unwrap_err().to_string().contains("notifications"));
    }
}
