//! The same commands in one frame or in two can end differently, because a bin takes credits before debits. So a
//! replay must decide with the bounds that the log has, and may not join or split frames.

use holdfast_domain::codes::ErrorCode::PayerLimitError;
use holdfast_domain::transfers::TransferState::{AbortedError, AbortedRejected, Reserved};

use crate::world::*;

/// A payer at its cap of 10, whose reservation of transfer 0 is about to come back.
fn at_the_cap() -> World {
    let mut world = World::with(10, 1000);
    world.frame(&[prepare(0, 10)]);
    world
}

fn commands() -> [Command; 2] {
    [prepare(1, 5), abort(0)]
}

#[test]
fn in_one_frame_the_abort_makes_room_for_the_prepare_before_it() {
    let mut world = at_the_cap();
    let effects = world.frame(&commands());
    assert_eq!(states(&effects), [Some(Reserved), Some(AbortedError)]);
    assert_eq!(
        effects.position_changes(),
        [changed(PAYER_POSITION, 0, -10, 0), changed(PAYER_POSITION, 1, 5, 5)]
    );
}

#[test]
fn in_two_frames_the_prepare_is_refused() {
    let mut world = at_the_cap();
    let [prepare, abort] = commands();
    let first = world.frame(&[prepare]);
    assert_eq!(first.outcomes(), [refused(answer(1, AbortedRejected, 10), PayerLimitError, None)]);
    world.frame(&[abort]);
    assert_eq!(world.value(PAYER_POSITION), 0);
    assert_eq!(world.transfer(1).state, AbortedRejected);
}

#[test]
fn a_replay_with_the_same_bounds_gives_the_same_effects_and_digests() {
    let frames =
        [vec![prepare(1, 5), abort(0)], vec![prepare(2, 5)], vec![prepare(3, 1), fulfil(2), fulfil(1)]];
    let run = || {
        let mut world = at_the_cap();
        let effects: Vec<Effects> = frames.iter().map(|frame| world.frame(frame)).collect();
        (effects, world.memory)
    };
    let (first, second) = (run(), run());
    assert_eq!(first, second);
    assert!(first.0.iter().zip(&second.0).all(|(left, right)| digest(left) == digest(right)));
}

#[test]
fn a_cut_frame_digests_differently_from_one_that_was_not_cut() {
    let world = World::roomy();
    let whole = world.foreseen(&[prepare(0, 5), prepare(1, 5)]);
    let cut = world.foreseen(&[prepare(0, 5), prepare(1, 5), prepare(0, 5)]);
    assert_eq!(whole.state_changes(), cut.state_changes());
    assert_ne!(digest(&whole), digest(&cut));
}
