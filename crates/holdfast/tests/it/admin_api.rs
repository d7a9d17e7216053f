//! The operator's paths over HTTP, as a script written for central-ledger would use them.

use holdfast_client::Admin;
use holdfast_domain::transfers::TransferState as S;
use serde_json::{Value, json};

use crate::support::http::{get, send};
use crate::support::server::{Server, any_port, fresh_hub};
use crate::support::world::{Payment, client, now, on_runtime, usd, verdict};

/// A change that must be taken, with this status and an empty body.
#[track_caller]
pub(crate) fn done(server: &Server, verb: &str, path: &str, body: &str, status: u16) {
    let answer = send(server, verb, path, body);
    assert_eq!((answer.status, answer.body.as_str()), (status, ""), "{verb} {path} {body}");
}

/// Two banks in USD with caps of 100: numbers 1 and 2, accounts 1 to 4.
pub(crate) fn two_banks(server: &Server) {
    for name in ["bank-a", "bank-b"] {
        let made = send(server, "POST", "/participants", &format!(r#"{{"name":"{name}","currency":"USD"}}"#));
        assert_eq!(made.status, 201, "{made:?}");
        let limits = r#"{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":100},"initialPosition":0}"#;
        done(server, "POST", &format!("/participants/{name}/initialPositionAndLimits"), limits, 201);
    }
}

pub(crate) fn movement(id: u32, action: &str, amount: &str) -> String {
    format!(
        r#"{{"transferId":"00000000-0000-4000-8000-{id:012}","externalReference":"ref","action":"{action}","reason":"test","amount":{{"amount":{amount},"currency":"USD"}}}}"#
    )
}

pub(crate) fn end_of(id: u32, account: u32) -> String {
    format!("/participants/bank-a/accounts/{account}/transfers/00000000-0000-4000-8000-{id:012}")
}

pub(crate) const IN: &str = "recordFundsIn";
const OUT: &str = "recordFundsOutPrepareReserve";
const COMMIT: &str = r#"{"action":"recordFundsOutCommit","reason":"sent"}"#;
const ABORT: &str = r#"{"action":"recordFundsOutAbort","reason":"came back"}"#;

/// The value of an account as the text of its number.
fn value_of(server: &Server, name: &str, account: u32) -> String {
    let accounts = get(server, &format!("/participants/{name}/accounts")).body;
    let (_, row) = accounts.split_once(&format!("{{\"id\":{account},")).expect("the account is listed");
    let (_, value) = row.split_once("\"value\":").expect("it has a value");
    value.split([',', '}']).next().expect("a number").to_owned()
}

pub(crate) fn payment(id: u128, amount: i64) -> Payment {
    Payment { id, payer: 1, payee: 2, amount: amount * 10_000, expiration: now() + 60_000 }
}

pub(crate) fn prepare(server: &Server, payment: Payment) -> (Option<S>, u16) {
    on_runtime(async { verdict(&client(server).await.prepare(payment.prepare()).await.unwrap()) })
}

pub(crate) fn fulfil(server: &Server, payment: Payment) -> (Option<S>, u16) {
    on_runtime(async { verdict(&client(server).await.fulfil(payment.fulfil()).await.unwrap()) })
}

#[test]
fn a_participant_is_made_opened_and_seen_everywhere() {
    let (_folder, server) = fresh_hub();
    let made = send(&server, "POST", "/participants", r#"{"name":"Bank-A","currency":"USD","extra":[1]}"#);
    assert_eq!(made.status, 201);
    let mut entity = made.json();
    let created = entity["created"].as_str().unwrap().to_owned();
    assert!(created.ends_with('Z') && created.len() == 24, "{created}");
    let account = |id, kind, active| json!({"id": id, "ledgerAccountType": kind, "currency": "USD", "isActive": active, "createdDate": created, "createdBy": "unknown"});
    let address = "http://localhost:4000/participants/Bank-A";
    let mut expected = json!({
        "name": "Bank-A", "id": address, "created": created, "isActive": 1, "links": {"self": address},
        "accounts": [account(1, "POSITION", 0), account(2, "SETTLEMENT", 0)], "isProxy": 0,
    });
    assert_eq!(entity, expected);
    assert_eq!(get(&server, "/participants/bank-a").json(), expected, "names are compared without case");

    // Before the first limit there are no accounts, limits or positions to see.
    for path in ["accounts", "limits", "positions"] {
        let list = get(&server, &format!("/participants/Bank-A/{path}"));
        assert_eq!((list.status, list.body.as_str()), (200, "[]"), "{path}");
    }
    assert_eq!(get(&server, "/participants/Bank-A/positions?currency=USD").body, "{}");
    let limits =
        r#"{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":"1000.5"},"initialPosition":-2.25}"#;
    done(&server, "POST", "/participants/Bank-A/initialPositionAndLimits", limits, 201);
    let accounts = get(&server, "/participants/Bank-A/accounts").json();
    let changed = accounts[0]["changedDate"].clone();
    assert_eq!(
        accounts,
        json!([
            {"id": 1, "ledgerAccountType": "POSITION", "currency": "USD", "isActive": 1, "value": -2.25, "reservedValue": 0, "changedDate": changed},
            {"id": 2, "ledgerAccountType": "SETTLEMENT", "currency": "USD", "isActive": 1, "value": 0, "reservedValue": 0, "changedDate": changed},
        ])
    );
    let position = json!({"currency": "USD", "value": -2.25, "changedDate": changed});
    assert_eq!(get(&server, "/participants/Bank-A/positions?currency=USD").json(), position);
    assert_eq!(get(&server, "/participants/Bank-A/positions").json(), json!([position]));
    assert_eq!(get(&server, "/participants/Bank-A/positions?currency=EUR").body, "{}");
    let limit =
        r#"[{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":1000.5,"alarmPercentage":10}}]"#;
    assert_eq!(get(&server, "/participants/Bank-A/limits").body, limit);
    for filter in ["?currency=USD", "?type=NET_DEBIT_CAP", "?currency=USD&type=NET_DEBIT_CAP"] {
        assert_eq!(get(&server, &format!("/participants/Bank-A/limits{filter}")).body, limit);
    }
    for filter in ["?currency=EUR", "?type=ANOTHER"] {
        assert_eq!(get(&server, &format!("/participants/Bank-A/limits{filter}")).body, "[]");
    }

    assert_eq!(get(&server, "/participants/Bank-A/accounts?currency=USD").json(), accounts);
    assert_eq!(get(&server, "/participants/Bank-A/accounts?currency=EUR").body, "[]");

    // A second currency, and the flag.
    let second = send(&server, "POST", "/participants", r#"{"name":"bank-a","currency":"EUR"}"#);
    assert_eq!((second.status, second.json()["accounts"].as_array().map(Vec::len)), (201, Some(4)));
    entity = send(&server, "PUT", "/participants/BANK-A", r#"{"isActive":false}"#).json();
    expected = second.json();
    expected["isActive"] = json!(0);
    assert_eq!(entity, expected);
    let all = get(&server, "/participants").json();
    assert_eq!((&all[0]["name"], &all[1], all.as_array().map(Vec::len)), (&json!("Hub"), &expected, Some(2)));
    server.stop();
}

#[test]
fn a_restart_keeps_everything() {
    let (folder, server) = fresh_hub();
    two_banks(&server);
    done(&server, "POST", "/participants/bank-a/accounts/2", &movement(1, IN, "50.5"), 202);
    done(&server, "POST", "/participants/bank-a/accounts/2", &movement(2, OUT, "10"), 202);
    let url = r#"{"type":"FSPIOP_CALLBACK_URL_TRANSFER_PUT","value":"http://a/transfers/{{transferId}}"}"#;
    done(&server, "POST", "/participants/bank-a/endpoints", url, 201);
    done(&server, "PUT", "/participants/bank-b/accounts/3", r#"{"isActive":false}"#, 200);
    let paths = ["", "/limits", "/bank-a/accounts", "/bank-a/endpoints", "/bank-b/accounts", "/Hub/accounts"];
    let look = |server: &Server| paths.map(|path| get(server, &format!("/participants{path}")).body);
    let before = look(&server);
    server.kill();
    let server = Server::start(folder.path(), any_port());
    assert_eq!(look(&server), before);
    // What was begun before can be ended now, and a repeat is still known as one.
    done(&server, "PUT", &end_of(2, 2), ABORT, 202);
    done(&server, "POST", "/participants/bank-a/accounts/2", &movement(1, IN, "50.5"), 202);
    assert_eq!(value_of(&server, "bank-a", 2), "-50.5");
    server.stop_and_verify(folder.path());
}

#[test]
fn amounts_are_exact_to_the_last_digit() {
    let (_folder, server) = fresh_hub();
    two_banks(&server);
    for written in ["12345678901234.5678", "\"12345678901234.5678\""] {
        let limit = format!(
            r#"{{"currency":"USD","limit":{{"type":"NET_DEBIT_CAP","value":{written},"alarmPercentage":"25"}}}}"#
        );
        let set = send(&server, "PUT", "/participants/bank-a/limits", &limit);
        let shown = r#"{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":12345678901234.5678,"alarmPercentage":25}}"#;
        assert_eq!((set.status, set.body.as_str()), (200, shown));
        assert_eq!(get(&server, "/participants/bank-a/limits").body, format!("[{shown}]"));
    }
    let all = get(&server, "/participants/limits?currency=USD").body;
    assert!(all.starts_with(r#"[{"name":"bank-a","currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":12345678901234.5678,"#), "{all}");
    // Twice nearly the largest amount is more than any amount, and still exact.
    for id in [1, 2] {
        let funds = movement(id, IN, "99999999999999.9999");
        done(&server, "POST", "/participants/bank-a/accounts/2", &funds, 202);
    }
    assert_eq!(value_of(&server, "bank-a", 2), "-199999999999999.9998");
    let hub = get(&server, "/participants/Hub/accounts").body;
    assert!(hub.contains("\"value\":199999999999999.9998,"), "{hub}");
    // For programs that read numbers as doubles.
    let value = |path: &str, pointer: &str| {
        let strings = get(&server, &format!("/participants/{path}amounts=strings")).json();
        let numbers = get(&server, &format!("/participants/{path}amounts=numbers")).body;
        assert_eq!(numbers, get(&server, &format!("/participants/{path}")).body);
        strings.pointer(pointer).unwrap_or(&Value::Null).clone()
    };
    assert_eq!(value("bank-a/accounts?", "/1/value"), "-199999999999999.9998");
    assert_eq!(value("bank-a/accounts?currency=USD&", "/1/reservedValue"), "0");
    assert_eq!(value("Hub/accounts?", "/0/value"), "199999999999999.9998");
    assert_eq!(value("bank-a/limits?", "/0/limit/value"), "12345678901234.5678");
    assert_eq!(value("bank-a/limits?", "/0/limit/alarmPercentage"), 25);
    assert_eq!(value("limits?", "/0/limit/value"), "12345678901234.5678");
    assert_eq!(value("bank-a/positions?", "/0/value"), "0");
    assert_eq!(value("bank-a/positions?currency=USD&", "/value"), "0");
    let wrong = get(&server, "/participants/bank-a/accounts?amounts=floats");
    wrong.is_refused(400, "3101");
    assert!(wrong.description().contains("amounts: must be numbers or strings, not 'floats'"), "{wrong:?}");
    server.stop();
}

#[test]
fn funds_go_in_and_out_once() {
    let (folder, server) = fresh_hub();
    two_banks(&server);
    let account = "/participants/bank-a/accounts/2";
    for _ in 0..2 {
        done(&server, "POST", account, &movement(1, IN, "100"), 202);
        assert_eq!(value_of(&server, "bank-a", 2), "-100", "a repeat changes nothing");
    }
    // A ULID carries the same bits as a UUID.
    let ulid =
        movement(0, IN, "1").replace("00000000-0000-4000-8000-000000000000", "01ARZ3NDEKTSV4RRFFQ69G5FAV");
    done(&server, "POST", account, &ulid, 202);
    let same = movement(0, IN, "1")
        .replace("00000000-0000-4000-8000-000000000000", "01563e3a-b5d3-d676-4c61-efb99302bd5b");
    done(&server, "POST", account, &same, 202);
    assert_eq!(value_of(&server, "bank-a", 2), "-101");
    for other in
        [movement(1, IN, "101"), movement(1, OUT, "100"), movement(1, IN, "100").replace("USD", "EUR")]
    {
        send(&server, "POST", account, &other).is_refused(400, "3106");
    }
    let elsewhere = send(&server, "POST", "/participants/bank-b/accounts/4", &movement(1, IN, "100"));
    elsewhere.is_refused(400, "3106");

    done(&server, "POST", account, &movement(2, OUT, "30"), 202);
    assert_eq!(value_of(&server, "bank-a", 2), "-71", "taken at once");
    let over = send(&server, "POST", account, &movement(3, OUT, "71.0001"));
    over.is_refused(400, "4001");
    assert!(over.description().ends_with("71.0001 cannot leave account 2: 71 is free"), "{over:?}");
    done(&server, "PUT", &end_of(2, 2), ABORT, 202);
    done(&server, "PUT", &end_of(2, 2), ABORT, 202);
    assert_eq!(value_of(&server, "bank-a", 2), "-101", "given back once");
    send(&server, "PUT", &end_of(2, 2), COMMIT).is_refused(500, "2001");
    done(&server, "POST", account, &movement(2, OUT, "30"), 202);
    assert_eq!(value_of(&server, "bank-a", 2), "-101", "a repeat of what was given back takes nothing");
    done(&server, "POST", account, &movement(3, OUT, "101"), 202);
    done(&server, "PUT", &end_of(3, 2), COMMIT, 202);
    done(&server, "PUT", &end_of(3, 2), COMMIT, 202);
    assert_eq!(value_of(&server, "bank-a", 2), "0");
    send(&server, "PUT", &end_of(3, 2), ABORT).is_refused(500, "2001");
    // Funds in do not end.
    send(&server, "PUT", &end_of(1, 2), COMMIT).is_refused(500, "2001");
    send(&server, "PUT", &end_of(9, 2), COMMIT).is_refused(400, "3208");
    server.stop_and_verify(folder.path());
}

#[test]
fn funds_that_a_position_stands_on_stay() {
    let (folder, server) = fresh_hub();
    two_banks(&server);
    let account = "/participants/bank-a/accounts/2";
    done(&server, "POST", account, &movement(1, IN, "100"), 202);
    assert_eq!(prepare(&server, payment(1, 60)), (Some(S::Reserved), 0));
    let over = send(&server, "POST", account, &movement(2, OUT, "40.0001"));
    over.is_refused(400, "4001");
    assert!(over.description().ends_with("40 is free"), "{over:?}");
    done(&server, "POST", account, &movement(3, OUT, "40"), 202);
    // While funds are on their way out they cover nothing; once back they do.
    assert_eq!(prepare(&server, payment(2, 1)), (Some(S::AbortedRejected), 4001));
    done(&server, "PUT", &end_of(3, 2), ABORT, 202);
    assert_eq!(prepare(&server, payment(3, 1)), (Some(S::Reserved), 0));
    assert_eq!(fulfil(&server, payment(1, 60)), (Some(S::Committed), 0));
    // Bank B was paid 60, but its settlement account holds nothing.
    let paid = send(&server, "POST", "/participants/bank-b/accounts/4", &movement(4, OUT, "0.0001"));
    paid.is_refused(400, "4001");
    server.stop_and_verify(folder.path());
}

#[test]
fn a_limit_changes_with_transfers_in_flight() {
    let (_folder, server) = fresh_hub();
    two_banks(&server);
    done(&server, "POST", "/participants/bank-a/accounts/2", &movement(1, IN, "1000"), 202);
    let cap = |value: u32| {
        let body = format!(
            r#"{{"currency":"USD","limit":{{"type":"NET_DEBIT_CAP","value":{value},"alarmPercentage":90}}}}"#
        );
        assert_eq!(send(&server, "PUT", "/participants/bank-a/limits", &body).status, 200);
    };
    assert_eq!(prepare(&server, payment(1, 80)), (Some(S::Reserved), 0));
    cap(50);
    assert_eq!(prepare(&server, payment(2, 1)), (Some(S::AbortedRejected), 4200), "below usage");
    assert_eq!(fulfil(&server, payment(1, 80)), (Some(S::Committed), 0), "what is reserved may end");
    cap(81);
    assert_eq!(prepare(&server, payment(3, 1)), (Some(S::Reserved), 0), "equality passes");
    assert_eq!(prepare(&server, payment(4, 1)), (Some(S::AbortedRejected), 4200));
    let position = get(&server, "/participants/bank-a/positions?currency=USD").json();
    assert_eq!(position["value"], json!(81));
    server.stop();
}

#[test]
fn inactive_participants_and_accounts_take_part_in_nothing_new() {
    let (_folder, server) = fresh_hub();
    two_banks(&server);
    done(&server, "POST", "/participants/bank-a/accounts/2", &movement(1, IN, "100"), 202);
    assert_eq!(prepare(&server, payment(1, 5)), (Some(S::Reserved), 0));
    let switch = |active: bool| {
        let body = format!(r#"{{"isActive":{active}}}"#);
        send(&server, "PUT", "/participants/bank-b", &body).json()["isActive"].clone()
    };
    assert_eq!(switch(false), json!(0));
    // Its funds still move: who leaves a scheme must get them back.
    done(&server, "POST", "/participants/bank-b/accounts/4", &movement(2, IN, "5"), 202);
    assert_eq!(prepare(&server, payment(2, 5)), (Some(S::Invalid), 3100));
    assert_eq!(fulfil(&server, payment(1, 5)), (Some(S::Committed), 0));
    assert_eq!(switch(true), json!(1));
    assert_eq!(prepare(&server, payment(3, 5)), (Some(S::Reserved), 0));
    done(&server, "PUT", "/participants/bank-a/accounts/1", r#"{"isActive":false}"#, 200);
    assert_eq!(get(&server, "/participants/bank-a/accounts").json()[0]["isActive"], json!(0));
    assert_eq!(prepare(&server, payment(4, 5)), (Some(S::Invalid), 3100));
    done(&server, "PUT", "/participants/bank-a/accounts/1", r#"{"isActive":true}"#, 200);
    assert_eq!(prepare(&server, payment(5, 5)), (Some(S::Reserved), 0));
    server.stop();
}

#[test]
fn the_hub_is_there_from_the_start() {
    let (folder, server) = fresh_hub();
    let hub = get(&server, "/participants/hub").json();
    assert_eq!((&hub["name"], &hub["isActive"], &hub["accounts"]), (&json!("Hub"), &json!(1), &json!([])));
    assert_eq!(hub["id"], "http://localhost:4000/participants/Hub");
    let kinds = |entity: &Value| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let rows = entity["accounts"].as_array().unwrap().iter();
        rows.map(|row| (text(&row["currency"]), text(&row["ledgerAccountType"]))).collect()
    };
    let both = |currency: &str| {
        ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"]
            .map(|kind| (currency.to_owned(), kind.to_owned()))
    };
    for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT", "HUB_RECONCILIATION"] {
        let body = format!(r#"{{"currency":"TZS","type":"{kind}"}}"#);
        let made = send(&server, "POST", "/participants/Hub/accounts", &body);
        assert_eq!((made.status, kinds(&made.json())), (201, both("TZS").to_vec()));
    }
    two_banks(&server);
    assert_eq!(kinds(&get(&server, "/participants/Hub").json()), both("USD"));
    done(&server, "POST", "/participants/bank-a/accounts/2", &movement(1, IN, "12.5"), 202);
    let accounts = get(&server, "/participants/Hub/accounts").json();
    assert_eq!((&accounts[0]["value"], &accounts[1]["value"]), (&json!(12.5), &json!(0)));
    for list in ["limits", "positions", "endpoints"] {
        assert_eq!(get(&server, &format!("/participants/Hub/{list}")).body, "[]");
    }
    let mail = r#"{"type":"NET_DEBIT_CAP_ADJUSTMENT_EMAIL","value":"ops@hub.example"}"#;
    done(&server, "POST", "/participants/Hub/endpoints", mail, 201);
    assert_eq!(get(&server, "/participants/Hub/endpoints").body, format!("[{mail}]"));
    // Its name is refused in the log too, not at this edge alone.
    let name = holdfast_domain::participants::Name::new("HUB").unwrap();
    let taken = on_runtime(async {
        client(&server).await.admin(Admin::CreateParticipant { name, currency: usd() }).await.unwrap()
    });
    assert_eq!(taken.code, 3000);
    assert_eq!(send(&server, "PUT", "/participants/Hub", r#"{"isActive":true}"#).status, 200);
    send(&server, "PUT", "/participants/Hub", r#"{"isActive":false}"#).is_refused(400, "3100");
    server.stop_and_verify(folder.path());
}

#[test]
fn endpoints_of_every_type_are_kept_and_replaced() {
    let (_folder, server) = fresh_hub();
    two_banks(&server);
    let path = "/participants/bank-a/endpoints";
    assert_eq!(get(&server, path).body, "[]");
    let kinds = [
        ("FSPIOP_CALLBACK_URL_TRANSFER_PUT", "http://a:3000/transfers/{{transferId}}"),
        ("FSPIOP_CALLBACK_URL_PARTIES_GET", "http://a:3000/parties/{{partyIdType}}/{{partyIdentifier}}"),
        ("NET_DEBIT_CAP_THRESHOLD_BREACH_EMAIL", "ops@a.example"),
        ("SOMETHING_NEW", "any text"),
        ("FSPIOP_CALLBACK_URL_TRANSFER_PUT", "https://a/v2/transfers/{{transferId}}"),
    ];
    for (kind, value) in kinds {
        done(&server, "POST", path, &json!({"type": kind, "value": value}).to_string(), 201);
    }
    let put =
        r#"{"type":"FSPIOP_CALLBACK_URL_TRANSFER_PUT","value":"https://a/v2/transfers/{{transferId}}"}"#;
    assert_eq!(get(&server, &format!("{path}?type=FSPIOP_CALLBACK_URL_TRANSFER_PUT")).body, put);
    assert_eq!(get(&server, &format!("{path}?type=FSPIOP_CALLBACK_URL_TRANSFER_POST")).body, "{}");
    let all = get(&server, path).json();
    assert_eq!((all.as_array().map(Vec::len), all[1].to_string()), (Some(4), put.to_owned()));
    assert_eq!(get(&server, "/participants/bank-b/endpoints").body, "[]");
    server.stop();
}
