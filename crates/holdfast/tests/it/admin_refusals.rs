//! What the operator's paths refuse, with which code, and that nothing of it is stored.

use crate::admin_api::{IN, done, end_of, movement, two_banks};
use crate::support::http::{exchange, get, send};
use crate::support::server::{Server, fresh_hub};

/// Records in the log: refusals of shapes leave none.
fn records(server: &Server) -> u64 {
    get(server, "/hub/stats").json()["log"]["records"].as_u64().expect("a count")
}

/// Verb and path below `/participants`, body, and the beginning of what is said of it.
const WRONG_SHAPES: &str = r#"
POST |  | the body:
POST | {"name": | the body:
POST | [] | the body: must be a JSON object
POST | {} | name: is missing
POST | {"name":7,"currency":"USD"} | name: must be a string
POST | {"name":"a","currency":"USD"} | name: 'a' is not
POST | {"name":"bank c","currency":"USD"} | name: 'bank c' is not
POST | {"name":"bank-c"} | currency: is missing
POST | {"name":"bank-c","currency":"usd"} | currency: 'usd' is not
POST | {"name":"bank-c","currency":["USD"]} | currency: must be a string
POST | {"name":"bank-c","currency":"USD","isProxy":"no"} | isProxy: must be true or false
POST | {"name":"bank-c","currency":"USD","isProxy":true} | isProxy: must be false
POST | {"name":"bank-c","currency":"USX"} | currency: 'USX' is not a currency of ISO 4217
PUT /bank-a | {} | isActive: is missing
PUT /bank-a | {"isActive":1} | isActive: must be true or false
POST /bank-a/initialPositionAndLimits | {"currency":"USD"} | limit: is missing
POST /bank-a/initialPositionAndLimits | {"currency":"USD","limit":5} | limit: must be an object
POST /bank-a/initialPositionAndLimits | {"currency":"USD","limit":{"type":"OTHER","value":1}} | limit.type: must be NET_DEBIT_CAP
POST /bank-a/initialPositionAndLimits | {"currency":"USD","limit":{"type":"NET_DEBIT_CAP"}} | limit.value: is missing
POST /bank-a/initialPositionAndLimits | {"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":1},"initialPosition":"x"} | initialPosition: 'x' is not
PUT /bank-a/limits | {"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":-0.0001,"alarmPercentage":10}} | limit.value: must not be below zero
PUT /bank-a/limits | {"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":1.00001,"alarmPercentage":10}} | limit.value: '1.00001' has more than 4
PUT /bank-a/limits | {"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":100000000000000,"alarmPercentage":10}} | limit.value: 100000000000000 has more than 14
PUT /bank-a/limits | {"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":1e999,"alarmPercentage":10}} | limit.value: '1e999' is not within
PUT /bank-a/limits | {"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":true,"alarmPercentage":10}} | limit.value: must be a number
PUT /bank-a/limits | {"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":5,"alarmPercentage":10.5}} | limit.alarmPercentage: 10.5 is not a whole
PUT /bank-a/limits | {"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":5,"alarmPercentage":101}} | limit.alarmPercentage: 101 is not
PUT /bank-a/limits | {"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":5}} | limit.alarmPercentage: is missing
POST /Hub/accounts | {"currency":"USD"} | type: is missing
PUT /bank-a/accounts/1 | {"isActive":null} | isActive: is missing
PUT /bank-a/accounts/one | {"isActive":true} | 'one' is not the number of an account
PUT /bank-a/accounts/2/transfers/00000000-0000-4000-8000-000000000001 | {"action":"recordFundsIn","reason":"x"} | action: must be recordFundsOutCommit or
PUT /bank-a/accounts/2/transfers/00000000-0000-4000-8000-000000000001 | {"action":"recordFundsOutCommit"} | reason: is missing
PUT /bank-a/accounts/2/transfers/7 | {"action":"recordFundsOutCommit","reason":"x"} | '7' is neither
POST /bank-a/endpoints | {"type":"A"} | value: is missing
POST /bank-a/endpoints | {"type":"","value":"b"} | type: must not be empty
POST /bank-a/endpoints | {"type":"FSPIOP_CALLBACK_URL_TRANSFER_PUT","value":"a.example/transfers"} | value: must be a URL
POST /bank-a/endpoints | {"type":"FSPIOP_CALLBACK_URL_TRANSFER_PUT","value":"http://a/{{ID}}"} | value: 'ID' is not known
"#;

/// What is wrong with a movement of funds when this stands in the place of that.
const WRONG_MOVEMENTS: [(&str, &str, &str); 9] = [
    ("00000000-0000-4000", "x", "transferId: 'x-8000"),
    ("recordFundsIn", "recordFunds", "action: must be recordFundsIn or"),
    ("\"reason\"", "\"why\"", "reason: is missing"),
    ("\"externalReference\"", "\"ref\"", "externalReference: is missing"),
    ("\"amount\":5", "\"amount\":0", "amount.amount: must be more than zero"),
    ("\"amount\":5", "\"amount\":-5", "amount.amount: must be more than zero"),
    ("\"amount\":5", "\"amount\":5.00001", "amount.amount: '5.00001' has"),
    ("USD", "US", "amount.currency: 'US' is not"),
    ("\"reason\"", "\"extensionList\":{},\"reason\"", "extensionList.extension: is missing"),
];

/// Verb and path below `/participants`, body, status and code, and what is said. A body with a dollar stands for a longer one.
const REFUSALS: &str = r#"
POST | {"name":"BANK-A","currency":"USD"} | 400 3000 | BANK-A has USD already
POST | {"name":"hUB","currency":"USD"} | 400 3000 | name: 'hUB' is reserved
POST | {"name":"limits","currency":"USD"} | 400 3000 | name: 'limits' is reserved
PUT /nobody | $on | 400 3200 | there is no participant nobody
POST /nobody/initialPositionAndLimits | $limit | 400 3200 | there is no participant nobody
PUT /nobody/limits | $limit | 400 3200 | there is no participant nobody
POST /nobody/accounts | $hub_account | 400 3200 | there is no participant nobody
POST /nobody/accounts/2 | $funds | 400 3200 | there is no participant nobody
PUT /nobody/accounts/1 | $on | 400 3200 | there is no participant nobody
POST /nobody/endpoints | {"type":"A","value":"b"} | 400 3200 | there is no participant nobody
POST /bank-a/initialPositionAndLimits | $limit | 500 2001 | bank-a has its first USD limit already
POST /bank-a/initialPositionAndLimits | $euros | 500 2001 | bank-a has no EUR accounts
POST /Hub/initialPositionAndLimits | $limit | 400 3100 | the Hub has no limits
PUT /Hub/limits | $limit | 400 3100 | the Hub has no limits
PUT /Hub | {"isActive":false} | 400 3100 | the Hub is always active
PUT /Hub/accounts/0 | $on | 400 3100 | the Hub has no account 0 of its own
PUT /bank-c/limits | $limit | 500 2001 | bank-c has no USD limit yet
PUT /bank-a/limits | $euros | 500 2001 | bank-a has no EUR accounts
POST /bank-a/accounts | $hub_account | 400 3003 | bank-a is not the Hub
POST /Hub/accounts | {"currency":"USD","type":"POSITION"} | 400 3003 | type: the Hub has no
PUT /bank-a/accounts/2 | $on | 500 2001 | account 2 is not a POSITION account of bank-a
PUT /bank-a/accounts/3 | $on | 500 2001 | account 3 is not a POSITION account of bank-a
PUT /bank-a/accounts/99 | $on | 500 2001 | account 99 is not a POSITION account of bank-a
PUT /bank-c/accounts/5 | $on | 500 2001 | account 5 has no limit yet
POST /bank-a/accounts/1 | $funds | 500 2001 | account 1 is not a SETTLEMENT account of bank-a
POST /bank-a/accounts/4 | $funds | 500 2001 | account 4 is not a SETTLEMENT account of bank-a
POST /bank-a/accounts/2 | $in_euros | 500 2001 | account 2 is in USD, not EUR
POST /bank-c/accounts/6 | $funds | 500 2001 | account 6 is not active
POST /Hub/accounts/2 | $funds | 400 3100 | the Hub has no account 2 of its own
POST /Hub/accounts/0 | $funds | 400 3100 | the Hub has no account 0 of its own
"#;

/// The columns of a table's lines.
fn rows<const N: usize>(table: &str) -> impl Iterator<Item = [&str; N]> {
    table.lines().filter(|line| !line.is_empty()).map(|line| {
        let columns: Vec<&str> = line.split(" | ").collect();
        columns.try_into().unwrap_or_else(|_| panic!("not {N} columns: {line}"))
    })
}

fn request(verb_and_path: &str) -> (&str, String) {
    let (verb, path) = verb_and_path.split_once(' ').unwrap_or((verb_and_path, ""));
    (verb, format!("/participants{path}"))
}

#[test]
fn a_wrong_shape_is_3101_names_its_member_and_stores_nothing() {
    let (_folder, server) = fresh_hub();
    two_banks(&server);
    let before = records(&server);
    let refused = |verb: &str, path: &str, body: &str, detail: &str| {
        let answer = send(&server, verb, path, body);
        assert_eq!(answer.refusal(), (400, "3101".to_owned()), "{verb} {path} {body}: {answer:?}");
        let (said, expected) = (answer.description(), format!("Malformed syntax - {detail}"));
        assert!(said.starts_with(&expected), "{said} instead of {expected}");
    };
    for [request_line, body, detail] in rows(WRONG_SHAPES) {
        let (verb, path) = request(request_line);
        refused(verb, &path, body, detail);
    }
    for (that, this, detail) in WRONG_MOVEMENTS {
        refused("POST", "/participants/bank-a/accounts/2", &movement(1, IN, "5").replace(that, this), detail);
    }
    let named = format!(r#"{{"name":"{}","currency":"USD"}}"#, "x".repeat(31));
    refused("POST", "/participants", &named, "name: 'xxx");
    for (kind, value, detail) in [
        ("k".repeat(129), "b".to_owned(), "type: has more than 128 bytes"),
        ("A".to_owned(), "v".repeat(1025), "value: has more than 1024 bytes"),
    ] {
        let endpoint = format!(r#"{{"type":"{kind}","value":"{value}"}}"#);
        refused("POST", "/participants/bank-a/endpoints", &endpoint, detail);
    }
    for path in ["bank-a/limits?currency=dollars", "bank-a/positions?currency=U", "%ff"] {
        get(&server, &format!("/participants/{path}")).is_refused(400, "3101");
    }
    let large = format!(r#"{{"name":"bank-c","currency":"USD","x":"{}"}}"#, "x".repeat(64 * 1024));
    send(&server, "POST", "/participants", &large).is_refused(400, "3104");
    assert_eq!(records(&server), before);
    server.stop();
}

#[test]
fn a_refusal_says_why_and_changes_nothing() {
    let (_folder, server) = fresh_hub();
    two_banks(&server);
    // Bank C has accounts and no limit yet.
    assert_eq!(send(&server, "POST", "/participants", r#"{"name":"bank-c","currency":"USD"}"#).status, 201);
    done(&server, "POST", "/participants/bank-a/accounts/2", &movement(1, IN, "10"), 202);
    let look = |server: &Server| {
        ["", "/limits", "/bank-a/accounts", "/bank-b/accounts", "/bank-c/accounts"]
            .map(|path| get(server, &format!("/participants{path}")).body)
    };
    let before = look(&server);
    let limit = r#"{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":1,"alarmPercentage":10}}"#;
    let bodies = [
        ("$limit", limit.to_owned()),
        ("$euros", limit.replace("USD", "EUR")),
        ("$funds", movement(2, IN, "5")),
        ("$in_euros", movement(2, IN, "5").replace("USD", "EUR")),
        ("$on", r#"{"isActive":true}"#.to_owned()),
        ("$hub_account", r#"{"currency":"USD","type":"HUB_RECONCILIATION"}"#.to_owned()),
    ];
    for [request_line, body, status_and_code, detail] in rows(REFUSALS) {
        let body = bodies.iter().find(|(name, _)| *name == body).map_or(body, |(_, body)| body);
        let (verb, path) = request(request_line);
        let answer = send(&server, verb, &path, body);
        let (status, code) = answer.refusal();
        assert_eq!(format!("{status} {code}"), status_and_code, "{request_line} {body}: {answer:?}");
        assert!(answer.description().contains(&format!(" - {detail}")), "{}", answer.description());
    }
    for path in
        ["nobody", "nobody/accounts", "nobody/limits", "nobody/positions", "nobody/endpoints", "%20", "x"]
    {
        get(&server, &format!("/participants/{path}")).is_refused(400, "3200");
    }
    let wrong_account = r#"{"action":"recordFundsOutCommit","reason":"x"}"#;
    send(&server, "PUT", &end_of(1, 1), wrong_account).is_refused(500, "2001");
    assert_eq!(look(&server), before);
    server.stop();
}

#[test]
fn verbs_paths_and_media_types() {
    let (_folder, server) = fresh_hub();
    let wrong_verb = send(&server, "DELETE", "/participants", "");
    wrong_verb.is_refused(405, "3000");
    let allow = wrong_verb.head.lines().find(|line| line.to_ascii_lowercase().starts_with("allow:"));
    assert!(allow.is_some_and(|line| line.contains("GET") && line.contains("POST")), "{}", wrong_verb.head);
    get(&server, "/participants/bank-a/nothing").is_refused(404, "3002");
    for (number, headers) in
        ["", "Content-Type: text/plain\r\n", "Content-Type: ???\r\n"].into_iter().enumerate()
    {
        let body = format!(r#"{{"name":"bank-{number}","currency":"USD"}}"#);
        let made = exchange(&server, "POST", "/participants", headers, body.as_bytes());
        assert_eq!(made.status, 201, "{headers}");
    }
    let behind_proxy = exchange(&server, "GET", "/participants/bank-0", "X-Forwarded-Proto: https\r\n", b"");
    assert_eq!(behind_proxy.json()["id"], "https://localhost:4000/participants/bank-0");
    server.stop();
}
