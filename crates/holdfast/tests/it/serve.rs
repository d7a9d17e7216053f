//! `holdfast serve` at its edges: addresses, directories, views, bad bodies.

use holdfast_domain::money::Amount;
use holdfast_domain::records::batch;
use holdfast_domain::transfers::TransferState as S;
use serde_json::{Value, json};

use crate::support::command::{assert_says, done, json_lines, refused};
use crate::support::http::{Answer, exchange, get, head, on_the_wire};
use crate::support::server::{Server, any_port, binary, folder, fresh_hub, path, run};
use crate::support::world::{Payment, client, now, on_runtime, participants, set_up};

const BATCH: &str = "Content-Type: application/vnd.holdfast.batch\r\n";

fn post(server: &Server, path: &str, body: &[u8]) -> Answer {
    exchange(server, "POST", path, BATCH, body)
}

#[test]
fn a_foreign_address_is_refused() {
    let folder = folder();
    let data = path(folder.path());
    refused(&run(&["serve", "--listen", "0.0.0.0:0", "--data", data]), 1, &["not a loopback address"]);
}

#[test]
fn a_second_server_on_the_same_directory_is_refused() {
    let folder = folder();
    let _server = Server::start(folder.path(), any_port());
    let second = run(&["serve", "--listen", "127.0.0.1:0", "--data", path(folder.path())]);
    let expected = format!("another holdfast serves from {}", folder.path().display());
    // Two writers on one log.
    refused(&second, 1, &["holdfast:", &expected]);
}

#[test]
fn a_payment_is_seen_in_every_view() {
    let (folder, server) = fresh_hub();
    let soon = now() + 60_000;
    let payment = |id| Payment { id, payer: 1, payee: 2, amount: 125_000, expiration: soon };
    on_runtime(async {
        let client = client(&server).await;
        set_up(&client, 2, Amount(1_000_000), Amount(1_000_000)).await;
        assert_eq!(client.prepare(payment(1).prepare()).await.unwrap().state, Some(S::Reserved));
        assert_eq!(client.fulfil(payment(1).fulfil()).await.unwrap().state, Some(S::Committed));
        assert_eq!(client.prepare(payment(2).prepare()).await.unwrap().state, Some(S::Reserved));
    });
    let id = |number: u128| holdfast_domain::ids::TransferId(number).to_string();
    let committed = get(&server, &format!("/hub/transfers/{}", id(1)));
    assert_eq!(committed.status, 200);
    let committed = committed.json();
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
    let holds = get(&server, "/hub/holds?limit=1").json();
    assert_eq!(holds["holds"][0]["transferId"], id(2));
    let next = get(&server, &format!("/hub/holds?after={}", holds["next"].as_str().unwrap())).json();
    assert_eq!(next["holds"], json!([]));
    let stats = get(&server, "/hub/stats").json();
    assert_eq!((&stats["transfers"], &stats["openHolds"]), (&json!(2), &json!(1)));
    assert_eq!(stats["nextExpiration"], holds["holds"][0]["expiration"], "to the millisecond");
    for limit in [0, 1_001, 5_000] {
        get(&server, &format!("/hub/holds?limit={limit}")).is_refused(400, "3101");
    }
    assert_eq!(get(&server, "/health").status, 200);
    assert_eq!(get(&server, &format!("/hub/transfers/{}", id(9))).status, 404);
    assert_eq!(get(&server, "/nowhere").status, 404);
    assert_eq!(post(&server, "/hub/stats", b"").status, 405);

    let data = path(folder.path());
    let topics = done(&run(&["log", "topics", "--data", data]));
    let count = |topic: &str| {
        topics.lines().find_map(|line| line.strip_prefix(topic)).map(|rest| rest.trim().to_owned())
    };
    assert_eq!(
        [count("transfers"), count("position"), count("notifications")],
        [Some("3".to_owned()), Some("3".to_owned()), Some("3".to_owned())]
    );
    let lines = json_lines(&run(&["log", "read", "transfers", "--data", data]));
    let actions: Vec<_> = lines.iter().map(|line| line["action"].clone()).collect();
    assert_eq!(json!(actions), json!(["prepare", "commit", "prepare"]));
    let from = lines[1]["offset"].to_string();
    let rest = run(&["log", "read", "transfers", "--from", &from, "--count", "1", "--data", data]);
    assert_eq!(json_lines(&rest).len(), 1);
    // Derived messages have the offset of their frame, and the bound is on what is printed.
    let offsets = |from: &str| -> Vec<u64> {
        let lines = json_lines(&run(&["log", "read", "position", "--from", from, "--data", data]));
        lines.iter().map(|line| line["offset"].as_u64().expect("an offset")).collect()
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
    let (folder, server) = fresh_hub();
    let soon = now() + 60_000;
    let payment = |id, amount| Payment { id, payer: 1, payee: 2, amount, expiration: soon };
    on_runtime(async {
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
        get(&server, &format!("/hub/transfers/{id}")).json()["errorInformation"].clone()
    };
    assert_eq!(error(1), json!({"errorCode": "5104", "errorDescription": "the payee's own code"}));
    let wrong = "Generic validation error - the fulfilment does not match the condition";
    assert_eq!(error(2), json!({"errorCode": "3100", "errorDescription": wrong}));
    assert_eq!(error(3), json!({"errorCode": "4200", "errorDescription": "Payer limit error"}));
    let data = path(folder.path());
    let lines = json_lines(&run(&["log", "read", "notifications", "--data", data]));
    let told: Vec<_> = lines.iter().map(|line| (line["tells"].clone(), line["error"].clone())).collect();
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
    let data = path(folder.path());
    for command in [&["verify", "--output", "json"][..], &["log", "topics"], &["log", "read", "position"]] {
        let output = run(&[command, &["--data", data]].concat());
        refused(&output, 2, &[&format!("there is no Holdfast data in {data}; name it with --data")]);
        assert_eq!(output.stdout, b"");
    }
    let server = Server::start(folder.path(), any_port());
    participants(&server, 2, Amount(10), Amount(1_000));
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
    assert_says(&done(&run(&["verify", "--data", data])), &["an unfinished or rotten last write"]);
    // One in the middle: others after it prove that it had been acknowledged.
    file.write_all_at(&[0xff; 8], 4_096 * 2 + 100).unwrap();
    let output = run(&["verify", "--output", "json", "--data", data]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &answer["good"]), (Some(1), &json!(false)));
    assert!(answer["findings"][0].as_str().unwrap().contains("the log is damaged"), "{answer}");
}

#[test]
fn an_address_that_is_none_is_explained() {
    refused(&run(&["serve", "--listen", "4000"]), 2, &["such as 127.0.0.1:4000"]);
}

#[test]
fn the_tail_of_the_log_shows_what_becomes_durable() {
    use std::io::BufRead;
    let (folder, server) = fresh_hub();
    let mut tail = binary()
        .args(["log", "tail", "transfers", "--from", "0", "--data"])
        .arg(folder.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(tail.stdout.take().unwrap()).lines();
    on_runtime(async {
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
    let (_folder, server) = fresh_hub();
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
        let answer = post(&server, "/hub/batch", &body);
        assert_eq!(answer.refusal(), (status, code.to_owned()), "{what}: {answer:?}");
    }
    // It is refused for what it announces. Whoever sends it all the same may be cut off in the middle.
    let announced = head("POST", "/hub/batch", BATCH, 1_100_000);
    on_the_wire(&server, announced.as_bytes(), false).is_refused(400, "3104");
    // A bad record at the end: the good ones before it are not stored either.
    let answer = post(&server, "/hub/batch", &batch_of(2, &[prepare.clone(), with(0, 77)].concat()));
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("record 1"), "the reason names the record: {answer:?}");
    // A body that breaks off, and one that never comes.
    let beginning = [head("POST", "/hub/batch", "", 500).as_bytes(), b"HFBQ"].concat();
    on_the_wire(&server, &beginning, true);
    on_the_wire(&server, b"\x00\xff\x00 not http at all\r\n\r\n", true);
    let stats = get(&server, "/hub/stats").json();
    assert_eq!((&stats["transfers"], &stats["log"]["records"]), (&json!(0), &json!(0)));
    assert_eq!(post(&server, "/hub/batch", &batch_of(0, &[])).status, 200, "an empty batch is fine");
    server.stop();
}
