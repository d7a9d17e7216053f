//! Expiry ends what ran out: strictly before the frame's time, oldest first, at most so many, and exactly once.

use holdfast_domain::codes::ErrorCode::{TransferExpired, ValidationError};
use holdfast_domain::effects::NotificationKind::Expired;
use holdfast_domain::effects::Party::{Payee, Payer};
use holdfast_domain::money::OptionalBalance;
use holdfast_domain::transfers::TransferState::{
    Committed, ExpiredPrepared, ExpiredReserved, ReceivedPrepare, Reserved, ReservedTimeout,
};

use crate::world::*;

fn prepare_until(n: u8, amount: i64, expiration: Millis) -> Command {
    prepared(Prepare { expiration, ..prepare_of(n, amount) })
}

#[test]
fn a_reserved_transfer_expires_through_the_payers_bin_and_both_are_told() {
    let mut world = World::roomy();
    world.frame(&[prepare(0, 5)]);
    world.now = EXPIRATION + 1;
    let effects = world.frame(&[expire(10)]);
    let expected = Lists {
        state_changes: vec![moved(0, ReservedTimeout), moved_with(0, ExpiredReserved, TransferExpired)],
        position_changes: vec![changed(PAYER_POSITION, 0, -5, 0)],
        notifications: vec![
            told_with(0, Payer, Expired, TransferExpired),
            told_with(0, Payee, Expired, TransferExpired),
        ],
        outcomes: vec![no_transfer(None, Subject::Ended(1), 0)],
        ..Lists::default()
    };
    assert_effects(effects, expected);
    assert_eq!(world.transfer(0).code, Some(TransferExpired.into()));
    assert!(world.memory.holds.is_empty());
}

#[test]
fn a_transfer_that_was_never_reserved_expires_and_the_payer_is_told() {
    let mut world = World::roomy();
    world.frame(&[prepare(0, 5)]);
    // A frame never leaves a transfer here; the hops of the database profile can.
    let row = world.memory.transfers.get_mut(&TransferNo(0)).unwrap();
    row.state = ReceivedPrepare;
    row.reserved_value = OptionalBalance::NONE;
    world.now = EXPIRATION + 1;
    let effects = world.frame(&[expire(10)]);
    let expected = Lists {
        state_changes: vec![moved_with(0, ExpiredPrepared, TransferExpired)],
        notifications: vec![Notification { action: None, ..told_with(0, Payer, Expired, TransferExpired) }],
        outcomes: vec![no_transfer(None, Subject::Ended(1), 0)],
        ..Lists::default()
    };
    assert_effects(effects, expected);
}

#[test]
fn only_what_lies_strictly_before_the_frame_is_due() {
    let mut world = World::roomy();
    world.frame(&[prepare(0, 5)]);
    for (now, ended) in [(EXPIRATION - 1, 0), (EXPIRATION, 0), (EXPIRATION + 1, 1), (EXPIRATION + 2, 0)] {
        world.now = now;
        assert_eq!(
            world.frame(&[expire(10)]).outcomes(),
            [no_transfer(None, Subject::Ended(ended), 0)],
            "at {now}"
        );
    }
}

#[test]
fn the_oldest_go_first_and_no_more_than_asked_for() {
    let mut world = World::roomy();
    let expirations = [40, 10, 30, 10, 20, 50];
    let prepares: Vec<Command> =
        (0..).zip(expirations).map(|(n, after)| prepare_until(n, 1, NOW + after)).collect();
    world.frame(&prepares);
    world.now = NOW + 45;
    let ended = |world: &mut World, max| -> Vec<u64> {
        let effects = world.frame(&[expire(max)]);
        let ended: Vec<u64> = effects.position_changes().iter().map(|row| row.transfer.0).collect();
        assert_eq!(effects.outcomes(), [no_transfer(None, Subject::Ended(ended.len() as u64), 0)]);
        ended
    };
    assert_eq!(ended(&mut world, 0), [0_u64; 0]);
    assert_eq!(ended(&mut world, 3), [1, 3, 4], "two of the same time in order of arrival");
    assert_eq!(ended(&mut world, 100), [2, 0]);
    assert_eq!(ended(&mut world, 100), [0_u64; 0]);
    assert_eq!((world.transfer(5).state, world.value(PAYER_POSITION)), (Reserved, 1));
}

#[test]
fn a_fulfil_before_the_expiry_in_one_frame_is_too_late_and_the_transfer_expires() {
    let mut world = World::roomy();
    world.frame(&[prepare(0, 5)]);
    world.now = EXPIRATION + 1;
    let effects = world.frame(&[fulfil(0), expire(10), fulfil(0)]);
    assert_eq!(
        effects.outcomes(),
        [
            refused(answer(0, Reserved, 5), TransferExpired, None),
            no_transfer(None, Subject::Ended(1), 0),
            refused(answer(0, ExpiredReserved, 0), ValidationError, Some(Reason::NotReserved)),
        ]
    );
    assert_eq!(effects.position_changes(), [changed(PAYER_POSITION, 0, -5, 0)]);
}

#[test]
fn at_the_last_millisecond_neither_side_of_the_race_can_win_twice() {
    // At the expiration itself the fulfil is late and the expiry early: the transfer waits one more frame.
    let mut world = World::roomy();
    world.frame(&[prepare(0, 5), prepare(1, 5)]);
    world.now = EXPIRATION;
    let effects = world.frame(&[expire(10), fulfil(0)]);
    assert_eq!(effects.position_changes(), []);
    world.now = EXPIRATION - 1;
    let effects = world.frame(&[expire(10), fulfil(1), expire(10)]);
    assert_eq!(effects.position_changes(), [changed(PAYEE_POSITION, 1, -5, -5)]);
    world.now = EXPIRATION + 1;
    assert_eq!(world.frame(&[expire(10)]).outcomes(), [no_transfer(None, Subject::Ended(1), 0)]);
    assert_eq!((world.transfer(0).state, world.transfer(1).state), (ExpiredReserved, Committed));
}

#[test]
fn what_an_earlier_command_of_the_frame_ended_is_no_longer_due() {
    let mut world = World::roomy();
    world.frame(&[prepare_until(0, 1, NOW + 1), prepare_until(1, 1, NOW + 2), prepare_until(2, 1, NOW + 3)]);
    world.now = NOW + 10;
    // A wrong preimage still aborts after the expiration; the bound of the expiry counts what is left.
    let wrong = fulfil_by(PAYEE, 0, FulfilAction::Commit, fulfilment(9));
    let effects = world.frame(&[wrong, expire(1), expire(5)]);
    assert_eq!(
        effects.outcomes()[1..],
        [no_transfer(None, Subject::Ended(1), 0), no_transfer(None, Subject::Ended(1), 0)]
    );
    let ended: Vec<u64> = effects.position_changes().iter().map(|row| row.transfer.0).collect();
    assert_eq!(ended, [0, 1, 2]);
}

#[test]
fn what_expired_makes_room_for_the_next_prepare_of_the_frame() {
    let mut world = World::with(10, 1000);
    world.frame(&[prepare(0, 10)]);
    world.now = EXPIRATION + 1;
    let late = |n| prepare_until(n, 10, EXPIRATION + 100);
    let effects = world.frame(&[late(1), expire(10), late(2)]);
    assert_eq!(accepted(&effects), [false, true, true]);
}

#[test]
fn one_expiry_frees_several_payers_bins() {
    let mut world = World::roomy();
    let from_payee = prepared(Prepare {
        source: PAYEE,
        payer: PAYEE,
        payee: PAYER,
        expiration: NOW + 1,
        ..prepare_of(0, 7)
    });
    world.frame(&[from_payee, prepare_until(1, 5, NOW + 2)]);
    world.now = NOW + 10;
    let effects = world.frame(&[expire(10)]);
    // Leaving RESERVED happens in order of expiration, the position step by account.
    assert_eq!(
        effects.state_changes(),
        [
            moved(0, ReservedTimeout),
            moved(1, ReservedTimeout),
            moved_with(1, ExpiredReserved, TransferExpired),
            moved_with(0, ExpiredReserved, TransferExpired),
        ]
    );
    assert_eq!((world.value(PAYER_POSITION), world.value(PAYEE_POSITION)), (0, 0));
}
