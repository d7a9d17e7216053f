//! Transfers that tokens pay for, through the binary: the wallet's tokens are held, paid out with change, or given back.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use holdfast_domain::money::Amount;
use serde_json::json;

use crate::support::fspiop::{Payment, stored, wait_for_state};
use crate::support::funding::{ask, funded, funded_until, is, issue, told, wallet};
use crate::support::http::exchange;
use crate::support::server::{Server, any_port, fresh_hub, run};
use crate::support::world::{now, participants};

/// Two participants with no room at all on their positions, and alice with tokens of 60 and 40.
fn world() -> (tempfile::TempDir, Server) {
    let (folder, server) = fresh_hub();
    participants(&server, 2, Amount(1), Amount(1));
    issue(&server, &[("a60", "alice", 60), ("a40", "alice", 40)]);
    (folder, server)
}

#[test]
fn a_commit_moves_exactly_the_amount_and_gives_change_back() {
    let (folder, server) = world();
    let payment = funded(1, "70");
    assert_eq!(told(&payment.post().waiting().send(&server)), is("RESERVED", ""));
    assert_eq!((wallet(&server, "alice"), wallet(&server, "bob")), ((100, 100), (0, 0)));
    let locks = exchange(&server, "GET", &format!("/tokens/locks?spender={}", payment.id), "", b"");
    assert!(locks.body.contains("a60") && locks.body.contains("a40"), "{locks:?}");
    assert_eq!(told(&payment.put("COMMITTED").waiting().send(&server)), is("COMMITTED", ""));
    assert_eq!((wallet(&server, "alice"), wallet(&server, "bob")), ((30, 0), (70, 0)));
    // A repeat, by either side, changes nothing and gets the stored answer.
    let records = stored(&server).1;
    for again in [payment.post(), payment.put("COMMITTED"), payment.get()] {
        assert_eq!(told(&again.waiting().send(&server)), is("COMMITTED", ""));
    }
    assert_eq!(
        told(
            &payment.post().but("amount", json!({"currency": "USD", "amount": "10"})).waiting().send(&server)
        )
        .1,
        "3106"
    );
    assert_eq!(
        (wallet(&server, "alice"), wallet(&server, "bob"), stored(&server).1),
        ((30, 0), (70, 0), records)
    );
    // What was paid can be paid on, and the change can be spent.
    assert_eq!(told(&funded(2, "30").post().waiting().send(&server)), is("RESERVED", ""));
    let shown = exchange(&server, "GET", &format!("/hub/transfers/{}", payment.id), "", b"").json();
    assert_eq!((&shown["positionChanges"], &shown["amount"]), (&json!([]), &json!("70")));
    let positions = exchange(&server, "GET", "/participants/fsp1/positions?currency=USD", "", b"");
    assert!(positions.body.contains("\"value\":0"), "{positions:?}");
    server.stop_and_verify(folder.path());
    let data = folder.path().to_str().unwrap();
    let why = run(&["transfers", "why", &payment.id, "--data", data]);
    assert!(why.status.success(), "{}", String::from_utf8_lossy(&why.stderr));
}

#[test]
fn whatever_else_ends_it_gives_the_tokens_back() {
    let (folder, server) = world();
    let aborted = funded(1, "70");
    assert_eq!(told(&aborted.post().waiting().send(&server)), is("RESERVED", ""));
    assert_eq!(told(&aborted.put_error("5104").waiting().send(&server)), is("ABORTED_ERROR", "5104"));
    assert_eq!(wallet(&server, "alice"), (100, 0));
    let wrong = funded(2, "70");
    assert_eq!(told(&wrong.post().waiting().send(&server)), is("RESERVED", ""));
    let guess = json!(Payment::new(99, "1").fulfilment());
    assert_eq!(
        told(&wrong.put("COMMITTED").but("fulfilment", guess).waiting().send(&server)),
        is("ABORTED_ERROR", "3100")
    );
    assert_eq!(wallet(&server, "alice"), (100, 0));
    let expiring = funded_until(3, "70", now() + 1_500);
    assert_eq!(told(&expiring.post().waiting().send(&server)), is("RESERVED", ""));
    assert_eq!(wallet(&server, "alice"), (100, 100));
    wait_for_state(&server, &expiring, "EXPIRED_RESERVED");
    assert_eq!((wallet(&server, "alice"), wallet(&server, "bob")), ((100, 0), (0, 0)));
    assert_eq!(told(&expiring.post().waiting().send(&server)), is("EXPIRED_RESERVED", "3303"), "a repeat");
    assert_eq!(wallet(&server, "alice"), (100, 0), "and it locks nothing");
    server.stop_and_verify(folder.path());
}

#[test]
fn refusals_are_decided_and_stored() {
    let (folder, server) = world();
    let refused = [
        ("100.5", "INVALID", "3100"),
        ("0.0001", "INVALID", "3100"),
        ("0", "INVALID", "3100"),
        ("101", "ABORTED_REJECTED", "4001"),
        ("99999999999999", "ABORTED_REJECTED", "4001"),
    ];
    for (number, (amount, state, code)) in (1..).zip(refused) {
        let payment = funded(number, amount);
        for _ in 0..2 {
            assert_eq!(told(&payment.post().waiting().send(&server)), is(state, code), "{amount}");
        }
        assert_eq!(told(&payment.get().waiting().send(&server)).0, state);
        assert_eq!(wallet(&server, "alice"), (100, 0), "{amount}");
    }
    // All of it is held: the next one finds none.
    assert_eq!(told(&funded(10, "100").post().waiting().send(&server)), is("RESERVED", ""));
    assert_eq!(told(&funded(11, "1").post().waiting().send(&server)), is("ABORTED_REJECTED", "4001"));
    // Nobody but the transfer ends its hold.
    let id = funded(10, "100").id;
    assert_eq!(ask(&server, "DELETE", &format!("/tokens/locks/{id}"), &json!({})).status, 409);
    let spend = json!({"spender": id, "outputs": [{"wallet": "eve", "quantity": "1"}]});
    assert_eq!(ask(&server, "POST", "/tokens/spend", &spend).status, 409);
    assert_eq!(wallet(&server, "alice"), (100, 100));
    // One wallet is none: refused before anything is stored.
    let before = stored(&server);
    for key in ["holdfast.payerWallet", "holdfast.payeeWallet"] {
        let one = json!({"extension": [{"key": key, "value": "alice"}]});
        let answer = Payment::new(20, "1").with("extensionList", one).post().waiting().send(&server);
        answer.is_refused(400, "3100");
    }
    assert_eq!(stored(&server), before);
    server.stop_and_verify(folder.path());
}

#[test]
fn a_hold_survives_kill_nine() {
    let (folder, server) = world();
    let (committed, aborted) = (funded(1, "55"), funded(2, "40"));
    for payment in [&committed, &aborted] {
        assert_eq!(told(&payment.post().waiting().send(&server)), is("RESERVED", ""));
    }
    server.kill();
    let server = Server::start(folder.path(), any_port());
    assert_eq!(wallet(&server, "alice"), (100, 100));
    assert_eq!(
        told(&committed.post().waiting().send(&server)),
        is("RESERVED", ""),
        "the repeat of a caller in doubt"
    );
    assert_eq!(told(&funded(3, "1").post().waiting().send(&server)), is("ABORTED_REJECTED", "4001"));
    assert_eq!(told(&committed.put("COMMITTED").waiting().send(&server)), is("COMMITTED", ""));
    assert_eq!(told(&aborted.put_error("5104").waiting().send(&server)), is("ABORTED_ERROR", "5104"));
    assert_eq!((wallet(&server, "alice"), wallet(&server, "bob")), ((45, 0), (55, 0)));
    // A clean stop leaves a checkpoint; a hold is found in it, too.
    let held = funded(4, "45");
    assert_eq!(told(&held.post().waiting().send(&server)), is("RESERVED", ""));
    server.stop();
    let server = Server::start(folder.path(), any_port());
    assert_eq!(wallet(&server, "alice"), (45, 45));
    assert_eq!(told(&held.put("COMMITTED").waiting().send(&server)), is("COMMITTED", ""));
    assert_eq!((wallet(&server, "alice"), wallet(&server, "bob")), ((0, 0), (100, 0)));
    server.stop_and_verify(folder.path());
}

#[test]
fn many_at_once_hold_each_token_once() {
    let (folder, server) = world();
    let extra: Vec<String> = (0..10).map(|number| format!("x{number}")).collect();
    let tokens: Vec<(&str, &str, u64)> = extra.iter().map(|id| (id.as_str(), "alice", 10)).collect();
    issue(&server, &tokens);
    // 200 in all: 25 payments of 10 want more than there is. Each is sent twice at once.
    let (barrier, expiration) = (Barrier::new(50), now() + 600_000);
    let answers: Vec<(u32, (String, String))> = std::thread::scope(|scope| {
        let sent: Vec<_> = (0..50_u32)
            .map(|caller| {
                let payment = funded_until(1 + caller / 2, "10", expiration);
                let (server, barrier) = (&server, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    (1 + caller / 2, told(&payment.post().waiting().send(server)))
                })
            })
            .collect();
        sent.into_iter().map(|sent| sent.join().unwrap()).collect()
    });
    let mut reserved = std::collections::BTreeSet::new();
    for (number, answer) in &answers {
        let other = answers.iter().find(|(again, other)| again == number && other != answer);
        assert_eq!(other, None, "both callers of one transfer get the same answer");
        match (answer.0.as_str(), answer.1.as_str()) {
            ("RESERVED", "") => reserved.extend([*number]),
            ("ABORTED_REJECTED", "4001") => {}
            other => panic!("{number}: {other:?}"),
        }
    }
    // Each token pays for one.
    assert_eq!((reserved.len(), wallet(&server, "alice")), (12, (200, 200)), "{reserved:?}");
    for number in &reserved {
        assert_eq!(
            told(&funded(*number, "10").put_error("5104").waiting().send(&server)),
            is("ABORTED_ERROR", "5104")
        );
    }
    assert_eq!(wallet(&server, "alice"), (200, 0), "no claim is left behind");
    // Repeats of one that is not even tried for its tokens: each finds the claim of another on its way, and none waits for ever.
    let barrier = Barrier::new(20);
    let nowhere = funded(99, "200").with("payeeFsp", json!("nobody"));
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                barrier.wait();
                assert_eq!(told(&nowhere.post().waiting().send(&server)), is("INVALID", "3100"));
            });
        }
    });
    assert_eq!(wallet(&server, "alice"), (200, 0));
    server.stop_and_verify(folder.path());
}

#[test]
fn an_asker_who_hangs_up_leaves_no_claim() {
    let (_folder, server) = world();
    for number in 0..40_u32 {
        // Rejected for its payee, so that nothing but a forgotten claim could keep the tokens.
        let payment = funded(100 + number, "70").with("payeeFsp", json!("nobody"));
        let message = payment.post();
        let body = message.body();
        let head = format!(
            "POST /transfers HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{}\r\n",
            body.len(),
            message.header_lines()
        );
        let mut stream = std::net::TcpStream::connect(server.address).unwrap();
        std::io::Write::write_all(&mut stream, &[head.as_bytes(), body].concat()).unwrap();
        drop(stream);
    }
    // The last ones may still be on their way; a claim that is forgotten stays for ever.
    let deadline = Instant::now() + Duration::from_secs(20);
    for number in 1.. {
        match told(&funded(number, "100").post().waiting().send(&server)).0.as_str() {
            "RESERVED" => return,
            state => assert_eq!(state, "ABORTED_REJECTED"),
        }
        assert!(Instant::now() < deadline, "tokens stay claimed: {:?}", wallet(&server, "alice"));
    }
}
