//! A second command for the same transfer in one frame sees what the first one did: the frame is cut there.

use holdfast_domain::codes::ErrorCode::{ModifiedRequest, TransferIdNotFound, ValidationError};
use holdfast_domain::effects::NotificationKind::{Committed as ToldCommitted, Prepared};
use holdfast_domain::effects::Party::{Payee, Payer};
use holdfast_domain::transfers::TransferState::{
    AbortedError, Committed, Invalid, ReceivedFulfil, ReceivedPrepare, Reserved,
};

use crate::world::*;

#[test]
fn prepare_and_fulfil_in_one_frame_commit() {
    let mut world = World::roomy();
    let effects = world.frame(&[prepare(0, 5), fulfil(0)]);
    let expected = Lists {
        transfers: vec![id(0)],
        state_changes: vec![
            moved(0, ReceivedPrepare),
            moved(0, Reserved),
            moved(0, ReceivedFulfil),
            moved(0, Committed),
        ],
        completions: vec![CompletionRow { cause: 1, ..completed(0, CompletionKind::Commit, fulfilment(0)) }],
        position_changes: vec![changed(PAYER_POSITION, 0, 5, 5), changed(PAYEE_POSITION, 0, -5, -5)],
        notifications: vec![
            told(0, Payee, Prepared),
            Notification { cause: 1, ..told(0, Payer, ToldCommitted) },
        ],
        outcomes: vec![answer(0, Reserved, 5), answer(0, Committed, -5)],
        ..Lists::default()
    };
    assert_effects(effects, expected);
    assert_eq!(world.transfer(0).state, Committed);
    assert_eq!((world.value(PAYER_POSITION), world.value(PAYEE_POSITION)), (5, -5));
}

#[test]
fn the_same_prepare_twice_in_one_frame_reserves_once() {
    let mut world = World::roomy();
    let effects = world.frame(&[prepare(0, 5), prepare(0, 5)]);
    let expected = Lists {
        transfers: vec![id(0)],
        state_changes: vec![moved(0, ReceivedPrepare), moved(0, Reserved)],
        position_changes: vec![changed(PAYER_POSITION, 0, 5, 5)],
        notifications: vec![told(0, Payee, Prepared)],
        answers: vec![Answer { cause: 1, ..asked(PAYER, id(0), Asked::Prepare, true) }],
        outcomes: vec![answer(0, Reserved, 5), answer(0, Reserved, 5)],
        ..Lists::default()
    };
    assert_effects(effects, expected);
    assert_eq!(world.memory.transfers.len(), 1);
}

#[test]
fn another_prepare_under_the_same_id_in_one_frame_is_modified() {
    let mut world = World::roomy();
    let effects = world.frame(&[prepare(0, 5), prepare(0, 6)]);
    assert_eq!(
        effects.outcomes(),
        [answer(0, Reserved, 5), refused(answer(0, Reserved, 5), ModifiedRequest, None)]
    );
    assert_eq!(world.value(PAYER_POSITION), 5);
}

#[test]
fn a_fulfil_before_its_prepare_finds_nothing() {
    let mut world = World::roomy();
    let effects = world.frame(&[fulfil(0), prepare(0, 5)]);
    assert_eq!(
        effects.outcomes(),
        [no_transfer(Some(TransferIdNotFound), Subject::Nothing, 0), answer(0, Reserved, 5)]
    );
}

#[test]
fn abort_then_fulfil_in_one_frame_end_the_hold_once() {
    let mut world = World::roomy();
    world.frame(&[prepare(0, 5)]);
    let effects = world.frame(&[abort(0), fulfil(0)]);
    assert_eq!(effects.position_changes(), [changed(PAYER_POSITION, 0, -5, 0)]);
    assert_eq!(states(&effects), [Some(AbortedError), Some(AbortedError)]);
    assert_eq!(effects.outcome(1).code, Some(ModifiedRequest.into()));
}

#[test]
fn a_frame_cut_many_times_numbers_transfers_without_gaps() {
    let mut world = World::roomy();
    let late = prepared(Prepare { expiration: NOW, ..prepare_of(3, 1) });
    let effects = world.frame(&[
        prepare(0, 1),
        prepare(0, 1),
        prepare(1, 1),
        fulfil(1),
        fulfil(0),
        prepare(1, 1),
        late,
        prepare(2, 1),
        fulfil(2),
        fulfil(2),
    ]);
    let numbers: Vec<(u64, u128)> = effects.transfers().iter().map(|row| (row.no.0, row.id.0)).collect();
    assert_eq!(numbers, [(0, 0), (1, 1), (2, 3), (3, 2)]);
    assert_eq!(
        effects.outcomes(),
        [
            answer(0, Reserved, 1),
            answer(0, Reserved, 1),
            answer(1, Reserved, 2),
            answer(1, Committed, -1),
            answer(0, Committed, -2),
            answer(1, Committed, -1),
            refused(answer(2, Invalid, 0), ValidationError, Some(Reason::ExpirationPast)),
            answer(3, Reserved, 3),
            answer(3, Committed, -3),
            answer(3, Committed, -3),
        ]
    );
    assert_eq!((world.value(PAYER_POSITION), world.value(PAYEE_POSITION)), (3, -3));
}

#[test]
fn transfers_see_the_limits_that_an_operator_set_before_them_in_the_frame() {
    let mut world = World::with(10, 1000);
    let effects = world.frame(&[prepare(0, 10), set_limit(PAYER, 15, 100), prepare(1, 5), prepare(2, 1)]);
    assert_eq!(accepted(&effects), [true, true, true, false]);
    assert_eq!(world.value(PAYER_POSITION), 15);
}

#[test]
fn a_new_participant_can_be_used_in_the_frame_that_made_it() {
    let mut world = World::roomy();
    let newcomer = ParticipantId(4);
    let to_newcomer = prepared(Prepare { payee: newcomer, ..prepare_of(0, 5) });
    let by_newcomer = fulfil_by(newcomer, 0, FulfilAction::Commit, fulfilment(0));
    let effects = world.frame(&[create("newcomer", usd()), to_newcomer, by_newcomer]);
    assert_eq!(*effects.outcome(2), answer(0, Committed, -5));
}
