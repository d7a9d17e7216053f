//! The bytes of a prepare that tokens pay for: the flag, and the tokens at the beginning of the tail.

use holdfast_domain::command::{Command, Funding, Prepare};
use holdfast_domain::ids::{ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::records::{self, RecordError};
use proptest::prelude::*;

use crate::world::{usd, written};

const ID: TransferId = TransferId(0x1011_1213_1415_1617_1819_1a1b_1c1d_1e1f);

fn prepare(tail: &[u8], ids: &[&str]) -> Prepare {
    let ids = ids.iter().map(|id| (*id).into()).collect();
    Prepare {
        source: ParticipantId(1),
        id: ID,
        payer: ParticipantId(1),
        payee: ParticipantId(2),
        amount: Amount(120_000),
        expiration: 1_700_000_000_000,
        currency: usd(),
        condition: [0xc0; 32],
        hash: [0xaa; 32],
        tail: tail.to_vec(),
        funding: Some(Box::new(Funding::new(ID, "alice".into(), "bob".into(), ids))),
    }
}

fn bytes_of(prepare: &Prepare) -> Vec<u8> {
    written(&Command::Prepare(prepare.clone()))
}

/// Lies in logs: may never change.
#[test]
fn golden() {
    let block = [b"\x05\0alice\x03\0bob".as_slice(), b"\x02\0\0\0", b"\x02\0t1\x04\0t-22"].concat();
    let (block_length, tail) = (u8::try_from(block.len()).unwrap(), b"hello");
    let mut golden = vec![1, 1, 3, 0, 1, 0, 0, 0];
    golden.extend((0x10..0x20).rev());
    golden.extend([1, 0, 0, 0, 2, 0, 0, 0]);
    golden.extend(120_000_i64.to_le_bytes());
    golden.extend(1_700_000_000_000_i64.to_le_bytes());
    golden.extend(b"USD\0");
    golden.extend([0; 4]);
    golden.extend([block_length + 4 + 5, 0, 0, 0]);
    golden.extend([0; 4]);
    golden.extend([0xc0; 32]);
    golden.extend([0xaa; 32]);
    golden.extend([block_length, 0, 0, 0]);
    golden.extend(&block);
    golden.extend(tail);
    golden.resize(3 * 64, 0);
    let prepare = prepare(tail, &["t1", "t-22"]);
    assert_eq!(bytes_of(&prepare), golden);
    assert_eq!(records::read(&golden), Ok((Command::Prepare(prepare), golden.len())));
}

#[test]
fn the_hash_does_not_know_which_tokens_were_chosen() {
    let some = prepare(b"x", &["t1"]).hashed_with(&[1; 32], &[2; 32]);
    let none = prepare(b"y", &[]).hashed_with(&[1; 32], &[2; 32]);
    let plain = Prepare { funding: None, ..none.clone() }.hashed_with(&[1; 32], &[2; 32]);
    assert_eq!((some.hash, none.hash), (plain.hash, plain.hash));
}

#[test]
fn broken_funding_is_refused() {
    let why = |bytes: &[u8]| match records::read(bytes) {
        Err(RecordError::BadField { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let good = bytes_of(&prepare(b"", &["t1"]));
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    assert_eq!(why(&changed(1, 2)), "flags");
    assert_eq!(why(&changed(128, 200)), "funding", "longer than the tail");
    assert_eq!(why(&changed(128, 3)), "tail", "cut off");
    assert_eq!(why(&changed(132, 0)), "name", "a wallet without a name");
    let mut without = good.clone();
    without.truncate(128);
    (without[2], without[56]) = (2, 0);
    assert_eq!(why(&without), "funding", "a flag without tail");
    let mut unsealed = without;
    unsealed[96..].fill(0);
    assert!(records::seal(&mut unsealed).is_err(), "no client sends one in a batch");
}

proptest! {
    #[test]
    fn every_funding_comes_back(
        (payer, payee) in (".{1,40}", ".{1,40}"),
        ids in proptest::collection::vec(".{1,20}", 0..30),
        tail in proptest::collection::vec(any::<u8>(), 0..300),
        (at, byte) in any::<(prop::sample::Index, u8)>(),
    ) {
        let ids = ids.into_iter().map(Into::into).collect();
        let funding = Funding::new(ID, payer.as_str().into(), payee.as_str().into(), ids);
        let prepare = Prepare { funding: Some(Box::new(funding)), ..prepare(&tail, &[]) };
        let mut bytes = bytes_of(&prepare);
        let length = bytes.len();
        prop_assert_eq!(records::read(&bytes), Ok((Command::Prepare(prepare), length)));
        // One byte changed: another record, or none; and never two ways to write the same.
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok((command, length)) = records::read(&bytes) {
            prop_assert_eq!(&written(&command), &bytes[..length]);
        }
    }
}
