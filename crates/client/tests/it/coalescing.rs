//! What waits travels together; what need not wait does not.

use std::time::Duration;

use holdfast_client::{Abort, Client, ClientError, ClientOptions};
use holdfast_domain::ids::{ParticipantId, TransferId};

use crate::hub::{Does, Hub, caller};

#[tokio::test]
async fn a_call_alone_leaves_at_once_and_those_behind_it_share_a_request() {
    let hub = Hub::start(&[Does::Waits, Does::Answers]).await;
    let options = ClientOptions {
        connections: 1,
        deadline: Duration::from_secs(10),
        attempt_max: Duration::from_secs(10),
        ..hub.options()
    };
    let client = Client::connect(options).await.unwrap();
    let first = caller(&client, 1);
    hub.wait_for(1).await;
    let others: Vec<_> = (2..=200).map(|id| caller(&client, id)).collect();
    tokio::task::yield_now().await;
    hub.release.notify_one();
    first.await.unwrap().unwrap();
    for other in others {
        other.await.unwrap().unwrap();
    }
    assert_eq!(hub.seen(), [vec![1], (2..=200).collect::<Vec<u128>>()]);
}

#[tokio::test]
async fn no_request_has_more_records_than_allowed() {
    let hub = Hub::start(&[Does::Answers]).await;
    let options = ClientOptions { batch_records_max: 16, deadline: Duration::from_secs(10), ..hub.options() };
    let client = Client::connect(options).await.unwrap();
    let calls: Vec<_> = (1..=500).map(|id| caller(&client, id)).collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let seen = hub.seen();
    assert!(seen.iter().all(|ids| ids.len() <= 16));
    let mut ids: Vec<u128> = seen.concat();
    ids.sort_unstable();
    assert_eq!(ids, (1..=500).collect::<Vec<u128>>());
}

#[tokio::test]
async fn what_no_record_can_say_is_not_sent() {
    let hub = Hub::start(&[Does::Answers]).await;
    let client = Client::connect(hub.options()).await.unwrap();
    let abort = Abort { id: TransferId(1), payee: ParticipantId(2), code: 99 };
    assert!(matches!(client.abort(abort).await, Err(ClientError::NotARecord(_))));
    assert!(hub.seen().is_empty());
}
