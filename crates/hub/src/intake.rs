//! The bounded queue in front of the writer. What does not fit is refused at once; nothing ever grows.

use std::collections::VecDeque;
use std::sync::MutexGuard;
use std::time::Duration;

use holdfast_domain::effects::Outcome;
use holdfast_domain::records::Sealed;
use holdfast_engine::clock::Reading;
use holdfast_engine::{Answer, Monitor, Refusal};
use holdfast_store::LocalStore;
use tokio::sync::oneshot;

use crate::core::Core;
use crate::limits::{
    FRAME_LONE_COMMANDS_MAX, HubOptions, QUESTIONS_PER_TURN_MAX, SUBMISSION_BYTES_MAX, SUBMISSION_RECORDS_MAX,
};
use crate::meters::Meters;

/// Commands of one caller that travel together, and who waits for their outcomes.
pub struct Submission {
    pub(crate) records: Sealed,
    pub(crate) answer: Answer,
    /// How many of the commands are decided one by one.
    lone: usize,
}

impl Submission {
    /// Records to be decided; `answer` is called once.
    #[must_use]
    pub fn new(records: Sealed, answer: Answer) -> Submission {
        let lone = records.commands().iter().filter(|command| command.stands_alone()).count();
        Submission { records, answer, lone }
    }
}

/// A question about the state, answered between two frames when all that it sees is durable.
pub type Query = Box<dyn FnOnce(&Core<LocalStore>) + Send>;

/// What the writer found waiting.
pub(crate) struct Gathered {
    pub(crate) submissions: Vec<Submission>,
    pub(crate) queries: Vec<Query>,
    pub(crate) confirmed_clock: Option<Reading>,
    pub(crate) after_checkpoint: Vec<Query>,
}

#[derive(Default)]
struct IntakeState {
    submissions: VecDeque<Submission>,
    queries: VecDeque<Query>,
    records: usize,
    bytes: usize,
    /// A frame is being written: the next one is closed when it is durable, with all that has come by then.
    journal_busy: bool,
    /// Nobody will say any more that a frame is written.
    journal_dead: bool,
    /// The writer sleeps: only then is it worth a system call to wake it.
    writer_waits: bool,
    confirmed_clock: Option<Reading>,
    /// Questions that wait for a checkpoint of what is durable now.
    after_checkpoint: Vec<Query>,
    closed: Option<String>,
    woken: bool,
}

/// The queue.
pub struct Intake {
    state: Monitor<IntakeState>,
    options: HubOptions,
    meters: Meters,
}

impl Intake {
    /// An empty queue with these bounds.
    #[must_use]
    pub fn new(options: HubOptions) -> Intake {
        Intake { state: Monitor::default(), options, meters: Meters::default() }
    }

    /// The state, as long as something is taken.
    fn open(&self) -> Result<MutexGuard<'_, IntakeState>, Refusal> {
        let state = self.state.lock();
        match &state.closed {
            Some(reason) => Err(Refusal::Closed(reason.clone())),
            None => Ok(state),
        }
    }

    /// Puts commands in line.
    ///
    /// # Errors
    /// The refusal, given back with the answer that was not called.
    pub fn submit(&self, submission: Submission) -> Result<(), Refusal> {
        let (count, bytes) = (submission.records.commands().len(), submission.records.bytes().len());
        if count > SUBMISSION_RECORDS_MAX {
            return Err(Refusal::TooMany(count));
        }
        if bytes > SUBMISSION_BYTES_MAX {
            return Err(Refusal::TooLarge(bytes));
        }
        let mut state = self.open()?;
        let full = state.records + count > self.options.intake_records_max
            || state.bytes + bytes > self.options.intake_bytes_max
            || state.submissions.len() >= self.options.intake_items_max;
        if full {
            self.meters.refused_busy.increment(1);
            return Err(Refusal::Busy);
        }
        state.records += count;
        state.bytes += bytes;
        state.submissions.push_back(submission);
        // While a frame is being written the writer would not go on; it looks around when that is done.
        let wakes = state.writer_waits && !state.journal_busy;
        drop(state);
        if wakes {
            self.state.notify_all();
        }
        Ok(())
    }

    /// Puts a question in line.
    ///
    /// # Errors
    /// When too many wait, or the hub has stopped.
    pub fn ask(&self, query: Query) -> Result<(), Refusal> {
        let mut state = self.open()?;
        if state.queries.len() >= self.options.intake_items_max {
            return Err(Refusal::Busy);
        }
        state.queries.push_back(query);
        drop(state);
        self.state.notify_all();
        Ok(())
    }

    /// As [`Intake::ask`], and waits for the answer; `None`: the hub has stopped.
    pub(crate) async fn read<R: Send + 'static>(
        &self,
        question: impl FnOnce(&Core<LocalStore>) -> R + Send + 'static,
    ) -> Result<Option<R>, Refusal> {
        let (send, receive) = oneshot::channel();
        self.ask(Box::new(move |core| {
            // An asker that has gone away needs no answer.
            if !send.is_closed() {
                drop(send.send(question(core)));
            }
        }))?;
        Ok(receive.await.ok())
    }

    /// As [`Intake::submit`], and waits for the outcomes. Keeps something until the records are decided, whether anybody still
    /// waits or not.
    pub(crate) async fn decide(
        &self,
        records: Sealed,
        keep: impl Send + 'static,
    ) -> Result<Vec<Outcome>, Refusal> {
        let (send, receive) = oneshot::channel();
        let answer = Box::new(move |outcomes: Result<Vec<Outcome>, Refusal>| {
            drop(keep);
            drop(send.send(outcomes));
        });
        self.submit(Submission::new(records, answer))?;
        receive.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Has a checkpoint made of all that is durable now; the question runs when it is on the disk.
    ///
    /// # Errors
    /// As [`Intake::ask`]. Dropped without being run if the hub stops before.
    pub fn ask_after_checkpoint(&self, query: Query) -> Result<(), Refusal> {
        let mut state = self.open()?;
        if state.after_checkpoint.len() >= QUESTIONS_PER_TURN_MAX {
            return Err(Refusal::Busy);
        }
        state.after_checkpoint.push(query);
        state.woken = true;
        drop(state);
        self.state.notify_all();
        Ok(())
    }

    /// Tells the writer that an operator believes the wall clock as it was `seen`.
    pub fn confirm_clock(&self, seen: Reading) {
        self.state.change(|state| state.confirmed_clock = Some(seen));
    }

    /// Lets the writer look around: something of its own was done.
    pub(crate) fn wake(&self) {
        self.state.change(|state| state.woken = true);
    }

    /// Takes nothing more. What waits is still worked off unless the log has failed.
    pub fn close(&self, reason: &str) {
        self.state.lock().closed.get_or_insert_with(|| reason.to_owned());
        self.state.notify_all();
    }

    /// Closes, and refuses what waits: nobody will come for it.
    pub(crate) fn abandon(&self, reason: &str) {
        self.close(reason);
        let mut state = self.state.lock();
        (state.records, state.bytes) = (0, 0);
        let submissions = std::mem::take(&mut state.submissions);
        let queries = (std::mem::take(&mut state.queries), std::mem::take(&mut state.after_checkpoint));
        // Dropped, they tell their askers that there is no answer.
        drop((state, queries));
        refuse_all(submissions, &Refusal::Closed(reason.to_owned()));
    }

    /// The journal is gone: nobody else would say that it is free.
    pub(crate) fn journal_died(&self, reason: &str) {
        self.close(reason);
        self.state.lock().journal_dead = true;
        self.set_journal_busy(false);
    }

    pub(crate) fn set_journal_busy(&self, busy: bool) {
        let mut state = self.state.lock();
        // The writer may begin a frame in the moment in which the journal dies.
        state.journal_busy = busy && !state.journal_dead;
        let wakes = state.writer_waits && !busy;
        drop(state);
        if wakes {
            self.state.notify_all();
        }
    }

    /// Waits until there is something to do and the journal is free, or `patience` has passed. `false`: closed
    /// and empty.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let idle = |state: &mut IntakeState| {
            state.journal_busy
                || (state.submissions.is_empty()
                    && state.queries.is_empty()
                    && state.confirmed_clock.is_none()
                    && !state.woken
                    && state.closed.is_none())
        };
        let mut state = self.state.lock();
        state.writer_waits = true;
        let state = self.state.wait_while_for(state, patience, idle);
        // Time may be up while a frame is still on its way to the disk.
        let busy = |state: &mut IntakeState| state.journal_busy;
        let mut state = self.state.wait_while(state, busy);
        state.writer_waits = false;
        state.closed.is_none() || !state.submissions.is_empty() || !state.queries.is_empty()
    }

    /// Takes a few questions, and submissions up to the size of a frame.
    pub(crate) fn take(&self) -> Gathered {
        let mut state = self.state.lock();
        state.woken = false;
        let mut submissions = Vec::with_capacity(state.submissions.len().min(1024));
        let (mut bytes, mut lone) = (0, 0);
        while let Some(next) = state.submissions.front() {
            let length = next.records.bytes().len();
            let full = bytes + length > self.options.frame_bytes_max || lone >= FRAME_LONE_COMMANDS_MAX;
            if bytes > 0 && full {
                break;
            }
            bytes += length;
            lone += next.lone;
            state.records -= next.records.commands().len();
            submissions.extend(state.submissions.pop_front());
        }
        state.bytes -= bytes;
        let confirmed_clock = state.confirmed_clock.take();
        let few = state.queries.len().min(QUESTIONS_PER_TURN_MAX);
        let after_checkpoint = std::mem::take(&mut state.after_checkpoint);
        Gathered {
            submissions,
            queries: state.queries.drain(..few).collect(),
            confirmed_clock,
            after_checkpoint,
        }
    }
}

/// Why nothing is known of what was taken: the hub has stopped.
pub(crate) fn stopped() -> Refusal {
    Refusal::Unknown("the hub stopped".to_owned())
}

/// Answers all of them with that refusal.
pub(crate) fn refuse_all(submissions: impl IntoIterator<Item = Submission>, refusal: &Refusal) {
    submissions.into_iter().for_each(|submission| (submission.answer)(Err(refusal.clone())));
}
