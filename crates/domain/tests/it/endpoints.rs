//! Where participants want to be called: set, replaced, bounded, and read by no decision.

use holdfast_domain::codes::ErrorCode::IdNotFound;
use holdfast_domain::command::{ENDPOINT_KIND_BYTES_MAX, ENDPOINT_VALUE_BYTES_MAX};
use holdfast_domain::ids::HUB;

use crate::world::*;

const POST: &str = "FSPIOP_CALLBACK_URL_TRANSFER_POST";
const PUT: &str = "FSPIOP_CALLBACK_URL_TRANSFER_PUT";

fn set(participant: ParticipantId, kind: &str, value: &str) -> Command {
    Command::SetEndpoint(endpoint_of(participant, kind, value))
}

fn kept(world: &World, participant: ParticipantId, kind: &str) -> Option<String> {
    world.memory.endpoints.get(&(participant, kind.to_owned())).cloned()
}

#[test]
fn an_endpoint_is_set_and_nothing_else_happens() {
    let mut world = World::roomy();
    let before = world.memory.clone();
    let effects = world.frame(&[set(PAYEE, POST, "http://payee/transfers")]);
    let expected = Lists {
        endpoints: vec![endpoint_of(PAYEE, POST, "http://payee/transfers")],
        outcomes: vec![no_transfer(None, Subject::Participant(PAYEE), 0)],
        ..Lists::default()
    };
    assert_effects(effects, expected);
    assert_eq!(kept(&world, PAYEE, POST).as_deref(), Some("http://payee/transfers"));
    world.memory.endpoints.clear();
    assert_eq!(world.memory, before);
}

#[test]
fn another_of_the_same_type_replaces_it_and_no_other() {
    let mut world = World::roomy();
    world.frame(&[set(PAYEE, POST, "a"), set(PAYEE, PUT, "b"), set(PAYER, POST, "c")]);
    world.frame(&[set(PAYEE, POST, "d"), set(PAYEE, POST, "e")]);
    assert_eq!(kept(&world, PAYEE, POST).as_deref(), Some("e"), "the last of a frame stays");
    assert_eq!(kept(&world, PAYEE, PUT).as_deref(), Some("b"));
    assert_eq!(kept(&world, PAYER, POST).as_deref(), Some("c"));
}

#[test]
fn types_that_the_hub_never_calls_are_kept_too() {
    let mut world = World::roomy();
    let effects = world.frame(&[set(PAYER, "NET_DEBIT_CAP_THRESHOLD_BREACH_EMAIL", "ops@payer.example")]);
    assert_eq!(effects.endpoints().len(), 1);
}

#[test]
fn an_unknown_participant_is_3200_and_nothing_is_kept() {
    let mut world = World::roomy();
    let before = world.memory.clone();
    let effects = world.frame(&[set(ParticipantId(99), POST, "http://nobody")]);
    let outcomes = vec![no_transfer(Some(IdNotFound), Subject::Nothing, 0)];
    assert_effects(effects, Lists { outcomes, ..Lists::default() });
    assert_eq!(world.memory, before);
}

#[test]
fn the_hub_has_endpoints_without_being_a_participant() {
    let mut world = World::roomy();
    let effects = world.frame(&[set(HUB, "ALARM_NOTIFICATION_URL", "http://hub/alarms")]);
    assert_eq!(effects.outcomes(), [no_transfer(None, Subject::Participant(HUB), 0)]);
    assert_eq!(kept(&world, HUB, "ALARM_NOTIFICATION_URL").as_deref(), Some("http://hub/alarms"));
}

#[test]
fn a_participant_made_in_the_same_frame_has_endpoints_and_an_inactive_one_too() {
    let mut world = World::roomy();
    let newcomer = ParticipantId(4);
    let inactive = Admin::SetParticipantActive { participant: PAYEE, active: false };
    let effects = world.frame(&[
        create("newcomer", usd()),
        set(newcomer, POST, "http://newcomer"),
        Command::Admin(inactive),
        set(PAYEE, POST, "http://payee"),
    ]);
    assert!(effects.outcomes().iter().all(|outcome| outcome.code.is_none()), "{effects:?}");
    assert_eq!(world.memory.endpoints.len(), 2);
}

#[test]
fn texts_are_neither_empty_nor_too_long() {
    let made = |kind: usize, value: usize| SetEndpoint::new(PAYEE, "k".repeat(kind), "v".repeat(value));
    let (kind_max, value_max) = (ENDPOINT_KIND_BYTES_MAX, ENDPOINT_VALUE_BYTES_MAX);
    for (kind, value) in [(1, 1), (kind_max, value_max)] {
        assert!(made(kind, value).is_some(), "{kind} and {value}");
    }
    for (kind, value) in [(0, 1), (1, 0), (kind_max + 1, 1), (1, value_max + 1)] {
        assert_eq!(made(kind, value), None, "{kind} and {value}");
    }
    // Bytes count, not characters.
    assert_eq!(SetEndpoint::new(PAYEE, "ä".repeat(kind_max / 2 + 1), "v".to_owned()), None);
}

#[test]
fn it_cuts_the_frame_and_disturbs_no_transfer() {
    let mut world = World::roomy();
    let effects = world.frame(&[prepare(0, 5), set(PAYEE, POST, "a"), fulfil(0)]);
    assert_eq!(
        effects.position_changes(),
        [changed(PAYER_POSITION, 0, 5, 5), changed(PAYEE_POSITION, 0, -5, -5),]
    );
}
