//! Requests on their way into Kafka: a bounded queue and the thread that empties it.
//!
//! Whoever does not wait for an outcome is answered when Kafka has the request on its disks. If Kafka does not take it in
//! time, nobody knows whether it has it; callers are told so and repeat, which is harmless.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_engine::{Answer, Monitor, Refusal, Written};
use holdfast_kafka::{Producer, SendCause};
use holdfast_messages::{Message, PartitionBy, Topic};

use crate::health::Part;
use crate::settings::{
    IN_FLIGHT_MAX, NodeSettings, OUTCOME_WAIT, SEND_QUEUE_BYTES_MAX, SEND_REST_MAX, SEND_WAIT, TROUBLE_PAUSE,
};
use crate::waiting::WaitingRoom;

/// The most messages that are handed to Kafka at once.
const SEND_MESSAGES: usize = 10_000;
/// How long the sender waits for requests before it looks around.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A message ready to be written.
#[derive(Debug)]
pub(crate) struct Letter {
    topic: Topic,
    by: PartitionBy,
    key: String,
    value: Vec<u8>,
}

impl Letter {
    pub(crate) fn of<M: Message>(message: &M) -> Letter {
        let by = PartitionBy::of(message);
        Letter { topic: M::TOPIC, by, key: message.key(), value: message.to_json() }
    }

    fn bytes(&self) -> usize {
        self.key.len() + self.value.len()
    }
}

/// Limits and funds are not sent twice: an operator may have said something else meanwhile, and a copy that comes late would
/// undo it. Nor is a checkout: one that failed would be tried again, behind the caller's back. A transfer's command says the
/// same however often it comes.
fn is_sent_once(letter: &Letter) -> bool {
    matches!(letter.topic, Topic::Position | Topic::Orders)
}

/// What a caller wants to hear.
pub(crate) enum Wants {
    /// That it is written.
    Written(Answer),
    /// The outcomes; they come by another way, to whoever entered with that number.
    Outcomes(u64),
}

/// Messages of one caller.
pub(crate) struct CallerMessages {
    pub(crate) letters: Vec<Letter>,
    pub(crate) wants: Wants,
    /// For whoever wants outcomes and also to hear that it is written.
    pub(crate) written: Option<Written>,
    pub(crate) since: Instant,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<CallerMessages>,
    letters: usize,
    bytes: usize,
    closed: bool,
}

/// What waits to be written.
#[derive(Default)]
pub(crate) struct Queue {
    state: Monitor<QueueState>,
}

impl Queue {
    /// Puts messages in line. Of those that are refused no answer is called.
    pub(crate) fn put(&self, messages: CallerMessages) -> Result<(), Refusal> {
        let bytes: usize = messages.letters.iter().map(Letter::bytes).sum();
        let mut state = self.state.lock();
        if state.closed {
            return Err(Refusal::Closed("the node is shutting down".to_owned()));
        }
        let full = state.letters + messages.letters.len() > IN_FLIGHT_MAX
            || state.bytes + bytes > SEND_QUEUE_BYTES_MAX;
        if full && !state.waiting.is_empty() {
            return Err(Refusal::Busy);
        }
        state.letters += messages.letters.len();
        state.bytes += bytes;
        state.waiting.push_back(messages);
        drop(state);
        self.state.notify_one();
        Ok(())
    }

    /// Waits for something and takes as much as is sent at once; `None` when it is over and empty.
    fn take(&self) -> Option<Vec<CallerMessages>> {
        let idle = |state: &mut QueueState| state.waiting.is_empty() && !state.closed;
        let mut state = self.state.wait_while_for(self.state.lock(), LOOK_EVERY, idle);
        if state.waiting.is_empty() && state.closed {
            return None;
        }
        let mut taken = Vec::new();
        let mut letters = 0;
        while let Some(messages) = state.waiting.pop_front() {
            letters += messages.letters.len();
            state.letters -= messages.letters.len();
            state.bytes -= messages.letters.iter().map(Letter::bytes).sum::<usize>();
            taken.push(messages);
            if letters >= SEND_MESSAGES {
                break;
            }
        }
        Some(taken)
    }

    /// Lets more gather, for so long or until nothing more comes.
    fn rest(&self, time: Duration) {
        drop(self.state.wait_while_for(self.state.lock(), time, |state| !state.closed));
    }

    /// Takes nothing more; what waits is still sent.
    pub(crate) fn close(&self) {
        self.state.change(|state| state.closed = true);
    }
}

/// Empties the queue.
pub(crate) struct Sender {
    pub(crate) settings: Arc<NodeSettings>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) room: Arc<WaitingRoom>,
    pub(crate) producer: Producer,
    pub(crate) part: Arc<Part>,
    /// How the reader of notifications fares with the same Kafka. It talks to it all the time, the sender only when there
    /// is something to send.
    pub(crate) heard: Arc<Part>,
}

impl Sender {
    pub(crate) fn run(mut self) {
        self.part.works();
        while let Some(waiting) = self.queue.take() {
            match waiting.is_empty() {
                true => self.look_around(),
                false => {
                    let (callers, began) = (waiting.len(), Instant::now());
                    self.send(waiting);
                    if callers > 1 {
                        self.queue.rest(began.elapsed().min(SEND_REST_MAX));
                    }
                }
            }
        }
    }

    /// While nobody sends anything, Kafka is as its reader finds it.
    fn look_around(&self) {
        match self.heard.trouble() {
            None => self.part.works(),
            Some(why) => self.part.fails(why),
        }
    }

    fn send(&mut self, waiting: Vec<CallerMessages>) {
        let oldest = waiting.iter().map(|messages| messages.since).min().unwrap_or_else(Instant::now);
        let deadline = oldest + OUTCOME_WAIT;
        let mut verdicts: Vec<Result<(), Refusal>> = waiting.iter().map(|_| Ok(())).collect();
        // Which caller each message belongs to.
        let mut letters: Vec<(usize, &Letter)> = Vec::new();
        for (at, messages) in waiting.iter().enumerate() {
            letters.extend(messages.letters.iter().map(|letter| (at, letter)));
        }
        let mut rest = letters;
        while !rest.is_empty() {
            let topics = &self.settings.topics;
            let outgoing: Vec<_> = rest
                .iter()
                .map(|(_, letter)| {
                    topics.outgoing_by(letter.topic, &letter.by, letter.key.as_bytes(), &letter.value)
                })
                .collect();
            let Err(error) = self.producer.send_all(&outgoing, Instant::now() + SEND_WAIT) else {
                self.part.works();
                break;
            };
            rest.drain(..error.first_unsent);
            if let SendCause::TooLarge(bytes) = error.cause {
                let (at, _) = rest.remove(0);
                verdicts[at] = Err(Refusal::TooLarge(bytes));
                continue;
            }
            self.part.fails(&error);
            let given_up = if Instant::now() >= deadline { |_| true } else { is_sent_once };
            for (at, _) in rest.extract_if(.., |(_, letter)| given_up(letter)) {
                verdicts[at] = Err(Refusal::Unknown(error.cause.to_string()));
            }
            if !rest.is_empty() {
                // A refusal may come at once, and again.
                self.queue.rest(TROUBLE_PAUSE);
            }
        }
        for (messages, verdict) in waiting.into_iter().zip(verdicts) {
            match (messages.wants, verdict) {
                (Wants::Written(answer), verdict) => answer(verdict.map(|()| Vec::new())),
                (Wants::Outcomes(first), Err(refusal)) => self.room.fail(first, refusal),
                (Wants::Outcomes(_), Ok(())) => {
                    if let Some(written) = messages.written {
                        written();
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_kafka::ProducerSettings;

    use super::*;

    fn letter(topic: Topic) -> Letter {
        Letter { topic, by: PartitionBy::Key, key: "1".to_owned(), value: vec![0; 10] }
    }

    fn messages(count: usize) -> CallerMessages {
        let letters = (0..count).map(|_| letter(Topic::Transfers)).collect();
        CallerMessages { letters, wants: Wants::Outcomes(1), written: None, since: Instant::now() }
    }

    #[test]
    fn an_outage_is_seen_although_nobody_sends() {
        let settings = Arc::new(NodeSettings::new("kafka://127.0.0.1:1".parse().unwrap(), "", 1));
        let producer = ProducerSettings::new(settings.brokers.clone(), settings.topics.clone());
        let (part, heard) = (Part::new("log"), Part::new("notifications"));
        let sender = Sender {
            settings,
            queue: Arc::default(),
            room: Arc::new(WaitingRoom::new(1)),
            producer: Producer::new(producer).unwrap(),
            part: Arc::clone(&part),
            heard: Arc::clone(&heard),
        };
        heard.fails("Kafka is down");
        sender.look_around();
        assert_eq!(part.trouble().as_deref(), Some("Kafka is down"));
        heard.works();
        sender.look_around();
        assert_eq!(part.trouble(), None);
    }

    #[test]
    fn only_what_may_come_twice_is_sent_twice() {
        assert!(is_sent_once(&letter(Topic::Position)));
        assert!(is_sent_once(&letter(Topic::Orders)), "a checkout that failed would be tried again");
        assert!(!is_sent_once(&letter(Topic::Transfers)));
        assert!(!is_sent_once(&letter(Topic::Outcomes)), "what was recorded first counts");
    }

    #[test]
    fn the_queue_is_bounded_and_ends() {
        let queue = Queue::default();
        queue.put(messages(IN_FLIGHT_MAX)).unwrap();
        assert_eq!(queue.put(messages(1)), Err(Refusal::Busy));
        assert_eq!(queue.take().map(|waiting| waiting.len()), Some(1));
        queue.put(messages(1)).unwrap();
        queue.close();
        assert!(matches!(queue.put(messages(1)), Err(Refusal::Closed(_))));
        assert_eq!(queue.take().map(|waiting| waiting.len()), Some(1), "what waits is still sent");
        assert!(queue.take().is_none());
    }
}
