//! What the checkout replaces: order, payment and stock in one database, and one transaction for each checkout that locks the
//! order, its user and its items, takes credit and stock, and marks the order as paid. No message, no second service, no
//! recovery of its own; whoever has split the three cannot have it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, anyhow};
use holdfast_load::figures::per_second;
use holdfast_load::shop::BENCH_ROWS;
use postgres::{Client, NoTls, Statement};

use crate::database::own::OwnDatabase;

/// Connections, each with one transaction at a time: more did not make it faster on two cores.
pub(super) const CONNECTIONS: u64 = 16;

/// As the bench's own shop: two lines of one unit at 3.
const GOODS: &str = "
    INSERT INTO users SELECT n::text, 1000000000, 1000000000 FROM generate_series(0, $1::bigint - 1) n;
    INSERT INTO items SELECT n::text, 3, 1000000000, 1000000000 FROM generate_series(0, $1::bigint - 1) n;
    INSERT INTO orders (order_id, user_id, items, amount, state)
    SELECT n::text, (n * 7919 % $1)::text, json_build_array(
            json_build_object('id', (n * 104729 % $1)::text, 'amnt', 1),
            json_build_object('id', (n * 1299709 % $1 + 1) % $1 || '', 'amnt', 1)), 6, 'not_paid'
    FROM generate_series(0, $2::bigint - 1) n";
const ORDER: &str = "SELECT user_id, amount, items->0->>'id', items->1->>'id' FROM orders
    WHERE order_id = $1 AND state = 'not_paid' FOR UPDATE";
const CHARGE: &str = "UPDATE users SET credit = credit - $2 WHERE user_id = $1 AND credit >= $2";
const TAKE: &str = "
    WITH locked AS (SELECT item_id FROM items WHERE item_id = ANY($1) AND stock >= 1 ORDER BY item_id FOR UPDATE)
    UPDATE items i SET stock = stock - 1 FROM locked l WHERE i.item_id = l.item_id";
const PAID: &str = "UPDATE orders SET state = 'paid', tr_num = 1 WHERE order_id = $1";

/// Checkouts per second.
pub(super) fn alone(store: &str, checkouts: u64) -> anyhow::Result<f64> {
    let mut place = OwnDatabase::create_second(store)?;
    drop(place.store()?);
    for statement in GOODS.split(';') {
        let statement =
            statement.replace("$1", &BENCH_ROWS.to_string()).replace("$2", &checkouts.to_string());
        place.execute("make the shop of one database", &statement)?;
    }
    place.settle()?;
    let next = AtomicU64::new(0);
    let mut clerks = Vec::new();
    for _ in 0..CONNECTIONS {
        clerks.push(Clerk::connect(&place.url)?);
    }
    let began = Instant::now();
    thread::scope(|scope| {
        let working: Vec<_> =
            clerks.into_iter().map(|clerk| scope.spawn(|| clerk.work(&next, checkouts))).collect();
        working.into_iter().try_for_each(|clerk| match clerk.join() {
            Ok(worked) => worked.context("cannot check an order out in one transaction"),
            Err(_) => Err(anyhow!("a clerk has panicked")),
        })
    })?;
    Ok(per_second(checkouts, began.elapsed()))
}

struct Clerk {
    client: Client,
    order: Statement,
    charge: Statement,
    take: Statement,
    paid: Statement,
}

impl Clerk {
    fn connect(url: &str) -> anyhow::Result<Clerk> {
        let connected = || -> Result<Clerk, postgres::Error> {
            let mut client = Client::connect(url, NoTls)?;
            let mut prepare = |sql| client.prepare(sql);
            let (order, charge, take, paid) =
                (prepare(ORDER)?, prepare(CHARGE)?, prepare(TAKE)?, prepare(PAID)?);
            Ok(Clerk { client, order, charge, take, paid })
        };
        connected().context("cannot connect to the shop of one database")
    }

    fn work(mut self, next: &AtomicU64, orders: u64) -> Result<(), postgres::Error> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= orders {
                return Ok(());
            }
            self.check_out(&number.to_string())?;
        }
    }

    fn check_out(&mut self, order: &str) -> Result<(), postgres::Error> {
        let mut tx = self.client.transaction()?;
        let row = tx.query_one(&self.order, &[&order])?;
        let (user, amount): (&str, i64) = (row.get(0), row.get(1));
        let items: [&str; 2] = [row.get(2), row.get(3)];
        let charged = tx.execute(&self.charge, &[&user, &amount])?;
        let taken = tx.execute(&self.take, &[&&items[..]])?;
        tx.execute(&self.paid, &[&order])?;
        assert!(charged == 1 && taken == 2, "there is enough of everything");
        tx.commit()
    }
}
