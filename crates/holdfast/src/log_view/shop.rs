//! The shop in the log: its commands as JSON with what became of them, and the topics of checkouts, whose messages are derived
//! by deciding the log again.

use holdfast_checkout::codec;
use holdfast_domain::effects::{Effects, Outcome};
use holdfast_domain::shop::{
    Charging, CheckoutAnswer, CheckoutOrder, ItemRow, OrderRow, Said, ShopCommand, ShopOutcome, Sides, Topic,
    UserRow,
};
use holdfast_domain::tokens::TokenId;
use holdfast_store::Store;
use serde_json::{Value, json};

/// What the commands of this embedded log go to: it has one partition.
const PARTITION: u64 = 0;

pub(super) fn show(command: &ShopCommand, outcome: &Outcome) -> Value {
    let mut shown = asked(command);
    if let (Value::Object(members), Some(outcome)) = (&mut shown, outcome.shop.as_deref()) {
        members.insert("outcome".to_owned(), decided(outcome));
    }
    shown
}

fn asked(command: &ShopCommand) -> Value {
    match command {
        ShopCommand::CreateUser { id, credit } => {
            json!({"action": "createUser", "userId": id.as_str(), "credit": credit.get()})
        }
        ShopCommand::CreateItem { id, stock, price } => json!({
            "action": "createItem", "itemId": id.as_str(), "stock": stock.get(), "price": price.get(),
        }),
        ShopCommand::CreateOrder { id, user } => {
            json!({"action": "createOrder", "orderId": id.as_str(), "userId": user.as_str()})
        }
        ShopCommand::InitUsers { first, count, credit } => {
            json!({"action": "initUsers", "first": first, "count": count, "credit": credit.get()})
        }
        ShopCommand::InitItems { first, count, stock, price } => json!({
            "action": "initItems", "first": first, "count": count, "stock": stock.get(), "price": price.get(),
        }),
        ShopCommand::InitOrders { first, count, items, users, price, .. } => json!({
            "action": "initOrders",
            "first": first,
            "count": count,
            "items": items,
            "users": users,
            "price": price.get(),
        }),
        ShopCommand::AddItem { order, item, quantity } => json!({
            "action": "addItem", "orderId": order.as_str(), "itemId": item.as_str(), "quantity": quantity.get(),
        }),
        ShopCommand::AddFunds { user, amount } => {
            json!({"action": "addFunds", "userId": user.as_str(), "amount": amount.get()})
        }
        ShopCommand::TakeFunds { user, amount } => {
            json!({"action": "takeFunds", "userId": user.as_str(), "amount": amount.get()})
        }
        ShopCommand::AddStock { item, amount } => {
            json!({"action": "addStock", "itemId": item.as_str(), "amount": amount.get()})
        }
        ShopCommand::TakeStock { item, amount } => {
            json!({"action": "takeStock", "itemId": item.as_str(), "amount": amount.get()})
        }
        ShopCommand::Checkout(CheckoutOrder { order, deadline_ms, key, chosen }) => {
            let mut shown = json!({
                "action": "checkout",
                "orderId": order.as_str(),
                "deadlineMs": deadline_ms,
                "idempotencyKey": key.as_ref().map(|key| &*key.key),
            });
            if let Some(chosen) = chosen {
                let ids: Vec<&str> = chosen.ids.iter().map(TokenId::as_str).collect();
                shown["tokens"] = json!({"spender": &*chosen.spender, "ids": ids});
            }
            shown
        }
        ShopCommand::Answer { key, side, said } => json!({
            "action": "answer",
            "orderId": key.order_id.as_str(),
            "tr": key.tr_num.get(),
            "side": side.name(),
            "says": match said { Said::Taken => "taken", Said::Refused => "refused", Said::Undone => "undone" },
        }),
        ShopCommand::Cancel { order } => json!({"action": "cancel", "orderId": order.as_str()}),
        ShopCommand::Retry { order, deadline_ms } => {
            json!({"action": "retry", "orderId": order.as_str(), "deadlineMs": deadline_ms})
        }
        ShopCommand::SetOutside { outside } => json!({"action": "setOutside", "outside": sides(*outside)}),
        ShopCommand::SetCharging { charging: now } => {
            json!({"action": "setCharging", "charging": charging(now)})
        }
    }
}

fn sides(sides: Sides) -> Vec<&'static str> {
    let all = holdfast_domain::shop::Side::ALL.into_iter();
    all.filter(|side| sides.has(*side)).map(holdfast_domain::shop::Side::name).collect()
}

/// The secret is not shown.
fn charging(charging: &Charging) -> Value {
    match charging {
        Charging::Credit => json!("credit"),
        Charging::Transfers(by) => json!({
            "payee": by.payee.0,
            "currency": by.currency.to_string(),
            "unit": by.unit.to_string(),
        }),
        Charging::Tokens(by) => json!({
            "wallet": &*by.wallet,
            "currency": by.currency.to_string(),
            "unit": by.unit.to_string(),
        }),
    }
}

fn decided(outcome: &ShopOutcome) -> Value {
    match outcome {
        ShopOutcome::User(UserRow { credit, .. }) => json!({"credit": credit.get()}),
        ShopOutcome::Item(ItemRow { stock, price, .. }) => {
            json!({"stock": stock.get(), "price": price.get()})
        }
        ShopOutcome::Order(row) => {
            let OrderRow { order, .. } = &**row;
            json!({"state": order.state.name(), "amount": order.amount.get()})
        }
        ShopOutcome::Initialised(count) => json!({"initialised": count}),
        ShopOutcome::Checkout(answer) => checkout(*answer),
        ShopOutcome::Heard { counts, now } => json!({"counts": counts, "checkout": checkout(*now)}),
        ShopOutcome::Outside(outside) => json!({"outside": sides(*outside)}),
        ShopOutcome::Charging(now) => json!({"charging": charging(now)}),
        ShopOutcome::Refused(refusal) => json!({"refused": refusal.to_string()}),
    }
}

fn checkout(answer: CheckoutAnswer) -> Value {
    let tr = answer.tr().get();
    match answer {
        CheckoutAnswer::Paid { .. } => json!({"state": "paid", "tr": tr}),
        CheckoutAnswer::AlreadyPaid { .. } => json!({"state": "paid", "tr": tr, "already": true}),
        CheckoutAnswer::Failed { why, .. } => json!({"state": "not_paid", "tr": tr, "why": why.name()}),
        CheckoutAnswer::Open { waits, .. } => json!({
            "state": if waits.cancelling { "cancelling" } else { "pending" },
            "tr": tr,
            "waitsFor": sides(waits.sides),
        }),
    }
}

/// The messages of one of the topics of checkouts, each with the place of the record that led to it.
pub(super) fn messages(effects: &Effects, topic: Topic) -> Vec<(u64, Value)> {
    let of_topic =
        effects.all(|step| &step.shop_messages).filter(|message| message.message.body.topic() == topic);
    of_topic
        .map(|message| {
            let (key, value) = codec::to_json(&message.message);
            (message.offset, json!({"key": key, "value": value}))
        })
        .collect()
}

/// Where the oldest open checkout begins, or the end of the log, after a frame in which outcomes were heard.
pub(super) fn outcome_offset(effects: &Effects, end: u64, state: &impl Store) -> Option<Value> {
    effects
        .all(|step| &step.shop_messages)
        .any(|message| message.message.body.topic() == Topic::Outcomes)
        .then(|| {
            let oldest = state.open_checkouts(None, 1).first().map(|row| row.start);
            json!({"key": PARTITION, "value": oldest.unwrap_or(end)})
        })
}

#[cfg(test)]
mod tests {
    use holdfast_domain::command::Command;
    use holdfast_domain::positions::PrepareOrder;
    use holdfast_domain::shop::Whole;
    use holdfast_domain::{FrameInput, decide};
    use holdfast_store::MemoryStore;

    use super::*;

    fn frame(store: &mut MemoryStore, base_offset: u64, commands: Vec<ShopCommand>) -> Effects {
        let commands: Vec<Command> =
            commands.into_iter().map(|command| Command::Shop(Box::new(command))).collect();
        let order = PrepareOrder::Arrival;
        let effects = decide(&*store, &FrameInput { base_offset, time: 1, order, commands: &commands });
        store.apply(&effects, 1);
        effects
    }

    #[test]
    fn the_topics_of_a_checkout_are_derived_from_the_log() {
        let mut store = MemoryStore::new(1);
        let number = |number| Whole::new(number).unwrap();
        let add = ShopCommand::AddItem {
            order: "o".parse().unwrap(),
            item: "i".parse().unwrap(),
            quantity: number(2),
        };
        let made = vec![
            ShopCommand::CreateUser { id: "u".parse().unwrap(), credit: number(10) },
            ShopCommand::CreateItem { id: "i".parse().unwrap(), stock: number(3), price: number(5) },
            ShopCommand::CreateOrder { id: "o".parse().unwrap(), user: "u".parse().unwrap() },
            add,
        ];
        let effects = frame(&mut store, 0, made);
        assert_eq!(outcome_offset(&effects, 4, &store), None);
        let checkout = CheckoutOrder { order: "o".parse().unwrap(), deadline_ms: 9, key: None, chosen: None };
        let command = ShopCommand::Checkout(checkout);
        let outside = ShopCommand::SetOutside { outside: Sides::BOTH };
        let effects = frame(&mut store, 4, vec![command.clone(), outside]);
        let key = json!({"order_id": "o", "tr_num": 1});
        let pay = json!({"key": key, "value": {"type": "pay", "user_id": "u", "amnt": 10}});
        assert_eq!(messages(&effects, Topic::Pay), [(4, pay)]);
        let items = json!([{"id": "i", "amnt": 2}]);
        let sub = json!({"key": key, "value": {"type": "sub", "items": items}});
        assert_eq!(messages(&effects, Topic::Stock), [(4, sub)]);
        let types: Vec<Value> = messages(&effects, Topic::Outcomes)
            .into_iter()
            .map(|(_, message)| message["value"]["type"].clone())
            .collect();
        assert_eq!(types, ["psucc", "ssucc", "trsucc"]);
        let offset = outcome_offset(&effects, 6, &store);
        assert_eq!(offset, Some(json!({"key": 0, "value": 6})), "nothing is open");
        let shown = show(&command, effects.outcome(0));
        assert_eq!(shown["outcome"], json!({"state": "paid", "tr": 1}));
    }
}
