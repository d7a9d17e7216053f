//! The expiry scan, and the faults of the design it replaces.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use holdfast_domain::command::Command;
use holdfast_domain::ids::{Millis, TransferId};
use holdfast_messages::{Notice, Topic, TraceId};
use holdfast_postgres::{Batch, Point, Source, Step};

use crate::world::*;

const NOW: Millis = 1_800_000_000_000;

#[test]
fn holds_that_ran_out_end_once() {
    let Some(world) = World::new() else { return };
    // A server whose sessions live elsewhere must not matter.
    let name = world.url.rsplit('/').next().unwrap().to_owned();
    world.run(&format!("ALTER DATABASE {name} SET timezone = 'Asia/Tokyo'"));
    let mut node = Node::of_two(&world, 1_000, 1_000);
    world.set_clock(NOW);
    let commands: Vec<Command> =
        (1..=40).map(|id| prepare(id, 1, 2, 1, NOW + if id <= 20 { 100 } else { 5_000 })).collect();
    node.ask(&commands);
    // One that has not come to the position step.
    node.first_hop(&[prepare(41, 1, 2, 1, NOW + 100)]);

    world.set_clock(NOW + 100);
    assert_eq!(node.expire_only(), 0, "not before it is past the expiration");
    world.set_clock(NOW + 101);
    assert_eq!(node.expire_only(), 21);
    assert_eq!(world.state(TransferId(1)), "RESERVED_TIMEOUT");
    assert_eq!(world.state(TransferId(41)), "EXPIRED_PREPARED");
    assert_eq!(world.value(PAYER_ACCOUNT), 40, "the position falls in the position step");
    assert_eq!(node.expire_only(), 0, "nothing is listed again");
    world.verify();
    node.drain();
    assert_eq!(world.state(TransferId(1)), "EXPIRED_RESERVED");
    assert_eq!(world.state(TransferId(21)), "RESERVED");
    assert_eq!(world.value(PAYER_ACCOUNT), 20);
    // The prepare that comes to the position step after all is refused, and reserves nothing.
    let told: Vec<_> = node
        .notifications
        .iter()
        .filter_map(|told| match told.notice {
            Notice::Transfer(notice) if notice.transfer == TransferId(41) => {
                Some((told.trace, notice.error.unwrap().0.number()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(told, [(TraceId::NOBODY, 3303), (lying_at(40), 2001)]);
    world.verify();
}

/// Faults 3 and 3b: no watermark, so a commit that comes late is not skipped, and nobody waits for it.
#[test]
fn a_late_commit_is_not_skipped() {
    let Some((world, mut node)) = payer_and_payee(1_000, 1_000) else { return };
    world.set_clock(NOW);
    let mut slow = world.store();
    let claim = slow.claim(&Source::Consumer(Topic::Transfers, 7)).unwrap();
    let (written, is_written) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    slow.watch(move |point| {
        if point == Point::OffsetWritten {
            written.send(()).unwrap();
            released.recv_timeout(Duration::from_secs(9)).unwrap();
        }
    });
    let late = all(0, &[prepare(1, 1, 2, 1, NOW + 10)]);
    let thread = std::thread::spawn(move || done(slow.transfers(&claim, &Batch::new(0, &late)).unwrap()));
    is_written.recv_timeout(Duration::from_secs(9)).unwrap();

    node.ask(&[prepare(2, 1, 2, 1, NOW + 10)]);
    world.set_clock(NOW + 11);
    assert_eq!(node.expire(), 1);
    assert_eq!(world.state(TransferId(2)), "EXPIRED_RESERVED");
    release.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!(node.expire(), 1);
    assert_eq!(world.state(TransferId(1)), "EXPIRED_PREPARED");
    world.verify();
}

/// Fault 9: what somebody is just completing is left alone, and looked at again afterwards.
#[test]
fn a_locked_transfer_is_skipped_and_looked_at_again() {
    let Some((world, mut node)) = payer_and_payee(1_000, 1_000) else { return };
    world.set_clock(NOW);
    node.ask(&[prepare(1, 1, 2, 1, NOW + 10), prepare(2, 1, 2, 1, NOW + 10)]);
    world.set_clock(NOW + 11);
    let mut holder = world.sql();
    let lock = format!("BEGIN; SELECT 1 FROM transfer WHERE transfer_id = '{}' FOR UPDATE", TransferId(1));
    holder.batch_execute(&lock).unwrap();
    assert_eq!(node.expire(), 1);
    assert_eq!(world.state(TransferId(1)), "RESERVED");
    assert_eq!(world.state(TransferId(2)), "EXPIRED_RESERVED");
    holder.batch_execute("COMMIT").unwrap();
    assert_eq!(node.expire(), 1);
    world.verify();
}

/// Fault 8: two nodes on one shard. The one before finds itself fenced.
#[test]
fn a_shard_has_one_owner() {
    let Some(world) = World::new() else { return };
    let mut first = world.store();
    let mut second = world.store();
    let old = first.claim(&Source::Timeout(3)).unwrap();
    let new = second.claim(&Source::Timeout(3)).unwrap();
    assert_eq!(first.expire(&old, 3, 10).unwrap(), Step::Fenced);
    assert!(matches!(second.expire(&new, 3, 10).unwrap(), Step::Done(_)));
}

#[test]
fn a_scan_dies_at_every_point() {
    for at in Point::ALL {
        let Some((world, mut node)) = payer_and_payee(1_000, 1_000) else { return };
        world.set_clock(NOW);
        node.ask(&[prepare(1, 1, 2, 5, NOW + 10)]);
        world.set_clock(NOW + 11);
        let mut doomed = world.doomed(at);
        for (shard, claim) in (0..).zip(&node.shards) {
            if doomed.expire(claim, shard, 10).is_err() {
                break;
            }
        }
        assert!(doomed.answers().is_err(), "{at:?} was reached");
        // Whatever was committed is complete: the state, the row and the message to the position step.
        world.verify();
        node.expire();
        assert_eq!(world.state(TransferId(1)), "EXPIRED_RESERVED", "{at:?}");
        assert_eq!(world.value(PAYER_ACCOUNT), 0, "{at:?}");
        world.verify();
    }
}

/// Fulfils from the one end and expiry from the other, by the real clock: each hold ends in exactly one of the two ways.
#[test]
fn fulfil_and_expiry_race() {
    const COUNT: u128 = 400;
    let Some((world, mut node)) = payer_and_payee(1_000, 1_000) else { return };
    let now = world.now();
    let commands: Vec<Command> =
        (0..COUNT).map(|id| prepare(id + 1, 1, 2, 1, now + 1_500 + i64::try_from(id).unwrap() * 3)).collect();
    node.ask(&commands);
    let shards = node.shards.clone();
    let mut scanner = world.store();
    let (first_ended, has_ended) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let deadline = Instant::now() + Duration::from_secs(6);
            while Instant::now() < deadline {
                for (shard, claim) in (0..).zip(&shards) {
                    if done(scanner.expire(claim, shard, 20).unwrap()).messages > 0 {
                        // Heard once; afterwards there is no listener.
                        let _: Result<(), _> = first_ended.send(());
                    }
                }
            }
        });
        let fulfils: Vec<Command> = (0..COUNT).rev().map(|id| fulfil(id + 1, 2)).collect();
        let (ahead, racing) = fulfils.split_at(fulfils.len() / 2);
        for chunk in ahead.chunks(4) {
            node.ask(chunk);
        }
        // However fast the first half went: the second begins when the scan does, and meets it in the middle.
        has_ended.recv_timeout(Duration::from_secs(5)).expect("some ran out");
        for chunk in racing.chunks(4) {
            node.ask(chunk);
        }
    });
    node.drain();
    let states = world.states();
    let count = |name: &str| i64::try_from(states.values().filter(|state| *state == name).count()).unwrap();
    let (committed, expired) = (count("COMMITTED"), count("EXPIRED_RESERVED"));
    assert!(committed > 0 && expired > 0, "{committed} {expired}");
    assert_eq!(committed + expired, i64::try_from(COUNT).unwrap());
    assert_eq!((world.value(PAYER_ACCOUNT), world.value(PAYEE_ACCOUNT)), (committed, -committed));
    world.verify();
}
