//! A shop over queues in memory: one node that is the order side, both participants and the scan for deadlines.

use std::collections::BTreeMap;

use holdfast_checkout::Coordinator;
use holdfast_checkout::coordinator::LogBounds;
use holdfast_domain::shop::{
    Alarm, CheckoutAnswer, IdempotencyKey, OrderId, ShopCommand, ShopOutcome, ShopRefusal, TrNum, Whole, Why,
};
use holdfast_domain::tokens::Fingerprint;
use holdfast_messages::{
    DeadLetter, Message, Notice, Notification, OrderCommand, OrderMessage, OutcomeMessage, OutcomeOffset,
    PartitionBy, PayMessage, StockMessage, Topic, TraceId,
};
use holdfast_postgres::shop::{Bill, Pledge, Pledges, Rebuilt};
use holdfast_postgres::tokens::{ClaimVerdict, WantedClaim};
use holdfast_postgres::{Batch, Claim, Done, Error, OutboxRow, Source, Step, Store};
use holdfast_tokens::Token;
use postgres::Client;

use crate::token_world::wanted;
use crate::world::{Queue, World, done};

pub const DEADLINE_MS: u32 = 10_000;

pub fn id<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

pub fn whole(number: u64) -> Whole {
    Whole::new(number).unwrap()
}

pub fn checkout() -> OrderCommand {
    OrderCommand::Checkout { deadline_ms: DEADLINE_MS, key: None }
}

pub fn checkout_under(key: &str, body: u128) -> OrderCommand {
    let key = Some(IdempotencyKey { key: key.into(), body: Fingerprint(body) });
    OrderCommand::Checkout { deadline_ms: DEADLINE_MS, key }
}

pub const CANCEL: OrderCommand = OrderCommand::Cancel { tr: None };
pub const RETRY: OrderCommand = OrderCommand::Retry { deadline_ms: DEADLINE_MS };

/// How a first try ended that is not paid.
pub fn failed(why: Why) -> CheckoutAnswer {
    CheckoutAnswer::Failed { tr: TrNum::FIRST, why }
}

/// What is done with messages on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    Once,
    /// Each twice in its batch, and all once more when everything is over.
    TwiceAndLate,
}

/// The answer to a command.
pub type Answered = Result<CheckoutAnswer, ShopRefusal>;

pub struct Shop {
    pub store: Store,
    pub orders: Vec<Queue<OrderMessage>>,
    pub pay: Vec<Queue<PayMessage>>,
    pub stock: Vec<Queue<StockMessage>>,
    pub outcomes: Vec<Queue<OutcomeMessage>>,
    pub coordinators: Vec<Coordinator>,
    pub shards: Vec<Claim>,
    /// Everything that was told, in order: trace, order, answer.
    pub told: Vec<(TraceId, OrderId, Answered)>,
    /// What participants were told of transfers, in order.
    pub told_parties: Vec<Notification>,
    /// What the topic `outcome-offsets` was told per partition, in order.
    pub offsets: BTreeMap<u32, Vec<u64>>,
    pub dead_letters: Vec<DeadLetter>,
    pub alarms: Vec<Alarm>,
    pub delivery: Delivery,
    /// Where tokens pay: what looks for some.
    pub seeker: Option<Client>,
    late: Vec<(u32, OutboxRow)>,
    asked: u128,
}

/// Any function of the order will do, if all topics have the same.
pub fn partition_of(order: &str, partitions: usize) -> u32 {
    let sum: usize = order.bytes().map(usize::from).sum();
    u32::try_from(sum % partitions).unwrap()
}

/// Who works next on a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    Orders,
    Pay,
    Stock,
    Outcomes,
    /// What all sources want sent is sent.
    Relay,
}
pub use Turn::*;

/// Until both sides have taken, and nobody has heard of it.
pub const BOTH_TAKE: &[Turn] = &[Orders, Relay, Pay, Stock, Relay];

impl Shop {
    /// A database and a shop over it, with nothing in it; `None` if this run has no server.
    pub fn open(partitions: u32) -> Option<(World, Shop)> {
        let world = World::new()?;
        let shop = Shop::new(&world, partitions);
        Some((world, shop))
    }

    /// The same where user `u` has 100, of item `i` there are 10 for 7 each, and order `o` wants 3 of them.
    pub fn with_an_order(partitions: u32) -> Option<(World, Shop)> {
        let (world, mut shop) = Shop::open(partitions)?;
        shop.stocked(&[("u", 100)], &[("i", 10, 7)], &[("o", "u", "i", 3)]);
        Some((world, shop))
    }

    pub fn new(world: &World, partitions: u32) -> Shop {
        let mut store = world.store();
        let coordinators = (0..partitions).map(|_| Coordinator::default()).collect();
        Shop {
            orders: queues(&mut store, partitions),
            pay: queues(&mut store, partitions),
            stock: queues(&mut store, partitions),
            outcomes: queues(&mut store, partitions),
            shards: (0..8).map(|shard| store.claim(&Source::Deadline(shard)).unwrap()).collect(),
            store,
            coordinators,
            told: Vec::new(),
            told_parties: Vec::new(),
            offsets: BTreeMap::new(),
            dead_letters: Vec::new(),
            alarms: Vec::new(),
            delivery: Delivery::Once,
            seeker: None,
            late: Vec::new(),
            asked: 0,
        }
    }

    /// Users, items and orders of one line: (order, user, item, quantity).
    pub fn stocked(
        &mut self,
        users: &[(&str, u64)],
        items: &[(&str, u64, u64)],
        orders: &[(&str, &str, &str, u64)],
    ) {
        for (user, credit) in users {
            self.does(&ShopCommand::CreateUser { id: id(user), credit: whole(*credit) });
        }
        for (item, stock, price) in items {
            let (stock, price) = (whole(*stock), whole(*price));
            self.does(&ShopCommand::CreateItem { id: id(item), stock, price });
        }
        for (order, user, item, quantity) in orders {
            self.does(&ShopCommand::CreateOrder { id: id(order), user: id(user) });
            let (order, item, quantity) = (id(order), id(item), whole(*quantity));
            self.does(&ShopCommand::AddItem { order, item, quantity });
        }
    }

    /// A command that is not refused.
    pub fn does(&mut self, command: &ShopCommand) -> ShopOutcome {
        let outcome = self.store.shop(command).unwrap();
        assert!(!matches!(outcome, ShopOutcome::Refused(_)), "{command:?}: {outcome:?}");
        outcome
    }

    /// Puts a command into the topic `orders`.
    pub fn ask(&mut self, order: &str, command: OrderCommand) -> TraceId {
        self.asked += 1;
        let trace = TraceId(self.asked);
        self.ask_as(trace, order, command);
        trace
    }

    /// Puts a command into the topic `orders`, and lets these work on the order's partition, one after the other.
    pub fn asks(&mut self, order: &str, command: OrderCommand, turns: &[Turn]) {
        self.ask(order, command);
        self.turns(partition_of(order, self.orders.len()) as usize, turns);
    }

    pub fn ask_as(&mut self, trace: TraceId, order: &str, command: OrderCommand) {
        let message = OrderMessage { trace, order: id(order), command };
        let partition = partition_of(order, self.orders.len());
        for _ in 0..self.times() {
            self.orders[partition as usize].say(&message);
        }
    }

    /// Has a command decided and everything that follows; how it was answered at first, and how the order stands in the end.
    pub fn run(&mut self, order: &str, command: OrderCommand) -> (Answered, String) {
        let trace = self.ask(order, command);
        self.drain();
        (self.answered(trace), self.state(order))
    }

    const fn times(&self) -> usize {
        match self.delivery {
            Delivery::Once => 1,
            Delivery::TwiceAndLate => 2,
        }
    }

    /// The first answer under that trace.
    pub fn answered(&self, trace: TraceId) -> Answered {
        let told = self.told.iter().find(|(of, _, _)| *of == trace);
        told.expect("it was answered").2.clone()
    }

    /// How the tries of an order ended, as everybody was told.
    pub fn ends(&self, order: &str) -> Vec<CheckoutAnswer> {
        let ends =
            self.told.iter().filter(|(trace, of, _)| *trace == TraceId::NOBODY && of.as_str() == order);
        ends.map(|(_, _, answer)| answer.clone().unwrap()).collect()
    }

    pub fn state(&mut self, order: &str) -> String {
        let (row, _) = self.store.find_order(&id(order)).unwrap().unwrap();
        row.order.state.name().to_owned()
    }

    pub fn credit(&mut self, user: &str) -> u64 {
        self.store.find_user(&id(user)).unwrap().unwrap().credit.get()
    }

    pub fn stock_of(&mut self, item: &str) -> u64 {
        self.store.find_item(&id(item)).unwrap().unwrap().stock.get()
    }

    /// Lets everybody work until nothing is left to do; in the delivery that is late, all comes once more and is worked off.
    pub fn drain(&mut self) {
        while self.work() {}
        for (partition, row) in std::mem::take(&mut self.late) {
            self.deliver(partition, &row);
        }
        while self.work() {}
        self.late.clear();
    }

    /// Each once; whether there was something to do.
    pub fn work(&mut self) -> bool {
        let mut worked = false;
        for partition in 0..self.orders.len() {
            for turn in [Orders, Pay, Stock, Outcomes] {
                worked |= self.turn(partition, turn);
            }
        }
        worked | self.relay()
    }

    /// Lets these work, one after the other.
    pub fn turns(&mut self, partition: usize, turns: &[Turn]) {
        for turn in turns {
            self.turn(partition, *turn);
        }
    }

    /// Lets one work on what waits; whether there was something to do.
    pub fn turn(&mut self, at: usize, turn: Turn) -> bool {
        let pledges = if turn == Pay { self.pledges(at) } else { None };
        let store = &mut self.store;
        let done = match turn {
            Orders => self.orders[at].take(|claim, batch| store.orders(claim, batch)),
            Pay => self.pay[at].take(|claim, batch| paid(store, claim, batch, pledges.as_ref())),
            Stock => self.stock[at].take(|claim, batch| store.stock(claim, batch)),
            Outcomes => {
                let coordinator = &mut self.coordinators[at];
                self.outcomes[at].take(|claim, batch| store.outcomes(claim, coordinator, batch))
            }
            Relay => return self.relay(),
        };
        let Some(Done { messages, alarms, .. }) = done else { return false };
        self.alarms.extend(alarms);
        messages > 0
    }

    /// What is locked for the payments that wait, where tokens pay.
    pub fn pledges(&mut self, at: usize) -> Option<Pledges> {
        let sql = self.seeker.as_mut()?;
        let bills = self.store.bills(self.pay[at].pending()).unwrap();
        Some(pledge(&mut self.store, sql, &bills))
    }

    /// Sends what all sources want sent.
    pub fn relay(&mut self) -> bool {
        let sources = self.sources();
        let sent: Vec<bool> = sources.iter().map(|claim| self.relay_of(claim)).collect();
        sent.contains(&true)
    }

    pub fn sources(&self) -> Vec<Claim> {
        fn claims<M>(queues: &[Queue<M>]) -> impl Iterator<Item = Claim> {
            queues.iter().map(|queue| queue.claim)
        }
        let sources = claims(&self.orders).chain(claims(&self.pay)).chain(claims(&self.stock));
        sources.chain(claims(&self.outcomes)).chain(self.shards.iter().copied()).collect()
    }

    /// Sends everything, and forgets that it was sent.
    pub fn publish_all(&mut self) {
        for claim in self.sources() {
            let rows = self.store.unsent(&claim, 100).unwrap();
            self.publish(&rows);
        }
    }

    /// Work where all that was committed is forgotten by those who sent it: it is sent once more, by others.
    pub fn work_forgetting(&mut self, rounds: usize) {
        for _ in 0..rounds {
            // Published, and the crash comes before that is noted.
            self.publish_all();
            self.take_over_all();
            self.relay();
            self.turns(0, &[Orders, Pay, Stock, Outcomes]);
        }
    }

    /// Others take over everything, and go on where the stored offsets say.
    pub fn take_over_all(&mut self) {
        self.orders.iter_mut().for_each(|queue| queue.taken_over(&mut self.store));
        self.pay.iter_mut().for_each(|queue| queue.taken_over(&mut self.store));
        self.stock.iter_mut().for_each(|queue| queue.taken_over(&mut self.store));
        self.shards = self.shards.iter().map(|old| self.store.claim(&old.source).unwrap()).collect();
        for partition in 0..u32::try_from(self.outcomes.len()).unwrap() {
            self.take_over(partition, 0);
        }
    }

    pub fn relay_of(&mut self, claim: &Claim) -> bool {
        let rows = self.store.unsent(claim, 10_000).unwrap();
        let Some(last) = rows.last().map(|row| row.number) else { return false };
        self.publish(&rows);
        assert!(self.store.mark_sent(claim, last + 1).unwrap());
        true
    }

    /// Rows of an outbox become messages in their topics; nobody notes that.
    pub fn publish(&mut self, rows: &[OutboxRow]) {
        for row in rows {
            let partition = match &row.by {
                PartitionBy::Key => 0,
                PartitionBy::Other(order) => partition_of(order, self.orders.len()),
                PartitionBy::Number(number) => *number,
            };
            // Those who are told are counted, so they are told once.
            for _ in 0..if row.topic.is_of_shop() { self.times() } else { 1 } {
                self.deliver(partition, row);
            }
            if self.delivery == Delivery::TwiceAndLate && row.topic.is_of_shop() {
                self.late.push((partition, row.clone()));
            }
        }
    }

    fn deliver(&mut self, partition: u32, row: &OutboxRow) {
        let (key, value, at) = (row.key.as_str(), &row.value[..], partition as usize);
        match row.topic {
            Topic::Pay => self.pay[at].push(key, value),
            Topic::Stock => self.stock[at].push(key, value),
            Topic::Outcomes => self.outcomes[at].push(key, value),
            Topic::OutcomeOffsets => {
                let OutcomeOffset { partition, offset } = OutcomeOffset::read(key.as_bytes(), value).unwrap();
                self.offsets.entry(partition).or_default().push(offset);
            }
            Topic::Notifications => {
                let told = Notification::read(key.as_bytes(), value).unwrap();
                match told.notice {
                    Notice::Checkout(ref notice) => {
                        assert_eq!((told.notice.to(), told.callbacks()), (None, Vec::new()));
                        self.told.push((told.trace, notice.order.clone(), notice.answer.clone()));
                    }
                    _ => self.told_parties.push(told),
                }
            }
            Topic::DeadLetters => {
                self.dead_letters.push(DeadLetter::read(key.as_bytes(), value).unwrap());
            }
            other => panic!("nothing of a shop goes to {other:?}"),
        }
    }

    /// Scans every shard until nothing is due, and lets everybody work.
    pub fn expire(&mut self) -> usize {
        let ended = self.expire_only();
        self.drain();
        ended
    }

    pub fn expire_only(&mut self) -> usize {
        let mut ended = 0;
        for (shard, claim) in (0..).zip(self.shards.clone()) {
            loop {
                let step = done(self.store.expire_checkouts(&claim, shard, 100).unwrap());
                ended += step.messages;
                self.alarms.extend(step.alarms);
                if step.messages == 0 {
                    break;
                }
            }
        }
        ended
    }

    /// Another takes over a partition of `outcomes`, whose log begins at `start` by now. What is told by that is returned.
    pub fn take_over(&mut self, partition: u32, start: u64) -> Done {
        let claim = self.store.claim(&Source::Consumer(Topic::Outcomes, partition)).unwrap();
        let from = self.store.outcome_offset(partition).unwrap().unwrap_or(0).max(start);
        let queue = &mut self.outcomes[partition as usize];
        let log = LogBounds { start, end: queue.log.len() as u64 };
        let from = usize::try_from(from).unwrap().min(queue.log.len());
        let Rebuilt::Done { coordinator, next, done } =
            self.store.rebuild_outcomes(&claim, log, &queue.log[from..]).unwrap()
        else {
            panic!("fenced")
        };
        (queue.claim, queue.at) = (claim, next);
        self.coordinators[partition as usize] = coordinator;
        *done
    }

    /// Nothing is under way, `outcome-offsets` tells what is stored, and everything adds up. What is sent once more begins
    /// below what was told last, and ends where it ended before.
    pub fn is_at_rest(&mut self, world: &World) {
        let open = self.store.open_checkouts(None, None, 10).unwrap();
        assert_eq!(open.checkouts, [], "nothing is open");
        for (partition, offsets) in &self.offsets {
            let (last, most) = (offsets.last().copied(), offsets.iter().max().copied());
            assert_eq!((last, self.store.outcome_offset(*partition).unwrap()), (most, most), "{offsets:?}");
        }
        world.verify();
    }
}

/// The payment side over a batch, with what was locked for it where tokens pay.
pub fn paid(
    store: &mut Store,
    claim: &Claim,
    batch: &Batch<'_, PayMessage>,
    pledges: Option<&Pledges>,
) -> Result<Step, Error> {
    match pledges {
        None => store.pay(claim, batch),
        Some(pledges) => store.pay_with(claim, batch, pledges),
    }
}

/// Locks tokens for bills as a node's vault does: whatever is free, the smallest first. A wallet that has too little is in want;
/// one whose tokens others have is waited for.
pub fn pledge(store: &mut Store, sql: &mut Client, bills: &[Bill]) -> Pledges {
    let mut pledges = Pledges::new();
    for bill in bills {
        let rows = sql
            .query(
                "SELECT t.token_id, t.quantity::bigint,
                     l.spender_tx_id IS NULL OR l.expires_at <= hub_clock() OR l.spender_tx_id = $2
                 FROM token t JOIN token_lock l USING (token_id)
                 WHERE t.wallet = $1 AND NOT l.spent ORDER BY t.quantity, t.token_id",
                &[&bill.wallet.as_str(), &bill.spender.to_string()],
            )
            .unwrap();
        let (mut tokens, mut sum, mut total) = (Vec::new(), 0, 0);
        for row in rows {
            let quantity = u64::try_from(row.get::<_, i64>(1)).unwrap();
            total += quantity;
            if row.get(2) && sum < bill.amount {
                sum += quantity;
                let currency = bill.currency.to_string();
                tokens.push(Token::new(
                    row.get::<_, &str>(0),
                    bill.wallet.as_str(),
                    currency.as_str(),
                    quantity,
                ));
            }
        }
        if total < bill.amount {
            pledges.insert(bill.spender, Pledge::Want);
            continue;
        }
        let ids = tokens.iter().map(|token| token.id.clone()).collect();
        let wanted = WantedClaim { amount: bill.amount, ..wanted(&bill.spender.to_string(), &tokens) };
        if sum >= bill.amount
            && let [ClaimVerdict::Locked { .. } | ClaimVerdict::Holds { same: true }] =
                store.claim_tokens(&[wanted], None).unwrap()[..]
        {
            pledges.insert(bill.spender, Pledge::Tokens(ids));
        }
    }
    pledges
}

fn queues<M: Message>(store: &mut Store, partitions: u32) -> Vec<Queue<M>> {
    (0..partitions).map(|partition| Queue::new(store, partition)).collect()
}
