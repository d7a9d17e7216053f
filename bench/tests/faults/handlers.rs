//! Faults 4, 7, 8 and 9: others at work at the same time.

use holdfast_domain::ids::TransferId;
use holdfast_messages::Topic;
use holdfast_postgres::{Batch, Source, Step};
use postgres::error::SqlState;

use crate::document::*;
use crate::world::*;

/// In MariaDB step 6 keeps every writer of state changes waiting until step 10. PostgreSQL lets those pass, but what step 6
/// inserted is locked as long, step 8 included: a second handler that has the same transfer to insert waits for the first.
#[test]
fn fault_4_step_6_keeps_others_waiting() {
    let Some(world) = World::new() else { return };
    let mut document = Document::with_x(&world, AN_HOUR_AGO, &["RECEIVED_PREPARE"]);
    let process = document.process;
    let mut second = world.sql();
    let backend: i32 = second.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
    let mut waiting = Some(second);
    let mut thread = None;
    let world_too = &world;
    document
        .process
        .run(&mut document.client, |step| {
            if step == 8 {
                let mut second = waiting.take().unwrap();
                thread = Some(std::thread::spawn(move || process.run(&mut second, |_| ())));
                world_too.await_blocked(backend);
            }
        })
        .unwrap();
    let second = thread.unwrap().join().unwrap();
    assert!(is(&second.unwrap_err(), &SqlState::UNIQUE_VIOLATION), "it waited, and in vain");
}

/// A scan of ours that hangs before its commit keeps nobody waiting: neither an unrelated prepare nor another shard.
#[test]
fn fault_4_ours_keeps_nobody_waiting() {
    let Some(world) = World::new() else { return };
    let (mut cluster, payer, payee) = ours(&world);
    let commands: Vec<_> = (1..=40).map(|id| prepare(id, payer.0, payee.0, 1, NOW + 10)).collect();
    cluster.ask(&commands);
    world.set_clock(NOW + 11);
    let shards = cluster.store.due_shards().unwrap();
    assert!(shards.len() > 1);
    let (shard, claim) = (shards[0], cluster.shards[usize::try_from(shards[0]).unwrap()]);
    let mut slow = world.store();
    let held = Held::in_store(&mut slow);
    let thread = std::thread::spawn(move || done(slow.expire(&claim, shard, 1_000).unwrap()).messages);
    held.await_written();
    // None of these could end if they waited: what they would wait for is released only below.
    cluster.ask(&[prepare(100, payer.0, payee.0, 1, FAR)]);
    assert_eq!(world.state(TransferId(100)), "RESERVED");
    let mut ended = 0;
    for shard in &shards[1..] {
        let claim = cluster.shards[usize::try_from(*shard).unwrap()];
        ended += done(cluster.store.expire(&claim, *shard, 1_000).unwrap()).messages;
    }
    held.release();
    assert_eq!(ended + thread.join().unwrap(), 40);
    cluster.drain();
    world.verify();
}

#[test]
fn fault_7_two_handlers_begin() {
    // One open transfer: the second fails.
    let Some(world) = World::new() else { return };
    let mut document = Document::with_x(&world, AN_HOUR_AGO, &["RECEIVED_PREPARE"]);
    let mut second = world.sql();
    let process = document.process;
    let first = document.listed_with(4, || {
        process.run(&mut second, |_| ()).unwrap();
    });
    assert!(is(&first.unwrap_err(), &SqlState::UNIQUE_VIOLATION));

    // None open: two watermarks, and no run after that.
    let Some(world) = World::new() else { return };
    let mut document = Document::with_x(&world, AN_HOUR_AGO, &["RECEIVED_PREPARE", "RESERVED", "COMMITTED"]);
    let mut second = world.sql();
    document
        .listed_with(4, || {
            process.run(&mut second, |_| ()).unwrap();
        })
        .unwrap();
    assert_eq!(document.segments(), 2);
    for _ in 0..2 {
        assert!(document.run().is_err());
    }

    // Ours: the claim that comes later is the one that counts.
    let Some(world) = World::new() else { return };
    let (mut cluster, _) = ours_with_a_hold(&world);
    world.set_clock(NOW + 11);
    let mut other = world.store();
    let first = cluster.shards.clone();
    let later: Vec<_> = (0..8).map(|shard| other.claim(&Source::Timeout(shard)).unwrap()).collect();
    let mut ended = 0;
    for (shard, (old, new)) in (0..).zip(first.iter().zip(&later)) {
        assert_eq!(cluster.store.expire(old, shard, 10).unwrap(), Step::Fenced);
        ended += done(other.expire(new, shard, 10).unwrap()).messages;
    }
    assert_eq!(ended, 1);
    assert_eq!(world.count("SELECT count(*) FROM segment WHERE segment_type = 'timeout'"), 8);
    world.verify();
}

#[test]
fn fault_8_two_handlers_list_the_same() {
    let Some(world) = World::new() else { return };
    let mut document = Document::with_x(&world, AN_HOUR_AGO, &["RECEIVED_PREPARE"]);
    document.run().unwrap();
    let (mut second, mut listed_too) = (world.sql(), Vec::new());
    let process = document.process;
    let listed = document.listed_with(7, || listed_too = process.run(&mut second, |_| ()).unwrap().listed);
    assert_eq!((listed.unwrap(), listed_too), (vec!["x".to_owned()], vec!["x".to_owned()]));

    // Ours: two nodes that both believe to own every shard, at the same time.
    let (mut cluster, payer, payee) = ours(&world);
    let commands: Vec<_> = (1..=60).map(|id| prepare(id, payer.0, payee.0, 1, NOW + 10)).collect();
    cluster.ask(&commands);
    world.set_clock(NOW + 11);
    let shards = cluster.shards.clone();
    let ended: usize = std::thread::scope(|scope| {
        let scan = || {
            let mut store = world.store();
            let steps = (0..).zip(&shards).map(|(shard, claim)| store.expire(claim, shard, 1_000).unwrap());
            steps.map(|step| done(step).messages).sum::<usize>()
        };
        let both = [scope.spawn(scan), scope.spawn(scan)];
        both.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(ended, 60, "each once");
    assert_eq!(world.count("SELECT count(*) FROM transfer_state_change WHERE transfer_state_id = 9"), 60);
    cluster.drain();
    world.verify();
}

#[test]
fn fault_9_a_fulfil_comes_between_the_steps() {
    let Some(world) = World::new() else { return };
    let mut document = Document::with_x(&world, AN_HOUR_AGO, &["RECEIVED_PREPARE"]);
    document.run().unwrap();
    let mut payee_side = world.sql();
    let listed = document.listed_with(3, || moves(&mut payee_side, "x", "COMMITTED")).unwrap();
    assert_eq!(listed, ["x"], "committed, and expired all the same");

    // Ours: the fulfil was decided in time and is not yet committed when the scan finds the hold due.
    let (mut cluster, payee) = ours_with_a_hold(&world);
    let mut slow = world.store();
    let claim = slow.claim(&Source::Consumer(Topic::Transfers, 7)).unwrap();
    let held = Held::in_store(&mut slow);
    let fulfils = all(0, &[fulfil(1, payee.0)]);
    let thread = std::thread::spawn(move || {
        done(slow.transfers(&claim, &Batch::new(0, &fulfils)).unwrap());
        slow.unsent(&claim, 10).unwrap()
    });
    held.await_written();
    world.set_clock(NOW + 11);
    assert_eq!(cluster.store.due_shards().unwrap().len(), 1, "it is seen");
    assert_eq!(cluster.expire_only(), 0, "and left alone");
    held.release();
    let sent = thread.join().unwrap();
    assert_eq!(cluster.expire_only(), 0);
    assert_eq!(world.state(TransferId(1)), "RECEIVED_FULFIL");
    for row in sent {
        if row.topic == Topic::Position {
            cluster.positions[0].push(&row.key, &row.value);
        }
    }
    cluster.drain();
    assert_eq!(world.state(TransferId(1)), "COMMITTED");
    world.verify();
}
