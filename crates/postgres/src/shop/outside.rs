//! A participant that is called over HTTP: its topic's messages are passed by, and say no more than that there is something to
//! ask. What that is stands in the order's row when its turn comes. And which sides are so is agreed upon by all nodes: one that
//! took the stock of this database while another calls a warehouse would sell what nobody has.

use std::collections::BTreeSet;

use holdfast_domain::effects::Effects;
use holdfast_domain::shop::{OrderId, Side, Sides, TrNum};
use holdfast_messages::{Message, Topic};
use postgres::Transaction;

use crate::batch::{Batch, Begun, Done, Step};
use crate::guard::unsigned;
use crate::loaded::Loaded;
use crate::session::{Point, Statements, Store};
use crate::write::{Besides, Writer};
use crate::{Claim, Error};

/// Under this name it is stored which sides are called.
const OUTSIDE: &str = "shop.outside";

impl Store {
    /// Passes a batch of `pay` or `stock` by, whose participant is called over HTTP. What cannot be read becomes a dead letter.
    ///
    /// # Errors
    /// As [`Store::transfers`].
    pub fn pass<M: Message>(&mut self, claim: &Claim, batch: &Batch<'_, M>) -> Result<Step, Error> {
        self.run(claim, batch, pass)
    }

    /// The sides that are called over HTTP, as all nodes have agreed.
    ///
    /// # Errors
    /// If the database fails.
    pub fn outside(&mut self) -> Result<Sides, Error> {
        let row = self.client.query_opt("SELECT value FROM fixed_setting WHERE name = $1", &[&OUTSIDE])?;
        row.map_or(Ok(Sides::NONE), |row| sides_of(row.get(0)))
    }

    /// How many messages of a topic were decided, or passed by, in all of its partitions.
    ///
    /// # Errors
    /// If the database fails.
    pub fn messages_taken(&mut self, topic: Topic) -> Result<u64, Error> {
        let row = self.client.query_one(
            "SELECT coalesce(sum(value), 0)::bigint FROM segment
             WHERE segment_type = 'consumer' AND table_name = $1",
            &[&topic.name()],
        )?;
        unsigned("segment", row.get(0))
    }

    /// Has all nodes agree that the sides of the settings are called over HTTP. They may change while nobody is at work: no checkout is open
    /// and no node lives. Whoever took messages of a side that changed must then claim its partitions anew, and finds that it is
    /// not of the same opinion.
    ///
    /// # Errors
    /// [`Error::Sides`] if others are at work with another opinion.
    pub fn agree_on_outside(&mut self) -> Result<(), Error> {
        let wanted = self.settings.outside;
        let mut tx = self.client.transaction()?;
        tx.execute(
            "INSERT INTO fixed_setting (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            &[&OUTSIDE, &bits(Sides::NONE)],
        )?;
        let row = tx.query_one("SELECT value FROM fixed_setting WHERE name = $1 FOR UPDATE", &[&OUTSIDE])?;
        let stored = sides_of(row.get(0))?;
        if stored != wanted {
            // None begins until this is decided.
            tx.batch_execute("LOCK TABLE orders IN SHARE ROW EXCLUSIVE MODE")?;
            // What a dead node has not sent yet would reach whoever comes inside.
            let count = "SELECT (SELECT count(*) FROM orders WHERE state IN ('pending', 'cancelling'))
                     + (SELECT count(*) FROM segment WHERE outbox_sent < outbox_next),
                 (SELECT count(DISTINCT node_id) FROM node WHERE seen_until >= hub_clock())";
            let row = tx.query_one(count, &[])?;
            let (open, nodes): (i64, i64) = (row.get(0), row.get(1));
            if open > 0 || nodes > 0 {
                return Err(Error::Sides { stored: words(stored), wanted: words(wanted), open, nodes });
            }
            tx.execute("UPDATE fixed_setting SET value = $2 WHERE name = $1", &[&OUTSIDE, &bits(wanted)])?;
            let changed: Vec<&str> = Side::ALL
                .into_iter()
                .filter(|side| stored.has(*side) != wanted.has(*side))
                .map(Side::name)
                .collect();
            tx.execute(
                "UPDATE segment SET epoch = epoch + 1 WHERE segment_type = 'consumer' AND table_name = ANY($1)",
                &[&changed],
            )?;
            // Their next tries are marked anew. There may be many of them, and nobody waits.
            tx.batch_execute("SET LOCAL statement_timeout = 0")?;
            tx.execute("UPDATE orders SET called = 0 WHERE state = 'not_paid' AND called <> 0", &[])?;
        }
        tx.commit()?;
        Ok(())
    }
}

/// Marks orders whose tries begin as those of sides that are called: what these take is not in the books of this database.
pub(super) fn mark(
    tx: &mut Transaction<'_>,
    statements: &Statements,
    began: &BTreeSet<(OrderId, TrNum)>,
    called: Sides,
) -> Result<(), Error> {
    if called == Sides::NONE || began.is_empty() {
        return Ok(());
    }
    let orders: Vec<&str> = began.iter().map(|(order, _)| order.as_str()).collect();
    let called = i16::try_from(bits(called)).expect("two bits");
    let sql = "UPDATE orders SET called = $2 WHERE order_id = ANY($1) AND called <> $2";
    let statement = statements.asked.prepared(tx, sql)?;
    tx.execute(&statement, &[&orders, &called])?;
    Ok(())
}

fn pass<M: Message>(
    store: &mut Store,
    claim: &Claim,
    batch: &Batch<'_, M>,
    verdict: Option<&str>,
) -> Result<Step, Error> {
    let Some(Begun { mut tx, guard, statements, settings, watch, .. }) = store.begin(claim, batch.from)?
    else {
        return Ok(Step::Fenced);
    };
    let mut besides = Besides::default();
    besides.sort_out(claim.source, batch.messages, verdict);
    besides.only_moves_on = besides.dead_letters.is_empty();
    let now = guard.asked_at;
    watch.reached(Point::Loaded);
    watch.reached(Point::Decided);

    let mut writer = Writer { tx: &mut tx, statements, watch, now, shards: settings.expiry_shards };
    let none = Effects::default();
    let guard = writer.write(guard, batch.next, Loaded::default(), &none, &besides, batch.sent)?;
    tx.commit()?;
    watch.reached(Point::Committed);
    Ok(Step::Done(Done::of(batch, besides, &guard, now)))
}

const fn bits(sides: Sides) -> i64 {
    sides.pay as i64 | (sides.stock as i64) << 1
}

fn sides_of(bits: i64) -> Result<Sides, Error> {
    match bits {
        0..=3 => Ok(Sides { pay: bits & 1 != 0, stock: bits & 2 != 0 }),
        _ => Err(Error::corrupt("fixed_setting", format!("{OUTSIDE} is {bits}"))),
    }
}

/// The settings that have a URL; who is called.
const fn words(sides: Sides) -> &'static str {
    match (sides.pay, sides.stock) {
        (false, false) => "nobody",
        (true, false) => "shop.payment",
        (false, true) => "shop.stock",
        (true, true) => "shop.payment and shop.stock",
    }
}
