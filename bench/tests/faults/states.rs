//! Faults 11, 12 and 13: which states count as what.

use holdfast_domain::ids::TransferId;
use holdfast_postgres::Batch;

use crate::document::*;
use crate::world::*;

#[test]
fn fault_11_some_states_are_not_known_to_be_final() {
    let Some(world) = World::new() else { return };
    let mut document = Document::new(&world);
    let states = [
        "INVALID",
        "RECEIVED_REJECT",
        "RECEIVED_ERROR",
        "ABORTED_REJECTED",
        "ABORTED_ERROR",
        "RESERVED_TIMEOUT",
        "SETTLED",
    ];
    for state in states {
        document.transfer(state, AN_HOUR_AGO, &["RECEIVED_PREPARE"]);
    }
    document.run().unwrap();
    states.iter().for_each(|state| document.moves(state, state));
    assert_eq!(document.listed().len(), states.len(), "all stay listed as expired");

    // Ours: whatever leaves the two waiting states leaves the expiry table in the same transaction.
    let (mut cluster, payer, payee) = ours(&world);
    let expiration = NOW + 10;
    cluster.ask(&[
        prepare(1, payer.0, 99, 1, expiration),
        prepare(2, payer.0, payee.0, 5_000, expiration),
        prepare(3, payer.0, payee.0, 1, expiration),
        prepare(4, payer.0, payee.0, 1, expiration),
        prepare(5, payer.0, payee.0, 1, expiration),
        prepare(6, payer.0, payee.0, 1, expiration),
    ]);
    cluster.ask(&[abort(3, payee.0), fulfil(4, payee.0)]);
    // This abort does not come to the position step.
    let at = cluster.transfers.at;
    let late = all(at, &[abort(5, payee.0)]);
    done(cluster.store.transfers(&cluster.transfers.claim, &Batch::new(at, &late)).unwrap());
    world.set_clock(NOW + 11);
    assert_eq!(cluster.expire_only(), 1, "only the last one was still a hold");
    let expected =
        ["INVALID", "ABORTED_REJECTED", "ABORTED_ERROR", "COMMITTED", "RECEIVED_ERROR", "RESERVED_TIMEOUT"];
    for (id, state) in (1..).zip(expected) {
        assert_eq!(world.state(TransferId(id)), state, "{id}");
    }
    assert_eq!(cluster.expire_only(), 0);
    assert_eq!(world.count("SELECT count(*) FROM transfer_timeout"), 0);
    world.verify();
}

#[test]
fn fault_12_it_is_listed_again_at_each_run() {
    let Some(world) = World::new() else { return };
    let mut document = Document::with_x(&world, AN_HOUR_AGO, &["RECEIVED_PREPARE", "RESERVED"]);
    for _ in 0..3 {
        assert_eq!(document.listed(), ["x"]);
    }

    let (mut cluster, _) = ours_with_a_hold(&world);
    world.set_clock(NOW + 11);
    // The position step does not come in between.
    let ended: Vec<usize> = (0..3).map(|_| cluster.expire_only()).collect();
    assert_eq!(ended, [1, 0, 0]);
    cluster.drain();
    assert_eq!(world.state(TransferId(1)), "EXPIRED_RESERVED");
    world.verify();
}

/// Ours counts RECEIVED_FULFIL as ended too. There it cannot get stuck: the step that follows lies in the outbox with it, and
/// cannot be refused.
#[test]
fn fault_13_a_transfer_stuck_in_received_fulfil_is_never_listed() {
    let Some(world) = World::new() else { return };
    let mut document =
        Document::with_x(&world, AN_HOUR_AGO, &["RECEIVED_PREPARE", "RESERVED", "RECEIVED_FULFIL"]);
    for _ in 0..3 {
        assert_eq!(document.listed(), [""; 0], "its payer's money stays where it is");
    }

    let (mut cluster, payee) = ours_with_a_hold(&world);
    let at = cluster.transfers.at;
    let fulfils = all(at, &[fulfil(1, payee.0)]);
    done(cluster.store.transfers(&cluster.transfers.claim, &Batch::new(at, &fulfils)).unwrap());
    cluster.transfers.log.extend(fulfils);
    cluster.transfers.at = at + 1;
    // The node dies; another one finds what is to be done.
    world.set_clock(NOW + 1_000_000);
    cluster.store = world.store();
    assert_eq!(cluster.expire_only(), 0);
    assert_eq!(world.state(TransferId(1)), "RECEIVED_FULFIL");
    cluster.drain();
    assert_eq!(world.state(TransferId(1)), "COMMITTED");
    world.verify();
}
