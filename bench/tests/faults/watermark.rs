//! Faults 1, 2, 3, 5, 6 and 10: a watermark over state changes can stand, skip and lie. Ours has none.

use holdfast_domain::ids::TransferId;
use holdfast_messages::Topic;
use holdfast_postgres::{Batch, Source, Step};
use postgres::error::SqlState;

use crate::document::*;
use crate::world::*;

#[test]
fn fault_1_a_variable_has_two_spellings() {
    let Some(world) = World::new() else { return };
    let mut document = Document::with_x(&world, AN_HOUR_AGO, &["RECEIVED_PREPARE", "RESERVED"]);
    document.process.as_printed = true;
    for _ in 0..2 {
        assert_eq!(document.listed(), [""; 0], "nothing is listed, and nothing is said");
        assert_eq!(document.segments(), 0);
    }
    document.process.as_printed = false;
    assert_eq!(document.listed(), ["x"], "spelled alike it is found");

    let (mut cluster, _) = ours_with_a_hold(&world);
    world.set_clock(NOW + 11);
    assert_eq!(cluster.expire(), 1);
    world.verify();
}

#[test]
fn fault_2_a_listed_transfer_that_moves_stops_everything() {
    let Some(world) = World::new() else { return };
    let mut document = Document::with_x(&world, IN_AN_HOUR, &["RECEIVED_PREPARE"]);
    assert_eq!(document.listed(), [""; 0]);
    document.moves("x", "RESERVED");
    for id in ["a", "b", "c"] {
        document.transfer(id, AN_HOUR_AGO, &["RECEIVED_PREPARE"]);
    }
    for _ in 0..2 {
        assert!(is(&document.run().unwrap_err(), &SqlState::UNIQUE_VIOLATION), "and so at every run");
    }
    document.moves("x", "COMMITTED");
    assert_eq!(document.listed(), ["a", "b", "c"], "three waited for one that they do not know");

    let (mut cluster, payer, payee) = ours(&world);
    let first = all(0, &[prepare(1, payer.0, payee.0, 1, FAR)]);
    done(cluster.store.transfers(&cluster.transfers.claim, &Batch::new(0, &first)).unwrap());
    cluster.transfers.log.extend(first);
    cluster.transfers.at = 1;
    assert_eq!(cluster.expire_only(), 0);
    // Now it is reserved, and three more come.
    let more: Vec<_> = (2..=4).map(|id| prepare(id, payer.0, payee.0, 1, NOW + 10)).collect();
    cluster.ask(&more);
    assert_eq!(world.state(TransferId(1)), "RESERVED");
    world.set_clock(NOW + 11);
    assert_eq!(cluster.expire(), 3);
    world.verify();
}

/// Fault 3, and 3b: MariaDB's REPEATABLE READ waits for the late one and fails instead; PostgreSQL's has no such locks and
/// skips it as READ COMMITTED does.
#[test]
fn fault_3_a_late_commit_is_skipped_for_ever() {
    for isolation in ["read committed", "repeatable read"] {
        let Some(world) = World::new() else { return };
        let mut document = Document::new(&world);
        let set = format!("SET default_transaction_isolation = '{isolation}'");
        document.client.batch_execute(&set).unwrap();
        document.transfer("x", AN_HOUR_AGO, &[]);
        document.transfer("y", AN_HOUR_AGO, &[]);
        let mut late = world.sql();
        late.batch_execute("BEGIN").unwrap();
        moves(&mut late, "x", "RECEIVED_PREPARE");
        document.moves("y", "RECEIVED_PREPARE");
        assert_eq!(document.listed(), ["y"]);
        late.batch_execute("COMMIT").unwrap();
        for _ in 0..2 {
            assert_eq!(document.listed(), ["y"], "x is never seen");
        }
    }
}

#[test]
fn fault_3_ours_ends_what_is_committed_late_and_waits_for_nobody() {
    let Some(world) = World::new() else { return };
    let (mut cluster, payer, payee) = ours(&world);
    let mut slow = world.store();
    let claim = slow.claim(&Source::Consumer(Topic::Transfers, 7)).unwrap();
    let held = Held::in_store(&mut slow);
    let late = all(0, &[prepare(1, payer.0, payee.0, 1, NOW + 10)]);
    let thread = std::thread::spawn(move || done(slow.transfers(&claim, &Batch::new(0, &late)).unwrap()));
    held.await_written();
    cluster.ask(&[prepare(2, payer.0, payee.0, 1, NOW + 10)]);
    world.set_clock(NOW + 11);
    assert_eq!(cluster.expire(), 1, "the one that is there");
    held.release();
    thread.join().unwrap();
    assert_eq!(cluster.expire(), 1, "and then the late one");
    assert_eq!(world.state(TransferId(1)), "EXPIRED_PREPARED");
    world.verify();
}

#[test]
fn fault_5_an_empty_history_is_an_error() {
    let Some(world) = World::new() else { return };
    let mut document = Document::new(&world);
    assert!(is(&document.run().unwrap_err(), &SqlState::NOT_NULL_VIOLATION));

    let mut store = world.store();
    let claim = store.claim(&Source::Timeout(0)).unwrap();
    assert_eq!(done(store.expire(&claim, 0, 10).unwrap()).messages, 0);
    assert_eq!(store.due_shards().unwrap(), [0_i16; 0]);
}

#[test]
fn fault_6_a_watermark_of_zero_is_taken_for_none() {
    let Some(world) = World::new() else { return };
    let mut document = Document::with_x(&world, AN_HOUR_AGO, &["RECEIVED_PREPARE"]);
    document
        .client
        .batch_execute(
            "INSERT INTO seed.segment (segmentType, tableName, value) VALUES ('timeout', 'transferStateChange', 0)",
        )
        .unwrap();
    assert_eq!(document.listed(), ["x"]);
    assert_eq!(document.segments(), 2);
    assert!(document.run().is_err(), "two rows where one is read");
    assert!(document.run().is_err(), "for ever");

    // Ours begins at 0 too, and the key of a guard is what makes it one.
    let (mut cluster, _) = ours_with_a_hold(&world);
    cluster.shards = (0..8).map(|shard| cluster.store.claim(&Source::Timeout(shard)).unwrap()).collect();
    assert!(cluster.shards.iter().all(|claim| claim.offset == 0));
    world.set_clock(NOW + 11);
    assert_eq!((cluster.expire(), cluster.expire()), (1, 0));
    assert_eq!(world.count("SELECT count(*) FROM segment WHERE segment_type = 'timeout'"), 8);
    let again = "INSERT INTO segment (segment_type, table_name, enumeration) VALUES ('timeout', 'transfer_timeout', 0)";
    let refused = world.sql().batch_execute(again).unwrap_err();
    assert!(is(&refused, &SqlState::UNIQUE_VIOLATION));
}

#[test]
fn fault_10_a_window_takes_an_old_state_for_the_last() {
    let Some(world) = World::new() else { return };
    let mut document = Document::new(&world);
    document.process.window = Some(2);
    let states = ["RECEIVED_PREPARE", "RESERVED", "RECEIVED_FULFIL", "COMMITTED"];
    document.transfer("x", AN_HOUR_AGO, &states);
    assert_eq!(document.listed(), ["x"], "committed, and listed as expired");

    let (mut cluster, payer, payee) = ours(&world);
    let both: Vec<_> = (1..=6).map(|id| prepare(id, payer.0, payee.0, 1, NOW + 10)).collect();
    cluster.ask(&both);
    cluster.ask(&[fulfil(1, payee.0), fulfil(2, payee.0)]);
    world.set_clock(NOW + 11);
    let mut ended = 0;
    // One hold at a time is the smallest window there is.
    for (shard, claim) in (0..).zip(cluster.shards.clone()) {
        while let Step::Done(step) = cluster.store.expire(&claim, shard, 1).unwrap() {
            assert!(step.messages <= 1);
            ended += step.messages;
            if step.messages == 0 {
                break;
            }
        }
    }
    assert_eq!(ended, 4);
    cluster.drain();
    assert_eq!(world.state(TransferId(1)), "COMMITTED");
    assert_eq!(world.state(TransferId(6)), "EXPIRED_RESERVED");
    world.verify();
}
