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

use crate::golden_records::{bad, bytes_of, record};
use crate::tokens_world::{as_command, ids, issue, unlock};
use crate::world::{PAYER, lookup_by, written};

// Parts of the tails, field by field as docs/batch.md has them.
const SPENDER: &str = "0500 7061792d31";
const BODY: &str = "1f1e1d1c1b1a19181716151413121110";
const TRANSACTION: &str = "2f2e2d2c2b2a29282726252423222120";
/// Id, quantity, wallet, type, currency.
const FULL_HEAD: &str = "0200 7431 0201000000000000 0100 77 0500 746f6b656e 0300 455552";
/// External id, no public key, issuer, no notary.
const FULL_NAMES: &str = "01 0100 78 00 01 0400 62616e6b 00";
/// a = b and c = nothing.
const FULL_ATTRIBUTES: &str = "02000000 0100 61 0100 62 0100 63 0000";
/// A token with the greatest quantity and nothing optional.
const PLAIN: &str = "0200 7432 ffffffffffffffff 0100 77 0500 746f6b656e 0300 455552 00 00 00 00 00000000";

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
    let zeros = "00".repeat(52);
    let zeros = zeros.as_str();
    let spender = || Name::from("pay-1");
    let spend = golden_spend();
    let redeem = SpendTokens {
        request: SpendRequest { fence: None, outputs: Vec::new(), ..spend.request.clone() },
        ..spend
    };
    let lock = LockTokens {
        spender: spender(),
        ids: ids(&["t1", "t2"]).into(),
        amount: 100,
        lease_ms: 60_000,
        body: spend.body,
    };
    let full_token = [FULL_HEAD, FULL_NAMES, FULL_ATTRIBUTES].concat();
    let of = |name, command, fields: &[&str], units| (name, as_command(command), record(fields, units));
    vec![
        of(
            "token issue",
            issue(&[full(), plain()]),
            &["20 00 0300 00000000 5e000000", zeros, "02000000", &full_token, PLAIN],
            3,
        ),
        of(
            "token lock",
            TokenCommand::Lock(lock),
            &[
                "21 00 0200 00000000 33000000",
                zeros,
                SPENDER,
                "02000000 0200 7431 0200 7432",
                "6400000000000000 60ea000000000000",
                BODY,
            ],
            2,
        ),
        of(
            "token spend",
            TokenCommand::Spend(spend),
            &[
                "22 00 0300 00000000 70000000",
                zeros,
                SPENDER,
                "01 0700000000000000 02000000",
                "0300 626f62 01 0100 78 00 3c00000000000000 01000000 0100 6b 0100 76",
                "0500 6361726f6c 00 01 0100 6b 1e00000000000000 00000000",
                "0a00000000000000",
                BODY,
                TRANSACTION,
            ],
            3,
        ),
        of(
            "token spend without fence and outputs",
            TokenCommand::Spend(redeem),
            &[
                "22 00 0200 00000000 34000000",
                zeros,
                SPENDER,
                "00 00000000 0a00000000000000",
                BODY,
                TRANSACTION,
            ],
            2,
        ),
        of(
            "token update",
            TokenCommand::Update { consumed: ids(&["t0"]), produced: vec![plain()] },
            &["23 00 0200 00000000 2f000000", zeros, "01000000 0200 7430 01000000", PLAIN],
            2,
        ),
        of(
            "token update of nothing",
            TokenCommand::Update { consumed: Vec::new(), produced: Vec::new() },
            &["23 00 0200 00000000 08000000", zeros, "00000000 00000000"],
            2,
        ),
        of(
            "token unlock",
            unlock("pay-1", Some(7)),
            &["24 00 0200 00000000 10000000", zeros, SPENDER, "01 0700000000000000"],
            2,
        ),
        of(
            "token unlock of exactly one unit",
            unlock(&"s".repeat(61), None),
            &["24 00 0200 00000000 40000000", zeros, "3d00", &"73".repeat(61), "00"],
            2,
        ),
        of(
            "token renew",
            TokenCommand::Renew { spender: spender(), fence: Some(7), lease_ms: 1 },
            &["25 00 0200 00000000 18000000", zeros, SPENDER, "01 0700000000000000 0100000000000000"],
            2,
        ),
        of(
            "token renew without a fence for a day",
            TokenCommand::Renew { spender: spender(), fence: None, lease_ms: 86_400_000 },
            &["25 00 0200 00000000 10000000", zeros, SPENDER, "00 005c260500000000"],
            2,
        ),
    ]
}

/// A record of that kind with any tail.
fn with_tail(kind: Kind, tail: &[u8]) -> Vec<u8> {
    let units = u16::try_from(1 + tail.len().div_ceil(UNIT)).unwrap();
    let mut bytes = vec![kind as u8, 0];
    bytes.extend_from_slice(&units.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&u32::try_from(tail.len()).unwrap().to_le_bytes());
    bytes.resize(UNIT, 0);
    bytes.extend_from_slice(tail);
    bytes.resize(usize::from(units) * UNIT, 0);
    bytes
}

#[track_caller]
fn refused(kind: Kind, tail: &[&str], refusal: &RecordError) {
    let bytes = with_tail(kind, &bytes_of(&tail.concat()));
    assert_eq!(records::read(&bytes).as_ref(), Err(refusal), "{kind:?} of {tail:?}");
}

#[track_caller]
fn read(kind: Kind, tail: &[&str]) {
    let bytes = with_tail(kind, &bytes_of(&tail.concat()));
    let (command, length) =
        records::read(&bytes).unwrap_or_else(|error| panic!("{kind:?} of {tail:?}: {error}"));
    assert_eq!((length, written(&command)), (bytes.len(), bytes));
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
    refused(Kind::TokenIssue, &[], &middle);
}

#[test]
fn counts_that_are_wrong_are_refused() {
    let (middle, late) =
        (bad("tail", "ends in the middle of a field"), bad("tail", "goes on after its last field"));
    let count = bad("count", "is more than the tail can hold");
    read(Kind::TokenIssue, &["01000000", PLAIN]);
    refused(Kind::TokenIssue, &["00000000", PLAIN], &late);
    refused(Kind::TokenIssue, &["02000000", PLAIN], &middle);
    refused(Kind::TokenIssue, &["ffffffff", PLAIN], &count);
    refused(Kind::TokenIssue, &["24000000", PLAIN], &count);
    refused(Kind::TokenIssue, &["23000000", PLAIN], &middle);
    refused(Kind::TokenUpdate, &["00000000 01000000"], &count);
    refused(Kind::TokenUpdate, &["00000000 ffffffff", PLAIN], &count);
    refused(Kind::TokenUpdate, &["02000000 0200 7430 00000000"], &bad("name", "is empty"));
    // So many attributes that they cannot be there; and one less than there are.
    let of = |attributes: &str| ["01000000", FULL_HEAD, FULL_NAMES, attributes].concat();
    refused(Kind::TokenIssue, &[&of("ffffffff 0100 61 0100 62")], &count);
    refused(Kind::TokenIssue, &[&of("02000000 0100 61 0100 62")], &middle);
    refused(Kind::TokenIssue, &[&of("00000000 0100 61 0100 62")], &late);
}

#[test]
fn texts_must_be_utf8_and_names_not_empty() {
    let text = bad("text", "is not UTF-8");
    let empty = bad("name", "is empty");
    refused(Kind::TokenUnlock, &["0100 ff 00"], &text);
    refused(Kind::TokenUnlock, &["0200 c328 00"], &text);
    // A character of two bytes whose second lies behind the text's end.
    refused(Kind::TokenUnlock, &["0100 c3 a4"], &text);
    read(Kind::TokenUnlock, &["0200 c3a4 00"]);
    refused(Kind::TokenUnlock, &["0000 00"], &empty);
    refused(Kind::TokenRenew, &["0000 00 0100000000000000"], &empty);
    refused(Kind::TokenLock, &["0000 00000000"], &empty);
    refused(Kind::TokenSpend, &["0000 00 00000000"], &empty);
    refused(Kind::TokenUpdate, &["01000000 0000 00000000"], &empty);
    refused(Kind::TokenUpdate, &["01000000 0100 80 00000000"], &text);
    let rest = "00 00 00 00 00000000";
    for (fields, refusal) in [
        ("0000 0100000000000000 0100 77 0100 74 0100 63", &empty),
        ("0100 69 0100000000000000 0000 0100 74 0100 63", &empty),
        ("0100 69 0100000000000000 0100 77 0000 0100 63", &empty),
        ("0100 69 0100000000000000 0100 77 0100 74 0000", &empty),
        ("0100 ff 0100000000000000 0100 77 0100 74 0100 63", &text),
        ("0100 69 0100000000000000 0100 ff 0100 74 0100 63", &text),
        ("0100 69 0100000000000000 0100 77 0100 ff 0100 63", &text),
        ("0100 69 0100000000000000 0100 77 0100 74 0100 ff", &text),
    ] {
        refused(Kind::TokenIssue, &["01000000", fields, rest], refusal);
    }
    // The optional names, and both halves of an attribute.
    let head = "01000000 0100 69 0100000000000000 0100 77 0100 74 0100 63";
    for place in 0..4 {
        for (name, refusal) in [("01 0000", &empty), ("01 0100 ff", &text)] {
            let mut names = ["00"; 4];
            names[place] = name;
            refused(Kind::TokenIssue, &[head, &names.concat(), "00000000"], refusal);
        }
    }
    refused(Kind::TokenIssue, &[head, "00 00 00 00 01000000 0100 ff 0100 62"], &text);
    refused(Kind::TokenIssue, &[head, "00 00 00 00 01000000 0100 61 0100 ff"], &text);
}

#[test]
fn what_may_be_absent_says_0_or_1() {
    let refusal = bad("presence", "is neither 0 nor 1");
    for other in ["02", "80", "ff"] {
        refused(Kind::TokenUnlock, &[SPENDER, other], &refusal);
        refused(Kind::TokenUnlock, &[SPENDER, other, "0700000000000000"], &refusal);
        refused(Kind::TokenRenew, &[SPENDER, other, "0700000000000000 0100000000000000"], &refusal);
        refused(Kind::TokenSpend, &[SPENDER, other, "0700000000000000 00000000"], &refusal);
        for place in 0..4 {
            let mut names = ["00"; 4];
            names[place] = other;
            refused(Kind::TokenIssue, &["01000000", FULL_HEAD, &names.concat(), "00000000"], &refusal);
        }
        for names in [[other, "00"], ["00", other]] {
            let output = ["0300 626f62", names[0], names[1], "3c00000000000000 00000000"].concat();
            refused(Kind::TokenSpend, &[SPENDER, "00 01000000", &output], &refusal);
        }
    }
}

#[test]
fn attributes_stand_in_their_order_and_once() {
    let refusal = bad("attributes", "are not in their order");
    for attributes in [
        "02000000 0100 62 0100 61 0100 61 0100 62",
        "02000000 0100 61 0100 61 0100 61 0100 62",
        "03000000 0100 61 0000 0100 63 0000 0100 62 0000",
        "02000000 0200 6161 0000 0100 61 0000",
    ] {
        refused(Kind::TokenIssue, &["01000000", FULL_HEAD, FULL_NAMES, attributes], &refusal);
        let output = ["0300 626f62 00 00 3c00000000000000", attributes].concat();
        refused(Kind::TokenSpend, &[SPENDER, "00 01000000", &output], &refusal);
    }
    read(Kind::TokenIssue, &["01000000", FULL_HEAD, FULL_NAMES, "02000000 0000 0000 0100 61 0000"]);
}

#[test]
fn quantities_are_above_0() {
    let refusal = bad("quantity", "is 0");
    let none = "0200 7431 0000000000000000 0100 77 0500 746f6b656e 0300 455552 00 00 00 00 00000000";
    refused(Kind::TokenIssue, &["01000000", none], &refusal);
    refused(Kind::TokenIssue, &["02000000", PLAIN, none], &refusal);
    refused(Kind::TokenUpdate, &["00000000 01000000", none], &refusal);
    let output = "0300 626f62 00 00 0000000000000000 00000000";
    refused(Kind::TokenSpend, &[SPENDER, "00 01000000", output], &refusal);
}

#[test]
fn leases_last_from_a_millisecond_to_a_day() {
    let refusal = bad("lease", "is not 1 ms to a day");
    for (lease, fits) in [
        (i64::MIN, false),
        (-1, false),
        (0, false),
        (1, true),
        (LEASE_MS_MAX, true),
        (LEASE_MS_MAX + 1, false),
        (i64::MAX, false),
    ] {
        let lease: String = lease.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let renew = [SPENDER, "00", &lease];
        let lock = [SPENDER, "01000000 0200 7431 6400000000000000", &lease, BODY];
        if fits {
            read(Kind::TokenRenew, &renew);
            read(Kind::TokenLock, &lock);
        } else {
            refused(Kind::TokenRenew, &renew, &refusal);
            refused(Kind::TokenLock, &lock, &refusal);
        }
    }
}

#[test]
fn a_length_of_the_tail_that_is_a_lie_is_refused() {
    let (length, padding) =
        (bad("tail length", "does not fit the record's length"), bad("padding", "must be zero"));
    let unlock = || with_tail(Kind::TokenUnlock, &bytes_of(&[SPENDER, "01 0700000000000000"].concat()));
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
    let optional = || proptest::option::of(name());
    let names = (name(), name(), name());
    (token_id(), 1_u64.., names, optional(), optional(), optional(), optional(), attributes()).prop_map(
        |(
            id,
            quantity,
            (wallet, token_type, currency),
            external_id,
            public_key,
            issuer,
            notary,
            attributes,
        )| {
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
