//! A node that starts and finds outcomes in Kafka, none of which it may pass over: it reads and folds them all, decides those
//! that nobody has, and then begins. The time is the node's own, from the claim of the partition to the commit.

use std::path::Path;
use std::time::{Duration, Instant};

use holdfast_checkout::{Order, OrderState};
use holdfast_client::{Client, ClientOptions};
use holdfast_kafka::{PartitionBy, Producer, ProducerSettings, SendError};
use holdfast_messages::{Message as _, OutcomeMessage, Topic};
use tokio::runtime::Runtime;
use tokio::time::sleep;

use super::options::SharedCheckoutOptions;
use crate::BenchError;
use crate::cluster::town::Town;
use crate::line::PAUSE;
use crate::meter::Counters;
use crate::report::median;
use crate::shop::rebuild::World;
use crate::shop::report::RebuildReport;

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
pub(super) fn take_over(
    options: &SharedCheckoutOptions,
    runtime: &Runtime,
    directory: &Path,
) -> Result<RebuildReport, BenchError> {
    let world = World::of(options.outcomes);
    let mut seconds = Vec::new();
    for _ in 0..options.runs {
        seconds.push(once(options, &world, runtime, directory)?);
    }
    Ok(RebuildReport {
        outcomes: world.records.len() as u64,
        orders: world.rows.0.len() as u64,
        undecided: world.undecided as u64,
        median_seconds: median(&seconds),
        seconds,
    })
}

fn once(
    options: &SharedCheckoutOptions,
    world: &World,
    runtime: &Runtime,
    directory: &Path,
) -> Result<f64, BenchError> {
    let ground = options.ground();
    let mut town = Town::lay_out(&ground)?;
    drop(town.store()?);
    write_orders(&mut town, world)?;
    write_outcomes(&town, world)?;
    town.execute("tidy up", "VACUUM (ANALYZE)")?;
    town.execute("write what is dirty", "CHECKPOINT")?;
    town.open_node(&ground, directory)?;
    let seconds = runtime.block_on(rebuilt(town.address(), options.partitions))?;
    // A deadline would end them, too, but not within the hour.
    let until = Instant::now() + REBUILD_WAIT;
    while town.number("SELECT count(*) FROM orders WHERE state = 'pending'")? > 0 {
        if Instant::now() > until {
            return Err(BenchError::Refused(
                "the node left tries undecided that had both outcomes".to_owned(),
            ));
        }
        std::thread::park_timeout(PAUSE);
    }
    town.close_node()?;
    Ok(seconds)
}

/// The seconds that all partitions took together, when all are rebuilt.
async fn rebuilt(address: &str, partitions: u32) -> Result<f64, BenchError> {
    let client = Client::connect(ClientOptions::to(address)).await;
    let client = client.map_err(BenchError::client("connecting to the node"))?;
    let until = Instant::now() + REBUILD_WAIT;
    loop {
        let counters = Counters::read(&client).await?;
        let since = Counters::default();
        if counters.since(&since, &format!("{REBUILDS}_count")) >= u64::from(partitions) {
            return Ok(counters.value_since(&since, &format!("{REBUILDS}_sum")));
        }
        if Instant::now() > until {
            return Err(BenchError::Refused(format!("the node did not rebuild within {REBUILD_WAIT:?}")));
        }
        sleep(PAUSE).await;
    }
}

fn write_orders(town: &mut Town, world: &World) -> Result<(), BenchError> {
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
        town.client
            .execute(ORDERS, &[&ids, &users, &items, &amounts, &states])
            .map_err(BenchError::database("write the orders"))?;
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

fn write_outcomes(town: &Town, world: &World) -> Result<(), BenchError> {
    let topics = town.topics();
    topics
        .ensure(town.brokers(), Instant::now() + KAFKA_WAIT)
        .map_err(BenchError::kafka("make the topics of the run"))?;
    let settings = ProducerSettings::new(town.brokers().clone(), topics.clone());
    let mut producer = Producer::new(settings).map_err(BenchError::kafka("connect to Kafka"))?;
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
        producer.send_all(&outgoing, Instant::now() + KAFKA_WAIT).map_err(
            |SendError { cause, .. }| {
                BenchError::Refused(format!("Kafka did not take the outcomes of the run: {cause}"))
            },
        )?;
    }
    Ok(())
}
