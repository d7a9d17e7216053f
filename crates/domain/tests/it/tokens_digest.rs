//! What tokens add to the audit chain: nothing to a frame without them, and something else for whatever differs.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_domain::effects::{Effects, Outcome, Step, Subject};
use holdfast_domain::tokens::{
    Fingerprint, Kind, LockRow, SpendRow, Token, TokenEffect, TokenOutcome, TokenRefusal, Transaction,
};

use crate::tokens_world::{as_command, ids, issue, lock, made, of_tokens, spend, token, unlock, update};
use crate::world::{World, digest, prepare};

fn of_step(step: Step) -> Vec<u8> {
    digest(&Effects { steps: vec![step] })
}

fn of_effects(tokens: Vec<TokenEffect>) -> Vec<u8> {
    of_step(Step { tokens, ..Step::default() })
}

fn of_effect(effect: TokenEffect) -> Vec<u8> {
    of_effects(vec![effect])
}

fn of_answer(outcome: Outcome) -> Vec<u8> {
    of_step(Step { outcomes: vec![outcome], ..Step::default() })
}

fn of_outcome(outcome: TokenOutcome) -> Vec<u8> {
    of_answer(of_tokens(outcome))
}

/// No two of them are the same bytes.
#[track_caller]
fn assert_all_differ(digests: &[Vec<u8>]) {
    for (at, digest) in digests.iter().enumerate() {
        if let Some(same) = digests[..at].iter().position(|other| other == digest) {
            panic!("number {same} and number {at} digest the same");
        }
    }
}

fn full_token() -> Token {
    let token = token("t", 5).of_type("bond").external_id("e").public_key("k").issuer("i").notary("n");
    token.attribute("a", "b").attribute("c", "d")
}

/// The value, and the same with each of these edits.
fn variants<T: Clone>(value: &T, edits: &[&dyn Fn(&mut T)]) -> Vec<T> {
    let mut all = vec![value.clone(); 1 + edits.len()];
    edits.iter().zip(&mut all[1..]).for_each(|(edit, one)| edit(one));
    all
}

/// The token, and the same with each of its fields another way.
fn token_variants() -> Vec<Token> {
    let change = |edit: &dyn Fn(&mut Kind)| {
        let mut token = full_token();
        edit(Arc::make_mut(&mut token.kind));
        token
    };
    let attributes = |pairs: &[(&str, &str)]| {
        let all: BTreeMap<String, String> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        change(&|kind| kind.attributes = Some(Arc::new(all.clone())))
    };
    vec![
        full_token(),
        Token { id: "u".into(), ..full_token() },
        Token { quantity: 6, ..full_token() },
        change(&|kind| kind.wallet = "bob".into()),
        change(&|kind| kind.token_type = "cash".into()),
        change(&|kind| kind.currency = "USD".into()),
        change(&|kind| kind.external_id = Some("f".into())),
        change(&|kind| kind.external_id = None),
        change(&|kind| kind.public_key = Some("l".into())),
        change(&|kind| kind.public_key = None),
        change(&|kind| kind.issuer = Some("j".into())),
        change(&|kind| kind.issuer = None),
        change(&|kind| kind.notary = Some("m".into())),
        change(&|kind| kind.notary = None),
        // The same name under another heading.
        change(&|kind| (kind.external_id, kind.public_key) = (None, Some("e".into()))),
        change(&|kind| kind.attributes = None),
        attributes(&[("a", "b")]),
        attributes(&[("c", "d")]),
        attributes(&[("a", "b"), ("c", "e")]),
        attributes(&[("a", "b"), ("e", "d")]),
        attributes(&[("a", "bc"), ("", "d")]),
    ]
}

fn lock_row() -> LockRow {
    LockRow {
        spender: "p".into(),
        fence: 7,
        since: 8,
        expires_at: 9,
        amount: 10,
        body: Fingerprint(11),
        tokens: ids(&["t1", "t2"]).into(),
        funding: None,
    }
}

fn lock_variants() -> Vec<LockRow> {
    variants(
        &lock_row(),
        &[
            &|row| row.spender = "q".into(),
            &|row| row.fence += 1,
            &|row| row.since += 1,
            &|row| row.expires_at += 1,
            &|row| (row.since, row.expires_at) = (9, 8),
            &|row| row.amount += 1,
            &|row| (row.fence, row.amount) = (10, 7),
            &|row| row.body.0 += 1,
            &|row| row.body.0 += 1 << 64,
            &|row| row.tokens = ids(&["t1"]).into(),
            &|row| row.tokens = ids(&["t2", "t1"]).into(),
            &|row| row.tokens = ids(&["t1t2"]).into(),
            &|row| row.tokens = ids(&["t", "1t2"]).into(),
            &|row| row.funding = Some("payee".into()),
            &|row| row.funding = Some("".into()),
        ],
    )
}

fn spend_row() -> SpendRow {
    let (consumed, produced) = (ids(&["t1", "t2"]), vec![token("x.0", 1), full_token()]);
    let transaction = Transaction { id: "x".into(), spender: "p".into(), consumed, produced };
    SpendRow { transaction, body: Fingerprint(3) }
}

fn spend_variants() -> Vec<SpendRow> {
    let mut all = variants(
        &spend_row(),
        &[
            &|row| row.body.0 += 1,
            &|row| row.transaction.id = "y".into(),
            &|row| row.transaction.spender = "q".into(),
            &|row| (row.transaction.id, row.transaction.spender) = ("p".into(), "x".into()),
            &|row| row.transaction.consumed.truncate(1),
            &|row| row.transaction.consumed.reverse(),
            &|row| row.transaction.produced.reverse(),
            &|row| row.transaction.produced.clear(),
            &|row| row.transaction.produced.truncate(1),
        ],
    );
    let with = |token: Token| {
        let mut row = spend_row();
        row.transaction.produced[1] = token;
        row
    };
    all.extend(token_variants().into_iter().skip(1).map(with));
    all
}

/// One of each kind, and each with each of its fields another way.
fn effect_variants() -> Vec<TokenEffect> {
    let unlocked = |spender: &str, fence| TokenEffect::Unlocked { spender: spender.into(), fence };
    let renewed = |spender: &str, fence, expires_at| {
        let row = lock_variants().swap_remove(0);
        TokenEffect::Renewed(Arc::new(LockRow { spender: spender.into(), fence, expires_at, ..row }))
    };
    let mut all: Vec<TokenEffect> = token_variants().into_iter().map(TokenEffect::Produced).collect();
    all.extend(["p", "q", "pq"].map(|id| TokenEffect::Consumed(id.into())));
    all.extend(lock_variants().into_iter().map(|row| TokenEffect::Locked(Arc::new(row))));
    all.extend([unlocked("p", 7), unlocked("q", 7), unlocked("p", 8)]);
    all.extend([
        renewed("p", 7, 9),
        renewed("q", 7, 9),
        renewed("p", 8, 9),
        renewed("p", 7, 8),
        renewed("p", 9, 7),
    ]);
    all.extend(spend_variants().into_iter().map(|row| TokenEffect::Spent(Arc::new(row))));
    all
}

#[test]
fn whatever_differs_in_an_effect_digests_differently() {
    let digests: Vec<Vec<u8>> = effect_variants().into_iter().map(of_effect).collect();
    assert_all_differ(&digests);
}

#[test]
fn order_and_number_of_effects_count() {
    let (first, second) = (TokenEffect::Consumed("a".into()), TokenEffect::Consumed("b".into()));
    assert_all_differ(&[
        of_effects(Vec::new()),
        of_effects(vec![first.clone()]),
        of_effects(vec![first.clone(), first.clone()]),
        of_effects(vec![first.clone(), second.clone()]),
        of_effects(vec![second, first]),
    ]);
}

/// Lists say how long they are: else the bytes of a second produced token could be read as an attribute of the first,
/// with its id for the name and its quantity for the length of the value.
#[test]
fn one_token_with_an_attribute_is_not_two_tokens() {
    let produced = |tokens: Vec<Token>| {
        let mut row = spend_row();
        row.transaction.produced = tokens;
        of_effect(TokenEffect::Spent(Arc::new(row)))
    };
    // What follows the quantity of the second token, as text: names behind their lengths, then four times nothing.
    let rest_of = |token: &Token| {
        let name = |name: &str| {
            format!("{}{}", char::from(u8::try_from(name.len()).unwrap()), "\0".repeat(7)) + name
        };
        let kind = &token.kind;
        [name(&kind.wallet), name(&kind.token_type), name(&kind.currency), "\0".repeat(4)].concat()
    };
    let second = token("second", 1);
    for counted in ["", &"\0".repeat(8)] {
        let value = rest_of(&second) + counted;
        let second = Token { quantity: value.len() as u64, ..second.clone() };
        assert_ne!(
            produced(vec![token("first", 1), second]),
            produced(vec![token("first", 1).attribute("second", value)])
        );
    }
}

#[test]
fn whatever_differs_in_an_answer_digests_differently() {
    let refused = |refusal| of_outcome(TokenOutcome::Refused(refusal));
    let locked = |fence| of_outcome(TokenOutcome::Locked(Arc::new(LockRow { fence, ..lock_row() })));
    let updated = |produced, consumed| of_outcome(TokenOutcome::Updated { produced, consumed });
    let renewed = |fence, expires_at| of_outcome(TokenOutcome::Renewed { fence, expires_at });
    let spent = |id: &str| {
        let mut row = spend_row();
        row.transaction.id = id.into();
        of_outcome(TokenOutcome::Spent(Arc::new(row)))
    };
    assert_all_differ(&[
        of_answer(crate::world::no_transfer(None, Subject::Nothing, 0)),
        of_outcome(TokenOutcome::Issued),
        locked(1),
        locked(2),
        spent("x"),
        spent("y"),
        updated(1, 2),
        updated(2, 1),
        of_outcome(TokenOutcome::Released(1)),
        of_outcome(TokenOutcome::Released(2)),
        renewed(1, 2),
        renewed(2, 1),
        refused(TokenRefusal::Taken("a".into())),
        refused(TokenRefusal::Taken("b".into())),
        refused(TokenRefusal::Consumed("a".into())),
        refused(TokenRefusal::Unknown("a".into())),
        refused(TokenRefusal::Exists("a".into())),
        refused(TokenRefusal::LeaseLost("why")),
        refused(TokenRefusal::SpenderInUse("why")),
        refused(TokenRefusal::Invalid("why".into())),
    ]);
}

#[test]
fn a_frame_without_tokens_has_none_of_their_bytes() {
    // The same transfers, with the vault empty and full: nothing tells the frames apart.
    let mut world = World::roomy();
    let before = digest(&world.foreseen(&[prepare(0, 5)]));
    world.frame(&[as_command(issue(&[token("a", 1)])), as_command(lock("p", &["a"]))]);
    assert_eq!(digest(&world.foreseen(&[prepare(0, 5)])), before);
    // Sixteen counts and rows of fixed size: see `golden_digest` for each of them.
    let (counts, transfer, states, position, told, outcome) = (13 * 8, 16, 2 * 12, 36, 12, 28);
    assert_eq!(before.len(), counts + transfer + states + position + told + outcome);
}

/// These bytes are in the audit chain. If they change, logs with tokens fail their check.
#[test]
fn the_bytes_of_a_small_frame_stay() {
    let mut vault = World::empty();
    let commands = [issue(&[token("a", 3)]), lock("p", &["a"]), spend("p", &[("bob", 3)]), unlock("p", None)];
    let commands: Vec<_> = commands.into_iter().map(as_command).collect();
    let mut bytes = digest(&vault.frame(&commands));
    let tokens = bytes.split_off(13 * 8 + 4 * 28);
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let number = |number: u64| number.to_le_bytes().to_vec();
    let token_bytes = |id: &str, wallet: &str| {
        [text(id), number(3), text(wallet), text("token"), text("EUR"), vec![0; 4], number(0)].concat()
    };
    let (one, output) = (made(0)[..36].to_owned(), made(0));
    let spent_body = crate::tokens_world::spend_of("p", &[("bob", 3)]).body.0.to_le_bytes().to_vec();
    let expected = [
        b"T".to_vec(),
        // Produced.
        [vec![1], token_bytes("a", "alice")].concat(),
        // Locked: spender, fence, amount, count, since, end, body, ids, no funding.
        [vec![3], text("p"), number(102), number(5), number(1), number(1_000_000), number(1_001_000)]
            .concat(),
        [7_u128.to_le_bytes().to_vec(), text("a"), vec![0]].concat(),
        // Unlocked, consumed, produced.
        [vec![4], text("p"), number(102), vec![2], text("a"), vec![1], token_bytes(&output, "bob")].concat(),
        // Spent: transaction, spender, body, what went, what came.
        [vec![6], text(&one), text("p"), spent_body, number(1), text("a")].concat(),
        [number(1), token_bytes(&output, "bob")].concat(),
        // Answers: issued, locked, spent, released.
        [vec![65, 66], number(102), vec![67], text(&one), vec![69], number(0)].concat(),
    ]
    .concat();
    assert_eq!(tokens, expected);
}

#[test]
fn the_same_frame_digests_the_same() {
    let run = || {
        let mut vault = World::vault(2);
        let frames = [vec![lock("p", &["t1"])], vec![spend("p", &[("bob", 3)]), update(&["t2"], &[])]];
        let mut bytes = Vec::new();
        for frame in frames {
            let commands: Vec<_> = frame.into_iter().map(as_command).collect();
            vault.frame(&commands).write_digest(&mut bytes);
        }
        bytes
    };
    assert_eq!(run(), run());
}
