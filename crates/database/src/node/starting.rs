//! The threads of a node, one part after the other.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Instant;

use holdfast_domain::shop::Side;
use holdfast_engine::Ends;
use holdfast_kafka::{ConsumerSettings, From, GroupConsumer, KafkaError, Producer, ProducerSettings, Reader};
use holdfast_messages::{Message, PayMessage, StockMessage, Topic};
use holdfast_postgres::shop::Served;
use holdfast_tokens::ConsolidationOptions;

use super::StartError;
use crate::expiry::{Expiry, Kind};
use crate::handler::{self, Handler, Hop, Partitions};
use crate::health::{Health, Part};
use crate::meters::{ExpiryMeters, HandlerMeters, RelayMeters};
use crate::outboxes::Outboxes;
use crate::patrol::Patrol;
use crate::probe::probe;
use crate::reads::Reads;
use crate::relay::Relay;
use crate::roles::Role;
use crate::sender::{Queue, Sender};
use crate::settings::{NodeSettings, START_WAIT};
use crate::shop::{self, Asks, Called, TokenCharges};
use crate::stop::Stop;
use crate::tail::Tail;
use crate::tokens::{self, Gatherer, Keeper, TokenClock, TokenVault};
use crate::waiting::WaitingRoom;
use crate::worker::Worker;

/// What the parts of the two sides of checkouts are called.
const PAY: &str = "pay";
const STOCK: &str = "stock";

/// A node that is being put together.
pub(crate) struct Starting<'a> {
    settings: &'a Arc<NodeSettings>,
    pub(crate) stop: Arc<Stop>,
    threads: Arc<Part>,
    pub(crate) health: Health,
    pub(crate) outboxes: Vec<Arc<Outboxes>>,
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
            outboxes: Vec::new(),
            workers: Vec::new(),
            others: Vec::new(),
            settings,
        }
    }

    /// The handlers of this node's roles, but for those of tokens and of the sides of checkouts.
    pub(super) fn handlers(&mut self) -> Result<(), StartError> {
        let settings = Arc::clone(self.settings);
        let (roles, has_shop) = (&settings.roles, settings.topics.shop.is_some());
        if roles.has(Role::Transfers) {
            self.handler(handler::transfers(), "transfers", "transfers relay")?;
        }
        if roles.has(Role::Position) {
            self.handler(handler::position(), "position", "position relay")?;
        }
        if roles.has(Role::Expiry) {
            self.expiry("expiry", "expiry relay", Kind::Holds, ExpiryMeters::of_holds())?;
        }
        if has_shop && roles.has(Role::Expiry) {
            self.expiry("deadlines", "deadlines relay", Kind::Checkouts, ExpiryMeters::of_checkouts())?;
        }
        if has_shop && roles.has(Role::Order) {
            self.handler(shop::orders(), "orders", "orders relay")?;
            self.handler(shop::outcomes(Arc::clone(&settings)), "outcomes", "outcomes relay")?;
        }
        if roles.has(Role::Callbacks) {
            self.handler(handler::callbacks(), "callbacks", "callbacks relay")?;
        }
        Ok(())
    }

    /// The connections for questions, and what asks all the time.
    pub(super) fn reads(&mut self) -> Result<Arc<Reads>, StartError> {
        let answers = self.health.part("store");
        // It has just answered.
        answers.works();
        let reads = Arc::new(Reads::new(Arc::clone(self.settings), answers));
        let (asked, node, stop) = (Arc::clone(&reads), self.settings.node_number(), Arc::clone(&self.stop));
        self.others.push(thread(&self.threads, "probe", move || probe(&asked, node, &stop))?);
        if self.settings.roles.has(Role::Expiry) || self.settings.roles.has(Role::Position) {
            self.patrol(&reads)?;
        }
        Ok(reads)
    }

    fn producer(&self) -> Result<Producer, KafkaError> {
        Producer::new(ProducerSettings::new(self.settings.brokers.clone(), self.settings.topics.clone()))
    }

    pub(super) fn edge(
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
    pub(super) fn sender(
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

    /// The participants of checkouts: here, or called over HTTP; those that are on Kafka are no business of a node. With `token_charges`,
    /// where tokens pay.
    pub(super) fn sides(&mut self, token_charges: Option<TokenCharges>) -> Result<Called, StartError> {
        let settings = Arc::clone(self.settings);
        let asks = |role, side| {
            (settings.roles.has(role) && settings.store.outside.has(side)).then(Arc::<Asks>::default)
        };
        let called = Called { pay: asks(Role::Pay, Side::Pay), stock: asks(Role::Stock, Side::Stock) };
        let is_inside = |side| settings.store.serving().of(side) == Served::Inside;
        match &called.pay {
            Some(asks) => {
                self.handler(shop::called(Side::Pay, asks, PayMessage::said), PAY, "pay relay")?;
            }
            None if settings.roles.has(Role::Pay) && is_inside(Side::Pay) => {
                self.handler(shop::pay(Arc::clone(&settings), token_charges), PAY, "pay relay")?;
            }
            None => {}
        }
        match &called.stock {
            Some(asks) => {
                self.handler(shop::called(Side::Stock, asks, StockMessage::said), STOCK, "stock relay")?;
            }
            None if settings.roles.has(Role::Stock) && is_inside(Side::Stock) => {
                self.handler(shop::stock(Arc::clone(&settings)), STOCK, "stock relay")?;
            }
            None => {}
        }
        Ok(called)
    }

    /// How the handler of a side is that is called, if there is one.
    pub(super) fn part_of_a_called(&self, called: &Called) -> Option<Arc<Part>> {
        let name = match (&called.pay, &called.stock) {
            (Some(_), _) => PAY,
            (None, Some(_)) => STOCK,
            (None, None) => return None,
        };
        self.health.parts().iter().find(|part| part.name() == name).map(Arc::clone)
    }

    fn relay(&mut self, name: &'static str) -> Result<Arc<Outboxes>, StartError> {
        let outboxes: Arc<Outboxes> = Arc::default();
        let part = self.health.part(name);
        // It has nothing to send yet, and is fine.
        part.works();
        let relay = Relay {
            settings: Arc::clone(self.settings),
            outboxes: Arc::clone(&outboxes),
            producer: self.producer()?,
            part,
            stop: Arc::clone(&self.stop),
            meters: RelayMeters::new(name),
        };
        self.others.push(thread(&self.threads, name, move || relay.run())?);
        self.outboxes.push(Arc::clone(&outboxes));
        Ok(outboxes)
    }

    pub(crate) fn handler<M: Message + 'static>(
        &mut self,
        hop: Hop<M>,
        name: &'static str,
        relay: &'static str,
    ) -> Result<(), StartError> {
        let outboxes = self.relay(relay)?;
        let part = self.health.part(name);
        let topic = self.settings.topics.name(M::TOPIC);
        let group = self.settings.group(M::TOPIC);
        let mut settings = ConsumerSettings::new(self.settings.brokers.clone(), group, topic);
        settings.poll_every_max = hop.takeover_max.unwrap_or(settings.poll_every_max);
        let consumer = GroupConsumer::join(settings)?;
        let (caller, (put, ended)) = (consumer.caller(), channel());
        let mut job_queues = Vec::new();
        for number in 0..hop.workers {
            let (worker, jobs) = Worker::new(number, self.settings, &put, &caller);
            let step = Arc::clone(&hop.step);
            self.workers.push(thread(&self.threads, name, move || worker.run(&step))?);
            job_queues.push(jobs);
        }
        let handler = Handler {
            workers: job_queues,
            ended,
            consumer,
            partitions: Partitions::new(hop, self.settings, outboxes, part),
            stop: Arc::clone(&self.stop),
            meters: HandlerMeters::new(M::TOPIC.name()),
        };
        self.workers.push(thread(&self.threads, name, move || handler.run())?);
        Ok(())
    }

    /// The vault that all nodes share, for callers of this one.
    pub(super) fn tokens(&mut self, reads: &Arc<Reads>) -> Result<TokenVault, StartError> {
        let (part, threads) = (self.health.part("tokens"), &self.threads);
        let spawn = |name, body| thread(threads, name, body);
        let clock = TokenClock::of_database();
        let (vault, threads) = tokens::start(self.settings, reads, part, &self.stop, clock, spawn)?;
        self.others.extend(threads);
        Ok(vault)
    }

    /// Updates from outside, and the housekeeping of tokens; with a vault it brings shattered wallets together.
    pub(super) fn token_house(
        &mut self,
        gathers: Option<(TokenVault, ConsolidationOptions)>,
    ) -> Result<(), StartError> {
        self.handler(handler::token_updates(), "token updates", "token updates relay")?;
        let gatherer = gathers.map(|(vault, options)| Gatherer::new(vault, options)).transpose()?;
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
        let outboxes = self.relay(relay)?;
        let (part, stop) = (self.health.part(name), Arc::clone(&self.stop));
        let expiry = Expiry { kind, settings: Arc::clone(self.settings), outboxes, part, stop, meters };
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
