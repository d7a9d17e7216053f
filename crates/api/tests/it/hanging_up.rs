//! A client that waits for tokens and hangs up: its wait is called off, and its place in the queue is free.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::{Edge, ServeOptions, router, serve};
use holdfast_engine::clock::SystemClock;
use holdfast_hub::limits::HubOptions;
use holdfast_hub::tokens::TokenOptions;
use holdfast_hub::{EmbeddedEngine, Hub, HubHandle, Opened};
use holdfast_log::{LogId, RealFs, SegmentOptions};
use serde_json::json;
use tokio::net::TcpListener;

/// Far shorter than the minute that the clients would wait.
const DEADLINE: Duration = Duration::from_secs(10);

/// A hub behind a real socket, with a queue of one place and a wallet of one token, which somebody holds.
struct Served {
    address: SocketAddr,
    hub: HubHandle,
    _runtime: tokio::runtime::Runtime,
    _running: Hub,
    _folder: tempfile::TempDir,
}

impl Served {
    fn start() -> Served {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let segments = SegmentOptions { segment_bytes: 1 << 20, ..SegmentOptions::default() };
        let opened = Opened::open(Arc::new(RealFs), folder.path(), segments, LogId([3; 16])).unwrap();
        let tokens = TokenOptions { waiters_max: 1, ..TokenOptions::default() };
        let options = HubOptions { tokens, ..HubOptions::default() };
        let running = Hub::start(opened, Arc::new(SystemClock::new()), options).unwrap();
        let hub = running.handle();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let edge = router(Edge::new(Arc::new(EmbeddedEngine::new(hub.clone())), crate::metrics()));
        runtime.spawn(serve(listener, edge, ServeOptions::default(), std::future::pending()));
        let served = Served { address, hub, _runtime: runtime, _running: running, _folder: folder };
        let token = json!({"wallet": "w", "currency": "EUR", "quantity": "100"});
        served.answered("POST /tokens/issue", &json!({"tokens": [token]}).to_string(), "201");
        served.answered("POST /tokens/select", &select("holder", 0), "200");
        served
    }

    /// Sends a request and leaves the answer to come.
    fn send(&self, request: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let length = body.len();
        let head = format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }

    #[track_caller]
    fn answered(&self, request: &str, body: &str, status: &str) {
        let answer = rest_of(self.send(request, body));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request} {body}: {answer}");
    }

    /// Until as many wait.
    #[track_caller]
    fn wait_until_waiting(&self, count: u64) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let waiting = self.hub.tokens().counters().waiting;
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
    let served = Served::start();
    let waits = |spender: &str| {
        let stream = served.send("POST /tokens/select", &select(spender, 60_000));
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
