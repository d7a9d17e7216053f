//! Many nodes at once, by the real clock: two partitions of each topic and the scans, each on its own connection. Every hold
//! ends exactly once, nobody waits in a circle for ever, and everything adds up.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdfast_domain::command::Command;
use holdfast_domain::transfers::TransferState;
use holdfast_messages::{PositionMessage, Topic};
use holdfast_postgres::{Batch, Claim, Incoming, Source, Store};

use crate::world::*;

const PARTIES: u32 = 4;
const CHUNK: u128 = 40;
const CHUNKS: u128 = 20;

type Log = Mutex<Vec<Incoming<PositionMessage>>>;

/// Sends what a source has to send; notifications are not of interest here.
fn relay(store: &mut Store, claim: &Claim, topics: &[Log]) {
    let rows = store.unsent(claim, 10_000).unwrap();
    let Some(last) = rows.last() else { return };
    for row in rows.iter().filter(|row| row.topic == Topic::Position) {
        let account: usize = row.key.parse().unwrap();
        let mut log = topics[account / 2 % topics.len()].lock().unwrap();
        let offset = log.len() as u64;
        log.push(Incoming::read(offset, row.key.clone().into_bytes(), row.value.clone()));
    }
    assert!(store.mark_sent(claim, last.number + 1).unwrap());
}

fn transfers(mut store: Store, partition: u32, now: i64, topics: &[Log]) {
    let claim = store.claim(&Source::Consumer(Topic::Transfers, partition)).unwrap();
    let mut at = claim.offset;
    let id = |chunk: u128, n: u128| (chunk * CHUNK + n) * 2 + u128::from(partition) + 1;
    let payer = |id: u128| u32::try_from(id).unwrap() % PARTIES + 1;
    let payee = |id: u128| (u32::try_from(id).unwrap() / 3 % (PARTIES - 1) + payer(id)) % PARTIES + 1;
    let mut step = |commands: Vec<Command>| {
        let messages = all(at, &commands);
        let batch = Batch::new(at, &messages);
        done(store.transfers(&claim, &batch).unwrap());
        at = batch.next;
        relay(&mut store, &claim, topics);
    };
    for chunk in 0..CHUNKS {
        let ids = (0..CHUNK).map(|n| id(chunk, n));
        step(
            ids.map(|id| {
                prepare(id, payer(id), payee(id), 1, now + 1_000 + i64::try_from(id % 900).unwrap())
            })
            .collect(),
        );
        if let Some(before) = chunk.checked_sub(2) {
            let ids = (0..CHUNK).map(|n| id(before, n)).filter(|id| id % 7 != 0);
            step(
                ids.map(|id| if id % 5 == 0 { abort(id, payee(id)) } else { fulfil(id, payee(id)) })
                    .collect(),
            );
        }
    }
}

fn positions(
    mut store: Store,
    claim: Claim,
    mut at: u64,
    partition: usize,
    topics: &[Log],
    stop: &AtomicBool,
) {
    loop {
        let stopping = stop.load(Ordering::Acquire);
        let messages: Vec<_> = {
            let log = topics[partition].lock().unwrap();
            log[usize::try_from(at).unwrap()..].iter().take(100).cloned().collect()
        };
        if messages.is_empty() && stopping {
            return;
        }
        if messages.is_empty() {
            std::thread::yield_now();
            continue;
        }
        let batch = Batch::new(at, &messages);
        done(store.positions(&claim, &batch).unwrap());
        at = batch.next;
        relay(&mut store, &claim, topics);
    }
}

#[test]
fn many_nodes_at_once() {
    let Some((world, mut node)) = node(2) else { return };
    for party in 1..=PARTIES {
        node.participant(&format!("party{party}"), 100_000, 150);
    }
    let now = world.now();
    let topics: Vec<Log> = node.positions.iter().map(|queue| Mutex::new(queue.log.clone())).collect();
    let stop = AtomicBool::new(false);
    let shards = node.shards.clone();
    std::thread::scope(|scope| {
        let (topics, stop, world) = (&topics[..], &stop, &world);
        for (partition, queue) in node.positions.iter().enumerate() {
            let (claim, at) = (queue.claim, queue.at);
            scope.spawn(move || positions(world.store(), claim, at, partition, topics, stop));
        }
        let nodes: Vec<_> = (0..2)
            .map(|partition| scope.spawn(move || transfers(world.store(), partition, now, topics)))
            .collect();
        let scans = scope.spawn(move || {
            let mut store = world.store();
            while !stop.load(Ordering::Acquire) {
                for (shard, claim) in (0..).zip(&shards) {
                    store.expire(claim, shard, 50).unwrap();
                    relay(&mut store, claim, topics);
                }
            }
        });
        let worked: Vec<_> = nodes.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        // One connection for all polls: one each would take the server's time from the nodes.
        let mut onlooker = world.sql();
        let open = "SELECT EXISTS (SELECT FROM transfer WHERE current_state IN (1, 3, 4, 6, 9))";
        let deadline = Instant::now() + Duration::from_secs(30);
        while onlooker.query_one(open, &[]).unwrap().get(0) && Instant::now() < deadline {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Release);
        scans.join().unwrap();
        worked.into_iter().for_each(|node| node.unwrap());
    });
    let states = world.states();
    assert_eq!(states.len() as u128, 2 * CHUNK * CHUNKS);
    let mut count = std::collections::BTreeMap::new();
    for state in states.into_values() {
        assert!(TransferState::from_name(&state).unwrap().is_final(), "one is still {state}");
        *count.entry(state).or_insert(0) += 1;
    }
    assert!(count.contains_key("COMMITTED") && count.contains_key("EXPIRED_RESERVED"), "{count:?}");
    assert_eq!(world.rows("dead_letter"), 0);
    world.verify();
}
