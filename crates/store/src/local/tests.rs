//! The store of the embedded profile, against the suite and against the plain store.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

mod golden;
mod golden_shop;
mod shop;
mod tokens;
mod voyage;

use std::path::Path;
use std::sync::Arc;

use holdfast_disk::{FileSystem, LogId, SimFs};
use holdfast_domain::command::{Command, Expire, Key, SetEndpoint};
use holdfast_domain::ids::{Millis, TransferId, TransferNo};
use holdfast_domain::registry::Registry;
use holdfast_domain::view::{Funds, Holds, TransferNumbers, Transfers};
use proptest::prelude::*;

use super::{Job, LocalStore, recover};
use crate::conformance::{self, FUNDS_IN, PAYER, fulfil, fulfil_with, opening, prepare};
use crate::{MemoryStore, Store, Tables};
use voyage::{Voyage, moves};

const DIR: &str = "/store";
const LOG: LogId = LogId([7; 16]);

fn empty_on(fs: &SimFs) -> LocalStore {
    LocalStore::create(&fs.shared(), Path::new(DIR), LOG).unwrap()
}

#[test]
fn conforms() {
    conformance::run_all(|| empty_on(&SimFs::new(1)));
}

/// A frame: when, and what.
type Frame = (Millis, Vec<Command>);

fn first_frame() -> Frame {
    let endpoint = SetEndpoint::new(PAYER, "KIND".to_owned(), "http://there".to_owned()).unwrap();
    (1, opening(300, 400).into_iter().chain([Command::SetEndpoint(endpoint)]).collect())
}

/// A command in numbers: what, which transfer, and how much.
type Wish = (u8, u128, i64);

fn command(now: Millis, (what, id, amount): &Wish) -> Command {
    match what {
        0 | 1 => prepare(*id, *amount, now + 40 * amount),
        2 => fulfil(*id),
        _ => fulfil_with(*id, [0; 32]),
    }
}

/// The commands of a frame. What has run out by then ends first.
fn frame_of(now: Millis, commands: impl Iterator<Item = Command>) -> Frame {
    (now, std::iter::once(Command::Expire(Expire { holds_max: 2 })).chain(commands).collect())
}

fn same(local: &mut LocalStore, plain: &MemoryStore) {
    assert_eq!(local.next_transfer(), plain.next_transfer());
    assert_eq!(local.books().accounts(), plain.books().accounts());
    assert_eq!(local.books().participants(), plain.books().participants());
    assert_eq!(local.books().endpoints(PAYER), plain.books().endpoints(PAYER));
    assert_eq!(local.open_holds(), plain.open_holds());
    assert_eq!(local.due(Millis::MAX, 1_000), plain.due(Millis::MAX, 1_000));
    assert_eq!(local.open_transfers(TransferNo(0), 1_000), plain.open_transfers(TransferNo(0), 1_000));
    assert_eq!(local.conserved_sums(), plain.conserved_sums());
    assert_eq!(local.funds(FUNDS_IN), plain.funds(FUNDS_IN));
    for id in (0..61).map(TransferId) {
        let known = plain.transfer(id).cloned();
        assert_eq!(local.seek(id).get().unwrap(), known, "{id} beside the thread");
        local.load(&mut std::iter::once(Key::Transfer(id))).unwrap();
        assert_eq!(local.transfer(id).cloned(), known, "{id} loaded");
    }
    let history = local.history();
    let mut ended: Vec<_> = history.scan(0, history.end()).map(|row| row.unwrap().1).collect();
    ended.sort_by_key(|row| row.no);
    let plain: Vec<_> =
        plain.transfers_from(TransferNo(0)).filter(|row| row.state.is_final()).cloned().collect();
    assert_eq!(ended, plain);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    /// Whatever is checkpointed, merged and lost when: the answers are those of the plain store.
    #[test]
    fn answers_as_the_plain_store_does(
        moves in moves(prop::collection::vec((0..4_u8, 1..60_u128, 1..50_i64), 1..6), 120),
    ) {
        let mut voyage = Voyage::new();
        voyage.frame(first_frame());
        for one in moves {
            let now = |number: u64| 1 + 100 * number.cast_signed();
            let frame = |number, wanted: &[Wish]| {
                frame_of(now(number), wanted.iter().map(|wish| command(now(number), wish)))
            };
            if voyage.make(one, frame) {
                same(&mut voyage.local, &voyage.plain);
            }
        }
        same(&mut voyage.local, &voyage.plain);
        let rows = voyage.local.callback_rows();
        let kept: Vec<u64> = rows
            .scan(rows.start(), rows.end())
            .map(|row| u64::from_le_bytes(row.unwrap().1.try_into().unwrap()))
            .collect();
        prop_assert_eq!(kept, (0..voyage.log.len() as u64).map(voyage::offset_of).collect::<Vec<_>>());
    }
}
