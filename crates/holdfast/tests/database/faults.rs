//! What goes wrong.

use std::time::{Duration, Instant};

use holdfast_domain::ids::{AccountId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::positions::Action;
use holdfast_kafka::{Outgoing, Topic};
use holdfast_messages::{Message, PositionMessage, PositionWork, Step, TraceId};
use holdfast_services::{Control, PATIENCE, Service};
use rustix::process::Signal;

use crate::world::World;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// kill -9, and another one starts.
    NodeKilled,
    /// SIGSTOP until others have its partitions and shards, then SIGCONT.
    NodePaused,
    /// All connections of the nodes, wherever they are in a transaction.
    ConnectionsCut,
    Poison,
    UnknownAccount,
    NodeAdded,
    /// SIGTERM.
    NodeRemoved,
    /// Everything in the topics once more.
    AllTwice,
    StoreRestarted,
    StoreKilled,
    LogRestarted,
}

impl Fault {
    pub const ALL: [Fault; 14] = [
        Fault::NodeKilled,
        Fault::Poison,
        Fault::ConnectionsCut,
        Fault::NodePaused,
        Fault::UnknownAccount,
        Fault::NodeAdded,
        Fault::AllTwice,
        Fault::StoreRestarted,
        Fault::NodeRemoved,
        Fault::LogRestarted,
        Fault::ConnectionsCut,
        Fault::StoreKilled,
        Fault::NodeKilled,
        Fault::NodePaused,
    ];
}

/// As many as there are partitions of a topic.
const NODES_MAX: usize = 4;
const NODES_MIN: usize = 2;
/// Longer than it takes to make up a group again, once its members are known.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Partitions and shards that have changed hands so far: all epochs of a kind together. What one node alone does for all is
/// left out: it need not be the one that something happens to.
fn epochs(world: &World) -> Vec<(String, i64)> {
    let sql = "SELECT segment_type || ' ' || table_name, sum(epoch)::bigint FROM segment
               WHERE segment_type <> 'tokens' GROUP BY 1 ORDER BY 1";
    let rows = world.sql().query(sql, &[]).expect("epochs");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// What the nodes' sessions are doing, for whoever has to find out why something hangs.
fn sessions(world: &World) -> String {
    let sql = "SELECT concat_ws(' ', pid, state, wait_event, clock_timestamp() - xact_start, pg_blocking_pids(pid), query)
               FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle'";
    let rows = world.sql().query(sql, &[]).expect("sessions");
    rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
}

/// Waits until nothing has changed hands for a while: what was begun by the fault before must not count.
fn await_settled(world: &World) -> Vec<(String, i64)> {
    let deadline = Instant::now() + PATIENCE;
    let (mut last, mut since) = (epochs(world), Instant::now());
    while since.elapsed() < SETTLED_AFTER {
        assert!(Instant::now() < deadline, "partitions change hands without end: {last:?}");
        std::thread::park_timeout(Duration::from_millis(100));
        let now = epochs(world);
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}

pub fn commit(fault: Fault, world: &mut World) {
    match fault {
        Fault::NodeKilled => {
            world.take_node().kill();
            world.add_nodes(1);
        }
        Fault::NodePaused => {
            let node = world.take_node();
            let before = await_settled(world);
            World::signal(&node, Signal::STOP);
            let deadline = Instant::now() + PATIENCE;
            // Partitions of each topic and shards of each kind: it had some of all.
            while epochs(world).iter().zip(&before).any(|(now, before)| now.1 <= before.1) {
                let late = Instant::now() >= deadline;
                assert!(
                    !late,
                    "of {before:?} some are still counted on it: {:?}\n{}",
                    epochs(world),
                    sessions(world)
                );
                std::thread::park_timeout(Duration::from_millis(50));
            }
            World::signal(&node, Signal::CONT);
            world.put_back(node);
        }
        Fault::ConnectionsCut => {
            for _ in 0..10 {
                let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                           WHERE datname = current_database() AND application_name = 'holdfast'";
                world.count(cut);
            }
        }
        Fault::Poison => poison(world),
        Fault::UnknownAccount => {
            let step = Step {
                action: Action::Prepare,
                transfer: TransferId(0xdead_0001),
                amount: Amount(1),
                error: None,
                origin: None,
            };
            let (trace, account) = (TraceId(0xdead), AccountId(999_999));
            let message = PositionMessage { trace, account, work: PositionWork::Step(step) };
            send(world, Topic::Position, &message.key(), &message.to_json());
        }
        Fault::NodeAdded => {
            // At random they may come one after another; each node must have something to lose.
            if world.node_count() >= NODES_MAX {
                world.take_node().stop();
            }
            world.add_nodes(1);
        }
        Fault::NodeRemoved => {
            if world.node_count() <= NODES_MIN {
                world.add_nodes(1);
            }
            world.take_node().stop();
        }
        Fault::AllTwice => all_twice(world),
        Fault::StoreRestarted => store(|control| control.stop()),
        Fault::StoreKilled => restart_store(),
        Fault::LogRestarted => restart_log(),
    }
}

/// Kills PostgreSQL, and starts it again.
pub fn restart_store() {
    store(|control| control.kill());
}

/// Stops Kafka, and starts it again.
pub fn restart_log() {
    let service = holdfast_services::kafka().expect("there is one");
    restart(&service, |control| control.stop());
}

fn store(end: fn(Control<'_>)) {
    restart(&holdfast_services::postgres().expect("there is one"), end);
}

fn restart(service: &Service, end: fn(Control<'_>)) {
    let Some(control) = service.control() else {
        return eprintln!("skipped: this server is not ours to stop");
    };
    end(control);
    control.start();
}

fn poison(world: &World) {
    for topic in [Topic::Orders, Topic::Pay, Topic::Stock, Topic::Outcomes] {
        send(world, topic, "1", b"not JSON");
        send(
            world,
            topic,
            r#"{"order_id":"nobody","tr_num":1}"#,
            br#"{"type":"pay","user_id":"u","amnt":-1}"#,
        );
    }
    for topic in [Topic::Transfers, Topic::Position, Topic::Notifications] {
        send(world, topic, "1", b"not JSON");
        send(
            world,
            topic,
            "1",
            br#"{"v":0,"trace":"00000000000000000000000000000001","type":"prepare","body":{}}"#,
        );
        send(world, topic, "", b"");
    }
}

fn send(world: &World, topic: Topic, key: &str, value: &[u8]) {
    let topics = world.topics();
    let message = topics.outgoing(topic, key.as_bytes(), value);
    world.producer().send_all(&[message], Instant::now() + PATIENCE).expect("Kafka takes it");
}

fn all_twice(world: &World) {
    let mut producer = world.producer();
    let shop = [Topic::Orders, Topic::Pay, Topic::Stock, Topic::Outcomes];
    for topic in [Topic::Transfers, Topic::Position, Topic::Notifications].into_iter().chain(shop) {
        for records in world.records(topic).chunks(1_000) {
            let again: Vec<_> = records
                .iter()
                .map(|record| Outgoing {
                    topic,
                    partition: record.partition,
                    key: &record.key,
                    value: &record.value,
                })
                .collect();
            producer.send_all(&again, Instant::now() + PATIENCE).expect("Kafka takes it");
        }
    }
}
