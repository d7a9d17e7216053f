//! A file's ids in a world that others share: its users and items begin with its name, and so do its orders, which get an end
//! besides that puts them into one partition, since they come one after the other in the file.

use holdfast_kafka::{Topic, TopicSettings};
use serde_json::{Map, Value};

/// What a file's ids become.
pub struct Cast<'a> {
    pub name: &'a str,
    pub topics: &'a TopicSettings,
    pub partition: u32,
}

impl Cast<'_> {
    pub fn order(&self, id: &str) -> String {
        let ends = (0..).map(|number| format!("{}.{id}.{number}", self.name));
        let mut here =
            ends.filter(|order| self.topics.partition(Topic::Orders, order.as_bytes()) == self.partition);
        here.next().expect("sooner or later one falls into each partition")
    }

    /// A user's or an item's.
    fn holder(&self, id: &str) -> String {
        format!("{}.{id}", self.name)
    }

    /// A part of the file with these ids.
    pub fn play(&self, part: &Value) -> Value {
        match part {
            Value::Array(all) => all.iter().map(|part| self.play(part)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| self.field(name, value)).collect::<Map<_, _>>().into()
            }
            other => other.clone(),
        }
    }

    fn field(&self, name: &str, value: &Value) -> (String, Value) {
        let value = match (name, value) {
            ("order_id", Value::String(id)) => self.order(id).into(),
            ("user_id" | "id", Value::String(id)) => self.holder(id).into(),
            ("reason", Value::String(reason)) => self.reason(reason).into(),
            ("users" | "items", Value::Object(balances)) => balances
                .iter()
                .map(|(id, balance)| (self.holder(id), balance.clone()))
                .collect::<Map<_, _>>()
                .into(),
            (_, other) => self.play(other),
        };
        (name.to_owned(), value)
    }

    /// An alarm names the order at its beginning, and a holder where something is stuck.
    fn reason(&self, reason: &str) -> String {
        let Some((order, rest)) = reason.strip_prefix("order ").and_then(|rest| rest.split_once(' ')) else {
            return reason.to_owned();
        };
        let rest = match rest
            .split_once(" give back to ")
            .and_then(|(before, to)| Some((before, to.split_once(';')?)))
        {
            Some((before, (holder, after))) => {
                format!("{before} give back to {};{after}", self.holder(holder))
            }
            None => rest.to_owned(),
        };
        format!("order {} {rest}", self.order(order))
    }
}
