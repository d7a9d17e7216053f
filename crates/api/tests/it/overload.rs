//! Overload is told at the edge, with a time to wait.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use holdfast_api::{Edge, ServeOptions, router, serve};
use holdfast_domain::records::{UNIT, batch};
use holdfast_engine::clock::SystemClock;
use holdfast_hub::limits::HubOptions;
use holdfast_hub::{EmbeddedEngine, Hub, Opened};
use holdfast_log::{LogId, RealFs, SegmentOptions};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// An abort of a transfer that does not exist: the smallest record a client can send.
fn one_abort() -> Vec<u8> {
    let mut record = [0; UNIT];
    record[0] = 3;
    record[2] = 1;
    record[24..26].copy_from_slice(&5104_u16.to_le_bytes());
    [&batch::request_header(1)[..], &record].concat()
}

/// What a hub with these options answers to one record.
fn answer_with(options: HubOptions) -> String {
    let folder = tempfile::tempdir().unwrap();
    let segments = SegmentOptions { segment_bytes: 1 << 20, ..SegmentOptions::default() };
    let opened = Opened::open(Arc::new(RealFs), folder.path(), segments, LogId([1; 16])).unwrap();
    let hub = Hub::start(opened, Arc::new(SystemClock::new()), options).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let metrics = crate::metrics();
    let (end, ended) = oneshot::channel::<()>();
    let until_ended = async {
        let _: Result<(), _> = ended.await;
    };
    let served = runtime.spawn(serve(
        listener,
        router(Edge::new(Arc::new(EmbeddedEngine::new(hub.handle())), metrics)),
        ServeOptions::default(),
        until_ended,
    ));
    let body = one_abort();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /hub/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/vnd.holdfast.batch\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    end.send(()).unwrap();
    runtime.block_on(served).unwrap();
    hub.stop();
    String::from_utf8_lossy(&answer).to_lowercase()
}

#[test]
fn a_full_queue_is_told_as_429_with_a_time_to_wait() {
    let answer = answer_with(HubOptions { intake_records_max: 0, ..HubOptions::default() });
    assert!(answer.starts_with("http/1.1 429"), "{answer}");
    assert!(answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
    assert!(answer.contains(r#""errorcode":"2005""#), "{answer}");
}

#[test]
fn the_same_request_is_taken_where_there_is_room() {
    let answer = answer_with(HubOptions::default());
    assert!(answer.starts_with("http/1.1 200"), "{answer}");
    assert!(answer.contains(batch::MEDIA_TYPE), "{answer}");
}
