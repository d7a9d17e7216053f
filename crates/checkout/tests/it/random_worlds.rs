//! A shop in which messages are lost, repeated and mixed up, the coordinator crashes, and people cancel and
//! retry at any moment. Whatever happens: each try is decided once, and at rest the credit that is gone is
//! the stock that is gone.

use std::collections::BTreeSet;

use holdfast_checkout::{Answer, Body, Key, Message, OrderState, Step};
use proptest::prelude::*;

use crate::world::{Shop, whole};

const ORDERS: [&str; 4] = ["o0", "o1", "o2", "o3"];

#[derive(Debug, Clone, Copy)]
enum Act {
    Checkout(u8),
    Deliver(u8),
    DeliverAgain(u8),
    Lose(u8),
    Read,
    ReadInVain,
    Crash,
    Cancel(u8),
    Retry(u8),
    RepeatRecord(u8),
    AddItem(u8),
    AddFunds(u8),
    Trim,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => any::<u8>().prop_map(Act::Checkout),
        8 => any::<u8>().prop_map(Act::Deliver),
        2 => any::<u8>().prop_map(Act::DeliverAgain),
        1 => any::<u8>().prop_map(Act::Lose),
        8 => Just(Act::Read),
        2 => Just(Act::ReadInVain),
        2 => Just(Act::Crash),
        2 => any::<u8>().prop_map(Act::Cancel),
        2 => any::<u8>().prop_map(Act::Retry),
        1 => any::<u8>().prop_map(Act::RepeatRecord),
        1 => any::<u8>().prop_map(Act::AddItem),
        1 => any::<u8>().prop_map(Act::AddFunds),
        1 => Just(Act::Trim),
    ]
}

fn id(order: u8) -> &'static str {
    ORDERS[usize::from(order) % ORDERS.len()]
}

fn some<T: Clone>(list: &[T], place: u8) -> Option<T> {
    list.get(usize::from(place) % list.len().max(1)).cloned()
}

struct World {
    shop: Shop,
    funds: u64,
    goods: u64,
}

impl World {
    fn new(credit: u64, stock: u64) -> World {
        let mut shop = Shop::with(&[("u0", credit), ("u1", credit)], &[("a", stock), ("b", stock)]);
        shop.add_order("o0", "u0", &[("a", 1)]);
        shop.add_order("o1", "u1", &[("a", 2), ("b", 1)]);
        shop.add_order("o2", "u0", &[("b", 3), ("b", 1)]);
        shop.add_order("o3", "u1", &[]);
        World { funds: shop.credit_in_all(), goods: shop.stock_in_all(), shop }
    }

    fn act(&mut self, act: Act) {
        let shop = &mut self.shop;
        match act {
            Act::Checkout(order) => drop(shop.checkout(id(order))),
            Act::Deliver(place) => shop.deliver_next(usize::from(place)),
            Act::DeliverAgain(place) => {
                if let Some(message) = some(&shop.delivered, place) {
                    shop.deliver(&message);
                }
            }
            Act::Lose(place) => {
                if !shop.to_participants.is_empty() {
                    shop.to_participants.remove(usize::from(place) % shop.to_participants.len());
                }
            }
            Act::Read => drop(shop.read_next()),
            Act::ReadInVain => shop.read_in_vain(),
            Act::Crash => self.crash(),
            Act::Cancel(order) => {
                if let Some(key) = shop.last_try(id(order)) {
                    shop.cancel(&key);
                }
            }
            Act::Retry(order) => {
                if let Some(key) = shop.last_try(id(order)) {
                    shop.retry(&key);
                }
            }
            Act::RepeatRecord(place) => {
                if let Some(message) = some(&shop.log, place) {
                    shop.log.push(message);
                }
            }
            Act::AddItem(order) => {
                let order = shop.order(id(order));
                if let Ok(more) = order.with_item("a".parse().unwrap(), whole(1), whole(1)) {
                    shop.orders.insert(more.order_id.clone(), more);
                }
            }
            Act::AddFunds(user) => {
                let credit = shop.pay.balances.values_mut().nth(usize::from(user % 2)).unwrap();
                *credit = credit.plus(whole(2)).unwrap();
                self.funds += 2;
            }
            Act::Trim => {
                let needed = shop.outcome_offset.unwrap_or_default();
                shop.log_start = usize::try_from(needed).unwrap().max(shop.log_start);
            }
        }
    }

    /// A rebuild sends decisions of tries that had none, and repeats rollbacks that the log does not answer.
    fn crash(&mut self) {
        let window = usize::try_from(self.shop.outcome_offset.unwrap_or_default()).unwrap();
        let answered: BTreeSet<(Key, bool)> = self.shop.log[window..].iter().filter_map(undone).collect();
        let decided_before: BTreeSet<Key> = self.shop.decisions.keys().cloned().collect();
        for message in self.shop.crash() {
            match &message.body {
                Body::Decided(_) => assert!(!decided_before.contains(&message.key), "{message:?} twice"),
                Body::Pay(Step::Rollback(_)) => assert!(!answered.contains(&(message.key.clone(), true))),
                Body::Stock(Step::Rollback(_)) => assert!(!answered.contains(&(message.key.clone(), false))),
                other => panic!("a rebuild sent {other:?}"),
            }
        }
    }

    /// Everything that can still happen happens.
    fn come_to_rest(&mut self) {
        for _ in 0..20 {
            self.shop.run();
            let undecided: Vec<Key> = ORDERS.iter().filter_map(|order| self.shop.last_try(order)).collect();
            for key in undecided {
                match self.shop.orders[&key.order_id].state {
                    OrderState::Pending(_) => drop(self.shop.cancel(&key)),
                    OrderState::Cancelling(_) => drop(self.shop.retry(&key)),
                    OrderState::Paid(_) | OrderState::NotPaid(_) => {}
                }
            }
            self.crash();
            if self.shop.to_participants.is_empty() && self.shop.read == self.shop.log.len() {
                return;
            }
        }
        panic!("the shop does not come to rest: {:?}", self.shop.orders);
    }

    fn check(&self) {
        let shop = &self.shop;
        assert_eq!(shop.alarms, [], "nothing was wrong, so nothing should alarm");
        for (key, decisions) in &shop.decisions {
            assert_eq!(decisions.len(), 1, "{key} was decided {decisions:?}");
        }
        let mut value = 0;
        for order in shop.orders.values() {
            match order.state {
                OrderState::Paid(_) => value += order.amount.get(),
                OrderState::NotPaid(_) => {}
                OrderState::Pending(_) | OrderState::Cancelling(_) => panic!("{order:?} is not at rest"),
            }
        }
        assert_eq!(self.funds - shop.credit_in_all(), value, "credit taken");
        assert_eq!(self.goods - shop.stock_in_all(), value, "stock gone, at price 1");
        assert_eq!(shop.coordinator.open_count(), 0);
        assert_eq!(shop.outcome_offset.unwrap_or_default(), shop.log.len() as u64);
    }
}

/// The try that a `csucc` (true) or `asucc` (false) answers.
fn undone(message: &Message) -> Option<(Key, bool)> {
    match message.body {
        Body::Paid(Answer::Undone(_)) => Some((message.key.clone(), true)),
        Body::Stocked(Answer::Undone(_)) => Some((message.key.clone(), false)),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn money_and_stock_agree_whatever_happens(
        credit in 0..12_u64, stock in 0..12_u64, acts in proptest::collection::vec(act(), 0..120),
    ) {
        let mut world = World::new(credit, stock);
        for act in acts {
            world.act(act);
        }
        world.come_to_rest();
        world.check();
    }
}
