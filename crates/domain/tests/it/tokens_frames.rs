//! Several commands in one frame: each sees what those before it did. And leases that end by the expiry service.

use std::sync::Arc;

use holdfast_domain::tokens::TokenOutcome::{Issued, Locked, Refused, Released, Renewed, Spent, Updated};
use holdfast_domain::tokens::TokenRefusal::{Consumed, Exists, LeaseLost, SpenderInUse, Taken, Unknown};

use crate::tokens_world::*;
use crate::world::*;

fn lock_for(spender: &str, id: &str, lease_ms: i64) -> TokenCommand {
    TokenCommand::Lock(LockTokens { lease_ms, ..lock_of(spender, &[id]) })
}

/// Who lost its lock in these effects, in order.
fn ended(effects: &[TokenEffect]) -> Vec<String> {
    let ended = |effect: &TokenEffect| match effect {
        TokenEffect::Unlocked { spender, .. } => spender.to_string(),
        other => panic!("{other:?}"),
    };
    effects.iter().map(ended).collect()
}

fn ends(count: u64) -> Vec<Outcome> {
    vec![no_transfer(None, Subject::Ended(count), 0)]
}

// The second sees the first.

#[test]
fn lock_and_spend() {
    let mut vault = World::vault(2);
    let fence = vault.fence();
    let (answers, effects) =
        vault.tokens(vec![lock("p", &["t1"]), fenced(spend_of("p", &[("bob", 10)]), fence)]);
    let row = lock_row("p", fence, NOW, &["t1"]);
    let bobs = Token::new(made(0), "bob", "EUR", 10);
    let spent = spend_row(&spend_of("p", &[("bob", 10)]), &["t1"], std::slice::from_ref(&bobs));
    assert_eq!(answers, [Locked(Arc::clone(&row)), Spent(Arc::clone(&spent))]);
    assert_eq!(
        effects,
        [locked(&row), unlocked(&row), consumed("t1"), produced(&bobs), TokenEffect::Spent(spent)]
    );
}

#[test]
fn a_fence_of_the_same_frame_counts_from_the_frames_first_record() {
    let mut vault = World::vault(3);
    let first = vault.fence();
    let (answers, _) =
        vault.tokens(vec![lock("p", &["t1"]), issue(&[]), lock("q", &["t2"]), unlock("q", Some(first + 2))]);
    let fences: Vec<u64> = answers
        .iter()
        .filter_map(|answer| if let Locked(row) = answer { Some(row.fence) } else { None })
        .collect();
    assert_eq!(fences, [first, first + 2]);
    assert_eq!(answers[3], Released(1));
}

#[test]
fn issue_and_lock_and_issue_again() {
    let mut vault = World::empty();
    let (answers, _) = vault.tokens(vec![
        lock("p", &["a"]),
        issue(&[token("a", 1)]),
        lock("p", &["a"]),
        issue(&[token("a", 1)]),
    ]);
    let row = lock_row("p", 103, NOW, &["a"]);
    assert_eq!(answers, [Refused(Unknown("a".into())), Issued, Locked(row), Refused(Exists("a".into()))]);
}

#[test]
fn unlock_and_lock() {
    let mut vault = World::vault(2);
    let old = vault.locked("p", &["t1"]);
    let row = lock_row("q", vault.fence() + 2, NOW, &["t1", "t2"]);
    let (answers, effects) =
        vault.tokens(vec![lock("q", &["t1"]), unlock("p", None), lock("q", &["t1", "t2"])]);
    assert_eq!(answers, [Refused(Taken("t1".into())), Released(1), Locked(Arc::clone(&row))]);
    assert_eq!(effects, [unlocked(&old), locked(&row)]);
}

#[test]
fn two_that_want_the_same_token() {
    let mut vault = World::vault(2);
    let (answers, _) = vault.tokens(vec![lock("p", &["t1"]), lock("q", &["t2", "t1"]), lock("p", &["t1"])]);
    let row = lock_row("p", vault.fence() - 3, NOW, &["t1"]);
    assert_eq!(answers, [Locked(Arc::clone(&row)), Refused(Taken("t1".into())), Locked(row)]);
    assert_eq!(vault.holder("t2"), None);
}

#[test]
fn spend_and_its_repeat_and_the_outputs_spent_on() {
    let mut vault = World::vault(1);
    vault.locked("p", &["t1"]);
    let next = SpendTokens { transaction: 1, ..spend_of("q", &[("carol", 10)]) };
    let (answers, _) = vault.tokens(vec![
        spend("p", &[("bob", 10)]),
        spend("p", &[("bob", 10)]),
        spend("p", &[("bob", 9)]),
        lock("p", &["t1"]),
        lock("q", &["t1"]),
        lock("q", &[&made(0)]),
        TokenCommand::Spend(next),
        lock("r", &[&made(0)]),
    ]);
    assert!(matches!(answers[0], Spent(_)) && answers[0] == answers[1]);
    assert_eq!(answers[2], Refused(SpenderInUse("it has spent to other outputs")));
    assert_eq!(answers[3], Refused(SpenderInUse("it has spent already")));
    assert_eq!(answers[4], Refused(Consumed("t1".into())));
    assert!(matches!((&answers[5], &answers[6]), (Locked(_), Spent(_))));
    assert_eq!(answers[7], Refused(Consumed(made(0).as_str().into())));
}

#[test]
fn renew_and_what_it_moved() {
    let mut vault = World::vault(1);
    let row = vault.locked("p", &["t1"]);
    vault.now += LEASE - 1;
    let (first, second) = (vault.now + 5, vault.now + 9);
    let (answers, _) =
        vault.tokens(vec![renew("p", None, 5), renew("p", Some(row.fence), 9), lock("p", &["t1"])]);
    let renewed = |expires_at| Renewed { fence: row.fence, expires_at };
    assert_eq!(answers[..2], [renewed(first), renewed(second)]);
    let Locked(found) = &answers[2] else { panic!("{answers:?}") };
    assert_eq!((found.expires_at, found.fence), (second, row.fence));
}

#[test]
fn update_between_lock_and_spend() {
    let mut vault = World::vault(2);
    let (answers, _) = vault.tokens(vec![
        lock("p", &["t1", "t2"]),
        update(&["t1"], &[token("a", 1)]),
        spend("p", &[("bob", 1)]),
        lock("q", &["t2", "a"]),
        update(&["a"], &[token("t1", 10)]),
        lock("r", &["t2"]),
    ]);
    assert_eq!(answers[1], Updated { produced: 1, consumed: 1 });
    assert_eq!(answers[2], Refused(LeaseLost("it holds nothing")));
    assert!(matches!(answers[3], Locked(_)));
    assert_eq!(answers[4], Updated { produced: 0, consumed: 1 });
    assert!(matches!(answers[5], Locked(_)));
}

#[test]
fn an_expired_lock_that_gave_way_is_gone_for_the_rest_of_the_frame() {
    let mut vault = World::vault(3);
    vault.locked("p", &["t1", "t2"]);
    vault.now += LEASE;
    let (answers, effects) =
        vault.tokens(vec![lock("q", &["t1"]), lock("r", &["t2"]), unlock("p", None), lock("p", &["t3"])]);
    assert_eq!(answers[2], Released(0));
    assert_eq!(effects.len(), 4, "the old lock ended once: {effects:?}");
    assert!(answers.iter().all(|answer| !matches!(answer, Refused(_))));
}

#[test]
fn tokens_and_transfers_share_a_frame() {
    let mut world = World::roomy();
    let commands =
        [prepare(0, 5), as_command(issue(&[token("a", 1)])), prepare(1, 5), as_command(lock("p", &["a"]))];
    let first = world.fence();
    let effects = world.frame(&commands);
    let reserved = TransferState::Reserved;
    assert_eq!(*effects.outcome(0), answer(0, reserved, 5));
    assert_eq!(*effects.outcome(1), of_tokens(Issued));
    assert_eq!(*effects.outcome(2), answer(1, reserved, 10));
    let locked = effects.outcome(3).token.as_deref();
    assert_eq!(
        locked,
        Some(&TokenOutcome::Locked(lock_row("p", first + 3, NOW, &["a"]))),
        "its fourth record"
    );
}

// Leases that end.

#[test]
fn expiry_ends_due_leases_oldest_first_and_at_most_so_many() {
    let mut vault = World::vault(6);
    let lock = |n: usize, lease| as_command(lock_for(&format!("p{n}"), &format!("t{n}"), lease));
    vault.frame(&[lock(1, 40), lock(2, 10), lock(3, 30), lock(4, 10), lock(5, 20), lock(6, 50)]);
    vault.now += 45;
    let expired = |vault: &mut World, max| {
        let effects = vault.frame(&[expire(max)]);
        let ended = ended(&effects.tokens());
        assert_eq!(effects.outcomes(), ends(ended.len() as u64));
        ended
    };
    assert!(expired(&mut vault, 0).is_empty());
    assert_eq!(expired(&mut vault, 3), ["p2", "p4", "p5"], "two of the same time in order of their fences");
    assert_eq!(expired(&mut vault, 100), ["p3", "p1"]);
    assert!(expired(&mut vault, 100).is_empty());
    assert_eq!((vault.holder("t1"), vault.holder("t6")), (None, Some("p6")));
}

#[test]
fn a_lease_is_due_at_its_very_end() {
    for (after, count) in [(LEASE - 1, 0), (LEASE, 1), (LEASE + 1, 1)] {
        let mut vault = World::vault(1);
        vault.locked("p", &["t1"]);
        vault.now += after;
        assert_eq!(vault.frame(&[expire(9)]).outcomes(), ends(count), "after {after}");
    }
}

#[test]
fn what_a_transfer_holds_never_runs_out() {
    let mut vault = World::vault(1);
    vault.locked("p", &["t1"]);
    vault.held_by_transfer("p");
    vault.now = i64::MAX - 1;
    assert_eq!(vault.frame(&[expire(9)]).outcomes(), ends(0));
}

#[test]
fn expiry_in_a_frame_sees_what_the_frame_did() {
    let mut vault = World::vault(5);
    let lock = |n: usize| as_command(lock_for(&format!("p{n}"), &format!("t{n}"), 10 * n as i64));
    vault.frame(&[lock(1), lock(2), lock(3), lock(4)]);
    vault.now += 35;
    // Of three due ones the first is given back, the second gives way; one is left for the expiry, and then none.
    let command = |command: TokenCommand| as_command(command);
    let commands: Vec<Command> = vec![
        command(unlock("p1", None)),
        command(lock_for("q", "t2", 1)),
        command(renew("p4", None, 1)),
        expire(1),
        expire(9),
        command(lock_for("p3", "t3", 1)),
        expire(9),
    ];
    let effects = vault.frame(&commands);
    let counts: Vec<u64> = [3, 4, 6].iter().map(|at| effects.outcomes()[*at].subject.ended()).collect();
    assert_eq!(counts, [1, 0, 0]);
    assert_eq!(vault.memory.locks.keys().collect::<Vec<_>>(), ["p3", "p4", "q"]);
    vault.now += 1;
    assert_eq!(vault.frame(&[expire(9)]).outcomes(), ends(3));
}

#[test]
fn holds_come_before_leases_under_one_bound() {
    let mut world = World::roomy();
    world.frame(&[prepare(0, 5), prepare(1, 5)]);
    world.frame(&[as_command(issue(&[token("a", 1), token("b", 1)]))]);
    world.frame(&[as_command(lock("p", &["a"])), as_command(lock("q", &["b"]))]);
    world.now = EXPIRATION + 1;
    for (max, count, leases) in [(1, 1, 0), (2, 2, 1), (9, 1, 1), (9, 0, 0)] {
        // At such a place in the log a hold goes first.
        world.offset = world.offset.next_multiple_of(4);
        let effects = world.frame(&[expire(max)]);
        assert_eq!((effects.outcomes(), effects.tokens().len()), (ends(count), leases), "at most {max}");
    }
}
