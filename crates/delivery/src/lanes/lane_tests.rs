//! Order, bounds and pauses of one lane, with given time.

use std::time::Duration;

use tokio::time::Instant;

use super::lane::{Census, Health, Lane};
use super::source::Job;
use crate::options::{LANE_IN_FLIGHT_MAX, TROUBLED_AFTER_FAILURES, TROUBLED_PAUSE};

/// A job of that number, of that key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbered(u64, u128);

impl Job for Numbered {
    type Key = u128;

    fn key(&self) -> u128 {
        self.1
    }
}

fn lane() -> Lane<Numbered> {
    Lane::new(LANE_IN_FLIGHT_MAX)
}

fn push(lane: &mut Lane<Numbered>, number: u64, key: u128, now: Instant) {
    lane.reserve();
    lane.put(Numbered(number, key), 0, now);
}

fn start(lane: &mut Lane<Numbered>, now: Instant) -> Vec<u64> {
    lane.start(now).into_iter().map(|(job, _)| job.0).collect()
}

const PAUSE: Duration = Duration::from_secs(1);
const WELL: Option<bool> = Some(true);
const FAILED: Option<bool> = Some(false);

#[test]
fn the_next_of_a_key_waits_for_the_end_of_the_one_before_and_others_pass() {
    let (mut lane, now) = (lane(), Instant::now());
    for (number, key) in [(0, 7), (1, 7), (2, 8), (3, 7)] {
        push(&mut lane, number, key, now);
    }
    assert_eq!(start(&mut lane, now), [0, 2]);
    // A failed one still holds back its key.
    lane.rests(&7, FAILED, now + PAUSE, 1);
    lane.ended(&8, WELL, now);
    assert!(start(&mut lane, now).is_empty());
    assert_eq!(lane.next_start(), Some(now + PAUSE));
    assert_eq!(lane.start(now + PAUSE), [(Numbered(0, 7), 1)], "with the attempts that it has cost");
    lane.ended(&7, FAILED, now + PAUSE);
    assert_eq!(lane.start(now + PAUSE), [(Numbered(1, 7), 0)]);
    lane.ended(&7, WELL, now + PAUSE);
    assert_eq!(start(&mut lane, now + PAUSE), [3]);
    assert_eq!(lane.census(), Census { waiting: 0, resting: 0, in_flight: 1 });
}

#[test]
fn the_earliest_start_first_and_only_so_many_at_once() {
    let (mut lane, now) = (lane(), Instant::now());
    for number in 0..100 {
        push(&mut lane, number, u128::from(number), now);
    }
    let started = start(&mut lane, now);
    assert_eq!(started, (0..32).collect::<Vec<_>>());
    assert_eq!(started.len(), LANE_IN_FLIGHT_MAX);
    assert_eq!((start(&mut lane, now), lane.next_start()), (vec![], None), "only an end makes room");
    lane.ended(&5, WELL, now);
    assert_eq!(start(&mut lane, now), [32]);
    lane.rests(&6, None, now + PAUSE, 0);
    assert_eq!(start(&mut lane, now), [33]);
    lane.ended(&7, WELL, now);
    lane.ended(&8, WELL, now);
    assert_eq!(start(&mut lane, now + PAUSE), [34, 35], "those that came before its time");
    assert_eq!(lane.census(), Census { waiting: 64, resting: 1, in_flight: 32 });
}

#[test]
fn what_rests_goes_out_when_its_time_has_come() {
    let (mut lane, now) = (lane(), Instant::now());
    push(&mut lane, 1, 1, now);
    assert_eq!(start(&mut lane, now), [1]);
    lane.rests(&1, None, now + PAUSE, 0);
    push(&mut lane, 2, 2, now + 2 * PAUSE);
    assert_eq!(start(&mut lane, now + 2 * PAUSE), [1, 2]);
    lane.ended(&1, WELL, now);
    lane.ended(&2, WELL, now);
    assert_eq!((start(&mut lane, now), lane.next_start()), (vec![], None));
}

#[test]
fn a_reserved_place_counts_until_it_is_given_up() {
    let (mut lane, now) = (lane(), Instant::now());
    lane.reserve();
    assert_eq!((lane.len(), start(&mut lane, now)), (1, vec![]));
    lane.release();
    assert_eq!(lane.len(), 0);
    push(&mut lane, 1, 5, now);
    assert_eq!(start(&mut lane, now), [1]);
    lane.ended(&5, WELL, now);
    assert_eq!(lane.len(), 0);
}

#[test]
fn a_troubled_receiver_is_tried_slowly_until_one_succeeds() {
    let (mut lane, mut now) = (lane(), Instant::now());
    for number in 0..200 {
        push(&mut lane, number, u128::from(number), now);
    }
    let started = start(&mut lane, now);
    let found = started.iter().map(|key| lane.rests(&u128::from(*key), FAILED, now + PAUSE * 100, 1));
    let found: Vec<Option<Health>> = found.collect();
    let turn = usize::try_from(TROUBLED_AFTER_FAILURES).unwrap() - 1;
    assert!(found.iter().enumerate().all(|(at, health)| health.is_some() == (at == turn)), "said once");
    assert_eq!(found[turn], Some(Health::Troubled));
    assert!(start(&mut lane, now).is_empty(), "not at once");
    assert_eq!(lane.next_start(), Some(now + TROUBLED_PAUSE));
    now += TROUBLED_PAUSE;
    assert_eq!(start(&mut lane, now), [32], "one at a time");
    assert!(start(&mut lane, now).is_empty());
    assert_eq!(lane.rests(&32, None, now + PAUSE, 0), None, "it was never sent");
    assert!(start(&mut lane, now).is_empty());
    now += TROUBLED_PAUSE;
    assert_eq!(start(&mut lane, now), [33]);
    assert_eq!(lane.ended(&33, WELL, now), Some(Health::Well));
    assert_eq!(start(&mut lane, now).len(), LANE_IN_FLIGHT_MAX, "all is well again");
}

#[test]
fn what_could_not_be_tried_counts_as_no_failure() {
    let (mut lane, now) = (lane(), Instant::now());
    push(&mut lane, 0, 0, now);
    for _ in 0..100 {
        assert_eq!(start(&mut lane, now), [0]);
        lane.rests(&0, None, now, 0);
    }
    assert!(!lane.is_troubled());
}

#[test]
fn repeats_leave_room_for_what_is_new() {
    const REPEATS_MAX: usize = LANE_IN_FLIGHT_MAX / 2;
    let (mut lane, now) = (Lane::new(REPEATS_MAX), Instant::now());
    for number in 0..32 {
        push(&mut lane, number, u128::from(number), now);
    }
    for key in start(&mut lane, now) {
        lane.rests(&u128::from(key), None, now, 1);
    }
    assert_eq!(start(&mut lane, now), (0..16).collect::<Vec<_>>());
    assert_eq!((start(&mut lane, now), lane.next_start()), (vec![], None), "as many repeats as may");
    push(&mut lane, 100, 100, now);
    assert_eq!(lane.next_start(), Some(now));
    assert_eq!(start(&mut lane, now), [100]);
    lane.ended(&100, WELL, now);
    assert!(start(&mut lane, now).is_empty());
    lane.ended(&0, FAILED, now);
    assert_eq!(start(&mut lane, now), [16]);
    assert_eq!(lane.census(), Census { waiting: 0, resting: 15, in_flight: 16 });
    assert_eq!(lane.into_jobs().len(), 31);
}

#[test]
fn what_is_in_vain_rests_and_what_is_new_does_not() {
    let (mut lane, now) = (lane(), Instant::now());
    let news = Numbered(0, 7);
    assert!(!lane.hasten(news, now), "it is not there");
    push(&mut lane, 0, 7, now);
    assert!(lane.hasten(news, now));
    assert_eq!(start(&mut lane, now), [0]);
    assert!(start(&mut lane, now).is_empty(), "once");
    lane.rests(&7, FAILED, now + PAUSE, 1);
    assert_eq!(lane.next_start(), Some(now + PAUSE));
    // It does not wait for the pause, and begins counting anew.
    assert!(lane.hasten(news, now));
    assert_eq!(lane.start(now), [(news, 0)]);
    // And what comes while it is tried is not forgotten, nor tried twice.
    assert!(!lane.has_behind(&7));
    assert!(lane.hasten(news, now) && lane.hasten(news, now));
    assert!(lane.has_behind(&7));
    lane.ended(&7, WELL, now);
    assert_eq!(lane.start(now), [(news, 0)]);
    lane.anew(&7, WELL, now);
    assert_eq!(lane.start(now), [(news, 0)]);
    lane.ended(&7, WELL, now);
    assert_eq!((lane.len(), lane.start(now), lane.next_start()), (0, vec![], None));
}

#[test]
fn keys_leave_unless_they_are_being_tried() {
    let (mut lane, now) = (lane(), Instant::now());
    push(&mut lane, 0, 0, now);
    push(&mut lane, 1, 1, now);
    assert_eq!(start(&mut lane, now), [0, 1]);
    lane.rests(&1, FAILED, now + PAUSE, 1);
    for key in 2..5 {
        push(&mut lane, key, u128::from(key), now);
    }
    lane.leave(|key| *key != 4);
    assert_eq!((lane.len(), start(&mut lane, now + PAUSE)), (2, vec![4]));
    lane.ended(&0, WELL, now);
    lane.ended(&4, WELL, now);
    assert_eq!((lane.len(), start(&mut lane, now), lane.next_start()), (0, vec![], None));
}

#[test]
fn an_end_of_what_is_not_under_way_changes_nothing() {
    let (mut lane, now) = (lane(), Instant::now());
    push(&mut lane, 0, 7, now);
    assert_eq!(lane.ended(&7, FAILED, now), None);
    assert_eq!(lane.rests(&8, FAILED, now, 1), None);
    assert_eq!(lane.census(), Census { waiting: 1, resting: 0, in_flight: 0 });
}
