//! Every body and every answer, as callers write and see them.

use std::sync::Arc;

use holdfast_tokens::limits::NO_END;
use holdfast_tokens::{
    Balance, DustSweep, Fragmentation, Funds, Holder, Lease, LockView, Owner, Policy, Refusal, Scope,
    SelectRequest, Selection, Token, TokenPage, Transaction,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::read::{assert_refused, body, value};
use crate::tokens::{self as wire};

/// 2025-11-15T08:24:36.120Z.
const NOON: i64 = 1_763_195_076_120;

fn read_select(bytes: &[u8]) -> Result<(SelectRequest, i64), String> {
    body::<wire::Select>(bytes)?.ask()
}

fn select_request(select: &Value) -> Result<(SelectRequest, i64), String> {
    value::<wire::Select>(select)?.ask()
}

fn token(token: &Value) -> Result<Token, String> {
    value::<wire::NewToken>(token)?.token()
}

#[track_caller]
fn select(body: &str) -> Result<(SelectRequest, i64), String> {
    let read = read_select(body.as_bytes());
    if let Ok(value) = serde_json::from_str::<Value>(body) {
        // A body and a value are read by the same code; only serde's own words differ.
        assert_eq!(read.is_ok(), select_request(&value).is_ok(), "{body}");
        if let (Ok(one), Ok(other)) = (&read, &select_request(&value)) {
            assert_eq!(one, other, "{body}");
        }
    }
    read
}

/// A select with these members besides the needed ones.
fn with(members: &str) -> String {
    format!(r#"{{"spender":"p","wallet":"w","currency":"EUR","amount":"5",{members}}}"#)
}

#[test]
fn a_select_needs_little() {
    let (request, wait) =
        select(r#"{"spender":"p1","wallet":"alice","currency":"EUR","amount":"100"}"#).unwrap();
    assert_eq!(request, SelectRequest::new("p1", Scope::wallet("alice", "EUR"), 100));
    assert_eq!((wait, request.lease_ms, &*request.scope.token_type), (0, 60_000, "token"));
    let (request, _) = select(r#"{"spender":"p1","currency":"EUR","amount":"1"}"#).unwrap();
    assert_eq!(request.scope.owner, Owner::Any);
}

#[test]
fn a_select_may_say_more() {
    let (request, wait) = select(
        r#"{"spender":"p1","externalId":"x","currency":"EUR","type":"bond","amount":"18446744073709551615",
            "issuer":"i","notary":"n","attributes":{"a":"1","b":""},"policy":"no-change","maxInputs":10000,
            "allowShortfall":true,"leaseMs":86400000,"waitMs":60000,"sweep":{"quantityMax":"9","inputsMax":7}}"#,
    )
    .unwrap();
    assert_eq!(request.scope.owner, Owner::ExternalId("x".into()));
    assert_eq!((&*request.scope.token_type, request.amount), ("bond", u64::MAX));
    assert_eq!((request.filter.issuer.as_deref(), request.filter.notary.as_deref()), (Some("i"), Some("n")));
    assert_eq!(request.filter.attributes.len(), 2);
    assert_eq!((request.policy, request.max_inputs), (Policy::NoChange, Some(10_000)));
    assert!(request.allow_shortfall);
    assert_eq!((request.lease_ms, wait), (86_400_000, 60_000));
    assert_eq!(request.sweep, Some(DustSweep { quantity_max: 9, inputs_max: 7 }));
    request.check().unwrap();
    for policy in wire::Policy::ALL {
        let read = select(&with(&format!(r#""policy":"{policy}""#))).unwrap().0.policy;
        assert_eq!(read, Policy::from(*policy));
    }
    let key = select(r#"{"spender":"p","publicKey":"k","currency":"E","amount":"1"}"#).unwrap().0;
    assert_eq!(key.scope.owner, Owner::PublicKey("k".into()));
    let nulls = with(r#""issuer":null,"attributes":null,"waitMs":null,"sweep":null,"policy":null"#);
    assert_eq!(
        select(&nulls).unwrap(),
        select(&with(r#""waitMs":0"#)).unwrap(),
        "null is the same as not there"
    );
}

#[test]
fn a_wrong_select_names_the_field() {
    for (members, problem) in [
        (r#""issuer":5"#, "issuer: must be a string"),
        (r#""notary":"""#, "notary: must not be empty"),
        (r#""type":"""#, "type: must not be empty"),
        (r#""policy":"best""#, "policy: must be one of fewest-inputs, no-change, consolidate, random"),
        (r#""maxInputs":0"#, "maxInputs: must be a number from 1 to 10000"),
        (r#""maxInputs":10001"#, "maxInputs: must be a number from 1 to 10000"),
        (r#""maxInputs":"5""#, "maxInputs: must be a number from 1 to 10000"),
        (r#""allowShortfall":1"#, "allowShortfall: must be true or false"),
        (r#""leaseMs":0"#, "leaseMs: must be a number from 1 to 86400000"),
        (r#""leaseMs":86400001"#, "leaseMs: must be a number from 1 to 86400000"),
        (r#""leaseMs":-1"#, "leaseMs: must be a number from 1 to 86400000"),
        (r#""leaseMs":1.5"#, "leaseMs: must be a number from 1 to 86400000"),
        (r#""waitMs":60001"#, "waitMs: must be a number from 0 to 60000"),
        (r#""sweep":{"inputsMax":5}"#, "sweep.quantityMax: is missing"),
        (r#""sweep":{"quantityMax":"5"}"#, "sweep.inputsMax: is missing"),
        (r#""sweep":[]"#, "sweep: must be an object"),
        (r#""sweep":{"quantityMax":"0","inputsMax":1}"#, "sweep.quantityMax: must be at least 1"),
        (r#""sweep":{"quantity":"5"}"#, "the body: unknown field `quantity`"),
        (r#""publicKey":"k""#, "wallet, externalId, publicKey: name the owner by one of them"),
        (r#""amout":"5""#, "the body: unknown field `amout`"),
        (r#""spender":"q""#, "the body: duplicate field `spender`"),
        (r#""attributes":"a""#, "attributes: must be an object of strings"),
        (r#""attributes":{"a":5}"#, "attributes.a: must be a string"),
        (r#""attributes":{"a":"1","a":"2"}"#, "attributes: a name stands there twice"),
        (r#""attributes":{"":"1"}"#, "attributes: a name must have 1 to 64 characters"),
    ] {
        let read = read_select(with(members).as_bytes());
        assert_refused(read, problem);
    }
    assert_refused(select("{}"), "spender: is missing");
    assert_refused(select(r#"{"spender":"p","amount":"5"}"#), "currency: is missing");
    assert_refused(select(r#"{"spender":"p","currency":"EUR"}"#), "amount: is missing");
    assert_refused(select(r#"{"spender":null,"currency":"EUR","amount":"5"}"#), "spender: is missing");
    for body in ["[]", "5", "null", r#"["p","w"]"#, r#""p""#] {
        assert_refused(select(body), "the body: must be a JSON object");
    }
    for body in ["", "{", "{}}", "{} 5", "{'spender':'p'}", "\u{feff}{}"] {
        assert_refused(select(body), "the body: ");
    }
    assert_refused(read_select(b"{\"spender\":\"\xff\"}"), "the body: ");
    let deep = format!("{{\"spender\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_refused(read_select(deep.as_bytes()), "spender: must be a string");
    let long = format!("{{\"{}\":1}}", "x".repeat(100_000));
    assert!(read_select(long.as_bytes()).unwrap_err().len() < 1_000, "what was sent is not sent back whole");
}

#[test]
fn amounts_are_whole_numbers_below_two_to_the_64() {
    let amount = |text: &str| {
        select(&format!(r#"{{"spender":"p","currency":"EUR","amount":{text}}}"#)).map(|(read, _)| read.amount)
    };
    assert_eq!(amount(r#""1""#), Ok(1));
    assert_eq!(amount(r#""18446744073709551615""#), Ok(u64::MAX));
    assert_refused(amount(r#""18446744073709551616""#), "amount: must be at most 18446744073709551615");
    assert_refused(amount(&format!("\"{}\"", "9".repeat(5_000))), "amount: must be at most");
    assert_refused(amount(r#""0""#), "amount: must be at least 1");
    for bad in [
        "5", "1.0", "true", "[]", "{}", "\"\"", "\"-1\"", "\"+1\"", "\"01\"", "\"1.0\"", "\"1e3\"", "\" 1\"",
        "\"٣\"",
    ] {
        assert_refused(amount(bad), "amount: must be a whole number as a string");
    }
}

#[test]
fn names_have_1_to_128_characters_not_bytes() {
    let spender = |name: &str| {
        let body = json!({"spender": name, "wallet": name, "currency": "EUR", "amount": "1"});
        select(&body.to_string()).map(|(read, _)| read.check())
    };
    for good in ["p".repeat(128), "𝄞".repeat(128), "a/b c?\u{0}\"\\".to_owned()] {
        assert_eq!(spender(&good), Ok(Ok(())), "{good}");
    }
    for long in ["p".repeat(129), "𝄞".repeat(129)] {
        assert_refused(spender(&long), "spender: must have at most 128 characters");
    }
    assert_refused(spender(""), "spender: must not be empty");
    let key = |length: usize| {
        select(
            &json!({"spender": "p", "publicKey": "k".repeat(length), "currency": "E", "amount": "1"})
                .to_string(),
        )
    };
    assert!(key(512).is_ok());
    assert_refused(key(513), "publicKey: must have at most 512 bytes");
}

#[test]
fn attributes_are_bounded() {
    let attributes = |count: usize, name: usize, value: usize| {
        let all: serde_json::Map<String, Value> =
            (0..count).map(|at| (format!("{at:0name$}"), json!("é".repeat(value)))).collect();
        select(&with(&format!("\"attributes\":{}", Value::Object(all))))
    };
    assert_eq!(attributes(16, 64, 256).unwrap().0.filter.attributes.len(), 16);
    assert_refused(attributes(17, 2, 1), "attributes: at most 16 are allowed");
    assert_refused(attributes(1, 65, 1), "attributes: a name must have 1 to 64 characters");
    assert_refused(attributes(1, 1, 257), "attributes: 0 must have at most 256 characters");
}

#[test]
fn a_token_has_all_its_fields() {
    let full = json!({
        "id": "t1", "wallet": "alice", "externalId": "x", "publicKey": "k", "type": "bond", "currency": "EUR",
        "quantity": "7", "issuer": "i", "notary": "n", "attributes": {"a": "1"},
    });
    let read = token(&full).unwrap();
    let expected = Token::new("t1", "alice", "EUR", 7).external_id("x").public_key("k").of_type("bond");
    assert_eq!(read, expected.issuer("i").notary("n").attribute("a", "1"));
    let plain = json!({"id": "t1", "wallet": "alice", "currency": "EUR", "quantity": "7", "attributes": {}});
    assert_eq!(token(&plain).unwrap(), Token::new("t1", "alice", "EUR", 7));
    for (field, value, problem) in [
        ("id", json!(null), "id: is missing"),
        ("wallet", json!(null), "wallet: is missing"),
        ("currency", json!(5), "currency: must be a string"),
        ("quantity", json!("0"), "quantity: must be at least 1"),
        ("quantity", json!(7), "quantity: must be a whole number as a string"),
        ("owner", json!("alice"), "unknown field `owner`"),
    ] {
        let mut wrong = plain.clone();
        wrong[field] = value;
        assert_refused(token(&wrong), problem);
    }
    assert_refused(token(&json!([])), "must be a JSON object");
}

fn issue(text: &str) -> Result<Vec<Token>, String> {
    let mut next = 0;
    body::<wire::Issue>(text.as_bytes())?.ask(|| {
        next += 1;
        format!("new-{next}").into()
    })
}

#[test]
fn an_issue_names_what_has_no_name_and_shares_kinds() {
    let tokens = issue(
        r#"{"tokens":[{"wallet":"a","currency":"E","quantity":"1"},{"id":"t","wallet":"a","currency":"E","quantity":"2"},
            {"wallet":"b","currency":"E","quantity":"3"}]}"#,
    )
    .unwrap();
    let ids: Vec<&str> = tokens.iter().map(|token| token.id.as_str()).collect();
    assert_eq!(ids, ["new-1", "t", "new-2"]);
    assert!(Arc::ptr_eq(&tokens[0].kind, &tokens[1].kind) && !Arc::ptr_eq(&tokens[1].kind, &tokens[2].kind));
    let of = |count: usize| {
        let one = r#"{"wallet":"a","currency":"E","quantity":"1"}"#;
        issue(&format!("{{\"tokens\":[{}]}}", vec![one; count].join(",")))
    };
    assert_eq!(of(10_000).unwrap().len(), 10_000);
    assert_refused(of(10_001), "tokens: has 10001 entries, 10000 are allowed");
    assert_refused(of(0), "tokens: must not be empty");
    assert_refused(issue("{}"), "tokens: is missing");
    assert_refused(issue(r#"{"tokens":{}}"#), "tokens: must be a list");
    assert_refused(issue(r#"{"tokens":[null]}"#), "tokens[0]: must be an object");
    let second_wrong =
        r#"{"tokens":[{"wallet":"a","currency":"E","quantity":"1"},{"wallet":"a","currency":"E"}]}"#;
    assert_refused(issue(second_wrong), "tokens[1].quantity: is missing");
}

#[test]
fn updates_name_every_token() {
    let read = |text: &str| body::<wire::Updates>(text.as_bytes())?.ask();
    let (consumed, produced) =
        read(r#"{"consumed":["t1"],"produced":[{"id":"t2","wallet":"b","currency":"E","quantity":"5"}]}"#)
            .unwrap();
    assert_eq!((consumed[0].as_str(), produced[0].id.as_str()), ("t1", "t2"));
    assert_eq!(read(r#"{"consumed":["t1"]}"#).unwrap().1, []);
    assert_refused(read(r#"{"consumed":[5]}"#), "consumed[0]: must be a string");
    assert_refused(read(r#"{"consumed":["t",""]}"#), "consumed[1]: must not be empty");
    assert_refused(
        read(r#"{"produced":[{"wallet":"b","currency":"E","quantity":"5"}]}"#),
        "produced[0].id: is missing",
    );
    assert_refused(read("{}"), "consumed, produced: must have 1 to 10000 entries together");
    let ids = |count: usize| vec!["\"t\""; count].join(",");
    let one = r#"{"id":"t2","wallet":"b","currency":"E","quantity":"5"}"#;
    assert!(read(&format!("{{\"consumed\":[{}],\"produced\":[{one}]}}", ids(9_999))).is_ok());
    let many = format!("{{\"consumed\":[{}],\"produced\":[{one}]}}", ids(10_000));
    assert_refused(read(&many), "consumed, produced: must have 1 to 10000 entries together");
}

#[test]
fn a_spend_has_outputs_and_a_redeem_a_quantity() {
    let spend = |text: &str| body::<wire::Spend>(text.as_bytes()).map(wire::Spend::ask);
    let redeem = |text: &str| body::<wire::Redeem>(text.as_bytes()).map(wire::Redeem::ask);
    let read = spend(
        r#"{"spender":"p","fence":"18446744073709551615","outputs":[{"wallet":"bob","quantity":"5"},
            {"wallet":"eve","quantity":"6","externalId":"x","publicKey":"k","attributes":{"a":"1"}}]}"#,
    )
    .unwrap();
    assert_eq!((&*read.spender, read.fence, read.redeem), ("p", Some(u64::MAX), 0));
    assert_eq!(read.outputs[0], holdfast_tokens::Output::new("bob", 5));
    let other = &read.outputs[1];
    assert_eq!((other.external_id.as_deref(), other.public_key.as_deref()), (Some("x"), Some("k")));
    assert_eq!((other.quantity, other.attributes["a"].as_str()), (6, "1"));
    assert_eq!(spend(r#"{"spender":"p","outputs":[]}"#).unwrap().fence, None);
    for (body, problem) in [
        (r#"{"spender":"p"}"#, "outputs: is missing"),
        (r#"{"outputs":[]}"#, "spender: is missing"),
        (r#"{"spender":"p","fence":7,"outputs":[]}"#, "fence: must be a whole number as a string"),
        (r#"{"spender":"p","outputs":[{"quantity":"5"}]}"#, "outputs[0].wallet: is missing"),
        (
            r#"{"spender":"p","outputs":[{"wallet":"b","quantity":"0"}]}"#,
            "outputs[0].quantity: must be at least 1",
        ),
        (
            r#"{"spender":"p","outputs":[{"wallet":"b","quantity":"5","issuer":"i"}]}"#,
            "the body: unknown field `issuer`",
        ),
        (r#"{"spender":"p","outputs":[],"redeem":"5"}"#, "the body: unknown field `redeem`"),
    ] {
        assert_refused(spend(body), problem);
    }
    let read = redeem(r#"{"spender":"p","fence":"7","quantity":"5"}"#).unwrap();
    assert_eq!((read.fence, read.redeem, read.outputs.len()), (Some(7), 5, 0));
    for (body, problem) in [
        (r#"{"spender":"p"}"#, "quantity: is missing"),
        (r#"{"spender":"p","quantity":"0"}"#, "quantity: must be at least 1"),
        (r#"{"spender":"p","quantity":"1","outputs":[]}"#, "the body: unknown field `outputs`"),
    ] {
        assert_refused(redeem(body), problem);
    }
}

#[test]
fn a_consolidation_and_a_renewal_have_bounds() {
    let consolidate =
        |text: &str| body::<wire::Consolidate>(text.as_bytes()).map(|asked| asked.ask(|| "new".into()));
    let renew = |text: &str| body::<wire::Renew>(text.as_bytes()).map(wire::Renew::ask);
    let read = consolidate(r#"{"wallet":"w","currency":"E","outputs":4}"#).unwrap();
    assert_eq!((&*read.spender, read.outputs, read.max_inputs, read.quantity_max), ("new", 4, 64, u64::MAX));
    assert_eq!(read.scope, Scope::wallet("w", "E"));
    let all = r#"{"spender":"p","wallet":"w","currency":"E","type":"bond","outputs":1,"maxInputs":500,"quantityMax":"9"}"#;
    let read = consolidate(all).unwrap();
    assert_eq!((&*read.spender, read.max_inputs, read.quantity_max), ("p", 500, 9));
    assert_eq!(&*read.scope.token_type, "bond");
    assert_refused(consolidate(r#"{"currency":"E","outputs":4}"#), "wallet: is missing");
    assert_refused(consolidate(r#"{"wallet":"w","currency":"E"}"#), "outputs: is missing");
    for outputs in ["0", "10001", "\"4\"", "[]"] {
        let body = format!(r#"{{"wallet":"w","currency":"E","outputs":{outputs}}}"#);
        assert_refused(consolidate(&body), "outputs: must be a number from 1 to 10000");
    }
    assert_eq!(renew(r#"{"leaseMs":1}"#), Ok((1, None)));
    assert_eq!(renew(r#"{"leaseMs":86400000,"fence":"7"}"#), Ok((86_400_000, Some(7))));
    assert_refused(renew("{}"), "leaseMs: is missing");
    assert_refused(renew(r#"{"leaseMs":86400001}"#), "leaseMs: must be a number from 1 to 86400000");
}

fn tokens_of_two() -> Vec<Token> {
    let full = Token::new("t2", "alice", "EUR", u64::MAX).external_id("x").public_key("k").issuer("i");
    vec![Token::new("t1", "alice", "EUR", 30), full.notary("n").attribute("a", "1").of_type("bond")]
}

const T1: &str = r#"{"id":"t1","quantity":"30","wallet":"alice","type":"token","currency":"EUR"}"#;
const T2: &str = r#"{"id":"t2","quantity":"18446744073709551615","wallet":"alice","type":"bond","currency":"EUR","externalId":"x","publicKey":"k","issuer":"i","notary":"n","attributes":{"a":"1"}}"#;

fn text(answer: &impl serde::Serialize) -> String {
    serde_json::to_string(answer).unwrap()
}

#[test]
fn a_selection_and_a_transaction_as_callers_see_them() {
    let tokens = tokens_of_two();
    assert_eq!(text(&wire::Issued::from(tokens.as_slice())), format!(r#"{{"tokens":[{T1},{T2}]}}"#));
    let chosen = Selection {
        spender: "p1".into(),
        tokens: tokens.clone().into(),
        sum: u128::from(u64::MAX) + 30,
        amount: u64::MAX,
        expires_at: NOON,
        fence: u64::MAX,
    };
    let expected = format!(
        r#"{{"spender":"p1","tokens":[{T1},{T2}],"sum":"18446744073709551645","change":"30","expiresAt":"2025-11-15T08:24:36.120Z","fence":"18446744073709551615"}}"#
    );
    assert_eq!(text(&wire::Selection::from(&chosen)), expected);
    assert_eq!(serde_json::from_str::<wire::Selection>(&expected).unwrap(), wire::Selection::from(&chosen));
    let done = Transaction {
        id: "tx".into(),
        spender: "p1".into(),
        consumed: vec!["t1".into(), "t2".into()],
        produced: vec![tokens[0].clone()],
    };
    let expected = format!(r#"{{"transaction":"tx","consumed":["t1","t2"],"produced":[{T1}]}}"#);
    assert_eq!(text(&wire::Transaction::from(Some(&done))), expected);
    assert_eq!(text(&wire::Transaction::from(None)), r#"{"transaction":null,"consumed":[],"produced":[]}"#);
}

#[test]
fn views_as_callers_see_them() {
    assert_eq!(text(&wire::Updated { produced: 2, consumed: 1 }), r#"{"consumed":1,"produced":2}"#);
    assert_eq!(text(&wire::Released { released: 3 }), r#"{"released":3}"#);
    let lease = Lease { expires_at: NOON, fence: 7 };
    let renewed = text(&wire::Lease::of(&"p".into(), lease));
    assert_eq!(renewed, r#"{"spender":"p","expiresAt":"2025-11-15T08:24:36.120Z","fence":"7"}"#);
    let nothing = wire::Balance::of(&Balance::default(), &Fragmentation::default());
    assert_eq!(
        text(&nothing),
        r#"{"total":"0","free":"0","locked":"0","tokens":0,"lockedTokens":0,"largestFree":null,"smallestFree":null,"fragmentation":[]}"#
    );
    let mut pieces = Fragmentation::default();
    (pieces.tokens[1], pieces.sums[1]) = (2, 30);
    (pieces.tokens[19], pieces.sums[19]) = (1, u128::from(u64::MAX));
    let balance = Balance {
        total: u128::MAX,
        free: 30,
        locked: 5,
        tokens: 3,
        locked_tokens: 1,
        largest_free: Some(20),
        smallest_free: Some(10),
    };
    assert_eq!(
        text(&wire::Balance::of(&balance, &pieces)),
        r#"{"total":"340282366920938463463374607431768211455","free":"30","locked":"5","tokens":3,"lockedTokens":1,"largestFree":"20","smallestFree":"10","fragmentation":[{"digits":2,"tokens":2,"sum":"30"},{"digits":20,"tokens":1,"sum":"18446744073709551615"}]}"#
    );
    let token = Token::new("t1", "alice", "EUR", 30);
    let state = |word: &str| format!("{},\"state\":\"{word}\"}}", T1.trim_end_matches('}'));
    let page =
        TokenPage { tokens: vec![(token.clone(), true), (token.clone(), false)], next: Some("t1".into()) };
    assert_eq!(
        text(&wire::TokenPage::from(&page)),
        format!(r#"{{"tokens":[{},{}],"next":"t1"}}"#, state("locked"), state("free"))
    );
    assert_eq!(text(&wire::TokenPage::from(&TokenPage::default())), r#"{"tokens":[],"next":null}"#);
    let lock = |since: i64, expires_at: i64| LockView {
        spender: "p".into(),
        fence: 7,
        since,
        expires_at,
        tokens: vec![token.clone()],
    };
    let page = wire::LockPage::of(&[lock(NOON - 20, NOON), lock(NOON + 5, NO_END)], Some(7), NOON);
    assert_eq!(
        text(&page),
        format!(
            r#"{{"locks":[{{"holder":"p","fence":"7","since":"2025-11-15T08:24:36.100Z","ageMs":20,"expiresAt":"2025-11-15T08:24:36.120Z","tokens":[{T1}]}},{{"holder":"p","fence":"7","since":"2025-11-15T08:24:36.125Z","ageMs":0,"expiresAt":null,"tokens":[{T1}]}}],"next":"7"}}"#
        )
    );
}

fn some_funds() -> Box<Funds> {
    Box::new(Funds {
        amount: 100,
        total: u128::from(u64::MAX) + 1,
        free: 40,
        locked: 80,
        largest_free: Some(30),
        holders: vec![
            Holder { spender: "p1".into(), expires_at: NOON },
            Holder { spender: "transfer".into(), expires_at: NO_END },
        ],
        earliest_expiry: Some(NOON),
        notary: Some("n".into()),
    })
}

fn problem(refusal: &Refusal) -> Value {
    serde_json::to_value(wire::Problem::from(refusal)).unwrap()
}

#[test]
fn a_refusal_about_funds_has_the_numbers() {
    let numbers = r#""amount":"100","total":"18446744073709551616","free":"40","locked":"80","largestFree":"30","holders":[{"spender":"p1","expiresAt":"2025-11-15T08:24:36.120Z"},{"spender":"transfer","expiresAt":null}],"earliestExpiry":"2025-11-15T08:24:36.120Z","notary":"n""#;
    let shown = problem(&Refusal::FundsLocked(some_funds())).to_string();
    let head = r#"{"type":"/problems/funds-locked","title":"There is enough, but others hold too much of it now","status":409,"detail":"funds locked: 100 asked, 40 free, 80 locked","#;
    assert_eq!(shown, format!("{head}{numbers}}}"));
    let many = Refusal::TooManyInputs { funds: some_funds(), max_inputs: 3, best_sum: 90 };
    let shown = problem(&many).to_string();
    assert!(shown.ends_with(&format!(r#"{numbers},"maxInputs":3,"bestSum":"90"}}"#)), "{shown}");
    // An owner that nobody knows: zeros.
    let nobody = problem(&Refusal::InsufficientFunds(Box::new(Funds { amount: 5, ..Funds::default() })));
    assert_eq!(
        (&nobody["total"], &nobody["free"], &nobody["locked"]),
        (&json!("0"), &json!("0"), &json!("0"))
    );
    assert_eq!((&nobody["holders"], &nobody["earliestExpiry"]), (&json!([]), &Value::Null));
    assert!(nobody.get("notary").is_none());
}

#[test]
fn every_refusal_has_its_name_and_status() {
    let spender = || "p1".into();
    for (refusal, name, expected) in [
        (Refusal::InsufficientFunds(some_funds()), "insufficient-funds", 409),
        (Refusal::FundsLocked(some_funds()), "funds-locked", 409),
        (Refusal::NoExactMatch(some_funds()), "no-exact-match", 409),
        (Refusal::TooManyInputs { funds: some_funds(), max_inputs: 1, best_sum: 1 }, "too-many-inputs", 422),
        (Refusal::LeaseLost { spender: spender(), reason: "it ended" }, "lease-lost", 409),
        (Refusal::SpenderInUse { spender: spender(), reason: "it is" }, "spender-in-use", 409),
        (Refusal::Contention { attempts: 3 }, "contention", 503),
        (Refusal::StoreUnavailable("it stopped".into()), "store-unavailable", 503),
        (Refusal::Loading { tokens: 5 }, "loading", 503),
        (Refusal::TooManyWaiters { waiting: 5 }, "too-many-waiters", 503),
        (Refusal::ScanLimit { tokens: 5 }, "scan-limit", 422),
        (Refusal::Full { what: "tokens are", limit: 5 }, "full", 503),
        (Refusal::TokenExists("t1".into()), "token-exists", 409),
        (Refusal::UnknownToken("t1".into()), "unknown-token", 409),
        (Refusal::TokenConsumed("t1".into()), "token-consumed", 409),
        (Refusal::Invalid("no".into()), "invalid", 400),
    ] {
        let shown = problem(&refusal);
        assert_eq!(shown["type"], format!("/problems/{name}"));
        assert_eq!(shown["status"], expected, "{name}");
        assert_eq!(shown["detail"], refusal.to_string());
        let own_title = shown["title"] != "The request is wrong";
        assert_eq!(own_title, name != "invalid", "{name} has a title of its own");
        assert_eq!(shown.get("total").is_some(), refusal.funds().is_some(), "{name}");
        assert_eq!(
            shown.get("spender").is_some(),
            name == "lease-lost" || name == "spender-in-use",
            "{name}"
        );
        assert_eq!(shown.get("token").is_some(), name.contains("token"), "{name}");
    }
}

proptest! {
    #[test]
    fn a_select_is_read_as_it_was_written(
        spender in "\\PC{1,128}", wallet in "[ -~]{1,128}", amount in 1..=u64::MAX, policy in 0..4_usize,
        inputs in proptest::option::of(1..=10_000_usize), shortfall: bool, lease in 1..=86_400_000_i64,
        wait in 0..=60_000_i64,
    ) {
        let mut wanted = SelectRequest::new(spender.as_str(), Scope::wallet(wallet.as_str(), "EUR"), amount);
        (wanted.policy, wanted.max_inputs) = (wire::Policy::ALL[policy].into(), inputs);
        (wanted.allow_shortfall, wanted.lease_ms) = (shortfall, lease);
        let body = json!({
            "spender": spender, "wallet": wallet, "currency": "EUR", "amount": amount.to_string(),
            "policy": wire::Policy::ALL[policy], "maxInputs": inputs, "allowShortfall": shortfall, "leaseMs": lease,
            "waitMs": wait,
        });
        prop_assert_eq!(read_select(body.to_string().as_bytes()), Ok((wanted.clone(), wait)));
        prop_assert_eq!(select_request(&body), Ok((wanted, wait)));
    }

    #[test]
    fn no_body_is_too_strange_to_be_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read_select(&bytes).is_err());
        prop_assert!(body::<wire::Spend>(&bytes).is_err());
        prop_assert!(issue(&String::from_utf8_lossy(&bytes)).is_err());
    }
}

/// `cargo test -p holdfast-wire --lib speed_of_a_select -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn speed_of_a_select() {
    const TIMES: u32 = 200_000;
    let body = br#"{"spender":"payment-0001","wallet":"wallet-0001","currency":"EUR","amount":"12345"}"#;
    let began = std::time::Instant::now();
    for _ in 0..TIMES {
        std::hint::black_box(read_select(std::hint::black_box(body)).unwrap());
    }
    println!("read a select in {:?}", began.elapsed() / TIMES);
    let tokens = vec![Token::new("t1", "wallet-0001", "EUR", 30), Token::new("t2", "wallet-0001", "EUR", 70)];
    let (spender, tokens) = ("payment-0001".into(), tokens.into());
    let chosen = Selection { spender, tokens, sum: 100, amount: 100, expires_at: NOON, fence: 7 };
    let began = std::time::Instant::now();
    for _ in 0..TIMES {
        std::hint::black_box(
            serde_json::to_vec(&wire::Selection::from(std::hint::black_box(&chosen))).unwrap(),
        );
    }
    println!("wrote a selection in {:?}", began.elapsed() / TIMES);
}
