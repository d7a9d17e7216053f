//! The running position counts: what is accepted earlier in a bin is gone for what comes later in it.

use holdfast_domain::codes::ErrorCode::{PayerInsufficientLiquidity, PayerLimitError};
use holdfast_domain::effects::NotificationKind::{Prepared, Refused};
use holdfast_domain::effects::Party::{Payee, Payer};
use holdfast_domain::transfers::TransferState::{AbortedRejected, ReceivedPrepare, Reserved};

use crate::world::*;

#[test]
fn a_cap_of_ten_reserves_two_of_three_fives() {
    let mut world = World::with(10, 1000);
    let effects = world.frame(&[prepare(0, 5), prepare(1, 5), prepare(2, 5)]);
    let expected = Lists {
        transfers: vec![id(0), id(1), id(2)],
        state_changes: vec![
            moved(0, ReceivedPrepare),
            moved(1, ReceivedPrepare),
            moved(2, ReceivedPrepare),
            moved(0, Reserved),
            moved(1, Reserved),
            moved_with(2, AbortedRejected, PayerLimitError),
        ],
        position_changes: vec![changed(PAYER_POSITION, 0, 5, 5), changed(PAYER_POSITION, 1, 5, 10)],
        notifications: vec![
            told(0, Payee, Prepared),
            Notification { cause: 1, ..told(1, Payee, Prepared) },
            Notification { cause: 2, ..told_with(2, Payer, Refused, PayerLimitError) },
        ],
        outcomes: vec![
            answer(0, Reserved, 5),
            answer(1, Reserved, 10),
            refused(answer(2, AbortedRejected, 10), PayerLimitError, None),
        ],
        ..Lists::default()
    };
    assert_effects(effects, expected);
    assert_eq!(world.value(PAYER_POSITION), 10);
}

#[test]
fn a_cover_of_ten_reserves_two_of_four_fives() {
    let mut world = World::with(1000, 10);
    let effects = world.frame(&[prepare(0, 5), prepare(1, 5), prepare(2, 5), prepare(3, 5)]);
    assert_eq!(
        states(&effects),
        [Some(Reserved), Some(Reserved), Some(AbortedRejected), Some(AbortedRejected)]
    );
    let codes: Vec<_> = effects.outcomes().iter().map(|outcome| outcome.code).collect();
    let too_much = Some(PayerInsufficientLiquidity.into());
    assert_eq!(codes, [None, None, too_much, too_much]);
    assert_eq!(world.value(PAYER_POSITION), 10);
}

#[test]
fn the_next_frame_starts_where_this_one_ended() {
    let mut world = World::with(10, 1000);
    world.frame(&[prepare(0, 5), prepare(1, 4)]);
    let effects = world.frame(&[prepare(2, 2), prepare(3, 1)]);
    assert_eq!(
        effects.outcomes(),
        [refused(answer(2, AbortedRejected, 9), PayerLimitError, None), answer(3, Reserved, 10)]
    );
}

#[test]
fn smallest_first_fits_more_and_answers_in_the_order_of_the_frame() {
    let mut world = World::with(10, 1000);
    world.order = PrepareOrder::Smallest;
    let effects = world.frame(&[prepare(0, 8), prepare(1, 5), prepare(2, 2)]);
    assert_eq!(
        effects.position_changes(),
        [changed(PAYER_POSITION, 2, 2, 2), changed(PAYER_POSITION, 1, 5, 7)]
    );
    assert_eq!(
        effects.outcomes(),
        [
            refused(answer(0, AbortedRejected, 7), PayerLimitError, None),
            answer(1, Reserved, 7),
            answer(2, Reserved, 2)
        ]
    );
}

#[test]
fn funds_that_are_lent_to_nobody_cover_for_no_one_else() {
    let mut world = World::with(10, 1000);
    let from_other = prepared(Prepare { source: OTHER, payer: OTHER, ..prepare_of(1, 500) });
    let effects = world.frame(&[prepare(0, 11), from_other]);
    assert_eq!(
        effects.outcomes(),
        [refused(answer(0, AbortedRejected, 0), PayerLimitError, None), answer(1, Reserved, 500)]
    );
}
