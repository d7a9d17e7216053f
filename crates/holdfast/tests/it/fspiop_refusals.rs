//! What is refused at the edge: the precise status and code, and nothing stored.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use holdfast_domain::money::Amount;
use serde_json::{Value, json};

use crate::support::fspiop::{ACCEPT_1, CONTENT_TYPE_1_0, CONTENT_TYPE_1_1, Message, Payment, stored};
use crate::support::http::{exchange, get, head, on_the_wire};
use crate::support::server::{Server, fresh_hub};
use crate::support::world::{now, participants};

/// 128 bits like a UUID; a callback would write them as one.
const ULID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

fn world() -> (tempfile::TempDir, Server) {
    let (folder, server) = fresh_hub();
    participants(&server, 2, Amount(1_000_000), Amount(1_000_000));
    (folder, server)
}

/// Sends each with and without a wait; each must be refused with this code (3001 with 406, all others with 400), and nothing
/// may be stored.
fn assert_refused(server: &Server, cases: &[(&str, Message, &str)]) {
    let before = stored(server);
    for (what, message, code) in cases {
        for message in [message.clone(), message.clone().waiting()] {
            let answer = message.send(server);
            let status = if *code == "3001" { 406 } else { 400 };
            assert_eq!(answer.refusal(), (status, (*code).to_owned()), "{what}: {answer:?}");
            let described = answer.description().chars().count();
            assert!((1..=128).contains(&described), "{what}: {answer:?}");
            assert!(answer.head_has("content-type: application/json"), "{answer:?}");
        }
    }
    assert_eq!(stored(server), before, "nothing was stored");
}

#[test]
fn bad_fields_of_a_prepare() {
    let (_folder, server) = world();
    let payment = Payment::new(1, "5");
    let mut cases = Vec::new();
    let mut field = |what: &'static str, name: &str, value: Value, code: &'static str| {
        cases.push((what, payment.post().but(name, value), code));
    };
    let money = |amount: Value| json!({"currency": "USD", "amount": amount});
    field("5 decimals", "amount", money(json!("5.55555")), "3101");
    field("a trailing zero", "amount", money(json!("5.50")), "3101");
    field("only trailing zeros", "amount", money(json!("5.0")), "3101");
    field("a point at the end", "amount", money(json!("5.")), "3101");
    field("no digit before the point", "amount", money(json!(".5")), "3101");
    field("a leading zero", "amount", money(json!("05")), "3101");
    field("negative", "amount", money(json!("-5")), "3101");
    field("19 digits", "amount", money(json!("1000000000000000000")), "3101");
    field("an exponent", "amount", money(json!("1e3")), "3101");
    field("an empty amount", "amount", money(json!("")), "3101");
    field("a number for an amount", "amount", money(json!(5)), "3101");
    field("null for an amount", "amount", money(json!(null)), "3101");
    field("an amount that is no object", "amount", json!("5"), "3101");
    field("no currency", "amount", json!({"amount": "5"}), "3102");
    field("no amount", "amount", json!({"currency": "USD"}), "3102");
    field("a currency in small letters", "amount", json!({"currency": "usd", "amount": "5"}), "3101");
    field("a currency that is none", "amount", json!({"currency": "ZZZ", "amount": "5"}), "3101");
    field("an upper-case UUID", "transferId", json!("B51EC534-EE48-4575-B6A9-EAD2955B8069"), "3101");
    field("no UUID", "transferId", json!("transfer-1"), "3101");
    field("a ULID", "transferId", json!(ULID), "3101");
    field("a nil UUID", "transferId", json!("00000000-0000-0000-0000-000000000000"), "3101");
    field("a number for an id", "transferId", json!(7), "3101");
    field("an empty payee", "payeeFsp", json!(""), "3101");
    field("a payee of 33 characters", "payeeFsp", json!("x".repeat(33)), "3101");
    field("42 letters of condition", "condition", json!("A".repeat(42)), "3101");
    field("44 letters of condition", "condition", json!("A".repeat(44)), "3101");
    field("a padded condition", "condition", json!(format!("{}=", "A".repeat(43))), "3101");
    field("a condition in hex", "condition", json!("ab".repeat(32)), "3101");
    field("a condition of another alphabet", "condition", json!(format!("{}+", "A".repeat(42))), "3101");
    field("an empty packet", "ilpPacket", json!(""), "3101");
    field("a packet that is too long", "ilpPacket", json!("A".repeat(32_769)), "3101");
    field("a packet of another alphabet", "ilpPacket", json!("A+B/"), "3101");
    field("no milliseconds", "expiration", json!("2030-11-15T08:24:36Z"), "3101");
    field("no zone", "expiration", json!("2030-11-15T08:24:36.000"), "3101");
    field("29 February of no leap year", "expiration", json!("2030-02-29T08:24:36.000Z"), "3101");
    field("a number for a time", "expiration", json!(1_900_000_000_000_u64), "3101");
    let entries = |count: usize| json!({"extension": vec![json!({"key": "k", "value": "v"}); count]});
    field("17 extensions", "extensionList", entries(17), "3103");
    field("no extension in the list", "extensionList", entries(0), "3101");
    field("no inner name", "extensionList", json!({}), "3102");
    field("a list without its object", "extensionList", json!([]), "3101");
    field("an extension without value", "extensionList", json!({"extension": [{"key": "k"}]}), "3102");
    field(
        "a long key",
        "extensionList",
        json!({"extension": [{"key": "k".repeat(33), "value": "v"}]}),
        "3101",
    );
    for name in ["transferId", "payeeFsp", "payerFsp", "amount", "ilpPacket", "condition", "expiration"] {
        let mut body = payment.body.clone();
        body.as_object_mut().unwrap().remove(name);
        cases.push((name, payment.post().saying(body.to_string()), "3102"));
    }
    assert_refused(&server, &cases);
    // An amount beyond the rules is well formed, and stored as INVALID.
    let (_, transfers) = stored(&server);
    assert_eq!(Payment::new(2, "100000000000000").post().send(&server).status, 202);
    assert_eq!(stored(&server).1, transfers + 1);
}

#[test]
fn bodies_that_are_no_object() {
    let (_folder, server) = world();
    let payment = Payment::new(1, "5");
    let whole = payment.body.to_string();
    let twice = whole.replacen('{', r#"{"amount":{"currency":"USD","amount":"1"},"#, 1);
    let mut cases: Vec<(&str, Message, &str)> = Vec::new();
    for (what, body) in [
        ("nothing", ""),
        ("white space", "  "),
        ("a word", "transfer"),
        ("null", "null"),
        ("a list", "[1]"),
        ("a text", "\"transfer\""),
        ("cut short", &whole[..whole.len() - 1]),
        ("something behind it", &format!("{whole}}}")),
        ("a field twice", &twice),
        ("a byte order mark", &format!("\u{feff}{whole}")),
        ("deep nesting", &"[".repeat(100_000)),
        ("deep nesting in a field", &format!("{{\"transferId\":{}", "{\"a\":".repeat(50_000))),
    ] {
        cases.push((what, payment.post().saying(body), "3101"));
        let code = if what == "a field twice" { "3102" } else { "3101" };
        cases.push((what, payment.put("COMMITTED").saying(body), code));
    }
    cases.push(("not UTF-8", payment.post().saying(b"{\"x\":\"\xff\"}".to_vec()), "3101"));
    assert_refused(&server, &cases);
}

#[test]
fn bad_headers_in_the_order_of_the_tests() {
    let (_folder, server) = world();
    let payment = Payment::new(1, "5");
    let post = || payment.post();
    let other = "application/vnd.interoperability.quotes+json;version=1.1";
    let bare = ACCEPT_1.split(';').next().unwrap();
    let mut cases = vec![
        ("another resource in Accept", post().with("Accept", other), "3101"),
        ("text in Accept", post().with("Accept", "text/html"), "3101"),
        ("version 2 in Accept", post().with("Accept", &format!("{bare};version=2")), "3001"),
        ("version 1.2 in Accept", post().with("Accept", &format!("{bare};version=1.2")), "3001"),
        ("no Content-Type", post().without("Content-Type"), "3102"),
        ("no Content-Type on PUT", payment.put("COMMITTED").without("Content-Type"), "3102"),
        ("major only in Content-Type", post().with("Content-Type", ACCEPT_1), "3101"),
        ("no version in Content-Type", post().with("Content-Type", bare), "3101"),
        ("another resource in Content-Type", post().with("Content-Type", other), "3101"),
        ("text in Content-Type", post().with("Content-Type", "text/plain"), "3101"),
        ("version 2.0 in Content-Type", post().with("Content-Type", &format!("{bare};version=2.0")), "3001"),
        ("Content-Type twice", post().and("Content-Type", CONTENT_TYPE_1_1), "3101"),
        ("a date of another form", post().with("Date", "2025-11-15T08:24:36.000Z"), "3101"),
        ("an old form of date", post().with("Date", "Saturday, 15-Nov-25 08:24:36 GMT"), "3101"),
        ("no source", post().without("FSPIOP-Source"), "3102"),
        ("two sources", post().and("FSPIOP-Source", "fsp2"), "3101"),
        ("a long source", post().from(&"x".repeat(33)), "3101"),
        ("an empty source", post().from(""), "3101"),
        ("a long destination", post().with("FSPIOP-Destination", &"x".repeat(33)), "3101"),
        ("a source that is not the payer", post().from("fsp2"), "3100"),
        ("a payer that is not the source", post().but("payerFsp", json!("fsp2")), "3100"),
        ("an unknown source", post().from("nobody").but("payerFsp", json!("nobody")), "3100"),
        ("an unknown payee", payment.put("COMMITTED").from("nobody"), "3100"),
        ("an unknown asker", payment.get().from("nobody"), "3100"),
        ("the hub's name", post().from("Hub").but("payerFsp", json!("Hub")), "3100"),
        ("no UUID in the path", payment.get().at("/transfers/1"), "3101"),
        ("a ULID in the path", payment.get().at(&format!("/transfers/{ULID}")), "3101"),
        ("a ULID to fulfil", payment.put("COMMITTED").at(&format!("/transfers/{ULID}")), "3101"),
        ("a ULID to abort", payment.put_error("5104").at(&format!("/transfers/{ULID}/error")), "3101"),
        ("an upper-case path", payment.get().at(&format!("/transfers/{}", "A".repeat(36))), "3101"),
        ("a path that is no text", payment.get().at("/transfers/%ff%fe"), "3101"),
        ("long headers", post().with("X-Long", &"x".repeat(70_000)), "3104"),
    ];
    // The first failure answers.
    let all_wrong = || post().saying("no JSON").with("Content-Type", "text/plain").with("Date", "today");
    cases.push(("Accept before all", all_wrong().with("Accept", &format!("{bare};version=3")), "3001"));
    cases.push(("Date before Content-Type", all_wrong(), "3101"));
    let large = post().saying(vec![b' '; 5_242_881]);
    cases.push((
        "size before Content-Type",
        large.with("Content-Type", &format!("{bare};version=9.9")),
        "3104",
    ));
    cases.push((
        "Content-Type before the source",
        post().with("Content-Type", &format!("{bare};version=9.9")).without("FSPIOP-Source"),
        "3001",
    ));
    cases.push(("the source before the body", post().without("FSPIOP-Source").saying("no JSON"), "3102"));
    assert_refused(&server, &cases);

    // What only those who wait may say or leave out.
    let before = stored(&server);
    for (message, code) in [
        (post().without("Accept"), "3102"),
        (payment.get().without("Accept"), "3102"),
        (post().without("Date"), "3102"),
        (payment.put("COMMITTED").without("Date"), "3102"),
        (payment.get().without("Date"), "3102"),
        (payment.get().without("Content-Type"), "3102"),
        (post().with("Accept", "*/*"), "3101"),
        (post().with("Accept", "application/json"), "3101"),
        (post().with("Content-Type", "application/json"), "3101"),
    ] {
        message.send(&server).is_refused(400, code);
    }
    for ulid in [payment.get().at(&format!("/transfers/{ULID}")), post().but("transferId", json!(ULID))] {
        let described = ulid.send(&server).description();
        assert!(described.contains("must be a lower-case UUID such as"), "{described}");
    }
    let refused = post().with("Accept", &format!("{bare};version=2")).send(&server).json();
    assert_eq!(
        refused["errorInformation"]["extensionList"],
        json!({"extension": [{"key": "1", "value": "0"}, {"key": "1", "value": "1"}]})
    );
    get(&server, "/transfer").is_refused(404, "3002");
    let verb = exchange(&server, "DELETE", "/transfers", "", b"");
    verb.is_refused(405, "3000");
    assert!(verb.head_has("allow: post"), "{}", verb.head);
    assert_eq!(stored(&server), before);
}

#[test]
fn bad_fulfilments_and_aborts() {
    let (_folder, server) = world();
    let payment = Payment::new(1, "5");
    payment.post().send(&server);
    let put = || payment.put("COMMITTED");
    let at = |millis: i64| {
        let instant = jiff::Timestamp::from_millisecond(now() + millis).unwrap();
        put().but("completedTimestamp", json!(format!("{instant:.3}")))
    };
    let error = |body: Value| payment.put_error("5104").saying(body.to_string());
    let information = |value: Value| error(json!({"errorInformation": value}));
    assert_refused(
        &server,
        &[
            ("no fulfilment", put().saying(r#"{"transferState":"COMMITTED"}"#), "3102"),
            ("no state", put().saying(r#"{"fulfilment":"x"}"#), "3102"),
            ("a fulfilment of 16 bytes", put().but("fulfilment", json!("A".repeat(22))), "3101"),
            ("a fulfilment in hex", put().but("fulfilment", json!("ab".repeat(32))), "3101"),
            ("a number for a fulfilment", put().but("fulfilment", json!(1)), "3101"),
            ("ABORTED", payment.put("ABORTED"), "3101"),
            ("RECEIVED", payment.put("RECEIVED"), "3101"),
            ("another state", payment.put("DONE"), "3101"),
            ("RESERVED under 1.0", payment.put("RESERVED").with("Content-Type", CONTENT_TYPE_1_0), "3101"),
            ("completed in the future", at(60_000), "3100"),
            ("completed long ago", at(-301_000), "3100"),
            ("completed at no time", put().but("completedTimestamp", json!("yesterday")), "3101"),
            ("17 extensions", put().but("extensionList", json!({"extension": vec![json!({}); 17]})), "3103"),
            ("no error", error(json!({})), "3102"),
            ("no code", information(json!({"errorDescription": "no"})), "3102"),
            ("no description", information(json!({"errorCode": "5104"})), "3102"),
            (
                "a number for a code",
                information(json!({"errorCode": 5104, "errorDescription": "no"})),
                "3101",
            ),
            ("three digits", information(json!({"errorCode": "510", "errorDescription": "no"})), "3101"),
            ("a zero in front", information(json!({"errorCode": "0510", "errorDescription": "no"})), "3101"),
            (
                "an empty description",
                information(json!({"errorCode": "5104", "errorDescription": ""})),
                "3101",
            ),
        ],
    );
    let hint = payment.put("ABORTED").send(&server).description();
    assert!(hint.contains("/error"), "{hint}");
    assert_eq!(payment.get().waiting().send(&server).json()["state"], "RESERVED", "still");
    assert_eq!(at(-1_000).send(&server).status, 200);
}

#[test]
fn sizes_are_bounded_however_they_are_announced() {
    let (_folder, server) = world();
    let payment = Payment::new(1, "5");
    let headers = payment.post().header_lines();
    let before = stored(&server);
    let chunked = |chunks: usize, size: usize| {
        let head = format!(
            "POST /transfers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n{headers}\r\n"
        );
        let chunk = [format!("{size:x}\r\n").into_bytes(), vec![b' '; size], b"\r\n".to_vec()].concat();
        let body = payment.post().body().to_vec();
        let last = [format!("{:x}\r\n", body.len()).into_bytes(), body, b"\r\n0\r\n\r\n".to_vec()].concat();
        on_the_wire(&server, &[head.into_bytes(), chunk.repeat(chunks), last].concat(), false)
    };
    chunked(6, 1_000_000).is_refused(400, "3104");
    let announced = head("POST", "/transfers", &headers, 99_999_999_999);
    on_the_wire(&server, announced.as_bytes(), false).is_refused(400, "3104");
    // Within the standard's bound, and yet more than one record can carry.
    let padding = "x".repeat(4_500_000);
    let answer = payment.post().but("padding", json!(padding)).send(&server);
    answer.is_refused(400, "3104");
    assert_eq!(stored(&server), before);
    assert_eq!(chunked(2, 1_000).status, 202, "a body in pieces");
    let large = Payment::new(2, "5").with("padding", json!("x".repeat(1_000_000)));
    assert_eq!(large.post().send(&server).status, 202, "a large body that fits");
}

#[test]
fn slow_and_broken_clients_hold_up_nobody() {
    let (_folder, server) = world();
    let payment = Payment::new(1, "5");
    let before = stored(&server);
    let head = head("POST", "/transfers", &payment.post().header_lines(), 500);
    let beginnings: [&[u8]; 5] = [
        b"",
        b"P",
        b"POST /transfers HTTP/1.1\r\nHost: localhost\r\nFSPIOP-So",
        head.as_bytes(),
        &[head.as_bytes(), &payment.post().body()[..100]].concat(),
    ];
    let hanging: Vec<TcpStream> = (0..50)
        .map(|number| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.write_all(beginnings[number % beginnings.len()]).unwrap();
            stream
        })
        .collect();
    for beginning in beginnings {
        let answer = on_the_wire(&server, beginning, true);
        assert!(matches!(answer.status, 0 | 400..500), "{answer:?}");
    }
    assert_eq!(stored(&server), before, "half a message is none");
    let started = Instant::now();
    for number in 10..30 {
        assert_eq!(Payment::new(number, "1").post().waiting().send(&server).status, 200);
    }
    assert!(started.elapsed() < Duration::from_secs(5), "others were held up: {:?}", started.elapsed());
    drop(hanging);
    assert_eq!(stored(&server).1, before.1 + 20);
}
