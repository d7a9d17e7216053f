//! A lookup tells a party where its transfer stands, tells others nothing of it, and changes nothing.

use holdfast_domain::codes::ErrorCode::{
    ClientError, PayerLimitError, TransferExpired, TransferIdNotFound, ValidationError,
};
use holdfast_domain::ids::HUB;
use holdfast_domain::transfers::TransferState::{
    AbortedError, AbortedRejected, Committed, ExpiredReserved, Invalid, Reserved,
};

use crate::world::*;

/// The lookup is answered so, and nothing else happens.
#[track_caller]
fn answered(world: &mut World, source: ParticipantId, n: u8, outcome: Outcome) {
    let before = world.memory.clone();
    let effects = world.frame(&[lookup_by(source, n)]);
    let completion = world.memory.transfers.get(&TransferNo(n.into())).and_then(Transfer::completion);
    let completion = completion.map(|taken| taken.kind);
    let answer = Answer { completion, ..asked(source, id(n.into()), Asked::Lookup, false) };
    assert_effects(effects, Lists { answers: vec![answer], outcomes: vec![outcome], ..Lists::default() });
    assert_eq!(world.memory, before);
}

#[test]
fn both_parties_get_the_state_with_its_code_and_reason() {
    let mut world = World::with(10, 1000);
    let late = prepared(Prepare { expiration: NOW, ..prepare_of(4, 1) });
    let prepares = [prepare(0, 1), prepare(1, 1), prepare(2, 1), prepare(3, 50), late, prepare(5, 1)];
    world.frame(&prepares);
    world.frame(&[fulfil(1), abort(2)]);
    world.now = EXPIRATION - 1;
    let payees_own = Outcome { code: Code::of_payee(5104), ..answer(2, AbortedError, 3) };
    for (n, outcome) in [
        (0, answer(0, Reserved, 1)),
        (1, answer(1, Committed, -1)),
        (2, payees_own),
        (3, refused(answer(3, AbortedRejected, 0), PayerLimitError, None)),
        (4, refused(answer(4, Invalid, 0), ValidationError, Some(Reason::ExpirationPast))),
    ] {
        answered(&mut world, PAYER, n, outcome.clone());
        answered(&mut world, PAYEE, n, outcome);
    }
    world.now = EXPIRATION + 1;
    answered(&mut world, PAYER, 5, answer(5, Reserved, 4));
    world.frame(&[expire(10)]);
    answered(&mut world, PAYER, 5, refused(answer(5, ExpiredReserved, 1), TransferExpired, None));
}

#[test]
fn a_stranger_is_3000_and_learns_nothing() {
    let mut world = World::roomy();
    world.frame(&[prepare(0, 5)]);
    for source in [OTHER, HUB, ParticipantId(99)] {
        answered(&mut world, source, 0, no_transfer(Some(ClientError), Subject::Nothing, 0));
    }
}

#[test]
fn an_unknown_transfer_is_3208_to_anyone() {
    let mut world = World::roomy();
    world.frame(&[prepare(0, 5)]);
    for source in [PAYER, OTHER, ParticipantId(99)] {
        answered(&mut world, source, 7, no_transfer(Some(TransferIdNotFound), Subject::Nothing, 0));
    }
}

#[test]
fn within_a_frame_it_sees_what_came_before_it_and_nothing_after() {
    let mut world = World::roomy();
    let asks = || lookup_by(PAYEE, 0);
    let effects = world.frame(&[asks(), prepare(0, 5), asks(), asks(), fulfil(0), asks()]);
    assert_eq!(
        effects.outcomes(),
        [
            no_transfer(Some(TransferIdNotFound), Subject::Nothing, 0),
            answer(0, Reserved, 5),
            answer(0, Reserved, 5),
            answer(0, Reserved, 5),
            answer(0, Committed, -5),
            answer(0, Committed, -5),
        ]
    );
}
