//! The operator's commands: participants, limits, funds in and out, and what each refuses.

use holdfast_domain::codes::ErrorCode::{
    ClientError, IdNotFound, InternalServerError, ModifiedRequest, PayerInsufficientLiquidity,
    PayerLimitError, TransferIdNotFound, ValidationError,
};
use holdfast_domain::money::AMOUNT_LIMIT;
use holdfast_domain::participants::{
    ALARM_PERCENTAGE_DEFAULT, Account, AccountKind, FundsMovement, FundsState, Name, Participant,
};
use holdfast_domain::transfers::TransferState::{AbortedRejected, Reserved};

use crate::memory::Memory;
use crate::world::*;

fn empty() -> World {
    World { memory: Memory::default(), ..World::roomy() }
}

/// The command is refused with the code, and nothing changes.
#[track_caller]
fn assert_refused(world: &mut World, command: Command, code: ErrorCode) {
    let before = world.memory.clone();
    let effects = world.frame(&[command]);
    let outcomes = vec![no_transfer(Some(code), Subject::Nothing, 0)];
    assert_effects(effects, Lists { outcomes, ..Lists::default() });
    assert_eq!(world.memory, before);
}

fn done(subject: Subject, value: i128) -> Outcome {
    no_transfer(None, subject, value)
}

fn on(account: u32) -> Subject {
    Subject::Account(AccountId(account))
}

#[test]
fn a_participant_is_made_with_two_inactive_accounts() {
    let mut world = empty();
    let effects = world.frame(&[create("first-fsp", usd())]);
    let account = |id, kind| Account {
        id: AccountId(id),
        participant: PAYER,
        currency: usd(),
        kind,
        active: false,
        value: Balance::ZERO,
        reserved: Balance::ZERO,
        net_debit_cap: None,
        alarm_percentage: ALARM_PERCENTAGE_DEFAULT,
        created_at: NOW,
        changed_at: NOW,
    };
    let expected = Lists {
        participants: vec![Participant {
            id: PAYER,
            name: Name::new("first-fsp").unwrap(),
            active: true,
            accounts: vec![(usd(), PAYER_POSITION)],
            created_at: NOW,
        }],
        accounts: vec![account(1, AccountKind::Position), account(2, AccountKind::Settlement)],
        outcomes: vec![done(Subject::Member(ParticipantId(1), AccountId(1)), 0)],
        ..Lists::default()
    };
    assert_effects(effects, expected);
}

#[test]
fn a_name_is_the_same_in_any_case_and_may_have_further_currencies() {
    let mut world = empty();
    let eur = "EUR".parse().unwrap();
    // In one frame, so that the second command sees the first.
    let effects =
        world.frame(&[create("First-FSP", usd()), create("first-fsp", eur), create("FIRST-fsp", usd())]);
    let codes: Vec<_> = effects.outcomes().iter().map(|outcome| outcome.code).collect();
    assert_eq!(codes, [None, None, Some(ClientError.into())]);
    assert_eq!(effects.outcome(2).subject, effects.outcome(0).subject, "a repeat learns the numbers");
    assert_eq!(world.memory.participants.len(), 1);
    let row = &world.memory.participants[&PAYER];
    assert_eq!(row.name.as_str(), "First-FSP", "the first spelling stays");
    assert_eq!(row.accounts, [(usd(), AccountId(1)), (eur, AccountId(3))]);
    let before = world.memory.clone();
    let again = world.frame(&[create("first-FSP", eur)]);
    let outcomes = vec![no_transfer(Some(ClientError), Subject::Member(ParticipantId(1), AccountId(3)), 0)];
    assert_effects(again, Lists { outcomes, ..Lists::default() });
    assert_eq!(world.memory, before);
}

#[test]
fn nobody_takes_the_name_of_the_hub() {
    for name in ["Hub", "hub", "HUB"] {
        assert_refused(&mut World::roomy(), create(name, usd()), ClientError);
    }
}

#[test]
fn the_first_limit_activates_both_accounts_and_comes_once() {
    let mut world = empty();
    world.frame(&[create("fsp", usd())]);
    assert_refused(&mut world, set_limit(PAYER, 10, 10), InternalServerError);
    assert_refused(&mut world, initial(ParticipantId(9), 10, 0), IdNotFound);
    for (cap, position) in [(-1, 0), (AMOUNT_LIMIT.0, 0), (0, AMOUNT_LIMIT.0), (0, -AMOUNT_LIMIT.0 - 1)] {
        assert_refused(&mut world, initial(PAYER, cap, position), ValidationError);
    }
    let effects = world.frame(&[initial(PAYER, 10, 3)]);
    assert_eq!(effects.outcomes(), [done(on(1), 3)]);
    let (position, settlement) =
        (world.memory.accounts[&PAYER_POSITION], world.memory.accounts[&PAYER_SETTLEMENT]);
    assert!(position.active && settlement.active);
    assert_eq!((position.value, position.net_debit_cap), (Balance(3), Some(Amount(10))));
    assert_eq!((settlement.value, settlement.net_debit_cap), (Balance(0), None));
    assert_refused(&mut world, initial(PAYER, 10, 3), InternalServerError);
}

#[test]
fn the_initial_position_is_added_to_what_was_paid_before() {
    let mut world = World::roomy();
    let newcomer = ParticipantId(4);
    let to_newcomer = prepared(Prepare { payee: newcomer, ..prepare_of(0, 5) });
    let by_newcomer = fulfil_by(newcomer, 0, FulfilAction::Commit, fulfilment(0));
    world.frame(&[create("newcomer", usd()), to_newcomer, by_newcomer]);
    assert_eq!(world.value(AccountId(7)), -5, "an account without limits can be paid");
    let effects = world.frame(&[initial(newcomer, 10, 3)]);
    assert_eq!(effects.outcomes(), [done(on(7), -2)]);
}

#[test]
fn a_limit_lowered_below_usage_stops_new_prepares_only() {
    let mut world = World::with(10, 1000);
    world.frame(&[prepare(0, 6), prepare(1, 4)]);
    let effects = world.frame(&[set_limit(PAYER, 5, 100)]);
    assert_eq!(effects.outcomes(), [done(on(1), 10)]);
    let effects = world.frame(&[prepare(2, 1), fulfil(0), abort(1)]);
    assert_eq!(*effects.outcome(0), refused(answer(2, AbortedRejected, 6), PayerLimitError, None));
    assert!(world.transfer(0).state.is_final() && world.transfer(1).state.is_final());
    // The committed 6 stay owed; the cap of 5 is still passed.
    assert_eq!(world.value(PAYER_POSITION), 6);
    for (cap, percentage) in [(-1, 10), (AMOUNT_LIMIT.0, 10), (5, 101)] {
        assert_refused(&mut world, set_limit(PAYER, cap, percentage), ValidationError);
    }
    assert_refused(&mut world, set_limit(ParticipantId(9), 5, 10), IdNotFound);
}

#[test]
fn who_is_inactive_takes_part_in_nothing_new() {
    let mut world = World::roomy();
    world.frame(&[prepare(0, 5)]);
    let set = |active| Command::Admin(Admin::SetParticipantActive { participant: PAYEE, active });
    let effects = world.frame(&[set(false), prepare(1, 5), fulfil(0), set(true), prepare(2, 5)]);
    assert_eq!(accepted(&effects), [true, false, true, true, true], "what was reserved may still end");
    let unknown = Command::Admin(Admin::SetParticipantActive { participant: ParticipantId(9), active: true });
    assert_refused(&mut world, unknown, IdNotFound);
    for account in [PAYER_SETTLEMENT, AccountId(99)] {
        assert_refused(
            &mut world,
            Command::Admin(Admin::SetAccountActive { account, active: true }),
            IdNotFound,
        );
    }
}

#[test]
fn funds_in_lower_the_settlement_account_and_make_room() {
    let mut world = World::with(1000, 10);
    let effects = world.frame(&[prepare(0, 11), funds_in(1, PAYER_SETTLEMENT, 1), prepare(1, 11)]);
    assert_eq!(effects.funds(), [movement(1, 1, FundsState::ReceivedIn)]);
    assert_eq!(
        effects.outcomes(),
        [
            refused(answer(0, AbortedRejected, 0), PayerInsufficientLiquidity, None),
            done(on(2), -11),
            answer(1, Reserved, 11)
        ]
    );
}

fn movement(n: u128, amount: i64, state: FundsState) -> FundsMovement {
    FundsMovement { id: id(n), account: PAYER_SETTLEMENT, amount: Amount(amount), state }
}

#[test]
fn a_movement_of_funds_that_comes_again_moves_nothing() {
    let mut world = World::with(1000, 10);
    world.frame(&[funds_in(1, PAYER_SETTLEMENT, 7), funds_out(2, PAYER_SETTLEMENT, 3)]);
    let before = world.memory.clone();
    let effects = world.frame(&[funds_in(1, PAYER_SETTLEMENT, 7), funds_out(2, PAYER_SETTLEMENT, 3)]);
    assert_effects(effects, Lists { outcomes: vec![done(on(2), -14), done(on(2), -14)], ..Lists::default() });
    assert_eq!(world.memory, before);
    for other in [
        funds_in(1, PAYER_SETTLEMENT, 8),
        funds_in(1, PAYEE_SETTLEMENT, 7),
        funds_out(1, PAYER_SETTLEMENT, 7),
        funds_in(2, PAYER_SETTLEMENT, 3),
    ] {
        assert_refused(&mut world, other, ModifiedRequest);
    }
}

#[test]
fn funds_go_out_only_as_far_as_no_position_stands_on_them() {
    for (reserved, out, goes) in [(0, 10, true), (0, 11, false), (4, 6, true), (4, 7, false)] {
        let mut world = World::with(1000, 10);
        if reserved > 0 {
            world.frame(&[prepare(0, reserved)]);
        }
        if goes {
            let effects = world.frame(&[funds_out(1, PAYER_SETTLEMENT, out)]);
            assert_eq!(effects.outcomes(), [done(on(2), i128::from(out) - 10)]);
            assert_eq!(effects.funds(), [movement(1, out, FundsState::OutReserved)]);
        } else {
            assert_refused(&mut world, funds_out(1, PAYER_SETTLEMENT, out), PayerInsufficientLiquidity);
        }
    }
}

#[test]
fn a_position_below_zero_lends_nothing_to_funds_out() {
    let mut world = World::with(1000, 10);
    let to_payer = prepared(Prepare { source: PAYEE, payer: PAYEE, payee: PAYER, ..prepare_of(0, 50) });
    let by_payer = fulfil_by(PAYER, 0, FulfilAction::Commit, fulfilment(0));
    world.frame(&[to_payer, by_payer]);
    assert_eq!(world.value(PAYER_POSITION), -50);
    assert_refused(&mut world, funds_out(1, PAYER_SETTLEMENT, 11), PayerInsufficientLiquidity);
    assert_eq!(world.frame(&[funds_out(1, PAYER_SETTLEMENT, 10)]).outcomes(), [done(on(2), 0)]);
}

#[test]
fn what_is_reserved_beside_the_position_counts_for_funds_out() {
    let mut world = World::with(1000, 10);
    world.memory.accounts.get_mut(&PAYER_POSITION).unwrap().reserved = Balance(3);
    assert_refused(&mut world, funds_out(1, PAYER_SETTLEMENT, 8), PayerInsufficientLiquidity);
    assert_eq!(world.frame(&[funds_out(1, PAYER_SETTLEMENT, 7)]).outcomes(), [done(on(2), -3)]);
}

#[test]
fn funds_out_are_gone_at_once_and_end_once() {
    let mut world = World::with(1000, 10);
    world.frame(&[funds_out(1, PAYER_SETTLEMENT, 6), funds_out(2, PAYER_SETTLEMENT, 4)]);
    assert_eq!(world.value(PAYER_SETTLEMENT), 0);
    assert_eq!(world.frame(&[prepare(0, 1)]).outcome(0).code, Some(PayerInsufficientLiquidity.into()));

    let commit = || funds_out_commit(1, PAYER_SETTLEMENT);
    let abort = || funds_out_abort(2, PAYER_SETTLEMENT);
    let effects = world.frame(&[commit(), abort()]);
    assert_eq!(effects.outcomes(), [done(on(2), 0), done(on(2), -4)]);
    assert_eq!(
        effects.funds(),
        [movement(1, 6, FundsState::OutCommitted), movement(2, 4, FundsState::OutAborted)]
    );
    let before = world.memory.clone();
    let effects = world.frame(&[commit(), abort()]);
    assert_effects(effects, Lists { outcomes: vec![done(on(2), -4), done(on(2), -4)], ..Lists::default() });
    assert_eq!(world.memory, before);
    assert_refused(&mut world, funds_out_abort(1, PAYER_SETTLEMENT), InternalServerError);
    assert_refused(&mut world, funds_out_commit(2, PAYER_SETTLEMENT), InternalServerError);
}

#[test]
fn movements_of_funds_name_their_own_settlement_account() {
    let mut world = World::with(1000, 10);
    world.frame(&[funds_out(1, PAYER_SETTLEMENT, 1), funds_in(2, PAYER_SETTLEMENT, 1)]);
    for account in [PAYER_POSITION, AccountId(99)] {
        assert_refused(&mut world, funds_in(3, account, 1), IdNotFound);
        assert_refused(&mut world, funds_out(3, account, 1), IdNotFound);
    }
    assert_refused(&mut world, funds_out_commit(9, PAYER_SETTLEMENT), TransferIdNotFound);
    assert_refused(&mut world, funds_out_commit(1, PAYEE_SETTLEMENT), TransferIdNotFound);
    assert_refused(&mut world, funds_out_commit(2, PAYER_SETTLEMENT), InternalServerError);
    for amount in [0, -1, AMOUNT_LIMIT.0] {
        assert_refused(&mut world, funds_in(3, PAYER_SETTLEMENT, amount), ValidationError);
        assert_refused(&mut world, funds_out(3, PAYER_SETTLEMENT, amount), ValidationError);
    }
    let euros = Admin::FundsIn {
        id: id(3),
        account: PAYER_SETTLEMENT,
        currency: "EUR".parse().unwrap(),
        amount: Amount(1),
    };
    assert_refused(&mut world, Command::Admin(euros), InternalServerError);
    // Before the first limit both accounts are inactive.
    world.frame(&[create("newcomer", usd())]);
    assert_refused(&mut world, funds_in(3, AccountId(8), 1), InternalServerError);
}

#[test]
fn an_outcome_names_what_was_changed() {
    let mut world = World::roomy();
    let account = |account, active| Command::Admin(Admin::SetAccountActive { account, active });
    let participant =
        |participant, active| Command::Admin(Admin::SetParticipantActive { participant, active });
    let effects = world.frame(&[prepare(0, 5), account(PAYER_POSITION, false), participant(OTHER, false)]);
    assert_eq!(
        effects.outcomes()[1..],
        [done(on(PAYER_POSITION.0), 5), done(Subject::Participant(OTHER), 0)]
    );
    assert!(!world.memory.accounts[&PAYER_POSITION].active);
    assert!(!world.memory.participants[&OTHER].active);
}

#[test]
fn an_account_without_a_limit_cannot_be_activated_past_it() {
    let mut world = empty();
    world.frame(&[create("first-fsp", usd())]);
    let activate = Command::Admin(Admin::SetAccountActive { account: PAYER_POSITION, active: true });
    let effects = world.frame(&[activate]);
    assert_eq!(effects.outcome(0).code.map(|code| code.number()), Some(2001));
    assert!(!world.memory.accounts[&PAYER_POSITION].active);
}
