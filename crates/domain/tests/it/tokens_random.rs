//! Whatever is sent, in whatever frames: the vault answers as a naive one does, a token is locked by at most one live
//! spender and consumed at most once, and no value comes or goes but by issue, update and redeem.

use std::sync::Arc;

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::command::Command;
use holdfast_domain::effects::Effects;
use holdfast_domain::records::{self, Sealed};
use holdfast_domain::tokens::{
    Fingerprint, LockTokens, Output, SpendRequest, SpendTokens, Token, TokenCommand, TokenEffect,
    TokenOutcome,
};
use proptest::prelude::*;

use crate::tokens_naive::{Answer, Naive, NaiveLock, answer};
use crate::tokens_world::{as_command, ids, renew, token, unlock, update};
use crate::world::{Flat, World, digest, expire};

/// The stored rows, as the naive vault would have them.
fn naive_of(vault: &World, value: &BTreeMap<Option<String>, i128>) -> Naive {
    let memory = &vault.memory;
    let live = memory.tokens.iter().map(|(id, row)| (id.to_string(), row.token.clone())).collect();
    let locks = memory.locks.values().filter(|row| row.expires_at > vault.now).map(|row| {
        let ids = row.tokens.iter().map(ToString::to_string).collect();
        (
            row.spender.to_string(),
            NaiveLock { fence: row.fence, until: row.expires_at, body: row.body.0, ids },
        )
    });
    let spent = memory
        .spends
        .iter()
        .map(|(spender, row)| (spender.clone(), (row.body.0, row.transaction.produced.clone())));
    Naive {
        live,
        gone: memory.consumed.iter().map(ToString::to_string).collect(),
        locks: locks.collect(),
        spent: spent.collect(),
        value: value.clone(),
    }
}

/// Invariant 4, on the rows themselves: one live lock per token, and holders and locks say the same.
fn assert_rows_agree(vault: &World) {
    let mut held: BTreeMap<String, String> = BTreeMap::new();
    for row in vault.memory.locks.values() {
        for id in row.tokens.iter() {
            let before = held.insert(id.to_string(), row.spender.to_string());
            assert_eq!(before, None, "{id} is under two locks");
        }
    }
    let holders: BTreeMap<String, String> = vault
        .memory
        .tokens
        .iter()
        .filter_map(|(id, row)| Some((id.to_string(), row.holder.as_ref()?.to_string())))
        .collect();
    assert_eq!(holders, held);
    assert!(
        vault.memory.tokens.keys().all(|id| !vault.memory.consumed.contains(id)),
        "none is dead and alive"
    );
}

/// Each issuer's live tokens are worth what came less what went.
fn assert_value_is_conserved(naive: &Naive, vault: &World) {
    let mut live: BTreeMap<Option<String>, i128> =
        naive.value.keys().map(|issuer| (issuer.clone(), 0)).collect();
    for row in vault.memory.tokens.values() {
        let issuer = row.token.kind.issuer.as_ref().map(ToString::to_string);
        *live.get_mut(&issuer).expect("it came") += i128::from(row.token.quantity);
    }
    assert_eq!(live, naive.value);
}

// What is sent.

const TOKENS: u8 = 14;

/// Token `n`: always the same one, but for a rare copy that is worth more.
fn numbered(n: u8, other: bool) -> Token {
    let quantity = if n == 0 { u64::MAX } else { u64::from(n) * 3 + u64::from(other) };
    let issued = match n % 3 {
        0 => token(&format!("t{n}"), quantity).issuer("x"),
        1 => token(&format!("t{n}"), quantity).issuer("y"),
        _ => token(&format!("t{n}"), quantity),
    };
    if n == 5 { issued.notary("n") } else { issued }
}

fn some_tokens() -> impl Strategy<Value = Vec<Token>> {
    let one = (0..TOKENS, 0..12_u8).prop_map(|(n, other)| numbered(n, other == 0));
    proptest::collection::vec(one, 0..4)
}

fn some_ids() -> impl Strategy<Value = Vec<String>> {
    // Also ids that spends make: transaction n, output 0 or 1.
    let given = (0..TOKENS).prop_map(|n| format!("t{n}"));
    let made = (0..40_u128, 0..2_u8)
        .prop_map(|(n, output)| format!("{}.{output}", holdfast_domain::ids::TransferId(n)));
    let list = proptest::collection::vec(prop_oneof![5 => given, 2 => made], 1..4);
    prop_oneof![1 => Just(Vec::new()), 30 => list]
}

fn spender() -> impl Strategy<Value = String> {
    (0..8_u8).prop_map(|n| format!("p{n}"))
}

/// Fences are guessed: now and then the right one.
fn fence() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![4 => Just(None), 1 => (100..140_u64).prop_map(Some)]
}

fn spends() -> impl Strategy<Value = SpendTokens> {
    let quantity = prop_oneof![9 => 1..20_u64, 1 => Just(u64::MAX)];
    let output = ((0..3_u8), quantity).prop_map(|(n, quantity)| Output::new(format!("w{n}"), quantity));
    let redeem = prop_oneof![3 => Just(0_u64), 1 => 0..20_u64];
    (spender(), fence(), proptest::collection::vec(output, 0..3), redeem).prop_map(
        |(spender, fence, outputs, redeem)| {
            let request = SpendRequest { spender: spender.as_str().into(), fence, outputs, redeem };
            SpendTokens { body: request.fingerprint(), request, transaction: 0 }
        },
    )
}

/// One command, or a lock with what its spender does next.
fn commands() -> impl Strategy<Value = Vec<Command>> {
    let issues = some_tokens().prop_map(|tokens| TokenCommand::Issue { tokens });
    let lock = || {
        (spender(), some_ids(), 1..40_i64, 0..3_u128).prop_map(|(spender, wanted, lease_ms, body)| {
            let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
            let (spender, body) = (spender.as_str().into(), Fingerprint(body));
            LockTokens { spender, ids: ids(&wanted).into(), amount: 1, lease_ms, body }
        })
    };
    let lock_and_spend = (lock(), spends()).prop_map(|(lock, mut spend)| {
        spend.request.spender = lock.spender.clone();
        spend.body = spend.request.fingerprint();
        vec![as_command(TokenCommand::Lock(lock)), as_command(TokenCommand::Spend(spend))]
    });
    let lock_and_renew = (lock(), 1..40_i64).prop_map(|(lock, lease_ms)| {
        let renew = renew(&lock.spender, None, lease_ms);
        vec![as_command(TokenCommand::Lock(lock)), as_command(renew)]
    });
    let updates = (some_ids(), some_tokens()).prop_map(|(consumed, produced)| {
        let consumed: Vec<&str> = consumed.iter().map(String::as_str).collect();
        update(&consumed, &produced)
    });
    let unlocks = (spender(), fence()).prop_map(|(spender, fence)| unlock(&spender, fence));
    let renews =
        (spender(), fence(), 1..30_i64).prop_map(|(spender, fence, lease)| renew(&spender, fence, lease));
    let single = prop_oneof![
        3 => issues,
        8 => lock().prop_map(TokenCommand::Lock),
        3 => spends().prop_map(TokenCommand::Spend),
        2 => updates,
        2 => unlocks,
        2 => renews,
    ];
    prop_oneof![
        20 => single.prop_map(|command| vec![as_command(command)]),
        8 => lock_and_spend,
        2 => lock_and_renew,
        1 => (0..4_u32).prop_map(|max| vec![expire(max)]),
    ]
}

type Frame = (i64, Vec<Command>);

/// Frames, each with the time since the one before. Every spend has a number of its own, as if drawn.
fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let list = proptest::collection::vec(commands(), 1..6).prop_map(|lists| lists.concat());
    let frame = (0..12_i64, list);
    proptest::collection::vec(frame, 1..14).prop_map(|mut frames| {
        let tokens =
            frames.iter_mut().flat_map(|(_, commands)| commands).filter_map(|command| match command {
                Command::Token(command) => Some(&mut **command),
                _ => None,
            });
        let spends = tokens.filter_map(|command| match command {
            TokenCommand::Spend(spend) => Some(spend),
            _ => None,
        });
        // An update that guesses the id of an output before there is one cannot happen with drawn numbers.
        for (number, spend) in (1_000..).zip(spends) {
            spend.transaction = number;
        }
        frames
    })
}

/// Some tokens to begin with, so that there is something to lock.
fn started() -> (World, Naive) {
    let (mut vault, mut naive) = (World::empty(), Naive::default());
    let first = TokenCommand::Issue {
        tokens: (0..TOKENS).filter(|n| n % 5 != 4).map(|n| numbered(n, false)).collect(),
    };
    assert_eq!(naive.command(vault.now, vault.fence(), &first), Answer::Issued);
    vault.tokens(vec![first]);
    (vault, naive)
}

/// Ids `1000.0` and so on exist only after their spend: lets locks and updates name those too.
fn with_outputs(commands: &mut [Command], vault: &World) {
    let made: Vec<_> = vault.memory.tokens.keys().filter(|id| id.as_str().len() > 30).cloned().collect();
    if made.is_empty() {
        return;
    }
    let rename = |wanted: &mut [holdfast_domain::tokens::TokenId]| {
        for (at, id) in wanted.iter_mut().enumerate().filter(|(_, id)| id.as_str().len() > 30) {
            *id = made[(at + id.as_str().bytes().map(usize::from).sum::<usize>()) % made.len()].clone();
        }
    };
    for command in commands {
        let Command::Token(command) = command else { continue };
        match &mut **command {
            TokenCommand::Lock(command) => rename(Arc::make_mut(&mut command.ids)),
            TokenCommand::Update { consumed, .. } => rename(consumed),
            _ => {}
        }
    }
}

fn consumed_by(effects: &Effects) -> impl Iterator<Item = String> {
    effects.all(|step| &step.tokens).filter_map(|effect| match effect {
        TokenEffect::Consumed(id) => Some(id.to_string()),
        _ => None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_vault_answers_as_a_naive_one(frames in frames()) {
        let (mut vault, mut naive) = started();
        let mut consumed: BTreeSet<String> = BTreeSet::new();
        for (later, mut commands) in frames {
            vault.now += later;
            with_outputs(&mut commands, &vault);
            let first = vault.fence();
            let effects = vault.frame(&commands);
            for ((fence, command), outcome) in (first..).zip(&commands).zip(&effects.outcomes()) {
                match command {
                    Command::Token(command) => {
                        let expected = naive.command(vault.now, fence, command);
                        prop_assert_eq!(answer(outcome.token.as_ref().unwrap()), expected, "{:?}", command);
                    }
                    Command::Expire(expire) => prop_assert!(outcome.subject.ended() <= u64::from(expire.holds_max)),
                    _ => unreachable!("only these are sent"),
                }
            }
            naive.locks.retain(|_, lock| lock.until > vault.now);
            prop_assert_eq!(naive_of(&vault, &naive.value), naive.clone());
            assert_rows_agree(&vault);
            assert_value_is_conserved(&naive, &vault);
            for id in consumed_by(&effects) {
                prop_assert!(consumed.insert(id.clone()), "{} is consumed twice", id);
            }
        }
        vault.now += 1_000;
        vault.frame(&[expire(u32::MAX)]);
        prop_assert!(vault.memory.locks.is_empty(), "all leases end");
    }

    #[test]
    fn a_frame_is_its_commands_one_after_another(frames in frames()) {
        let (mut together, _) = started();
        let mut alone = together.clone();
        for (later, mut commands) in frames {
            (together.now, alone.now) = (together.now + later, alone.now + later);
            with_outputs(&mut commands, &together);
            let effects = together.frame(&commands);
            let (mut tokens, mut outcomes) = (Vec::new(), Vec::new());
            for command in &commands {
                let effects = alone.frame(std::slice::from_ref(command));
                tokens.extend(effects.tokens());
                outcomes.extend(effects.outcomes());
            }
            prop_assert_eq!(effects.tokens(), tokens);
            prop_assert_eq!(effects.outcomes(), outcomes);
            prop_assert_eq!(&together.memory, &alone.memory);
        }
    }

    #[test]
    fn a_replay_of_the_records_does_the_same(frames in frames()) {
        let (mut live, _) = started();
        let mut replayed = live.clone();
        for (later, mut commands) in frames {
            live.now += later;
            with_outputs(&mut commands, &live);
            let effects = live.frame(&commands);
            replayed.now += later;
            let sealed = Sealed::of(&commands);
            let again = replayed.frame(&records::read_all(sealed.bytes()).unwrap());
            prop_assert_eq!(digest(&effects), digest(&again));
            prop_assert_eq!(effects, again);
        }
        prop_assert_eq!(live.memory, replayed.memory);
    }

    #[test]
    fn a_refusal_leaves_nothing(frames in frames()) {
        let (mut vault, _) = started();
        for (later, mut commands) in frames {
            vault.now += later;
            with_outputs(&mut commands, &vault);
            for command in commands {
                let before = vault.memory.clone();
                let effects = vault.frame(std::slice::from_ref(&command));
                if let Some(TokenOutcome::Refused(_)) = effects.outcome(0).token.as_deref() {
                    prop_assert!(effects.tokens().is_empty());
                    prop_assert_eq!(&vault.memory, &before);
                }
                // What was locked or spent once is not locked or spent again by its repeat.
                let again = vault.frame(std::slice::from_ref(&command));
                let repeats = matches!(&command, Command::Token(token) if matches!(&**token, TokenCommand::Lock(_) | TokenCommand::Spend(_)));
                if repeats && !effects.tokens().is_empty() {
                    prop_assert!(again.tokens().is_empty());
                    prop_assert_eq!(&again.outcomes(), &effects.outcomes());
                }
            }
        }
    }
}
