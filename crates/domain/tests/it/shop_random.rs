//! Random frames against the naive shop: answers, credit, stock and orders are the same after every frame, and money and units
//! are conserved.

use proptest::prelude::*;

use crate::memory::Memory;
use crate::shop_naive::{Naive, NaiveKey, NaiveOrder, Standing, Told};
use crate::shop_world::*;
use crate::world::*;

#[derive(Debug, Clone)]
enum Op {
    Checkout(u8, u32, Option<u8>),
    Answer(u8, u32, Side, Said),
    Cancel(u8),
    Retry(u8),
    AddItem(u8, u8, u64),
    Funds(u8, u64),
    Take(u8, u64),
    Stock(u8, u64),
    Outside(bool, bool),
    InitUsers(u64),
    /// The first, and how many there are of each.
    InitItems(u64, u64),
    InitOrders(u64),
    CreateOrder(u8, u8),
}

const DAY: i64 = 86_400_000;

fn ops() -> impl Strategy<Value = Op> {
    let order = 0..6_u8;
    let side = prop_oneof![Just(Side::Pay), Just(Side::Stock)];
    let said = prop_oneof![3 => Just(Said::Taken), 2 => Just(Said::Refused), 3 => Just(Said::Undone)];
    prop_oneof![
        8 => (order.clone(), 1..60_u32, proptest::option::weighted(0.4, 0..4_u8))
            .prop_map(|(order, deadline, key)| Op::Checkout(order, deadline, key)),
        8 => (order.clone(), 1..4_u32, side, said).prop_map(|(o, tr, side, said)| Op::Answer(o, tr, side, said)),
        2 => order.clone().prop_map(Op::Cancel),
        2 => order.clone().prop_map(Op::Retry),
        3 => (order.clone(), 0..3_u8, 0..4_u64).prop_map(|(o, i, n)| Op::AddItem(o, i, n)),
        2 => (0..3_u8, 0..20_u64).prop_map(|(user, amount)| Op::Funds(user, amount)),
        1 => (0..3_u8, 0..20_u64).prop_map(|(user, amount)| Op::Take(user, amount)),
        2 => (0..3_u8, 0..5_u64).prop_map(|(item, amount)| Op::Stock(item, amount)),
        2 => any::<(bool, bool)>().prop_map(|(pay, stock)| Op::Outside(pay, stock)),
        1 => (0..30_u64).prop_map(Op::InitUsers),
        1 => (0..5_u64, 0..9_u64).prop_map(|(first, stock)| Op::InitItems(first, stock)),
        1 => any::<u64>().prop_map(Op::InitOrders),
        1 => (order, 0..3_u8).prop_map(|(order, user)| Op::CreateOrder(order, user)),
    ]
}

/// The real shop, the naive one, and what both are told.
struct Both {
    shop: World,
    naive: Naive,
    /// Orders by the age of their open tries: place in the log and id.
    opened: Vec<(u64, String)>,
}

fn told(answer: CheckoutAnswer) -> Told {
    match answer {
        CheckoutAnswer::Paid { .. } => Told::Paid,
        CheckoutAnswer::AlreadyPaid { .. } => Told::AlreadyPaid,
        CheckoutAnswer::Failed { why, .. } => Told::Failed(why),
        CheckoutAnswer::Open { .. } => Told::Open,
    }
}

impl Both {
    fn new() -> Both {
        let mut both = Both { shop: World::empty(), naive: Naive::default(), opened: Vec::new() };
        for number in 0..3_u64 {
            both.shop.does(user(&number.to_string(), 30));
            both.shop.does(item(&number.to_string(), 6, number + 1));
            both.naive.credit.insert(number.to_string(), 30);
            both.naive.stock.insert(number.to_string(), (6, number + 1));
        }
        (both.naive.credit_in, both.naive.units_in) = (90, 18);
        both
    }

    fn command(&self, op: &Op) -> Command {
        let text = |number: u8| number.to_string();
        as_command(match op {
            Op::Checkout(order, deadline, key) => {
                let command = match key {
                    Some(key) => keyed(&text(*order), &format!("k{key}"), u128::from(*order)),
                    None => checkout(&text(*order)),
                };
                let ShopCommand::Checkout(command) = command else { unreachable!() };
                ShopCommand::Checkout(CheckoutOrder { deadline_ms: *deadline, ..command })
            }
            Op::Answer(order, tr, side, said) => says(&text(*order), u64::from(*tr), *side, *said),
            Op::Cancel(order) => cancel(&text(*order)),
            Op::Retry(order) => retry(&text(*order)),
            Op::AddItem(order, item, count) => add(&text(*order), &text(*item), *count),
            Op::Funds(user, amount) => funds(&text(*user), *amount),
            Op::Take(user, amount) => {
                ShopCommand::TakeFunds { user: text(*user).parse().unwrap(), amount: whole(*amount) }
            }
            Op::Stock(item, amount) => {
                ShopCommand::AddStock { item: text(*item).parse().unwrap(), amount: whole(*amount) }
            }
            Op::Outside(pay, stock) => {
                ShopCommand::SetOutside { outside: Sides { pay: *pay, stock: *stock } }
            }
            Op::InitUsers(credit) => ShopCommand::InitUsers { first: 0, count: 2, credit: whole(*credit) },
            Op::InitItems(first, stock) => {
                ShopCommand::InitItems { first: *first, count: 2, stock: whole(*stock), price: whole(2) }
            }
            Op::InitOrders(seed) => ShopCommand::InitOrders {
                first: 3,
                count: 2,
                items: 3,
                users: 3,
                price: whole(2),
                seed: *seed,
            },
            Op::CreateOrder(id, user) => order(&text(*id), &text(*user)),
        })
    }

    /// What the naive shop does with it, and that the real one answered as much.
    fn follow(&mut self, op: &Op, offset: u64, outcome: &ShopOutcome, after: &Memory) {
        let now = self.shop.now;
        let naive = &mut self.naive;
        let refused = matches!(outcome, ShopOutcome::Refused(_));
        let tries = |naive: &Naive, id: &str| naive.orders.get(id).map_or(0, |order| order.tr);
        match op {
            Op::Checkout(order, deadline, key) => {
                let (id, ends) = (order.to_string(), now + i64::from(*deadline));
                let key = key.map(|key| format!("k{key}"));
                let stored = key.as_ref().and_then(|key| naive.keys.get(key)).filter(|row| row.ends > now);
                if let Some(row) = stored {
                    if row.order != id {
                        return assert!(refused);
                    }
                    // What was said of an order that was replaced since is forgotten.
                    if row.tr > naive.orders[&id].life {
                        let answer = answer_of(outcome.clone());
                        assert_eq!(told(answer), row.answer.unwrap_or(Told::Open));
                        return assert_eq!(answer.tr().get(), row.tr);
                    }
                }
                let before = tries(naive, &id);
                let Some(answer) = naive.checkout(&id, ends) else { return assert!(refused) };
                assert_eq!(told(answer_of(outcome.clone())), answer, "{op:?}");
                if tries(naive, &id) > before {
                    self.opened.push((offset, id.clone()));
                }
                if let Some(key) = key {
                    let decided = (answer != Told::Open).then_some(answer);
                    let tr = tries(naive, &id);
                    naive.keys.insert(key, NaiveKey { order: id, answer: decided, ends: now + DAY, tr });
                }
            }
            Op::Answer(order, tr, side, said) => {
                let known = naive.orders.get(&order.to_string());
                let life = known.map_or(0, |order| order.life);
                assert!(*tr > life || refused, "{outcome:?} about a try of an order that is no more");
                naive.hear(&order.to_string(), *tr, *side, *said);
            }
            Op::Cancel(order) => {
                let id = order.to_string();
                let standing = naive.orders.get(&id).map(|order| order.standing.clone());
                if matches!(&standing, Some(Standing::Open(attempt)) if attempt.cancelled.is_none()) {
                    assert_eq!(told(answer_of(outcome.clone())), naive.fail(&id, Why::Cancelled));
                } else {
                    assert!(refused, "{outcome:?}");
                }
            }
            Op::Retry(order) => {
                let id = order.to_string();
                let failed =
                    |order: &NaiveOrder| matches!(order.standing, Standing::NotPaid(_)) && order.tr > 0;
                if naive.orders.get(&id).is_some_and(failed) {
                    let answer = naive.checkout(&id, now + i64::from(DEADLINE)).unwrap();
                    assert_eq!(told(answer_of(outcome.clone())), answer);
                    self.opened.push((offset, id));
                }
            }
            Op::AddItem(order, item, count) => {
                let price = naive.stock[&item.to_string()].1;
                let order = naive.orders.get_mut(&order.to_string());
                let open = order.filter(|order| matches!(order.standing, Standing::NotPaid(_)));
                assert_eq!(open.is_none(), refused);
                if let Some(order) = open {
                    order.lines.push((item.to_string(), *count));
                    order.amount += count * price;
                }
            }
            Op::Funds(user, amount) => {
                *naive.credit.get_mut(&user.to_string()).unwrap() += amount;
                naive.credit_in += i128::from(*amount);
            }
            Op::Take(user, amount) => {
                let credit = naive.credit.get_mut(&user.to_string()).unwrap();
                assert_eq!(*credit < *amount, refused);
                if !refused {
                    *credit -= amount;
                    naive.credit_in -= i128::from(*amount);
                }
            }
            Op::Stock(item, amount) => {
                naive.stock.get_mut(&item.to_string()).unwrap().0 += amount;
                naive.units_in += i128::from(*amount);
            }
            Op::Outside(pay, stock) => naive.outside = Sides { pay: *pay, stock: *stock },
            Op::InitUsers(credit) => {
                assert_eq!(naive.has_open(), refused);
                for id in ["0", "1"].into_iter().filter(|_| !refused) {
                    let before = naive.credit.insert(id.to_owned(), *credit).unwrap();
                    naive.credit_in += i128::from(*credit) - i128::from(before);
                }
            }
            Op::InitItems(first, stock) => {
                let replaces =
                    (*first..first + 2).any(|number| naive.stock.contains_key(&number.to_string()));
                assert_eq!(replaces && naive.has_open(), refused);
                for number in (*first..first + 2).filter(|_| !refused) {
                    let before = naive.stock.insert(number.to_string(), (*stock, 2));
                    naive.units_in += i128::from(*stock) - before.map_or(0, |(before, _)| i128::from(before));
                }
            }
            Op::InitOrders(_) => {
                let replaces = ["3", "4"].iter().any(|id| naive.orders.contains_key(*id));
                assert_eq!(replaces && naive.has_open(), refused);
                if !refused {
                    // Which lines is not foretold; they are read from the rows.
                    for id in ["3", "4"] {
                        let row = &after.orders[&id.parse().unwrap()].order;
                        let lines = row.items.lines().iter();
                        let order = NaiveOrder {
                            user: row.user_id.to_string(),
                            lines: lines.map(|line| (line.id.to_string(), line.amnt.get())).collect(),
                            amount: row.amount.get(),
                            tr: tries(naive, id),
                            life: tries(naive, id),
                            standing: Standing::NotPaid(None),
                        };
                        naive.orders.insert(id.to_owned(), order);
                    }
                }
            }
            Op::CreateOrder(id, user) => {
                assert_eq!(naive.orders.contains_key(&id.to_string()), refused);
                naive.orders.entry(id.to_string()).or_insert_with(|| NaiveOrder {
                    user: user.to_string(),
                    lines: Vec::new(),
                    amount: 0,
                    tr: 0,
                    life: 0,
                    standing: Standing::NotPaid(None),
                });
            }
        }
    }

    fn expire(&mut self, holds_max: u32) {
        let mut by_age: Vec<(i64, u64, String)> = Vec::new();
        for (offset, id) in &self.opened {
            if let Standing::Open(attempt) = &self.naive.orders[id].standing {
                by_age.retain(|(.., known)| known != id);
                by_age.push((attempt.deadline, *offset, id.clone()));
            }
        }
        by_age.sort();
        let by_age: Vec<String> = by_age.into_iter().map(|(.., id)| id).collect();
        let offset = self.shop.offset;
        let effects = self.shop.frame(&[Command::Expire(Expire { holds_max })]);
        let ended = self.naive.expire(self.shop.now, holds_max as usize, &by_age, offset);
        assert_eq!(effects.outcome(0).subject.ended(), ended as u64);
        self.same();
    }

    /// The rows of both say the same.
    fn same(&self) {
        let (memory, naive) = (&self.shop.memory, &self.naive);
        for (id, credit) in &naive.credit {
            assert_eq!(self.shop.credit(id), *credit, "user {id}");
        }
        for (id, (stock, _)) in &naive.stock {
            assert_eq!(self.shop.stock(id), *stock, "item {id}");
        }
        for (id, order) in &naive.orders {
            let row = &memory.orders[&id.parse().unwrap()];
            let (state, tr) = (row.order.state, row.order.state.tr_num().map_or(0, |tr| tr.get()));
            let same = match (&order.standing, state) {
                (Standing::NotPaid(why), OrderState::NotPaid(_)) => *why == row.failed,
                (Standing::Open(attempt), OrderState::Pending(_)) => attempt.cancelled.is_none(),
                (Standing::Open(attempt), OrderState::Cancelling(_)) => attempt.cancelled.is_some(),
                (Standing::Paid(_), OrderState::Paid(_)) => true,
                _ => false,
            };
            assert_eq!(row.life, order.life);
            assert!(same && tr == order.tr && row.order.amount.get() == order.amount, "{order:?} {row:?}");
            let open = matches!(order.standing, Standing::Open(_));
            assert_eq!(open, memory.checkouts.contains_key(&row.order.order_id));
        }
        assert_eq!(memory.orders.len(), naive.orders.len());
        let answers = memory.keys.iter().map(|(key, row)| (key.clone(), row.answer.map(told)));
        let naive_answers = naive.keys.iter().map(|(key, row)| (key.clone(), row.answer));
        assert!(answers.eq(naive_answers));
        self.conserved();
    }

    /// From the real rows alone: what is gone is what paid orders took, and what open tries hold.
    fn conserved(&self) {
        let memory = &self.shop.memory;
        let credit: i128 = memory.users.values().map(|row| i128::from(row.credit.get())).sum();
        let units: i128 = memory.items.values().map(|row| i128::from(row.stock.get())).sum();
        let (mut held_credit, mut held_units) = (0_i128, 0_i128);
        for open in memory.checkouts.values() {
            let order = &memory.orders[&open.order].order;
            if open.pay.branch == Some(SideBranch::Taken) {
                held_credit += i128::from(order.amount.get());
            }
            if open.stock.branch == Some(SideBranch::Taken) {
                held_units +=
                    order.items.lines().iter().map(|line| i128::from(line.amnt.get())).sum::<i128>();
            }
        }
        assert_eq!(self.naive.credit_in - credit - held_credit, self.naive.credit_gone);
        assert_eq!(self.naive.units_in - units - held_units, self.naive.units_gone);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_shop_does_what_the_naive_one_does(
        frames in proptest::collection::vec(
            (proptest::collection::vec(ops(), 1..12), 0..40_i64, proptest::option::of(0..4_u32)),
            1..40,
        ),
        single in any::<bool>(),
    ) {
        let mut both = Both::new();
        for (ops, pause, expiry) in frames {
            both.shop.now += pause;
            if let Some(holds_max) = expiry {
                both.expire(holds_max);
            }
            // The same commands in one frame or in many are decided the same.
            let size = if single { 1 } else { ops.len() };
            for ops in ops.chunks(size) {
                let commands: Vec<Command> = ops.iter().map(|op| both.command(op)).collect();
                let offset = both.shop.offset;
                let effects = both.shop.frame(&commands);
                let mut seen = both.shop.memory.clone();
                for (at, op) in ops.iter().enumerate() {
                    let outcome = effects.outcomes()[at].shop.clone().unwrap();
                    if matches!(op, Op::InitOrders(_)) {
                        // The rows as this command left them: later ones of the frame may have added lines.
                        for effect in &effects.steps[at].shop {
                            holdfast_domain::effects::ShopRows::shop_effect(&mut seen, effect);
                        }
                    }
                    both.follow(op, offset + at as u64, &outcome, &seen);
                }
                both.same();
            }
        }
        both.shop.now += 100;
        both.expire(1_000);
        let pending = |row: &&std::sync::Arc<CheckoutRow>| row.undo.is_none();
        prop_assert!(both.shop.memory.checkouts.values().filter(pending).all(|row| row.deadline >= both.shop.now));
    }
}
