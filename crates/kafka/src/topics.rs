//! The topics of a hub: their names, how many partitions they have, and the check of that at start.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication, TopicResult};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError as ClientError, RDKafkaErrorCode};

use crate::brokers::{Brokers, MESSAGE_BYTES_MAX};
use crate::partition::partition_of;
use crate::{KafkaError, Outgoing, PartitionBy, Topic};

/// Partitions of `transfers`, where the settings name none.
const TRANSFERS_PARTITIONS: u32 = 12;
/// Partitions of `position`.
const POSITION_PARTITIONS: u32 = 12;
/// Partitions of `notifications`.
const NOTIFICATIONS_PARTITIONS: u32 = 12;
/// Dead letters are few.
const DEAD_LETTERS_PARTITIONS: u32 = 1;
/// One relay writes them, in one order.
const TOKEN_EVENTS_PARTITIONS: u32 = 1;
/// What other ledgers tell comes in any order.
const TOKEN_UPDATES_PARTITIONS: u32 = 4;
/// There is one value per partition of `outcomes`, read whole by whoever starts.
const OUTCOME_OFFSETS_PARTITIONS: u32 = 1;
/// How long a topic that was made may take until all see it, between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// After this a person who waits is told for what.
const QUIET_WAIT: Duration = Duration::from_secs(2);

/// The topics of one hub. Partition counts are fixed for life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSettings {
    /// Stands before every name, so that several hubs can share a Kafka.
    pub prefix: String,
    /// Partitions of `transfers`.
    pub transfers: u32,
    /// Partitions of `position`.
    pub position: u32,
    /// Partitions of `notifications`.
    pub notifications: u32,
    /// Partitions of `dead-letters`.
    pub dead_letters: u32,
    /// Partitions of `orders`, `pay`, `stock` and `outcomes`: equally many, so that an order has the same number in all of
    /// them. `None`: this hub has no shop, and none of its topics is made.
    pub shop: Option<u32>,
    /// Copies of each new topic; `None`: as the brokers have it.
    pub replication: Option<u16>,
    /// How long new topics keep their messages; `None`: for ever. A handler that is away for longer loses messages, and
    /// the opaque parts of transfers are read from here when they are handed on.
    pub retention: Option<Duration>,
}

impl Default for TopicSettings {
    fn default() -> TopicSettings {
        TopicSettings {
            prefix: String::new(),
            transfers: TRANSFERS_PARTITIONS,
            position: POSITION_PARTITIONS,
            notifications: NOTIFICATIONS_PARTITIONS,
            dead_letters: DEAD_LETTERS_PARTITIONS,
            shop: None,
            replication: None,
            retention: None,
        }
    }
}

impl TopicSettings {
    /// Topics under that prefix with so many partitions each; dead letters have as many as ever.
    #[must_use]
    pub fn of(prefix: impl Into<String>, partitions: u32) -> TopicSettings {
        TopicSettings {
            prefix: prefix.into(),
            transfers: partitions,
            position: partitions,
            notifications: partitions,
            ..TopicSettings::default()
        }
    }

    /// The name with prefix.
    #[must_use]
    pub fn name(&self, topic: Topic) -> String {
        format!("{}{}", self.prefix, topic.name())
    }

    /// The topics that this hub has.
    pub fn topics(&self) -> impl Iterator<Item = Topic> + use<> {
        let has_shop = self.shop.is_some();
        Topic::ALL.into_iter().filter(move |topic| has_shop || !topic.is_of_shop())
    }

    /// How many partitions it has; at least one.
    #[must_use]
    pub fn partitions(&self, topic: Topic) -> u32 {
        let partitions = match topic {
            Topic::Transfers => self.transfers,
            Topic::Position => self.position,
            Topic::Notifications => self.notifications,
            Topic::DeadLetters => self.dead_letters,
            Topic::TokenEvents => TOKEN_EVENTS_PARTITIONS,
            Topic::TokenUpdates => TOKEN_UPDATES_PARTITIONS,
            Topic::Orders | Topic::Pay | Topic::Stock | Topic::Outcomes => self.shop.unwrap_or(1),
            Topic::OutcomeOffsets => OUTCOME_OFFSETS_PARTITIONS,
        };
        partitions.max(1)
    }

    /// The partition of a key.
    #[must_use]
    pub fn partition(&self, topic: Topic, key: &[u8]) -> u32 {
        partition_of(key, self.partitions(topic))
    }

    /// A message on its way to the partition of its key.
    #[must_use]
    pub fn outgoing<'a>(&self, topic: Topic, key: &'a [u8], value: &'a [u8]) -> Outgoing<'a> {
        Outgoing { topic, partition: self.partition(topic, key), key, value }
    }

    /// The same, where something else than the key decides on the partition.
    #[must_use]
    pub fn outgoing_by<'a>(
        &self,
        topic: Topic,
        by: &PartitionBy,
        key: &'a [u8],
        value: &'a [u8],
    ) -> Outgoing<'a> {
        let partition = match by {
            PartitionBy::Key => self.partition(topic, key),
            PartitionBy::Other(other) => self.partition(topic, other.as_bytes()),
            PartitionBy::Number(number) => *number,
        };
        Outgoing { topic, partition, key, value }
    }

    /// Makes the topics that are missing and checks the partitions of those that are there. Any number of nodes may do
    /// so at once.
    ///
    /// # Errors
    /// [`KafkaError::PartitionCount`] if a topic has another number of partitions: then nothing may start. Otherwise
    /// that Kafka did not answer by the deadline, or will not make a topic.
    pub fn ensure(&self, brokers: &Brokers, deadline: Instant) -> Result<(), KafkaError> {
        let admin = Admin::new(brokers, deadline, "making and checking topics")?;
        let missing = self.missing(&admin)?;
        if missing.is_empty() {
            return Ok(());
        }
        self.make(&admin, &missing)?;
        // A topic that was just made shows a little later.
        loop {
            let missing = self.missing(&admin)?;
            if missing.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(admin.no_answer(None));
            }
            thread::park_timeout(LOOK_AGAIN);
        }
    }

    /// Removes the topics with all that lies in them; those that are not there are no error. For a hub that was made to
    /// try or to measure.
    ///
    /// # Errors
    /// That Kafka did not answer by the deadline, or keeps a topic.
    pub fn remove(&self, brokers: &Brokers, deadline: Instant) -> Result<(), KafkaError> {
        let admin = Admin::new(brokers, deadline, "removing topics")?;
        let names = Topic::ALL.map(|topic| self.name(topic));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let removed = admin.answer(admin.client.delete_topics(&names, &admin.options()))?;
        all_done("removed", removed, RDKafkaErrorCode::UnknownTopicOrPartition)
    }

    /// The topics that Kafka does not have, if all that it has are as they should be.
    fn missing(&self, admin: &Admin<'_>) -> Result<Vec<Topic>, KafkaError> {
        // All topics: asking for one by name may make it.
        let fetch = |wait| admin.client.inner().fetch_metadata(None, wait);
        let soon = left(admin.deadline).min(QUIET_WAIT);
        let metadata = fetch(soon).or_else(|_| {
            tracing::warn!("waiting for Kafka at {}", admin.brokers);
            fetch(left(admin.deadline))
        });
        let metadata = metadata.map_err(|error| admin.no_answer(Some(error)))?;
        let mut missing = Vec::new();
        for topic in self.topics() {
            let name = self.name(topic);
            let Some(there) =
                metadata.topics().iter().find(|there| there.name() == name && there.error().is_none())
            else {
                missing.push(topic);
                continue;
            };
            let found = u32::try_from(there.partitions().len()).unwrap_or(u32::MAX);
            let wanted = self.partitions(topic);
            if found != wanted {
                return Err(KafkaError::PartitionCount { topic: name, wanted, found });
            }
        }
        Ok(missing)
    }

    fn make(&self, admin: &Admin<'_>, missing: &[Topic]) -> Result<(), KafkaError> {
        let names: Vec<String> = missing.iter().map(|topic| self.name(*topic)).collect();
        let retention = self.retention.map_or_else(|| "-1".to_owned(), |kept| kept.as_millis().to_string());
        let bytes_max = MESSAGE_BYTES_MAX.to_string();
        let new = |(topic, name)| {
            let partitions = i32::try_from(self.partitions(topic)).unwrap_or(i32::MAX);
            let replication = TopicReplication::Fixed(self.replication.map_or(-1, i32::from));
            let new = NewTopic::new(name, partitions, replication).set("max.message.bytes", &bytes_max);
            let new = match topic {
                // Only the newest value of a key counts.
                Topic::OutcomeOffsets => new.set("cleanup.policy", "compact"),
                _ => new.set("cleanup.policy", "delete").set("retention.ms", &retention),
            };
            // Where there are three copies, what is acknowledged must lie on two.
            if self.replication.is_some_and(|copies| copies >= 3) {
                new.set("min.insync.replicas", "2")
            } else {
                new
            }
        };
        let topics: Vec<NewTopic<'_>> =
            missing.iter().copied().zip(names.iter().map(String::as_str)).map(new).collect();
        let made = admin.answer(admin.client.create_topics(&topics, &admin.options()))?;
        // Another node may have been faster.
        all_done("made", made, RDKafkaErrorCode::TopicAlreadyExists)
    }
}

/// Refuses the first topic with which it was not done, unless it is `as_good` as done.
fn all_done(
    asked: &'static str,
    topics: Vec<TopicResult>,
    as_good: RDKafkaErrorCode,
) -> Result<(), KafkaError> {
    let refused = topics.into_iter().filter_map(Result::err).find(|(_, why)| *why != as_good);
    refused.map_or(Ok(()), |(topic, why)| Err(KafkaError::Refused { topic, asked, why: why.to_string() }))
}

/// Asks for topics to be made or removed, until a deadline.
struct Admin<'a> {
    client: AdminClient<DefaultClientContext>,
    brokers: &'a Brokers,
    began: Instant,
    deadline: Instant,
    doing: &'static str,
}

impl<'a> Admin<'a> {
    fn new(brokers: &'a Brokers, deadline: Instant, doing: &'static str) -> Result<Admin<'a>, KafkaError> {
        let client = brokers.config().create().map_err(KafkaError::client)?;
        Ok(Admin { client, brokers, began: Instant::now(), deadline, doing })
    }

    fn options(&self) -> AdminOptions {
        let wait = Some(left(self.deadline));
        AdminOptions::new().operation_timeout(wait).request_timeout(wait)
    }

    fn answer<T>(&self, asked: impl Future<Output = Result<T, ClientError>>) -> Result<T, KafkaError> {
        let answer = block_on(asked, self.deadline).ok_or_else(|| self.no_answer(None))?;
        answer.map_err(|error| self.no_answer(Some(error)))
    }

    fn no_answer(&self, cause: Option<ClientError>) -> KafkaError {
        KafkaError::NoAnswer {
            brokers: self.brokers.to_string(),
            waited: self.began.elapsed(),
            doing: self.doing,
            cause: cause.map(Box::new),
        }
    }
}

/// The time that is left, at least a little: the client takes zero for no answer wanted.
pub(crate) fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

/// Waits for the answer of the admin client, whose own thread makes it; `None` if it has not come by the deadline.
fn block_on<T>(future: impl Future<Output = T>, deadline: Instant) -> Option<T> {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut context) {
            return Some(answer);
        }
        let wait = deadline.checked_duration_since(Instant::now())?;
        thread::park_timeout(wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_partition_in_every_topic() {
        let settings = TopicSettings { prefix: "a-".to_owned(), position: 5, ..TopicSettings::default() };
        assert_eq!(settings.name(Topic::DeadLetters), "a-dead-letters");
        assert_eq!(settings.partition(Topic::Transfers, b"42"), 4);
        assert_eq!(settings.partition(Topic::Position, b"42"), partition_of(b"42", 5));
        assert_eq!(settings.partition(Topic::DeadLetters, b"42"), 0);
        let none = TopicSettings { transfers: 0, ..TopicSettings::default() };
        assert_eq!(none.partition(Topic::Transfers, b"42"), 0);
    }

    /// Every message of an order lies in the partition of its id, in each of the shop's topics, whatever the try.
    #[test]
    fn the_orders_id_finds_the_partition_of_a_checkouts_messages() {
        use holdfast_messages::{
            Message, OrderCommand, OrderMessage, OutcomeMessage, PayMessage, StockMessage,
        };
        fn sent(settings: &TopicSettings, topic: Topic, message: &impl Message) -> u32 {
            let (by, key, value) = (PartitionBy::of(message), message.key(), message.to_json());
            let outgoing = settings.outgoing_by(topic, &by, key.as_bytes(), &value);
            assert_eq!((outgoing.topic, outgoing.key), (topic, key.as_bytes()));
            outgoing.partition
        }
        let settings = TopicSettings { shop: Some(7), ..TopicSettings::default() };
        let shop = [Topic::Orders, Topic::Pay, Topic::Stock, Topic::Outcomes];
        assert_eq!(shop.map(|topic| settings.partitions(topic)), [7; 4]);
        for (order, tr) in (0..50).map(|number| (format!("order-{number}"), number % 3 + 1)) {
            let wanted = (crate::murmur2(order.as_bytes()) & 0x7fff_ffff) % 7;
            let key = format!(r#"{{"order_id":"{order}","tr_num":{tr}}}"#).into_bytes();
            let pay = PayMessage::read(&key, br#"{"type":"pay","user_id":"u","amnt":1}"#).unwrap();
            let stock = StockMessage::read(&key, br#"{"type":"sub","items":[]}"#).unwrap();
            let outcome = OutcomeMessage::read(&key, br#"{"type":"trsucc"}"#).unwrap();
            assert_eq!(sent(&settings, Topic::Pay, &pay), wanted, "{order}");
            assert_eq!(sent(&settings, Topic::Stock, &stock), wanted, "{order}");
            assert_eq!(sent(&settings, Topic::Outcomes, &outcome), wanted, "{order}");
            let trace = holdfast_messages::TraceId::NOBODY;
            let cancel = OrderMessage {
                trace,
                order: order.parse().unwrap(),
                command: OrderCommand::Cancel { tr: None },
            };
            assert_eq!(sent(&settings, Topic::Orders, &cancel), wanted, "{order}");
            // An answer goes where the question came from, even if that was the wrong place.
            let answered = settings.outgoing_by(Topic::Outcomes, &PartitionBy::Number(5), &key, b"{}");
            assert_eq!(answered.partition, 5);
        }
    }

    #[test]
    fn a_cluster_without_a_shop_has_none_of_its_topics() {
        let plain = TopicSettings::default();
        assert_eq!(plain.topics().filter(|topic| topic.is_of_shop()).count(), 0);
        let shop = TopicSettings { shop: Some(3), ..plain };
        assert_eq!(shop.topics().collect::<Vec<_>>(), Topic::ALL);
    }

    #[test]
    fn what_never_comes_is_not_waited_for() {
        assert_eq!(block_on(std::future::ready(7), Instant::now()), Some(7));
        assert_eq!(block_on(std::future::pending::<()>(), Instant::now() + Duration::from_millis(5)), None);
    }
}
