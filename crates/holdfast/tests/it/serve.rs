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
    exchange(server, &[announce(path, body.len()).as_bytes(), body].concat())
}

/// The head of a batch with so many bytes.
fn announce(path: &str, bytes: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/vnd.holdfast.batch\r\nContent-Length: {bytes}\r\n\r\n"
    )
}

fn get(server: &Server, path: &str) -> (u16, Value) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
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
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = format!("another holdfast serves from {}", folder.path().display());
    assert!(said.contains("holdfast:") && said.contains(&expected), "{said}");
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
    assert_eq!(stats["nextExpiration"], holds["holds"][0]["expiration"], "to the millisecond");
    for limit in [0, 1_001, 5_000] {
        let (status, refused) = get(&server, &format!("/hub/holds?limit={limit}"));
        assert_eq!((status, &refused["errorInformation"]["errorCode"]), (400, &json!("3101")));
    }
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
    // Derived messages have the offset of their frame, and the bound is on what is printed.
    let offsets = |from: &str| -> Vec<u64> {
        let read = run(&["log", "read", "position", "--from", from, "--data", data]).stdout;
        let lines = String::from_utf8(read).unwrap();
        let offset =
            |line: &str| serde_json::from_str::<Value>(line).unwrap()["offset"].as_u64().expect("an offset");
        lines.lines().map(offset).collect()
    };
    let all = offsets("0");
    for from in 0..=all[2] + 1 {
        let expected: Vec<u64> = all.iter().copied().filter(|offset| *offset >= from).collect();
        assert_eq!(offsets(&from.to_string()), expected, "from {from}");
    }
    server.stop();
}

#[test]
fn a_transfer_that_failed_says_why_in_every_view() {
    let folder = folder();
    let server = Server::start(folder.path(), any_port());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let soon = now() + 60_000;
    let payment = |id, amount| Payment { id, payer: 1, payee: 2, amount, expiration: soon };
    runtime.block_on(async {
        let client = client(&server).await;
        set_up(&client, 2, Amount(10), Amount(1_000)).await;
        client.prepare(payment(1, 5).prepare()).await.unwrap();
        client.abort(payment(1, 5).abort()).await.unwrap();
        client.prepare(payment(2, 5).prepare()).await.unwrap();
        let wrong = payment(9, 5).fulfil().fulfilment;
        let fulfil = holdfast_client::Fulfil { fulfilment: wrong, ..payment(2, 5).fulfil() };
        client.fulfil(fulfil).await.unwrap();
        client.prepare(payment(3, 11).prepare()).await.unwrap();
    });
    let error = |number: u128| {
        let id = holdfast_domain::ids::TransferId(number);
        get(&server, &format!("/hub/transfers/{id}")).1["errorInformation"].clone()
    };
    assert_eq!(error(1), json!({"errorCode": "5104", "errorDescription": "the payee's own code"}));
    let wrong = "Generic validation error - the fulfilment does not match the condition";
    assert_eq!(error(2), json!({"errorCode": "3100", "errorDescription": wrong}));
    assert_eq!(error(3), json!({"errorCode": "4200", "errorDescription": "Payer limit error"}));
    let data = folder.path().to_str().unwrap();
    let read = run(&["log", "read", "notifications", "--data", data]).stdout;
    let told: Vec<(Value, Value)> = String::from_utf8(read)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|line| (line["tells"].clone(), line["error"].clone()))
        .collect();
    let expected = [
        (json!("prepared"), Value::Null),
        (json!("aborted"), json!("5104")),
        (json!("prepared"), Value::Null),
        (json!("aborted"), json!("3100")),
        (json!("refused"), json!("4200")),
    ];
    assert_eq!(told, expected);
    server.stop();
}

#[test]
fn a_damaged_log_is_a_finding_and_an_empty_directory_is_not_a_log() {
    use std::os::unix::fs::FileExt;
    let folder = folder();
    let data = folder.path().to_str().unwrap();
    for command in [&["verify", "--output", "json"][..], &["log", "topics"], &["log", "read", "position"]] {
        let output = run(&[command, &["--data", data]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
        assert!(
            said.contains(&format!("there is no Holdfast data in {data}; name it with --data")),
            "{said}"
        );
    }
    let server = Server::start(folder.path(), any_port());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        set_up(&client(&server).await, 2, Amount(10), Amount(1_000)).await;
    });
    server.kill();
    let segment = folder.path().join("log/00000000000000000000.seg");
    let file = std::fs::OpenOptions::new().write(true).open(segment).unwrap();
    let frames = 6;
    // The last frame: it could be an unfinished write, and verify says so.
    file.write_all_at(&[0xff; 8], 4_096 * frames + 100).unwrap();
    let output = run(&["verify", "--output", "json", "--data", data]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &answer["good"]), (Some(0), &json!(true)));
    assert!(answer["tornTail"]["meaning"].as_str().unwrap().contains("unless the disk rots"), "{answer}");
    let text = run(&["verify", "--data", data]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("an unfinished or rotten last write"));
    // One in the middle: others after it prove that it had been acknowledged.
    file.write_all_at(&[0xff; 8], 4_096 * 2 + 100).unwrap();
    let output = run(&["verify", "--output", "json", "--data", data]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &answer["good"]), (Some(1), &json!(false)));
    assert!(answer["findings"][0].as_str().unwrap().contains("the log is damaged"), "{answer}");
}

#[test]
fn an_address_that_is_none_is_explained() {
    let output = run(&["serve", "--listen", "4000"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("such as 127.0.0.1:4000"));
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
    // It is refused for what it announces. Whoever sends it all the same may be cut off in the middle.
    let (status, text) = exchange(&server, announce("/hub/batch", 1_100_000).as_bytes());
    assert_eq!((status, error_code(&text).as_str()), (400, "3104"));
    // A bad record at the end: the good ones before it are not stored either.
    let (status, text) = post(&server, "/hub/batch", &batch_of(2, &[prepare.clone(), with(0, 77)].concat()));
    assert_eq!(status, 400);
    assert!(text.contains("record 1"), "the reason names the record: {text}");
    // A body that breaks off, and one that never comes.
    break_off(&server, b"POST /hub/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\nHFBQ");
    break_off(&server, b"\x00\xff\x00 not http at all\r\n\r\n");
    let (_, stats) = get(&server, "/hub/stats");
    assert_eq!((&stats["transfers"], &stats["log"]["records"]), (&json!(0), &json!(0)));
    assert_eq!(post(&server, "/hub/batch", &batch_of(0, &[])).0, 200, "an empty batch is fine");
    server.stop();
}
