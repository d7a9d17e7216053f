//! The shop of the store of the embedded profile, against the plain store, through checkpoints, merges and losses of power.

use holdfast_domain::effects::Effects;
use holdfast_domain::shop::{
    CheckoutOrder, CheckoutRow, IdempotencyKey, ItemRow, KeyRow, OrderId, Said, ShopCommand, ShopView, Side,
    Sides, TrNum, TryKey, UserRow, Whole,
};
use holdfast_domain::tokens::Fingerprint;

use super::*;
use crate::StoreCheck;

const ORDERS: u64 = 12;

/// A command in numbers: what, which order, and how much.
type Wish = (u8, u64, u64);

fn whole(number: u64) -> Whole {
    Whole::new(number).unwrap()
}

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
            ShopCommand::Checkout(CheckoutOrder { order: of, deadline_ms: 1 + *much as u32, key })
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

fn frame_of(now: Millis, wanted: &[Wish]) -> Frame {
    let expire = Command::Expire(Expire { holds_max: 2 });
    (now, std::iter::once(expire).chain(wanted.iter().map(command)).collect())
}

fn effects_of(store: &mut impl Store, number: u64, frame: &Frame) -> Effects {
    let mut keys = Vec::new();
    frame.1.iter().for_each(|command| command.each_key(&mut |key| keys.push(key)));
    store.load(&mut keys.into_iter()).unwrap();
    let base_offset = number * 1_000;
    let input = FrameInput { base_offset, time: frame.0, order: PrepareOrder::Arrival, commands: &frame.1 };
    let effects = decide(store, &input);
    store.apply(&effects, frame.0);
    store.settle(&effects);
    effects
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

#[derive(Debug, Clone)]
enum Move {
    Frame(Vec<Wish>),
    Begin,
    RunJob(prop::sample::Index),
    Whole,
    Crash(u64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let wish = (0..15_u8, 0..ORDERS, 0..60_u64);
    let one = prop_oneof![
        8 => prop::collection::vec(wish, 1..8).prop_map(Move::Frame),
        1 => Just(Move::Begin),
        3 => any::<prop::sample::Index>().prop_map(Move::RunJob),
        3 => Just(Move::Whole),
        1 => any::<u64>().prop_map(Move::Crash),
    ];
    prop::collection::vec(one, 1..80)
}

fn run_all_jobs(store: &mut LocalStore, waiting: &mut Vec<Job>) {
    loop {
        waiting.extend(std::iter::from_fn(|| store.take_job()));
        if waiting.is_empty() {
            return;
        }
        store.absorb(waiting.remove(0).run(&mut || {}).unwrap());
    }
}

fn recovered(fs: &SimFs, log: &[Frame]) -> LocalStore {
    let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
    let (from, mut store) = match recover(&shared, Path::new(DIR)).unwrap() {
        Some(found) => {
            found.remove_unneeded().unwrap();
            (found.offset, found.store)
        }
        None => (0, empty_on(fs)),
    };
    for (number, frame) in (0..).zip(log).skip(from as usize) {
        effects_of(&mut store, number, frame);
    }
    store
}

/// A right store, from the log alone, with its own checkpoint at the end.
fn derived(log: &[Frame]) -> LocalStore {
    let mut store = empty_on(&SimFs::new(8));
    (0..).zip(log).for_each(|(number, frame)| drop(effects_of(&mut store, number, frame)));
    assert!(store.begin_checkpoint(log.len() as u64, Vec::new()));
    run_all_jobs(&mut store, &mut Vec::new());
    store
}

fn findings(fs: &SimFs, at: u64, right: &LocalStore) -> Vec<String> {
    let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
    let mut check = StoreCheck::open(&shared, Path::new(DIR), LOG).unwrap();
    check.compare(at, right);
    check.finish().findings.into_iter().map(|finding| finding.found).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    /// Whatever is checkpointed, merged and lost when: the shop is that of the plain store, and verify agrees.
    #[test]
    fn the_shop_is_that_of_the_plain_store(moves in moves()) {
        let mut fs = SimFs::new(3);
        let mut local = empty_on(&fs);
        let mut plain = MemoryStore::new(0);
        let mut log: Vec<Frame> = vec![first_frame()];
        effects_of(&mut local, 0, &log[0]);
        effects_of(&mut plain, 0, &log[0]);
        let mut waiting: Vec<Job> = Vec::new();
        for one in moves {
            match one {
                Move::Frame(wanted) => {
                    let number = log.len() as u64;
                    log.push(frame_of(100 + 20 * number.cast_signed(), &wanted));
                    let effects = effects_of(&mut local, number, &log[number as usize]);
                    prop_assert_eq!(effects, effects_of(&mut plain, number, &log[number as usize]));
                }
                Move::Begin => drop(local.begin_checkpoint(log.len() as u64, vec![])),
                Move::RunJob(which) => {
                    waiting.extend(std::iter::from_fn(|| local.take_job()));
                    if !waiting.is_empty() {
                        let merges = |job: &Job| job.is_merge();
                        let at = which.index(waiting.len());
                        // Merges may run beside others; all else keeps its order.
                        let at = if merges(&waiting[at]) { at } else { waiting.iter().position(|job| !merges(job)).unwrap() };
                        let done = waiting.remove(at).run(&mut || {}).unwrap();
                        local.absorb(done);
                    }
                }
                Move::Whole => {
                    run_all_jobs(&mut local, &mut waiting);
                    prop_assert!(local.begin_checkpoint(log.len() as u64, vec![]));
                    run_all_jobs(&mut local, &mut waiting);
                }
                Move::Crash(seed) => {
                    waiting.clear();
                    fs = fs.crash(seed);
                    local = recovered(&fs, &log);
                }
            }
        }
        same_shop(&mut local, &plain);
        run_all_jobs(&mut local, &mut waiting);
        prop_assert!(local.begin_checkpoint(log.len() as u64, vec![]) || local.newest_checkpoint() == Some(log.len() as u64));
        run_all_jobs(&mut local, &mut waiting);
        let right = derived(&log);
        prop_assert_eq!(findings(&fs, log.len() as u64, &right), Vec::<String>::new());
        same_shop(&mut recovered(&fs, &log), &plain);
    }
}

#[test]
fn verify_tells_a_row_that_the_log_does_not_lead_to() {
    let fs = SimFs::new(1);
    let mut store = empty_on(&fs);
    let log = [first_frame(), frame_of(100, &[(0, 1, 1), (9, 0, 1), (1, 2, 1), (0, 3, 3)])];
    (0..).zip(&log).for_each(|(number, frame)| drop(effects_of(&mut store, number, frame)));
    assert!(store.begin_checkpoint(2, Vec::new()));
    run_all_jobs(&mut store, &mut Vec::new());
    assert_eq!(findings(&fs, 2, &derived(&log)), Vec::<String>::new());
    // The same log but for a little more credit and one more open checkout.
    let mut other = log;
    other[1].1.push(command(&(11, 0, 1)));
    other[1].1.push(command(&(1, 5, 2)));
    let found = findings(&fs, 2, &derived(&other)).join("\n");
    for what in ["user \"1\" is", "order \"5\" is", "open checkout \"5\" is not in it"] {
        assert!(found.contains(what), "{what} is not in:\n{found}");
    }
}
