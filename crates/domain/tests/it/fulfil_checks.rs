//! What a fulfil or abort must pass, in this order: known, right party, not a repeat, RESERVED, right preimage,
//! in time.

use holdfast_domain::codes::ErrorCode::{
    ModifiedRequest, TransferExpired, TransferIdNotFound, ValidationError,
};
use holdfast_domain::effects::NotificationKind::{Aborted, Committed as ToldCommitted};
use holdfast_domain::effects::Party::{Payee, Payer};
use holdfast_domain::transfers::TransferState::{
    AbortedError, Committed, ExpiredReserved, Invalid, ReceivedError, ReceivedFulfil, Reserved,
};

use crate::world::*;

/// A scheme with transfer 0 of 5 RESERVED.
fn reserved() -> World {
    let mut world = World::roomy();
    world.frame(&[prepare(0, 5)]);
    world
}

/// The commands answer so, and nothing else happens.
#[track_caller]
fn refused_without_effect(world: &mut World, command: Command, outcome: Outcome) {
    let before = world.memory.clone();
    let effects = world.frame(&[command]);
    assert_eq!(effects.answers().len(), 1);
    let answers = effects.answers();
    assert_effects(effects, Lists { answers, outcomes: vec![outcome], ..Lists::default() });
    assert_eq!(world.memory, before);
}

fn wrong_fulfil() -> Command {
    fulfil_by(PAYEE, 0, FulfilAction::Commit, fulfilment(9))
}

#[test]
fn a_commit_settles_and_tells_the_payer() {
    let mut world = reserved();
    let effects = world.frame(&[fulfil(0)]);
    let expected = Lists {
        state_changes: vec![moved(0, ReceivedFulfil), moved(0, Committed)],
        completions: vec![completed(0, CompletionKind::Commit, fulfilment(0))],
        position_changes: vec![changed(PAYEE_POSITION, 0, -5, -5)],
        notifications: vec![told(0, Payer, ToldCommitted)],
        outcomes: vec![answer(0, Committed, -5)],
        ..Lists::default()
    };
    assert_effects(effects, expected);
    assert!(world.memory.holds.is_empty());
}

#[test]
fn a_reserve_settles_and_tells_both() {
    let mut world = reserved();
    let effects = world.frame(&[fulfil_by(PAYEE, 0, FulfilAction::Reserve, fulfilment(0))]);
    assert_eq!(effects.completions(), [completed(0, CompletionKind::Reserve, fulfilment(0))]);
    assert_eq!(effects.notifications(), [told_reserved(0, Payer), told_reserved(0, Payee)]);
    assert_eq!(effects.outcomes(), [answer(0, Committed, -5)]);
}

#[test]
fn an_abort_releases_with_the_payees_code() {
    let mut world = reserved();
    let effects = world.frame(&[abort(0)]);
    let code = Code::of_payee(5104);
    let Command::Abort(Abort { digest, .. }) = abort(0) else { unreachable!() };
    let expected = Lists {
        state_changes: vec![StateChange { code, ..moved(0, ReceivedError) }, moved(0, AbortedError)],
        completions: vec![completed(0, CompletionKind::Abort, digest)],
        position_changes: vec![changed(PAYER_POSITION, 0, -5, 0)],
        notifications: vec![Notification { error: code.map(|code| (code, None)), ..told(0, Payer, Aborted) }],
        outcomes: vec![Outcome { code, ..answer(0, AbortedError, 0) }],
        ..Lists::default()
    };
    assert_effects(effects, expected);
    assert_eq!(world.transfer(0).code, code, "it is kept for whoever asks later");
}

#[test]
fn an_unknown_transfer_is_3208() {
    let unknown = no_transfer(Some(TransferIdNotFound), Subject::Nothing, 0);
    for command in [fulfil(7), abort(7), fulfil_by(OTHER, 7, FulfilAction::Reserve, [0; 32])] {
        refused_without_effect(&mut reserved(), command, unknown.clone());
    }
}

#[test]
fn the_wrong_party_changes_nothing() {
    for source in [PAYER, OTHER, ParticipantId(99)] {
        for command in [
            fulfil_by(source, 0, FulfilAction::Commit, fulfilment(0)),
            // Also before the preimage is looked at: nobody aborts another's transfer by guessing wrong.
            fulfil_by(source, 0, FulfilAction::Commit, fulfilment(9)),
            abort_by(source, 0, 5104),
        ] {
            let outcome = refused(answer(0, Reserved, 5), ValidationError, Some(Reason::WrongSource));
            refused_without_effect(&mut reserved(), command, outcome);
        }
    }
}

#[test]
fn a_wrong_preimage_aborts() {
    let mut world = reserved();
    let effects = world.frame(&[wrong_fulfil()]);
    let received = StateChange {
        reason: Some(Reason::WrongFulfilment),
        ..moved_with(0, ReceivedError, ValidationError)
    };
    let outcome = refused(answer(0, AbortedError, 0), ValidationError, Some(Reason::WrongFulfilment));
    let expected = Lists {
        state_changes: vec![received, moved(0, AbortedError)],
        completions: vec![completed(0, CompletionKind::Commit, fulfilment(9))],
        position_changes: vec![changed(PAYER_POSITION, 0, -5, 0)],
        notifications: vec![Notification {
            completion: Some(CompletionKind::Commit),
            error: outcome.error(),
            ..told(0, Payer, Aborted)
        }],
        outcomes: vec![outcome.clone()],
        ..Lists::default()
    };
    assert_effects(effects, expected);
    // The repeat gets the same answer; the right preimage comes too late.
    refused_without_effect(&mut world, wrong_fulfil(), outcome.clone());
    refused_without_effect(&mut world, fulfil(0), refused(outcome, ModifiedRequest, None));
}

#[test]
fn a_repeat_gets_the_stored_result() {
    for (first, state, value) in [
        (fulfil(0), Committed, -5),
        (fulfil_by(PAYEE, 0, FulfilAction::Reserve, fulfilment(0)), Committed, -5),
        (abort(0), AbortedError, 0),
    ] {
        let mut world = reserved();
        let outcome = world.frame(std::slice::from_ref(&first)).outcome(0).clone();
        assert_eq!((outcome.state, outcome.value.0), (Some(state), value));
        // Other transfers move the account on; the answer stays.
        world.frame(&[prepare(1, 2), fulfil(1)]);
        world.now = EXPIRATION + 1;
        refused_without_effect(&mut world, first, outcome);
    }
}

#[test]
fn another_end_of_the_same_transfer_is_3106() {
    let ends = [
        fulfil(0),
        fulfil_by(PAYEE, 0, FulfilAction::Reserve, fulfilment(0)),
        wrong_fulfil(),
        abort(0),
        abort_by(PAYEE, 0, 5105),
        Command::Abort(Abort::new(PAYEE, id(0), 5104, b"another description".to_vec())),
    ];
    for (place, first) in ends.iter().enumerate() {
        for (other, second) in ends.iter().enumerate() {
            if place != other {
                let mut world = reserved();
                let outcome = world.frame(std::slice::from_ref(first)).outcome(0).clone();
                let modified = refused(outcome, ModifiedRequest, None);
                refused_without_effect(&mut world, second.clone(), modified);
            }
        }
    }
}

#[test]
fn a_transfer_that_was_never_reserved_is_3100() {
    let mut world = World::with(10, 1000);
    let invalid = prepared(Prepare { expiration: NOW, ..prepare_of(0, 5) });
    world.frame(&[invalid, prepare(1, 50)]);
    let not_reserved = |no, state| refused(answer(no, state, 0), ValidationError, Some(Reason::NotReserved));
    for command in [fulfil(0), abort(0), wrong_fulfil()] {
        refused_without_effect(&mut world, command, not_reserved(0, Invalid));
    }
    let rejected = TransferState::AbortedRejected;
    refused_without_effect(&mut world, fulfil(1), not_reserved(1, rejected));
}

#[test]
fn what_has_expired_is_3100_like_any_other_state() {
    let mut world = reserved();
    world.now = EXPIRATION + 1;
    world.frame(&[expire(10)]);
    let outcome = refused(answer(0, ExpiredReserved, 0), ValidationError, Some(Reason::NotReserved));
    for command in [fulfil(0), wrong_fulfil(), abort(0)] {
        refused_without_effect(&mut world, command, outcome.clone());
    }
}

#[test]
fn from_its_expiration_on_it_is_3303_and_stays_reserved() {
    for (now, in_time) in [(EXPIRATION - 1, true), (EXPIRATION, false), (EXPIRATION + 1, false)] {
        for command in [fulfil(0), abort(0)] {
            let mut world = reserved();
            world.now = now;
            if in_time {
                world.frame(&[command]);
                assert!(world.transfer(0).state.is_final());
            } else {
                let outcome = refused(answer(0, Reserved, 5), TransferExpired, None);
                refused_without_effect(&mut world, command, outcome);
            }
        }
    }
}

#[test]
fn the_preimage_is_looked_at_before_the_time() {
    let mut world = reserved();
    world.now = EXPIRATION;
    let effects = world.frame(&[wrong_fulfil()]);
    assert_eq!(effects.outcome(0).state, Some(AbortedError));
    assert_eq!(effects.outcome(0).code, Some(ValidationError.into()));
}
