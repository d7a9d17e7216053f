//! A dry run of the checkout saga: messages through the handlers that a shop uses. Two forms of case: a
//! participant with its rows and balances, or the coordinator with its orders and its log.
//!
//! What the case leaves open is settled here:
//!
//! - Messages run one after another, in the order of the file. `sent` and `alarms` are in the order in which
//!   they come about; `rows` ascend by order, try and rollback, `orders` by order, `users` and `items` by id.
//!   Ids compare as strings.
//! - A row's `value` is the value of the forward message, as in `{"type":"pay","user_id":"u1","amnt":5}`; in
//!   a case its `type` may be left out. The row of a rollback that came first has none: `null`.
//! - `csucc` and `asucc` carry the recorded forward value; where there is none, what the `can` or `add` says.
//! - The coordinator first folds `outcomes` from `outcome_offset` (`null`: from the start) to the end, and
//!   goes on with what was left half-way, oldest first. Then it reads `messages`. What it sends does not come
//!   back by itself: a `trsucc` is in the log when the case has it there.
//! - `outcome_offset` in the answer is the start of the oldest try that is open, or the end of the log;
//!   `null` as long as there is no log.
//! - Offsets ascend and may have gaps. A message may come again with its offset: the log delivers at least
//!   once.
//! - A message of a known shape in the wrong topic raises an alarm and is passed over. What has no known
//!   shape makes the file bad.
//! - An alarm is `{"alarm","key","reason"}`; `key` is `null` where it is not about one try.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail, ensure};
use holdfast_checkout::coordinator::{Effects, LogBounds, Record};
use holdfast_checkout::message::Step;
use holdfast_checkout::participant::{Branch, Forward, Ledger, Pay, Row, Side, Stock};
use holdfast_checkout::{
    Alarm, Coordinator, Key, Message, Offset, Order, OrderId, OrderState, TrNum, Whole, codec,
};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::{Object, Strict};

/// Offsets are those of a log, which counts in signed 64 bits.
const OFFSET_MAX: Offset = i64::MAX as Offset;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ParticipantCase {
    participant: ParticipantName,
    #[serde(deserialize_with = "super::objects")]
    rows: Vec<CaseRow>,
    users: Option<BTreeMap<String, u64>>,
    items: Option<BTreeMap<String, u64>>,
    #[serde(deserialize_with = "super::objects")]
    messages: Vec<CaseMessage>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ParticipantName {
    Pay,
    Stock,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseRow {
    order_id: String,
    tr_num: u64,
    rollback: bool,
    outcome: String,
    value: Value,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseMessage {
    key: Value,
    value: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CoordinatorCase {
    coordinator: Object<CaseCoordinator>,
    #[serde(deserialize_with = "super::objects")]
    messages: Vec<CaseRecord>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseCoordinator {
    #[serde(deserialize_with = "super::objects")]
    orders: Vec<CaseOrder>,
    #[serde(deserialize_with = "super::objects")]
    outcomes: Vec<CaseRecord>,
    #[serde(deserialize_with = "number_or_null")]
    outcome_offset: Option<Offset>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseOrder {
    order_id: String,
    user_id: String,
    items: Value,
    amount: u64,
    state: String,
    tr_num: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseRecord {
    offset: Offset,
    key: Value,
    value: Value,
}

super::parts! {
    ParticipantCase: "a case",
    CoordinatorCase: "a case",
    CaseCoordinator: "a coordinator",
    CaseRow: "a row",
    CaseMessage: "a message",
    CaseRecord: "a message",
    CaseOrder: "an order",
}

/// A number or `null`. The field itself must be there.
fn number_or_null<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Offset>, D::Error> {
    Option::deserialize(field)
}

/// Runs the case and returns the answer.
///
/// # Errors
/// Says what is wrong with the case.
pub(crate) fn run(text: &str) -> Result<Value> {
    let Strict(case) = serde_json::from_str(text)?;
    ensure!(case.is_object(), "a case is an object with named fields");
    match (case.get("participant"), case.get("coordinator")) {
        (Some(_), None) => participant(Object::deserialize(case)?.0),
        (None, Some(_)) => coordinator(Object::deserialize(case)?.0),
        (Some(_), Some(_)) => bail!("a case has a participant or a coordinator, not both"),
        (None, None) => bail!("a case has a participant or a coordinator"),
    }
}

/// What the fields and outcomes of a side are called.
struct Names {
    holders: &'static str,
    forward: &'static str,
    taken: &'static str,
    refused: &'static str,
    undone: &'static str,
}

const PAY: Names =
    Names { holders: "users", forward: "pay", taken: "psucc", refused: "pfail", undone: "csucc" };
const STOCK: Names =
    Names { holders: "items", forward: "sub", taken: "ssucc", refused: "sfail", undone: "asucc" };

fn participant(case: ParticipantCase) -> Result<Value> {
    let ParticipantCase { participant, rows, users, items, messages } = case;
    match (participant, users, items) {
        (ParticipantName::Pay, Some(users), None) => side::<Pay>(&PAY, rows, users, &messages),
        (ParticipantName::Stock, None, Some(items)) => side::<Stock>(&STOCK, rows, items, &messages),
        (ParticipantName::Pay, ..) => bail!("the participant pay has users, and no items"),
        (ParticipantName::Stock, ..) => bail!("the participant stock has items, and no users"),
    }
}

fn side<S>(
    names: &Names,
    rows: Vec<CaseRow>,
    balances: BTreeMap<String, u64>,
    messages: &[CaseMessage],
) -> Result<Value>
where
    S: Side<Holder: FromStr<Err: Display>>,
{
    let mut ledger = Ledger::<S>::default();
    for (id, number) in balances {
        let holder = id.parse().map_err(|error| anyhow!("{}: '{id}': {error}", names.holders))?;
        let number = Whole::new(number).with_context(|| format!("{}: {id}", names.holders))?;
        ledger.balances.insert(holder, number);
    }
    ledger.branches = branches::<S>(names, rows)?;
    let messages = messages.iter().enumerate().map(|(place, message)| {
        codec::from_json(&message.key, &message.value).with_context(|| format!("messages[{place}]"))
    });
    let messages: Vec<Message> = messages.collect::<Result<_>>()?;
    let (mut sent, mut alarms) = (Vec::new(), Vec::new());
    for message in &messages {
        let (answer, more_alarms) = ledger.take(message);
        sent.extend(answer);
        alarms.extend(more_alarms);
    }
    let rows: Vec<Value> = ledger
        .branches
        .iter()
        .flat_map(|(key, branch)| branch.rows().into_iter().map(move |row| write_row::<S>(names, key, row)))
        .collect();
    let balances: Map<String, Value> =
        ledger.balances.iter().map(|(holder, number)| (holder.to_string(), number.get().into())).collect();
    let mut answer = Map::new();
    answer.insert("rows".to_owned(), rows.into());
    answer.insert(names.holders.to_owned(), balances.into());
    answer.insert("sent".to_owned(), write_sent(&sent));
    answer.insert("alarms".to_owned(), write_alarms(&alarms));
    Ok(answer.into())
}

fn branches<S: Side>(names: &Names, rows: Vec<CaseRow>) -> Result<BTreeMap<Key, Branch<S::Value>>> {
    let mut read = Vec::with_capacity(rows.len());
    for (place, row) in rows.iter().enumerate() {
        read.push((place, read_row::<S>(names, row).with_context(|| format!("rows[{place}]"))?));
    }
    // A rollback's value is understood by the forward row of its try.
    read.sort_by(|(_, (key, row)), (_, (other_key, other_row))| {
        let rollback = |row: &Row<S::Value>| matches!(row, Row::Rollback(_));
        (key, rollback(row)).cmp(&(other_key, rollback(other_row)))
    });
    let mut branches = BTreeMap::new();
    for (place, (key, row)) in read {
        let branch = branches.remove(&key);
        let branch = Branch::with_row(branch, row, S::same).with_context(|| format!("rows[{place}]"))?;
        branches.insert(key, branch);
    }
    Ok(branches)
}

fn read_row<S: Side>(names: &Names, row: &CaseRow) -> Result<(Key, Row<S::Value>)> {
    let key = json!({"order_id": row.order_id, "tr_num": row.tr_num});
    let mut written = row.value.clone();
    if let Some(fields) = written.as_object_mut() {
        fields.entry("type").or_insert_with(|| names.forward.into());
    }
    let nothing = json!({"type": "trfail"});
    let body = if written.is_null() { &nothing } else { &written };
    let message = codec::from_json(&key, body)?;
    let value = match S::step(&message.body) {
        Some(Step::Forward(value)) => Some(value.clone()),
        Some(Step::Rollback(_)) | None if written.is_null() => None,
        Some(Step::Rollback(_)) | None => {
            bail!("value: {} is not the forward message {}", message.body.type_name(), names.forward)
        }
    };
    let outcome = row.outcome.as_str();
    let row = match (row.rollback, value) {
        (false, Some(value)) if outcome == names.taken => Row::Forward(Forward::Taken(value)),
        (false, Some(value)) if outcome == names.refused => Row::Forward(Forward::Refused(value)),
        (false, Some(_)) => {
            bail!(
                "outcome: '{outcome}' is none of {}, {}, which a forward row has",
                names.taken,
                names.refused
            )
        }
        (false, None) => bail!("value: a forward row has the value of its message, not null"),
        (true, value) if outcome == names.undone => Row::Rollback(value),
        (true, _) => bail!("outcome: '{outcome}' is not {}, which a rollback row has", names.undone),
    };
    Ok((message.key, row))
}

fn write_row<S: Side>(names: &Names, key: &Key, row: Row<S::Value>) -> Value {
    let (rollback, outcome, value) = match row {
        Row::Forward(Forward::Taken(value)) => (false, names.taken, Some(value)),
        Row::Forward(Forward::Refused(value)) => (false, names.refused, Some(value)),
        Row::Rollback(value) => (true, names.undone, value),
    };
    json!({
        "order_id": key.order_id,
        "tr_num": key.tr_num,
        "rollback": rollback,
        "outcome": outcome,
        "value": value.map(|value| codec::body_to_json(&S::ask(Step::Forward(value)))),
    })
}

fn coordinator(case: CoordinatorCase) -> Result<Value> {
    let CoordinatorCase { coordinator: Object(case), messages } = case;
    let mut orders = BTreeMap::new();
    for (place, order) in case.orders.iter().enumerate() {
        let order = read_order(order).with_context(|| format!("orders[{place}]"))?;
        let twice = orders.insert(order.order_id.clone(), order).map(|order| order.order_id);
        ensure!(twice.is_none(), "orders[{place}]: its order_id is there twice");
    }
    let outcomes = read_records("outcomes", &case.outcomes)?;
    for (place, pair) in outcomes.windows(2).enumerate() {
        let ascends = pair[0].offset < pair[1].offset;
        ensure!(ascends, "outcomes[{}]: its offset is not above the one before it", place + 1);
    }
    let messages = read_records("messages", &messages)?;
    follow_on(&outcomes, &messages)?;
    let stored = case.outcome_offset;
    ensure!(stored <= Some(OFFSET_MAX), "outcome_offset: offsets end at {OFFSET_MAX}");

    let bounds = bounds(&outcomes, &messages, stored);
    let (mut coordinator, effects) = Coordinator::rebuild(&orders, stored, bounds, &outcomes);
    let (mut sent, mut alarms) = (Vec::new(), Vec::new());
    keep(effects, &mut orders, &mut sent, &mut alarms);
    for message in &messages {
        let effects = coordinator.handle(&orders, message);
        keep(effects, &mut orders, &mut sent, &mut alarms);
    }
    Ok(json!({
        "orders": orders.values().map(write_order).collect::<Vec<Value>>(),
        "sent": write_sent(&sent),
        "outcome_offset": coordinator.outcome_offset(),
        "alarms": write_alarms(&alarms),
    }))
}

fn keep(
    effects: Effects,
    orders: &mut BTreeMap<OrderId, Order>,
    sent: &mut Vec<Message>,
    alarms: &mut Vec<Alarm>,
) {
    orders.extend(effects.orders.into_iter().map(|order| (order.order_id.clone(), order)));
    sent.extend(effects.sent);
    alarms.extend(effects.alarms);
}

fn read_records(list: &str, records: &[CaseRecord]) -> Result<Vec<Record>> {
    let read = |(place, record): (usize, &CaseRecord)| {
        let offset = record.offset;
        ensure!(offset < OFFSET_MAX, "{list}[{place}]: offsets end at {OFFSET_MAX}");
        let message = codec::from_json(&record.key, &record.value);
        Ok(Record { offset, message: message.with_context(|| format!("{list}[{place}]"))? })
    };
    records.iter().enumerate().map(read).collect()
}

/// New messages ascend from where the log ends; one that was there before may come again as it was.
fn follow_on(outcomes: &[Record], messages: &[Record]) -> Result<()> {
    let mut last = outcomes.last().map(|record| record.offset);
    let mut known: BTreeMap<Offset, &Message> =
        outcomes.iter().map(|record| (record.offset, &record.message)).collect();
    for (place, record) in messages.iter().enumerate() {
        match known.get(&record.offset) {
            Some(message) if **message == record.message => {}
            Some(_) => bail!("messages[{place}]: there is another message at offset {}", record.offset),
            None => {
                let follows = last < Some(record.offset);
                ensure!(follows, "messages[{place}]: its offset does not follow on from those before it");
                last = Some(record.offset);
                known.insert(record.offset, &record.message);
            }
        }
    }
    Ok(())
}

/// The log as it was when the coordinator started. Without outcomes, it ends where the messages begin.
fn bounds(outcomes: &[Record], messages: &[Record], stored: Option<Offset>) -> LogBounds {
    let after_last = outcomes.last().map(|record| record.offset + 1);
    let following = messages.iter().map(|record| record.offset).find(|offset| after_last <= Some(*offset));
    let end = following.or(after_last).or(stored).unwrap_or_default();
    LogBounds { start: outcomes.first().map_or(end, |record| record.offset), end }
}

fn read_order(order: &CaseOrder) -> Result<Order> {
    let tried = || TrNum::try_from(order.tr_num).with_context(|| format!("an order that is {}", order.state));
    let state = match order.state.as_str() {
        "not_paid" if order.tr_num == 0 => OrderState::NotPaid(None),
        "not_paid" => OrderState::NotPaid(Some(tried()?)),
        "pending" => OrderState::Pending(tried()?),
        "paid" => OrderState::Paid(tried()?),
        "cancelling" => OrderState::Cancelling(tried()?),
        other => bail!("state: '{other}' is none of not_paid, pending, paid, cancelling"),
    };
    Ok(Order {
        order_id: order.order_id.parse().context("order_id")?,
        user_id: order.user_id.parse().context("user_id")?,
        items: codec::items_from_json(&order.items)?,
        amount: Whole::new(order.amount).context("amount")?,
        state,
    })
}

fn write_order(order: &Order) -> Value {
    json!({
        "order_id": order.order_id,
        "user_id": order.user_id,
        "items": order.items,
        "amount": order.amount,
        "state": order.state.name(),
        "tr_num": order.state.tr_num().map_or(0, TrNum::get),
    })
}

fn write_sent(sent: &[Message]) -> Value {
    let write = |message: &Message| {
        let (key, value) = codec::to_json(message);
        json!({"topic": message.body.topic().name(), "key": key, "value": value})
    };
    sent.iter().map(write).collect()
}

fn write_alarms(alarms: &[Alarm]) -> Value {
    let write = |alarm: &Alarm| {
        let key = alarm.key().map(codec::key_to_json);
        json!({"alarm": alarm.name(), "key": key, "reason": alarm.to_string()})
    };
    alarms.iter().map(write).collect()
}
