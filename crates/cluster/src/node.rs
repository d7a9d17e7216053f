//! Start and stop.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Instant;

use holdfast_domain::shop::Side;
use holdfast_kafka::{ConsumerSettings, From, GroupConsumer, KafkaError, Producer, ProducerSettings, Reader};
use holdfast_messages::Topic;
use holdfast_postgres::shop::WantedCharging;
use holdfast_postgres::{Error, Store};

use crate::board::Board;
use crate::expiry::{Expiry, Kind};
use crate::hand::Hand;
use crate::handle::NodeHandle;
use crate::handler::{Callbacks, Desk, Handler, Hop, Position, TokenUpdates, Transfers};
use crate::health::{Health, Part};
use crate::meters::{ExpiryMeters, HandlerMeters, RelayMeters};
use crate::patrol::Patrol;
use crate::probe::Probe;
use crate::reads::Reads;
use crate::relay::Relay;
use crate::roles::Role;
use crate::sender::{Queue, Sender};
use crate::settings::{NODE_SEEN, NodeSettings, START_WAIT, ShopCharging};
use crate::shop::{
    Asks, Called, CalledPay, CalledStock, Coordinators, Ends, Orders, Outcomes, Pay, Purse, Stock, topic_of,
};
use crate::stop::Stop;
use crate::tail::Tail;
use crate::tokens::{self, Gatherer, Keeper, TokenVault};
use crate::waiting::WaitingRoom;

/// What the parts of the two sides of checkouts are called.
const PAY: &str = "pay";
const STOCK: &str = "stock";

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Kafka.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// PostgreSQL.
    #[error(transparent)]
    Store(#[from] Error),
    /// A side is to be inside from now on, and not all was read of its topic.
    #[error(
        "{messages} messages of {topic} were not read while that side was called over HTTP, and would now be taken for questions to \
         these books; start the nodes as before until they are read"
    )]
    Unread {
        /// Its topic.
        topic: String,
        /// How many.
        messages: u64,
    },
    /// A thread cannot be started.
    #[error("a thread cannot be started")]
    Thread(#[source] std::io::Error),
}

/// A running node. Ends when dropped: partitions and shards are handed over, those who wait are told.
pub struct Node {
    handle: NodeHandle,
    /// Also where no requests are taken, if the node brings shattered wallets together or tokens pay for checkouts.
    vault: Option<TokenVault>,
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
        for topic in settings.topics.topics() {
            let name = format!("partitions.{}", settings.topics.name(topic));
            store.fix(&name, i64::from(settings.topics.partitions(topic)))?;
        }
        settings.topics.ensure(&settings.brokers, Instant::now() + START_WAIT)?;
        let has_shop = settings.topics.shop.is_some();
        if has_shop {
            agree_on_outside(&settings, &mut store)?;
            let ShopCharging { wanted, secret } = &settings.charging;
            store.agree_on_charging(wanted, *secret, settings.node_number())?;
            store.lives(settings.node_number(), NODE_SEEN)?;
        }
        drop(store);
        let mut starting = Starting::new(&settings);
        let room = Arc::new(WaitingRoom::new(settings.node_id));
        let queue = Arc::new(Queue::default());
        let ends: Arc<Ends> = Arc::default();
        if settings.roles.has(Role::Api) {
            starting.edge(&room, &queue, &ends)?;
        }
        if settings.roles.has(Role::Transfers) {
            starting.handler(Transfers, "transfers", "transfers relay")?;
        }
        if settings.roles.has(Role::Position) {
            starting.handler(Position, "position", "position relay")?;
        }
        if settings.roles.has(Role::Expiry) {
            starting.expiry("expiry", "expiry relay", Kind::Holds, ExpiryMeters::of_holds())?;
        }
        if has_shop && settings.roles.has(Role::Expiry) {
            let meters = ExpiryMeters::of_checkouts();
            starting.expiry("deadlines", "deadlines relay", Kind::Checkouts, meters)?;
        }
        if has_shop && settings.roles.has(Role::Order) {
            let (settings, coordinators) = (Arc::clone(&settings), Coordinators::default());
            starting.handler(Orders, "orders", "orders relay")?;
            starting.handler(Outcomes { settings, coordinators }, "outcomes", "outcomes relay")?;
        }
        if settings.roles.has(Role::Callbacks) {
            starting.handler(Callbacks, "callbacks", "callbacks relay")?;
        }
        let delivers = settings.roles.has(Role::Callbacks);
        let delivery = delivers.then(|| starting.health.part("delivery"));
        let answers = starting.health.part("store");
        // It has just answered.
        answers.works();
        let reads = Arc::new(Reads::new(Arc::clone(&settings), answers));
        starting.probe(&reads)?;
        if settings.roles.has(Role::Expiry) || settings.roles.has(Role::Position) {
            starting.patrol(&reads)?;
        }
        let takes_requests = settings.roles.has(Role::Api);
        let keeps_house = settings.roles.has(Role::Tokens);
        let gathers = settings.tokens.consolidation.filter(|_| keeps_house);
        let pays = has_shop && settings.roles.has(Role::Pay) && !settings.store.outside.pay;
        let pays_by_tokens = pays && matches!(settings.charging.wanted, WantedCharging::Tokens { .. });
        let vault = match takes_requests || gathers.is_some() || pays_by_tokens {
            true => Some(starting.tokens(&reads)?),
            false => None,
        };
        let purse = vault.clone().filter(|_| pays_by_tokens).map(Purse::new).transpose()?;
        let called = if has_shop { starting.sides(purse)? } else { Called::default() };
        if !takes_requests && let Some(heard) = starting.part_of_a_called(&called) {
            // Their answers have to be sent all the same.
            starting.sender(&room, &queue, heard)?;
        }
        if keeps_house {
            starting.handler(TokenUpdates, "token updates", "token updates relay")?;
            let gatherer = vault.clone().zip(gathers).map(|(vault, options)| Gatherer::new(vault, options));
            starting.keeper(gatherer.transpose()?)?;
        }
        let tokens = vault.clone().filter(|_| takes_requests);
        let Starting { stop, health, boards, workers, others, .. } = starting;
        let health = Arc::new(health);
        let one_by_one = Arc::default();
        let handle = NodeHandle {
            settings,
            queue,
            room,
            reads,
            health,
            delivery,
            one_by_one,
            tokens,
            ends,
            called,
            draws: Arc::default(),
        };
        Ok(Node { handle, vault, stop, boards, workers, others })
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
        self.handle.ends.close();
        self.handle.called.close();
        if let Some(vault) = &self.vault {
            vault.close();
        }
        self.stop.set();
        self.workers.drain(..).for_each(join);
        self.boards.iter().for_each(|board| board.end());
        self.others.drain(..).for_each(join);
        self.handle.room.close();
    }
}

/// Has all nodes agree on which sides of checkouts are called. One that was called and is inside from now on would take from these
/// books what earlier messages ask for, so none may be left.
fn agree_on_outside(settings: &NodeSettings, store: &mut Store) -> Result<(), StartError> {
    let (before, after) = (store.outside()?, settings.store.outside);
    for side in Side::ALL.into_iter().filter(|side| before.has(*side) && !after.has(*side)) {
        let topic = topic_of(side);
        let (name, deadline) = (settings.topics.name(topic), Instant::now() + START_WAIT);
        let reader = Reader::open(&settings.brokers, &name, &From::End, deadline)?;
        let (there, taken) = (reader.next_offsets().iter().sum::<u64>(), store.messages_taken(topic)?);
        if taken < there {
            return Err(StartError::Unread { topic: name, messages: there - taken });
        }
    }
    Ok(store.agree_on_outside()?)
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the node panicked");
    }
}

/// A node that is being put together.
pub(crate) struct Starting<'a> {
    settings: &'a Arc<NodeSettings>,
    pub(crate) stop: Arc<Stop>,
    threads: Arc<Part>,
    pub(crate) health: Health,
    pub(crate) boards: Vec<Arc<Board>>,
    pub(crate) workers: Vec<JoinHandle<()>>,
    pub(crate) others: Vec<JoinHandle<()>>,
}

impl<'a> Starting<'a> {
    pub(crate) fn new(settings: &'a Arc<NodeSettings>) -> Starting<'a> {
        let mut health = Health::default();
        let threads = health.part("threads");
        threads.works();
        Starting {
            stop: Arc::default(),
            threads,
            health,
            boards: Vec::new(),
            workers: Vec::new(),
            others: Vec::new(),
            settings,
        }
    }

    fn producer(&self) -> Result<Producer, KafkaError> {
        Producer::new(ProducerSettings::new(self.settings.brokers.clone(), self.settings.topics.clone()))
    }

    fn edge(
        &mut self,
        room: &Arc<WaitingRoom>,
        queue: &Arc<Queue>,
        ends: &Arc<Ends>,
    ) -> Result<(), StartError> {
        let topic = self.settings.topics.name(Topic::Notifications);
        let deadline = Instant::now() + START_WAIT;
        let reader = Reader::open(&self.settings.brokers, &topic, &From::End, deadline)?;
        let (stop, heard) = (Arc::clone(&self.stop), self.health.part("notifications"));
        let tail =
            Tail { reader, room: Arc::clone(room), ends: Arc::clone(ends), part: Arc::clone(&heard), stop };
        self.others.push(thread(&self.threads, "notifications", move || tail.run())?);
        self.sender(room, queue, heard)
    }

    /// What empties the queue. `heard`: somebody who talks to the same Kafka all the time.
    fn sender(
        &mut self,
        room: &Arc<WaitingRoom>,
        queue: &Arc<Queue>,
        heard: Arc<Part>,
    ) -> Result<(), StartError> {
        let (settings, queue) = (Arc::clone(self.settings), Arc::clone(queue));
        let (producer, part) = (self.producer()?, self.health.part("log"));
        let sender = Sender { settings, queue, room: Arc::clone(room), producer, part, heard };
        self.others.push(thread(&self.threads, "sender", move || sender.run())?);
        Ok(())
    }

    /// The participants of checkouts: here, or called over HTTP. With a purse, where tokens pay.
    fn sides(&mut self, purse: Option<Purse>) -> Result<Called, StartError> {
        let settings = Arc::clone(self.settings);
        let asks = |role, side| {
            (settings.roles.has(role) && settings.store.outside.has(side)).then(Arc::<Asks>::default)
        };
        let called = Called { pay: asks(Role::Pay, Side::Pay), stock: asks(Role::Stock, Side::Stock) };
        match &called.pay {
            Some(asks) => self.handler(CalledPay(Arc::clone(asks)), PAY, "pay relay")?,
            None if settings.roles.has(Role::Pay) => self.handler(Pay { purse }, PAY, "pay relay")?,
            None => {}
        }
        match &called.stock {
            Some(asks) => self.handler(CalledStock(Arc::clone(asks)), STOCK, "stock relay")?,
            None if settings.roles.has(Role::Stock) => self.handler(Stock, STOCK, "stock relay")?,
            None => {}
        }
        Ok(called)
    }

    /// How the handler of a side is that is called, if there is one.
    fn part_of_a_called(&self, called: &Called) -> Option<Arc<Part>> {
        let name = match (&called.pay, &called.stock) {
            (Some(_), _) => PAY,
            (None, Some(_)) => STOCK,
            (None, None) => return None,
        };
        self.health.parts().iter().find(|part| part.name() == name).map(Arc::clone)
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

    pub(crate) fn handler<H: Hop>(
        &mut self,
        hop: H,
        name: &'static str,
        relay: &'static str,
    ) -> Result<(), StartError> {
        let board = self.relay(relay)?;
        let part = self.health.part(name);
        let topic = self.settings.topics.name(H::TOPIC);
        let group = self.settings.group(H::TOPIC);
        let mut settings = ConsumerSettings::new(self.settings.brokers.clone(), group, topic);
        settings.poll_every_max = H::TAKEOVER_MAX.unwrap_or(settings.poll_every_max);
        let consumer = GroupConsumer::join(settings)?;
        let (caller, (put, ended)) = (consumer.caller(), channel());
        let hop = Arc::new(hop);
        let mut hands = Vec::new();
        for number in 0..H::HANDS {
            let (hand, jobs) = Hand::new(number, self.settings, &put, &caller);
            let hop = Arc::clone(&hop);
            self.workers.push(thread(&self.threads, name, move || hand.run(&*hop))?);
            hands.push(jobs);
        }
        let losing = Arc::clone(&hop);
        let handler = Handler {
            hands,
            ended,
            consumer,
            desk: Desk {
                begin: Box::new(move |store, partition, claim| hop.begin(store, partition, claim)),
                lost: Box::new(move |partition| losing.lost(partition)),
                batch_messages: self.settings.batch_messages.min(H::MESSAGES_MAX),
                gathers: H::GATHERS,
                ..Desk::new(H::TOPIC, self.settings, &board, &part)
            },
            stop: Arc::clone(&self.stop),
            meters: HandlerMeters::new(H::TOPIC.name()),
        };
        self.workers.push(thread(&self.threads, name, move || handler.run::<H>())?);
        Ok(())
    }

    /// The vault that all nodes share, for callers of this one.
    fn tokens(&mut self, reads: &Arc<Reads>) -> Result<TokenVault, StartError> {
        let (part, threads) = (self.health.part("tokens"), &self.threads);
        let spawn = |name, body| thread(threads, name, body);
        let started = tokens::start(self.settings, reads, part, &self.stop, spawn)?;
        self.others.extend(started.threads);
        Ok(started.vault)
    }

    fn keeper(&mut self, gatherer: Option<Gatherer>) -> Result<(), StartError> {
        let keeper = Keeper {
            settings: Arc::clone(self.settings),
            producer: self.producer()?,
            part: self.health.part("token events"),
            stop: Arc::clone(&self.stop),
            gatherer,
        };
        self.others.push(thread(&self.threads, "token events", move || keeper.run())?);
        Ok(())
    }

    fn probe(&mut self, reads: &Arc<Reads>) -> Result<(), StartError> {
        let probe = Probe {
            reads: Arc::clone(reads),
            node: self.settings.node_number(),
            stop: Arc::clone(&self.stop),
        };
        self.others.push(thread(&self.threads, "probe", move || probe.run())?);
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

    fn expiry(
        &mut self,
        name: &'static str,
        relay: &'static str,
        kind: Kind,
        meters: ExpiryMeters,
    ) -> Result<(), StartError> {
        let board = self.relay(relay)?;
        let (part, stop) = (self.health.part(name), Arc::clone(&self.stop));
        let expiry = Expiry { kind, settings: Arc::clone(self.settings), board, part, stop, meters };
        self.workers.push(thread(&self.threads, name, move || expiry.run())?);
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
