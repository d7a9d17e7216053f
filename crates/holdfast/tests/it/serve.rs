//! `holdfast serve` at its edges: addresses, directories, views, bad bodies.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use holdfast_domain::money::Amount;
use holdfast_domain::records::batch;
use holdfast_domain::transfers::TransferState as S;
use serde_json::{Value, json};

use crate::support::server::{Server, any_port, binary, folder, run};
use crate::support::world::{Payment, client, now, set_up};

/// One request, written byte by byte as given; the status and the body.
fn exchange(server: &Server, request: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(request).unwrap();
    answer(stream)
}

/// A client that breaks off: nothing more will come.
fn break_off(server: &Server, request: &[u8]) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(request).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    answer(stream);
}

fn answer(mut stream: TcpStream) -> (u16, String) {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned()))
}

fn post(server: &Server, path: &str, body: &[u8]) -> (u16, String) {
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    exchange(server, &request)
}

fn get(server: &Server, path: &str) -> (u16, Value) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let (status, body) = exchange(server, request.as_bytes());
    (status, serde_json::from_str(&body).unwrap_or(Value::Null))
}

fn error_code(body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    body["errorInformation"]["errorCode"].as_str().unwrap_or("none").to_owned()
}

#[test]
fn a_foreign_address_is_refused() {
    let folder = folder();
    let data = folder.path().to_str().unwrap();
    let output = run(&["serve", "--listen", "0.0.0.0:0", "--data", data]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("not a loopback address"));
}

#[test]
fn a_second_server_on_the_same_directory_is_refused() {
    let folder = folder();
    let _server = Server::start(folder.path(), any_port());
    let output = run(&["serve", "--listen", "127.0.0.1:0", "--data", folder.path().to_str().unwrap()]);
    assert!(!output.status.success(), "two writers on one log");
    assert!(String::from_utf8_lossy(&output.stderr).contains("holdfast:"));
}

#[test]
fn a_payment_is_seen_in_every_view() {
    let folder = folder();
    let server = Server::start(folder.path(), any_port());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let soon = now() + 60_000;
    let payment = |id| Payment { id, payer: 1, payee: 2, amount: 125_000, expiration: soon };
    runtime.block_on(async {
        let client = client(&server).await;
        set_up(&client, 2, Amount(1_000_000), Amount(1_000_000)).await;
        assert_eq!(client.prepare(payment(1).prepare()).await.unwrap().state, Some(S::Reserved));
        assert_eq!(client.fulfil(payment(1).fulfil()).await.unwrap().state, Some(S::Committed));
        assert_eq!(client.prepare(payment(2).prepare()).await.unwrap().state, Some(S::Reserved));
    });
    let id = |number: u128| holdfast_domain::ids::TransferId(number).to_string();
    let (status, committed) = get(&server, &format!("/hub/transfers/{}", id(1)));
    assert_eq!(status, 200);
    let states: Vec<_> =
        committed["history"].as_array().unwrap().iter().map(|row| row["state"].clone()).collect();
    assert_eq!(json!(states), json!(["RECEIVED_PREPARE", "RESERVED", "RECEIVED_FULFIL", "COMMITTED"]));
    assert_eq!(
        committed["positionChanges"],
        json!([
            {"participant": "fsp1", "change": "12.5", "value": "12.5"},
            {"participant": "fsp2", "change": "-12.5", "value": "-12.5"},
        ])
    );
    assert_eq!(committed["transferState"], "COMMITTED");
    let (_, holds) = get(&server, "/hub/holds?limit=1");
    assert_eq!(holds["holds"][0]["transferId"], id(2));
    let (_, next) = get(&server, &format!("/hub/holds?after={}", holds["next"].as_str().unwrap()));
    assert_eq!(next["holds"], json!([]));
    let (_, stats) = get(&server, "/hub/stats");
    assert_eq!((&stats["transfers"], &stats["openHolds"]), (&json!(2), &json!(1)));
    assert_eq!(get(&server, "/health").0, 200);
    assert_eq!(get(&server, &format!("/hub/transfers/{}", id(9))).0, 404);
    assert_eq!(get(&server, "/nowhere").0, 404);
    assert_eq!(post(&server, "/hub/stats", b"").0, 405);

    let data = folder.path().to_str().unwrap();
    let topics = String::from_utf8(run(&["log", "topics", "--data", data]).stdout).unwrap();
    let count = |topic: &str| {
        topics.lines().find_map(|line| line.strip_prefix(topic)).map(|rest| rest.trim().to_owned())
    };
    assert_eq!(
        [count("transfers"), count("position"), count("notifications")],
        [Some("3".to_owned()), Some("3".to_owned()), Some("3".to_owned())]
    );
    let read = run(&["log", "read", "transfers", "--data", data]).stdout;
    let lines: Vec<Value> =
        String::from_utf8(read).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let actions: Vec<_> = lines.iter().map(|line| line["action"].clone()).collect();
    assert_eq!(json!(actions), json!(["prepare", "commit", "prepare"]));
    let from = lines[1]["offset"].to_string();
    let rest = run(&["log", "read", "transfers", "--from", &from, "--count", "1", "--data", data]).stdout;
    assert_eq!(String::from_utf8(rest).unwrap().lines().count(), 1);
    server.stop();
}

#[test]
fn the_tail_of_the_log_shows_what_becomes_durable() {
    use std::io::BufRead;
    let folder = folder();
    let server = Server::start(folder.path(), any_port());
    let mut tail = binary()
        .args(["log", "tail", "transfers", "--from", "0", "--data"])
        .arg(folder.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(tail.stdout.take().unwrap()).lines();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = client(&server).await;
        set_up(&client, 2, Amount(1_000_000), Amount(1_000_000)).await;
        for id in 1..=2 {
            let payment = Payment { id, payer: 1, payee: 2, amount: 1, expiration: now() + 60_000 };
            client.prepare(payment.prepare()).await.unwrap();
            let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            assert_eq!(line["transferId"], holdfast_domain::ids::TransferId(id).to_string());
            assert_eq!((&line["action"], &line["state"]), (&json!("prepare"), &json!("RESERVED")));
        }
    });
    tail.kill().unwrap();
    tail.wait().unwrap();
    server.stop();
}

#[test]
fn a_bad_body_is_refused_with_its_reason_and_stores_nothing() {
    let folder = folder();
    let server = Server::start(folder.path(), any_port());
    let batch_of = |count: u32, records: &[u8]| [&batch::request_header(count)[..], records].concat();
    let mut prepare = vec![0_u8; 128];
    prepare[0] = 1;
    prepare[2] = 2;
    prepare[48..51].copy_from_slice(b"USD");
    let with = |at: usize, byte: u8| {
        let mut changed = prepare.clone();
        changed[at] = byte;
        changed
    };
    let mut other_version = batch_of(0, &[]);
    other_version[4] = 9;
    let cases: [(&str, Vec<u8>, u16, &str); 11] = [
        ("nothing", vec![], 400, "3101"),
        ("half a header", b"HFBQ".to_vec(), 400, "3101"),
        ("not a batch", b"{\"transferId\": 1} and so on".to_vec(), 400, "3101"),
        ("another version", other_version, 400, "3101"),
        ("an unknown kind", batch_of(1, &with(0, 99)), 400, "3101"),
        ("the hub's own kind", batch_of(1, &[&[4, 0, 1, 0][..], &[0; 60]].concat()), 400, "3101"),
        ("a currency in small letters", batch_of(1, &with(48, b'u')), 400, "3101"),
        ("reserved bytes", batch_of(1, &with(60, 1)), 400, "3101"),
        ("cut in the middle", batch_of(1, &prepare[..100]), 400, "3101"),
        ("another count", batch_of(2, &prepare), 400, "3101"),
        ("too many records", batch_of(8_193, &[]), 400, "3103"),
    ];
    for (what, body, status, code) in cases {
        let (answered, text) = post(&server, "/hub/batch", &body);
        assert_eq!((answered, error_code(&text).as_str()), (status, code), "{what}: {text}");
    }
    let (status, text) = post(&server, "/hub/batch", &vec![0; 1_100_000]);
    assert_eq!((status, error_code(&text).as_str()), (400, "3104"));
    // A bad record at the end: the good ones before it are not stored either.
    let (status, text) = post(&server, "/hub/batch", &batch_of(2, &[prepare.clone(), with(0, 77)].concat()));
    assert_eq!(status, 400);
    assert!(text.contains("record 1"), "the reason names the record: {text}");
    // A body that breaks off, and one that never comes.
    break_off(&server, b"POST /hub/batch HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\nHFBQ");
    break_off(&server, b"\x00\xff\x00 not http at all\r\n\r\n");
    let (_, stats) = get(&server, "/hub/stats");
    assert_eq!((&stats["transfers"], &stats["log"]["records"]), (&json!(0), &json!(0)));
    assert_eq!(post(&server, "/hub/batch", &batch_of(0, &[])).0, 200, "an empty batch is fine");
    server.stop();
}
