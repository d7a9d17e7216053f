//! Start and stop.

mod starting;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use holdfast_domain::shop::Side;
use holdfast_engine::{Ends, NotedTroubles};
use holdfast_kafka::{From, KafkaError, Reader};
use holdfast_postgres::shop::{Served, WantedCharging};
use holdfast_postgres::{Error, Store};
use holdfast_tokens::ConsolidationOptions;

use crate::handle::NodeHandle;
use crate::outboxes::Outboxes;
use crate::roles::Role;
use crate::sender::Queue;
use crate::settings::{NODE_SEEN, NodeSettings, START_WAIT, ShopCharging};
use crate::shop::{Called, TokenCharges, limits::CALLERS_MAX, topic_of};
use crate::stop::Stop;
use crate::tokens::TokenVault;
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
        agree(&settings)?;
        let mut starting = Starting::new(&settings);
        let room = Arc::new(WaitingRoom::new(settings.node_id));
        let queue = Arc::new(Queue::default());
        let ends = Arc::new(Ends::new(CALLERS_MAX));
        if settings.roles.has(Role::Api) {
            starting.edge(&room, &queue, &ends)?;
        }
        starting.handlers()?;
        let delivers = settings.roles.has(Role::Callbacks);
        let delivery = delivers.then(|| starting.health.part("delivery"));
        let reads = starting.reads()?;
        let wants = TokenNeeds::of(&settings);
        let vault = wants.a_vault().then(|| starting.tokens(&reads)).transpose()?;
        let charges = vault.clone().filter(|_| wants.charges).map(TokenCharges::new).transpose()?;
        let called = if has_shop(&settings) { starting.sides(charges)? } else { Called::default() };
        if !wants.requests
            && let Some(heard) = starting.part_of_a_called(&called)
        {
            // Their answers have to be sent all the same.
            starting.sender(&room, &queue, heard)?;
        }
        if settings.roles.has(Role::Tokens) {
            starting.token_house(vault.clone().zip(wants.gathers))?;
        }
        let tokens = vault.clone().filter(|_| wants.requests);
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

    /// A handle of the node.
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

const fn has_shop(settings: &NodeSettings) -> bool {
    settings.topics.shop.is_some()
}

/// Has this node agree with the others on topics, tables and who serves what; makes what is not there.
fn agree(settings: &NodeSettings) -> Result<(), StartError> {
    let mut store = settings.connect()?;
    for topic in settings.topics.topics() {
        let name = format!("partitions.{}", settings.topics.name(topic));
        store.fix(&name, i64::from(settings.topics.partitions(topic)))?;
    }
    settings.topics.ensure(&settings.brokers, Instant::now() + START_WAIT)?;
    if has_shop(settings) {
        agree_on_serving(settings, &mut store)?;
        let ShopCharging { wanted, secret } = &settings.charging;
        store.agree_on_charging(wanted, *secret, settings.node_number())?;
        store.lives(settings.node_number(), NODE_SEEN)?;
    }
    Ok(())
}

/// What a node needs a vault for.
struct TokenNeeds {
    /// It takes requests.
    requests: bool,
    /// It brings shattered wallets together.
    gathers: Option<ConsolidationOptions>,
    /// Tokens pay for checkouts.
    charges: bool,
}

impl TokenNeeds {
    fn of(settings: &NodeSettings) -> TokenNeeds {
        let is_inside = settings.store.serving().of(Side::Pay) == Served::Inside;
        let pays = has_shop(settings) && settings.roles.has(Role::Pay) && is_inside;
        TokenNeeds {
            requests: settings.roles.has(Role::Api),
            gathers: settings.tokens.consolidation.filter(|_| settings.roles.has(Role::Tokens)),
            charges: pays && matches!(settings.charging.wanted, WantedCharging::Tokens { .. }),
        }
    }

    const fn a_vault(&self) -> bool {
        self.requests || self.gathers.is_some() || self.charges
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
