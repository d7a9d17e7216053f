//! Whatever the hub does, a call ends by its deadline and says no more than is known.

use std::time::{Duration, Instant};

use holdfast_client::{Cause, Client, ClientError, ClientOptions};
use tokio::net::TcpListener;

use crate::hub::{Does, Hub, prepare};

/// What a loaded machine may add to a deadline.
const SLACK: Duration = Duration::from_millis(600);

async fn ends_with(script: &[Does]) -> ClientError {
    let hub = Hub::start(script).await;
    let client = Client::connect(hub.options()).await.unwrap();
    let started = Instant::now();
    let ended = client.prepare(prepare(1)).await;
    let took = started.elapsed();
    assert!(took < hub.options().deadline + SLACK, "{script:?} took {took:?}");
    ended.unwrap_err()
}

fn is_unknown(error: &ClientError) -> bool {
    matches!(error, ClientError::Unknown { .. })
}

#[tokio::test]
async fn what_may_have_happened_is_unknown() {
    let faults = [
        Does::CutsAtOnce,
        Does::CutsHalfAReply,
        Does::RepliesToFewer,
        Does::Garbage,
        Does::NotHttp,
        Does::Hangs,
        Does::Status(500, None),
        Does::Status(503, Some(1)),
        Does::Status(504, None),
    ];
    for (does, ending) in faults.map(|does| (does, tokio::spawn(async move { ends_with(&[does]).await }))) {
        let error = ending.await.unwrap();
        assert!(is_unknown(&error), "{does:?} ended with {error:?}");
    }
}

#[tokio::test]
async fn a_hub_that_is_busy_throughout_did_nothing() {
    assert_eq!(ends_with(&[Does::Status(429, None)]).await, ClientError::Busy);
    assert_eq!(ends_with(&[Does::Status(429, Some(60))]).await, ClientError::Busy);
}

#[tokio::test]
async fn busy_after_an_open_attempt_is_unknown() {
    let error = ends_with(&[Does::CutsAtOnce, Does::Status(429, Some(1))]).await;
    assert_eq!(error, ClientError::Unknown { cause: Cause::Status(429) });
}

#[tokio::test]
async fn refused_after_an_open_attempt_is_unknown() {
    let error = ends_with(&[Does::CutsAtOnce, Does::Status(400, None)]).await;
    assert_eq!(error, ClientError::Unknown { cause: Cause::Status(400) });
}

#[tokio::test]
async fn a_refused_shape_is_told_at_once() {
    let error = ends_with(&[Does::Status(400, None)]).await;
    assert_eq!(error, ClientError::Refused { status: 400, detail: "no".to_owned() });
}

#[tokio::test]
async fn a_hub_that_is_not_there_did_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let options =
        ClientOptions { connections: 1, deadline: Duration::from_millis(300), ..ClientOptions::to(address) };
    let client = Client::connect(options.clone()).await.unwrap();
    drop(listener.accept().await.unwrap());
    drop(listener);
    let error = client.prepare(prepare(1)).await.unwrap_err();
    assert!(matches!(error, ClientError::Unavailable { .. } | ClientError::Unknown { .. }), "{error:?}");
    let error = client.prepare(prepare(2)).await.unwrap_err();
    let refused = Cause::Connect(std::io::ErrorKind::ConnectionRefused);
    assert_eq!(error, ClientError::Unavailable { cause: refused });
    let error = Client::connect(options).await.err().unwrap();
    assert_eq!(error, ClientError::Unavailable { cause: refused });
}

#[tokio::test]
async fn a_call_that_found_no_free_connection_did_nothing_and_is_not_sent_later() {
    let hub = Hub::start(&[Does::Waits, Does::Answers]).await;
    let options = ClientOptions { connections: 1, attempt_max: Duration::from_secs(5), ..hub.options() };
    let client = Client::connect(options).await.unwrap();
    let first = client.prepare(prepare(1));
    let second = async {
        hub.wait_for(1).await;
        client.prepare(prepare(2)).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.unwrap_err(), ClientError::Unknown { cause: Cause::Timeout });
    assert_eq!(second.unwrap_err(), ClientError::Unavailable { cause: Cause::Waiting });
    hub.release.notify_one();
    client.prepare(prepare(3)).await.unwrap();
    assert_eq!(hub.seen(), [vec![1], vec![3]], "the second call was told that nothing happened");
}

#[tokio::test]
async fn one_call_too_many_is_refused_before_it_is_sent() {
    let hub = Hub::start(&[Does::Hangs]).await;
    let options = ClientOptions { calls_max: 2, ..hub.options() };
    let client = Client::connect(options).await.unwrap();
    let (one, two, three) =
        tokio::join!(client.prepare(prepare(1)), client.prepare(prepare(2)), client.prepare(prepare(3)));
    assert!(is_unknown(&one.unwrap_err()) && is_unknown(&two.unwrap_err()));
    assert_eq!(three.unwrap_err(), ClientError::TooManyCalls { calls_max: 2 });
    let four = client.prepare(prepare(4)).await.unwrap_err();
    assert!(is_unknown(&four), "ended calls leave their places: {four:?}");
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_its_place() {
    let hub = Hub::start(&[Does::Waits, Does::Answers]).await;
    let options = ClientOptions { calls_max: 1, attempt_max: Duration::from_secs(5), ..hub.options() };
    let client = Client::connect(options).await.unwrap();
    tokio::select! {
        _ = client.prepare(prepare(1)) => panic!("answered without being released"),
        () = hub.wait_for(1) => {}
    }
    // What was sent keeps its place until its answer comes.
    let full = ClientError::TooManyCalls { calls_max: 1 };
    assert_eq!(client.prepare(prepare(2)).await, Err(full.clone()));
    hub.release.notify_one();
    while client.prepare(prepare(3)).await == Err(full.clone()) {
        tokio::task::yield_now().await;
    }
    assert_eq!(hub.seen(), [vec![1], vec![3]]);
}
