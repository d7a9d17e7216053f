//! The records of the vault: their bytes, which lie in logs and may never change, and what is refused of them.
//!
//! The golden ones are part of [`crate::golden_records`], whose tests run over all kinds.

use std::sync::Arc;

use holdfast_domain::command::Command;
use holdfast_domain::records::{self, Kind, RecordError, SealError, Sealed, UNIT};
use holdfast_domain::tokens::{
    Fingerprint, Kind as TokenKind, LEASE_MS_MAX, LockTokens, Name, Output, SpendRequest, SpendTokens, Token,
    TokenCommand, TokenId,
};
use proptest::prelude::*;

use crate::golden_records::{bad, with_bytes, with_tail};
use crate::tokens_world::{as_command, ids, issue, renew, unlock, update};
use crate::world::{PAYER, lookup_by, written};

fn full() -> Token {
    let token = Token::new("t1", "w", "EUR", 0x0102).external_id("x").issuer("bank");
    token.attribute("c", "").attribute("a", "b")
}

fn plain() -> Token {
    Token::new("t2", "w", "EUR", u64::MAX)
}

fn golden_spend() -> SpendTokens {
    let mut bob = Output::new("bob", 60);
    bob.external_id = Some("x".into());
    bob.attributes.insert("k".into(), "v".into());
    let mut carol = Output::new("carol", 30);
    carol.public_key = Some("k".into());
    SpendTokens {
        request: SpendRequest {
            spender: "pay-1".into(),
            fence: Some(7),
            outputs: vec![bob, carol],
            redeem: 10,
        },
        body: Fingerprint(0x1011_1213_1415_1617_1819_1a1b_1c1d_1e1f),
        transaction: 0x2021_2223_2425_2627_2829_2a2b_2c2d_2e2f,
    }
}

/// Every kind of record: its name, the command, its bytes.
pub fn golden() -> Vec<(&'static str, Command, Vec<u8>)> {
    let spend = golden_spend();
    let redeem = SpendTokens {
        request: SpendRequest { fence: None, outputs: Vec::new(), ..spend.request.clone() },
        ..spend
    };
    let lock = LockTokens {
        spender: "pay-1".into(),
        ids: ids(&["t1", "t2"]).into(),
        amount: 100,
        lease_ms: 60_000,
        body: spend.body,
    };
    let commands = [
        ("token issue", issue(&[full(), plain()])),
        ("token lock", TokenCommand::Lock(lock)),
        ("token spend", TokenCommand::Spend(spend)),
        ("token spend without fence and outputs", TokenCommand::Spend(redeem)),
        ("token update", update(&["t0"], &[plain()])),
        ("token update of nothing", update(&[], &[])),
        ("token unlock", unlock("pay-1", Some(7))),
        ("token unlock of exactly one unit", unlock(&"s".repeat(61), None)),
        ("token renew", renew("pay-1", Some(7), 1)),
        ("token renew without a fence for a day", renew("pay-1", None, 86_400_000)),
    ];
    with_bytes(commands.map(|(name, command)| (name, as_command(command))).into())
}

#[test]
fn tails_that_end_too_early_or_too_late_are_refused() {
    let middle = bad("tail", "ends in the middle of a field");
    let late = bad("tail", "goes on after its last field");
    let count = bad("count", "is more than the tail can hold");
    for (name, _, bytes) in golden() {
        let kind = Kind::from_number(bytes[0]).unwrap();
        let length = usize::from(bytes[8]);
        let tail = &bytes[UNIT..UNIT + length];
        assert_eq!(with_tail(kind, tail), bytes, "{name}");
        for cut in 0..length {
            let refusal = records::read(&with_tail(kind, &tail[..cut])).unwrap_err();
            // A list that is cut is short of its count first, if there are fewer bytes than items.
            assert!(refusal == middle || refusal == count, "{name} cut at {cut}: {refusal}");
        }
        for more in [&[0][..], &[1], &[0; 64]] {
            assert_eq!(
                records::read(&with_tail(kind, &[tail, more].concat())),
                Err(late.clone()),
                "{name} and {more:?}"
            );
        }
    }
}

#[test]
fn a_length_of_the_tail_that_is_a_lie_is_refused() {
    let (length, padding) =
        (bad("tail length", "does not fit the record's length"), bad("padding", "must be zero"));
    let unlock = || with_tail(Kind::TokenUnlock, b"\x05\0pay-1\x01\x07\0\0\0\0\0\0\0");
    for (lie, refusal) in
        [(0, &length), (65, &length), (7, &padding), (17, &bad("tail", "goes on after its last field"))]
    {
        let mut bytes = unlock();
        bytes[8] = lie;
        assert_eq!(records::read(&bytes).as_ref(), Err(refusal), "{lie}");
    }
    let mut most = unlock();
    most[8..12].fill(0xff);
    assert_eq!(records::read(&most), Err(length));
    let mut padded = unlock();
    padded[UNIT + 16] = 1;
    assert_eq!(records::read(&padded), Err(padding));
}

#[test]
fn no_client_may_send_them_in_a_batch() {
    for (name, _, bytes) in golden() {
        let kind = Kind::from_number(bytes[0]).unwrap();
        let refusal = RecordError::NotForClients(kind);
        assert_eq!(records::seal(&mut bytes.clone()), Err(refusal.clone()), "{name}");
        assert_eq!(
            Sealed::from_client(bytes, 1),
            Err(SealError::Bad { index: 0, error: refusal }),
            "{name} in a batch"
        );
    }
    // Nor one that is hidden behind a record that a client may send.
    let lookup = lookup_by(PAYER, 1);
    let mut body = written(&lookup);
    body.extend(golden().swap_remove(0).2);
    let error = RecordError::NotForClients(Kind::TokenIssue);
    assert_eq!(Sealed::from_client(body, 2), Err(SealError::Bad { index: 1, error }));
}

#[test]
fn attributes_that_are_none_are_read_as_none() {
    let mut token = plain();
    Arc::make_mut(&mut token.kind).attributes = Some(Arc::default());
    let sealed = Sealed::of(&[as_command(issue(&[token]))]);
    assert_eq!(sealed.commands(), [as_command(issue(&[plain()]))]);
}

#[test]
fn plain_commands_are_the_same_as_they_are_and_read_back() {
    let commands = vec![as_command(unlock("pay-1", Some(7)))];
    assert_eq!(Sealed::of_plain(commands.clone()), Sealed::of(&commands));
}

/// In every build, and before anything is written: of such a command the bytes may say something else.
#[test]
#[should_panic(expected = "only plain token commands are taken as they are")]
fn a_command_that_is_not_plain_is_not_taken_as_it_is() {
    let _: Sealed = Sealed::of_plain(vec![as_command(unlock("pay-1", None)), as_command(issue(&[plain()]))]);
}

fn name() -> impl Strategy<Value = Name> {
    "(?s).{1,12}".prop_map(|name| Name::from(name.as_str()))
}

fn token_id() -> impl Strategy<Value = TokenId> {
    name().prop_map(|name| TokenId::from(&*name))
}

fn attributes() -> impl Strategy<Value = std::collections::BTreeMap<String, String>> {
    proptest::collection::btree_map("(?s).{0,6}", "(?s).{0,6}", 0..4)
}

fn token() -> impl Strategy<Value = Token> {
    let names = proptest::array::uniform3(name());
    let optional = proptest::array::uniform4(proptest::option::of(name()));
    (token_id(), 1_u64.., names, optional, attributes()).prop_map(
        |(id, quantity, names, optional, attributes)| {
            let ([wallet, token_type, currency], [external_id, public_key, issuer, notary]) =
                (names, optional);
            let attributes = Some(attributes).filter(|all| !all.is_empty()).map(Arc::new);
            let kind = TokenKind {
                wallet,
                external_id,
                public_key,
                token_type,
                currency,
                issuer,
                notary,
                attributes,
            };
            Token { id, quantity, kind: Arc::new(kind) }
        },
    )
}

fn output() -> impl Strategy<Value = Output> {
    let optional = || proptest::option::of(name());
    (name(), optional(), optional(), 1_u64.., attributes()).prop_map(
        |(wallet, external_id, public_key, quantity, attributes)| Output {
            wallet,
            external_id,
            public_key,
            quantity,
            attributes,
        },
    )
}

/// Any command about tokens that a record can hold.
pub fn token_command() -> impl Strategy<Value = Command> {
    let fence = || proptest::option::of(any::<u64>());
    let lease = || 1..=LEASE_MS_MAX;
    let tokens = || proptest::collection::vec(token(), 0..4);
    let ids = || proptest::collection::vec(token_id(), 0..5);
    let body = || any::<u128>().prop_map(Fingerprint);
    let outputs = proptest::collection::vec(output(), 0..4);
    prop_oneof![
        tokens().prop_map(|tokens| TokenCommand::Issue { tokens }),
        (name(), ids(), any::<u64>(), lease(), body()).prop_map(|(spender, ids, amount, lease_ms, body)| {
            TokenCommand::Lock(LockTokens { spender, ids: ids.into(), amount, lease_ms, body })
        }),
        (name(), fence(), outputs, any::<u64>(), body(), any::<u128>()).prop_map(
            |(spender, fence, outputs, redeem, body, transaction)| {
                let request = SpendRequest { spender, fence, outputs, redeem };
                TokenCommand::Spend(SpendTokens { request, body, transaction })
            }
        ),
        (ids(), tokens()).prop_map(|(consumed, produced)| TokenCommand::Update { consumed, produced }),
        (name(), fence()).prop_map(|(spender, fence)| TokenCommand::Unlock { spender, fence }),
        (name(), fence(), lease()).prop_map(|(spender, fence, lease_ms)| TokenCommand::Renew {
            spender,
            fence,
            lease_ms
        }),
    ]
    .prop_map(as_command)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_again(commands in proptest::collection::vec(token_command(), 1..5)) {
        let sealed = Sealed::of(&commands);
        prop_assert_eq!(sealed.commands(), &commands[..]);
        prop_assert_eq!(records::read_all(sealed.bytes()).unwrap(), commands);
    }

    #[test]
    fn bytes_that_were_changed_are_refused_or_have_that_form(
        command in token_command(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = written(&command);
        for (place, byte) in changes {
            // The tail is where the reading is; the header is the business of other tests.
            let place = UNIT + place.index(bytes.len() - UNIT);
            bytes[place] = byte;
        }
        if let Ok((read, length)) = records::read(&bytes) {
            prop_assert_eq!(&written(&read)[..], &bytes[..length]);
        }
    }

    #[test]
    fn no_tail_brings_the_reader_down(tail in proptest::collection::vec(0..4_u8, 0..200), kind in 32..=37_u8) {
        let kind = Kind::from_number(kind).unwrap();
        let bytes = with_tail(kind, &tail);
        if let Ok((read, _)) = records::read(&bytes) {
            prop_assert_eq!(written(&read), bytes);
        }
    }
}
