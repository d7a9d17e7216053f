//! Checkouts through all nodes, some of which must fail; whoever hears nothing asks again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use holdfast_services::PATIENCE;
use serde_json::{Value, json};

use crate::lateness::Watch;
use crate::offsets::{self, Times};
use crate::support::http::{self, exchange};
use crate::support::server::Server;
use crate::support::shop;
use crate::tokens::wallet::{Answer, call};
use crate::workers::Workers;
use crate::world::{OPEN_CHECKOUTS, World};

const WORKERS: usize = 3;
const USERS: u64 = 20;
const CREDIT: u64 = 1_000_000;
/// The first of them have only so much, and want more: what they order is given back.
const POOR: u64 = 5;
const LITTLE: u64 = 30;
/// Some checkouts have so little time that a fault is enough to end them.
const SHORT_MS: u64 = 400;
/// Of the first item there is enough for everybody, of the second only so many.
const PLENTY: u64 = 1_000_000;
const FEW: u64 = 40;
const PRICE: u64 = 3;

/// What callers were told of each order in the end: paid or not; what was in it; and whether it was asked for once.
type Told = BTreeMap<String, (bool, Vec<(usize, u64)>, bool)>;

/// Checkouts, again and again, at any node.
pub struct ShopLoad {
    items: [String; 2],
    pub workers: Workers<Worker>,
    watch: Watch,
}

fn post(address: SocketAddr, path: &str) -> Result<Answer, String> {
    call(address, "POST", path, &Value::Null)
}

fn made(answer: &Answer, name: &str) -> Option<String> {
    (answer.status == 200).then(|| answer.body[name].as_str().map(str::to_owned)).flatten()
}

impl ShopLoad {
    pub fn start(world: &World) -> ShopLoad {
        let first = world.node(0);
        shop::post(first, &format!("/payment/batch_init/{USERS}/{CREDIT}"));
        shop::post(first, &format!("/payment/batch_init/{POOR}/{LITTLE}"));
        let items = [PLENTY, FEW].map(|stock| shop::item(first, PRICE, stock));
        let workers = (0..WORKERS).map(|number| Worker {
            addresses: Arc::clone(&world.addresses),
            items: items.clone(),
            drawn: number as u64,
            told: Told::new(),
        });
        let workers = Workers::start(workers, |worker| u64::from(worker.buy()));
        ShopLoad { workers, items, watch: Watch::start(world.url()) }
    }

    /// Ends, waits until nothing is open, and judges.
    pub fn judge(self, world: &World) {
        let told: Told = self.workers.end().flat_map(|worker| worker.told).collect();
        world.await_no_open_checkout();
        self.watch.judge();
        let paid: BTreeSet<String> = world
            .sql()
            .query("SELECT order_id FROM orders WHERE paid", &[])
            .expect("rows")
            .iter()
            .map(|row| row.get(0))
            .collect();
        for (order, (was_paid, _, once)) in &told {
            // An earlier call of a caller that asked again, delivered twice, may have begun one more try.
            let fits = *was_paid == paid.contains(order) || !was_paid && !once;
            assert!(fits, "order {order} is not what its caller was told");
        }
        // Units gone = credit gone = orders paid.
        let mut units = [0, 0];
        for (order, (_, lines, _)) in &told {
            if paid.contains(order) {
                lines.iter().for_each(|(item, amount)| units[*item] += amount);
            }
        }
        assert!(paid.iter().all(|order| told.contains_key(order)), "nobody asked for some of what is paid");
        for ((item, stock), units) in self.items.iter().zip([PLENTY, FEW]).zip(units) {
            let left = format!("SELECT stock FROM items WHERE item_id = '{item}'");
            assert_eq!(u64::try_from(world.count(&left)).expect("a stock"), stock - units);
        }
        assert_eq!(units[1], FEW, "what there was little of is sold out");
        let had = (USERS - POOR) * CREDIT + POOR * LITTLE;
        let gone = world.count(&format!("SELECT ({had} - sum(credit))::bigint FROM users"));
        assert_eq!(u64::try_from(gone).expect("credit"), PRICE * (units[0] + units[1]));
        // Each side has given back what it had taken, and the deadline has ended some.
        for (what, sql) in [
            ("payment refused", "SELECT count(*) FROM orders WHERE why_failed = 'pay'"),
            ("stock refused", "SELECT count(*) FROM orders WHERE why_failed = 'stock'"),
            ("too late", "SELECT count(*) FROM orders WHERE why_failed = 'deadline'"),
            (
                "stock given back",
                "SELECT count(*) FROM stock_transaction WHERE is_rollback AND items IS NOT NULL",
            ),
            (
                "credit given back",
                "SELECT count(*) FROM pay_transaction WHERE is_rollback AND amnt IS NOT NULL",
            ),
        ] {
            let found = world.count(sql);
            eprintln!("{what}: {found}");
            assert!(found > 0, "of {what} there was none: this shows too little");
        }
        offsets::judge(world, Times::Troubled);
        world.verify();
    }
}

pub struct Worker {
    addresses: Arc<Mutex<Vec<SocketAddr>>>,
    items: [String; 2],
    drawn: u64,
    told: Told,
}

impl Worker {
    fn draw(&mut self, bound: u64) -> u64 {
        self.drawn =
            self.drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.drawn >> 33) % bound
    }

    fn any(&mut self) -> SocketAddr {
        let addresses = self.addresses.lock().expect("whole").clone();
        addresses[usize::try_from(self.draw(addresses.len() as u64)).expect("few")]
    }

    /// Makes an order and checks it out until it is told what became of it. What cannot be made now is left.
    fn buy(&mut self) -> bool {
        let user = self.draw(USERS);
        let address = self.any();
        let Some(order) = post(address, &format!("/orders/create/{user}"))
            .ok()
            .and_then(|made_at| made(&made_at, "order_id"))
        else {
            return false;
        };
        let mut lines = Vec::new();
        for item in 0..2 {
            let amount = 1 + self.draw(3);
            let path = format!("/orders/addItem/{order}/{}/{amount}", self.items[item]);
            // Whether a line whose answer was lost is there, the order tells; such a one is left alone.
            match post(self.any(), &path) {
                Ok(answer) if answer.status == 200 => lines.push((item, amount)),
                _ => return false,
            }
            if self.draw(2) == 0 {
                break;
            }
        }
        // One order may meet several faults, one after the other.
        let deadline = Instant::now() + 3 * PATIENCE;
        let mut once = true;
        let path = match self.draw(4) {
            0 => format!("/shop/orders/checkout/{order}?deadlineMs={SHORT_MS}"),
            _ => format!("/orders/checkout/{order}"),
        };
        loop {
            let address = self.any();
            match post(address, &path) {
                // Not paid: 400 in the one dialect, in the other 402, or 409 if its time was up.
                Ok(answer) if matches!(answer.status, 200 | 400 | 402 | 409) => {
                    self.told.insert(order, (answer.status == 200, lines, once));
                    return true;
                }
                last => assert!(Instant::now() < deadline, "{order}: {last:?}"),
            }
            once = false;
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}

/// Does the same to each on so many threads, each at another node.
pub fn at_once<T: Sync, R: Send>(
    world: &World,
    things: &[T],
    act: impl Fn(&Server, &T) -> R + Sync,
) -> Vec<R> {
    const THREADS: usize = 30;
    shop::at_once(THREADS, things, |place, thing| act(world.node(place), thing))
}

/// Checks an order out at the first node; the status.
pub fn checkout(world: &World, order: &str, query: &str) -> u16 {
    shop::checkout(world.node(0), &format!("{order}{query}")).status
}

/// Asks for a checkout, and does not wait for its end. Partitions may still be on their way to a node that has just come: whoever
/// hears 503 asks again, as the hub says.
pub fn ask(node: &Server, order: &str, deadline_ms: u64) -> http::Answer {
    let path = format!("/shop/orders/checkout/{order}?waitMs=0&deadlineMs={deadline_ms}");
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = exchange(node, "POST", &path, "", b"");
        if answer.status != 503 || Instant::now() >= until {
            return answer;
        }
    }
}

/// The same, of one that must stay open.
#[track_caller]
pub fn begin(node: &Server, order: &str, deadline_ms: u64) {
    let answer = ask(node, order, deadline_ms);
    assert_eq!((answer.status, answer.json()["state"].as_str()), (202, Some("pending")), "{answer:?}");
}

/// At most as many are paid as there are units; those that were refused, asked again one after another, get what is left.
#[test]
fn a_thousand_orders_on_a_hundred_units() {
    const ORDERS: usize = 1_000;
    let Some(mut world) = World::alone() else { return };
    world.add_nodes(3);
    let item = shop::item(world.node(0), 1, 100);
    shop::post(world.node(2), &format!("/payment/batch_init/{ORDERS}/1"));
    let numbers: Vec<usize> = (0..ORDERS).collect();
    let orders = at_once(&world, &numbers, |node, number| {
        // Some users have several orders, and credit for one.
        let user = (number * 7919) % 700;
        shop::order(node, &user.to_string(), &item, 1)
    });
    let told = at_once(&world, &orders, |node, order| {
        exchange(node, "POST", &format!("/orders/checkout/{order}"), "", b"").status
    });
    assert!(told.iter().all(|status| matches!(status, 200 | 400)), "{told:?}");
    let paid = told.iter().filter(|status| **status == 200).count();
    assert!(paid <= 100, "{paid} were paid");
    sums(&world, &item, paid);
    // A unit that a doomed order held for a moment was refused to others: they get it now.
    let mut paid = paid;
    for (at, (order, _)) in orders.iter().zip(&told).filter(|(_, status)| **status == 400).enumerate() {
        if paid == 100 {
            break;
        }
        let answer = exchange(world.node(at), "POST", &format!("/orders/checkout/{order}"), "", b"");
        paid += usize::from(answer.status == 200);
    }
    assert_eq!(paid, 100);
    sums(&world, &item, paid);
    // Asked again, a paid order charges nothing.
    let (order, _) = orders.iter().zip(&told).find(|(_, status)| **status == 200).expect("some are paid");
    assert_eq!(exchange(world.node(0), "POST", &format!("/orders/checkout/{order}"), "", b"").status, 200);
    sums(&world, &item, paid);
    assert_eq!(http::get(world.node(1), "/hub/checkouts").json()["checkouts"], json!([]));
    offsets::judge(&world, Times::Calm);
    world.verify();
}

/// Everything that was taken is paid for, right after the last answer.
fn sums(world: &World, item: &str, paid: usize) {
    let paid = i64::try_from(paid).expect("few");
    assert_eq!(world.count("SELECT count(*) FROM orders WHERE paid"), paid);
    assert_eq!(world.count(&format!("SELECT 100 - stock FROM items WHERE item_id = '{item}'")), paid);
    assert_eq!(world.count("SELECT (1000 - sum(credit))::bigint FROM users"), paid);
    assert_eq!(world.count(OPEN_CHECKOUTS), 0);
}
