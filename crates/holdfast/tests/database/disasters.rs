//! What the crowds of several shops live through together: in the middle of all of them PostgreSQL is killed, and then Kafka is
//! restarted. Each shop has nodes, topics and a database of its own, and loses a node of its own.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use holdfast_services::PATIENCE;
use serde_json::Value;

use crate::called::a_warehouse_in_a_crowd;
use crate::charges;
use crate::faults::{restart_log, restart_store};
use crate::servers::Servers;
use crate::tokens::wallet::call;

/// The first comes by itself, the others with a disaster each.
const PARTS: usize = 3;
/// Longer than all the disasters together take, with what each leaves to be made up for: whoever asks in the middle of one may be
/// met by the next.
pub const LIVED_THROUGH: Duration = Duration::from_secs(4 * PATIENCE.as_secs());

/// How far a shop's crowd has come.
#[derive(Default)]
pub struct Crowd {
    /// How many of each part have ended.
    ended: [AtomicUsize; PARTS],
    /// How many of each part there are, once it is known.
    sizes: [AtomicUsize; PARTS],
    /// The disasters that have begun.
    begun: AtomicUsize,
    /// What was to be done in the middle of the first part is done: a node that only starts would not live through a disaster.
    done: AtomicBool,
}

impl Crowd {
    /// All orders at once: `ask` has one checked out, and returns when it knows what became of it. When some have ended, `meanwhile`
    /// is done.
    pub fn run(&self, orders: &[String], ask: impl Fn(usize, &str) + Sync, meanwhile: impl FnOnce()) {
        const THREADS: usize = 20;
        let part = |place: usize| place * PARTS / orders.len();
        for place in 0..orders.len() {
            self.sizes[part(place)].fetch_add(1, Ordering::SeqCst);
        }
        std::thread::scope(|scope| {
            for first in 0..THREADS {
                let (ask, part) = (&ask, &part);
                scope.spawn(move || {
                    for (place, order) in orders.iter().enumerate().skip(first).step_by(THREADS) {
                        await_that("the next disaster", || self.begun.load(Ordering::SeqCst) >= part(place));
                        ask(place, order);
                        self.ended[part(place)].fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            await_that("the crowd", || self.is_in_the_middle_of(0));
            meanwhile();
            self.done.store(true, Ordering::SeqCst);
        });
    }

    fn is_in_the_middle_of(&self, part: usize) -> bool {
        let (ended, size) =
            (self.ended[part].load(Ordering::SeqCst), self.sizes[part].load(Ordering::SeqCst));
        size > 0 && 2 * ended > size
    }

    fn may_be_met(&self, part: usize) -> bool {
        self.is_in_the_middle_of(part) && self.done.load(Ordering::SeqCst)
    }
}

/// Checks an order out at one node after the other, until one knows what became of it; whether it is paid.
pub fn insist(addresses: &Mutex<Vec<SocketAddr>>, path: &str, order: &str, first: usize) -> bool {
    let deadline = Instant::now() + LIVED_THROUGH;
    for turn in first.. {
        let address = {
            let addresses = addresses.lock().expect("whole");
            addresses[turn % addresses.len()]
        };
        match call(address, "POST", &format!("{path}/{order}"), &Value::Null) {
            Ok(answer) if answer.status == 200 => return true,
            Ok(answer) if matches!(answer.status, 400 | 402) => return false,
            last => assert!(Instant::now() < deadline, "{order}: {last:?}"),
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    unreachable!("it is asked until it is told")
}

#[track_caller]
fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LIVED_THROUGH;
    while !is_so() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Shops that charge positions, charge tokens, and call a warehouse; beside each other, so that the servers are restarted once.
#[test]
fn three_shops_live_through_kills_and_restarts() {
    let _servers = Servers::alone();
    if holdfast_services::postgres().is_none() || holdfast_services::kafka().is_none() {
        return;
    }
    let shops: [fn(&Crowd); 3] = [charges::positions, charges::tokens, a_warehouse_in_a_crowd];
    let crowds: Vec<Crowd> = shops.iter().map(|_| Crowd::default()).collect();
    std::thread::scope(|scope| {
        for (shop, crowd) in shops.iter().zip(&crowds) {
            scope.spawn(move || shop(crowd));
        }
        for (part, disaster) in [restart_store as fn(), restart_log].into_iter().enumerate() {
            await_that("the crowds", || crowds.iter().all(|crowd| crowd.may_be_met(part)));
            // Right before it: what comes now comes into the middle of it.
            crowds.iter().for_each(|crowd| crowd.begun.store(part + 1, Ordering::SeqCst));
            disaster();
        }
    });
}
