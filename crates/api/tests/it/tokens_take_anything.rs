//! Whatever is sent to the token paths, no handler panics, and every answer is JSON of its kind: a good one, or a problem
//! that says its own status.

use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::world::World;

/// The hub of the random cases; they come one after another.
static WORLD: LazyLock<(tokio::runtime::Runtime, World)> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    (runtime, World::new())
});

/// A good body for each path that takes one.
fn good_bodies() -> Vec<(&'static str, Value)> {
    let token = json!({"wallet": "w", "externalId": "x", "publicKey": "k", "type": "token", "currency": "EUR", "quantity": "5", "issuer": "i", "notary": "n", "attributes": {"a": "1"}});
    let mut named = token.clone();
    named["id"] = json!("t1");
    let output = json!({"wallet": "v", "quantity": "2", "externalId": "y", "attributes": {"b": "2"}});
    vec![
        ("/tokens/issue", json!({"tokens": [token, token]})),
        (
            "/tokens/select",
            json!({"spender": "p", "wallet": "w", "currency": "EUR", "type": "token", "amount": "3", "issuer": "i", "notary": "n", "attributes": {"a": "1"}, "policy": "random", "maxInputs": 5, "allowShortfall": false, "leaseMs": 1000, "waitMs": 1, "sweep": {"quantityMax": "5", "inputsMax": 2}}),
        ),
        ("/tokens/spend", json!({"spender": "p", "fence": "7", "outputs": [output]})),
        ("/tokens/redeem", json!({"spender": "p", "fence": "7", "quantity": "1"})),
        ("/tokens/updates", json!({"consumed": ["t0"], "produced": [named]})),
        (
            "/tokens/consolidate",
            json!({"wallet": "w", "currency": "EUR", "type": "token", "outputs": 2, "maxInputs": 10, "quantityMax": "9", "spender": "c"}),
        ),
        ("/tokens/locks/p/renew", json!({"leaseMs": 1000, "fence": "7"})),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let strange = vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(""),
        json!("0"),
        json!("18446744073709551615"),
        json!("18446744073709551616"),
        json!("p".repeat(129)),
        json!("\u{0}\"\u{10ffff}"),
        json!([]),
        json!({}),
        json!([[{}]]),
        json!({"a": {"b": []}}),
    ];
    prop_oneof![
        select(strange),
        "\\PC{0,20}".prop_map(Value::from),
        any::<u64>().prop_map(|n| json!(n.to_string()))
    ]
}

/// Puts a value at a place that is found by counting through the members and entries; also a new member at times.
fn put(at: &mut Value, steps: &[usize], value: Value) {
    let Some((step, further)) = steps.split_first() else {
        *at = value;
        return;
    };
    match at {
        Value::Object(members) if *step == members.len() => {
            members.insert("more".to_owned(), value);
        }
        Value::Object(members) if !members.is_empty() => {
            let count = members.len();
            let (_, inner) = members.iter_mut().nth(step % count).expect("counted");
            put(inner, further, value);
        }
        Value::Array(entries) if !entries.is_empty() => {
            let count = entries.len();
            put(&mut entries[step % count], further, value);
        }
        other => *other = value,
    }
}

fn assert_of_its_kind(method: &str, path: &str, body: Vec<u8>) -> Result<(), TestCaseError> {
    let (runtime, world) = &*WORLD;
    let answer = runtime.block_on(world.ask(method.parse().unwrap(), path, body));
    let kind = match answer.status {
        200 | 201 => "application/json",
        400 | 409 | 413 | 422 => "application/problem+json",
        other => return Err(TestCaseError::fail(format!("{method} {path}: {other} {}", answer.text))),
    };
    prop_assert_eq!(&answer.media_type, kind);
    let body: Value = serde_json::from_str(&answer.text).unwrap();
    if answer.status >= 400 {
        prop_assert_eq!(&body["status"], answer.status);
        prop_assert!(body["detail"].as_str().is_some_and(|detail| detail.len() < 2_000));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn bodies_that_are_almost_right(
        which in 0..7_usize,
        changes in vec((vec(0..18_usize, 1..4), any_value()), 0..4),
    ) {
        let (path, mut body) = good_bodies().swap_remove(which);
        for (steps, value) in changes {
            put(&mut body, &steps, value);
        }
        assert_of_its_kind("POST", path, body.to_string().into_bytes())?;
    }

    #[test]
    fn bodies_that_are_broken(
        which in 0..7_usize, cut in 0..400_usize, at in 0..400_usize, bytes in vec(any::<u8>(), 0..4),
    ) {
        let (path, body) = good_bodies().swap_remove(which);
        let mut body = body.to_string().into_bytes();
        let at = at.min(body.len());
        body.splice(at..at, bytes);
        body.truncate(cut.max(1));
        assert_of_its_kind("POST", path, body)?;
    }

    #[test]
    fn queries_of_all_sorts(
        path in select(vec!["/tokens", "/tokens/balance", "/tokens/locks"]),
        pairs in vec((
            select(vec!["wallet", "externalId", "publicKey", "currency", "type", "state", "after", "limit", "spender", "x"]),
            select(vec!["w", "EUR", "free", "locked", "t1", "0", "1", "5", "1001", "", "%FF", "%2F", "p%00"]),
        ), 0..6),
    ) {
        let query: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_of_its_kind("GET", &format!("{path}?{}", query.join("&")), Vec::new())?;
    }

    #[test]
    fn spenders_of_all_sorts(
        spender in select(vec!["p", "%FF", "%00", "%2F", "%F0%9D%84%9E", "a+b", ".", "%25"]),
        fence in select(vec!["", "?fence=1", "?fence=x", "?fence=", "?fence=1&fence=1", "?other=1"]),
    ) {
        assert_of_its_kind("DELETE", &format!("/tokens/locks/{spender}{fence}"), Vec::new())?;
    }
}
