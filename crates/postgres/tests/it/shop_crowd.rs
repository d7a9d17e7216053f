//! All roles at once on every partition, each on a thread and a connection of its own, over few users and items: nobody waits in
//! a circle, and nothing is lost or taken twice.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use holdfast_checkout::Coordinator;
use holdfast_domain::shop::{Secret, ShopCommand, ShopOutcome};
use holdfast_messages::{
    Message, Notice, OrderMessage, OutcomeMessage, PartitionBy, PayMessage, StockMessage, Topic, TraceId,
};
use holdfast_postgres::{Batch, Claim, Done, Error, Incoming, OutboxRow, Source, Step, Store};

use crate::shop_world::*;
use crate::world::*;

const PARTITIONS: usize = 3;
const ORDERS: usize = 600;
const USERS: usize = 7;
const ITEMS: usize = 5;
/// How long the crowd may take in all.
const PATIENCE: Duration = Duration::from_secs(120);

type Bytes = (Vec<u8>, Vec<u8>);

/// The topics of a shop, and how many tries have ended.
#[derive(Default)]
struct Topics {
    logs: [[Mutex<Vec<Bytes>>; PARTITIONS]; 4],
    ended: AtomicUsize,
    over: AtomicBool,
    retries: AtomicUsize,
}

const fn place(topic: Topic) -> usize {
    match topic {
        Topic::Orders => 0,
        Topic::Pay => 1,
        Topic::Stock => 2,
        Topic::Outcomes => 3,
        _ => panic!("no topic of these"),
    }
}

impl Topics {
    fn publish(&self, rows: &[OutboxRow]) {
        for row in rows {
            match row.topic {
                Topic::Pay | Topic::Stock | Topic::Outcomes => {
                    let partition = match &row.by {
                        PartitionBy::Other(order) => partition_of(order, PARTITIONS),
                        PartitionBy::Number(number) => *number,
                        PartitionBy::Key => panic!("{row:?}"),
                    };
                    let mut log = self.logs[place(row.topic)][partition as usize].lock().unwrap();
                    log.push((row.key.clone().into_bytes(), row.value.clone()));
                }
                Topic::Notifications => {
                    let told = holdfast_messages::Notification::read(row.key.as_bytes(), &row.value).unwrap();
                    let of_checkout = matches!(told.notice, Notice::Checkout(_));
                    let ended = of_checkout && told.trace == TraceId::NOBODY;
                    self.ended.fetch_add(usize::from(ended), Ordering::SeqCst);
                }
                Topic::OutcomeOffsets => {}
                other => panic!("{other:?}: {row:?}"),
            }
        }
    }

    /// One role on one partition, until all is over.
    fn work<M: Message>(
        &self,
        world: &World,
        partition: usize,
        mut step: impl FnMut(&mut Store, &Claim, &Batch<'_, M>) -> Result<Step, Error>,
    ) {
        let mut store = world.store();
        let claim = store.claim(&Source::Consumer(M::TOPIC, u32::try_from(partition).unwrap())).unwrap();
        let (mut at, mut sent) = (0, 0);
        while !self.over.load(Ordering::SeqCst) {
            let fresh: Vec<Bytes> = self.logs[place(M::TOPIC)][partition].lock().unwrap()[at..].to_vec();
            if fresh.is_empty() {
                std::thread::park_timeout(Duration::from_millis(1));
                continue;
            }
            let messages: Vec<Incoming<M>> = (at as u64..)
                .zip(fresh)
                .map(|(offset, (key, value))| Incoming::read(offset, key, value))
                .collect();
            let batch = Batch::new(at as u64, &messages).sent(sent);
            let Done { outbox, retries, .. } = done(step(&mut store, &claim, &batch).unwrap());
            self.retries.fetch_add(retries, Ordering::SeqCst);
            sent = outbox.last().map_or(sent, |row| row.number + 1);
            self.publish(&outbox);
            at += messages.len();
        }
    }
}

#[test]
fn a_crowd_over_few_users_and_items() {
    let Some(world) = World::new() else { return };
    let mut store = world.store();
    let users = u32::try_from(USERS).unwrap();
    let outcome = store.shop(&ShopCommand::InitUsers { first: 0, count: users, credit: whole(200) }).unwrap();
    assert!(!matches!(outcome, ShopOutcome::Refused(_)), "{outcome:?}");
    let paid = crowd(&world, "", || false);
    let gone = i64::try_from(USERS).unwrap() * 200;
    assert_eq!(world.count(&format!("SELECT {gone} - sum(credit)::bigint FROM users")), 2 * paid);
    world.verify();
}

/// One payee for all, seven payers, and other transfers between the same accounts meanwhile: all partitions want the same rows,
/// and nobody waits in a circle.
#[test]
fn a_crowd_that_pays_one_participant() {
    let Some((world, mut node)) = node(1) else { return };
    let (payee, payee_account) = node.participant("shop", 1_000, 1_000);
    let accounts: Vec<_> =
        (0..USERS).map(|user| node.participant(&format!("payer{user}"), 200, 200)).collect();
    node.store.agree_on_charging(&crate::shop_charges::transfers(), Secret([9; 32]), 1).unwrap();
    // One of the payers also pays the shop by itself, and is paid back.
    let (other, mut number) = (accounts[0].0.0, 0_u128);
    let paid = crowd(&world, "payer", || {
        number += 2;
        node.ask(&[prepare(number, other, payee.0, 1, FAR), prepare(number + 1, payee.0, other, 1, FAR)]);
        node.ask(&[fulfil(number, payee.0), fulfil(number + 1, other)]);
        true
    });
    let payers: i64 = accounts.iter().map(|(_, account)| world.value(*account)).sum();
    let others = world.rows(
        "transfer t LEFT JOIN checkout_charge c ON c.charge_id = t.transfer_id
        WHERE c.order_id IS NULL AND t.current_state NOT IN (5, 8)",
    );
    assert_eq!(others, 0);
    assert_eq!(payers, -world.value(payee_account));
    let committed = world.count(
        "SELECT coalesce(sum(t.amount), 0)::bigint FROM transfer t
        JOIN checkout_charge c ON c.charge_id = t.transfer_id WHERE t.current_state = 5",
    );
    assert_eq!(committed, 2 * paid);
    assert_eq!(world.rows("transfer WHERE current_state IN (1, 3, 4, 6, 9)"), 0);
    world.verify();
}

/// Lets all roles work on all partitions until every order has ended, and somebody else beside them; how many are paid. Users
/// are numbered behind that name.
fn crowd(world: &World, name: &str, mut beside: impl FnMut() -> bool + Send) -> i64 {
    let mut store = world.store();
    let mut does = |command: &ShopCommand| {
        let outcome = store.shop(command).unwrap();
        assert!(!matches!(outcome, ShopOutcome::Refused(_)), "{outcome:?}");
    };
    does(&ShopCommand::InitItems {
        first: 0,
        count: u32::try_from(ITEMS).unwrap(),
        stock: whole(150),
        price: whole(1),
    });
    let topics = Topics::default();
    for number in 0..ORDERS {
        let order = format!("order-{number}");
        does(&ShopCommand::CreateOrder { id: id(&order), user: id(&format!("{name}{}", number % USERS)) });
        // Two items, one of them in front of the other or behind it.
        for item in [number % ITEMS, number * 3 % ITEMS + usize::from(number % 2 == 0)] {
            let (item, quantity) = (id(&(item % ITEMS).to_string()), whole(1));
            does(&ShopCommand::AddItem { order: id(&order), item, quantity });
        }
        let message =
            OrderMessage { trace: TraceId(number as u128 + 1), order: id(&order), command: checkout() };
        let partition = partition_of(&order, PARTITIONS) as usize;
        let log = &topics.logs[place(Topic::Orders)][partition];
        log.lock().unwrap().push((message.key().into_bytes(), message.to_json()));
    }
    let began = Instant::now();
    std::thread::scope(|scope| {
        let topics = &topics;
        scope.spawn(move || {
            let mut goes_on = true;
            while goes_on {
                goes_on = beside() && !topics.over.load(Ordering::SeqCst);
            }
        });
        for partition in 0..PARTITIONS {
            scope.spawn(move || topics.work::<OrderMessage>(world, partition, Store::orders));
            scope.spawn(move || topics.work::<PayMessage>(world, partition, Store::pay));
            scope.spawn(move || topics.work::<StockMessage>(world, partition, Store::stock));
            scope.spawn(move || {
                let mut coordinator = Coordinator::default();
                topics.work::<OutcomeMessage>(world, partition, |store, claim, batch| {
                    store.outcomes(claim, &mut coordinator, batch)
                });
            });
        }
        while topics.ended.load(Ordering::SeqCst) < ORDERS && began.elapsed() < PATIENCE {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        topics.over.store(true, Ordering::SeqCst);
    });
    let took = began.elapsed();
    assert_eq!(topics.ended.load(Ordering::SeqCst), ORDERS, "all came to their end in {took:?}");
    assert_eq!(topics.retries.load(Ordering::SeqCst), 0, "nobody waited in a circle");
    let paid = world.rows("orders WHERE paid");
    assert!(paid > 100, "{paid} paid in {took:?}");
    assert_eq!(world.rows("orders WHERE state NOT IN ('paid', 'not_paid')"), 0);
    let units = i64::try_from(ITEMS).unwrap() * 150;
    assert_eq!(world.count(&format!("SELECT {units} - sum(stock)::bigint FROM items")), 2 * paid);
    eprintln!("{ORDERS} checkouts over {USERS} users and {ITEMS} items in {took:?}, {paid} paid");
    paid
}
