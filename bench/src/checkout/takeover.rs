//! A node that starts and finds outcomes in Kafka, none of which it may pass over: it reads and folds them all, decides those
//! that nobody has, and then begins. The time is the node's own, from the claim of the partition to the commit.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use holdfast_checkout::{Order, OrderState};
use holdfast_client::Client;
use holdfast_kafka::{PartitionBy, Producer, ProducerSettings, SendError};
use holdfast_load::line::PAUSE;
use holdfast_load::meter::Counters;
use holdfast_load::report::Row;
use holdfast_messages::{Message as _, OutcomeMessage, Topic};
use tokio::time::sleep;

use super::CheckoutBench;
use crate::database::town::{Topics, Town};
use crate::rebuild::World;

/// Rows or messages that are written at a time.
const PIECE: usize = 20_000;
/// How long topics may take to be there, and a piece to be acknowledged.
const KAFKA_WAIT: Duration = Duration::from_secs(60);
/// How long the node may take to rebuild and to decide.
const REBUILD_WAIT: Duration = Duration::from_secs(120);
/// The node's histogram of rebuilds.
const REBUILDS: &str = "holdfast_checkout_rebuild_seconds";

/// An order as a row; one that is undecided has time left.
const ORDERS: &str = "
    INSERT INTO orders (order_id, user_id, items, amount, state, tr_num, started_at, deadline, shard, waits_since)
    SELECT o.id, o.who, o.items::json, o.amount, o.state, 1, p.at, p.at + interval '1 hour', p.shard, p.at
    FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[]) AS o (id, who, items, amount, state)
    LEFT JOIN (SELECT hub_clock() AS at, 0::smallint AS shard) p ON o.state = 'pending'";

/// As often as asked for, each time with a database and topics of its own.
pub(super) fn take_over(program: &Path, options: &CheckoutBench, directory: &Path) -> anyhow::Result<Row> {
    let world = World::of(options.outcomes);
    let runs = (0..options.runs).map(|_| once(program, options, &world, directory));
    Ok(world.row(&runs.collect::<anyhow::Result<Vec<f64>>>()?))
}

fn once(program: &Path, options: &CheckoutBench, world: &World, directory: &Path) -> anyhow::Result<f64> {
    let mut town = Town::lay_out(&options.servers)?;
    drop(town.place.store()?);
    write_orders(&mut town, world)?;
    write_outcomes(&town, world)?;
    town.place.settle()?;
    town.open_node(program, &options.servers, directory, 1)?;
    let client = town.client()?;
    let seconds = town.runtime.block_on(rebuilt(&client, options.servers.partitions))?;
    // A deadline would end them, too, but not within the hour.
    let until = Instant::now() + REBUILD_WAIT;
    while town.place.number("SELECT count(*) FROM orders WHERE state = 'pending'")? > 0 {
        ensure!(Instant::now() <= until, "the node left tries undecided that had both outcomes");
        std::thread::park_timeout(PAUSE);
    }
    town.close_node()?;
    Ok(seconds)
}

/// The seconds that all partitions took together, when all are rebuilt.
async fn rebuilt(client: &Client, partitions: u32) -> anyhow::Result<f64> {
    let until = Instant::now() + REBUILD_WAIT;
    loop {
        let counters = Counters::read(client).await?;
        let since = Counters::default();
        if counters.since(&since, &format!("{REBUILDS}_count")) >= u64::from(partitions) {
            return Ok(counters.value_since(&since, &format!("{REBUILDS}_sum")));
        }
        ensure!(Instant::now() <= until, "the node did not rebuild within {REBUILD_WAIT:?}");
        sleep(PAUSE).await;
    }
}

fn write_orders(town: &mut Town, world: &World) -> anyhow::Result<()> {
    let orders: Vec<&Order> = world.rows.0.values().collect();
    for some in orders.chunks(PIECE) {
        let ids: Vec<&str> = some.iter().map(|order| order.order_id.as_str()).collect();
        let users: Vec<&str> = some.iter().map(|order| order.user_id.as_str()).collect();
        let written =
            |order: &&Order| serde_json::to_string(&order.items).expect("items can always be written");
        let items: Vec<String> = some.iter().map(written).collect();
        let amounts: Vec<i64> =
            some.iter().map(|order| i64::try_from(order.amount.get()).unwrap_or(i64::MAX)).collect();
        let states: Vec<&str> = some.iter().map(|order| state_of(order)).collect();
        town.place
            .client
            .execute(ORDERS, &[&ids, &users, &items, &amounts, &states])
            .context("cannot write the orders")?;
    }
    Ok(())
}

const fn state_of(order: &Order) -> &'static str {
    match order.state {
        OrderState::NotPaid(_) => "not_paid",
        OrderState::Pending(_) => "pending",
        OrderState::Cancelling(_) => "cancelling",
        OrderState::Paid(_) => "paid",
    }
}

fn write_outcomes(town: &Town, world: &World) -> anyhow::Result<()> {
    let Topics { brokers, settings: topics } = &town.topics;
    topics.ensure(brokers, Instant::now() + KAFKA_WAIT).context("cannot make the topics of the run")?;
    let settings = ProducerSettings::new(brokers.clone(), topics.clone());
    let mut producer = Producer::new(settings).context("cannot connect to Kafka")?;
    for some in world.records.chunks(PIECE) {
        let messages: Vec<OutcomeMessage> = some
            .iter()
            .map(|record| OutcomeMessage::new(record.message.clone()).expect("a world of outcomes"))
            .collect();
        let written: Vec<(PartitionBy, String, Vec<u8>)> = messages
            .iter()
            .map(|message| (PartitionBy::of(message), message.key(), message.to_json()))
            .collect();
        let outgoing: Vec<_> = written
            .iter()
            .map(|(by, key, value)| topics.outgoing_by(Topic::Outcomes, by, key.as_bytes(), value))
            .collect();
        let sent = producer.send_all(&outgoing, Instant::now() + KAFKA_WAIT);
        sent.map_err(|SendError { cause, .. }| {
            anyhow!("Kafka did not take the outcomes of the run: {cause}")
        })?;
    }
    Ok(())
}
