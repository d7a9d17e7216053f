//! Reads a topic without a group: every reader gets every message.
//!
//! A node tails `notifications` from the end to answer those who wait at it; `holdfast log` reads from the start.

use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError as ClientError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use crate::consumer::GroupContext;
use crate::topics::left;
use crate::{Brokers, Health, KafkaError, Record};

/// The client wants a group to be named, but only who subscribes joins one, and a reader does not.
const GROUP_NEVER_JOINED: &str = "holdfast-reader";
/// How many bytes are fetched ahead of the reader.
const AHEAD_BYTES_MAX: usize = 16 << 20;
/// How many messages are fetched ahead of the reader.
const AHEAD_MESSAGES_MAX: usize = 20_000;

/// How soon a partition without a leader is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// Where to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// At the first message that is still there.
    Start,
    /// Behind the last message: only what is written from now on.
    End,
    /// At this offset in every partition. One before the log's start begins at the start, one behind its end at the end.
    Offset(u64),
    /// At these offsets, one for each partition. One before the log's start begins at the start.
    Offsets(Vec<u64>),
}

/// A reader of all partitions of a topic, or of one.
pub struct Reader {
    client: BaseConsumer<GroupContext>,
    /// The next offset of each partition.
    next: Vec<u64>,
    /// Where each partition began and ended when the reader was opened; of those that are not read nothing is known.
    starts: Vec<u64>,
    ends: Vec<u64>,
    /// Whether Kafka has said of each partition that nothing follows what was read. The last offsets may be marks of transactions,
    /// which nobody is given.
    ended: Vec<bool>,
    skipped: u64,
}

impl Reader {
    /// Opens a reader of a topic by its full name. What is written after this has returned is read, also from the end.
    ///
    /// # Errors
    /// If there is no such topic, or Kafka does not answer by the deadline.
    pub fn open(
        brokers: &Brokers,
        topic: &str,
        from: &From,
        deadline: Instant,
    ) -> Result<Reader, KafkaError> {
        Reader::open_some(brokers, topic, from, None, deadline)
    }

    /// The same of one partition alone.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open_partition(
        brokers: &Brokers,
        topic: &str,
        partition: u32,
        from: &From,
        deadline: Instant,
    ) -> Result<Reader, KafkaError> {
        Reader::open_some(brokers, topic, from, Some(partition), deadline)
    }

    fn open_some(
        brokers: &Brokers,
        topic: &str,
        from: &From,
        only: Option<u32>,
        deadline: Instant,
    ) -> Result<Reader, KafkaError> {
        let mut config = brokers.reading(GROUP_NEVER_JOINED);
        config
            // What a reader missed while Kafka was away is gone; it goes on with what is there, and counts.
            .set("auto.offset.reset", "earliest")
            .set("queued.min.messages", AHEAD_MESSAGES_MAX.to_string())
            .set("queued.max.messages.kbytes", (AHEAD_BYTES_MAX / 1024).to_string());
        if *from != From::End {
            config.set("enable.partition.eof", "true");
        }
        let client: BaseConsumer<GroupContext> =
            config.create_with_context(GroupContext::default()).map_err(KafkaError::client)?;
        let began = Instant::now();
        let no_answer = |source: ClientError| match source.rdkafka_error_code() {
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                KafkaError::NoTopic(topic.to_owned())
            }
            _ => KafkaError::NoAnswer {
                brokers: brokers.to_string(),
                waited: began.elapsed(),
                doing: "looking where a topic begins and ends",
                cause: Some(Box::new(source)),
            },
        };
        let metadata = client.fetch_metadata(Some(topic), left(deadline)).map_err(no_answer)?;
        let partitions = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
        if partitions == 0 {
            return Err(KafkaError::NoTopic(topic.to_owned()));
        }
        let mut next = vec![0; partitions];
        let (mut starts, mut ends) = (next.clone(), next.clone());
        let mut list = TopicPartitionList::new();
        for number in (0..partitions).filter(|number| only.is_none_or(|only| only as usize == *number)) {
            let partition = i32::try_from(number).expect("Kafka counts partitions so");
            let (first, end) = ends_of(&client, topic, partition, deadline).map_err(no_answer)?;
            let near = |wanted: u64| i64::try_from(wanted).unwrap_or(i64::MAX).clamp(first, end);
            let begin = match from {
                From::Start => first,
                From::End => end,
                From::Offset(wanted) => near(*wanted),
                From::Offsets(offsets) => near(offsets.get(number).copied().unwrap_or(0)),
            };
            list.add_partition_offset(topic, partition, Offset::Offset(begin)).map_err(KafkaError::client)?;
            next[number] = u64::try_from(begin).unwrap_or(0);
            starts[number] = u64::try_from(first).unwrap_or(0);
            ends[number] = u64::try_from(end).unwrap_or(0);
        }
        client.assign(&list).map_err(KafkaError::client)?;
        Ok(Reader { client, next, starts, ends, ended: vec![false; partitions], skipped: 0 })
    }

    /// Waits for the next messages, of any partitions, each partition in order; empty if none came by the deadline.
    ///
    /// # Errors
    /// If the client has failed for good. That Kafka is down is no error: see [`Reader::health`].
    pub fn poll(&mut self, messages_max: usize, deadline: Instant) -> Result<Vec<Record>, KafkaError> {
        let mut records = Vec::new();
        while records.len() < messages_max {
            // What is there is given at once; only for the first is waited.
            let wait = if records.is_empty() {
                deadline.saturating_duration_since(Instant::now())
            } else {
                Duration::ZERO
            };
            match self.client.poll(wait) {
                Some(Ok(message)) => {
                    let record = Record::of(&message);
                    let Some(next) = self.next.get_mut(record.partition as usize) else { continue };
                    if record.offset < *next {
                        continue;
                    }
                    self.skipped += record.offset - *next;
                    *next = record.offset + 1;
                    records.push(record);
                }
                Some(Err(ClientError::MessageConsumptionFatal(code))) => {
                    return Err(KafkaError::Fatal(code.to_string()));
                }
                Some(Err(ClientError::PartitionEOF(partition))) => {
                    let ended = usize::try_from(partition).ok().and_then(|at| self.ended.get_mut(at));
                    ended.into_iter().for_each(|ended| *ended = true);
                    if self.at_end() {
                        break;
                    }
                }
                // The context has seen it too.
                Some(Err(_)) => {}
                None if !records.is_empty() || Instant::now() >= deadline => break,
                None => {}
            }
        }
        if !records.is_empty() {
            self.client.context().watch.heard();
        }
        Ok(records)
    }

    /// Whether all that was there when the reader was opened has been read. What belongs to a transaction that is still open is not
    /// there yet.
    #[must_use]
    pub fn at_end(&self) -> bool {
        let read = self.next.iter().zip(&self.ends).zip(&self.ended);
        read.into_iter().all(|((next, end), ended)| next >= end || *ended)
    }

    /// The next offset of each partition.
    #[must_use]
    pub fn next_offsets(&self) -> &[u64] {
        &self.next
    }

    /// Where each partition began when the reader was opened.
    #[must_use]
    pub fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// Where each partition ended when the reader was opened.
    #[must_use]
    pub fn ends(&self) -> &[u64] {
        &self.ends
    }

    /// How many messages were gone before they could be read.
    #[must_use]
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Whether Kafka answers.
    #[must_use]
    pub fn health(&self) -> Health {
        self.client.context().watch.health()
    }
}

/// Where a partition begins and ends. One that was just made, or whose broker just went, has no leader for a moment.
fn ends_of(
    client: &BaseConsumer<GroupContext>,
    topic: &str,
    partition: i32,
    deadline: Instant,
) -> Result<(i64, i64), ClientError> {
    use RDKafkaErrorCode::{BrokerTransportFailure, LeaderNotAvailable, NotLeaderForPartition};
    loop {
        match client.fetch_watermarks(topic, partition, left(deadline)) {
            Err(error)
                if matches!(
                    error.rdkafka_error_code(),
                    Some(BrokerTransportFailure | LeaderNotAvailable | NotLeaderForPartition)
                ) && Instant::now() < deadline =>
            {
                thread::park_timeout(ASK_AGAIN);
            }
            answer => return answer,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.client.context().leave();
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("next", &self.next).finish_non_exhaustive()
    }
}
