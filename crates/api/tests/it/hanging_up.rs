//! A client that waits for tokens and hangs up: its wait is called off, and its place in the queue is free.

use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use holdfast_hub::limits::HubOptions;
use holdfast_hub::tokens::TokenOptions;
use serde_json::json;

use crate::world::{PATIENCE, Served};

/// A hub with a queue of one place and a wallet of one token, which somebody holds.
fn served() -> Served {
    let tokens = TokenOptions { waiters_max: 1, ..TokenOptions::default() };
    let served = Served::start(HubOptions { tokens, ..HubOptions::default() });
    let token = json!({"wallet": "w", "currency": "EUR", "quantity": "100"});
    served.answered("POST /tokens/issue", &json!({"tokens": [token]}).to_string(), "201");
    served.answered("POST /tokens/select", &select("holder", 0), "200");
    served
}

impl Served {
    fn ask(&self, request: &str, body: &str) -> TcpStream {
        self.send(request, "application/json", body.as_bytes())
    }

    #[track_caller]
    fn answered(&self, request: &str, body: &str, status: &str) {
        let answer = rest_of(self.ask(request, body));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request} {body}: {answer}");
    }

    /// Until as many wait. That is far shorter than the minute that the clients would wait.
    #[track_caller]
    fn wait_until_waiting(&self, count: u64) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let waiting = self.world.hub.tokens().counters().waiting;
            if waiting == count {
                return;
            }
            assert!(Instant::now() < deadline, "{waiting} wait, and not {count}");
            std::thread::yield_now();
        }
    }
}

/// All of the wallet's tokens.
fn select(spender: &str, wait_ms: u64) -> String {
    let lease_ms = 3_600_000;
    json!({
        "spender": spender, "wallet": "w", "currency": "EUR", "amount": "100", "leaseMs": lease_ms, "waitMs": wait_ms,
    })
    .to_string()
}

fn rest_of(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

#[test]
fn who_hangs_up_leaves_the_queue() {
    let served = served();
    let waits = |spender: &str| {
        let stream = served.ask("POST /tokens/select", &select(spender, 60_000));
        served.wait_until_waiting(1);
        // The only place is taken.
        served.answered("POST /tokens/select", &select("too-late", 60_000), "503");
        stream
    };
    // Gone altogether.
    drop(waits("closed"));
    served.wait_until_waiting(0);
    // Has said all, and could still listen: to a hub that is the same.
    let half = waits("half-closed");
    half.shutdown(Shutdown::Write).unwrap();
    served.wait_until_waiting(0);
    assert_eq!(rest_of(half), "", "nobody is answered who was called off");
    // Who stays is served, so those before have taken nothing.
    let stays = waits("stays");
    served.answered("DELETE /tokens/locks/holder", "", "200");
    let answer = rest_of(stays);
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(r#""spender":"stays""#), "{answer}");
    served.wait_until_waiting(0);
}
