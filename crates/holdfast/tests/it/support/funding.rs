//! Transfers of fsp1 to fsp2 that alice's tokens pay for, to bob.

use std::collections::BTreeSet;
use std::sync::Barrier;

use serde_json::{Value, json};

use super::fspiop::{Message, Payment};
use super::http::{Answer, get, send};
use super::server::Server;
use super::world::now;

pub(crate) fn ask(server: &Server, verb: &str, path: &str, body: &Value) -> Answer {
    send(server, verb, path, &body.to_string())
}

pub(crate) fn issue(server: &Server, tokens: &[(&str, &str, u64)]) {
    let token = |(id, wallet, quantity): &(&str, &str, u64)| json!({"id": id, "wallet": wallet, "currency": "USD", "quantity": quantity.to_string()});
    let tokens: Vec<Value> = tokens.iter().map(token).collect();
    let answer = ask(server, "POST", "/tokens/issue", &json!({"tokens": tokens}));
    assert_eq!(answer.status, 201, "{answer:?}");
}

/// All that a wallet has, and what of it is locked.
pub(crate) fn wallet(server: &Server, name: &str) -> (u64, u64) {
    let answer = get(server, &format!("/tokens/balance?wallet={name}&currency=USD"));
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.json();
    let number = |name: &str| body[name].as_str().unwrap().parse().unwrap();
    assert_eq!(number("total"), number("free") + number("locked"), "{body}");
    (number("total"), number("locked"))
}

pub(crate) fn funded(number: u32, amount: &str) -> Payment {
    funded_until(number, amount, now() + 600_000)
}

pub(crate) fn funded_until(number: u32, amount: &str, expiration: i64) -> Payment {
    let wallets = [("holdfast.payerWallet", "alice"), ("holdfast.payeeWallet", "bob")];
    let extensions: Vec<Value> =
        wallets.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
    Payment::until(number, amount, expiration).with("extensionList", json!({"extension": extensions}))
}

/// What a caller who waits is told: state and code.
pub(crate) fn told(answer: &Answer) -> (String, String) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.json();
    let code = body["errorInformation"]["errorCode"].as_str().unwrap_or("");
    (body["state"].as_str().unwrap_or("none").to_owned(), code.to_owned())
}

/// A caller who waits for what comes of this message is told state and code.
#[track_caller]
pub(crate) fn is_told(server: &Server, message: Message, state: &str, code: &str) {
    let answer = message.waiting().send(server);
    assert_eq!(told(&answer), (state.to_owned(), code.to_owned()), "{answer:?}");
}

/// 25 payments of 10 with numbers from `first` on, each sent by two callers at once, each caller to its node. Those that were
/// reserved.
pub(crate) fn pay_twice_at_once<'n>(first: u32, node_of: impl Fn(usize) -> &'n Server) -> BTreeSet<u32> {
    let (barrier, expiration) = (Barrier::new(50), now() + 600_000);
    let answers: Vec<(u32, (String, String))> = std::thread::scope(|scope| {
        let sent: Vec<_> = (0..50_u32)
            .map(|caller| {
                let number = first + caller / 2;
                let payment = funded_until(number, "10", expiration);
                let (node, barrier) = (node_of(caller as usize), &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    (number, told(&payment.post().waiting().send(node)))
                })
            })
            .collect();
        sent.into_iter().map(|sent| sent.join().expect("an answer")).collect()
    });
    let mut reserved = BTreeSet::new();
    for (number, answer) in &answers {
        let other = answers.iter().find(|(again, other)| again == number && other != answer);
        assert_eq!(other, None, "{number}: both callers of one transfer get the same answer");
        match (answer.0.as_str(), answer.1.as_str()) {
            ("RESERVED", "") => reserved.extend([*number]),
            ("ABORTED_REJECTED", "4001") => {}
            other => panic!("{number}: {other:?}"),
        }
    }
    reserved
}
