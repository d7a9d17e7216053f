//! Transfers that tokens pay for, through the binary: the wallet's tokens are held, paid out with change, or given back.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use holdfast_domain::money::Amount;
use serde_json::json;

use crate::support::command::done;
use crate::support::fspiop::{Payment, stored, wait_for_state};
use crate::support::funding::{ask, funded, funded_until, is_told, issue, pay_twice_at_once, told, wallet};
use crate::support::http::{get, head};
use crate::support::server::{Server, any_port, fresh_hub, path, run};
use crate::support::world::{now, participants};

/// Two participants with no room at all on their positions, and alice with tokens of 60 and 40.
fn world() -> (tempfile::TempDir, Server) {
    let (folder, server) = fresh_hub();
    participants(&server, 2, Amount(1), Amount(1));
    issue(&server, &[("a60", "alice", 60), ("a40", "alice", 40)]);
    (folder, server)
}

/// What alice and bob have, and what of it is locked.
fn wallets(server: &Server) -> ((u64, u64), (u64, u64)) {
    (wallet(server, "alice"), wallet(server, "bob"))
}

#[test]
fn a_commit_moves_exactly_the_amount_and_gives_change_back() {
    let (folder, server) = world();
    let payment = funded(1, "70");
    is_told(&server, payment.post(), "RESERVED", "");
    assert_eq!(wallets(&server), ((100, 100), (0, 0)));
    let locks = get(&server, &format!("/tokens/locks?spender={}", payment.id));
    assert!(locks.body.contains("a60") && locks.body.contains("a40"), "{locks:?}");
    is_told(&server, payment.put("COMMITTED"), "COMMITTED", "");
    assert_eq!(wallets(&server), ((30, 0), (70, 0)));
    // A repeat, by either side, changes nothing and gets the stored answer.
    let records = stored(&server).1;
    for again in [payment.post(), payment.put("COMMITTED"), payment.get()] {
        is_told(&server, again, "COMMITTED", "");
    }
    let other = payment.post().but("amount", json!({"currency": "USD", "amount": "10"}));
    assert_eq!(told(&other.waiting().send(&server)).1, "3106");
    assert_eq!((wallets(&server), stored(&server).1), (((30, 0), (70, 0)), records));
    // What was paid can be paid on, and the change can be spent.
    is_told(&server, funded(2, "30").post(), "RESERVED", "");
    let shown = get(&server, &format!("/hub/transfers/{}", payment.id)).json();
    assert_eq!((&shown["positionChanges"], &shown["amount"]), (&json!([]), &json!("70")));
    let positions = get(&server, "/participants/fsp1/positions?currency=USD");
    assert!(positions.body.contains("\"value\":0"), "{positions:?}");
    server.stop_and_verify(folder.path());
    let data = path(folder.path());
    done(&run(&["transfers", "why", &payment.id, "--data", data]));
}

#[test]
fn whatever_else_ends_it_gives_the_tokens_back() {
    let (folder, server) = world();
    let aborted = funded(1, "70");
    is_told(&server, aborted.post(), "RESERVED", "");
    is_told(&server, aborted.put_error("5104"), "ABORTED_ERROR", "5104");
    assert_eq!(wallet(&server, "alice"), (100, 0));
    let wrong = funded(2, "70");
    is_told(&server, wrong.post(), "RESERVED", "");
    let guess = json!(Payment::new(99, "1").fulfilment());
    is_told(&server, wrong.put("COMMITTED").but("fulfilment", guess), "ABORTED_ERROR", "3100");
    assert_eq!(wallet(&server, "alice"), (100, 0));
    let expiring = funded_until(3, "70", now() + 1_500);
    is_told(&server, expiring.post(), "RESERVED", "");
    assert_eq!(wallet(&server, "alice"), (100, 100));
    wait_for_state(&server, &expiring, "EXPIRED_RESERVED");
    assert_eq!(wallets(&server), ((100, 0), (0, 0)));
    is_told(&server, expiring.post(), "EXPIRED_RESERVED", "3303");
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
            is_told(&server, payment.post(), state, code);
        }
        assert_eq!(told(&payment.get().waiting().send(&server)).0, state);
        assert_eq!(wallet(&server, "alice"), (100, 0), "{amount}");
    }
    // All of it is held: the next one finds none.
    is_told(&server, funded(10, "100").post(), "RESERVED", "");
    is_told(&server, funded(11, "1").post(), "ABORTED_REJECTED", "4001");
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
        is_told(&server, payment.post(), "RESERVED", "");
    }
    server.kill();
    let server = Server::start(folder.path(), any_port());
    assert_eq!(wallet(&server, "alice"), (100, 100));
    is_told(&server, committed.post(), "RESERVED", "");
    is_told(&server, funded(3, "1").post(), "ABORTED_REJECTED", "4001");
    is_told(&server, committed.put("COMMITTED"), "COMMITTED", "");
    is_told(&server, aborted.put_error("5104"), "ABORTED_ERROR", "5104");
    assert_eq!(wallets(&server), ((45, 0), (55, 0)));
    // A clean stop leaves a checkpoint; a hold is found in it, too.
    let held = funded(4, "45");
    is_told(&server, held.post(), "RESERVED", "");
    server.stop();
    let server = Server::start(folder.path(), any_port());
    assert_eq!(wallet(&server, "alice"), (45, 45));
    is_told(&server, held.put("COMMITTED"), "COMMITTED", "");
    assert_eq!(wallets(&server), ((0, 0), (100, 0)));
    server.stop_and_verify(folder.path());
}

#[test]
fn many_at_once_hold_each_token_once() {
    let (folder, server) = world();
    let extra: Vec<String> = (0..10).map(|number| format!("x{number}")).collect();
    let tokens: Vec<(&str, &str, u64)> = extra.iter().map(|id| (id.as_str(), "alice", 10)).collect();
    issue(&server, &tokens);
    // 200 in all: 25 payments of 10 want more than there is. Each is sent twice at once.
    let reserved = pay_twice_at_once(1, |_| &server);
    // Each token pays for one.
    assert_eq!((reserved.len(), wallet(&server, "alice")), (12, (200, 200)), "{reserved:?}");
    for number in &reserved {
        is_told(&server, funded(*number, "10").put_error("5104"), "ABORTED_ERROR", "5104");
    }
    assert_eq!(wallet(&server, "alice"), (200, 0), "no claim is left behind");
    // Repeats of one that is not even tried for its tokens: each finds the claim of another on its way, and none waits for ever.
    let barrier = Barrier::new(20);
    let nowhere = funded(99, "200").with("payeeFsp", json!("nobody"));
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                barrier.wait();
                is_told(&server, nowhere.post(), "INVALID", "3100");
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
        let head = head("POST", "/transfers", &message.header_lines(), body.len());
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
