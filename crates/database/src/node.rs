//! Start and stop.

mod starting;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use holdfast_domain::shop::Side;
use holdfast_engine::NotedTroubles;
use holdfast_kafka::{From, KafkaError, Reader};
use holdfast_postgres::shop::{Served, WantedCharging};
use holdfast_postgres::{Error, Store};

use crate::expiry::Kind;
use crate::handle::NodeHandle;
use crate::handler::{Callbacks, Position, TokenUpdates, Transfers};
use crate::meters::ExpiryMeters;
use crate::outboxes::Outboxes;
use crate::reads::Reads;
use crate::roles::Role;
use crate::sender::Queue;
use crate::settings::{NODE_SEEN, NodeSettings, START_WAIT, ShopCharging};
use crate::shop::{Called, Coordinators, Ends, Orders, Outcomes, TokenCharges, topic_of};
use crate::stop::Stop;
use crate::tokens::{Gatherer, TokenVault};
use crate::waiting::WaitingRoom;

pub(crate) use starting::Starting;

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
    outboxes: Vec<Arc<Outboxes>>,
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
            agree_on_serving(&settings, &mut store)?;
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
        let is_inside = |side| settings.store.serving().of(side) == Served::Inside;
        let pays = has_shop && settings.roles.has(Role::Pay) && is_inside(Side::Pay);
        let pays_by_tokens = pays && matches!(settings.charging.wanted, WantedCharging::Tokens { .. });
        let vault = match takes_requests || gathers.is_some() || pays_by_tokens {
            true => Some(starting.tokens(&reads)?),
            false => None,
        };
        let token_charges = vault.clone().filter(|_| pays_by_tokens).map(TokenCharges::new).transpose()?;
        let called = if has_shop { starting.sides(token_charges)? } else { Called::default() };
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
        let Starting { stop, health, outboxes, workers, others, .. } = starting;
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
            troubles: NotedTroubles::default(),
            draws: Arc::default(),
        };
        Ok(Node { handle, vault, stop, outboxes, workers, others })
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
        self.outboxes.iter().for_each(|outboxes| outboxes.end());
        self.others.drain(..).for_each(join);
        self.handle.room.close();
    }
}

/// Has all nodes agree on who serves the sides of checkouts. One that was called and is inside from now on would take from these
/// books what earlier messages ask for, so none may be left. What a program on Kafka had to answer is passed over whole: the nodes
/// have not read it, and all of it is over.
fn agree_on_serving(settings: &NodeSettings, store: &mut Store) -> Result<(), StartError> {
    let (before, after) = (store.serving()?, settings.store.serving());
    for side in Side::ALL.into_iter().filter(|side| before.of(*side) != after.of(*side)) {
        let topic = topic_of(side);
        let (name, deadline) = (settings.topics.name(topic), Instant::now() + START_WAIT);
        let reader = Reader::open(&settings.brokers, &name, &From::End, deadline)?;
        match (before.of(side), after.of(side)) {
            // Before they agree: while the program serves it, nobody here reads it anyway.
            (Served::OnKafka, _) => store.pass_to(topic, reader.next_offsets())?,
            (Served::Called, Served::Inside) => {
                let there = reader.next_offsets().iter().sum::<u64>();
                let taken = store.messages_taken(topic)?;
                if taken < there {
                    return Err(StartError::Unread { topic: name, messages: there - taken });
                }
            }
            _ => {}
        }
    }
    Ok(store.agree_on_serving()?)
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the node panicked");
    }
}
