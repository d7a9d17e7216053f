//! FSPIOP transfers over HTTP: acknowledgements, and the outcomes for those who wait for them.

use holdfast_domain::money::Amount;
use serde_json::{Value, json};

use crate::support::fspiop::{ACCEPT_1, CONTENT_TYPE_1_0, Message, Payment, stored, wait_for_state};
use crate::support::http::{Answer, exchange, send};
use crate::support::server::{Server, any_port, fresh_hub};
use crate::support::world::{now, participants};

/// Three participants that may owe 50 and have funds of 100.
fn world() -> (tempfile::TempDir, Server) {
    let (folder, server) = fresh_hub();
    participants(&server, 3, Amount(500_000), Amount(1_000_000));
    (folder, server)
}

/// What a caller who waits is told: status, internal state, state, code.
fn told(answer: &Answer) -> (u16, Value, Value, Value) {
    let body = answer.json();
    let code = body["errorInformation"]["errorCode"].clone();
    (answer.status, body["state"].clone(), body["transferState"].clone(), code)
}

fn expect(answer: &Answer, state: &str, external: &str, code: Value) {
    assert_eq!(told(answer), (200, json!(state), json!(external), code), "{answer:?}");
}

/// What a caller is told who sends that and waits.
fn outcome(server: &Server, message: Message, state: &str, external: &str, code: Value) -> Answer {
    let answer = message.waiting().send(server);
    expect(&answer, state, external, code);
    answer
}

fn assert_empty(answer: &Answer, status: u16) {
    assert_eq!((answer.status, answer.body.as_str()), (status, ""), "{answer:?}");
    assert!(answer.head_has("content-length: 0"), "clients look at it: {}", answer.head);
}

#[test]
fn acknowledgements_are_empty_and_durable() {
    let (folder, server) = world();
    let payment = Payment::new(1, "5");
    assert_empty(&payment.post().send(&server), 202);
    assert_empty(&payment.get().send(&server), 202);
    assert_empty(&payment.put("COMMITTED").send(&server), 200);
    let refused = Payment::new(2, "5");
    assert_empty(&refused.post().send(&server), 202);
    assert_empty(&refused.put_error("5104").send(&server), 200);
    // Decided refusals go out as callbacks; the acknowledgement is the same.
    assert_empty(&Payment::new(3, "500").post().send(&server), 202);
    assert_empty(&Payment::new(99, "1").get().send(&server), 202);
    assert_empty(&Payment::new(99, "1").put("COMMITTED").send(&server), 200);
    assert_empty(&payment.put("COMMITTED").from("fsp3").send(&server), 200);
    let (path, headers) = (format!("/transfers/{}", payment.id), payment.get().header_lines());
    let patch = exchange(&server, "PATCH", &path, &headers, b"{}");
    patch.is_refused(501, "2002");
    // kill -9: all of it is still there.
    server.kill();
    let server = Server::start(folder.path(), any_port());
    outcome(&server, payment.get(), "COMMITTED", "COMMITTED", Value::Null);
    outcome(&server, refused.get(), "ABORTED_ERROR", "ABORTED", json!("5104"));
    outcome(&server, Payment::new(3, "500").get(), "ABORTED_REJECTED", "ABORTED", json!("4001"));
    server.stop_and_verify(folder.path());
}

#[test]
fn those_who_wait_are_told_the_outcome() {
    let (_folder, server) = world();
    let payment = Payment::new(1, "5");
    let reserved = payment.post().waiting().send(&server);
    assert_eq!(
        reserved.json(),
        json!({"transferId": payment.id, "state": "RESERVED", "transferState": "RESERVED"})
    );
    assert!(reserved.head_has("preference-applied: wait=10"), "{}", reserved.head);
    let committed = payment.put("COMMITTED").waiting().send(&server);
    assert_eq!(
        committed.json(),
        json!({"transferId": payment.id, "state": "COMMITTED", "transferState": "COMMITTED", "fulfilment": payment.fulfilment()})
    );
    // The same again, by either side, and a look: the stored answer.
    for again in [payment.post(), payment.put("COMMITTED"), payment.get(), payment.get().from("FSP2")] {
        assert_eq!(again.clone().waiting().send(&server).json(), committed.json(), "{again:?}");
    }
    let reserving = Payment::new(2, "5");
    outcome(&server, reserving.post(), "RESERVED", "RESERVED", Value::Null);
    let waited = outcome(&server, reserving.put("RESERVED"), "COMMITTED", "COMMITTED", Value::Null);
    assert_eq!(waited.json()["fulfilment"], reserving.fulfilment());
    let refused = Payment::new(3, "5");
    refused.post().send(&server);
    let aborted = outcome(&server, refused.put_error("5104"), "ABORTED_ERROR", "ABORTED", json!("5104"));
    assert_eq!(aborted.description(), "Payee rejected transaction");
    outcome(&server, refused.put_error("5104"), "ABORTED_ERROR", "ABORTED", json!("5104"));
    let unknown_code = Payment::new(4, "5");
    unknown_code.post().send(&server);
    outcome(&server, unknown_code.put_error("9999"), "ABORTED_ERROR", "ABORTED", json!("3100"));
}

#[test]
fn refusals_by_the_rules_are_answers_too() {
    let (_folder, server) = world();
    // The payer has a cap of 50 and funds of 100.
    for (number, amount, state, code) in [
        (1, "50.0001", "ABORTED_REJECTED", "4200"),
        (2, "100.0001", "ABORTED_REJECTED", "4001"),
        (3, "0", "INVALID", "3100"),
        (4, "100000000000000", "INVALID", "3100"),
        (5, "999999999999999999.9999", "INVALID", "3100"),
    ] {
        let refused = Payment::new(number, amount);
        for message in [refused.post(), refused.get(), refused.post()] {
            expect(&message.waiting().send(&server), state, "ABORTED", json!(code));
        }
    }
    let description = |payment: &Payment| {
        let answer = outcome(&server, payment.post(), "INVALID", "ABORTED", json!("3100"));
        answer.description()
    };
    for (payment, reason) in [
        (Payment::until(10, "1", now() - 1), "the expiration is already in the past"),
        (
            Payment::new(11, "1").with("expiration", json!("1000-01-01T00:00:00.000Z")),
            "the expiration is already in the past",
        ),
        (Payment::new(12, "1").with("payeeFsp", json!("nobody")), "there is no such payee"),
        (Payment::new(13, "1").with("payeeFsp", json!("not a name at all: é")), "there is no such payee"),
        (Payment::new(14, "1").with("payeeFsp", json!("FSP1")), "payer and payee are the same"),
        (
            Payment::new(15, "1").with("amount", json!({"currency": "EUR", "amount": "1"})),
            "the payer has no position account in this currency",
        ),
    ] {
        assert_eq!(description(&payment), format!("Generic validation error - {reason}"));
    }
    // Two amounts that are both beyond what a record can hold are still two requests.
    let other = Payment::new(5, "999999999999999999.9998");
    outcome(&server, other.post(), "INVALID", "ABORTED", json!("3106"));
    let other = Payment::new(12, "1").with("payeeFsp", json!("somebody"));
    outcome(&server, other.post(), "INVALID", "ABORTED", json!("3106"));
    // Far beyond the year 9999 by its zone: never, and the log can be read again.
    let never = Payment::new(16, "1").with("expiration", json!("9999-12-31T23:59:59.999-19:00"));
    outcome(&server, never.post(), "RESERVED", "RESERVED", Value::Null);
}

#[test]
fn inactive_participants_are_refused_at_the_transfers_step() {
    let (_folder, server) = world();
    let set_active = |name: &str, active: bool| {
        let body = json!({"isActive": active}).to_string();
        send(&server, "PUT", &format!("/participants/{name}"), &body).status
    };
    assert_eq!(set_active("fsp2", false), 200);
    let payment = Payment::new(1, "1");
    let answer = outcome(&server, payment.post(), "INVALID", "ABORTED", json!("3100"));
    assert_eq!(answer.description(), "Generic validation error - the payee is inactive");
    assert_eq!((set_active("fsp2", true), set_active("fsp1", false)), (200, 200));
    let answer = Payment::new(2, "1").post().waiting().send(&server);
    assert_eq!(answer.description(), "Generic validation error - the payer is inactive");
}

#[test]
fn a_repeat_is_told_from_another_request() {
    let (_folder, server) = world();
    let payment = Payment::new(1, "5");
    payment.post().send(&server);
    let post = payment.post();
    // What says the same is the same, however it is written.
    let body = payment.body.to_string();
    let same = [
        post.clone().with("Date", "Sun, 16 Nov 2025 08:24:36 GMT"),
        post.clone().saying(format!("  {} ", body.replace("\"5\"", "\"\\u0035\""))),
        post.clone().but("unknown", json!({"a": 1})),
        post.clone().but("payeeFsp", json!("FSP2")),
        post.clone().from("Fsp1").with("Content-Type", CONTENT_TYPE_1_0),
    ];
    for message in same {
        outcome(&server, message, "RESERVED", "RESERVED", Value::Null);
    }
    let list = |value: &str| json!({"extension": [{"key": "k", "value": value}]});
    let other = [
        post.clone().but("amount", json!({"currency": "USD", "amount": "6"})),
        post.clone().but("amount", json!({"currency": "EUR", "amount": "5"})),
        post.clone().but("payeeFsp", json!("fsp3")),
        post.clone().but("ilpPacket", json!("AYIBgQ")),
        post.clone().but("condition", json!("A".repeat(43))),
        post.clone().but("expiration", json!("2030-01-01T00:00:00.000Z")),
        post.clone().but("extensionList", list("v")),
        post.but("payerFsp", json!("fsp3")).from("fsp3"),
    ];
    for message in other {
        let answer = outcome(&server, message.clone(), "RESERVED", "RESERVED", json!("3106"));
        assert_eq!(answer.description(), "Modified request", "{message:?}");
        assert_eq!(message.send(&server).status, 202);
    }
    payment.put("COMMITTED").send(&server);
    for other in [payment.put("RESERVED"), payment.put_error("5104")] {
        outcome(&server, other, "COMMITTED", "COMMITTED", json!("3106"));
    }
    let wrong = outcome(
        &server,
        payment.put("COMMITTED").but("fulfilment", json!("A".repeat(43))),
        "COMMITTED",
        "COMMITTED",
        json!("3106"),
    );
    assert_eq!(wrong.json()["fulfilment"], Value::Null, "refusals carry none");
}

#[test]
fn only_the_payee_ends_a_transfer_and_only_with_the_fulfilment() {
    let (_folder, server) = world();
    let payment = Payment::new(1, "5");
    payment.post().send(&server);
    for stranger in ["fsp1", "fsp3"] {
        for message in [payment.put("COMMITTED"), payment.put("RESERVED"), payment.put_error("5104")] {
            outcome(&server, message.from(stranger), "RESERVED", "RESERVED", json!("3100"));
        }
    }
    outcome(&server, payment.get(), "RESERVED", "RESERVED", Value::Null);
    let wrong = outcome(
        &server,
        payment.put("COMMITTED").but("fulfilment", json!("A".repeat(43))),
        "ABORTED_ERROR",
        "ABORTED",
        json!("3100"),
    );
    assert_eq!(wrong.description(), "Generic validation error - the fulfilment does not match the condition");
    outcome(&server, payment.put("COMMITTED"), "ABORTED_ERROR", "ABORTED", json!("3106"));
    // Of a transfer that is not theirs, strangers see nothing.
    payment.get().from("fsp3").waiting().send(&server).is_refused(400, "3000");
    let unknown = Payment::new(9, "1");
    for message in [unknown.get(), unknown.put("COMMITTED"), unknown.put_error("5104")] {
        message.waiting().send(&server).is_refused(404, "3208");
    }
}

#[test]
fn a_transfer_that_ran_out_says_so() {
    let (_folder, server) = world();
    let payment = Payment::until(1, "5", now() + 400);
    outcome(&server, payment.post(), "RESERVED", "RESERVED", Value::Null);
    let seen = wait_for_state(&server, &payment, "EXPIRED_RESERVED");
    assert_eq!(seen["transferState"], "ABORTED");
    assert_eq!(
        seen["errorInformation"],
        json!({"errorCode": "3303", "errorDescription": "Transfer expired"})
    );
    outcome(&server, payment.post(), "EXPIRED_RESERVED", "ABORTED", json!("3303"));
    let late = outcome(&server, payment.put("COMMITTED"), "EXPIRED_RESERVED", "ABORTED", json!("3100"));
    assert_eq!(late.description(), "Generic validation error - the transfer is not RESERVED");
}

#[test]
fn the_wait_is_bounded_and_honest() {
    let (_folder, server) = world();
    let long = Payment::new(1, "5").post().with("Prefer", "respond-async, wait=86400").send(&server);
    assert_eq!(long.status, 200);
    assert!(long.head_has("preference-applied: wait=30"), "{}", long.head);
    // Nobody decides in no time: the state is told, but as one that came after the wait.
    let impatient = Payment::new(2, "5").post().with("Prefer", "wait=0").send(&server);
    assert_eq!((impatient.status, &impatient.json()["state"]), (202, &json!("RESERVED")));
    // A preference that says nothing is none.
    assert_empty(&Payment::new(3, "5").post().with("Prefer", "wait=soon").send(&server), 202);
    assert_empty(&Payment::new(4, "5").post().with("Prefer", "respond-async").send(&server), 202);
}

#[test]
fn a_look_with_a_wait_writes_nothing_where_nobody_is_called() {
    let (_folder, server) = world();
    let payment = Payment::new(1, "5");
    payment.post().send(&server);
    let before = stored(&server);
    outcome(&server, payment.get(), "RESERVED", "RESERVED", Value::Null);
    assert_eq!(stored(&server), before);
    assert_empty(&payment.get().send(&server), 202);
    assert_eq!(stored(&server), (before.0 + 1, before.1));
}

#[test]
fn the_habits_of_clients_are_taken() {
    let (_folder, server) = world();
    let sdk = |message: Message| message.with("Content-Type", CONTENT_TYPE_1_0);
    let payment = Payment::new(1, "5");
    assert_empty(&sdk(payment.post()).send(&server), 202);
    assert_empty(&sdk(payment.put("COMMITTED")).send(&server), 200);
    assert_empty(&sdk(payment.get()).send(&server), 202);
    let bare = ACCEPT_1.split(';').next().unwrap();
    for accept in [
        bare.to_owned(),
        format!("{bare};version=1.0"),
        format!("{bare};version=1.1"),
        format!("{bare};version=2,{ACCEPT_1}"),
        format!("{bare};version=2, {ACCEPT_1}"),
        format!("{bare} ; version=1"),
    ] {
        assert_eq!(payment.post().with("Accept", &accept).send(&server).status, 202, "{accept}");
        assert_eq!(payment.get().with("Accept", &accept).send(&server).status, 202, "{accept}");
    }
    // An HTTP library that adds an Accept to a PUT by itself.
    assert_eq!(payment.put("COMMITTED").with("Accept", "*/*").send(&server).status, 200);
    // A person with curl who waits: plain JSON, no date, any Accept.
    let plain = |message: Message| {
        let message = message.waiting().without("Date").with("Content-Type", "application/json");
        message.with("Accept", "application/json").send(&server)
    };
    let payment = Payment::new(2, "5");
    expect(&plain(payment.post()), "RESERVED", "RESERVED", Value::Null);
    expect(&plain(payment.put("RESERVED")), "COMMITTED", "COMMITTED", Value::Null);
    expect(&plain(payment.get()), "COMMITTED", "COMMITTED", Value::Null);
    let bare_get = payment.get().waiting().without("Date").without("Content-Type");
    expect(&bare_get.clone().with("Accept", "*/*").send(&server), "COMMITTED", "COMMITTED", Value::Null);
    expect(&bare_get.without("Accept").send(&server), "COMMITTED", "COMMITTED", Value::Null);
    let without_accept = Payment::new(3, "5").post().waiting().without("Accept");
    expect(&without_accept.send(&server), "RESERVED", "RESERVED", Value::Null);
    // Ids that a prepare may not choose and a batch record may: whatever the hub writes can be asked for.
    for id in ["00000000-0000-0000-0000-000000000009", "b51ec534-ee48-8575-c6a9-ead2955b8069"] {
        let (path, error_path) = (format!("/transfers/{id}"), format!("/transfers/{id}/error"));
        for message in [
            payment.get().at(&path),
            payment.put("COMMITTED").at(&path),
            payment.put_error("5104").at(&error_path),
        ] {
            assert_eq!(message.waiting().send(&server).refusal(), (404, "3208".to_owned()), "{id}");
        }
    }
}
