//! A fulfil that arrives at the very moment of expiry: exactly one of the two ends the transfer.

use holdfast_domain::codes::ErrorCode;
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::transfers::TransferState as S;
use tokio::time::{Duration, Instant, sleep_until};

use crate::support::server::fresh_hub;
use crate::support::world::{Payment, client, now, set_up};

const TRANSFERS: u64 = 400;
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_race_ends_in_exactly_one_of_the_two() {
    let (folder, server) = fresh_hub();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let client = client(&server).await;
        let plenty = Amount(1_000_000);
        set_up(&client, 2, plenty, plenty).await;
        let started = now();
        let races: Vec<_> = (0..TRANSFERS)
            .map(|number| {
                let client = client.clone();
                let after = i64::try_from(number).unwrap();
                let payment = Payment {
                    id: 1 + u128::from(number),
                    payer: 1,
                    payee: 2,
                    amount: 1,
                    expiration: started + 1_500 + after,
                };
                tokio::spawn(async move {
                    assert_eq!(client.prepare(payment.prepare()).await.unwrap().state, Some(S::Reserved));
                    // The point of the test is to arrive at this instant, somewhat before or after: the spread is
                    // wide enough that a slow machine, too, sees both ends.
                    let early = i64::try_from(number % 10).unwrap().pow(3) - 100;
                    let wait = u64::try_from((payment.expiration - now() - early).max(0)).unwrap();
                    sleep_until(Instant::now() + Duration::from_millis(wait)).await;
                    let reply = client.fulfil(payment.fulfil()).await.unwrap();
                    (payment, reply)
                })
            })
            .collect();
        let (mut committed, mut expired) = (0, 0);
        for race in races {
            let (payment, reply) = race.await.unwrap();
            let expired_code = ErrorCode::TransferExpired.number();
            match (reply.state, reply.code) {
                (Some(S::Committed), 0) => committed += 1,
                // Refused before the scan came by, or after it.
                (Some(S::Reserved), code) if code == expired_code => expired += 1,
                (Some(S::ExpiredReserved), code) if code == ErrorCode::ValidationError.number() => {
                    expired += 1
                }
                other => panic!("{payment:?} ended as {other:?}"),
            }
        }
        assert_eq!(committed + expired, TRANSFERS);
        assert!(committed > 0 && expired > 0, "one side always won: {committed} to {expired}");
        // All holds end by themselves; then the positions say the same as the answers.
        let deadline = Instant::now() + PATIENCE;
        loop {
            let stats: serde_json::Value =
                serde_json::from_str(&client.get("/hub/stats").await.unwrap()).unwrap();
            if stats["openHolds"] == 0 {
                assert_eq!(stats["reachedState"]["COMMITTED"], committed);
                assert_eq!(stats["reachedState"]["EXPIRED_RESERVED"], expired);
                break;
            }
            assert!(Instant::now() < deadline, "some holds never ended");
        }
        let probe = Payment { id: 1 << 80, payer: 1, payee: 2, amount: 1, expiration: now() + 60_000 };
        let value = client.prepare(probe.prepare()).await.unwrap().value;
        assert_eq!(value, Balance(i128::from(committed) + 1), "the payer owes exactly what was committed");
    });
    server.stop_and_verify(folder.path());
}
