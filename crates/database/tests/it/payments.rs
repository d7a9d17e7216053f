//! Payments through all hops, by any node.

use holdfast_domain::transfers::TransferState;
use holdfast_engine::Refusal;

use crate::world::{World, all_to, decide, fulfil, participants, prepare};

const AN_HOUR: i64 = 3_600_000;

#[test]
fn a_payment_goes_through_all_hops_whichever_node_is_asked() {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.node(1), world.node(2));
    let [(payer, account), (payee, _)] = participants(&one.handle(), 1_000_000);
    let prepares = (1..=50).map(|id| prepare(id, payer, payee, 10_000, world.in_ms(AN_HOUR))).collect();
    all_to(&one.handle(), TransferState::Reserved, prepares);
    all_to(&two.handle(), TransferState::Committed, (1..=50).map(|id| fulfil(id, payee)).collect());
    // Asked again at the other node: the stored answer.
    let again =
        decide(&one.handle(), vec![fulfil(7, payee), prepare(8, payer, payee, 1, world.in_ms(AN_HOUR))])
            .unwrap();
    assert_eq!(again[0].state, Some(TransferState::Committed));
    assert_eq!(again[1].code.map(|code| code.number()), Some(3106), "the same id with another amount");
    assert_eq!(world.position(account), 500_000);
    one.stop();
    two.stop();
    world.check();
}

/// The limit holds over all nodes: cap 10 with prepares of 5 reserves two.
#[test]
fn no_limit_is_broken_by_asking_two_nodes() {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.node(1), world.node(2));
    let [(payer, _), (payee, _)] = participants(&one.handle(), 100_000);
    let some = |ids: std::ops::Range<u128>| {
        ids.map(|id| prepare(id, payer, payee, 50_000, world.in_ms(AN_HOUR))).collect()
    };
    let (one_handle, two_handle) = (one.handle(), two.handle());
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| decide(&one_handle, some(1..20)).unwrap());
        let second = scope.spawn(|| decide(&two_handle, some(20..40)).unwrap());
        (first.join().unwrap(), second.join().unwrap())
    });
    let all: Vec<_> = first.into_iter().chain(second).collect();
    let reserved = all.iter().filter(|outcome| outcome.state == Some(TransferState::Reserved)).count();
    assert_eq!(reserved, 2);
    assert!(
        all.iter().all(|outcome| outcome.code.is_none() == (outcome.state == Some(TransferState::Reserved)))
    );
    drop((one, two));
    world.check();
}

/// Nobody would send what it takes.
#[test]
fn a_node_without_the_role_takes_no_requests_and_does_its_part_of_the_work() {
    let Some(world) = World::new() else { return };
    let (edge, position) = (world.node_with(1, "api,transfers"), world.node_with(2, "position"));
    let [(payer, _), (payee, _)] = participants(&edge.handle(), 100_000);
    let prepares = || vec![prepare(1, payer, payee, 50_000, world.in_ms(AN_HOUR))];
    assert!(matches!(decide(&position.handle(), prepares()), Err(Refusal::Closed(_))));
    assert_eq!(position.handle().in_flight(), 0);
    let outcomes = decide(&edge.handle(), prepares()).unwrap();
    assert_eq!(outcomes[0].state, Some(TransferState::Reserved), "the other node decided it");
}
