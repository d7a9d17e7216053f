//! Callbacks with real callback servers: who is told what and in which order, by good servers and bad ones, and what a
//! kill -9 does to it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use holdfast_domain::money::Amount;
use serde_json::{Value, json};

use crate::support::fspiop::{ACCEPT_1, CONTENT_TYPE_1_0, CONTENT_TYPE_1_1, Payment};
use crate::support::http::{Answer, figure, get, send};
use crate::support::server::{Server, any_port, folder};
use crate::support::sink::{Manner, Received, Sink};
use crate::support::wait::await_that;
use crate::support::world::{now, participants};

/// A hub that tries quickly and gives up soon.
fn start(data: &Path, listen: SocketAddr) -> Server {
    let mut command = Server::command(data, listen);
    command.env("HOLDFAST_CALLBACKS_ATTEMPTS_MAX", "4").env("HOLDFAST_CALLBACKS_TIMEOUT_MS", "2000");
    command.env("HOLDFAST_CALLBACKS_PAUSE_MIN_MS", "5").env("HOLDFAST_CALLBACKS_PAUSE_MAX_MS", "40");
    Server::launch(&mut command)
}

fn post(server: &Server, path: &str, body: &Value) -> Answer {
    send(server, "POST", path, &body.to_string())
}

fn set_endpoint(server: &Server, name: &str, kind: &str, value: &str) {
    let set =
        post(server, &format!("/participants/{name}/endpoints"), &json!({"type": kind, "value": value}));
    assert_eq!(set.status, 201, "{set:?}");
}

pub(crate) fn call_at(server: &Server, name: &str, address: SocketAddr) {
    for (kind, path) in [
        ("POST", "/x/transfers"),
        ("PUT", "/x/transfers/{{transferId}}"),
        ("ERROR", "/x/transfers/{{ transferId }}/error"),
    ] {
        let kind = format!("FSPIOP_CALLBACK_URL_TRANSFER_{kind}");
        set_endpoint(server, name, &kind, &format!("http://{address}{path}"));
    }
}

/// Three participants that may owe 50 and have funds of 100; the first two have callback servers that behave.
pub(crate) struct World {
    pub(crate) _folder: tempfile::TempDir,
    pub(crate) server: Server,
    pub(crate) payer: Sink,
    pub(crate) payee: Sink,
}

pub(crate) fn world() -> World {
    let folder = folder();
    let server = start(folder.path(), any_port());
    participants(&server, 3, Amount(500_000), Amount(1_000_000));
    let (payer, payee) = (Sink::new(Manner::Good), Sink::new(Manner::Good));
    call_at(&server, "fsp1", payer.address);
    call_at(&server, "fsp2", payee.address);
    World { _folder: folder, server, payer, payee }
}

fn whats(received: &[Received]) -> Vec<String> {
    received.iter().map(Received::what).collect()
}

fn by_hub(received: &Received, receiver: &str, method: &str, uri: &str) {
    let header = |name| received.header(name).unwrap_or("none");
    assert_eq!(header("FSPIOP-Source"), "Hub");
    assert_eq!(header("FSPIOP-Destination"), receiver);
    assert_eq!((header("FSPIOP-HTTP-Method"), header("FSPIOP-URI")), (method, uri));
    assert_eq!(header("Content-Type"), CONTENT_TYPE_1_1);
    assert!(header("Date").ends_with(" GMT"), "{}", header("Date"));
    assert_eq!(received.header("Accept"), None);
}

fn letters(server: &Server, query: &str) -> Vec<Value> {
    let page = get(server, &format!("/hub/dead-letters{query}"));
    assert_eq!(page.status, 200, "{page:?}");
    page.json()["deadLetters"].as_array().unwrap().clone()
}

fn wait_for_letters(server: &Server, count: usize) -> Vec<Value> {
    await_that("so many dead letters", || letters(server, ""), |letters| letters.len() == count)
}

#[test]
fn a_commit_is_forwarded_byte_for_byte_in_both_directions() {
    let World { _folder, server, payer, payee } = world();
    let payment = Payment::new(1, "5");
    // Spaces, an unknown field and an unknown header: nothing of it is the hub's business.
    let prepared = format!("{} \n", payment.body).replace("\"payeeFsp\"", " \"unknown\":1.50,\"payeeFsp\"");
    let message = payment.post().saying(prepared.clone()).with("Content-Type", CONTENT_TYPE_1_0);
    let message = message.and("FSPIOP-Destination", "FSP2").and("traceparent", "00-1-2-3");
    assert_eq!(message.and("Authorization", "Bearer x").send(&server).status, 202);
    let received = &payee.wait_for(1)[0];
    assert_eq!(received.what(), "POST /x/transfers");
    assert_eq!(received.body, prepared.as_bytes());
    for (name, value) in [
        ("Content-Type", Some(CONTENT_TYPE_1_0)),
        ("Accept", Some(ACCEPT_1)),
        ("Date", Some("Sat, 15 Nov 2025 08:24:36 GMT")),
        ("FSPIOP-Source", Some("fsp1")),
        ("FSPIOP-Destination", Some("FSP2")),
        ("traceparent", Some("00-1-2-3")),
        ("Authorization", None),
        ("Host", Some(payee.address.to_string().as_str())),
    ] {
        assert_eq!(received.header(name), value, "{name}");
    }

    let fulfilled =
        format!("{{ \"transferState\":\"COMMITTED\",\"fulfilment\":\"{}\"}}", payment.fulfilment());
    let message = payment.put("COMMITTED").saying(fulfilled.clone()).and("Accept", "*/*");
    assert_eq!(message.send(&server).status, 200);
    let received = &payer.wait_for(1)[0];
    assert_eq!(received.what(), format!("PUT /x/transfers/{}", payment.id));
    assert_eq!(received.body, fulfilled.as_bytes());
    assert_eq!(received.header("FSPIOP-Source"), Some("fsp2"));
    assert_eq!(received.header("Accept"), None);

    // Asked again, the hub answers in its own name.
    assert_eq!(payment.get().send(&server).status, 202);
    let received = &payer.wait_for(2)[1];
    by_hub(received, "fsp1", "PUT", &format!("/transfers/{}", payment.id));
    assert_eq!(received.json()["transferState"], "COMMITTED");
    assert_eq!(received.json()["fulfilment"], payment.fulfilment());
    assert_eq!(payee.received().len(), 1, "a payee that said COMMITTED hears no more");
    server.stop();
}

#[test]
fn a_payee_that_says_reserved_is_told_by_patch() {
    let World { _folder, server, payer, payee } = world();
    let payment = Payment::new(1, "5");
    payment.post().send(&server);
    payee.wait_for(1);
    payment.put("RESERVED").send(&server);
    let (put, patch) = (&payer.wait_for(1)[0], &payee.wait_for(2)[1]);
    let uri = format!("/transfers/{}", payment.id);
    by_hub(put, "fsp1", "PUT", &uri);
    assert_eq!(put.what(), format!("PUT /x{uri}"));
    assert_eq!(put.json()["fulfilment"], payment.fulfilment());
    by_hub(patch, "fsp2", "PATCH", &uri);
    assert_eq!(patch.what(), format!("PATCH /x{uri}"));
    let completed = put.json()["completedTimestamp"].clone();
    assert_eq!(patch.json(), json!({"completedTimestamp": completed, "transferState": "COMMITTED"}));
    // A payee that missed it repeats its PUT.
    payment.put("RESERVED").send(&server);
    assert_eq!(payee.wait_for(3)[2].json(), patch.json());
    server.stop();
}

#[test]
fn refusals_errors_and_expiry_reach_whom_they_concern() {
    let World { _folder, server, payer, payee } = world();
    Payment::new(1, "500").post().send(&server);
    let refused = &payer.wait_for(1)[0];
    by_hub(refused, "fsp1", "PUT", &format!("/transfers/{}/error", Payment::new(1, "500").id));
    assert_eq!(refused.json()["errorInformation"]["errorCode"], "4001");
    assert_eq!(payee.received(), []);

    let rejected = Payment::new(2, "5");
    rejected.post().send(&server);
    payee.wait_for(1);
    let error = rejected.put_error("5104");
    error.send(&server);
    let forwarded = &payer.wait_for(2)[1];
    assert_eq!(forwarded.what(), format!("PUT /x/transfers/{}/error", rejected.id));
    assert_eq!(forwarded.body, error.body());
    assert_eq!(forwarded.header("FSPIOP-Source"), Some("fsp2"));

    let expiring = Payment::until(3, "5", now() + 1_500);
    expiring.post().send(&server);
    for (sink, receiver, count) in [(&payer, "fsp1", 3), (&payee, "fsp2", 3)] {
        let expired = &sink.wait_for(count)[count - 1];
        by_hub(expired, receiver, "PUT", &format!("/transfers/{}/error", expiring.id));
        assert_eq!(
            expired.json(),
            json!({"errorInformation": {"errorCode": "3303", "errorDescription": "Transfer expired"}})
        );
    }
    server.stop();
}

#[test]
fn callbacks_of_a_transfer_come_in_order_though_some_fail() {
    let World { _folder, server, payer, payee } = world();
    let payments: Vec<Payment> = (1..=8).map(|number| Payment::new(number, "1")).collect();
    payer.behave(Manner::FailFirst(6, 503));
    payee.behave(Manner::FailFirst(3, 500));
    for payment in &payments {
        assert_eq!(payment.post().send(&server).status, 202);
        payment.get().send(&server);
    }
    for payment in &payments {
        payment.put("COMMITTED").send(&server);
    }
    let good = |received: &[Received]| received.iter().filter(|one| one.acknowledged).count();
    let received = payer.wait("all acknowledged", |received| good(received) >= 16);
    for payment in &payments {
        let about = received.iter().filter(|one| one.path.ends_with(&payment.id) && one.acknowledged);
        let states: Vec<Value> = about.map(|one| one.json()["transferState"].clone()).collect();
        assert_eq!(states, ["RESERVED", "COMMITTED"], "{}", payment.id);
    }
    assert_eq!(received.len(), 16 + 6, "each failure costs one repeat");
    payee.wait("all prepares", |received| good(received) == 8);
    server.stop();
}

#[test]
fn a_participant_that_hangs_or_is_gone_delays_nobody() {
    let World { _folder, server, payer, payee } = world();
    let hanging = Sink::new(Manner::Hang);
    call_at(&server, "fsp3", hanging.address);
    call_at(&server, "fsp1", Sink::nowhere());
    for number in 0..120 {
        let (payee, number) = (if number % 2 == 0 { "fsp2" } else { "fsp3" }, number);
        Payment::new(number, "0.1").with("payeeFsp", json!(payee)).post().send(&server);
    }
    let started = Instant::now();
    payee.wait_for(60);
    // Half of them hang for 2 s each, 32 at a time: whoever waited for them would see it.
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert!(hanging.received().len() <= 64, "so many at once: {}", hanging.received().len());
    assert_eq!(payer.received(), []);
    server.stop();
}

#[test]
fn after_the_last_attempt_there_is_a_dead_letter_and_a_retry_delivers_it() {
    let World { _folder: folder, server, payer, payee } = world();
    let nowhere = Sink::nowhere();
    call_at(&server, "fsp2", nowhere);
    let payment = Payment::new(1, "5");
    payment.post().send(&server);
    let letter = &wait_for_letters(&server, 1)[0];
    assert_eq!(letter["participant"], "fsp2");
    assert_eq!(letter["transferId"], payment.id);
    assert_eq!(letter["what"], "POST /transfers");
    assert_eq!(letter["url"], format!("http://{nowhere}/x/transfers"));
    assert_eq!((&letter["attempts"], &letter["retrying"]), (&json!(4), &json!(false)));
    let why = letter["lastError"].as_str().unwrap();
    assert!(why.contains("cannot connect"), "{why}");
    assert_eq!(letters(&server, "?participant=fsp1"), [] as [Value; 0]);
    assert_eq!(letters(&server, "?participant=FSP2&limit=5").len(), 1);

    // It survives a kill; an address that was put right is used at once.
    let address = server.address;
    server.kill();
    let server = start(folder.path(), address);
    assert_eq!(wait_for_letters(&server, 1)[0], *letter);
    call_at(&server, "fsp2", payee.address);
    let number = letter["number"].to_string();
    assert_eq!(post(&server, &format!("/hub/dead-letters/{number}/retry"), &Value::Null).status, 202);
    let received = &payee.wait_for(1)[0];
    assert_eq!(received.body, payment.post().body());
    wait_for_letters(&server, 0);
    for (path, status) in
        [(format!("/hub/dead-letters/{number}/retry"), 404), ("/hub/dead-letters/x/retry".to_owned(), 400)]
    {
        assert_eq!(post(&server, &path, &Value::Null).status, status, "{path}");
    }

    // All of them at once.
    payer.behave(Manner::Status(500));
    for number in 10..15 {
        Payment::new(number, "500").post().send(&server);
    }
    wait_for_letters(&server, 5);
    payer.behave(Manner::Good);
    let retried = post(&server, "/hub/dead-letters/retry?participant=fsp1", &Value::Null);
    assert_eq!((retried.status, retried.json()), (202, json!({"retried": 5, "more": false})));
    wait_for_letters(&server, 0);
    assert_eq!(post(&server, "/hub/dead-letters/retry?participant=nobody", &Value::Null).status, 400);
    assert_eq!(figure(&server, "holdfast_callbacks_dead_total"), Some(5));
    server.stop();
}

#[test]
fn servers_that_redirect_lie_or_close_are_borne() {
    let World { _folder, server, payer: _, payee } = world();
    for (number, manner, why) in [
        (1, Manner::Redirect, "307"),
        (2, Manner::Garbage, "no answer"),
        (3, Manner::Status(404), "404"),
        (4, Manner::Hang, "no answer within 2s"),
    ] {
        payee.behave(manner);
        Payment::new(number, "1").post().send(&server);
        let letters = wait_for_letters(&server, number as usize);
        let last = letters.last().unwrap()["lastError"].as_str().unwrap().to_owned();
        assert!(last.contains(why), "{manner:?}: {last}");
    }
    assert!(payee.received().iter().all(|one| one.path == "/x/transfers"), "nobody follows a redirection");
    // A status of 200 acknowledges, whatever comes after it.
    for (number, manner) in [(5, Manner::EndlessBody), (6, Manner::CloseAfter), (7, Manner::Good)] {
        let before = payee.received().len();
        payee.behave(manner);
        for again in 0..3 {
            Payment::new(100 * again + number, "1").post().send(&server);
        }
        payee.wait_for(before + 3);
    }
    let acknowledged: Vec<_> = payee.received().into_iter().filter(|one| one.acknowledged).collect();
    let ids: BTreeSet<Vec<u8>> = acknowledged.iter().map(|one| one.body.clone()).collect();
    assert_eq!((acknowledged.len(), ids.len()), (9, 9), "each came once");
    assert_eq!(letters(&server, "").len(), 4);
    server.stop();
}

#[test]
fn a_server_that_comes_back_gets_what_it_missed() {
    let World { _folder, server, payer: _, payee: _ } = world();
    let address = Sink::nowhere();
    call_at(&server, "fsp2", address);
    for number in 0..20 {
        Payment::new(number, "0.1").post().send(&server);
    }
    let back = Sink::on(address, Manner::Good);
    let delivered = |received: &[Received]| received.len() + letters(&server, "").len() >= 20;
    back.wait("each delivered or a dead letter", delivered);
    post(&server, "/hub/dead-letters/retry", &Value::Null);
    let received = back.wait_for(20);
    let ids: BTreeSet<String> = received.iter().map(|one| one.json()["transferId"].to_string()).collect();
    assert_eq!(ids.len(), 20);
    server.stop();
}

#[test]
fn kill_nine_in_the_middle_loses_nothing_and_repeats_only_what_was_under_way() {
    const PAYMENTS: u32 = 240;
    const KILLS: usize = 3;
    /// Requests to one participant at once.
    const IN_FLIGHT: usize = 32;
    let World { _folder: folder, server, payer, payee } = world();
    let address = server.address;
    let mut server = Some(server);
    let mut sent = 0;
    let payments: Vec<Payment> = (0..PAYMENTS).map(|number| Payment::new(number, "0.1")).collect();
    for kill in 1..=KILLS {
        let running = server.take().unwrap();
        let until = PAYMENTS as usize * kill / KILLS;
        for payment in &payments[sent..until] {
            assert_eq!(payment.post().send(&running).status, 202);
            assert_eq!(payment.put("RESERVED").send(&running).status, 200);
        }
        sent = until;
        running.kill();
        server = Some(start(folder.path(), address));
    }
    // Everybody was told everything: the payee a POST and a PATCH, the payer a PUT, for every transfer.
    let count_of = |received: &[Received]| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for one in received {
            let id = one.json()["transferId"].as_str().map(str::to_owned);
            let id = id.unwrap_or_else(|| one.path.rsplit('/').next().unwrap_or_default().to_owned());
            *counts.entry(format!("{} {id}", one.method)).or_default() += 1;
        }
        counts
    };
    for (sink, messages) in [(&payee, 2), (&payer, 1)] {
        let all = PAYMENTS as usize * messages;
        let received = sink.wait("every message", |received| count_of(received).len() == all);
        let repeats = received.len() - all;
        assert!(repeats <= KILLS * IN_FLIGHT, "{repeats} repeats");
        for payment in &payments {
            let about = whats(&received).into_iter().zip(&received).filter(|(_, one)| {
                one.path.ends_with(&payment.id) || one.json()["transferId"] == payment.id.as_str()
            });
            let methods: Vec<&str> = about.map(|(_, one)| one.method.as_str()).collect();
            let first_patch = methods.iter().position(|method| *method == "PATCH");
            let last_post = methods.iter().rposition(|method| *method == "POST");
            assert!(messages == 1 || last_post < first_patch, "{}: {methods:?}", payment.id);
        }
    }
    // A clean stop leaves nothing open: the next start repeats nothing.
    let before = (payer.received().len(), payee.received().len());
    server.take().unwrap().stop();
    let server = start(folder.path(), address);
    let probe = Payment::new(PAYMENTS, "0.1");
    probe.post().send(&server);
    payee.wait("the probe", |received| {
        received.iter().any(|one| one.json()["transferId"] == probe.id.as_str())
    });
    assert_eq!((payer.received().len(), payee.received().len()), (before.0, before.1 + 1));
    server.stop();
}

#[test]
fn limit_alarms_are_delivered_to_the_participant_or_to_the_hub() {
    let World { _folder, server, payer: _, payee: _ } = world();
    let (hub, own) = (Sink::new(Manner::Good), Sink::new(Manner::FailFirst(2, 500)));
    set_endpoint(&server, "Hub", "ALARM_NOTIFICATION_URL", &format!("http://{}/alarms", hub.address));
    // The default percentage is 10 of a cap of 50.
    Payment::new(1, "6").post().send(&server);
    let alarm = &hub.wait_for(1)[0];
    assert_eq!(alarm.what(), "POST /alarms");
    let at = alarm.json()["at"].clone();
    assert_eq!(
        alarm.json(),
        json!({"participant": "fsp1", "currency": "USD", "position": "6", "netDebitCap": "50", "alarmPercentage": 10, "at": at})
    );
    assert_eq!(alarm.header("Content-Type"), Some("application/json"));
    assert_eq!(alarm.header("Accept"), None);

    set_endpoint(&server, "fsp3", "ALARM_NOTIFICATION_URL", &format!("http://{}/mine", own.address));
    let payment = Payment::new(2, "20").with("payerFsp", json!("fsp3"));
    payment.post().from("fsp3").send(&server);
    let alarms = own.wait_for(3);
    assert!(alarms[2].acknowledged && alarms[2].json()["participant"] == "fsp3");
    assert_eq!(hub.received().len(), 1);
    server.stop();
}
