//! Transfers of fsp1 to fsp2 that alice's tokens pay for, to bob.

use serde_json::{Value, json};

use super::fspiop::Payment;
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

pub(crate) fn is(state: &str, code: &str) -> (String, String) {
    (state.to_owned(), code.to_owned())
}
