//! The little that these tests need of a PostgreSQL client and a Kafka client.

use std::process;
use std::time::{Duration, Instant};

use holdfast_services::Service;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use tokio::runtime::{Builder, Runtime};

/// How long any one step may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A session.
pub(crate) fn sql(postgres: &Service) -> postgres::Client {
    postgres::Client::connect(postgres.url(), postgres::NoTls).expect("PostgreSQL answers")
}

/// A topic of one partition.
pub(crate) struct Topic {
    name: String,
    config: ClientConfig,
    admin: AdminClient<DefaultClientContext>,
    producer: FutureProducer,
    runtime: Runtime,
}

impl Topic {
    pub(crate) fn create(kafka: &Service, purpose: &str) -> Topic {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", kafka.address()).set("enable.idempotence", "true");
        let admin: AdminClient<_> = config.create().expect("an admin client");
        let producer = config.create().expect("a producer");
        let name = format!("services-{purpose}-{}", process::id());
        let new = NewTopic::new(&name, 1, TopicReplication::Fixed(1));
        let made = runtime.block_on(admin.create_topics([&new], &options())).expect("Kafka answers");
        made[0].as_ref().expect("the topic is new");
        Topic { name, config, admin, producer, runtime }
    }

    /// Gives back the offset that Kafka acknowledged.
    pub(crate) fn produce(&self, text: &str) -> i64 {
        let record = FutureRecord::to(&self.name).key("key").payload(text);
        self.runtime.block_on(self.producer.send(record, PATIENCE)).expect("Kafka acknowledges").offset
    }

    /// As many messages, from an offset on.
    pub(crate) fn consume(&self, from: i64, count: usize) -> Vec<String> {
        let mut config = self.config.clone();
        config.remove("enable.idempotence");
        let consumer: BaseConsumer = config.set("group.id", &self.name).create().expect("a consumer");
        let mut partitions = TopicPartitionList::new();
        partitions.add_partition_offset(&self.name, 0, Offset::Offset(from)).expect("an offset");
        consumer.assign(&partitions).expect("the partition");
        let deadline = Instant::now() + PATIENCE;
        let mut texts = Vec::new();
        while texts.len() < count {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "only {texts:?} came");
            if let Some(message) = consumer.poll(left) {
                let message = message.expect("a message");
                texts.push(String::from_utf8_lossy(message.payload().expect("a text")).into_owned());
            }
        }
        texts
    }

    pub(crate) fn delete(self) {
        let done = self.runtime.block_on(self.admin.delete_topics(&[&self.name], &options()));
        done.expect("Kafka answers")[0].as_ref().expect("the topic goes");
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE))
}
