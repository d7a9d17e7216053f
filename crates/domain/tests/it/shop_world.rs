//! Words for the shop: what there is in it, its commands, and what they come to.

use std::sync::Arc;

pub use holdfast_domain::shop::{
    AskedStep, Body, ByTokens, ByTransfers, CHARGE_ABORTED, CHARGE_MARGIN_MS, Charging, CheckoutAnswer,
    CheckoutOrder, CheckoutRow, ChosenTokens, IdempotencyKey, OrderState, Said, Secret, ShopCommand,
    ShopEffect, ShopOutcome, ShopRefusal, Side, SideBranch, Sides, TrNum, TryKey, Verdict, Whole, Why,
};
use holdfast_domain::tokens::Fingerprint;
use proptest::prelude::*;

use crate::tokens_world::ids;
use crate::world::*;

pub const DEADLINE: u32 = 1_000;

impl World {
    /// User `u` with that credit, item `i` of price 5 with that stock, and order `o` of two of them.
    pub fn shop(credit: u64, stock: u64) -> World {
        let mut shop = World::empty();
        shop.does(user("u", credit));
        shop.does(item("i", stock, 5));
        shop.sells("o", "u", "i", 2);
        shop
    }

    /// The same with these sides outside.
    pub fn shop_outside(credit: u64, stock: u64, outside: Sides) -> World {
        let mut shop = World::shop(credit, stock);
        shop.does(ShopCommand::SetOutside { outside });
        shop
    }

    /// There is an order of so many of an item for a user.
    pub fn sells(&mut self, name: &str, user: &str, item: &str, quantity: u64) {
        self.does(order(name, user));
        self.does(add(name, item, quantity));
    }

    pub fn decided(&mut self, command: ShopCommand) -> (ShopOutcome, Effects) {
        let effects = self.frame(&[as_command(command)]);
        (ShopOutcome::clone(effects.outcome(0).shop.as_ref().unwrap()), effects)
    }

    /// The command is done.
    #[track_caller]
    pub fn does(&mut self, command: ShopCommand) -> ShopOutcome {
        match self.decided(command).0 {
            ShopOutcome::Refused(refusal) => panic!("{refusal}"),
            outcome => outcome,
        }
    }

    /// The command is refused and leaves nothing behind.
    #[track_caller]
    pub fn refuses(&mut self, command: ShopCommand) -> ShopRefusal {
        let before = self.memory.clone();
        let (outcome, effects) = self.decided(command);
        assert_eq!(self.memory, before);
        assert!(effects.shop().is_empty() && effects.shop_messages().is_empty());
        match outcome {
            ShopOutcome::Refused(refusal) => refusal,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub fn checkout(&mut self, order: &str) -> CheckoutAnswer {
        answer_of(self.does(checkout(order)))
    }

    /// The types of the messages that a command sends, in their order.
    pub fn sends(&mut self, command: ShopCommand) -> Vec<&'static str> {
        types(&self.decided(command).1)
    }

    pub fn expire(&mut self, holds_max: u32) -> Effects {
        self.frame(&[expire(holds_max)])
    }

    pub fn credit(&self, user: &str) -> u64 {
        self.memory.users[&user.parse().unwrap()].credit.get()
    }

    /// Credit that open checkouts have taken.
    pub fn credit_held(&self) -> u64 {
        let with_credit =
            |open: &&Arc<CheckoutRow>| open.charge.is_none() && open.pay.branch == Some(SideBranch::Taken);
        let held = self.memory.checkouts.values().filter(with_credit);
        held.map(|open| self.memory.orders[&open.order].order.amount.get()).sum()
    }

    pub fn stock(&self, item: &str) -> u64 {
        self.memory.items[&item.parse().unwrap()].stock.get()
    }

    pub fn state(&self, order: &str) -> OrderState {
        self.memory.orders[&order.parse().unwrap()].order.state
    }
}

/// What happens to a shop whatever pays: words from the warehouse, operators, time, and other settings.
#[derive(Debug, Clone)]
pub enum Turn {
    Answer(u8, u64, Said),
    Cancel(u8),
    Retry(u8),
    Later(i64),
    Expire(u32),
    Outside(bool),
    /// Whether something is charged, and not credit.
    Charging(bool),
    Stock(u64),
}

/// Of five orders; so much time may pass.
pub fn turns(pause: impl Strategy<Value = i64> + 'static) -> impl Strategy<Value = Turn> {
    let order = 0..5_u8;
    let said = prop_oneof![3 => Just(Said::Taken), 1 => Just(Said::Refused), 3 => Just(Said::Undone)];
    prop_oneof![
        8 => (order.clone(), 1..4_u64, said).prop_map(|(order, tr, said)| Turn::Answer(order, tr, said)),
        2 => order.clone().prop_map(Turn::Cancel),
        2 => order.prop_map(Turn::Retry),
        3 => pause.prop_map(Turn::Later),
        3 => (0..4_u32).prop_map(Turn::Expire),
        2 => any::<bool>().prop_map(Turn::Outside),
        1 => any::<bool>().prop_map(Turn::Charging),
        2 => (1..4_u64).prop_map(Turn::Stock),
    ]
}

impl World {
    pub fn turn(&mut self, turn: &Turn, charging: &Charging) {
        let command = match *turn {
            Turn::Answer(order, tr, said) => says(&order.to_string(), tr, Side::Stock, said),
            Turn::Cancel(order) => cancel(&order.to_string()),
            Turn::Retry(order) => retry(&order.to_string()),
            Turn::Later(ms) => return self.now += ms,
            Turn::Expire(max) => return drop(self.expire(max)),
            Turn::Outside(stock) => ShopCommand::SetOutside { outside: Sides { pay: false, stock } },
            Turn::Charging(on) => {
                let charging = if on { charging.clone() } else { Charging::Credit };
                ShopCommand::SetCharging { charging }
            }
            Turn::Stock(amount) => {
                ShopCommand::AddStock { item: "i".parse().unwrap(), amount: whole(amount) }
            }
        };
        let sets = !matches!(turn, Turn::Answer(..) | Turn::Cancel(_) | Turn::Retry(_));
        let refused = matches!(self.decided(command).0, ShopOutcome::Refused(_));
        assert!(!(sets && refused), "{turn:?} is never refused");
    }
}

/// In USD to that participant, with a secret of these bytes.
pub fn by_transfers(payee: u32, unit: i64, secret: u8) -> Charging {
    let (payee, unit, secret) = (ParticipantId(payee), Amount(unit), Secret([secret; 32]));
    Charging::Transfers(ByTransfers { payee, currency: usd(), unit, secret })
}

/// In USD to the wallet `shop`, with a secret of these bytes.
pub fn by_tokens(unit: u64, secret: u8) -> ByTokens {
    ByTokens { wallet: "shop".into(), currency: usd(), unit, secret: Secret([secret; 32]) }
}

pub fn types(effects: &Effects) -> Vec<&'static str> {
    effects.shop_messages().iter().map(|message| message.message.body.type_name()).collect()
}

#[track_caller]
pub fn answer_of(outcome: ShopOutcome) -> CheckoutAnswer {
    match outcome {
        ShopOutcome::Checkout(answer) | ShopOutcome::Heard { now: answer, .. } => answer,
        other => panic!("{other:?}"),
    }
}

pub fn as_command(command: ShopCommand) -> Command {
    Command::Shop(Box::new(command))
}

pub fn whole(number: u64) -> Whole {
    Whole::new(number).unwrap()
}

pub fn tr(number: u64) -> TrNum {
    TrNum::try_from(number).unwrap()
}

pub fn paid(number: u64) -> CheckoutAnswer {
    CheckoutAnswer::Paid { tr: tr(number) }
}

pub fn failed(number: u64, why: Why) -> CheckoutAnswer {
    CheckoutAnswer::Failed { tr: tr(number), why }
}

pub fn user(id: &str, credit: u64) -> ShopCommand {
    ShopCommand::CreateUser { id: id.parse().unwrap(), credit: whole(credit) }
}

pub fn item(id: &str, stock: u64, price: u64) -> ShopCommand {
    ShopCommand::CreateItem { id: id.parse().unwrap(), stock: whole(stock), price: whole(price) }
}

pub fn order(id: &str, user: &str) -> ShopCommand {
    ShopCommand::CreateOrder { id: id.parse().unwrap(), user: user.parse().unwrap() }
}

pub fn add(order: &str, item: &str, quantity: u64) -> ShopCommand {
    let (order, item) = (order.parse().unwrap(), item.parse().unwrap());
    ShopCommand::AddItem { order, item, quantity: whole(quantity) }
}

pub fn checkout(order: &str) -> ShopCommand {
    let order = order.parse().unwrap();
    ShopCommand::Checkout(CheckoutOrder { order, deadline_ms: DEADLINE, key: None, chosen: None })
}

pub fn keyed(order: &str, key: &str, body: u128) -> ShopCommand {
    let key = Some(IdempotencyKey { key: key.into(), body: Fingerprint(body) });
    let order = order.parse().unwrap();
    ShopCommand::Checkout(CheckoutOrder { order, deadline_ms: DEADLINE, key, chosen: None })
}

/// The checkout of that try, with these tokens to pay for it so.
pub fn with_tokens(by: &ByTokens, order: &str, number: u64, names: &[&str]) -> ShopCommand {
    let key = TryKey { order_id: order.parse().unwrap(), tr_num: tr(number) };
    let chosen = Some(Box::new(ChosenTokens::new(by.spender(&key), ids(names))));
    ShopCommand::Checkout(CheckoutOrder { order: key.order_id, deadline_ms: DEADLINE, key: None, chosen })
}

pub fn says(order: &str, number: u64, side: Side, said: Said) -> ShopCommand {
    let key = TryKey { order_id: order.parse().unwrap(), tr_num: tr(number) };
    ShopCommand::Answer { key, side, said }
}

pub fn cancel(order: &str) -> ShopCommand {
    ShopCommand::Cancel { order: order.parse().unwrap() }
}

pub fn retry(order: &str) -> ShopCommand {
    ShopCommand::Retry { order: order.parse().unwrap(), deadline_ms: DEADLINE }
}

pub fn funds(user: &str, amount: u64) -> ShopCommand {
    ShopCommand::AddFunds { user: user.parse().unwrap(), amount: whole(amount) }
}
