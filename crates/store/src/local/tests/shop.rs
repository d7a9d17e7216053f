//! The shop of the store of the embedded profile, against the plain store, through checkpoints, merges and losses of power.

use holdfast_domain::effects::Effects;
use holdfast_domain::shop::{
    CheckoutOrder, CheckoutRow, IdempotencyKey, ItemRow, KeyRow, OrderId, Said, ShopCommand, Side, Sides,
    TrNum, TryKey, UserRow,
};
use holdfast_domain::tokens::Fingerprint;
use holdfast_domain::view::{Checkouts, Orders, ShopSettings, ShopSize};

use super::voyage::{recovered, report, store_of};
use super::*;
use crate::conformance::shop::whole;

const ORDERS: u64 = 12;

/// A command in numbers: what, which order, and how much.
type Wish = (u8, u64, u64);

fn order(number: u64) -> OrderId {
    number.to_string().parse().unwrap()
}

fn command((what, which, much): &Wish) -> Command {
    let of = order(*which);
    let item = (much % 3).to_string().parse().unwrap();
    let user = (much % 3).to_string().parse().unwrap();
    Command::Shop(Box::new(match what {
        0..=4 => {
            let key = IdempotencyKey { key: format!("key {}", much % 7).into(), body: Fingerprint(1) };
            let key = much.is_multiple_of(3).then_some(key);
            ShopCommand::Checkout(CheckoutOrder {
                order: of,
                deadline_ms: 1 + *much as u32,
                key,
                chosen: None,
            })
        }
        5..=7 => ShopCommand::Answer {
            key: TryKey { order_id: of, tr_num: TrNum::try_from(1 + much % 4).unwrap() },
            side: Side::ALL[*much as usize % 2],
            said: [Said::Taken, Said::Refused, Said::Undone][*much as usize % 3],
        },
        8 => ShopCommand::AddItem { order: of, item, quantity: whole(much % 4) },
        9 => ShopCommand::SetOutside { outside: Sides { pay: much & 1 != 0, stock: much & 2 != 0 } },
        10 => ShopCommand::InitOrders {
            first: *which,
            count: 3,
            items: 3,
            users: 3,
            price: whole(1),
            seed: *much,
        },
        11 => ShopCommand::AddFunds { user, amount: whole(*much) },
        12 => ShopCommand::AddStock { item, amount: whole(*much) },
        13 => ShopCommand::Cancel { order: of },
        _ => ShopCommand::Retry { order: of, deadline_ms: 50 },
    }))
}

fn first_frame() -> Frame {
    let all = [
        ShopCommand::InitUsers { first: 0, count: 3, credit: whole(40) },
        ShopCommand::InitItems { first: 0, count: 3, stock: whole(20), price: whole(1) },
        ShopCommand::InitOrders { first: 0, count: 8, items: 3, users: 3, price: whole(2), seed: 3 },
    ];
    (50, all.into_iter().map(|command| Command::Shop(Box::new(command))).collect())
}

/// Users, items, open checkouts, keys.
type AllRows = (Vec<UserRow>, Vec<ItemRow>, Vec<Arc<CheckoutRow>>, Vec<Arc<KeyRow>>);

fn rows<S: Store>(store: &S) -> AllRows {
    let (mut users, mut items) = (Vec::new(), Vec::new());
    store.users(&mut |row| users.push(row.clone()));
    store.items(&mut |row| items.push(row.clone()));
    users.sort_by(|one, other| one.id.cmp(&other.id));
    items.sort_by(|one, other| one.id.cmp(&other.id));
    (users, items, store.open_checkouts(None, usize::MAX), store.due_keys(Millis::MAX, usize::MAX))
}

fn same_shop(local: &mut LocalStore, plain: &MemoryStore) {
    assert_eq!(rows(local), rows(plain));
    assert_eq!(
        (local.shop_counts(), local.outside(), local.next_expiration()),
        (plain.shop_counts(), plain.outside(), plain.next_expiration())
    );
    for (now, max) in [(Millis::MAX, 100), (3_000, 100), (3_000, 2)] {
        assert_eq!(local.due_checkouts(now, max), plain.due_checkouts(now, max));
    }
    for number in 0..ORDERS + 5 {
        let id = order(number);
        assert_eq!(local.seek_order(&id).get().unwrap().as_ref(), plain.order(&id), "{id}");
        local.load(&mut std::iter::once(Key::OrderNumbered(number))).unwrap();
        assert_eq!(local.order(&id), plain.order(&id), "{id}");
    }
    local.settle(&Effects::default());
}

fn wishes() -> impl Strategy<Value = Vec<Wish>> {
    prop::collection::vec((0..15_u8, 0..ORDERS, 0..60_u64), 1..8)
}

/// What verify finds of the last checkpoint, held against a store that is derived from this log alone.
fn findings(fs: &SimFs, log: &[Frame]) -> Vec<String> {
    let end = log.len() as u64;
    let report = report(fs, &store_of(&SimFs::new(8), log, &[end]), end);
    report.findings.into_iter().map(|finding| finding.found).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    /// Whatever is checkpointed, merged and lost when: the shop is that of the plain store, and verify agrees.
    #[test]
    fn the_shop_is_that_of_the_plain_store(moves in moves(wishes(), 80)) {
        let mut voyage = Voyage::new();
        voyage.frame(first_frame());
        for one in moves {
            voyage.make(one, |number, wanted: &[Wish]| {
                frame_of(100 + 20 * number.cast_signed(), wanted.iter().map(command))
            });
        }
        same_shop(&mut voyage.local, &voyage.plain);
        voyage.whole_checkpoint();
        let Voyage { fs, plain, log, .. } = voyage;
        prop_assert_eq!(findings(&fs, &log), Vec::<String>::new());
        same_shop(&mut recovered(&fs, &log), &plain);
    }
}

#[test]
fn verify_tells_a_row_that_the_log_does_not_lead_to() {
    let fs = SimFs::new(1);
    let wanted = [(0, 1, 1), (9, 0, 1), (1, 2, 1), (0, 3, 3)];
    let log = [first_frame(), frame_of(100, wanted.iter().map(command))];
    drop(store_of(&fs, &log, &[2]));
    assert_eq!(findings(&fs, &log), Vec::<String>::new());
    // The same log but for a little more credit and one more open checkout.
    let mut other = log;
    other[1].1.push(command(&(11, 0, 1)));
    other[1].1.push(command(&(1, 5, 2)));
    let found = findings(&fs, &other).join("\n");
    for what in ["user \"1\" is", "order \"5\" is", "open checkout \"5\" is not in it"] {
        assert!(found.contains(what), "{what} is not in:\n{found}");
    }
}
