//! The token paths on a hub of its own: every path, every answer, every refusal that a caller can bring about.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Method;
use holdfast_hub::limits::HubOptions;
use serde_json::{Value, json};

use crate::guarded::Guarded;
use crate::world::{Heard, World, assert_has, until};

impl World {
    /// Issues tokens of these quantities, named t0, t1, … after the wallet.
    async fn issue(&self, wallet: &str, quantities: &[u64]) {
        let tokens: Vec<Value> = quantities
            .iter()
            .enumerate()
            .map(|(at, quantity)| {
                json!({"id": format!("{wallet}-t{at}"), "wallet": wallet, "currency": "EUR", "quantity": quantity.to_string()})
            })
            .collect();
        let answer = self.post("/tokens/issue", json!({"tokens": tokens})).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    async fn select(&self, spender: &str, wallet: &str, amount: &str) -> Heard {
        self.select_with(spender, wallet, amount, json!({})).await
    }

    /// The same with further members.
    async fn select_with(&self, spender: &str, wallet: &str, amount: &str, mut body: Value) -> Heard {
        for (name, value) in
            [("spender", spender), ("wallet", wallet), ("currency", "EUR"), ("amount", amount)]
        {
            body[name] = json!(value);
        }
        self.post("/tokens/select", body).await
    }

    /// What an owner, as a query names it, has in EUR.
    async fn balance(&self, owner: &str) -> Value {
        self.got(&format!("/tokens/balance?{owner}&currency=EUR")).await.json(200)
    }

    /// Gives a lock back.
    async fn release(&self, lock: &str) -> Value {
        self.ask(Method::DELETE, &format!("/tokens/locks/{lock}"), Body::empty()).await.json(200)
    }
}

fn ids(tokens: &Value) -> Vec<&str> {
    let mut ids: Vec<&str> =
        tokens.as_array().unwrap().iter().map(|token| token["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids
}

/// RFC 3339 with milliseconds, in UTC.
fn is_instant(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() == 24 && text.as_bytes()[19] == b'.' && text.ends_with('Z'))
}

#[tokio::test]
async fn from_issue_to_spend() {
    let world = World::new();
    let issued = world.post("/tokens/issue", json!({"tokens": [
        {"id": "t1", "wallet": "alice", "currency": "EUR", "quantity": "30", "issuer": "bank", "attributes": {"a": "1"}},
        {"wallet": "alice", "currency": "EUR", "quantity": "70", "issuer": "bank"},
        {"id": "t3", "wallet": "alice", "currency": "EUR", "quantity": "500", "issuer": "bank"},
    ]})).await.json(201);
    let drawn = issued["tokens"][1]["id"].as_str().unwrap().to_owned();
    assert_eq!((drawn.len(), drawn.matches('-').count()), (36, 4), "{drawn}");
    assert_eq!(
        issued["tokens"][0],
        json!({"id": "t1", "quantity": "30", "wallet": "alice", "type": "token", "currency": "EUR", "issuer": "bank", "attributes": {"a": "1"}})
    );
    let selected = world.select("p1", "alice", "100").await.json(200);
    let mut expected = ["t1", drawn.as_str()];
    expected.sort_unstable();
    assert_eq!(ids(&selected["tokens"]), expected);
    assert_has(&selected, &json!({"spender": "p1", "sum": "100", "change": "0"}));
    assert!(is_instant(&selected["expiresAt"]), "{selected}");
    let fence = selected["fence"].as_str().unwrap().to_owned();
    let again = world.select("p1", "alice", "100").await.json(200);
    assert_eq!(again["fence"], fence.as_str(), "the same body gets the same answer");
    let problem = world.select("p1", "alice", "99").await.problem(409, "spender-in-use");
    assert_eq!(problem["spender"], "p1");

    let balance = world.balance("wallet=alice").await;
    assert_eq!(
        balance,
        json!({"total": "600", "free": "500", "locked": "100", "tokens": 3, "lockedTokens": 2, "largestFree": "500",
            "smallestFree": "500", "fragmentation": [{"digits": 3, "tokens": 1, "sum": "500"}]})
    );
    let wrong = json!({"spender": "p1", "fence": "1", "outputs": [{"wallet": "bob", "quantity": "90"}]});
    if fence != "1" {
        world.post("/tokens/spend", wrong).await.problem(409, "lease-lost");
    }
    let spend = json!({"spender": "p1", "fence": fence, "outputs": [
        {"wallet": "bob", "quantity": "90", "externalId": "x", "attributes": {"note": "n"}}]});
    let spent = world.post("/tokens/spend", spend.clone()).await.json(200);
    assert_eq!(spent["consumed"].as_array().unwrap().len(), 2);
    let produced = spent["produced"].as_array().unwrap();
    assert_has(&produced[0], &json!({"wallet": "bob", "quantity": "90"}));
    assert_eq!((&produced[0]["externalId"], &produced[0]["attributes"]["note"]), (&json!("x"), &json!("n")));
    assert_has(&produced[1], &json!({"wallet": "alice", "quantity": "10"}));
    assert_eq!(
        world.post("/tokens/spend", spend).await.json(200),
        spent,
        "a repeat gets the stored transaction"
    );
    let other = json!({"spender": "p1", "outputs": [{"wallet": "eve", "quantity": "90"}]});
    world.post("/tokens/spend", other).await.problem(409, "spender-in-use");
    let by_external = world.balance("externalId=x").await;
    assert_has(&by_external, &json!({"total": "90", "tokens": 1}));
}

#[tokio::test]
async fn refusals_about_funds_tell_true_numbers() {
    let world = World::new();
    world.issue("f", &[40, 60]).await;
    let nobody = world.select("q0", "nobody", "5").await.problem(409, "insufficient-funds");
    assert_has(&nobody, &json!({"total": "0", "free": "0", "locked": "0"}));
    let zeros = world.balance("wallet=nobody").await;
    assert_has(&zeros, &json!({"total": "0", "tokens": 0, "largestFree": null}));
    world.select("q1", "f", "60").await.json(200);
    let locked = world.select("q2", "f", "70").await.problem(409, "funds-locked");
    assert_has(&locked, &json!({"total": "100", "free": "40", "locked": "60"}));
    assert_eq!(locked["holders"][0]["spender"], "q1");
    assert!(
        is_instant(&locked["holders"][0]["expiresAt"]) && is_instant(&locked["earliestExpiry"]),
        "{locked}"
    );
    let short = world.select("q3", "f", "18446744073709551615").await.problem(409, "insufficient-funds");
    assert_has(&short, &json!({"total": "100", "amount": "18446744073709551615"}));
    let exact = json!({"policy": "no-change"});
    world.select_with("q4", "f", "39", exact).await.problem(409, "no-exact-match");
    world.issue("many", &[5, 5, 5]).await;
    let many = world.select_with("q5", "many", "15", json!({"maxInputs": 2})).await;
    let many = many.problem(422, "too-many-inputs");
    assert_has(&many, &json!({"maxInputs": 2, "bestSum": "10"}));
    let less = world.select_with("q6", "many", "20", json!({"allowShortfall": true})).await.json(200);
    assert_has(&less, &json!({"sum": "15", "change": "0"}));
}

#[tokio::test]
async fn locks_are_seen_renewed_and_given_back() {
    let world = World::new();
    world.issue("l", &[40, 60]).await;
    let selected = world.select("payment/1 ü", "l", "60").await.json(200);
    let fence = selected["fence"].as_str().unwrap();
    let locks = world.got("/tokens/locks?wallet=l&currency=EUR").await.json(200);
    let lock = &locks["locks"][0];
    assert_has(lock, &json!({"holder": "payment/1 ü", "fence": fence}));
    assert!(is_instant(&lock["since"]) && lock["ageMs"].as_i64().unwrap() >= 0, "{lock}");
    assert_eq!((&lock["expiresAt"], ids(&lock["tokens"])), (&selected["expiresAt"], vec!["l-t1"]));
    assert_eq!(locks["next"], Value::Null);
    for (query, count) in [
        ("", 1),
        ("?wallet=l", 1),
        ("?wallet=other", 0),
        ("?currency=USD", 0),
        ("?currency=EUR&type=token", 1),
        ("?spender=payment%2F1%20%C3%BC", 1),
        ("?spender=nobody", 0),
        ("?wallet=l&currency=EUR&type=bond", 0),
    ] {
        let locks = world.got(&format!("/tokens/locks{query}")).await.json(200);
        assert_eq!(locks["locks"].as_array().unwrap().len(), count, "{query}");
    }
    world.select("second", "l", "40").await.json(200);
    let first = world.got("/tokens/locks?limit=1").await.json(200);
    assert_eq!(first["next"], fence);
    let rest = world.got(&format!("/tokens/locks?limit=1&after={fence}")).await.json(200);
    assert_eq!((&rest["locks"][0]["holder"], &rest["next"]), (&json!("second"), &Value::Null));

    let spender = "payment%2F1%20%C3%BC";
    let renewed = world
        .post(&format!("/tokens/locks/{spender}/renew"), json!({"leaseMs": 86_400_000, "fence": fence}))
        .await
        .json(200);
    assert_has(&renewed, &json!({"spender": "payment/1 ü", "fence": fence}));
    assert!(renewed["expiresAt"].as_str() > selected["expiresAt"].as_str(), "{renewed}");
    world.post("/tokens/locks/nobody/renew", json!({"leaseMs": 1})).await.problem(409, "lease-lost");
    assert_eq!(world.release(&format!("{spender}?fence={fence}")).await, json!({"released": 1}));
    assert_eq!(world.release(spender).await, json!({"released": 0}));
}

#[tokio::test]
async fn tokens_are_listed_page_by_page() {
    let world = World::new();
    world.issue("p", &[1, 2, 3, 4, 5]).await;
    world.select("s", "p", "5").await.json(200);
    let all = world.got("/tokens?wallet=p&currency=EUR").await.json(200);
    assert_eq!((ids(&all["tokens"]).len(), &all["next"]), (5, &Value::Null));
    let states: Vec<&str> =
        all["tokens"].as_array().unwrap().iter().map(|token| token["state"].as_str().unwrap()).collect();
    assert_eq!(states.iter().filter(|state| **state == "locked").count(), 1);
    let free = world.got("/tokens?wallet=p&currency=EUR&state=free").await.json(200);
    let locked = world.got("/tokens?wallet=p&currency=EUR&state=locked").await.json(200);
    assert_eq!((ids(&free["tokens"]).len(), ids(&locked["tokens"])), (4, vec!["p-t4"]));
    let seen = Value::Array(world.all_pages("/tokens?wallet=p&currency=EUR&limit=2", "tokens").await);
    assert_eq!(ids(&seen), ["p-t0", "p-t1", "p-t2", "p-t3", "p-t4"]);
    let other = world.got("/tokens?wallet=p&currency=EUR&type=bond").await.json(200);
    assert_eq!(other, json!({"tokens": [], "next": null}));
}

#[tokio::test]
async fn redeemed_updated_and_consolidated() {
    let world = World::new();
    world.issue("r", &[100]).await;
    world.select("r1", "r", "40").await.json(200);
    let redeem = json!({"spender": "r1", "quantity": "40"});
    let redeemed = world.post("/tokens/redeem", redeem.clone()).await.json(200);
    assert_eq!(redeemed["consumed"], json!(["r-t0"]));
    assert_eq!(
        (&redeemed["produced"][0]["quantity"], &redeemed["produced"][1]),
        (&json!("60"), &Value::Null)
    );
    assert_eq!(world.post("/tokens/redeem", redeem).await.json(200), redeemed);
    let too_much = json!({"spender": "r2", "quantity": "61"});
    world.select("r2", "r", "60").await.json(200);
    world.post("/tokens/redeem", too_much).await.problem(400, "invalid");

    let token = json!({"id": "u1", "wallet": "u", "currency": "EUR", "quantity": "5"});
    let updates = json!({"consumed": ["u0"], "produced": [token]});
    assert_eq!(world.post("/tokens/updates", updates).await.json(200)["produced"], 1);
    let late = json!({"id": "u0", "wallet": "u", "currency": "EUR", "quantity": "5"});
    world.post("/tokens/updates", json!({"produced": [late]})).await.json(200);
    world.post("/tokens/issue", json!({"tokens": [late]})).await.problem(409, "token-consumed");
    let there = world.post("/tokens/issue", json!({"tokens": [token]})).await.problem(409, "token-exists");
    assert_eq!(there["token"], "u1");
    let balance = world.balance("wallet=u").await;
    assert_eq!(
        (&balance["total"], &balance["tokens"]),
        (&json!("5"), &json!(1)),
        "what was consumed never comes alive"
    );

    world.issue("c", &[1; 20]).await;
    let body = json!({"wallet": "c", "currency": "EUR", "outputs": 2, "maxInputs": 20});
    let brought = world.post("/tokens/consolidate", body.clone()).await.json(200);
    assert_eq!((brought["consumed"].as_array().unwrap().len(), ids(&brought["produced"]).len()), (20, 2));
    let nothing = world.post("/tokens/consolidate", body).await.json(200);
    assert_eq!(nothing, json!({"transaction": null, "consumed": [], "produced": []}));
}

#[tokio::test]
async fn what_is_malformed_is_a_problem_that_names_the_field() {
    let world = World::new();
    let select = |members: &str| format!(r#"{{"spender":"p","currency":"EUR",{members}}}"#);
    for (method, path, body, detail) in [
        ("POST", "/tokens/select", &*select(r#""amount":"0""#), "amount: must be at least 1"),
        ("POST", "/tokens/select", &select(r#""amount":"18446744073709551616""#), "amount: must be at most"),
        ("POST", "/tokens/select", &select(r#""amount":"1","waitMs":60001"#), "waitMs: "),
        (
            "POST",
            "/tokens/select",
            &select(r#""amount":"1","colour":"red""#),
            "the body: unknown field `colour`",
        ),
        (
            "POST",
            "/tokens/issue",
            r#"{"tokens":[{"wallet":"w","currency":"E","quantity":5}]}"#,
            "tokens[0].quantity: ",
        ),
        ("POST", "/tokens/spend", "", "the body: "),
        ("POST", "/tokens/redeem", r#"{"spender":"p"}"#, "quantity: is missing"),
        ("POST", "/tokens/updates", r#"{"consumed":5}"#, "consumed: must be a list"),
        ("POST", "/tokens/consolidate", r#"{"wallet":"w","currency":"E"}"#, "outputs: is missing"),
        ("POST", "/tokens/locks/p/renew", "{}", "leaseMs: is missing"),
        ("POST", "/tokens/locks/%FF/renew", r#"{"leaseMs":5}"#, "Invalid URL"),
        ("DELETE", "/tokens/locks/p?fence=x", "", "fence: must be a whole number"),
        ("DELETE", "/tokens/locks/p?now=1", "", "now is not a parameter here"),
        ("GET", "/tokens?currency=EUR", "", "wallet: is missing"),
        ("GET", "/tokens?wallet=w", "", "currency: is missing"),
        ("GET", "/tokens?wallet=w&externalId=x&currency=EUR", "", "wallet, externalId, publicKey: "),
        ("GET", "/tokens?wallet=w&currency=EUR&state=spent", "", "state: must be free or locked"),
        ("GET", "/tokens?wallet=w&currency=EUR&limit=1001", "", "limit: 1001 is not from 1 to 1000"),
        ("GET", "/tokens/balance?wallet=&currency=EUR", "", "wallet: must not be empty"),
        ("GET", "/tokens/balance?wallet=w&currency=EUR&state=free", "", "state is not a parameter here"),
        ("GET", "/tokens/locks?after=x", "", "after: must be a whole number"),
    ] {
        let answer = world.ask(method.parse().unwrap(), path, body.to_owned()).await;
        let problem = answer.problem(400, "invalid");
        let said = problem["detail"].as_str().unwrap();
        assert!(said.starts_with(detail), "{method} {path}: '{said}' instead of '{detail}'");
    }
    let long = format!("/tokens/balance?wallet={}&currency=EUR", "w".repeat(129));
    world.got(&long).await.problem(400, "invalid");
    let huge = vec![b' '; 8 * 1024 * 1024 + 1];
    world.ask(Method::POST, "/tokens/issue", huge).await.problem(413, "too-large");
}

#[tokio::test]
async fn a_full_queue_is_told_as_a_problem_with_a_time_to_wait() {
    let world = World::with(HubOptions { intake_records_max: 0, ..HubOptions::default() });
    let token = json!({"wallet": "w", "currency": "EUR", "quantity": "5"});
    world.post("/tokens/issue", json!({"tokens": [token]})).await.problem(429, "busy");
}

#[tokio::test]
async fn the_paths_are_the_operators() {
    let world = World::new();
    let guarded = Guarded::new(&world.edge);
    for (method, path) in [
        ("POST", "/tokens/issue"),
        ("POST", "/tokens/select"),
        ("POST", "/tokens/spend"),
        ("POST", "/tokens/redeem"),
        ("POST", "/tokens/updates"),
        ("POST", "/tokens/consolidate"),
        ("GET", "/tokens"),
        ("GET", "/tokens/balance"),
        ("GET", "/tokens/locks"),
        ("POST", "/tokens/locks/p/renew"),
        ("DELETE", "/tokens/locks/p"),
    ] {
        let known = guarded.is_the_operators(method, path).await;
        assert!(known == 400 || known == 200, "{method} {path}: {known}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_is_served_when_others_give_back() {
    let world = Arc::new(World::new());
    world.issue("w", &[100]).await;
    world.select("holder", "w", "100").await.json(200);
    let waiting = {
        let world = Arc::clone(&world);
        tokio::spawn(async move { world.select_with("waiter", "w", "100", json!({"waitMs": 60_000})).await })
    };
    let short = world.select_with("short", "w", "100", json!({"waitMs": 1})).await;
    short.problem(409, "funds-locked");
    let never = world.select_with("never", "w", "101", json!({"waitMs": 60_000})).await;
    never.problem(409, "insufficient-funds");
    world.release("holder").await;
    assert_eq!(waiting.await.unwrap().json(200)["sum"], "100");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_is_called_off_when_its_request_is_dropped() {
    let world = Arc::new(World::new());
    world.issue("h", &[100]).await;
    world.select("holder", "h", "100").await.json(200);
    let waiting = async |count: u64| {
        let waits = async || (world.hub.tokens().counters().waiting == count).then_some(());
        until("as many wait", waits).await;
    };
    let request = {
        let world = Arc::clone(&world);
        tokio::spawn(async move { world.select_with("gone", "h", "100", json!({"waitMs": 60_000})).await })
    };
    waiting(1).await;
    request.abort();
    waiting(0).await;
    world.release("holder").await;
    world.select("next", "h", "100").await.json(200);
}
