//! Retention: old segments go when nothing needs them, and what they led to stays.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use holdfast_domain::transfers::TransferState;
use holdfast_engine::clock::Clock;
use holdfast_hub::limits::HubOptions;
use holdfast_hub::verify::{Places, verify};
use holdfast_hub::{Hub, HubHandle, OpenError, Opened};
use holdfast_log::{LogError, SimFs};

use crate::history::{DATA, begin, files, round};
use crate::support::{
    LOG_ID, PAYEE, PAYER, START, TestClock, fulfil, open, prepare, small_segments, submission,
};

const DAY: i64 = 24 * 60 * 60 * 1_000;

fn kept() -> HubOptions {
    HubOptions { retention_log_days: 3, ..options() }
}

fn options() -> HubOptions {
    HubOptions {
        position_order: holdfast_domain::positions::PrepareOrder::Arrival,
        frame_bytes_max: 1 << 20,
        intake_records_max: 10_000,
        intake_bytes_max: 1 << 24,
        intake_items_max: 1_000,
        expiry_holds_max: 1_000,
        clock_jump_max: 10_000,
        checkpoint_log_bytes: 1 << 40,
        retention_log_days: 0,
        tokens: holdfast_hub::tokens::TokenOptions::default(),
        shop: holdfast_engine::CheckoutTimes::default(),
    }
}

fn start(fs: &SimFs, clock: &Arc<TestClock>, options: HubOptions) -> Hub {
    let opened = Opened::open(Arc::new(fs.clone()), Path::new(DATA), small_segments(), LOG_ID).unwrap();
    let clock: Arc<dyn Clock> = clock.clone();
    Hub::start(opened, clock, options).unwrap()
}

fn ask<R: Send + 'static>(
    hub: &HubHandle,
    id: u128,
    read: fn(holdfast_domain::transfers::Transfer) -> R,
) -> R {
    let (send, receive) = mpsc::channel();
    hub.ask(Box::new(move |core| {
        send.send(core.store().seek(holdfast_domain::ids::TransferId(id))).unwrap();
    }))
    .unwrap();
    read(receive.recv().unwrap().get().unwrap().expect("the transfer is known"))
}

/// A stop leaves a checkpoint; so two lives a day make the two that are kept.
fn a_day(fs: &SimFs, clock: &Arc<TestClock>, options: HubOptions, first: u128) {
    let mut by_hand = open(fs, clock, options).unwrap();
    round(&mut by_hand, first);
    drop(by_hand);
    start(fs, clock, options).stop();
    clock.pass(DAY);
}

#[test]
fn old_segments_go_and_every_id_still_answers() {
    let (fs, clock) = (SimFs::new(1), TestClock::new());
    let mut hub = open(&fs, &clock, kept()).unwrap();
    begin(&mut hub);
    drop(hub);
    for day in 1..=40 {
        a_day(&fs, &clock, kept(), day * 1_000);
    }
    let hub = start(&fs, &clock, kept());
    let handle = hub.handle();
    let start_offset = handle.log_start();
    assert!(start_offset > 0, "segments were removed");
    assert!(matches!(handle.log().read_from(0), Err(LogError::BeforeStart { .. })));
    // The first day's transfers are archived: their prepare lies before the log.
    assert!(ask(&handle, 1_005, |row| row.offset) < start_offset);
    assert_eq!(ask(&handle, 1_005, |row| row.state), TransferState::Committed);
    // A repeat of the prepare, and of the fulfil, answers as it did; a changed one is told apart.
    let commands = [
        prepare(PAYER, PAYEE, 1_005, 1, START + 3_600_000_000),
        fulfil(PAYEE, 1_005),
        prepare(PAYER, PAYEE, 1_005, 2, START + 3_600_000_000),
    ];
    let answers: Vec<_> = commands
        .iter()
        .map(|command| {
            let (submission, answer) = submission(std::slice::from_ref(command));
            handle.submit(submission).unwrap();
            let outcomes = answer.recv().unwrap().unwrap();
            let outcome = &outcomes[0];
            (outcome.state, outcome.code.map(|code| code.number()))
        })
        .collect();
    assert_eq!(answers[0], (Some(TransferState::Committed), None));
    assert_eq!(answers[1], (Some(TransferState::Committed), None));
    assert_eq!(answers[2].1, Some(3106));
    // Three days are there.
    let recent = ask(&handle, 39_005, |row| row.offset);
    assert!(recent > start_offset, "{recent} {start_offset}");
    drop(handle);
    hub.stop();

    // What is left verifies from its oldest checkpoint on, and starts.
    let places =
        Places { fs: Arc::new(fs.clone()), data: Path::new(DATA), scratch: &PathBuf::from("/scratch") };
    let verified = verify(&places, &mut |_, _| {}).unwrap();
    assert!(verified.problems.is_empty(), "{:?}", verified.problems);
    assert!(verified.began_at >= start_offset && verified.log.start == start_offset);
    assert_eq!(verified.store.checkpoints.len(), 2);

    // Damage before that checkpoint is found too; deriving again is no way out any more.
    let run = files(&fs, "store/ids", ".run").remove(0);
    let whole = fs.bytes_of(&run).unwrap();
    let mut damaged = whole.clone();
    damaged[5_000] ^= 1;
    fs.put(&run, &damaged);
    let places =
        Places { fs: Arc::new(fs.clone()), data: Path::new(DATA), scratch: &PathBuf::from("/again") };
    match verify(&places, &mut |_, _| {}) {
        Ok(verified) => {
            let advice: Vec<_> = verified.problems.iter().map(|problem| problem.advice).collect();
            assert!(!advice.is_empty());
            assert!(advice.iter().all(|advice| *advice == holdfast_hub::verify::Advice::Restore));
        }
        Err(error) => assert!(error.to_string().contains("damaged"), "{error}"),
    }
    fs.put(&run, &whole);

    // Without its checkpoints there is no way back.
    for checkpoint in files(&fs, "store/checkpoints", ".ckp") {
        use holdfast_log::FileSystem;
        fs.remove(&checkpoint).unwrap();
    }
    let refused = open(&fs, &clock, kept()).err().expect("refused");
    assert!(matches!(refused, OpenError::NothingToStartFrom { start } if start == start_offset), "{refused}");
}

#[test]
fn without_the_setting_everything_stays() {
    let (fs, clock) = (SimFs::new(1), TestClock::new());
    let mut hub = open(&fs, &clock, options()).unwrap();
    begin(&mut hub);
    drop(hub);
    for day in 1..=12 {
        a_day(&fs, &clock, options(), day * 1_000);
    }
    assert!(files(&fs, "log", ".seg").len() > 1);
    let hub = start(&fs, &clock, options());
    assert_eq!(hub.handle().log_start(), 0);
}
