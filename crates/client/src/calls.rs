//! The calls that wait: one lock over their slots and over the records not yet sent.
//!
//! A call costs two short visits: one to take a slot and write its record straight into the body that is forming,
//! one to pick up its answer. A sender takes the whole body at once, and on its return fills all slots in one
//! visit. No call has a task, a channel or a timer of its own.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use holdfast_domain::command::Command;
use holdfast_domain::records;
use holdfast_domain::records::batch::{HEADER_LEN, Reply};
use tokio::sync::Notify;

use crate::error::{Cause, ClientError};
use crate::options::ClientOptions;
use crate::requests::SealedBatch;
use crate::shipment::{Recipients, Shipment};

/// Emptied bodies that are kept for the next request.
const SPARE_BODIES_MAX: usize = 8;
/// The keeper of deadlines looks at most this often.
const DEADLINE_LOOK_MIN: Duration = Duration::from_millis(1);

/// A call's slot. The generation tells it from the calls that had the slot before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    index: u32,
    generation: u32,
}

/// What a call is answered with.
#[derive(Debug)]
pub(crate) enum Answer {
    One(Reply),
    Many(Vec<Reply>),
}

/// What is known about a call that has no reply: it decides which error the deadline brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    NotSent(Cause),
    Busy,
    MayHaveHappened(Cause),
}

impl Fate {
    const fn error(self) -> ClientError {
        match self {
            Fate::NotSent(cause) => ClientError::Unavailable { cause },
            Fate::Busy => ClientError::Busy,
            Fate::MayHaveHappened(cause) => ClientError::Unknown { cause },
        }
    }
}

#[derive(Debug)]
enum Stage {
    Free,
    /// `None`: the caller has gone away; nobody picks up the answer.
    Waiting(Option<Waker>),
    Done(Result<Answer, ClientError>),
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    fate: Fate,
    deadline: Instant,
    stage: Stage,
}

/// What waits for a sender.
enum Outgoing {
    Forming { body: Vec<u8>, tickets: Vec<Ticket> },
    Whole { batch: SealedBatch, ticket: Ticket },
}

struct CallsState {
    slots: Vec<Slot>,
    free: Vec<u32>,
    queue: VecDeque<Outgoing>,
    spare_bodies: Vec<Vec<u8>>,
    spare_tickets: Vec<Vec<Ticket>>,
}

pub(crate) struct Calls {
    state: Mutex<CallsState>,
    work: Notify,
    calls_max: usize,
    batch_records_max: usize,
    deadline: Duration,
}

impl CallsState {
    fn slot(&mut self, ticket: Ticket) -> Option<&mut Slot> {
        self.slots.get_mut(ticket.index as usize).filter(|slot| slot.generation == ticket.generation)
    }

    /// The deadline of a call that has time left. The others have been told how they ended, or are about to be.
    fn deadline(&mut self, ticket: Ticket, now: Instant) -> Option<Instant> {
        let slot = self.slot(ticket)?;
        (matches!(slot.stage, Stage::Waiting(_)) && slot.deadline > now).then_some(slot.deadline)
    }

    fn open_slot(
        &mut self,
        waker: Waker,
        deadline: Instant,
        calls_max: usize,
    ) -> Result<Ticket, ClientError> {
        let fate = Fate::NotSent(Cause::Waiting);
        let stage = Stage::Waiting(Some(waker));
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            (slot.fate, slot.deadline, slot.stage) = (fate, deadline, stage);
            return Ok(Ticket { index, generation: slot.generation });
        }
        match u32::try_from(self.slots.len()) {
            Ok(index) if self.slots.len() < calls_max => {
                self.slots.push(Slot { generation: 0, fate, deadline, stage });
                Ok(Ticket { index, generation: 0 })
            }
            _ => Err(ClientError::TooManyCalls { calls_max }),
        }
    }

    fn close_slot(&mut self, ticket: Ticket) {
        let slot = &mut self.slots[ticket.index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.stage = Stage::Free;
        self.free.push(ticket.index);
    }

    /// Ends a call that still waits; gives back who is to be woken.
    fn end(&mut self, ticket: Ticket, result: Result<Answer, ClientError>) -> Option<Waker> {
        let slot = self.slot(ticket)?;
        let Stage::Waiting(waker) = &mut slot.stage else { return None };
        if let Some(waker) = waker.take() {
            slot.stage = Stage::Done(result);
            Some(waker)
        } else {
            self.close_slot(ticket);
            None
        }
    }
}

impl Calls {
    pub(crate) fn new(options: &ClientOptions) -> Calls {
        let state = CallsState {
            slots: Vec::new(),
            free: Vec::new(),
            queue: VecDeque::new(),
            spare_bodies: Vec::new(),
            spare_tickets: Vec::new(),
        };
        Calls {
            state: Mutex::new(state),
            work: Notify::new(),
            calls_max: options.calls_max,
            batch_records_max: options.batch_records_max,
            deadline: options.deadline,
        }
    }

    fn lock(&self) -> MutexGuard<'_, CallsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts one record in line, into the body that is forming if there is room.
    pub(crate) fn submit(&self, command: &Command, waker: &Waker) -> Result<Ticket, ClientError> {
        let deadline = Instant::now() + self.deadline;
        let mut state = self.lock();
        let ticket = state.open_slot(waker.clone(), deadline, self.calls_max)?;
        let was_empty = state.queue.is_empty();
        if let Some(Outgoing::Forming { body, tickets }) = state.queue.back_mut()
            && tickets.len() < self.batch_records_max
        {
            records::write(command, body);
            tickets.push(ticket);
        } else {
            let mut body = state.spare_bodies.pop().unwrap_or_default();
            let mut tickets = state.spare_tickets.pop().unwrap_or_default();
            body.clear();
            body.resize(HEADER_LEN, 0);
            records::write(command, &mut body);
            tickets.push(ticket);
            state.queue.push_back(Outgoing::Forming { body, tickets });
        }
        drop(state);
        if was_empty {
            self.work.notify_one();
        }
        Ok(ticket)
    }

    /// Puts a caller's own batch in line.
    pub(crate) fn submit_batch(&self, batch: SealedBatch, waker: &Waker) -> Result<Ticket, ClientError> {
        let deadline = Instant::now() + self.deadline;
        let mut state = self.lock();
        let ticket = state.open_slot(waker.clone(), deadline, self.calls_max)?;
        state.queue.push_back(Outgoing::Whole { batch, ticket });
        drop(state);
        self.work.notify_one();
        Ok(ticket)
    }

    /// Picks up the answer, or leaves word whom to wake.
    pub(crate) fn poll(&self, ticket: Ticket, context: &Context<'_>) -> Poll<Result<Answer, ClientError>> {
        let mut state = self.lock();
        let slot = state.slot(ticket).expect("a slot is kept until its answer was picked up");
        match std::mem::replace(&mut slot.stage, Stage::Free) {
            Stage::Done(result) => {
                state.close_slot(ticket);
                Poll::Ready(result)
            }
            Stage::Waiting(waker) => {
                let waker = waker.filter(|waker| waker.will_wake(context.waker()));
                slot.stage = Stage::Waiting(Some(waker.unwrap_or_else(|| context.waker().clone())));
                Poll::Pending
            }
            Stage::Free => unreachable!("a free slot has another generation"),
        }
    }

    /// The caller has gone away. What was sent stays sent.
    pub(crate) fn leave(&self, ticket: Ticket) {
        let mut state = self.lock();
        match state.slot(ticket).map(|slot| &mut slot.stage) {
            Some(Stage::Waiting(waker)) => *waker = None,
            Some(Stage::Done(_)) => state.close_slot(ticket),
            Some(Stage::Free) | None => {}
        }
    }

    /// Waits for something to carry.
    pub(crate) async fn next(&self) -> Shipment {
        loop {
            if let Some(shipment) = self.take() {
                return shipment;
            }
            self.work.notified().await;
        }
    }

    fn take(&self) -> Option<Shipment> {
        let mut state = self.lock();
        let outgoing = state.queue.pop_front()?;
        let more = !state.queue.is_empty();
        drop(state);
        if more {
            self.work.notify_one();
        }
        Some(match outgoing {
            Outgoing::Forming { body, tickets } => Shipment::of_calls(body, tickets),
            Outgoing::Whole { batch, ticket } => Shipment::of_batch(batch, ticket),
        })
    }

    /// Until when somebody waits for this shipment; `None`: nobody does.
    pub(crate) fn last_deadline(&self, shipment: &Shipment) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.lock();
        let mut last = None;
        shipment.recipients.for_each(|ticket| last = last.max(state.deadline(ticket, now)));
        last
    }

    /// Leaves out of the shipment who waits no more, and notes that the others may happen from now on. `false`:
    /// nobody is left.
    pub(crate) fn begin_attempt(&self, shipment: &mut Shipment) -> bool {
        let now = Instant::now();
        let mut state = self.lock();
        if !shipment.recipients.all(|ticket| state.deadline(ticket, now).is_some()) {
            shipment.keep(|ticket| state.deadline(ticket, now).is_some());
        }
        shipment.recipients.for_each(|ticket| {
            if let Some(slot) = state.slot(ticket) {
                slot.fate = Fate::MayHaveHappened(Cause::Timeout);
            }
        });
        !shipment.recipients.is_empty()
    }

    /// Notes how an attempt, or the way to one, ended without a reply.
    pub(crate) fn note(&self, shipment: &Shipment, fate: Fate) {
        let mut state = self.lock();
        shipment.recipients.for_each(|ticket| {
            if let Some(slot) = state.slot(ticket) {
                slot.fate = fate;
            }
        });
    }

    /// Hands out the replies, of which there are as many as records.
    pub(crate) fn deliver(&self, shipment: Shipment, replies: Vec<Reply>, wakers: &mut Vec<Waker>) {
        let mut state = self.lock();
        match shipment.recipients {
            Recipients::Batch { ticket, .. } => {
                wakers.extend(ticket.and_then(|ticket| state.end(ticket, Ok(Answer::Many(replies)))));
            }
            Recipients::Calls(mut tickets) => {
                for (ticket, reply) in tickets.iter().zip(replies) {
                    wakers.extend(state.end(*ticket, Ok(Answer::One(reply))));
                }
                tickets.clear();
                if state.spare_bodies.len() < SPARE_BODIES_MAX {
                    state.spare_tickets.push(tickets);
                    // Without another owner this is the very buffer that was filled.
                    state.spare_bodies.extend(shipment.body.is_unique().then(|| shipment.body.into()));
                }
            }
        }
        drop(state);
        wakers.drain(..).for_each(Waker::wake);
    }

    /// Tells all recipients that the hub does not take what they sent.
    pub(crate) fn refuse(&self, shipment: &Shipment, error: &ClientError) {
        let mut wakers = Vec::new();
        let mut state = self.lock();
        shipment.recipients.for_each(|ticket| wakers.extend(state.end(ticket, Err(error.clone()))));
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends the calls whose deadline has passed. Says when to look again: since every call has the same time, no
    /// call made after this can be due before that.
    pub(crate) fn end_overdue(&self, now: Instant) -> Instant {
        let mut wakers = Vec::new();
        let mut state = self.lock();
        let mut next = now + self.deadline;
        for index in 0..state.slots.len() {
            let slot = &state.slots[index];
            if !matches!(slot.stage, Stage::Waiting(_)) {
                continue;
            }
            if slot.deadline > now {
                next = next.min(slot.deadline);
                continue;
            }
            let error = slot.fate.error();
            let ticket = Ticket {
                index: u32::try_from(index).expect("calls_max bounds the slots"),
                generation: slot.generation,
            };
            wakers.extend(state.end(ticket, Err(error)));
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        next.max(now + DEADLINE_LOOK_MIN)
    }
}
