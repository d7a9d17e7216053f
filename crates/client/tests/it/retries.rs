//! After "unknown" the same record goes out again, one attempt after another.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use holdfast_client::{Batch, ClientError, Fulfil};
use holdfast_domain::ids::{ParticipantId, TransferId};

use crate::hub::{Does, Hub, caller, prepare};

#[tokio::test]
async fn every_fault_is_outlived_by_the_next_good_answer() {
    for fault in [
        Does::CutsAtOnce,
        Does::CutsHalfAReply,
        Does::RepliesToFewer,
        Does::Garbage,
        Does::NotHttp,
        Does::Hangs,
        Does::Status(429, None),
        Does::Status(503, None),
        Does::Status(504, None),
    ] {
        let hub = Hub::start(&[fault, fault, Does::Answers]).await;
        let client = hub.patient_client(2).await;
        let reply = client.prepare(prepare(9)).await;
        assert_eq!(reply.map(|reply| (reply.code, reply.subject)), Ok((0, 7)), "{fault:?}");
        assert_eq!(hub.seen(), vec![vec![9]; 3], "{fault:?}");
        assert_eq!(hub.doubled.load(Ordering::SeqCst), 0, "{fault:?}");
    }
}

#[tokio::test]
async fn retry_after_is_honoured() {
    let hub = Hub::start(&[Does::Status(429, Some(1)), Does::Answers]).await;
    let client = hub.patient_client(2).await;
    let started = Instant::now();
    client.prepare(prepare(1)).await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn one_bad_record_fails_alone() {
    let hub = Hub::start(&[Does::RefusesTransfer(5)]).await;
    let client = hub.patient_client(1).await;
    let calls: Vec<_> = (1..=9).map(|id| (id, caller(&client, id))).collect();
    for (id, call) in calls {
        let ended = call.await.unwrap();
        match id {
            5 => assert!(matches!(ended, Err(ClientError::Refused { status: 400, .. })), "{ended:?}"),
            _ => assert!(ended.is_ok(), "{id}: {ended:?}"),
        }
    }
}

#[tokio::test]
async fn no_record_is_under_way_twice_and_a_fulfil_never_passes_its_prepare() {
    let faults = [
        Does::Answers,
        Does::CutsAtOnce,
        Does::Answers,
        Does::Status(503, None),
        Does::CutsHalfAReply,
        Does::Answers,
        Does::Garbage,
        Does::Status(429, None),
        Does::Answers,
        Does::Answers,
    ];
    let script: Vec<Does> = faults.iter().copied().cycle().take(60).chain([Does::Answers]).collect();
    let hub = Hub::start(&script).await;
    let client = hub.patient_client(4).await;
    let payers: Vec<_> = (1..=50)
        .map(|id| {
            let client = client.clone();
            tokio::spawn(async move {
                client.prepare(prepare(id)).await?;
                let fulfil =
                    Fulfil { id: TransferId(id + 1000), payee: ParticipantId(2), fulfilment: [1; 32] };
                client.fulfil(fulfil).await
            })
        })
        .collect();
    for payer in payers {
        payer.await.unwrap().unwrap();
    }
    assert_eq!(hub.doubled.load(Ordering::SeqCst), 0);
    let seen: Vec<u128> = hub.seen().concat();
    for id in 1..=50 {
        let last_prepare = seen.iter().rposition(|seen| *seen == id).unwrap();
        let first_fulfil = seen.iter().position(|seen| *seen == id + 1000).unwrap();
        assert!(last_prepare < first_fulfil, "transfer {id}");
    }
}

#[tokio::test]
async fn a_whole_batch_is_repeated_as_it_was() {
    let hub = Hub::start(&[Does::CutsAtOnce, Does::Answers]).await;
    let client = hub.patient_client(2).await;
    let mut batch = Batch::with_capacity(3);
    (1..=3).for_each(|id| batch.push(&prepare(id).into()).unwrap());
    assert_eq!(client.batch(batch).await.unwrap().len(), 3);
    assert_eq!(hub.seen(), [vec![1, 2, 3], vec![1, 2, 3]]);
    assert_eq!(client.batch(Batch::default()).await, Ok(Vec::new()));
}
