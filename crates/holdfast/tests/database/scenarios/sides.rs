//! The cases of the payment and the stock side: three nodes serve both and nobody else reads the answers.

use holdfast_kafka::Topic;
use postgres::Client;
use serde_json::{Map, Value, json};

use super::cast::Cast;
use super::log::{
    Said, Written, alarm_lines, alarms_about, assert_misplaced_are_put_aside, expected_alarms, misplaced,
    write,
};
use super::{Kind, assert_none, played_by};
use crate::world::{PARTITIONS, World};

/// A side's words: those of the files, and those of its tables.
struct Names {
    topic: Topic,
    holders: &'static str,
    /// `taken`, `refused`, `undone`.
    outcomes: [(&'static str, &'static str); 3],
}

const PAY: Names = Names {
    topic: Topic::Pay,
    holders: "users",
    outcomes: [("psucc", "taken"), ("pfail", "refused"), ("csucc", "undone")],
};
const STOCK: Names = Names {
    topic: Topic::Stock,
    holders: "items",
    outcomes: [("ssucc", "taken"), ("sfail", "refused"), ("asucc", "undone")],
};

/// A file in the world.
struct Scene {
    name: String,
    names: &'static Names,
    partition: u32,
    case: Value,
    expect: Value,
}

/// All of them at once: their messages share partitions and batches.
#[test]
fn the_sides_play_their_scenarios() {
    let Some(mut world) = World::beside_others() else { return };
    let told: Vec<_> = (0..3).map(|_| world.add_telling_node(&["--roles", "api,pay,stock"])).collect();
    let topics = world.topics();
    let scenes: Vec<Scene> = (0..PARTITIONS)
        .cycle()
        .zip(played_by(Kind::Side))
        .map(|(partition, (name, file))| {
            let cast = Cast { name: &name, topics: &topics, partition };
            let (case, expect) = (cast.play(&file["case"]), cast.play(&file["expect"]));
            let names = if case["participant"] == "pay" { &PAY } else { &STOCK };
            Scene { name, names, partition, case, expect }
        })
        .collect();
    let mut sql = world.sql();
    scenes.iter().for_each(|scene| scene.set(&mut sql));
    world.await_shared(&[Topic::Pay, Topic::Stock]);
    let messages: Vec<Written> = scenes.iter().flat_map(Scene::messages).collect();
    write(&mut world.producer(), &messages);
    world.await_read(&[Topic::Pay, Topic::Stock]);

    let said = Said::all(&world, &[Topic::Pay, Topic::Stock, Topic::Outcomes]);
    let lines = alarm_lines(&told);
    let wrong = scenes.iter().filter_map(|scene| {
        let (found, expected) = (scene.found(&mut sql, &said, &lines), scene.expected());
        (found != expected).then(|| format!("{}\n  was {found}\n  not {expected}", scene.name))
    });
    assert_none(&wrong.collect::<Vec<_>>(), scenes.len());
    assert_misplaced_are_put_aside(&world, &said, scenes.iter().map(|scene| &*scene.name));
    let answered = said.iter().filter(|said| scenes.iter().any(|scene| said.is_answer_to(&scene.name)));
    let answers = scenes.iter().map(|scene| scene.expect["sent"].as_array().expect("a list").len());
    assert_eq!(answered.count(), answers.sum::<usize>(), "nobody says anything else");
}

impl Scene {
    /// The rows that are there before.
    fn set(&self, sql: &mut Client) {
        let Names { holders, outcomes, .. } = self.names;
        for (holder, balance) in self.case[*holders].as_object().expect("balances") {
            let insert = match self.names.topic {
                Topic::Pay => {
                    "INSERT INTO users (user_id, credit, funded) VALUES ($1, $2::bigint, $2::bigint)"
                }
                _ => {
                    "INSERT INTO items (item_id, price, stock, supplied) VALUES ($1, 1, $2::bigint, $2::bigint)"
                }
            };
            sql.execute(insert, &[holder, &balance.as_i64().expect("a balance")]).expect("a balance is set");
        }
        for row in self.case["rows"].as_array().expect("rows") {
            let text = |name: &str| row[name].as_str().expect("a text");
            let (order, tr, value) = (text("order_id"), row["tr_num"].as_i64(), &row["value"]);
            let rollback = row["rollback"].as_bool().expect("yes or no");
            let (_, outcome) =
                outcomes.iter().find(|(word, _)| *word == text("outcome")).expect("an outcome");
            let set = match self.names.topic {
                Topic::Pay => sql.execute(
                    "INSERT INTO pay_transaction (order_id, tr_num, is_rollback, outcome, user_id, amnt)
                     VALUES ($1, $2, $3, $4, $5, $6)",
                    &[&order, &tr, &rollback, outcome, &value["user_id"].as_str(), &value["amnt"].as_i64()],
                ),
                _ => sql.execute(
                    "INSERT INTO stock_transaction (order_id, tr_num, is_rollback, outcome, items)
                     VALUES ($1, $2, $3, $4, $5::text::json)",
                    &[&order, &tr, &rollback, outcome, &value.get("items").map(Value::to_string)],
                ),
            };
            set.expect("a row is set");
        }
    }

    fn messages(&self) -> Vec<Written> {
        let all = self.case["messages"].as_array().expect("messages").iter();
        all.map(|message| Written::of(self.names.topic, self.partition, message)).collect()
    }

    /// As the file has it.
    fn expected(&self) -> Value {
        let mut rows = self.expect["rows"].as_array().expect("rows").clone();
        rows.sort_by_key(place);
        json!({
            "rows": rows,
            "balances": self.expect[self.names.holders],
            "sent": self.expect["sent"],
            "misplaced": misplaced(&self.expect),
            "alarms": expected_alarms(&self.expect),
        })
    }

    /// The same, as it came out.
    fn found(&self, sql: &mut Client, said: &[Said], alarms: &[String]) -> Value {
        let mut rows = self.rows(sql);
        rows.sort_by_key(place);
        let sent = said.iter().filter(|said| said.topic == Topic::Outcomes && said.is_answer_to(&self.name));
        json!({
            "rows": rows,
            "balances": self.balances(sql),
            "sent": sent.map(Said::shown).collect::<Vec<_>>(),
            "misplaced": said.iter().filter(|said| said.is_misplaced_by(&self.name)).count(),
            "alarms": alarms_about(&self.name, alarms),
        })
    }

    fn rows(&self, sql: &mut Client) -> Vec<Value> {
        let columns = match self.names.topic {
            Topic::Pay => {
                "user_id IS NULL, json_build_object('type', 'pay', 'user_id', user_id, 'amnt', amnt)::text FROM pay_transaction"
            }
            _ => {
                "items IS NULL, json_build_object('type', 'sub', 'items', items)::text FROM stock_transaction"
            }
        };
        let select = format!(
            "SELECT order_id, tr_num, is_rollback, outcome, {columns} WHERE starts_with(order_id, $1)"
        );
        let rows = sql.query(&select, &[&format!("{}.", self.name)]).expect("rows");
        let row = |row: &postgres::Row| {
            let (order, tr, rollback): (&str, i64, bool) = (row.get(0), row.get(1), row.get(2));
            let (word, _) = self
                .names
                .outcomes
                .iter()
                .find(|(_, outcome)| *outcome == row.get::<_, &str>(3))
                .expect("an outcome");
            let value: Option<Value> =
                (!row.get::<_, bool>(4)).then(|| serde_json::from_str(row.get(5)).expect("JSON"));
            json!({"order_id": order, "tr_num": tr, "rollback": rollback, "outcome": word, "value": value})
        };
        rows.iter().map(row).collect()
    }

    fn balances(&self, sql: &mut Client) -> Map<String, Value> {
        let select = match self.names.topic {
            Topic::Pay => "SELECT user_id, credit FROM users WHERE starts_with(user_id, $1)",
            _ => "SELECT item_id, stock FROM items WHERE starts_with(item_id, $1)",
        };
        let rows = sql.query(select, &[&format!("{}.", self.name)]).expect("rows");
        rows.iter().map(|row| (row.get(0), row.get::<_, i64>(1).into())).collect()
    }
}

/// Rows come by order, try and rollback.
fn place(row: &Value) -> (String, Option<u64>, Option<bool>) {
    (row["order_id"].to_string(), row["tr_num"].as_u64(), row["rollback"].as_bool())
}
