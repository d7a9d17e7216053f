//! A wallet's calls over HTTP, to whichever node.

use std::net::SocketAddr;

use holdfast_services::PATIENCE;
use serde_json::{Value, json};

use crate::support::http;

/// What a node answered.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Answer {
    pub fn is_ok(&self) -> bool {
        self.status / 100 == 2
    }

    /// The name of a refusal.
    pub fn refusal(&self) -> &str {
        let kind = self.body["type"].as_str().unwrap_or_default();
        kind.rsplit('/').next().unwrap_or_default()
    }

    /// The ids of the tokens of a selection.
    pub fn tokens(&self) -> Vec<String> {
        let tokens = self.body["tokens"].as_array().expect("a selection");
        tokens.iter().map(|token| token["id"].as_str().expect("an id").to_owned()).collect()
    }
}

pub fn number(value: &Value) -> u64 {
    value.as_str().expect("a number as text").parse().expect("a number")
}

/// A call that is on its way, and has no answer yet.
pub struct Asked(http::Asked);

impl Asked {
    pub fn send(address: SocketAddr, verb: &str, path: &str, body: &Value) -> Result<Asked, String> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = (verb, path, "Content-Type: application/json\r\n");
        http::Asked::send(address, request, body.as_bytes(), PATIENCE).map(Asked)
    }

    pub fn answer(self) -> Result<Answer, String> {
        let answer = self.0.answer()?;
        Ok(Answer { status: answer.status, body: answer.json() })
    }
}

/// One call; what went wrong on the way is the error.
pub fn call(address: SocketAddr, verb: &str, path: &str, body: &Value) -> Result<Answer, String> {
    Asked::send(address, verb, path, body)?.answer()
}

/// A call that must be taken; its answer.
#[track_caller]
pub fn yes(answered: Result<Answer, String>) -> Answer {
    let answer = answered.expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

pub fn issue(address: SocketAddr, wallet: &str, quantities: &[u64]) {
    let token =
        |quantity: &u64| json!({"wallet": wallet, "currency": "EUR", "quantity": quantity.to_string()});
    let tokens: Vec<Value> = quantities.iter().map(token).collect();
    let issued = call(address, "POST", "/tokens/issue", &json!({ "tokens": tokens })).expect("an answer");
    assert_eq!(issued.status, 201, "{issued:?}");
}

pub fn select(
    address: SocketAddr,
    spender: &str,
    wallet: &str,
    amount: u64,
    more: &Value,
) -> Result<Answer, String> {
    let mut body =
        json!({"spender": spender, "wallet": wallet, "currency": "EUR", "amount": amount.to_string()});
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    call(address, "POST", "/tokens/select", &body)
}

/// Spends a selection to a wallet; the rest returns.
pub fn spend(address: SocketAddr, selection: &Answer, to: &str, quantity: u64) -> Result<Answer, String> {
    send_spend(address, selection, to, quantity)?.answer()
}

/// The same, without waiting for the answer.
pub fn send_spend(address: SocketAddr, selection: &Answer, to: &str, quantity: u64) -> Result<Asked, String> {
    let body = json!({
        "spender": selection.body["spender"],
        "fence": selection.body["fence"],
        "outputs": [{"wallet": to, "quantity": quantity.to_string()}],
    });
    Asked::send(address, "POST", "/tokens/spend", &body)
}

pub fn release(address: SocketAddr, spender: &str) -> Result<Answer, String> {
    call(address, "DELETE", &format!("/tokens/locks/{spender}"), &Value::Null)
}

/// What a wallet has, all in all and free.
pub fn balance(address: SocketAddr, wallet: &str) -> (u64, u64) {
    let path = format!("/tokens/balance?wallet={wallet}&currency=EUR");
    let answer = call(address, "GET", &path, &Value::Null).expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    (number(&answer.body["total"]), number(&answer.body["free"]))
}
