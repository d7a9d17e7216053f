//! Start, stop, and the handle that the edge holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Instant;

use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Admin, Command, SetEndpoint};
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::AccountId;
use holdfast_kafka::{ConsumerSettings, From, GroupConsumer, KafkaError, Producer, ProducerSettings, Reader};
use holdfast_messages::{Message as _, PositionMessage, Topic, TraceId, TransferCommand, TransferMessage};
use holdfast_postgres::{Error, Store};

use crate::board::Board;
use crate::expiry::Expiry;
use crate::hand::Hand;
use crate::handler::{Callbacks, Desk, Handler, Hop, Position, Transfers};
use crate::health::{Health, Part};
use crate::meters::{ExpiryMeters, HandlerMeters, RelayMeters};
use crate::patrol::Patrol;
use crate::reads::{ReadError, Reads};
use crate::relay::Relay;
use crate::roles::Role;
use crate::sender::{Letter, Parcel, Queue, Sender, Wants};
use crate::settings::{NodeSettings, ONE_BY_ONE_MAX, OUTCOME_WAIT, START_WAIT};
use crate::stop::Stop;
use crate::tail::Tail;
use crate::waiting::{Answer, Refusal, WaitingRoom, Written};

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Kafka.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// PostgreSQL.
    #[error(transparent)]
    Store(#[from] Error),
    /// A thread cannot be started.
    #[error("a thread cannot be started")]
    Thread(#[source] std::io::Error),
}

/// What the edge holds of a node.
#[derive(Clone)]
pub struct NodeHandle {
    settings: Arc<NodeSettings>,
    queue: Arc<Queue>,
    room: Arc<WaitingRoom>,
    reads: Arc<Reads>,
    health: Arc<Health>,
    /// How the delivery of callbacks is, which is the edge's work.
    delivery: Option<Arc<Part>>,
    /// How many wait on threads of their own.
    one_by_one: Arc<AtomicUsize>,
}

/// A place among those who wait on threads of their own; given back when dropped.
pub(crate) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A running node. Ends when dropped: partitions and shards are handed over, those who wait are told.
pub struct Node {
    handle: NodeHandle,
    stop: Arc<Stop>,
    boards: Vec<Arc<Board>>,
    /// They end before the relays, which still send what they left.
    workers: Vec<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
}

impl Node {
    /// Looks whether topics and tables are as they should be (made if they are not there), and begins to work.
    ///
    /// # Errors
    /// If a server is not there, or was set up with other fixed numbers.
    pub fn start(settings: NodeSettings) -> Result<Node, StartError> {
        let settings = Arc::new(settings);
        let mut store = settings.connect()?;
        for topic in Topic::ALL {
            let name = format!("partitions.{}", settings.topics.name(topic));
            store.fix(&name, i64::from(settings.topics.partitions(topic)))?;
        }
        drop(store);
        settings.topics.ensure(&settings.brokers, Instant::now() + START_WAIT)?;
        let mut health = Health::default();
        let threads = health.part("threads");
        threads.works();
        let mut starting = Starting {
            stop: Arc::default(),
            threads,
            health,
            boards: Vec::new(),
            workers: Vec::new(),
            others: Vec::new(),
            settings: &settings,
        };
        let room = Arc::new(WaitingRoom::new(settings.node_id));
        let queue = Arc::new(Queue::default());
        if settings.roles.has(Role::Api) {
            starting.edge(&room, &queue)?;
        }
        if settings.roles.has(Role::Transfers) {
            starting.handler::<Transfers>("transfers", "transfers relay")?;
        }
        if settings.roles.has(Role::Position) {
            starting.handler::<Position>("position", "position relay")?;
        }
        if settings.roles.has(Role::Expiry) {
            starting.expiry()?;
        }
        if settings.roles.has(Role::Callbacks) {
            starting.handler::<Callbacks>("callbacks", "callbacks relay")?;
        }
        let delivers = settings.roles.has(Role::Callbacks);
        let delivery = delivers.then(|| starting.health.part("delivery"));
        let answers = starting.health.part("store");
        // It has just answered.
        answers.works();
        let reads = Arc::new(Reads::new(Arc::clone(&settings), answers));
        if settings.roles.has(Role::Expiry) || settings.roles.has(Role::Position) {
            starting.patrol(&reads)?;
        }
        let Starting { stop, health, boards, workers, others, .. } = starting;
        let health = Arc::new(health);
        let one_by_one = Arc::default();
        let handle = NodeHandle { settings, queue, room, reads, health, delivery, one_by_one };
        Ok(Node { handle, stop, boards, workers, others })
    }

    /// A handle for the edge.
    #[must_use]
    pub fn handle(&self) -> NodeHandle {
        self.handle.clone()
    }

    /// Hands partitions and shards over, tells those who wait, and ends the threads.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.handle.queue.close();
        self.stop.set();
        self.workers.drain(..).for_each(join);
        self.boards.iter().for_each(|board| board.end());
        self.others.drain(..).for_each(join);
        self.handle.room.close();
    }
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the node panicked");
    }
}

/// A node that is being put together.
struct Starting<'a> {
    settings: &'a Arc<NodeSettings>,
    stop: Arc<Stop>,
    threads: Arc<Part>,
    health: Health,
    boards: Vec<Arc<Board>>,
    workers: Vec<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
}

impl Starting<'_> {
    fn producer(&self) -> Result<Producer, KafkaError> {
        Producer::new(ProducerSettings::new(self.settings.brokers.clone(), self.settings.topics.clone()))
    }

    fn edge(&mut self, room: &Arc<WaitingRoom>, queue: &Arc<Queue>) -> Result<(), StartError> {
        let topic = self.settings.topics.name(Topic::Notifications);
        let deadline = Instant::now() + START_WAIT;
        let reader = Reader::open(&self.settings.brokers, &topic, &From::End, deadline)?;
        let (room, stop, part) =
            (Arc::clone(room), Arc::clone(&self.stop), self.health.part("notifications"));
        let tail = Tail { reader, room: Arc::clone(&room), part, stop };
        self.others.push(thread(&self.threads, "notifications", move || tail.run())?);
        let (settings, queue) = (Arc::clone(self.settings), Arc::clone(queue));
        let sender =
            Sender { settings, queue, room, producer: self.producer()?, part: self.health.part("log") };
        self.others.push(thread(&self.threads, "sender", move || sender.run())?);
        Ok(())
    }

    fn relay(&mut self, name: &'static str) -> Result<Arc<Board>, StartError> {
        let board: Arc<Board> = Arc::default();
        let part = self.health.part(name);
        // It has nothing to send yet, and is fine.
        part.works();
        let relay = Relay {
            settings: Arc::clone(self.settings),
            board: Arc::clone(&board),
            producer: self.producer()?,
            part,
            stop: Arc::clone(&self.stop),
            meters: RelayMeters::new(name),
        };
        self.others.push(thread(&self.threads, name, move || relay.run())?);
        self.boards.push(Arc::clone(&board));
        Ok(board)
    }

    fn handler<H: Hop>(&mut self, name: &'static str, relay: &'static str) -> Result<(), StartError> {
        let board = self.relay(relay)?;
        let part = self.health.part(name);
        let topic = self.settings.topics.name(H::TOPIC);
        let group = self.settings.group(H::TOPIC);
        let consumer =
            GroupConsumer::join(ConsumerSettings::new(self.settings.brokers.clone(), group, topic))?;
        let (caller, (put, ended)) = (consumer.caller(), channel());
        let mut hands = Vec::new();
        for number in 0..H::HANDS {
            let (hand, jobs) = Hand::new(number, self.settings, &put, &caller);
            self.workers.push(thread(&self.threads, name, move || hand.run::<H>())?);
            hands.push(jobs);
        }
        let handler = Handler {
            hands,
            ended,
            consumer,
            desk: Desk::new(H::TOPIC, self.settings, &board, &part),
            stop: Arc::clone(&self.stop),
            meters: HandlerMeters::new(name),
        };
        self.workers.push(thread(&self.threads, name, move || handler.run::<H>())?);
        Ok(())
    }

    fn patrol(&mut self, reads: &Arc<Reads>) -> Result<(), StartError> {
        let patrol = Patrol {
            settings: Arc::clone(self.settings),
            reads: Arc::clone(reads),
            part: self.health.part("patrol"),
            stop: Arc::clone(&self.stop),
        };
        self.others.push(thread(&self.threads, "patrol", move || patrol.run())?);
        Ok(())
    }

    fn expiry(&mut self) -> Result<(), StartError> {
        let board = self.relay("expiry relay")?;
        let expiry = Expiry {
            settings: Arc::clone(self.settings),
            board,
            part: self.health.part("expiry"),
            stop: Arc::clone(&self.stop),
            meters: ExpiryMeters::default(),
        };
        self.workers.push(thread(&self.threads, "expiry", move || expiry.run())?);
        Ok(())
    }
}

/// A thread whose end by a panic is seen in `/health`.
fn thread(
    threads: &Arc<Part>,
    name: &'static str,
    body: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    let threads = Arc::clone(threads);
    let watched = move || {
        if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)) {
            threads.fails(format!("the thread '{name}' panicked, see the log; restart this node"));
            std::panic::resume_unwind(panic);
        }
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(watched).map_err(StartError::Thread)
}

impl NodeHandle {
    /// How the parts are.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Where the edge tells how the delivery of callbacks is, if this node does that.
    #[must_use]
    pub const fn delivery(&self) -> Option<&Arc<Part>> {
        self.delivery.as_ref()
    }

    /// How this node runs.
    #[must_use]
    pub fn settings(&self) -> &NodeSettings {
        &self.settings
    }

    /// Asks the database, on this thread.
    ///
    /// # Errors
    /// If all connections are in use for too long, or the database fails.
    pub fn ask<R>(&self, question: impl FnMut(&mut Store) -> Result<R, Error>) -> Result<R, ReadError> {
        self.reads.ask(question)
    }

    /// How many commands of callers at this node are on their way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.room.commands()
    }

    /// A place among those who wait on threads of their own; `None` if there is none.
    pub(crate) fn one_by_one(&self) -> Option<Place> {
        let place = Place(Arc::clone(&self.one_by_one));
        (place.0.fetch_add(1, Ordering::Relaxed) < ONE_BY_ONE_MAX).then_some(place)
    }

    /// A node without the role has nobody who would send what it takes.
    fn takes_requests(&self) -> Result<(), Refusal> {
        if self.settings.roles.has(Role::Api) {
            Ok(())
        } else {
            Err(Refusal::Closed("this node does not take requests: its roles do not include api"))
        }
    }

    /// Has transfers decided; the answer is called with their outcomes.
    ///
    /// # Errors
    /// If they were not taken; the answer is not called then.
    ///
    /// # Panics
    /// If a command is about no transfer.
    pub fn submit(&self, commands: Vec<Command>, answer: Answer) -> Result<(), Refusal> {
        self.submit_telling(commands, None, answer)
    }

    /// The same; `written` is called as soon as Kafka has them, if it does before they are given up.
    ///
    /// # Errors
    /// As [`NodeHandle::submit`].
    ///
    /// # Panics
    /// As [`NodeHandle::submit`].
    pub fn submit_telling(
        &self,
        commands: Vec<Command>,
        written: Option<Written>,
        answer: Answer,
    ) -> Result<(), Refusal> {
        self.wait_for(commands.len(), written, answer, |first| {
            let numbered = (first..).zip(commands);
            numbered.map(|(number, command)| letter_of(self.room.trace(number), command)).collect()
        })
    }

    /// Has a transfer's command written to the log; the answer is called, without outcomes, when it is durable.
    ///
    /// # Errors
    /// If it was not taken; the answer is not called then.
    ///
    /// # Panics
    /// If a command is about no transfer.
    pub fn write(&self, commands: Vec<Command>, answer: Answer) -> Result<(), Refusal> {
        self.takes_requests()?;
        let first = self.room.numbers(commands.len());
        let numbered = (first..).zip(commands);
        let letters = numbered.map(|(number, command)| letter_of(self.room.trace(number), command)).collect();
        let parcel = Parcel { letters, wants: Wants::Written(answer), written: None, since: Instant::now() };
        self.queue.put(parcel).map_err(|(_, refusal)| refusal)
    }

    /// Has limits and funds of an account decided, on the key of that position account.
    ///
    /// # Errors
    /// If it was not taken; the answer is not called then.
    pub fn submit_admin(&self, account: AccountId, admin: Admin, answer: Answer) -> Result<(), Refusal> {
        if PositionMessage::admin(TraceId(0), account, admin).is_none() {
            // No account has that number.
            answer(Ok(vec![Outcome::refused(ErrorCode::IdNotFound)]));
            return Ok(());
        }
        self.wait_for(1, None, answer, |first| {
            let trace = self.room.trace(first);
            let message = PositionMessage::admin(trace, account, admin).expect("looked at above");
            vec![Letter { topic: Topic::Position, key: message.key(), value: message.to_json() }]
        })
    }

    /// Makes or changes a participant, on this thread.
    ///
    /// # Errors
    /// As [`NodeHandle::ask`].
    pub fn participant(&self, admin: &Admin) -> Result<Outcome, ReadError> {
        self.reads.write(|store| store.participant(admin))
    }

    /// Sets where a participant wants to be called, on this thread.
    ///
    /// # Errors
    /// As [`NodeHandle::ask`].
    pub fn endpoint(&self, endpoint: &SetEndpoint) -> Result<Outcome, ReadError> {
        self.reads.write(|store| store.endpoint(endpoint))
    }

    fn wait_for(
        &self,
        count: usize,
        written: Option<Written>,
        answer: Answer,
        letters: impl FnOnce(u64) -> Vec<Letter>,
    ) -> Result<(), Refusal> {
        self.takes_requests()?;
        let since = Instant::now();
        let first = self.room.enter(count, since + OUTCOME_WAIT, answer)?;
        let parcel = Parcel { letters: letters(first), wants: Wants::Outcomes(first), written, since };
        match self.queue.put(parcel) {
            Ok(()) => Ok(()),
            Err((_, refusal)) => {
                self.room.withdraw(first);
                Err(refusal)
            }
        }
    }
}

fn letter_of(trace: TraceId, command: Command) -> Letter {
    let command = match command {
        Command::Prepare(prepare) => TransferCommand::Prepare(prepare),
        Command::Fulfil(fulfil) => TransferCommand::Fulfil(fulfil),
        Command::Abort(abort) => TransferCommand::Abort(abort),
        Command::Lookup(lookup) => TransferCommand::Lookup(lookup),
        other => panic!("{other:?} is about no transfer"),
    };
    let message = TransferMessage { trace, command };
    Letter { topic: Topic::Transfers, key: message.key(), value: message.to_json() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panics_is_seen_in_the_health() {
        let threads = Health::default().part("threads");
        threads.works();
        thread(&threads, "calm", || ()).unwrap().join().unwrap();
        assert_eq!(threads.trouble(), None);
        let panicking = thread(&threads, "relay", || panic!("on purpose")).unwrap();
        assert!(panicking.join().is_err());
        assert!(threads.trouble().unwrap().contains("'relay' panicked"));
    }
}
