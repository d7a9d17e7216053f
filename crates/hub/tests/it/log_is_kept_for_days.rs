//! Retention: old segments go when nothing needs them, and what they led to stays.

use std::sync::Arc;

use holdfast_domain::command::Command;
use holdfast_domain::ids::TransferId;
use holdfast_domain::transfers::{Transfer, TransferState};
use holdfast_hub::limits::HubOptions;
use holdfast_hub::verify::Advice;
use holdfast_hub::{HubHandle, OpenError};
use holdfast_log::{LogError, SimFs};

use crate::history::{begin, check, files, round, sound};
use crate::support::{PAYEE, PAYER, START, TestClock, asked, decided, fulfil, open, prepare, start};

const DAY: i64 = 24 * 60 * 60 * 1_000;

fn kept() -> HubOptions {
    HubOptions { retention_log_days: 3, ..options() }
}

fn options() -> HubOptions {
    HubOptions { checkpoint_log_bytes: 1 << 40, ..HubOptions::default() }
}

fn row(hub: &HubHandle, id: u128) -> Transfer {
    asked(hub, move |core| core.store().seek(TransferId(id))).get().unwrap().expect("the transfer is known")
}

/// A stop leaves a checkpoint; so two lives a day make the two that are kept.
fn a_day(fs: &SimFs, clock: &Arc<TestClock>, options: HubOptions, first: u128) {
    let mut by_hand = open(fs, clock, options).unwrap();
    round(&mut by_hand, first);
    drop(by_hand);
    start(fs, clock.clone(), options).stop();
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
    let hub = start(&fs, clock.clone(), kept());
    let handle = hub.handle();
    let start_offset = handle.log_start();
    assert!(start_offset > 0, "segments were removed");
    assert!(matches!(handle.log().read_from(0), Err(LogError::BeforeStart { .. })));
    // The first day's transfers are archived: their prepare lies before the log.
    assert!(row(&handle, 1_005).offset < start_offset);
    assert_eq!(row(&handle, 1_005).state, TransferState::Committed);
    // A repeat of the prepare, and of the fulfil, answers as it did; a changed one is told apart.
    let answer = |command: Command| {
        let outcome = &decided(&handle, &[command])[0];
        (outcome.state, outcome.code.map(|code| code.number()))
    };
    let repeat = |amount| prepare(PAYER, PAYEE, 1_005, amount, START + 3_600_000_000);
    assert_eq!(answer(repeat(1)), (Some(TransferState::Committed), None));
    assert_eq!(answer(fulfil(PAYEE, 1_005)), (Some(TransferState::Committed), None));
    assert_eq!(answer(repeat(2)).1, Some(3106));
    // Three days are there.
    let recent = row(&handle, 39_005).offset;
    assert!(recent > start_offset, "{recent} {start_offset}");
    hub.stop();

    // What is left verifies from its oldest checkpoint on, and starts.
    let verified = sound(&fs);
    assert!(verified.began_at >= start_offset && verified.log.start == start_offset);
    assert_eq!(verified.store.checkpoints.len(), 2);

    // Damage before that checkpoint is found too; deriving again is no way out any more.
    let run = files(&fs, "store/ids", ".run").remove(0);
    let whole = fs.bytes_of(&run).unwrap();
    let mut damaged = whole.clone();
    damaged[5_000] ^= 1;
    fs.put(&run, &damaged);
    match check(&fs) {
        Ok(verified) => {
            let advice: Vec<_> = verified.problems.iter().map(|problem| problem.advice).collect();
            assert!(!advice.is_empty());
            assert!(advice.iter().all(|advice| *advice == Advice::Restore));
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
    let hub = start(&fs, clock, options());
    assert_eq!(hub.handle().log_start(), 0);
}
