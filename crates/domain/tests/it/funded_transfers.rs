//! Transfers that tokens pay for: same states, codes and callbacks as any other, but tokens move and positions do not.

use std::sync::Arc;

use holdfast_domain::command::{Funding, Key};
use holdfast_domain::effects::NotificationKind as Told;
use holdfast_domain::tokens::{Fingerprint, LockRow, NO_END, TokenEffect, TokenOutcome, TokenRefusal};
use holdfast_domain::transfers::TransferState as S;

use crate::funded_world::*;
use crate::tokens_world::{as_command, ids, renew, unlock};
use crate::world::*;

/// The lock that a frame puts on for transfer 0 with these tokens.
fn held(fence: u64, prepare: &Prepare, units: u64, names: &[&str]) -> Arc<LockRow> {
    let Command::Prepare(hashed) = prepared(prepare.clone()) else { unreachable!("it is one") };
    Arc::new(LockRow {
        spender: spender(0),
        fence,
        since: NOW,
        expires_at: NO_END,
        amount: units,
        body: Fingerprint(u128::from_le_bytes(hashed.hash[..16].try_into().unwrap())),
        tokens: ids(names).into(),
        funding: Some(BOB.into()),
    })
}

#[test]
fn a_prepare_holds_its_tokens_and_touches_no_position() {
    let mut world = with_tokens();
    let (fence, prepare) = (world.fence(), funded_of(0, 70, &["a60", "a40"]));
    let effects = world.frame(&[prepared(prepare.clone())]);
    let expected = Lists {
        transfers: vec![id(0)],
        state_changes: vec![moved(0, S::ReceivedPrepare), moved(0, S::Reserved)],
        notifications: vec![told(0, Party::Payee, Told::Prepared)],
        tokens: vec![TokenEffect::Locked(held(fence, &prepare, 70, &["a60", "a40"]))],
        outcomes: vec![answer(0, S::Reserved, 0)],
        ..Lists::default()
    };
    assert_effects(effects, expected);
    assert_eq!((wallet(&world, ALICE), wallet(&world, BOB)), ((100, 100), (0, 0)));
    let row = world.transfer(0);
    assert!(row.is_funded() && !row.holds_position() && row.position_changes().is_empty());
    assert_eq!(world.value(PAYER_POSITION), 0);
}

#[test]
fn a_fulfil_pays_the_amount_and_gives_change_back() {
    for (command, kind, also_payee) in
        [(fulfil(0), CompletionKind::Commit, false), (reserve(0), CompletionKind::Reserve, true)]
    {
        let mut world = with_tokens();
        let held_by = world.fence();
        world.frame(&[funded(0, 70, &["a60", "a40"])]);
        let mut effects = world.frame(&[command]);
        let tokens = effects.take(|step| &mut step.tokens);
        let told = |to| if also_payee { told_reserved(0, to) } else { told(0, to, Told::Committed) };
        let payee = also_payee.then(|| told(Party::Payee));
        let expected = Lists {
            state_changes: vec![moved(0, S::ReceivedFulfil), moved(0, S::Committed)],
            completions: vec![completed(0, kind, fulfilment(0))],
            notifications: [told(Party::Payer)].into_iter().chain(payee).collect(),
            outcomes: vec![answer(0, S::Committed, 0)],
            ..Lists::default()
        };
        assert_effects(effects, expected);
        let [
            TokenEffect::Unlocked { spender: by, fence },
            TokenEffect::Consumed(first),
            TokenEffect::Consumed(second),
            TokenEffect::Produced(paid),
            TokenEffect::Produced(change),
            TokenEffect::Spent(row),
        ] = &tokens[..]
        else {
            panic!("{tokens:?}")
        };
        assert_eq!((by, *fence, first.as_str(), second.as_str()), (&spender(0), held_by, "a60", "a40"));
        assert_eq!(
            (&*paid.kind.wallet, paid.quantity, &*change.kind.wallet, change.quantity),
            (BOB, 70, ALICE, 30)
        );
        assert_eq!(row.transaction.spender, spender(0));
        assert_eq!((wallet(&world, ALICE), wallet(&world, BOB)), ((30, 0), (70, 0)));
        assert_eq!((world.value(PAYER_POSITION), world.value(PAYEE_POSITION)), (0, 0));
        assert!(world.memory.locks.is_empty() && world.memory.holds.is_empty());
    }
}

#[test]
fn every_other_end_gives_the_tokens_back() {
    type Case = (&'static str, Command, i64, S, S, Option<ErrorCode>);
    let wrong = fulfil_by(PAYEE, 0, FulfilAction::Commit, fulfilment(9));
    let cases: [Case; 3] = [
        ("abort", abort(0), 0, S::ReceivedError, S::AbortedError, None),
        ("wrong fulfilment", wrong, 0, S::ReceivedError, S::AbortedError, Some(ErrorCode::ValidationError)),
        (
            "expiry",
            expire(9),
            10_001,
            S::ReservedTimeout,
            S::ExpiredReserved,
            Some(ErrorCode::TransferExpired),
        ),
    ];
    for (name, command, later, between, end, code) in cases {
        let mut world = with_tokens();
        let fence = world.fence();
        world.frame(&[funded(0, 70, &["a60", "a40"])]);
        world.now += later;
        let effects = world.frame(&[command]);
        let states: Vec<S> = effects.state_changes().iter().map(|change| change.state).collect();
        assert_eq!(states, [between, end], "{name}");
        assert_eq!(effects.tokens(), [TokenEffect::Unlocked { spender: spender(0), fence }], "{name}");
        assert!(effects.position_changes().is_empty() && effects.dead_letters().is_empty(), "{name}");
        assert_eq!((wallet(&world, ALICE), wallet(&world, BOB)), ((100, 0), (0, 0)), "{name}");
        assert!(world.memory.locks.is_empty() && world.memory.holds.is_empty(), "{name}");
        let known = world.transfer(0);
        let expected = code.map_or_else(|| Some(5104), |code| Some(code.number()));
        assert_eq!(known.code.map(|code| code.number()), expected, "{name}");
        // Another transfer can have them.
        let again = world.frame(&[funded(1, 100, &["a60", "a40"])]);
        assert_eq!(
            again.outcomes()[0].state,
            Some(if later == 0 { S::Reserved } else { S::Invalid }),
            "{name}"
        );
    }
}

/// The flow of each case, on positions and on tokens, calls the same participants with the same messages.
#[test]
fn callbacks_are_those_of_any_transfer() {
    let wrong = |action| fulfil_by(PAYEE, 0, action, fulfilment(9));
    let cases: [(&str, Vec<Command>); 10] = [
        ("commit", vec![fulfil(0)]),
        ("reserve", vec![reserve(0)]),
        ("abort", vec![abort(0)]),
        ("wrong commit", vec![wrong(FulfilAction::Commit)]),
        ("wrong reserve", vec![wrong(FulfilAction::Reserve)]),
        ("twice", vec![fulfil(0), fulfil(0)]),
        ("abort after fulfil", vec![fulfil(0), abort(0)]),
        ("not by the payee", vec![fulfil_by(OTHER, 0, FulfilAction::Commit, fulfilment(0))]),
        ("lookup", vec![lookup_by(PAYER, 0)]),
        ("late", vec![expire(9), fulfil(0), reserve(0)]),
    ];
    for (name, commands) in cases {
        let mut seen = Vec::new();
        for first in [prepare(0, 70 * UNIT), funded(0, 70, &["a60", "a40"])] {
            let mut world = with_tokens();
            let mut calls = world.calls(std::slice::from_ref(&first));
            world.now += if name == "late" { 20_000 } else { 0 };
            calls.extend(world.calls(&commands));
            calls.extend(world.calls(&[first]));
            let effects = world.foreseen(&commands);
            seen.push((calls, effects.notifications(), world.transfer(0).history()));
        }
        assert_eq!(seen[0], seen[1], "{name}");
    }
    let mut seen = Vec::new();
    for first in [prepare(0, 500 * UNIT), funded(0, 500, &[])] {
        let mut world = with_tokens();
        let calls = [world.calls(std::slice::from_ref(&first)), world.calls(&[first])];
        seen.push((calls, world.transfer(0).history(), world.transfer(0).code));
    }
    assert_eq!(seen[0], seen[1], "over the limit, and short of tokens");
}

#[test]
fn without_the_right_tokens_it_is_rejected_for_want_of_funds() {
    let mut world = with_tokens();
    world.frame(&[
        issue(vec![
            usd_token("b", BOB, 100),
            usd_token("exact", ALICE, 100),
            holdfast_domain::tokens::Token::new("eur2", ALICE, "EUR", 100),
            usd_token("bond", ALICE, 100).of_type("bond"),
            usd_token("n1", ALICE, 50).notary("one"),
            usd_token("n2", ALICE, 50).notary("two"),
            usd_token("locked", ALICE, 100),
            usd_token("gone", ALICE, 100),
        ]),
        lock("somebody", &["locked"], 60_000),
        update(&["gone"], vec![]),
    ]);
    let before = world.memory.tokens.clone();
    let cases: [&[&str]; 10] = [
        &[],
        &["a60"],
        &["b"],
        &["eur2"],
        &["bond"],
        &["n1", "n2"],
        &["locked"],
        &["gone"],
        &["never"],
        &["a60", "a60"],
    ];
    for (no, names) in (0_u8..).zip(cases) {
        let effects = world.frame(&[funded(no, 70, names)]);
        let (at, code) = (u64::from(no), ErrorCode::PayerInsufficientLiquidity);
        let expected = Lists {
            transfers: vec![id(u128::from(no))],
            state_changes: vec![moved(at, S::ReceivedPrepare), moved_with(at, S::AbortedRejected, code)],
            notifications: vec![told_with(at, Party::Payer, Told::Refused, code)],
            outcomes: vec![refused(answer(at, S::AbortedRejected, 0), code, None)],
            ..Lists::default()
        };
        assert_effects(effects, expected);
    }
    assert_eq!(world.memory.tokens, before);
    assert_eq!(world.memory.locks.len(), 1, "only that of somebody else");
    let enough = world.frame(&[funded(10, 100, &["exact"])]);
    assert_eq!(enough.outcomes(), [answer(10, S::Reserved, 0)], "equality passes");
}

#[test]
fn tokens_whose_lease_has_run_out_are_free() {
    let mut world = with_tokens();
    world.frame(&[lock("slow", &["a60"], 1_000)]);
    world.now += 1_000;
    let effects = world.frame(&[funded(0, 60, &["a60"])]);
    assert_eq!(effects.outcomes(), [answer(0, S::Reserved, 0)]);
    assert!(matches!(&effects.tokens()[..], [TokenEffect::Unlocked { .. }, TokenEffect::Locked(_)]));
    let late = world.frame(&[spend("slow", &[("eve", 60)], 7)]);
    assert!(matches!(
        late.outcomes()[0].token.as_deref(),
        Some(TokenOutcome::Refused(TokenRefusal::LeaseLost(_)))
    ));
}

#[test]
fn a_spender_that_is_used_up_or_busy_cannot_be_a_transfer_any_more() {
    let mut world = with_tokens();
    let name = spender(0);
    world.frame(&[lock(&name, &["a60"], 60_000), spend(&name, &[("eve", 60)], 7)]);
    assert_eq!(world.frame(&[funded(0, 40, &["a40"])]).outcome(0).state, Some(S::AbortedRejected));
    world.frame(&[lock(&spender(1), &["a40"], 60_000)]);
    let effects = world.frame(&[funded(1, 40, &["a40"])]);
    assert_eq!((effects.outcome(0).state, effects.tokens().len()), (Some(S::AbortedRejected), 0));
}

#[test]
fn the_rules_of_every_prepare_come_first_and_fractions_are_refused() {
    let mut world = with_tokens();
    let cases = [
        (Prepare { payee: ParticipantId(9), ..funded_of(0, 70, &["a60", "a40"]) }, Reason::PayeeUnknown),
        (Prepare { payee: PAYER, ..funded_of(1, 70, &["a60", "a40"]) }, Reason::PayerIsPayee),
        (Prepare { expiration: NOW, ..funded_of(2, 70, &["a60", "a40"]) }, Reason::ExpirationPast),
        (Prepare { amount: Amount(0), ..funded_of(3, 70, &["a60", "a40"]) }, Reason::AmountNotPositive),
        (Prepare { amount: Amount(UNIT / 2), ..funded_of(4, 70, &["a60"]) }, Reason::AmountNotWhole),
        (
            Prepare { amount: Amount(70 * UNIT + 1), ..funded_of(5, 70, &["a60", "a40"]) },
            Reason::AmountNotWhole,
        ),
    ];
    for (no, (prepare, reason)) in (0..).zip(cases) {
        let effects = world.frame(&[prepared(prepare)]);
        let (code, invalid) = (ErrorCode::ValidationError, answer(no, S::Invalid, 0));
        assert_eq!(effects.outcomes(), [refused(invalid, code, Some(reason))]);
        assert!(effects.tokens().is_empty());
        assert!(!world.transfer(no).is_funded(), "INVALID holds nothing");
    }
}

#[test]
fn no_position_account_and_no_limit_are_needed() {
    let mut world = World::with(1, 1);
    world.frame(&[
        issue(vec![holdfast_domain::tokens::Token::new("e", ALICE, "EUR", 9), usd_token("u", ALICE, 1_000)]),
        Command::Admin(Admin::SetAccountActive { account: PAYER_POSITION, active: false }),
    ]);
    let euros = Prepare { currency: "EUR".parse().unwrap(), ..funded_of(0, 9, &["e"]) };
    let effects = world.frame(&[prepared(euros), funded(1, 1_000, &["u"]), fulfil(0), fulfil(1)]);
    let expected = [S::Reserved, S::Reserved, S::Committed, S::Committed];
    assert_eq!(states(&effects), expected.map(Some));
    assert!(effects.position_changes().is_empty() && effects.alarms().is_empty());
}

#[test]
fn a_repeat_changes_nothing_whatever_it_has_chosen() {
    let mut world = with_tokens();
    world.frame(&[funded(0, 60, &["a60"])]);
    for (names, ended) in
        [(&[][..], false), (&["a40"], false), (&["a60"], false), (&[], true), (&["a40"], true)]
    {
        if ended && world.memory.locks.contains_key(&*spender(0)) {
            world.frame(&[fulfil(0)]);
        }
        let before = world.memory.clone();
        let effects = world.frame(&[funded(0, 60, names)]);
        let state = if ended { S::Committed } else { S::Reserved };
        assert_eq!(effects.outcomes(), [answer(0, state, 0)], "{names:?}");
        assert_eq!(world.memory, before, "{names:?}");
    }
    let other = world.frame(&[funded(0, 61, &["a40"])]);
    assert_eq!(other.outcomes()[0].code, Some(ErrorCode::ModifiedRequest.into()));
}

#[test]
fn nobody_else_can_end_the_hold_or_take_its_tokens() {
    let mut world = with_tokens();
    let fence = world.fence();
    world.frame(&[funded(0, 70, &["a60", "a40"])]);
    let before = world.memory.clone();
    let name = spender(0);
    let commands = [
        as_command(unlock(&name, None)),
        as_command(unlock(&name, Some(fence))),
        as_command(renew(&name, None, 1)),
        spend(&name, &[("eve", 70)], 7),
        lock(&name, &["a60"], 1_000),
        lock("eve", &["a60"], 1_000),
        update(&["a60"], vec![]),
        issue(vec![usd_token(&format!("hold:{name}.0"), "eve", 1)]),
        update(&[], vec![usd_token(&format!("hold:{name}.0"), "eve", 1)]),
        update(&[&format!("hold:{name}.0")], vec![]),
        funded(1, 60, &["a60"]),
    ];
    for command in &commands[..10] {
        let effects = world.frame(std::slice::from_ref(command));
        let refused = matches!(effects.outcome(0).token.as_deref(), Some(TokenOutcome::Refused(_)));
        assert!(refused, "{command:?}: {:?}", effects.outcome(0));
        assert_eq!(world.memory, before, "{command:?}");
    }
    assert_eq!(world.frame(&commands[10..]).outcome(0).state, Some(S::AbortedRejected));
    world.now += 9_000;
    world.frame(&[expire(9)]);
    assert_eq!(world.memory.locks.len(), 1, "no lease ends it");
    assert_eq!(world.frame(&[fulfil(0)]).outcome(0).state, Some(S::Committed));
    // What it paid out is an ordinary token, which an outside ledger may take.
    let paid = format!("hold:{name}.0");
    let taken = world.frame(&[update(&[&paid], vec![])]);
    let updated = TokenOutcome::Updated { produced: 0, consumed: 1 };
    assert_eq!(taken.outcomes()[0].token.as_deref(), Some(&updated));
}

#[test]
fn commands_of_one_frame_see_what_the_ones_before_did_to_tokens() {
    let mut world = World::roomy();
    let onward = |n: u8, from: &str, to: &str, units: i64, names: &[&str]| {
        let prepare = prepare_of(n, units * UNIT);
        let funding = Funding::new(prepare.id, from.into(), to.into(), ids(names));
        prepared(Prepare { funding: Some(Box::new(funding)), ..prepare })
    };
    let paid = format!("hold:{}.0", spender(0));
    let effects = world.frame(&[
        issue(vec![usd_token("t", ALICE, 10)]),
        onward(0, ALICE, BOB, 10, &["t"]),
        onward(1, ALICE, BOB, 10, &["t"]),
        prepare(2, 5),
        fulfil(0),
        onward(3, BOB, "carol", 4, &[&paid]),
        fulfil(3),
        fulfil(2),
    ]);
    let (reserved, committed) = (Some(S::Reserved), Some(S::Committed));
    let rejected = Some(S::AbortedRejected);
    assert_eq!(
        states(&effects),
        [None, reserved, rejected, reserved, committed, reserved, committed, committed]
    );
    assert_eq!(
        (wallet(&world, BOB), wallet(&world, "carol"), wallet(&world, ALICE)),
        ((6, 0), (4, 0), (0, 0))
    );
    assert_eq!(world.value(PAYER_POSITION), 5, "the one on positions alone");
}

#[test]
fn the_keys_of_a_prepare_name_its_tokens_and_its_spender() {
    let command = funded(5, 70, &["a60", "a40"]);
    let mut keys = Vec::new();
    command.each_key(&mut |key| keys.push(format!("{key:?}")));
    let (name, [first, second]) = (spender(5), [&ids(&["a60"])[0], &ids(&["a40"])[0]]);
    let expected = [Key::Transfer(id(5)), Key::Spender(&name), Key::Token(first), Key::Token(second)];
    assert_eq!(keys, expected.map(|key| format!("{key:?}")));
}
