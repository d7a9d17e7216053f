//! What an outside side is asked, and how its answer is read.

use bytes::Bytes;
use holdfast_domain::shop::{AskedStep, Body, Message, Said, Side, TryKey};
use holdfast_engine::OrderView;
use hyper::http::header::{ACCEPT, CONTENT_TYPE};
use hyper::http::{HeaderMap, HeaderValue, Method};
use serde_json::{Map, Value, json};

use super::shortened;
use crate::request::Outgoing;

/// How much is shown of an outcome that is none.
const OUTCOME_CHARS_MAX: usize = 40;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What a side is to be asked now about an order; `None`: nothing.
pub(super) fn asked(view: &OrderView, side: Side) -> Option<Message> {
    let open = view.open.as_ref()?;
    if !open.outside.has(side) || !open.waits_for().has(side) {
        return None;
    }
    let order = &view.row.order;
    let gives_back = open.undo.is_some();
    let body = match side {
        Side::Pay => Body::Pay(step(gives_back, order.payment())),
        Side::Stock => Body::Stock(step(gives_back, order.items.merged())),
    };
    Some(Message { key: TryKey { order_id: open.order.clone(), tr_num: open.tr }, body })
}

const fn step<V>(gives_back: bool, value: V) -> AskedStep<V> {
    if gives_back { AskedStep::Rollback(value) } else { AskedStep::Forward(value) }
}

/// Whether it asks to give back.
pub(super) const fn gives_back(message: &Message) -> bool {
    matches!(message.body, Body::Pay(AskedStep::Rollback(_)) | Body::Stock(AskedStep::Rollback(_)))
}

/// The request, but for its address. Key and value are those that `holdfast log read` shows.
pub(super) fn request(message: &Message) -> Outgoing {
    let mut value = Map::from_iter([("type".to_owned(), json!(message.body.type_name()))]);
    match &message.body {
        Body::Pay(AskedStep::Forward(payment) | AskedStep::Rollback(payment)) => {
            value.insert("user_id".to_owned(), json!(payment.user_id));
            value.insert("amnt".to_owned(), json!(payment.amnt));
        }
        Body::Stock(AskedStep::Forward(items) | AskedStep::Rollback(items)) => {
            value.insert("items".to_owned(), json!(items));
        }
        Body::Paid(_) | Body::Stocked(_) | Body::Decided(_) => {}
    }
    post(&json!({"key": message.key, "value": value}))
}

/// A `POST` of JSON.
pub(crate) fn post(body: &Value) -> Outgoing {
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, JSON), (ACCEPT, JSON)]);
    Outgoing { method: Method::POST, headers, body: Bytes::from(body.to_string()) }
}

/// What a 2xx says about the step that was asked for; `Ok(None)`: nothing yet, the answer comes later.
///
/// # Errors
/// If it says something that is no answer to this step.
pub(super) fn heard(message: &Message, answer: &[u8]) -> Result<Option<Said>, String> {
    let words: &[(&str, Said)] = match (&message.body, gives_back(message)) {
        (Body::Pay(_), false) => &[("psucc", Said::Taken), ("pfail", Said::Refused)],
        (Body::Pay(_), true) => &[("csucc", Said::Undone)],
        (_, false) => &[("ssucc", Said::Taken), ("sfail", Said::Refused)],
        (_, true) => &[("asucc", Said::Undone)],
    };
    if answer.trim_ascii().is_empty() {
        return Ok(None);
    }
    let answer: Value =
        serde_json::from_slice(answer).map_err(|error| format!("its answer is not JSON: {error}"))?;
    let Some(outcome) = answer.get("outcome") else { return Ok(None) };
    let said = words.iter().find(|(word, _)| outcome.as_str() == Some(word)).map(|(_, said)| *said);
    let Some(said) = said else {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let (asked, outcome) = (message.body.type_name(), outcome.to_string());
        return Err(format!(
            "it answers {} to {asked}, not {}",
            shortened(&outcome, OUTCOME_CHARS_MAX),
            words.join(" or ")
        ));
    };
    Ok(Some(said))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use holdfast_domain::shop::{
        CheckoutRow, Items, Line, Order, OrderRow, OrderState, SideRow, SideSaid, Sides, TrNum, Whole,
    };

    use super::*;

    fn number(number: u64) -> Whole {
        Whole::new(number).unwrap()
    }

    fn view(outside: Sides, taken: Sides, undo: Option<Sides>) -> OrderView {
        let line = |id: &str, amnt| Line { id: id.parse().unwrap(), amnt: number(amnt) };
        let order = Order {
            order_id: "o".parse().unwrap(),
            user_id: "u".parse().unwrap(),
            items: Items::new(vec![line("i", 2), line("j", 1), line("i", 3)]).unwrap(),
            amount: number(20),
            state: OrderState::Pending(TrNum::FIRST),
        };
        let side = |taken: bool| SideRow { said: taken.then_some(SideSaid::Taken), ..SideRow::default() };
        let open = CheckoutRow {
            order: order.order_id.clone(),
            tr: TrNum::FIRST,
            start: 0,
            started_at: 0,
            deadline: 9,
            outside,
            pay: side(taken.pay),
            stock: side(taken.stock),
            undo,
            why: None,
            waits_since: 0,
            keys: Vec::new(),
            charge: None,
        };
        OrderView { row: OrderRow { order, failed: None, life: 0 }, open: Some(Arc::new(open)) }
    }

    const PAY: Sides = Sides { pay: true, stock: false };
    const STOCK: Sides = Sides { pay: false, stock: true };

    /// Who has taken is not waited for, and may yet have to give back: such a side must not be taken away.
    #[test]
    fn a_side_that_has_taken_may_still_be_asked() {
        let both = Sides { pay: true, stock: true };
        let may_ask = |undo| {
            let open = view(both, PAY, undo).open.unwrap();
            assert!(undo.is_some() || !open.waits_for().has(Side::Pay));
            open.may_ask(Side::Pay)
        };
        assert!(may_ask(None) && may_ask(Some(PAY)));
        assert!(!may_ask(Some(STOCK)), "it was decided, and nothing is asked of it");
    }

    #[test]
    fn a_side_is_asked_what_the_checkout_waits_for() {
        let types = |view: &OrderView| {
            Side::ALL.map(|side| asked(view, side).map_or("nothing", |message| message.body.type_name()))
        };
        assert_eq!(types(&view(Sides::BOTH, Sides::NONE, None)), ["pay", "sub"]);
        assert_eq!(types(&view(STOCK, PAY, None)), ["nothing", "sub"]);
        assert_eq!(types(&view(Sides::BOTH, STOCK, None)), ["pay", "nothing"], "it has answered");
        assert_eq!(types(&view(Sides::BOTH, Sides::BOTH, Some(Sides::BOTH))), ["can", "add"]);
        assert_eq!(types(&view(Sides::BOTH, STOCK, Some(STOCK))), ["nothing", "add"]);
        let closed = OrderView { open: None, ..view(Sides::BOTH, Sides::NONE, None) };
        assert_eq!(types(&closed), ["nothing", "nothing"]);
    }

    /// Other people's programs read this: it does not change.
    #[test]
    fn the_requests_are_written_as_ever() {
        let said = |undo, side| {
            let message = asked(&view(Sides::BOTH, Sides::NONE, undo), side).unwrap();
            String::from_utf8(request(&message).body.to_vec()).unwrap()
        };
        let key = r#""key":{"order_id":"o","tr_num":1}"#;
        let items = r#""items":[{"id":"i","amnt":5},{"id":"j","amnt":1}]"#;
        let pay = |kind: &str| format!(r#"{{{key},"value":{{"type":"{kind}","user_id":"u","amnt":20}}}}"#);
        let stock = |kind: &str| format!(r#"{{{key},"value":{{"type":"{kind}",{items}}}}}"#);
        assert_eq!(said(None, Side::Pay), pay("pay"));
        assert_eq!(said(Some(Sides::BOTH), Side::Pay), pay("can"));
        assert_eq!(said(None, Side::Stock), stock("sub"));
        assert_eq!(said(Some(Sides::BOTH), Side::Stock), stock("add"));
    }

    #[test]
    fn only_an_answer_to_what_was_asked_is_one() {
        let read = |undo, side, text: &str| {
            heard(&asked(&view(Sides::BOTH, Sides::NONE, undo), side).unwrap(), text.as_bytes())
        };
        let back = Some(Sides::BOTH);
        assert_eq!(read(None, Side::Pay, r#"{"outcome":"psucc"}"#), Ok(Some(Said::Taken)));
        assert_eq!(
            read(None, Side::Stock, r#"{"outcome":"sfail","why":"sold out"}"#),
            Ok(Some(Said::Refused))
        );
        assert_eq!(read(back, Side::Pay, r#"{"outcome":"csucc"}"#), Ok(Some(Said::Undone)));
        assert_eq!(read(back, Side::Stock, r#"{"outcome":"asucc"}"#), Ok(Some(Said::Undone)));
        for later in ["", " \n", "{}", r#"{"accepted":true}"#, "[]"] {
            assert_eq!(read(None, Side::Pay, later), Ok(None), "{later}");
        }
        for (undo, side, wrong) in [
            (None, Side::Pay, r#"{"outcome":"ssucc"}"#),
            (None, Side::Pay, r#"{"outcome":"csucc"}"#),
            (back, Side::Stock, r#"{"outcome":"ssucc"}"#),
            (None, Side::Stock, r#"{"outcome":true}"#),
            (None, Side::Stock, "done"),
        ] {
            assert!(read(undo, side, wrong).is_err(), "{wrong}");
        }
        let said = read(back, Side::Stock, r#"{"outcome":"sfail"}"#).unwrap_err();
        assert_eq!(said, r#"it answers "sfail" to add, not asucc"#);
    }
}
