//! The source of the embedded profile: callbacks of durable frames, whose ends are remembered in files.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use holdfast_domain::ids::{Millis, ParticipantId};
use holdfast_engine::Retry;
use holdfast_engine::clock::{Clock, SystemClock};
use holdfast_hub::CallbackRow;

use super::callback::Callback;
use super::dead_letters::LetterFile;
use super::ended::Ended;
use super::letter::Letter;
use super::meters::Meters;
use super::requests::{Requests, deliver};
use crate::lanes::{After, Bounds, Lanes, NotNow, Source, Tries, Verdict};
use crate::options::{CallbackOptions, HUB_BUSY_PAUSE, PAUSE_MAX, REASON_CHARS_MAX};
use crate::request::Failure;

/// Callbacks of the log, and what is remembered of them.
pub(super) struct Logged<R> {
    pub(super) requests: R,
    pub(super) ended: Ended,
    pub(super) letters: LetterFile,
    pub(super) meters: Meters,
    attempt_time_max: Duration,
    clock: SystemClock,
}

/// The lanes of all participants.
pub(super) type CallbackLanes<R> = Lanes<Logged<R>>;

impl<R: Requests> Logged<R> {
    /// Lanes whose tasks run on the runtime of the caller.
    pub(super) fn lanes(
        requests: R,
        ended: Ended,
        letters: LetterFile,
        options: CallbackOptions,
        bounds: Bounds,
    ) -> Arc<CallbackLanes<R>> {
        let attempt_time_max = options.attempt_time_max;
        let (meters, clock) = (Meters::default(), SystemClock::new());
        let logged = Logged { requests, ended, letters, meters, attempt_time_max, clock };
        Lanes::new(logged, options, bounds)
    }

    fn now(&self) -> Millis {
        self.clock.read().wall
    }

    fn delivered(&self, Callback { row, from_dead_letters, .. }: &Callback) {
        self.ended.end(row.number, row.to, true);
        if *from_dead_letters && let Err(error) = self.letters.delivered(row.number) {
            tracing::error!(%error, number = row.number, "a dead letter was delivered and cannot be struck off");
        }
        self.meters.delivered.increment(1);
    }

    fn note_failure(&self, row: &CallbackRow, attempt: u32, Failure { why, .. }: &Failure) {
        self.meters.failed_attempts.increment(1);
        tracing::debug!(number = row.number, to = row.to.0, attempt, why = %why, "a callback failed");
    }

    /// Makes a dead letter of a callback. The letter is written first: between the two it is known twice, never not.
    fn bury(&self, callback: &Callback, attempts: u32, failure: Failure) -> io::Result<()> {
        let Callback { row, from_dead_letters, .. } = callback;
        let why = failure.why.chars().take(REASON_CHARS_MAX).collect();
        self.letters.put(Letter::new(row, attempts, self.now(), why, failure.url))?;
        if !from_dead_letters {
            self.ended.end(row.number, row.to, false);
        }
        self.meters.dead.increment(1);
        Ok(())
    }

    fn told(&self, synced: io::Result<()>) -> bool {
        if let Err(error) = &synced {
            tracing::error!(%error, "the memory of callbacks cannot be made durable; some may be repeated");
        }
        synced.is_ok()
    }
}

impl<R: Requests> Source for Logged<R> {
    type Receiver = ParticipantId;
    type Job = Callback;
    type Answer = ();

    fn lane_number(to: ParticipantId) -> u32 {
        to.0
    }

    async fn prepare(&self, callbacks: &mut [Callback]) -> Result<(), NotNow> {
        let rows = callbacks.iter().map(|callback| callback.row).collect();
        let written = self.requests.write(rows).await?;
        assert_eq!(written.len(), callbacks.len(), "every callback is written or says why not");
        for (callback, written) in callbacks.iter_mut().zip(written) {
            callback.written = Some(Arc::new(written));
        }
        Ok(())
    }

    async fn attempt(&self, to: ParticipantId, callback: &Callback) -> Result<Option<()>, Failure> {
        deliver(callback, self.attempt_time_max, |envelope| self.requests.send(to, envelope)).await
    }

    fn settle(&self, _: ParticipantId, callback: &Callback, tries: Tries, verdict: Verdict<()>) -> After {
        let Tries { attempts, pause } = tries;
        let number = callback.row.number;
        match verdict {
            Verdict::Answered(()) | Verdict::Moot => {
                self.delivered(callback);
                After::Leaves
            }
            Verdict::Untried(Failure { why, .. }) => {
                tracing::debug!(number, why = %why, "a callback waits for room");
                After::RestsFor(HUB_BUSY_PAUSE)
            }
            Verdict::Failed(failure) => {
                self.note_failure(&callback.row, attempts, &failure);
                After::RestsFor(pause)
            }
            Verdict::GivenUp(failure) => {
                self.note_failure(&callback.row, attempts, &failure);
                match self.bury(callback, attempts, failure) {
                    Ok(()) => After::Leaves,
                    Err(error) => {
                        tracing::error!(%error, number, "a dead letter cannot be written; its callback is tried again");
                        After::RestsFor(PAUSE_MAX)
                    }
                }
            }
        }
    }
}

impl<R: Requests> CallbackLanes<R> {
    /// Tries a dead letter again. It is written down as such only when it has its place.
    pub(super) fn retry(self: &Arc<Self>, number: u64) -> io::Result<Retry> {
        let letters = &self.source.letters;
        let Some((letter, retrying)) = letters.get(number)? else { return Ok(Retry::Unknown) };
        let Some(callback) = letter.callback() else { return Ok(Retry::Unknown) };
        if retrying {
            return Ok(Retry::Already);
        }
        let to = callback.row.to;
        if !self.reserve(to) {
            return Ok(Retry::NoRoom);
        }
        let begun = letters.begin_retry(number);
        if matches!(begun, Ok(true)) {
            self.put(to, callback, 0);
            return Ok(Retry::Taken);
        }
        self.release(to);
        begun.map(|_| Retry::Already)
    }

    /// Makes durable what was remembered, and shows where things stand. Every callback before the number that it
    /// gives has ended, and that is durable.
    pub(super) fn tidy(&self) -> Option<u64> {
        let Logged { ended, letters, meters, .. } = &self.source;
        let first_open = ended.first_open();
        let synced = letters.sync().and_then(|()| ended.sync(|| letters.sync()));
        meters.show(self.census(), letters.len(), ended.behind().len());
        self.source.told(synced).then_some(first_open)
    }

    /// Makes all durable in such a way that the next start has little to read.
    pub(super) fn finish(&self) {
        let Logged { ended, letters, .. } = &self.source;
        self.source.told(letters.sync().and_then(|()| ended.write_anew(|| letters.sync())));
    }
}
