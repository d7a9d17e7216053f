//! A running hub ends a hold when it runs out, though nobody asks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_domain::ids::TransferId;
use holdfast_domain::transfers::TransferState;
use holdfast_engine::clock::{Clock, SystemClock};
use holdfast_hub::limits::HubOptions;
use holdfast_hub::{Hub, HubHandle, Opened};
use holdfast_log::RealFs;

use crate::support::{LOG_ID, PAYEE, PAYER, asked, by_hand, decided, prepare, small_segments, submission};

fn state(hub: &HubHandle) -> Option<TransferState> {
    asked(hub, |core| core.store().seek(TransferId(1)).get().unwrap().map(|row| row.state))
}

#[test]
fn a_hold_ends_on_time_and_the_stop_is_clean() {
    let folder = tempfile::tempdir().unwrap();
    let opened = || Opened::open(Arc::new(RealFs), folder.path(), small_segments(), LOG_ID).unwrap();
    {
        // Participants are easiest set up turn by turn; the same directory is then served for real.
        let clock = Arc::new(SystemClock::new());
        by_hand(opened(), clock, HubOptions::default()).open_for_business(1_000);
    }
    let clock = Arc::new(SystemClock::new());
    let hub = Hub::start(opened(), clock.clone(), HubOptions::default()).unwrap();
    let handle = hub.handle();
    let paid = decided(&handle, &[prepare(PAYER, PAYEE, 1, 1, clock.read().wall + 100)]);
    assert_eq!(paid[0].state, Some(TransferState::Reserved));
    assert_eq!(state(&handle), Some(TransferState::Reserved), "a read after the answer sees it");

    // The log's own tail tells when the expiry record is durable: no polling.
    let end = handle.tail().durable_end();
    let moved = handle.tail().wait_past(end, Duration::from_secs(20));
    assert!(moved.is_some(), "the hub wrote the expiry by itself");
    let deadline = Instant::now() + Duration::from_secs(20);
    while state(&handle) != Some(TransferState::ExpiredReserved) {
        assert!(Instant::now() < deadline, "the hold did not end");
    }
    hub.stop();
    let (late, _answer) = submission(&[prepare(PAYER, PAYEE, 2, 1, clock.read().wall + 100)]);
    assert!(handle.submit(late).is_err(), "a stopped hub takes nothing");
    assert_eq!(opened().report.torn_tail, None, "a clean stop leaves a clean log");
}
