//! What the operator's paths refuse, with which code, and that nothing of it is stored.

use crate::admin_api::{IN, done, end_of, get, movement, send, two_banks};
use crate::support::http::exchange;
use crate::support::server::{Server, any_port, folder};

/// Records in the log: refusals of shapes leave none.
fn records(server: &Server) -> u64 {
    get(server, "/hub/stats").json()["log"]["records"].as_u64().expect("a count")
}

#[test]
fn a_wrong_shape_is_3101_names_its_member_and_stores_nothing() {
    let folder = folder();
    let server = Server::start(folder.path(), any_port());
    two_banks(&server);
    let before = records(&server);
    let (all, one) = ("/participants", "/participants/bank-a");
    let initial = "/participants/bank-a/initialPositionAndLimits";
    let limits = "/participants/bank-a/limits";
    let account = "/participants/bank-a/accounts/2";
    let endpoints = "/participants/bank-a/endpoints";
    let limit = |value: &str| {
        format!(
            r#"{{"currency":"USD","limit":{{"type":"NET_DEBIT_CAP","value":{value},"alarmPercentage":10}}}}"#
        )
    };
    let funds = |from: &str, to: &str| movement(1, IN, "5").replace(from, to);
    let (too_long, ending) = ("x".repeat(31), end_of(1, 2));
    let cases: Vec<(&str, &str, String, &str)> = vec![
        ("POST", all, String::new(), "the body: "),
        ("POST", all, "{\"name\":".into(), "the body: "),
        ("POST", all, "[]".into(), "the body: must be a JSON object"),
        ("POST", all, "{}".into(), "name: is missing"),
        ("POST", all, r#"{"name":7,"currency":"USD"}"#.into(), "name: must be a string"),
        ("POST", all, r#"{"name":"a","currency":"USD"}"#.into(), "name: 'a' is not"),
        ("POST", all, format!(r#"{{"name":"{too_long}","currency":"USD"}}"#), "name: 'xxx"),
        ("POST", all, r#"{"name":"bank c","currency":"USD"}"#.into(), "name: 'bank c' is not"),
        ("POST", all, r#"{"name":"bank-c"}"#.into(), "currency: is missing"),
        ("POST", all, r#"{"name":"bank-c","currency":"usd"}"#.into(), "currency: 'usd' is not"),
        ("POST", all, r#"{"name":"bank-c","currency":["USD"]}"#.into(), "currency: must be a string"),
        (
            "POST",
            all,
            r#"{"name":"bank-c","currency":"USD","isProxy":"no"}"#.into(),
            "isProxy: must be true or false",
        ),
        (
            "POST",
            all,
            r#"{"name":"bank-c","currency":"USD","isProxy":true}"#.into(),
            "isProxy: must be false",
        ),
        (
            "POST",
            all,
            r#"{"name":"bank-c","currency":"USX"}"#.into(),
            "currency: 'USX' is not a currency of ISO 4217",
        ),
        ("PUT", one, "{}".into(), "isActive: is missing"),
        ("PUT", one, r#"{"isActive":1}"#.into(), "isActive: must be true or false"),
        ("POST", initial, r#"{"currency":"USD"}"#.into(), "limit: is missing"),
        ("POST", initial, r#"{"currency":"USD","limit":5}"#.into(), "limit: must be an object"),
        (
            "POST",
            initial,
            r#"{"currency":"USD","limit":{"type":"OTHER","value":1}}"#.into(),
            "limit.type: must be NET_DEBIT_CAP",
        ),
        (
            "POST",
            initial,
            r#"{"currency":"USD","limit":{"type":"NET_DEBIT_CAP"}}"#.into(),
            "limit.value: is missing",
        ),
        (
            "POST",
            initial,
            r#"{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":1},"initialPosition":"x"}"#.into(),
            "initialPosition: 'x' is not",
        ),
        ("PUT", limits, limit("-0.0001"), "limit.value: must not be below zero"),
        ("PUT", limits, limit("1.00001"), "limit.value: '1.00001' has more than 4"),
        ("PUT", limits, limit("100000000000000"), "limit.value: 100000000000000 has more than 14"),
        ("PUT", limits, limit("1e999"), "limit.value: '1e999' is not within"),
        ("PUT", limits, limit("true"), "limit.value: must be a number"),
        (
            "PUT",
            limits,
            limit("5").replace("Percentage\":10", "Percentage\":10.5"),
            "limit.alarmPercentage: 10.5 is not a whole",
        ),
        (
            "PUT",
            limits,
            limit("5").replace("Percentage\":10", "Percentage\":101"),
            "limit.alarmPercentage: 101 is not",
        ),
        (
            "PUT",
            limits,
            limit("5").replace(",\"alarmPercentage\":10", ""),
            "limit.alarmPercentage: is missing",
        ),
        ("POST", "/participants/Hub/accounts", r#"{"currency":"USD"}"#.into(), "type: is missing"),
        ("PUT", "/participants/bank-a/accounts/1", r#"{"isActive":null}"#.into(), "isActive: is missing"),
        (
            "PUT",
            "/participants/bank-a/accounts/one",
            r#"{"isActive":true}"#.into(),
            "'one' is not the number of an account",
        ),
        ("POST", account, funds("00000000-0000-4000", "x"), "transferId: 'x-8000"),
        ("POST", account, funds("recordFundsIn", "recordFunds"), "action: must be recordFundsIn or"),
        ("POST", account, funds("\"reason\"", "\"why\""), "reason: is missing"),
        ("POST", account, funds("\"externalReference\"", "\"ref\""), "externalReference: is missing"),
        ("POST", account, funds("\"amount\":5", "\"amount\":0"), "amount.amount: must be more than zero"),
        ("POST", account, funds("\"amount\":5", "\"amount\":-5"), "amount.amount: must be more than zero"),
        ("POST", account, funds("\"amount\":5", "\"amount\":5.00001"), "amount.amount: '5.00001' has"),
        ("POST", account, funds("USD", "US"), "amount.currency: 'US' is not"),
        (
            "POST",
            account,
            funds("\"reason\"", "\"extensionList\":{},\"reason\""),
            "extensionList.extension: is missing",
        ),
        (
            "PUT",
            &ending,
            r#"{"action":"recordFundsIn","reason":"x"}"#.into(),
            "action: must be recordFundsOutCommit or",
        ),
        ("PUT", &ending, r#"{"action":"recordFundsOutCommit"}"#.into(), "reason: is missing"),
        (
            "PUT",
            "/participants/bank-a/accounts/2/transfers/7",
            r#"{"action":"recordFundsOutCommit","reason":"x"}"#.into(),
            "'7' is neither",
        ),
        ("POST", endpoints, r#"{"type":"A"}"#.into(), "value: is missing"),
        ("POST", endpoints, r#"{"type":"","value":"b"}"#.into(), "type: must not be empty"),
        (
            "POST",
            endpoints,
            format!(r#"{{"type":"{}","value":"b"}}"#, "k".repeat(129)),
            "type: has more than 128 bytes",
        ),
        (
            "POST",
            endpoints,
            format!(r#"{{"type":"A","value":"{}"}}"#, "v".repeat(1025)),
            "value: has more than 1024 bytes",
        ),
        (
            "POST",
            endpoints,
            r#"{"type":"FSPIOP_CALLBACK_URL_TRANSFER_PUT","value":"a.example/transfers"}"#.into(),
            "value: must be a URL",
        ),
        (
            "POST",
            endpoints,
            r#"{"type":"FSPIOP_CALLBACK_URL_TRANSFER_PUT","value":"http://a/{{ID}}"}"#.into(),
            "value: 'ID' is not known",
        ),
    ];
    for (verb, path, body, detail) in cases {
        let answer = send(&server, verb, path, &body);
        assert_eq!(answer.refusal(), (400, "3101".to_owned()), "{verb} {path} {body}: {answer:?}");
        let expected = format!("Malformed syntax - {detail}");
        assert!(
            answer.description().starts_with(&expected),
            "{} instead of {expected}",
            answer.description()
        );
    }
    for path in ["limits?currency=dollars", "positions?currency=U"] {
        assert_eq!(get(&server, &format!("{one}/{path}")).refusal(), (400, "3101".to_owned()));
    }
    assert_eq!(get(&server, "/participants/%ff").refusal(), (400, "3101".to_owned()));
    let large = format!(r#"{{"name":"bank-c","currency":"USD","x":"{}"}}"#, "x".repeat(64 * 1024));
    assert_eq!(send(&server, "POST", all, &large).refusal(), (400, "3104".to_owned()));
    assert_eq!(records(&server), before);
    server.stop();
}

#[test]
fn a_refusal_says_why_and_changes_nothing() {
    let folder = folder();
    let server = Server::start(folder.path(), any_port());
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
    let euros = limit.replace("USD", "EUR");
    let funds = movement(2, IN, "5");
    let in_euros = funds.replace("USD", "EUR");
    let on = r#"{"isActive":true}"#;
    let hub_account = r#"{"currency":"USD","type":"HUB_RECONCILIATION"}"#;
    let cases = [
        ("POST", "", r#"{"name":"BANK-A","currency":"USD"}"#, 400, "3000", "BANK-A has USD already"),
        ("POST", "", r#"{"name":"hUB","currency":"USD"}"#, 400, "3000", "name: 'hUB' is reserved"),
        ("POST", "", r#"{"name":"limits","currency":"USD"}"#, 400, "3000", "name: 'limits' is reserved"),
        ("PUT", "/nobody", on, 400, "3200", "there is no participant nobody"),
        ("POST", "/nobody/initialPositionAndLimits", limit, 400, "3200", "there is no participant nobody"),
        ("PUT", "/nobody/limits", limit, 400, "3200", "there is no participant nobody"),
        ("POST", "/nobody/accounts", hub_account, 400, "3200", "there is no participant nobody"),
        ("POST", "/nobody/accounts/2", &funds, 400, "3200", "there is no participant nobody"),
        ("PUT", "/nobody/accounts/1", on, 400, "3200", "there is no participant nobody"),
        (
            "POST",
            "/nobody/endpoints",
            r#"{"type":"A","value":"b"}"#,
            400,
            "3200",
            "there is no participant nobody",
        ),
        (
            "POST",
            "/bank-a/initialPositionAndLimits",
            limit,
            500,
            "2001",
            "bank-a has its first USD limit already",
        ),
        ("POST", "/bank-a/initialPositionAndLimits", &euros, 500, "2001", "bank-a has no EUR accounts"),
        ("POST", "/Hub/initialPositionAndLimits", limit, 400, "3100", "the Hub has no limits"),
        ("PUT", "/Hub/limits", limit, 400, "3100", "the Hub has no limits"),
        ("PUT", "/Hub", r#"{"isActive":false}"#, 400, "3100", "the Hub is always active"),
        ("PUT", "/Hub/accounts/0", on, 400, "3100", "the Hub has no account 0 of its own"),
        ("PUT", "/bank-c/limits", limit, 500, "2001", "bank-c has no USD limit yet"),
        ("PUT", "/bank-a/limits", &euros, 500, "2001", "bank-a has no EUR accounts"),
        ("POST", "/bank-a/accounts", hub_account, 400, "3003", "bank-a is not the Hub"),
        (
            "POST",
            "/Hub/accounts",
            r#"{"currency":"USD","type":"POSITION"}"#,
            400,
            "3003",
            "type: the Hub has no",
        ),
        ("PUT", "/bank-a/accounts/2", on, 500, "2001", "account 2 is not a POSITION account of bank-a"),
        ("PUT", "/bank-a/accounts/3", on, 500, "2001", "account 3 is not a POSITION account of bank-a"),
        ("PUT", "/bank-a/accounts/99", on, 500, "2001", "account 99 is not a POSITION account of bank-a"),
        ("PUT", "/bank-c/accounts/5", on, 500, "2001", "account 5 has no limit yet"),
        (
            "POST",
            "/bank-a/accounts/1",
            &funds,
            500,
            "2001",
            "account 1 is not a SETTLEMENT account of bank-a",
        ),
        (
            "POST",
            "/bank-a/accounts/4",
            &funds,
            500,
            "2001",
            "account 4 is not a SETTLEMENT account of bank-a",
        ),
        ("POST", "/bank-a/accounts/2", &in_euros, 500, "2001", "account 2 is in USD, not EUR"),
        ("POST", "/bank-c/accounts/6", &funds, 500, "2001", "account 6 is not active"),
        ("POST", "/Hub/accounts/2", &funds, 400, "3100", "the Hub has no account 2 of its own"),
        ("POST", "/Hub/accounts/0", &funds, 400, "3100", "the Hub has no account 0 of its own"),
    ];
    for (verb, path, body, status, code, detail) in cases {
        let answer = send(&server, verb, &format!("/participants{path}"), body);
        assert_eq!(answer.refusal(), (status, code.to_owned()), "{verb} {path} {body}: {answer:?}");
        assert!(answer.description().contains(&format!(" - {detail}")), "{}", answer.description());
    }
    for path in
        ["nobody", "nobody/accounts", "nobody/limits", "nobody/positions", "nobody/endpoints", "%20", "x"]
    {
        let answer = get(&server, &format!("/participants/{path}"));
        assert_eq!(answer.refusal(), (400, "3200".to_owned()), "{path}");
    }
    let wrong_account = r#"{"action":"recordFundsOutCommit","reason":"x"}"#;
    assert_eq!(send(&server, "PUT", &end_of(1, 1), wrong_account).refusal(), (500, "2001".to_owned()));
    assert_eq!(look(&server), before);
    server.stop();
}

#[test]
fn verbs_paths_and_media_types() {
    let folder = folder();
    let server = Server::start(folder.path(), any_port());
    let wrong_verb = send(&server, "DELETE", "/participants", "");
    assert_eq!(wrong_verb.refusal(), (405, "3000".to_owned()));
    let allow = wrong_verb.head.lines().find(|line| line.to_ascii_lowercase().starts_with("allow:"));
    assert!(allow.is_some_and(|line| line.contains("GET") && line.contains("POST")), "{}", wrong_verb.head);
    assert_eq!(get(&server, "/participants/bank-a/nothing").refusal(), (404, "3002".to_owned()));
    for (number, headers) in
        ["", "Content-Type: text/plain\r\n", "Content-Type: ???\r\n"].into_iter().enumerate()
    {
        let body = format!(r#"{{"name":"bank-{number}","currency":"USD"}}"#);
        assert_eq!(
            exchange(&server, "POST", "/participants", headers, body.as_bytes()).status,
            201,
            "{headers}"
        );
    }
    let behind_proxy = exchange(&server, "GET", "/participants/bank-0", "X-Forwarded-Proto: https\r\n", b"");
    assert_eq!(behind_proxy.json()["id"], "https://localhost:4000/participants/bank-0");
    server.stop();
}
