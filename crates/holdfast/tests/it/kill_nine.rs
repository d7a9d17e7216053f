//! kill -9 under load, again and again: what was acknowledged is there, no limit was exceeded, every id answers as
//! before, and the books add up.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use holdfast_client::{Client, Reply};
use holdfast_domain::money::Amount;
use holdfast_domain::transfers::TransferState as S;
use tokio::sync::Notify;

use crate::support::server::{Server, any_port, folder, verify};
use crate::support::world::{Payment, client, now, set_up, verdict};

const PARTICIPANTS: u32 = 4;
const PAYERS_AT_ONCE: u64 = 48;
/// Tight enough that prepares are refused all the time.
const CAP: Amount = Amount(30);
const FUNDS: Amount = Amount(25);
/// Acknowledged commands between two kills.
const ACKNOWLEDGED_PER_ROUND: u64 = 2_000;

/// Kills: five in CI, more in a soak.
fn kills() -> u64 {
    std::env::var("HOLDFAST_KILLS").map_or(5, |text| text.parse().expect("HOLDFAST_KILLS is a number"))
}

/// What the payers were told.
#[derive(Default)]
struct Diary {
    told: Mutex<BTreeMap<u128, (Payment, Vec<Reply>)>>,
    acknowledged: AtomicU64,
    more: Notify,
    over: AtomicBool,
}

impl Diary {
    fn write(&self, payment: &Payment, reply: Reply) {
        // The auditor on the spot: no reservation ever stands above the limits.
        if reply.state == Some(S::Reserved) {
            assert!(reply.value <= CAP.min(FUNDS).wide(), "{payment:?} was reserved at {}", reply.value);
        }
        self.told.lock().unwrap().entry(payment.id).or_insert((*payment, Vec::new())).1.push(reply);
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        self.more.notify_waiters();
    }

    async fn wait_for(&self, acknowledged: u64) {
        loop {
            let more = self.more.notified();
            if self.acknowledged.load(Ordering::Relaxed) >= acknowledged {
                return;
            }
            more.await;
        }
    }
}

/// Pays over and over: prepare, then fulfil, abort, or leave it to its end. Unknown outcomes are asked for again by
/// the client itself, with the same record.
async fn pay(client: Client, diary: Arc<Diary>, payer_at_once: u64) {
    for round in 0_u64.. {
        if diary.over.load(Ordering::Relaxed) {
            return;
        }
        let dice =
            payer_at_once.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round.wrapping_mul(0xd1b5_4a32_d192_ed03);
        let payer = u32::try_from(dice % u64::from(PARTICIPANTS)).unwrap() + 1;
        let payment = Payment {
            id: u128::from(payer_at_once + 1) << 64 | u128::from(round),
            payer,
            payee: payer % PARTICIPANTS + 1,
            amount: i64::try_from(dice >> 8 & 7).unwrap() + 1,
            expiration: now() + if dice >> 16 & 7 == 0 { 300 } else { 600_000 },
        };
        let prepared = client.prepare(payment.prepare()).await.expect("answered before the deadline");
        diary.write(&payment, prepared);
        if prepared.state != Some(S::Reserved) {
            continue;
        }
        let ended = match dice >> 24 & 7 {
            0 => client.abort(payment.abort()).await,
            _ => client.fulfil(payment.fulfil()).await,
        };
        diary.write(&payment, ended.expect("answered before the deadline"));
    }
}

/// What a transfer may have become since somebody was told that it is `before`.
fn may_have_become(before: Option<S>, now: Option<S>) -> bool {
    before == now
        || (before == Some(S::Reserved)
            && matches!(now, Some(S::Committed | S::AbortedError | S::ExpiredReserved)))
}

/// A hub whose checkpoints follow one another so closely that kills meet them and the merges of their runs.
fn start(data: &Path, listen: SocketAddr) -> Server {
    Server::with(data, listen, &["checkpoint.log_bytes=65536"])
}

#[test]
fn kill_nine_loses_nothing_and_breaks_no_limit() {
    let folder = folder();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut server = start(folder.path(), any_port());
    let address = server.address;
    let diary = Arc::new(Diary::default());
    let (connected, payers) = runtime.block_on(async {
        let connected = client(&server).await;
        set_up(&connected, PARTICIPANTS, CAP, FUNDS).await;
        let payers: Vec<_> = (0..PAYERS_AT_ONCE)
            .map(|number| tokio::spawn(pay(connected.clone(), Arc::clone(&diary), number)))
            .collect();
        (connected, payers)
    });
    for kill in 1..=kills() {
        runtime.block_on(diary.wait_for(kill * ACKNOWLEDGED_PER_ROUND));
        server.kill();
        verify(folder.path());
        server = start(folder.path(), address);
    }
    runtime.block_on(async {
        diary.wait_for((kills() + 1) * ACKNOWLEDGED_PER_ROUND).await;
        diary.over.store(true, Ordering::Relaxed);
        for payer in payers {
            payer.await.expect("no payer met a broken promise");
        }
        let told = std::mem::take(&mut *diary.told.lock().unwrap());
        let mut refused = 0;
        for (payment, replies) in told.values() {
            let again = client_answer(&connected, payment).await;
            for reply in replies {
                let same_refusal =
                    reply.state != Some(S::AbortedRejected) || verdict(reply) == verdict(&again);
                // A fulfil that came too late was refused with 3303 and changed nothing.
                assert!(
                    may_have_become(reply.state, again.state) && same_refusal,
                    "{payment:?}: told {reply:?}, now {again:?}"
                );
            }
            refused += u64::from(again.state == Some(S::AbortedRejected));
            // The fulfil or abort that ended it answers as it did.
            if let [_, ended] = replies.as_slice()
                && matches!(ended.state, Some(S::Committed | S::AbortedError))
            {
                let repeated = match ended.state {
                    Some(S::Committed) => connected.fulfil(payment.fulfil()).await,
                    _ => connected.abort(payment.abort()).await,
                };
                assert_eq!(repeated.as_ref(), Ok(ended), "{payment:?}");
            }
        }
        assert!(refused > 0, "the limits were never reached: this test shows nothing");
        assert!(
            told.values().any(|(_, replies)| replies.iter().any(|reply| reply.state == Some(S::Committed)))
        );
    });
    drop(connected);
    let report = server.stop_and_verify(folder.path());
    assert_eq!(report["tornTail"], serde_json::Value::Null, "a clean stop leaves a clean log");
    assert_eq!(
        report["checkpoints"].as_array().map(Vec::len),
        Some(2),
        "there were enough of them that the newest two are kept"
    );
}

async fn client_answer(client: &Client, payment: &Payment) -> Reply {
    client.prepare(payment.prepare()).await.expect("every id answers")
}
