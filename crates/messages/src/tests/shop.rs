//! The shapes of a shop's messages.

use holdfast_domain::shop::{
    self, CheckoutAnswer, IdempotencyKey, OrderState, ShopOutcome, ShopRefusal, Sides, TrNum, Waits, Why,
};

use super::*;

const KEY: &str = r#"{"order_id":"o1","tr_num":2}"#;

/// What each golden file says, read as a message of its topic and written again.
fn plain<M: Message + PartialEq + fmt::Debug>(
    names: &[&str],
    new: fn(shop::Message) -> Option<M>,
    said: fn(&M) -> &shop::Message,
) {
    for name in names {
        let message = M::read(KEY.as_bytes(), file(name).as_bytes()).unwrap();
        assert!(name.ends_with(said(&message).body.type_name()), "{name}");
        assert_eq!(said(&message).key.tr_num.get(), 2);
        assert_eq!(new(said(&message).clone()).as_ref(), Some(&message));
        assert_eq!(message.partition_key().as_deref(), Some("o1"));
        golden(name, KEY, &message);
    }
}

#[test]
fn messages_of_a_shop_are_those_of_the_golden_files() {
    plain(&["pay-pay", "pay-can"], PayMessage::new, PayMessage::said);
    plain(&["stock-sub", "stock-add"], StockMessage::new, StockMessage::said);
    let answers = ["psucc", "pfail", "csucc", "ssucc", "sfail", "asucc", "trsucc", "trfail"];
    let outcomes = answers.map(|answer| format!("outcomes-{answer}"));
    plain(&outcomes.each_ref().map(String::as_str), OutcomeMessage::new, OutcomeMessage::said);
    golden("outcome-offsets", "3", &OutcomeOffset { partition: 3, offset: 812 });
    let order = |command| OrderMessage { trace: TRACE, order: "o1".parse().unwrap(), command };
    let key = Some(IdempotencyKey { key: "k1".into(), body: Fingerprint(ID.0) });
    golden("orders-checkout", "o1", &order(OrderCommand::Checkout { deadline_ms: 10_000, key }));
    golden("orders-cancel", "o1", &order(OrderCommand::Cancel { tr: None }));
    let tr = TrNum::try_from(2).unwrap();
    golden("orders-cancel-try", "o1", &order(OrderCommand::Cancel { tr: Some(tr) }));
    golden("orders-retry", "o1", &order(OrderCommand::Retry { deadline_ms: 10_000 }));
    let told = |answer| Notification {
        trace: TRACE,
        notice: Notice::Checkout(CheckoutNotice { order: "o1".parse().unwrap(), answer }),
    };
    golden("notifications-checkout-paid", KEY, &told(Ok(CheckoutAnswer::Paid { tr })));
    let failed = CheckoutAnswer::Failed { tr, why: Why::Stock };
    golden("notifications-checkout-failed", KEY, &told(Ok(failed)));
    let sides = Sides { pay: true, stock: false };
    let waits = Waits { sides, cancelling: true, since: 1_794_787_200_000, deadline: 1_794_787_210_000 };
    golden("notifications-checkout-open", KEY, &told(Ok(CheckoutAnswer::Open { tr, waits })));
    let (order, state) = ("o1".parse().unwrap(), OrderState::Paid(tr));
    let not_now = told(Err(ShopRefusal::NotNow { order, state }));
    golden("notifications-checkout-not-now", "\"o1\"", &not_now);
    assert!(not_now.callbacks().is_empty());
}

#[test]
fn what_is_told_is_what_an_embedded_shop_answers() {
    let order: shop::OrderId = "o1".parse().unwrap();
    let tr = TrNum::try_from(2).unwrap();
    let refusals = [
        ShopRefusal::UnknownOrder(order.clone()),
        ShopRefusal::NotNow { order: order.clone(), state: OrderState::NotPaid(None) },
        ShopRefusal::NotNow { order: order.clone(), state: OrderState::NotPaid(Some(tr)) },
        ShopRefusal::NotNow { order: order.clone(), state: OrderState::Cancelling(tr) },
        ShopRefusal::KeyReused,
        ShopRefusal::TriesUsedUp(order.clone()),
        ShopRefusal::Full {
            what: "keys for one checkout",
            max: holdfast_domain::shop::limits::KEYS_PER_CHECKOUT_MAX,
        },
    ];
    for refusal in refusals {
        let answer = Err(refusal.clone());
        let notice = Notice::Checkout(CheckoutNotice { order: order.clone(), answer });
        let told = Notification { trace: TRACE, notice };
        let read = Notification::read(told.key().as_bytes(), &told.to_json()).unwrap();
        let outcome = read.notice.outcome().and_then(|outcome| outcome.shop).unwrap();
        assert_eq!(*outcome, ShopOutcome::Refused(refusal));
    }
}

#[test]
fn what_lies_in_the_wrong_topic_or_has_no_key_is_poison() {
    let pay = br#"{"type":"pay","user_id":"u1","amnt":12}"#;
    assert_eq!(StockMessage::read(KEY.as_bytes(), pay), Err(Poison::Type("pay".into())));
    assert_eq!(OutcomeMessage::read(KEY.as_bytes(), pay), Err(Poison::Type("pay".into())));
    assert!(PayMessage::read(b"o1", pay).is_err());
    assert!(PayMessage::from_json(pay).is_err());
    let spaced = br#"{ "tr_num" : 2, "order_id" : "o1" }"#;
    assert!(PayMessage::read(spaced, pay).is_ok(), "others may write JSON in their own way");
    for (key, value) in [("3", "-1"), ("3", "+1"), ("3", ""), ("x", "1"), ("4294967296", "1")] {
        assert!(OutcomeOffset::read(key.as_bytes(), value.as_bytes()).is_err(), "{key} {value}");
    }
    let checkout = file("orders-checkout");
    for (from, to) in [("10000", "0"), ("10000", "86400001"), ("\"k1\"", "\"\""), ("\"o1\"", "\"\"")] {
        assert!(OrderMessage::from_json(checkout.replacen(from, to, 1).as_bytes()).is_err(), "{to}");
    }
}

/// No row could have such an id: it must not come as far as the rows.
#[test]
fn an_id_with_nul_is_poison() {
    let nul = |field| Poison::Field { field, why: "contains a NUL character".into() };
    let key = r#"{"order_id":"a\u0000b","tr_num":2}"#;
    let decided = br#"{"type":"trsucc"}"#;
    assert_eq!(OutcomeMessage::read(key.as_bytes(), decided), Err(nul("order_id")));
    let paid = |kind: &str| format!(r#"{{"type":"{kind}","user_id":"a\u0000b","amnt":1}}"#);
    for kind in ["pay", "can"] {
        assert_eq!(PayMessage::read(KEY.as_bytes(), paid(kind).as_bytes()), Err(nul("user_id")), "{kind}");
    }
    for kind in ["psucc", "csucc"] {
        assert_eq!(
            OutcomeMessage::read(KEY.as_bytes(), paid(kind).as_bytes()),
            Err(nul("user_id")),
            "{kind}"
        );
    }
    let stocked = |kind: &str| {
        format!(r#"{{"type":"{kind}","items":[{{"id":"i","amnt":1}},{{"id":"\u0000","amnt":1}}]}}"#)
    };
    for kind in ["sub", "add"] {
        assert_eq!(StockMessage::read(KEY.as_bytes(), stocked(kind).as_bytes()), Err(nul("items")), "{kind}");
    }
    for kind in ["ssucc", "sfail", "asucc"] {
        assert_eq!(
            OutcomeMessage::read(KEY.as_bytes(), stocked(kind).as_bytes()),
            Err(nul("items")),
            "{kind}"
        );
    }
    let checkout = file("orders-checkout");
    for (from, to, field) in [("o1", "o\\u0000", "order"), ("k1", "\\u0000", "key")] {
        let read = OrderMessage::from_json(checkout.replacen(from, to, 1).as_bytes());
        assert_eq!(read, Err(nul(field)));
    }
    for none in ["0", "4294967296", "-1", "\"2\""] {
        let cancel = file("orders-cancel-try").replacen("2}", &format!("{none}}}"), 1);
        assert!(OrderMessage::from_json(cancel.as_bytes()).is_err(), "{none} is no try");
    }
}
