//! A participant that is called over HTTP: its topic's messages are passed by, and say no more than that there is something to
//! ask. What that is stands in the order's row when its turn comes. And who serves which side is agreed upon by all nodes: one that
//! took the stock of this database while another calls a warehouse, or while a warehouse reads the topic itself, would sell what
//! nobody has.

use std::collections::BTreeSet;

use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{OrderId, Side, Sides, TrNum};
use holdfast_messages::{Message, PayMessage, Topic};

use crate::batch::{Batch, Reading};
use crate::guard::unsigned;
use crate::session::{Settings, Store};
use crate::step::{Decided, Opened, Step, Work};
use crate::types::list;
use crate::written::RowWriter;
use crate::{Claim, Error, Source};

/// Under this name it is stored who serves which side.
const OUTSIDE: &str = "shop.outside";

/// Who serves a side of checkouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// The nodes, with the books of this database.
    Inside,
    /// Somebody whom the nodes call over HTTP.
    Called,
    /// A program of its own, which reads the side's topic.
    OnKafka,
}

impl Served {
    /// What the side's setting is then.
    #[must_use]
    pub const fn setting(self) -> &'static str {
        match self {
            Served::Inside => "inside",
            Served::Called => "a URL",
            Served::OnKafka => "kafka",
        }
    }
}

/// The setting that says who serves a side.
#[must_use]
pub const fn setting_of(side: Side) -> &'static str {
    match side {
        Side::Pay => "shop.payment",
        Side::Stock => "shop.stock",
    }
}

/// Who serves which side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Serving {
    /// Those that are called over HTTP.
    pub called: Sides,
    /// Those that have a program of their own on Kafka.
    pub on_kafka: Sides,
}

impl Serving {
    /// Who serves that side.
    #[must_use]
    pub const fn of(self, side: Side) -> Served {
        if self.called.has(side) {
            Served::Called
        } else if self.on_kafka.has(side) {
            Served::OnKafka
        } else {
            Served::Inside
        }
    }

    /// Those whose books are not these.
    const fn elsewhere(self) -> Sides {
        let Serving { called, on_kafka } = self;
        Sides { pay: called.pay || on_kafka.pay, stock: called.stock || on_kafka.stock }
    }

    /// What these nodes say otherwise than that one, in words.
    fn differs_from(self, other: Serving) -> String {
        let differing = Side::ALL.into_iter().filter(|side| self.of(*side) != other.of(*side));
        let words = differing.map(|side| {
            let (setting, theirs, ours) =
                (setting_of(side), self.of(side).setting(), other.of(side).setting());
            format!("{setting} is {theirs} for the nodes of this hub, and {ours} here")
        });
        words.collect::<Vec<_>>().join("; ")
    }

    const fn bits(self) -> i64 {
        bits(self.called) | bits(self.on_kafka) << 2
    }

    fn of_bits(stored: i64) -> Result<Serving, Error> {
        let sides = |bits: i64| Sides { pay: bits & 1 != 0, stock: bits & 2 != 0 };
        match stored {
            0..=15 => Ok(Serving { called: sides(stored), on_kafka: sides(stored >> 2) }),
            _ => Err(Error::corrupt("fixed_setting", format!("{OUTSIDE} is {stored}"))),
        }
    }
}

impl Store {
    /// Passes a batch of `pay` or `stock` by, whose participant is called over HTTP. What cannot be read becomes a dead letter.
    ///
    /// # Errors
    /// As [`Store::transfers`].
    pub fn pass<M: Message>(&mut self, claim: &Claim, batch: &Batch<'_, M>) -> Result<Step, Error> {
        self.run(claim, batch, |store, part| part.step(store, Passing(part.read())))
    }

    /// Passes by all that lies in a topic before these offsets, one for each partition: it was another's to answer. In the audit
    /// chain it stands as a batch without effects.
    ///
    /// # Errors
    /// As [`Store::transfers`]; [`Error::Busy`] if others claim the partitions again and again.
    pub fn pass_to(&mut self, topic: Topic, offsets: &[u64]) -> Result<(), Error> {
        for (partition, next) in (0..).zip(offsets.iter().copied()) {
            let passed = (0..self.settings.attempts_max).find_map(|_| {
                let claimed = self.claim(&Source::Consumer(topic, partition));
                let claim = match claimed {
                    Ok(claim) if claim.offset < next => claim,
                    Ok(_) => return Some(Ok(())),
                    Err(error) => return Some(Err(error)),
                };
                let batch = Batch::<PayMessage> { from: claim.offset, next, messages: &[], sent: 0 };
                match self.pass(&claim, &batch) {
                    Ok(Step::Done(_)) => Some(Ok(())),
                    // Another node does the same at the same time.
                    Ok(Step::Fenced) => None,
                    Err(error) => Some(Err(error)),
                }
            });
            passed.unwrap_or_else(|| Err(Error::Contended { topic: topic.name(), partition }))?;
        }
        Ok(())
    }

    /// Who serves which side, as all nodes have agreed.
    pub fn serving(&mut self) -> Result<Serving, Error> {
        let row = self.client.query_opt("SELECT value FROM fixed_setting WHERE name = $1", &[&OUTSIDE])?;
        row.map_or(Ok(Serving::default()), |row| Serving::of_bits(row.get(0)))
    }

    /// How many messages of a topic were decided, or passed by, in all of its partitions.
    pub fn messages_taken(&mut self, topic: Topic) -> Result<u64, Error> {
        let row = self.client.query_one(
            "SELECT coalesce(sum(value), 0)::bigint FROM segment
             WHERE segment_type = 'consumer' AND table_name = $1",
            &[&topic.name()],
        )?;
        unsigned("segment", row.get(0))
    }

    /// Has all nodes agree on who serves which side, as the settings say. That may change while nobody is at work: no checkout is
    /// open and no node lives. Whoever took messages of a side that changed must then claim its partitions anew, and finds that it
    /// is not of the same opinion.
    ///
    /// # Errors
    /// [`Error::Sides`] if others are at work with another opinion.
    pub fn agree_on_serving(&mut self) -> Result<(), Error> {
        let wanted = self.settings.serving();
        let mut tx = self.client.transaction()?;
        tx.execute(
            "INSERT INTO fixed_setting (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            &[&OUTSIDE, &Serving::default().bits()],
        )?;
        let row = tx.query_one("SELECT value FROM fixed_setting WHERE name = $1 FOR UPDATE", &[&OUTSIDE])?;
        let stored = Serving::of_bits(row.get(0))?;
        if stored != wanted {
            // None begins until this is decided.
            tx.batch_execute("LOCK TABLE orders IN SHARE ROW EXCLUSIVE MODE")?;
            // What a dead node has not sent yet would reach whoever comes inside.
            let count = "SELECT (SELECT count(*) FROM orders WHERE state IN ('pending', 'cancelling')),
                 (SELECT count(*) FROM segment WHERE outbox_sent < outbox_next),
                 (SELECT count(DISTINCT node_id) FROM node WHERE seen_until >= hub_clock())";
            let row = tx.query_one(count, &[])?;
            let (open, unsent, nodes): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
            if open > 0 || unsent > 0 || nodes > 0 {
                return Err(Error::Sides { how: stored.differs_from(wanted), open, unsent, nodes });
            }
            tx.execute("UPDATE fixed_setting SET value = $2 WHERE name = $1", &[&OUTSIDE, &wanted.bits()])?;
            let changed = Side::ALL.into_iter().filter(|side| stored.of(*side) != wanted.of(*side));
            let changed: Vec<&str> = changed.map(Side::name).collect();
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

/// Marks orders whose tries begin as those of sides that are not inside: what these take is not in the books of this database.
pub(super) fn mark(
    writer: &mut RowWriter<'_, '_>,
    began: &BTreeSet<(OrderId, TrNum)>,
    serving: Serving,
) -> Result<(), Error> {
    let elsewhere = serving.elsewhere();
    if elsewhere.is_none() || began.is_empty() {
        return Ok(());
    }
    let orders = list(began, |(order, _)| order.as_str());
    let called = i16::try_from(bits(elsewhere)).expect("two bits");
    let sql = "UPDATE orders SET called = $2 WHERE order_id = ANY($1) AND called <> $2";
    writer.execute(sql, &[&orders, &called])?;
    Ok(())
}

/// Messages that are passed by.
struct Passing<'p, 'm, M>(Reading<'p, 'm, M>);

impl<'m, M: Message> Work<'m> for Passing<'_, 'm, M> {
    type Known = Millis;
    type Rows = ();

    fn load(&mut self, step: &mut Opened<'_>) -> Result<Millis, Error> {
        Ok(step.guard.asked_at)
    }

    fn decide(self, now: Millis, _: &Settings) -> Option<Decided<'m, Self::Rows>> {
        let Reading { part, outbox, .. } = self.0;
        let lasts = !outbox.dead_letters.is_empty();
        Some(Decided { lasts, ..part.decided(now, outbox, ()) })
    }
}

const fn bits(sides: Sides) -> i64 {
    sides.pay as i64 | (sides.stock as i64) << 1
}
