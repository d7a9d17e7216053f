//! The webhook of the embedded profile: ends of checkouts are heard from durable frames and wait in memory.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_engine::Shop as _;
use holdfast_hub::shop::{HubShop, Missed, ShopEvent, ShopEvents};
use tokio::sync::watch;
use tokio::time::Instant;

use super::kept::{Kept, Outcome};
use super::lost::Lost;
use super::{Address, Book, Meters, Outcomes, Telling, outcome_of};
use crate::lanes::{After, Bounds, Census, Lanes, Tries, Verdict};
use crate::options::{CONNECTION_IDLE_MAX, CallbackOptions, HUB_BUSY_PAUSE, LANE_IN_FLIGHT_MAX};

/// Outcomes that wait to be told, those under way not included. More are given up at once.
const OUTCOMES_MAX: usize = 131_072;

/// Outcomes in memory, remembered over a clean stop.
struct Memory {
    kept: Kept,
    /// There is a file of what the last stop left.
    has_file: AtomicBool,
}

impl Book for Memory {
    fn settle(&self, _: u64, tries: Tries, verdict: &Verdict<()>) -> After {
        match verdict {
            Verdict::Answered(()) | Verdict::Moot | Verdict::GivenUp(_) => After::Leaves,
            Verdict::Untried(_) => After::RestsFor(HUB_BUSY_PAUSE),
            Verdict::Failed(_) => After::RestsFor(tries.pause),
        }
    }

    /// What the last stop left waits here until it is told, so its file goes when nothing waits.
    fn settled(&self, meters: &Meters, census: Census) {
        meters.show(census);
        if census == Census::default()
            && self.has_file.swap(false, Ordering::AcqRel)
            && let Err(error) = self.kept.write(&[])
        {
            tracing::warn!(%error, "outcomes that were told may be told again after the next start");
        }
    }
}

/// Hears ends of checkouts and has them told.
pub(crate) struct HeardEnds {
    lanes: Arc<Lanes<Outcomes<Memory>>>,
    shop: HubShop,
    events: ShopEvents,
    lost: Lost,
    heard: u64,
}

impl HeardEnds {
    /// Takes up what the last clean stop left. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If that cannot be read.
    pub(crate) fn open(
        address: Address,
        shop: HubShop,
        options: CallbackOptions,
        data: &Path,
    ) -> io::Result<HeardEnds> {
        let kept = Kept::of(data);
        let left = kept.read()?;
        let has_file = AtomicBool::new(!left.is_empty());
        // From here on no end may be missed.
        let events = shop.listen();
        let bounds = Bounds::of_one_lane(OUTCOMES_MAX + LANE_IN_FLIGHT_MAX);
        let lanes = Outcomes::lanes(Memory { kept, has_file }, address, options, bounds);
        let mut ends = HeardEnds { lanes, shop, events, lost: Lost::default(), heard: 0 };
        for outcome in left {
            let job = ends.number(outcome);
            ends.lanes.resume((), job, 0);
        }
        Ok(ends)
    }

    /// Has them told until `ending` says so, listens until the hub has ended, and keeps what is not told.
    pub(crate) async fn run(mut self, mut ending: watch::Receiver<bool>) {
        let mut tidy = tokio::time::interval(CONNECTION_IDLE_MAX);
        let mut is_ending = false;
        loop {
            tokio::select! {
                _ = ending.wait_for(|ending| *ending), if !is_ending => {
                    is_ending = true;
                    self.lanes.stop();
                }
                heard = self.events.next() => match heard {
                    Ok(None) => break,
                    Ok(Some(events)) => self.hear(&events),
                    // Too many came for the time that this had.
                    Err(Missed { ends }) => self.lose(ends),
                },
                _ = tidy.tick() => {
                    self.lanes.source.address.post.close_idle();
                    self.lose(0);
                }
            }
        }
        // What is cut is kept below, and told after the next start.
        self.lanes.end().await;
        say_lost(self.lost.rest());
        self.keep();
    }

    fn number(&mut self, outcome: Outcome) -> Telling {
        self.heard += 1;
        Telling::new(self.heard, outcome)
    }

    fn hear(&mut self, events: &[ShopEvent]) {
        let wall = self.shop.now();
        let mut too_many = 0;
        for event in events {
            let ShopEvent::Ended(end) = event else { continue };
            let Some(outcome) = outcome_of(end, wall) else { continue };
            if self.lanes.reserve(()) {
                let job = self.number(outcome);
                self.lanes.put((), job, 0);
            } else {
                too_many += 1;
            }
        }
        self.lose(too_many);
        self.lanes.source.meters.show(self.lanes.census());
    }

    /// So many outcomes more have no place here. Each counts; they are said together, now and then.
    fn lose(&mut self, outcomes: u64) {
        self.lanes.source.meters.given_up.increment(outcomes);
        say_lost(self.lost.add(outcomes, Instant::now()));
    }

    /// Keeps what is not told for the next start, in the order in which it was heard.
    fn keep(self) {
        let mut jobs = self.lanes.take_out(());
        jobs.sort_by_key(|(job, _)| job.number);
        let outcomes: Vec<Outcome> = jobs.into_iter().map(|(job, _)| (*job.outcome).clone()).collect();
        let count = outcomes.len();
        match self.lanes.source.book.kept.write(&outcomes) {
            Ok(()) if count > 0 => tracing::info!(count, "outcomes are told after the next start"),
            Ok(()) => {}
            Err(error) => tracing::error!(%error, count, "outcomes that were not told cannot be kept"),
        }
    }
}

fn say_lost(outcomes: u64) {
    if outcomes > 0 {
        tracing::error!(
            outcomes,
            "outcomes of checkouts are told to nobody: more came than the webhook takes. Ask for these orders instead"
        );
    }
}
