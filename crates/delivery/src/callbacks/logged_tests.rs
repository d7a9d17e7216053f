//! Callbacks of the log against a scripted world: order, bounds, dead letters and restarts, without a network.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use holdfast_domain::callbacks::CallbackMessage;
use holdfast_domain::ids::{ParticipantId, TransferId};
use holdfast_engine::Retry;
use holdfast_hub::CallbackRow;
use hyper::http::{HeaderMap, Method, Uri};
use tempfile::TempDir;
use tokio::sync::Notify;

use super::callback::Callback;
use super::dead_letters::LetterFile;
use super::ended::Ended;
use super::ends::Step;
use super::logged::{CallbackLanes, Logged};
use super::requests::{Requests, Written};
use crate::lanes::{Bounds, Census, NotNow};
use crate::options::{CallbackOptions, LANE_IN_FLIGHT_MAX};
use crate::request::Outgoing;
use crate::request::{Envelope, Failure};

/// How the world takes one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Good,
    Bad,
    BadForGood,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Started(u64),
    Answered(u64, Answer),
}

/// Answers as scripted, by number; without a script all is well.
#[derive(Default)]
pub(super) struct World {
    script: Mutex<HashMap<u64, VecDeque<Answer>>>,
    pub(super) always: Mutex<HashMap<ParticipantId, Answer>>,
    delivered: Mutex<HashMap<ParticipantId, usize>>,
    events: Mutex<Vec<Event>>,
    changed: Notify,
    busy_writes: Mutex<u32>,
}

impl World {
    fn note(&self, event: Event) {
        self.events.lock().unwrap().push(event);
        self.changed.notify_waiters();
    }

    pub(super) fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    /// How many the participant has acknowledged.
    pub(super) fn delivered(&self, to: u32) -> usize {
        self.delivered.lock().unwrap().get(&ParticipantId(to)).copied().unwrap_or(0)
    }

    fn good(&self) -> BTreeSet<u64> {
        let good = |event| match event {
            Event::Answered(number, Answer::Good) => Some(number),
            _ => None,
        };
        self.events().into_iter().filter_map(good).collect()
    }

    pub(super) async fn wait_until(&self, what: &str, met: impl Fn(&World) -> bool) {
        let waiting = async {
            loop {
                let changed = self.changed.notified();
                if met(self) {
                    return;
                }
                // Some conditions are about the lanes, which come a little later.
                let _: Result<(), _> = tokio::time::timeout(Duration::from_millis(5), changed).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting)
            .await
            .unwrap_or_else(|_| panic!("never: {what}"));
    }
}

pub(super) struct Scripted(pub(super) Arc<World>);

impl Requests for Scripted {
    async fn write(&self, rows: Vec<CallbackRow>) -> Result<Vec<Written>, NotNow> {
        let mut busy = self.0.busy_writes.lock().unwrap();
        if *busy > 0 {
            *busy -= 1;
            return Err(NotNow);
        }
        let envelope = |row: CallbackRow| {
            let uri: Uri = format!("http://world/{}", row.number).parse().unwrap();
            let message = Outgoing { method: Method::PUT, headers: HeaderMap::new(), body: Bytes::new() };
            (Some(uri.to_string()), Ok(Envelope { uri, message }))
        };
        Ok(rows.into_iter().map(envelope).collect())
    }

    async fn send(&self, to: ParticipantId, envelope: Envelope) -> Result<(), Failure> {
        let number = envelope.uri.path()[1..].parse().unwrap();
        self.0.note(Event::Started(number));
        let scripted = self.0.script.lock().unwrap().get_mut(&number).and_then(VecDeque::pop_front);
        let always = self.0.always.lock().unwrap().get(&to).copied();
        let answer = scripted.or(always).unwrap_or(Answer::Good);
        tokio::task::yield_now().await;
        if answer == Answer::Good {
            *self.0.delivered.lock().unwrap().entry(to).or_default() += 1;
        }
        self.0.note(Event::Answered(number, answer));
        match answer {
            Answer::Good => Ok(()),
            Answer::Bad => Err(Failure::passing("bad")),
            Answer::BadForGood => Err(Failure::for_good("bad for good")),
            Answer::Never => std::future::pending().await,
        }
    }
}

pub(super) fn row(number: u64, to: u32, transfer: u128) -> CallbackRow {
    CallbackRow {
        number,
        offset: 0,
        time: 0,
        to: ParticipantId(to),
        transfer: TransferId(transfer),
        message: CallbackMessage::ForwardFulfil,
    }
}

pub(super) fn quick() -> CallbackOptions {
    CallbackOptions {
        attempts_max: 4,
        attempt_time_max: Duration::from_secs(60),
        pause_min: Duration::from_millis(1),
        pause_max: Duration::from_millis(5),
        connections_max: 16,
        jitter_seed: 1,
    }
}

/// The lanes of what is remembered in a folder.
pub(super) fn open(
    folder: &Path,
    world: &Arc<World>,
    options: CallbackOptions,
    bounds: Bounds,
) -> Arc<CallbackLanes<Scripted>> {
    let letters = LetterFile::open(folder).unwrap();
    let ended = Ended::open(folder, &letters.numbers()).unwrap();
    Logged::lanes(Scripted(Arc::clone(world)), ended, letters, options, bounds)
}

/// A folder without anything in it, a world, and lanes into it.
fn start() -> (TempDir, Arc<World>, Arc<CallbackLanes<Scripted>>) {
    let (folder, world) = (tempfile::tempdir().unwrap(), Arc::new(World::default()));
    let lanes = open(folder.path(), &world, quick(), Bounds::default());
    (folder, world, lanes)
}

fn feed(lanes: &Arc<CallbackLanes<Scripted>>, rows: impl IntoIterator<Item = CallbackRow>) {
    for row in rows {
        assert!(lanes.reserve(row.to), "no room");
        lanes.source.ended.apply(Step { taken: vec![row.number], mark: row.number + 1, ..Step::default() });
        lanes.put(row.to, Callback::new(row), 0);
    }
}

#[tokio::test]
async fn callbacks_of_a_transfer_keep_their_order_through_failures() {
    let (_folder, world, lanes) = start();
    let rows: Vec<CallbackRow> = (0..600).map(|number| row(number, 1, u128::from(number % 50))).collect();
    for number in (0..600).step_by(7) {
        world.script.lock().unwrap().insert(number, [Answer::Bad, Answer::Bad].into());
    }
    feed(&lanes, rows.iter().copied());
    world.wait_until("all delivered", |world| world.good().len() == 600).await;
    let mut last: BTreeMap<u128, u64> = BTreeMap::new();
    let mut open: BTreeMap<u128, u64> = BTreeMap::new();
    let (mut under_way, mut most) = (0_usize, 0);
    for event in world.events() {
        match event {
            Event::Started(number) => {
                let transfer = u128::from(number % 50);
                let before = open.insert(transfer, number);
                assert!(before.is_none_or(|before| before == number), "{number} overtook {before:?}");
                under_way += 1;
                most = most.max(under_way);
            }
            Event::Answered(number, answer) => {
                under_way -= 1;
                if answer == Answer::Good {
                    let transfer = u128::from(number % 50);
                    let before = last.insert(transfer, number);
                    assert!(before.is_none_or(|before| before < number), "{number} came after {before:?}");
                    open.remove(&transfer);
                }
            }
        }
    }
    assert!((2..=LANE_IN_FLIGHT_MAX).contains(&most), "{most} at once");
}

#[tokio::test]
async fn a_participant_that_hangs_delays_nobody() {
    let (_folder, world, lanes) = start();
    world.always.lock().unwrap().insert(ParticipantId(1), Answer::Never);
    world.always.lock().unwrap().insert(ParticipantId(2), Answer::Bad);
    feed(&lanes, (0..3_000).map(|number| row(number, 1 + u32::try_from(number % 3).unwrap(), number.into())));
    world.wait_until("the third gets its own", |world| world.good().len() == 1_000).await;
    let hanging =
        world.events().into_iter().filter(|event| matches!(event, Event::Answered(_, Answer::Never)));
    assert!(hanging.count() <= LANE_IN_FLIGHT_MAX);
}

#[tokio::test]
async fn after_its_attempts_a_callback_is_a_dead_letter_until_a_retry_delivers_it() {
    let (_folder, world, lanes) = start();
    world.script.lock().unwrap().insert(0, [Answer::Bad; 6].into());
    world.script.lock().unwrap().insert(2, [Answer::BadForGood].into());
    feed(&lanes, [row(0, 1, 7), row(1, 1, 7), row(2, 1, 8)]);
    world.wait_until("the next of the transfer goes out", |world| world.good().contains(&1)).await;
    world.wait_until("two letters", |_| lanes.source.letters.len() == 2).await;
    let (letter, retrying) = lanes.source.letters.get(0).unwrap().unwrap();
    assert_eq!((letter.attempts, letter.last_error.as_str(), retrying), (4, "bad", false));
    assert_eq!(letter.url.as_deref(), Some("http://world/0"));
    assert_eq!(lanes.source.letters.get(2).unwrap().unwrap().0.attempts, 1, "no use in trying again");
    assert_eq!(lanes.source.ended.first_open(), 3);

    assert_eq!(lanes.retry(5).unwrap(), Retry::Unknown);
    assert_eq!(lanes.retry(0).unwrap(), Retry::Taken);
    world.wait_until("delivered", |world| world.good().contains(&0)).await;
    world.wait_until("one letter left", |_| lanes.source.letters.len() == 1).await;
    assert_eq!(lanes.retry(0).unwrap(), Retry::Unknown);
}

#[tokio::test]
async fn a_restart_feeds_what_did_not_end_and_retries_what_was_to_be_retried() {
    let (folder, world, lanes) = start();
    for (number, answer) in [(1, Answer::Never), (3, Answer::BadForGood), (4, Answer::BadForGood)] {
        world.script.lock().unwrap().insert(number, [answer, Answer::Never].into());
    }
    feed(&lanes, (0..6).map(|number| row(number, 1, u128::from(number % 5))));
    let met = |world: &World| world.good() == BTreeSet::from([0, 2, 5]) && lanes.source.letters.len() == 2;
    world.wait_until("the first run", met).await;
    assert_eq!(lanes.retry(3).unwrap(), Retry::Taken);
    assert_eq!(lanes.retry(3).unwrap(), Retry::Already);
    // As after kill -9: nothing was synced or told to end.
    drop(lanes);

    let again = Arc::new(World::default());
    let lanes = open(folder.path(), &again, quick(), Bounds::default());
    let open: Vec<u64> =
        (0..8).filter(|number| lanes.source.ended.is_open(ParticipantId(1), *number)).collect();
    assert_eq!(open, [1, 6, 7]);
    assert_eq!(lanes.source.letters.retrying(), [3]);
    let (letter, _) = lanes.source.letters.get(3).unwrap().unwrap();
    lanes.resume(ParticipantId(1), letter.callback().unwrap(), 0);
    feed(&lanes, open.into_iter().map(|number| row(number, 1, 0)));
    assert_eq!(lanes.census().waiting + lanes.census().in_flight + again.good().len(), 4);
    again.wait_until("the second run", |again| again.good() == BTreeSet::from([1, 3, 6, 7])).await;
    again.wait_until("one letter left", |_| lanes.source.letters.len() == 1).await;
}

#[tokio::test]
async fn a_busy_hub_costs_no_attempt() {
    let (_folder, world, lanes) = start();
    *world.busy_writes.lock().unwrap() = 6;
    feed(&lanes, [row(0, 1, 7)]);
    world.wait_until("delivered", |world| world.good().contains(&0)).await;
    assert_eq!(lanes.source.letters.len(), 0);
}

#[tokio::test]
async fn the_end_lets_requests_finish_and_starts_none() {
    let (_folder, world, lanes) = start();
    world.script.lock().unwrap().insert(0, [Answer::Bad; 3].into());
    feed(&lanes, (0..200).map(|number| row(number, 1, 0)));
    lanes.end().await;
    let at_end = world.events().len();
    assert_eq!(lanes.census().in_flight, 0);
    feed(&lanes, [row(200, 1, 1), row(201, 2, 2)]);
    lanes.end().await;
    let Census { waiting, resting, in_flight } = lanes.census();
    assert_eq!((waiting + resting + world.good().len(), in_flight), (202, 0));
    assert_eq!(world.events().len(), at_end);
}
