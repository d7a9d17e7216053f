//! The producer: sends a batch in order and says how far it came.
//!
//! librdkafka's idempotent producer keeps the order of a partition and drops what a retry would write twice. So what
//! Kafka holds of a batch is, per partition, always its beginning. After an error all that is still on its way is
//! called back, and the caller begins again at the first row that is not known to be written. What is then written a
//! second time stands behind its first writing, so the order of first writings is always that of the caller.
//!
//! The delivery reports are taken by a thread of their own and ring as soon as the last one is in. (The client's own
//! `flush` and `poll` would sit out their whole interval of 100 ms.)

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError as ClientError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, PurgeConfig, ThreadedProducer};
use rdkafka::statistics::Statistics;

use crate::brokers::MESSAGE_BYTES_MAX;
use crate::health::{Watch, in_short};
use crate::{Brokers, Health, KafkaError, Topic, TopicSettings};

/// What framing, in Kafka's own accounting, may add to key and value.
const FRAMING_BYTES: usize = 512;
/// How many messages may wait inside the client.
const QUEUE_MESSAGES_MAX: usize = 100_000;
/// How many kilobytes may wait inside the client.
const QUEUE_KILOBYTES_MAX: usize = 64 * 1024;
/// So many must have left a full client before more are handed over.
const ROOM_MESSAGES: usize = 1_000;
/// How long the client waits for the rest of a batch.
const LINGER: Duration = Duration::from_micros(500);
/// How long the reports of messages that were called back may take. They come from the client itself, not from Kafka.
const CALLED_BACK_WAIT: Duration = Duration::from_secs(5);

/// How to send.
#[derive(Debug, Clone)]
pub struct ProducerSettings {
    /// Where Kafka is.
    pub brokers: Brokers,
    /// The topics.
    pub topics: TopicSettings,
    /// How long the client waits for more before it sends: about as long as it takes to hand a batch over. Without it the
    /// first message of each partition would travel alone.
    pub linger: Duration,
}

impl ProducerSettings {
    /// As usual.
    #[must_use]
    pub fn new(brokers: Brokers, topics: TopicSettings) -> ProducerSettings {
        ProducerSettings { brokers, topics, linger: LINGER }
    }
}

/// A message to be sent. [`TopicSettings::outgoing`] finds its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Where to.
    pub topic: Topic,
    /// The partition of its key.
    pub partition: u32,
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// A batch was not written whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{first_unsent} messages are written, then: {cause}")]
pub struct SendError {
    /// All before this one are written. This one, and those after it, may be or not: begin again here.
    pub first_unsent: usize,
    /// Why.
    pub cause: SendCause,
}

/// Why a batch was not written whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendCause {
    /// The deadline passed; Kafka's last error, if there was one.
    Deadline(String),
    /// Kafka refused.
    Refused(String),
    /// It is larger than any message may be: it will never be written. So many bytes.
    TooLarge(usize),
}

impl SendCause {
    /// Whether the same message may be written another time.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        !matches!(self, SendCause::TooLarge(_))
    }
}

impl fmt::Display for SendCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendCause::Deadline(last) if last.is_empty() => f.write_str("Kafka did not acknowledge in time"),
            SendCause::Deadline(last) => write!(f, "Kafka is silent: {last}"),
            SendCause::Refused(why) => write!(f, "Kafka refused: {why}"),
            SendCause::TooLarge(bytes) => {
                write!(
                    f,
                    "the message has {bytes} bytes, and {MESSAGE_BYTES_MAX} is the most with its framing"
                )
            }
        }
    }
}

/// What a producer has done, to be published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProducerNumbers {
    /// Batches written whole.
    pub batches: u64,
    /// Messages acknowledged, repeats included.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Batches that were not written whole.
    pub failures: u64,
    /// The most messages in one batch.
    pub largest_batch: usize,
}

/// Sends batches for one caller.
pub struct Producer {
    settings: ProducerSettings,
    /// The names of [`Topic::ALL`].
    names: [String; Topic::ALL.len()],
    client: ThreadedProducer<Reports>,
    numbers: ProducerNumbers,
}

impl Producer {
    /// A producer; Kafka need not be there yet.
    ///
    /// # Errors
    /// If the client cannot be made.
    pub fn new(settings: ProducerSettings) -> Result<Producer, KafkaError> {
        let names = Topic::ALL.map(|topic| settings.topics.name(topic));
        let client = client(&settings)?;
        Ok(Producer { settings, names, client, numbers: ProducerNumbers::default() })
    }

    /// Sends all, in the given order within each partition, and returns when all are written.
    ///
    /// # Errors
    /// Says from where on it is not known whether messages are written. Nothing of the batch is on its way any more.
    pub fn send_all(&mut self, batch: &[Outgoing<'_>], deadline: Instant) -> Result<(), SendError> {
        let sent = self.try_all(batch, deadline);
        match &sent {
            Ok(()) => {
                self.numbers.batches += 1;
                self.numbers.largest_batch = self.numbers.largest_batch.max(batch.len());
            }
            Err(_) => self.numbers.failures += 1,
        }
        let known = sent.as_ref().map_or_else(|error| error.first_unsent, |()| batch.len());
        self.numbers.messages += known as u64;
        self.numbers.bytes += batch[..known].iter().map(|message| size(message) as u64).sum::<u64>();
        sent
    }

    /// What has been done so far.
    #[must_use]
    pub const fn numbers(&self) -> ProducerNumbers {
        self.numbers
    }

    /// Whether Kafka answers.
    #[must_use]
    pub fn health(&self) -> Health {
        self.reports().watch.health()
    }

    fn reports(&self) -> &Reports {
        self.client.context()
    }

    fn try_all(&mut self, batch: &[Outgoing<'_>], deadline: Instant) -> Result<(), SendError> {
        if let Some((_, why)) = self.client.client().fatal_error() {
            // It will never send again; another one begins with numbers of its own.
            self.client = client(&self.settings).map_err(|error| SendError {
                first_unsent: 0,
                cause: SendCause::Refused(format!("{why}; {error}")),
            })?;
        }
        let too_large =
            |message: &Outgoing<'_>| size(message).saturating_add(FRAMING_BYTES) > MESSAGE_BYTES_MAX;
        let fitting = batch.iter().position(too_large).unwrap_or(batch.len());
        let round = self.reports().open(fitting);
        let handed_over = self.hand_over(&batch[..fitting], round, deadline);
        let cause = handed_over.err().or_else(|| self.reports().wait(deadline));
        if cause.is_some() {
            self.client.purge(PurgeConfig::default().queue().inflight());
            // What is late belongs to a round that is over and counts for nothing.
            self.reports().wait_settled(Instant::now() + CALLED_BACK_WAIT);
        }
        let first_unsent = self.reports().close();
        match cause {
            Some(_) if first_unsent == batch.len() => Ok(()),
            Some(cause) => Err(SendError { first_unsent, cause }),
            None if fitting < batch.len() => {
                let cause = SendCause::TooLarge(size(&batch[fitting]));
                Err(SendError { first_unsent: fitting, cause })
            }
            None => Ok(()),
        }
    }

    /// Gives all to the client, which sends them while more come.
    fn hand_over(&self, batch: &[Outgoing<'_>], round: u32, deadline: Instant) -> Result<(), SendCause> {
        for (index, message) in batch.iter().enumerate() {
            let partition = i32::try_from(message.partition)
                .map_err(|_| SendCause::Refused(format!("there is no partition {}", message.partition)))?;
            let mut record =
                BaseRecord::with_opaque_to(&self.names[message.topic as usize], Reports::place(round, index))
                    .partition(partition)
                    .key(message.key)
                    .payload(message.value);
            loop {
                match self.client.send(record) {
                    Ok(()) => break,
                    Err((ClientError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                        record = back;
                        self.reports().wait_for_room(deadline)?;
                    }
                    Err((error, _)) => return Err(SendCause::Refused(error.to_string())),
                }
            }
            self.reports().handed_over();
        }
        Ok(())
    }
}

fn size(message: &Outgoing<'_>) -> usize {
    message.key.len().saturating_add(message.value.len())
}

fn client(settings: &ProducerSettings) -> Result<ThreadedProducer<Reports>, KafkaError> {
    let mut config = settings.brokers.config();
    config
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("linger.ms", (settings.linger.as_secs_f64() * 1e3).to_string())
        .set("queue.buffering.max.messages", QUEUE_MESSAGES_MAX.to_string())
        .set("queue.buffering.max.kbytes", QUEUE_KILOBYTES_MAX.to_string())
        // The caller's deadline calls all back together; single messages that ran out would leave holes.
        .set("message.timeout.ms", "0");
    config.create_with_context(Reports::default()).map_err(KafkaError::client)
}

/// Takes the delivery reports of the batch that is on its way.
#[derive(Default)]
struct Reports {
    state: Mutex<Round>,
    bell: Condvar,
    watch: Watch,
}

#[derive(Default)]
struct Round {
    number: u32,
    acknowledged: Vec<bool>,
    handed_over: usize,
    reported: usize,
    /// Somebody waits for so many reports.
    wake_at: usize,
    refused: Option<String>,
    last_error: String,
}

impl Reports {
    /// Round and index in one number, as the client carries it along.
    fn place(round: u32, index: usize) -> usize {
        (round as usize) << 32 | index
    }

    fn round(&self) -> MutexGuard<'_, Round> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, messages: usize) -> u32 {
        let mut round = self.round();
        let number = round.number.wrapping_add(1);
        let last_error = std::mem::take(&mut round.last_error);
        let wake_at = usize::MAX;
        *round =
            Round { number, acknowledged: vec![false; messages], wake_at, last_error, ..Round::default() };
        number
    }

    fn handed_over(&self) {
        self.round().handed_over += 1;
    }

    /// Waits until all that was handed over is acknowledged; else says why not.
    fn wait(&self, deadline: Instant) -> Option<SendCause> {
        let round = self.round();
        let all = round.handed_over;
        self.wait_until(round, deadline, all, |round| round.refused.is_some())
    }

    /// Waits until some of what was handed over has left the client.
    fn wait_for_room(&self, deadline: Instant) -> Result<(), SendCause> {
        let round = self.round();
        let some = round.reported.saturating_add(ROOM_MESSAGES).min(round.handed_over);
        self.wait_until(round, deadline, some, |round| round.refused.is_some()).map_or(Ok(()), Err)
    }

    /// Waits until nothing is on its way any more.
    fn wait_settled(&self, deadline: Instant) {
        let round = self.round();
        let all = round.handed_over;
        let _ = self.wait_until(round, deadline, all, |_| false);
    }

    /// Waits until so many are reported, or there is another reason to stop.
    fn wait_until(
        &self,
        mut round: MutexGuard<'_, Round>,
        deadline: Instant,
        reported: usize,
        stop: impl Fn(&Round) -> bool,
    ) -> Option<SendCause> {
        // Woken once and not by every report.
        round.wake_at = reported;
        loop {
            if round.reported >= reported || stop(&round) {
                return round.refused.clone().map(SendCause::Refused);
            }
            let Some(wait) = deadline.checked_duration_since(Instant::now()) else {
                return Some(SendCause::Deadline(round.last_error.clone()));
            };
            round = self.bell.wait_timeout(round, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the round: the first message that is not acknowledged.
    fn close(&self) -> usize {
        let mut round = self.round();
        round.number = round.number.wrapping_add(1);
        let first = round.acknowledged.iter().position(|acknowledged| !acknowledged);
        first.unwrap_or(round.acknowledged.len())
    }
}

impl ClientContext for Reports {
    fn error(&self, error: ClientError, reason: &str) {
        let all_down = self.watch.client_error(&error, reason);
        let mut round = self.round();
        // How many are down says less than why the last one is.
        if !all_down || round.last_error.is_empty() {
            round.last_error = in_short(reason);
        }
    }

    fn stats(&self, statistics: Statistics) {
        self.watch.statistics(&statistics);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, delivery: &DeliveryResult<'_>, place: usize) {
        let mut round = self.round();
        let index = place & 0xffff_ffff;
        if place >> 32 != round.number as usize || index >= round.acknowledged.len() {
            return;
        }
        round.reported += 1;
        match delivery {
            Ok(_) => round.acknowledged[index] = true,
            Err((error, _)) => {
                round.refused.get_or_insert_with(|| error.to_string());
            }
        }
        if round.reported >= round.wake_at || round.refused.is_some() {
            self.bell.notify_one();
        }
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("settings", &self.settings).finish_non_exhaustive()
    }
}

const _: () = assert!(size_of::<usize>() >= 8, "round and index share a number of 64 bits");
