//! What a prepare must pass before it touches a position, in this order: source, duplicate, rules.

use holdfast_domain::codes::ErrorCode::{ModifiedRequest, ValidationError};
use holdfast_domain::effects::NotificationKind::{Prepared, Refused};
use holdfast_domain::effects::Party::{Payee, Payer};
use holdfast_domain::money::AMOUNT_LIMIT;
use holdfast_domain::transfers::TransferState::{
    AbortedRejected, Committed, Invalid, ReceivedPrepare, Reserved,
};

use crate::world::*;

fn set_active(participant: ParticipantId, active: bool) -> Command {
    Command::Admin(Admin::SetParticipantActive { participant, active })
}

fn eur() -> Currency {
    "EUR".parse().unwrap()
}

#[test]
fn a_prepare_within_the_rules_is_kept_and_reserved() {
    let mut world = World::roomy();
    let effects = world.frame(&[prepare(0, 5)]);
    let row = effects.transfers()[0].clone();
    assert_eq!((row.payer_account, row.payee_account), (Some(PAYER_POSITION), Some(PAYEE_POSITION)));
    assert_eq!((row.amount, row.expiration, row.prepared_at), (Amount(5), EXPIRATION, NOW));
    let expected = Lists {
        transfers: vec![id(0)],
        state_changes: vec![moved(0, ReceivedPrepare), moved(0, Reserved)],
        position_changes: vec![changed(PAYER_POSITION, 0, 5, 5)],
        notifications: vec![told(0, Payee, Prepared)],
        outcomes: vec![answer(0, Reserved, 5)],
        ..Lists::default()
    };
    assert_effects(effects, expected);
    assert_eq!(world.memory.holds.len(), 1);
}

#[test]
fn a_prepare_from_somebody_else_stores_nothing() {
    let mut world = World::roomy();
    let before = world.memory.clone();
    let effects = world.frame(&[prepared(Prepare { source: OTHER, ..prepare_of(0, 5) })]);
    let outcome = refused(no_transfer(None, Subject::Nothing, 0), ValidationError, Some(Reason::WrongSource));
    let answers = vec![asked(OTHER, id(0), Asked::Prepare, false)];
    assert_effects(effects, Lists { answers, outcomes: vec![outcome], ..Lists::default() });
    assert_eq!(world.memory, before);
    assert_eq!(world.frame(&[prepare(0, 5)]).outcomes(), [answer(0, Reserved, 5)], "the id is still free");
}

#[test]
fn somebody_else_learns_nothing_of_a_transfer_by_repeating_it() {
    let mut world = World::roomy();
    world.frame(&[prepare(0, 5)]);
    let effects = world.frame(&[prepared(Prepare { source: OTHER, ..prepare_of(0, 5) })]);
    assert_eq!(
        effects.outcomes(),
        [refused(no_transfer(None, Subject::Nothing, 0), ValidationError, Some(Reason::WrongSource))]
    );
}

#[test]
fn the_same_prepare_again_gets_the_stored_result_and_no_effect() {
    let mut world = World::with(10, 1000);
    world.frame(&[prepare(0, 5), prepare(1, 50)]);
    let again = world.frame(&[prepare(0, 5), prepare(1, 50)]);
    let rejected = again.outcomes()[1].clone();
    assert_eq!(again.outcomes()[0], answer(0, Reserved, 5));
    assert_eq!(
        (rejected.state, rejected.code.map(|code| code.number())),
        (Some(AbortedRejected), Some(4200))
    );
    let repeat = |cause: u32| Answer { cause, ..asked(PAYER, id(cause.into()), Asked::Prepare, true) };
    let answers = vec![repeat(0), repeat(1)];
    let outcomes = vec![answer(0, Reserved, 5), rejected];
    assert_effects(again, Lists { answers, outcomes, ..Lists::default() });

    world.frame(&[fulfil(0)]);
    world.now = EXPIRATION + 1;
    assert_eq!(
        world.frame(&[prepare(0, 5)]).outcomes(),
        [answer(0, Committed, -5)],
        "also when it is long over"
    );
}

#[test]
fn a_prepare_that_differs_in_any_field_is_a_modified_request() {
    let mut world = World::roomy();
    world.frame(&[prepare(0, 5)]);
    let first = prepare_of(0, 5);
    let others = [
        Prepare { amount: Amount(6), ..first.clone() },
        Prepare { payee: OTHER, ..first.clone() },
        Prepare { source: OTHER, payer: OTHER, ..first.clone() },
        Prepare { expiration: EXPIRATION + 1, ..first.clone() },
        Prepare { currency: eur(), ..first.clone() },
        Prepare { condition: [9; 32], ..first.clone() },
    ];
    for other in others {
        let answers = vec![asked(other.source, id(0), Asked::Prepare, false)];
        let effects = world.frame(&[prepared(other)]);
        let outcome = refused(answer(0, Reserved, 5), ModifiedRequest, None);
        assert_effects(effects, Lists { answers, outcomes: vec![outcome], ..Lists::default() });
    }
    // What the hash does not see are the packet and the extensions; their digests enter it at the edge.
    let other_hash = Command::Prepare(Prepare { hash: [7; 32], ..first });
    assert_eq!(
        world.frame(&[other_hash]).outcomes(),
        [refused(answer(0, Reserved, 5), ModifiedRequest, None)]
    );
    assert_eq!(world.value(PAYER_POSITION), 5);
}

/// Every rule with a prepare that breaks it and all the rules that come after it, as far as one prepare can.
#[test]
fn the_first_rule_that_is_broken_is_the_reason() {
    let nobody = ParticipantId(77);
    let inactive = ParticipantId(4);
    let mut world = World::roomy();
    world.frame(&[create("sleeper", usd()), set_active(inactive, false)]);
    let at = |payer, payee, amount, expiration, currency| Prepare {
        source: payer,
        payer,
        payee,
        amount,
        expiration,
        currency,
        ..prepare_of(0, 0)
    };
    let (past, future) = (NOW, NOW + 1);
    let fine = Amount(5);
    let broken = [
        (at(nobody, nobody, AMOUNT_LIMIT, past, eur()), Reason::AmountTooLarge),
        (at(nobody, nobody, Amount(i64::MAX), past, eur()), Reason::AmountTooLarge),
        (at(nobody, nobody, Amount(0), past, eur()), Reason::AmountNotPositive),
        (at(nobody, nobody, Amount(-1), past, eur()), Reason::AmountNotPositive),
        (at(nobody, nobody, fine, past, eur()), Reason::PayerUnknown),
        (at(inactive, nobody, fine, past, eur()), Reason::PayerInactive),
        (at(PAYER, nobody, fine, past, eur()), Reason::PayeeUnknown),
        (at(PAYER, inactive, fine, past, eur()), Reason::PayeeInactive),
        (at(PAYER, PAYER, fine, past, eur()), Reason::ExpirationPast),
        (at(PAYER, PAYER, fine, future, eur()), Reason::PayerIsPayee),
        (at(PAYER, PAYEE, fine, future, eur()), Reason::PayerAccountMissing),
    ];
    for (prepare, reason) in broken {
        let number = world.memory.transfers.len() as u64;
        let prepare = Prepare { id: id(100 + u128::from(number)), ..prepare };
        let effects = world.frame(&[prepared(prepare.clone())]);
        let invalid = StateChange { reason: Some(reason), ..moved_with(number, Invalid, ValidationError) };
        let expected = || Lists {
            transfers: vec![prepare.id],
            state_changes: vec![invalid],
            notifications: vec![Notification {
                error: Some((ValidationError.into(), Some(reason))),
                ..told(number, Payer, Refused)
            }],
            outcomes: vec![refused(answer(number, Invalid, 0), ValidationError, Some(reason))],
            ..Lists::default()
        };
        assert_effects(effects, expected());
        // It is kept, so its repeat is known and no longer judged.
        let again = world.frame(&[prepared(prepare.clone())]);
        let answers = vec![asked(prepare.source, prepare.id, Asked::Prepare, true)];
        assert_effects(again, Lists { answers, outcomes: expected().outcomes, ..Lists::default() });
    }
    assert!(world.memory.holds.is_empty(), "what is INVALID holds nothing");
}

#[test]
fn accounts_are_looked_at_last() {
    let mut world = World::roomy();
    let deactivate = Command::Admin(Admin::SetAccountActive { account: PAYER_POSITION, active: false });
    world.frame(&[deactivate, create("payer", eur()), prepare(0, 5)]);
    assert_eq!(world.transfer(0).reason, Some(Reason::PayerAccountInactive));

    // The payer has EUR now, but no limit was ever set: such an account is inactive too.
    world.frame(&[prepared(Prepare { currency: eur(), ..prepare_of(1, 5) })]);
    assert_eq!(world.transfer(1).reason, Some(Reason::PayerAccountInactive));

    let first_limit = Command::Admin(Admin::InitialPositionAndLimits {
        participant: PAYER,
        currency: eur(),
        net_debit_cap: Amount(100),
        initial_position: Amount(0),
    });
    world.frame(&[first_limit, prepared(Prepare { currency: eur(), ..prepare_of(2, 5) })]);
    assert_eq!(world.transfer(2).reason, Some(Reason::PayeeAccountMissing));
}

#[test]
fn an_inactive_payee_account_still_takes_money() {
    let mut world = World::roomy();
    let deactivate = Command::Admin(Admin::SetAccountActive { account: PAYEE_POSITION, active: false });
    let effects = world.frame(&[deactivate, prepare(0, 5), fulfil(0)]);
    assert_eq!(*effects.outcome(2), answer(0, Committed, -5));
}

#[test]
fn the_largest_amount_is_one_below_the_limit() {
    let mut world = World::with(AMOUNT_LIMIT.0 - 1, AMOUNT_LIMIT.0 - 1);
    let effects = world.frame(&[prepare(0, AMOUNT_LIMIT.0 - 1)]);
    assert_eq!(effects.outcomes(), [answer(0, Reserved, i128::from(AMOUNT_LIMIT.0) - 1)]);
}

#[test]
fn an_expiration_one_millisecond_ahead_will_do() {
    let mut world = World::roomy();
    let effects = world.frame(&[prepared(Prepare { expiration: NOW + 1, ..prepare_of(0, 5) })]);
    assert_eq!(effects.outcomes(), [answer(0, Reserved, 5)]);
}
