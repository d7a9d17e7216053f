//! The cases of the order consumer: three nodes read `outcomes`, and nobody serves a side, so that only the file speaks for them.
//!
//! What a file has in its log lies in the topic before any of these nodes lives. The first one reads it all from there; then the two
//! others come and take partitions over, which they rebuild again. Only then the file's messages are written. Whoever rebuilds
//! asks again for what was not answered: `can` and `add` may lie in their topics once for each time their partition was taken,
//! and decisions only once.
//!
//! Most files share partitions, where the offsets are not theirs. Those about offsets have one each ([`ALONE`]): there the log
//! begins and ends where the file has it, and `outcome_offset` is compared too. Offsets that a file leaves out between its messages
//! are left out by a transaction that is given up: no reader ever sees them. What Kafka will not do is deliver a record again by
//! itself: such a one is written again, and has an offset more.

use std::collections::BTreeMap;
use std::ops::Range;

use holdfast_kafka::{Producer, Topic, TopicSettings};
use holdfast_services::PATIENCE;
use postgres::Client;
use rdkafka::producer::{BaseRecord, Producer as _};
use serde_json::{Value, json};

use super::cast::Cast;
use super::log::{
    Said, Written, alarm_lines, alarms_about, assert_misplaced_are_put_aside, expected_alarms, misplaced,
    write,
};
use super::{Kind, assert_none, played_by};
use crate::servers::Servers;
use crate::support::wait::await_that;
use crate::trimmed::trim;
use crate::world::{PARTITIONS as SHARED, Telling, World};

/// Where `outcome_offset` of a partition comes to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settles {
    /// Where the file has it.
    AsWritten,
    /// The file ends before the last decision has come back; here it has, nothing is open, and the partition need not be read
    /// any more.
    AtTheEnd,
}

/// The files that have a partition to themselves.
pub const ALONE: [(&str, Settles); 12] = [
    ("a-participant-that-never-answers", Settles::AsWritten),
    ("both-silent", Settles::AsWritten),
    ("nothing-at-all", Settles::AsWritten),
    ("offset-moves-to-the-next-oldest", Settles::AsWritten),
    ("offset-never-falls", Settles::AsWritten),
    ("offsets-may-have-gaps", Settles::AtTheEnd),
    ("oldest-open-try-holds-the-offset", Settles::AsWritten),
    ("rebuild-offset-above-the-log", Settles::AsWritten),
    ("rebuild-offset-below-an-empty-log", Settles::AsWritten),
    ("rebuild-offset-below-the-log", Settles::AtTheEnd),
    ("rebuild-reads-from-the-offset-on", Settles::AtTheEnd),
    ("rebuild-without-an-offset", Settles::AtTheEnd),
];

const ROLES: [&str; 2] = ["--roles", "api,order"];

/// A file in the world.
struct Scene {
    name: String,
    partition: u32,
    settles: Option<Settles>,
    case: Value,
    expect: Value,
}

/// All of them at once.
#[test]
fn the_order_side_plays_its_scenarios() {
    let partitions = SHARED + u32::try_from(ALONE.len()).expect("few");
    let Some(mut world) = World::of(Servers::beside_others(), partitions) else { return };
    // It makes tables and topics, and goes.
    world.add_nodes_with(1, &["--roles", "api"]);
    world.take_node().stop();
    let scenes = scenes(&world.topics());
    let (mut sql, mut producer) = (world.sql(), world.producer());
    for scene in &scenes {
        scene.set(&mut sql);
        scene.begin_log(&world, &mut producer);
    }

    let mut told = vec![world.add_telling_node(&ROLES)];
    await_rebuilt(&world, &told);
    told.push(world.add_telling_node(&ROLES));
    told.push(world.add_telling_node(&ROLES));
    await_rebuilt(&world, &told);
    for scene in &scenes {
        scene.speak(&world, &mut producer);
    }
    world.await_read(&[Topic::Outcomes]);

    let found = Found::look(&world, &told);
    let wrong = scenes.iter().filter_map(|scene| {
        let (found, expected) = (scene.found(&mut sql, &found), scene.expected(&found));
        (found != expected).then(|| format!("{}\n  was {found}\n  not {expected}", scene.name))
    });
    assert_none(&wrong.collect::<Vec<_>>(), scenes.len());
    assert_misplaced_are_put_aside(&world, &found.said, scenes.iter().map(|scene| &*scene.name));
    assert_logs_are_told(&scenes, &found.alarms);
}

/// What is wrong with a log is about no order: as many are told of as there are files with such a log.
fn assert_logs_are_told(scenes: &[Scene], lines: &[String]) {
    let mut wanted: BTreeMap<&str, usize> = BTreeMap::new();
    let expected = scenes.iter().flat_map(|scene| scene.expect["alarms"].as_array().expect("alarms"));
    for alarm in expected.filter(|alarm| alarm["key"].is_null()) {
        *wanted.entry(alarm["reason"].as_str().expect("a reason")).or_default() += 1;
    }
    assert!(!wanted.is_empty(), "some files have such a log");
    for (reason, files) in wanted {
        let told = lines.iter().filter(|line| line.contains(reason)).count();
        assert!(told >= files, "told {told} times, of {files}: {reason}");
    }
}

fn scenes(topics: &TopicSettings) -> Vec<Scene> {
    let mut shared = (0..SHARED).cycle();
    let scene = |(name, file): (String, Value)| {
        let alone = (SHARED..).zip(ALONE).find(|(_, (alone, _))| *alone == name);
        let (partition, settles) = match alone {
            Some((partition, (_, settles))) => (partition, Some(settles)),
            None => (shared.next().expect("without end"), None),
        };
        let cast = Cast { name: &name, topics, partition };
        let (case, expect) = (cast.play(&file["case"]), cast.play(&file["expect"]));
        Scene { name, partition, settles, case, expect }
    };
    played_by(Kind::Orders).into_iter().map(scene).collect()
}

/// Waits until the partitions are shared, each was rebuilt by whoever has it, and nothing is left to be done.
fn await_rebuilt(world: &World, told: &[Telling]) {
    world.await_shared(&[Topic::Outcomes]);
    let claims =
        "SELECT sum(epoch)::bigint FROM segment WHERE segment_type = 'consumer' AND table_name = 'outcomes'";
    let rebuilt = || told.iter().map(|told| told.text().matches("checkouts rebuilt").count()).sum::<usize>();
    let rebuilt_and_claimed = || (i64::try_from(rebuilt()).expect("few"), world.count(claims));
    await_that("all are rebuilt", rebuilt_and_claimed, |(rebuilt, claimed)| rebuilt >= claimed);
    world.await_read(&[Topic::Outcomes]);
}

/// What there is to be looked at in the end.
struct Found {
    said: Vec<Said>,
    alarms: Vec<String>,
    /// How often each partition was taken.
    taken: BTreeMap<u32, usize>,
    ends: Vec<u64>,
}

impl Found {
    fn look(world: &World, told: &[Telling]) -> Found {
        let said = Said::all(world, &[Topic::Outcomes, Topic::Pay, Topic::Stock]);
        let taken = "SELECT enumeration, epoch FROM segment WHERE segment_type = 'consumer' AND table_name = 'outcomes'";
        let rows = world.sql().query(taken, &[]).expect("rows");
        let taken = rows.iter().map(|row| {
            let (partition, times): (i32, i64) = (row.get(0), row.get(1));
            (u32::try_from(partition).expect("a partition"), usize::try_from(times).expect("few"))
        });
        Found { said, alarms: alarm_lines(told), taken: taken.collect(), ends: world.ends(Topic::Outcomes) }
    }
}

impl Scene {
    fn list(&self, name: &str) -> &[Value] {
        let coordinator = &self.case["coordinator"];
        let list = if name == "messages" { &self.case[name] } else { &coordinator[name] };
        list.as_array().expect("a list")
    }

    fn stored(&self) -> Option<u64> {
        self.case["coordinator"]["outcome_offset"].as_u64()
    }

    /// The orders as the file has them. Where a try is decided, the row knows which sides were told to give back.
    fn set(&self, sql: &mut Client) {
        for order in self.list("orders") {
            let text = |name: &str| order[name].as_str().expect("a text");
            let (state, tr) = (text("state"), order["tr_num"].as_i64().filter(|tr| *tr > 0));
            let open = matches!(state, "pending" | "cancelling");
            let said = |what: &str| {
                self.list("outcomes").iter().any(|said| {
                    said["key"]["order_id"] == order["order_id"]
                        && said["key"]["tr_num"] == order["tr_num"]
                        && said["value"]["type"] == what
                })
            };
            let undo = |refused: &str| (state == "cancelling").then(|| !said(refused));
            sql.execute(
                "INSERT INTO orders (order_id, user_id, items, amount, state, tr_num, undo_pay, undo_stock,
                     started_at, deadline, waits_since, shard)
                 VALUES ($1, $2, $3::text::json, $4, $5, $6, $7, $8, CASE WHEN $9 THEN hub_clock() END,
                     CASE WHEN $9 THEN hub_clock() + interval '1 day' END, CASE WHEN $9 THEN hub_clock() END,
                     CASE WHEN $9 THEN 0 END)",
                &[
                    &text("order_id"),
                    &text("user_id"),
                    &order["items"].to_string(),
                    &order["amount"].as_i64(),
                    &state,
                    &tr,
                    &undo("pfail"),
                    &undo("sfail"),
                    &open,
                ],
            )
            .expect("an order is set");
        }
        if let (Some(_), Some(stored)) = (self.settles, self.stored()) {
            let (partition, stored) = (i32::try_from(self.partition), i64::try_from(stored));
            sql.execute(
                "INSERT INTO outcome_offset (partition, value, changed_date) VALUES ($1, $2, hub_clock())",
                &[&partition.expect("few"), &stored.expect("small")],
            )
            .expect("an offset is set");
        }
    }

    /// Where the file's log begins, and where it ends before the first message that is new.
    fn bounds(&self) -> (u64, u64) {
        let offset = |record: &Value| record["offset"].as_u64().expect("an offset");
        let (first, last) =
            (self.list("outcomes").first().map(offset), self.list("outcomes").last().map(offset));
        let after = last.map(|last| last + 1);
        let next = self.list("messages").iter().map(offset).find(|offset| after <= Some(*offset));
        // An end further on matters where the offset is there already.
        let end = match (after, next) {
            (Some(after), Some(next)) if self.stored() > Some(after) => next,
            (Some(after), _) => after,
            (None, next) => next.or_else(|| self.stored()).unwrap_or(0),
        };
        (first.unwrap_or(end), end)
    }

    /// Something that is about no order at all.
    fn nothing(&self, topics: &TopicSettings) -> Written {
        let order = Cast { name: "nobody", topics, partition: self.partition }.order("o");
        let message = json!({"key": {"order_id": order, "tr_num": 1}, "value": {"type": "trfail"}});
        Written::of(Topic::Outcomes, self.partition, &message)
    }

    /// Writes the file's log. A partition for itself begins where that does, since what was before is gone, and ends where it
    /// does: what lies between its last record and its end concerns nobody.
    fn begin_log(&self, world: &World, producer: &mut Producer) {
        let (start, end) = self.bounds();
        let topics = world.topics();
        let fill = |producer: &mut Producer, offsets: Range<u64>| {
            write(producer, &offsets.map(|_| self.nothing(&topics)).collect::<Vec<_>>());
        };
        if self.settles.is_some() && start > 0 {
            fill(producer, 0..start);
            let (partition, start) = (i32::try_from(self.partition), i64::try_from(start));
            trim(world, Topic::Outcomes, &[(partition.expect("few"), start.expect("small"))]);
        }
        let log = self.list("outcomes");
        let written = log.iter().map(|said| Written::of(Topic::Outcomes, self.partition, said));
        write(producer, &written.collect::<Vec<_>>());
        if self.settles.is_some() {
            fill(producer, start + log.len() as u64..end);
        }
    }

    /// Writes what the file has for those who live.
    fn speak(&self, world: &World, producer: &mut Producer) {
        let (_, mut next) = self.bounds();
        for message in self.list("messages") {
            let offset = message["offset"].as_u64().expect("an offset");
            if self.settles.is_some() && offset > next {
                leave_out(world, self.partition, offset - next);
            }
            next = next.max(offset + 1);
            write(producer, &[Written::of(Topic::Outcomes, self.partition, message)]);
        }
    }

    fn expected(&self, found: &Found) -> Value {
        let sent = |topic: &str| -> Vec<&Value> {
            self.expect["sent"]
                .as_array()
                .expect("a list")
                .iter()
                .filter(|sent| sent["topic"] == topic)
                .collect()
        };
        let offset = self.settles.map(|settles| match settles {
            Settles::AsWritten => self.expect["outcome_offset"].clone(),
            Settles::AtTheEnd => found.ends[self.partition as usize].into(),
        });
        json!({
            "orders": by_id(self.expect["orders"].as_array().expect("orders").clone()),
            "outcomes": sent("outcomes"),
            "pay": sent("pay"),
            "stock": sent("stock"),
            "misplaced": misplaced(&self.expect),
            "alarms": expected_alarms(&self.expect),
            "outcome_offset": offset,
        })
    }

    fn found(&self, sql: &mut Client, found: &Found) -> Value {
        let sent = |topic: Topic| -> Vec<Value> {
            let about = found.said.iter().filter(|said| said.topic == topic && said.is_answer_to(&self.name));
            let all: Vec<Value> = about.map(Said::shown).collect();
            if topic == Topic::Outcomes { all } else { once(all, found.taken[&self.partition]) }
        };
        json!({
            "orders": by_id(self.orders(sql)),
            "outcomes": sent(Topic::Outcomes),
            "pay": sent(Topic::Pay),
            "stock": sent(Topic::Stock),
            "misplaced": found.said.iter().filter(|said| said.is_misplaced_by(&self.name)).count(),
            "alarms": alarms_about(&self.name, &found.alarms),
            "outcome_offset": self.settles.map(|_| self.offset(sql)),
        })
    }

    fn orders(&self, sql: &mut Client) -> Vec<Value> {
        let select = "SELECT order_id, user_id, items::text, amount, state, coalesce(tr_num, 0) FROM orders
             WHERE starts_with(order_id, $1)";
        let rows = sql.query(select, &[&format!("{}.", self.name)]).expect("rows");
        let order = |row: &postgres::Row| {
            let (order, user, items): (&str, &str, &str) = (row.get(0), row.get(1), row.get(2));
            let items: Value = serde_json::from_str(items).expect("JSON");
            let (amount, state, tr): (i64, &str, i64) = (row.get(3), row.get(4), row.get(5));
            json!({"order_id": order, "user_id": user, "items": items, "amount": amount, "state": state, "tr_num": tr})
        };
        rows.iter().map(order).collect()
    }

    fn offset(&self, sql: &mut Client) -> Value {
        let partition = i32::try_from(self.partition).expect("few");
        let row = sql.query_opt("SELECT value FROM outcome_offset WHERE partition = $1", &[&partition]);
        row.expect("rows").map(|row| row.get::<_, i64>(0)).into()
    }
}

fn by_id(mut orders: Vec<Value>) -> Vec<Value> {
    orders.sort_by_key(|order| order["order_id"].to_string());
    orders
}

/// Each the first time that it was sent. Whoever takes a partition over asks again; nobody else does.
fn once(sent: Vec<Value>, times_max: usize) -> Vec<Value> {
    let mut first: Vec<Value> = Vec::new();
    for said in &sent {
        let times = sent.iter().filter(|other| *other == said).count();
        // Too often: shown as it is.
        if times > times_max || !first.contains(said) {
            first.push(said.clone());
        }
    }
    first
}

/// So many offsets of a partition that no reader ever sees: a transaction that is given up, whose end has an offset too.
fn leave_out(world: &World, partition: u32, offsets: u64) {
    let name = world.topics().name(Topic::Outcomes);
    let partition = i32::try_from(partition).expect("few");
    let begin = || world.transactional(&format!("{name}-{partition}"));
    let producer = begin();
    producer.begin_transaction().expect("one begins");
    assert!(offsets > 1, "its end alone is no transaction");
    for _ in 1..offsets {
        let record = BaseRecord::<str, str>::to(&name).partition(partition).key("nobody").payload("nothing");
        producer.send(record).expect("there is room");
    }
    producer.flush(PATIENCE).expect("Kafka takes it");
    producer.abort_transaction(PATIENCE).expect("it is given up");
    // Kafka writes the transaction's mark later. It has, once the next one of that name may begin; else the mark could come last.
    begin();
}
