//! Rows from a scripted store through the lanes into a scripted world: what does not fit into memory waits, and comes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use holdfast_domain::ids::ParticipantId;
use holdfast_engine::Retry;
use holdfast_hub::{CallbackRow, place_of};
use holdfast_store::{LocalStore, Store};
use tempfile::TempDir;

use super::dead_letters::LetterFile;
use super::feeder::{Feeder, Rows};
use super::letter::Letter;
use super::logged::CallbackLanes;
use super::logged_tests::{Answer, Event, Scripted, World, open, quick, row};
use super::{persist, refill};
use crate::lanes::Bounds;
use crate::options::{CallbackOptions, LANE_ROWS_MAX};

/// Rows in memory, as the store would give them.
#[derive(Default)]
struct Stored {
    rows: Mutex<Vec<CallbackRow>>,
    removed_before: AtomicU64,
    broken: AtomicBool,
    refused: AtomicU64,
}

impl Rows for Arc<Stored> {
    type Error = String;

    fn durable(&self) -> u64 {
        self.rows.lock().unwrap().len() as u64
    }

    fn read(&self, from: u64, to: u64) -> Result<Vec<CallbackRow>, String> {
        if self.broken.load(Ordering::SeqCst) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err("the disk is broken".to_owned());
        }
        let from = from.max(self.removed_before.load(Ordering::SeqCst));
        let rows = self.rows.lock().unwrap();
        Ok(rows.iter().filter(|row| (from..to).contains(&row.number)).copied().collect())
    }
}

/// A run of the program, without the thread that reads new rows: tests do that themselves.
struct Run {
    lanes: Arc<CallbackLanes<Scripted>>,
    feeder: Arc<Feeder<Scripted, Arc<Stored>>>,
    over: Arc<AtomicBool>,
    refiller: Option<JoinHandle<()>>,
}

impl Run {
    fn start(folder: &Path, world: &Arc<World>, stored: &Arc<Stored>, bounds: Bounds) -> Run {
        let options = CallbackOptions { attempts_max: u32::MAX, ..quick() };
        let lanes = open(folder, world, options, bounds);
        let feeder = Arc::new(Feeder::new(Arc::clone(&lanes), Arc::clone(stored)));
        let mut from = Some(0);
        while let Some(number) = from {
            from = feeder.restore(number).unwrap();
        }
        let over = Arc::new(AtomicBool::new(false));
        let refiller = std::thread::spawn({
            let (feeder, over) = (Arc::clone(&feeder), Arc::clone(&over));
            move || refill(&feeder, &over)
        });
        Run { lanes, feeder, over, refiller: Some(refiller) }
    }

    fn take_all(&self) {
        while self.feeder.take(|_| {}).unwrap() {}
    }

    /// As kill -9 would, but for requests under way: the test wants to know what became of them.
    async fn kill(mut self) {
        self.lanes.end().await;
        self.over.store(true, Ordering::Release);
        self.lanes.bell.notify_one();
        self.refiller.take().unwrap().join().unwrap();
    }
}

/// A folder without anything in it, a world, and a store without rows.
fn begin() -> (TempDir, Arc<World>, Arc<Stored>) {
    (tempfile::tempdir().unwrap(), Arc::default(), Arc::default())
}

fn say(world: &World, to: u32, answer: Answer) {
    world.always.lock().unwrap().insert(ParticipantId(to), answer);
}

/// The acknowledged numbers of each transfer, in the order in which they came.
fn acknowledged(worlds: &[&World], stored: &Stored) -> BTreeMap<(ParticipantId, u128), Vec<u64>> {
    let rows = stored.rows.lock().unwrap();
    let mut all: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for event in worlds.iter().flat_map(|world| world.events()) {
        if let Event::Answered(number, Answer::Good) = event {
            let row = rows[usize::try_from(number).unwrap()];
            all.entry((row.to, row.transfer.0)).or_default().push(number);
        }
    }
    all
}

/// Each row was acknowledged once, those of a transfer in order.
fn assert_once_in_order(worlds: &[&World], stored: &Stored) {
    let all = acknowledged(worlds, stored);
    assert_eq!(all.values().map(Vec::len).sum::<usize>(), stored.rows.lock().unwrap().len());
    for (key, numbers) in all {
        assert!(numbers.is_sorted_by(|before, after| before < after), "{key:?}: {numbers:?}");
    }
}

#[tokio::test]
async fn the_living_get_theirs_while_the_backlog_of_the_dead_stays_in_the_store() {
    const DEAD: u64 = 100_000;
    let (folder, world, stored) = begin();
    // Of six rows, five are for the dead one.
    let rows = (0..DEAD * 6 / 5).map(|number| match number % 6 {
        5 => row(number, 2, u128::from(number % 700)),
        _ => row(number, 1, u128::from(number % 5_000)),
    });
    stored.rows.lock().unwrap().extend(rows);
    let living = usize::try_from(DEAD / 5).unwrap();
    say(&world, 1, Answer::Bad);
    let run = Run::start(folder.path(), &world, &stored, Bounds::default());
    run.take_all();
    assert_eq!(run.lanes.source.ended.mark(), DEAD * 6 / 5, "nobody waits for the dead one");
    world.wait_until("the living one gets all", |world| world.delivered(2) == living).await;
    assert_eq!(world.delivered(1), 0);
    world.wait_until("lanes come later", |_| run.lanes.backlog(ParticipantId(2)) == 0).await;
    assert_eq!(run.lanes.backlog(ParticipantId(1)), LANE_ROWS_MAX);
    assert_eq!(run.lanes.source.ended.open_within(0, u64::MAX).len(), LANE_ROWS_MAX);
    // What it is behind with is not forgotten by a restart either; here it comes back.
    say(&world, 1, Answer::Good);
    world.wait_until("the dead one is back", |world| world.delivered(1) == living * 5).await;
    world.wait_until("all has ended", |_| run.lanes.source.ended.first_open() == DEAD * 6 / 5).await;
    assert!(run.lanes.source.ended.behind().is_empty(), "it has caught up");
    assert!(run.lanes.room.most() <= 2 * LANE_ROWS_MAX, "{} in memory", run.lanes.room.most());
    assert_once_in_order(&[&world], &stored);
    // And it goes on live.
    stored.rows.lock().unwrap().push(row(DEAD * 6 / 5, 1, 1));
    run.take_all();
    world.wait_until("the new one", |world| world.delivered(1) == living * 5 + 1).await;
    run.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_in_the_middle_lose_and_repeat_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds { lane: 200, lanes: 500, least: 16 };
    let stored = Arc::new(Stored::default());
    let rows = |from: u64, to: u64| {
        (from..to).map(|number| row(number, u32::try_from(number % 7 % 3).unwrap(), u128::from(number % 40)))
    };
    let mut worlds: Vec<Arc<World>> = Vec::new();
    for run_number in 0..8_u32 {
        let world = Arc::new(World::default());
        // In turns, one of three is dead.
        say(&world, run_number % 3, if run_number == 7 { Answer::Good } else { Answer::Bad });
        let length = stored.rows.lock().unwrap().len() as u64;
        stored.rows.lock().unwrap().extend(rows(length, length + 6_000));
        let run = Run::start(folder.path(), &world, &stored, bounds);
        run.take_all();
        if run_number % 2 == 1 {
            run.lanes.source.ended.write_anew(|| Ok(())).unwrap();
        }
        let all = stored.rows.lock().unwrap().len();
        let before: usize =
            worlds.iter().map(|world| acknowledged(&[world], &stored).values().flatten().count()).sum();
        let enough = if run_number == 7 { all - before } else { 1_500 };
        let good = |world: &World| (0..3).map(|to| world.delivered(to)).sum::<usize>();
        world.wait_until("some are delivered", |world| good(world) >= enough).await;
        assert!(run.lanes.room.most() <= 500 + 3 * 16, "{} in memory", run.lanes.room.most());
        run.kill().await;
        worlds.push(world);
    }
    let worlds: Vec<&World> = worlds.iter().map(Arc::as_ref).collect();
    assert_once_in_order(&worlds, &stored);
}

#[tokio::test]
async fn many_dead_that_fill_the_memory_do_not_stop_the_living() {
    let (folder, world, stored) = begin();
    let to = |number: u64| u32::try_from(number % 20).unwrap();
    stored.rows.lock().unwrap().extend((0..20_000).map(|number| row(number, to(number), number.into())));
    (1..20).for_each(|dead| say(&world, dead, Answer::Never));
    let bounds = Bounds { lane: 100, lanes: 400, least: 8 };
    let run = Run::start(folder.path(), &world, &stored, bounds);
    run.take_all();
    world.wait_until("the living one gets all", |world| world.delivered(0) == 1_000).await;
    assert!(run.lanes.room.most() <= 400 + 20 * 8, "{} in memory", run.lanes.room.most());
    assert_eq!(run.lanes.source.ended.behind().len(), 19);
}

#[tokio::test]
async fn rows_that_cannot_be_read_are_tried_again() {
    let (folder, world, stored) = begin();
    stored.rows.lock().unwrap().push(row(0, 1, 1));
    let run = Run::start(folder.path(), &world, &stored, Bounds::default());
    stored.broken.store(true, Ordering::SeqCst);
    let (feeder, over) = (Arc::clone(&run.feeder), Arc::clone(&run.over));
    let taker = std::thread::spawn(move || persist(&feeder.lanes, &over, || feeder.take(|_| {})));
    let refused = |_: &World| {
        taker.thread().unpark();
        stored.refused.load(Ordering::SeqCst) >= 3
    };
    world.wait_until("it is tried again", refused).await;
    stored.broken.store(false, Ordering::SeqCst);
    taker.thread().unpark();
    world.wait_until("delivered", |world| world.delivered(1) == 1).await;
    assert_eq!(taker.join().unwrap(), Some(true));
    stored.broken.store(true, Ordering::SeqCst);
    stored.rows.lock().unwrap().push(row(1, 1, 1));
    run.over.store(true, Ordering::Release);
    assert_eq!(
        persist(&run.lanes, &run.over, || run.feeder.take(|_| {})),
        None,
        "the end does not wait for it"
    );
    run.kill().await;
}

#[tokio::test]
async fn a_row_that_the_store_removed_had_ended() {
    let (folder, world, stored) = begin();
    stored.rows.lock().unwrap().extend((0..10).map(|number| row(number, 1, number.into())));
    say(&world, 1, Answer::Never);
    let run = Run::start(folder.path(), &world, &stored, Bounds::default());
    run.take_all();
    run.lanes.source.ended.write_anew(|| Ok(())).unwrap();
    run.over.store(true, Ordering::Release);
    run.lanes.bell.notify_one();
    // As if the ends of the first six had been lost in a power cut, after the store removed their file.
    stored.removed_before.store(6, Ordering::SeqCst);
    let again = Arc::new(World::default());
    let run = Run::start(folder.path(), &again, &stored, Bounds::default());
    assert_eq!(run.lanes.source.ended.first_open(), 6);
    again.wait_until("the others go out", |again| again.delivered(1) == 4).await;
    run.kill().await;
}

#[tokio::test]
async fn a_letter_that_finds_no_room_is_not_written_down_as_retried() {
    let (folder, world, stored) = begin();
    say(&world, 1, Answer::Never);
    let bounds = Bounds { lane: 2, lanes: 10, least: 1 };
    let run = Run::start(folder.path(), &world, &stored, bounds);
    for number in 100..103 {
        let row = row(number, 1, number.into());
        run.lanes.source.letters.put(Letter::new(&row, 0, 0, "no answer".to_owned(), None)).unwrap();
    }
    let tried: Vec<Retry> = (100..103).map(|number| run.lanes.retry(number).unwrap()).collect();
    assert_eq!(tried, [Retry::Taken, Retry::Taken, Retry::NoRoom]);
    assert_eq!(run.lanes.retry(100).unwrap(), Retry::Already);
    assert_eq!(run.lanes.backlog(ParticipantId(1)), 2, "a refused one leaves no place taken");
    assert_eq!(LetterFile::open(folder.path()).unwrap().retrying(), [100, 101]);
}

#[tokio::test]
async fn falling_behind_rings_the_bell() {
    let (folder, world) = (tempfile::tempdir().unwrap(), Arc::new(World::default()));
    let lanes = open(folder.path(), &world, quick(), Bounds::default());
    let waits = Arc::clone(&lanes);
    let waiting = std::thread::spawn(move || waits.wait_for_bell());
    // Its lane is empty: no end of a callback will ever ring for it.
    lanes.set_behind(ParticipantId(1), true);
    world.wait_until("the bell is heard", |_| waiting.is_finished()).await;
    assert!(lanes.is_wanting(ParticipantId(1)));
}

/// Rows in the files of a store.
struct OnDisk {
    rows: holdfast_store::CallbackRows,
    count: u64,
}

impl Rows for OnDisk {
    type Error = holdfast_store::StoreError;

    fn durable(&self) -> u64 {
        self.count
    }

    fn read(&self, from: u64, to: u64) -> Result<Vec<CallbackRow>, Self::Error> {
        let rows = self.rows.scan(place_of(from), place_of(to));
        rows.map(|row| row.map(|(_, bytes)| CallbackRow::from_bytes(&bytes).unwrap())).collect()
    }
}

/// `cargo test -p holdfast-delivery --lib speed -- --ignored --nocapture`
#[tokio::test]
#[ignore = "a measurement"]
async fn speed_of_reading_a_million_rows() {
    const ROWS: u64 = 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    let fs: Arc<dyn holdfast_log::FileSystem> = Arc::new(holdfast_log::RealFs);
    let log = holdfast_log::LogId([7; 16]);
    let mut store = LocalStore::create(&fs, &folder.path().join("store"), log).unwrap();
    for number in 0..ROWS {
        store.keep_callbacks(std::iter::once(row(number, 1, number.into()).to_bytes()));
        while let Some(job) = store.take_job() {
            let done = job.run(&mut || {}).unwrap();
            store.absorb(done);
        }
    }
    let on_disk = OnDisk { rows: store.callback_rows(), count: ROWS };
    let began = Instant::now();
    let mut read = 0;
    for from in (0..ROWS).step_by(4_096) {
        read += on_disk.read(from, ROWS.min(from + 4_096)).unwrap().len();
    }
    println!("read {read} rows in {:?}", began.elapsed());
    let world = Arc::new(World::default());
    say(&world, 1, Answer::Never);
    let lanes = open(folder.path(), &world, quick(), Bounds::default());
    let feeder = Feeder::new(lanes, on_disk);
    let began = Instant::now();
    while feeder.take(|_| {}).unwrap() {}
    println!("passed over all but {LANE_ROWS_MAX} of them in {:?}", began.elapsed());
}
