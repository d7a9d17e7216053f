//! Who waits for which outcome.
//!
//! A request's trace ids are this node's number and a running one, so a notification tells at once whether somebody here
//! waits for it. Commands that came together have consecutive numbers and are answered together. The first notification
//! of a command is its outcome; repeats find nobody.

use std::collections::BTreeMap;
use std::time::Instant;

use holdfast_domain::effects::Outcome;
use holdfast_engine::{Answer, Monitor, Refusal};
use holdfast_messages::TraceId;

use crate::settings::IN_FLIGHT_MAX;

struct WaitingCall {
    outcomes: Vec<Option<Outcome>>,
    missing: usize,
    answer: Answer,
    deadline: Instant,
}

struct Room {
    /// By the number of the first command.
    waiting: BTreeMap<u64, WaitingCall>,
    commands: usize,
    next: u64,
    closed: bool,
}

/// Those who wait at this node.
pub(crate) struct WaitingRoom {
    node_id: u64,
    room: Monitor<Room>,
}

impl WaitingRoom {
    pub(crate) fn new(node_id: u64) -> WaitingRoom {
        let room = Room { waiting: BTreeMap::new(), commands: 0, next: 1, closed: false };
        WaitingRoom { node_id, room: Monitor::new(room) }
    }

    /// The trace id of a running number.
    pub(crate) fn trace(&self, number: u64) -> TraceId {
        TraceId(u128::from(self.node_id) << 64 | u128::from(number))
    }

    /// Numbers for commands for which nobody waits.
    pub(crate) fn numbers(&self, count: usize) -> u64 {
        let mut room = self.room.lock();
        let first = room.next;
        room.next += count as u64;
        first
    }

    /// Takes in a caller with so many commands, and tells the number of the first.
    pub(crate) fn enter(&self, count: usize, deadline: Instant, answer: Answer) -> Result<u64, Refusal> {
        let mut room = self.room.lock();
        if room.closed {
            return Err(Refusal::Closed("the node is shutting down".to_owned()));
        }
        // A caller with more than all may have is let in when nobody else is there.
        if room.commands > 0 && room.commands.saturating_add(count) > IN_FLIGHT_MAX {
            return Err(Refusal::Busy);
        }
        let first = room.next;
        room.next += count as u64;
        room.commands += count;
        let waiting = WaitingCall { outcomes: vec![None; count], missing: count, answer, deadline };
        room.waiting.insert(first, waiting);
        Ok(first)
    }

    /// A notification came. Whoever has all outcomes now is answered.
    pub(crate) fn tell(&self, trace: TraceId, outcome: Outcome) {
        let Ok(number) = u64::try_from(trace.0 ^ (u128::from(self.node_id) << 64)) else { return };
        let mut room = self.room.lock();
        let Some((first, waiting)) = room.waiting.range_mut(..=number).next_back() else { return };
        let first = *first;
        let place = usize::try_from(number - first).unwrap_or(usize::MAX);
        let Some(slot @ None) = waiting.outcomes.get_mut(place) else { return };
        *slot = Some(outcome);
        waiting.missing -= 1;
        if waiting.missing > 0 {
            return;
        }
        let Some(done) = room.leave(first) else { return };
        drop(room);
        let outcomes = done.outcomes.into_iter().map(|outcome| outcome.expect("none is missing")).collect();
        (done.answer)(Ok(outcomes));
    }

    /// The caller with that first command hears that nothing will come.
    pub(crate) fn fail(&self, first: u64, refusal: Refusal) {
        let left = self.room.lock().leave(first);
        if let Some(left) = left {
            (left.answer)(Err(refusal));
        }
    }

    /// That caller was not taken after all; its answer is not called.
    pub(crate) fn withdraw(&self, first: u64) {
        drop(self.room.lock().leave(first));
    }

    /// Those whose time is up hear that their outcome is not known.
    pub(crate) fn sweep(&self, now: Instant) {
        let mut room = self.room.lock();
        let late: Vec<u64> = room
            .waiting
            .iter()
            // All wait equally long: who came later is not late before who came first.
            .take_while(|(_, waiting)| waiting.deadline <= now)
            .map(|(first, _)| *first)
            .collect();
        let left: Vec<WaitingCall> = late.into_iter().filter_map(|first| room.leave(first)).collect();
        drop(room);
        for waiting in left {
            let done = waiting.outcomes.len() - waiting.missing;
            let why = format!("{done} of {} were decided in time", waiting.outcomes.len());
            (waiting.answer)(Err(Refusal::Unknown(why)));
        }
    }

    /// Nobody else gets in, and those who wait are told.
    pub(crate) fn close(&self) {
        let mut room = self.room.lock();
        room.closed = true;
        room.commands = 0;
        let left = std::mem::take(&mut room.waiting);
        drop(room);
        for waiting in left.into_values() {
            (waiting.answer)(Err(Refusal::Unknown("the node is shutting down".to_owned())));
        }
    }

    /// How many commands are waited for.
    pub(crate) fn commands(&self) -> usize {
        self.room.lock().commands
    }
}

impl Room {
    fn leave(&mut self, first: u64) -> Option<WaitingCall> {
        let left = self.waiting.remove(&first)?;
        self.commands -= left.outcomes.len();
        Some(left)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use holdfast_domain::codes::ErrorCode;
    use holdfast_domain::effects::Subject;

    use super::*;

    type Told = mpsc::Receiver<Result<Vec<Outcome>, Refusal>>;

    fn caller(room: &WaitingRoom, count: usize, deadline: Instant) -> (Result<u64, Refusal>, Told) {
        let (send, told) = mpsc::channel();
        let answer = Box::new(move |outcomes| send.send(outcomes).expect("the test listens"));
        (room.enter(count, deadline, answer), told)
    }

    fn outcome(number: u64) -> Outcome {
        Outcome { subject: Subject::Ended(number), ..Outcome::refused(ErrorCode::ClientError) }
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn outcomes_find_their_callers_in_any_order() {
        let room = WaitingRoom::new(7);
        let (one, one_told) = caller(&room, 1, later());
        let (three, three_told) = caller(&room, 3, later());
        let (one, three) = (one.unwrap(), three.unwrap());
        room.tell(room.trace(three + 2), outcome(2));
        room.tell(room.trace(three), outcome(0));
        room.tell(room.trace(three), outcome(9));
        room.tell(TraceId(8 << 64 | u128::from(three + 1)), outcome(9));
        assert!(three_told.try_recv().is_err(), "one is missing; a repeat and another node's do not count");
        room.tell(room.trace(three + 1), outcome(1));
        assert_eq!(three_told.try_recv().unwrap(), Ok(vec![outcome(0), outcome(1), outcome(2)]));
        room.tell(room.trace(one), outcome(5));
        assert_eq!(one_told.try_recv().unwrap(), Ok(vec![outcome(5)]));
        room.tell(room.trace(three + 7), outcome(5));
        assert_eq!(room.commands(), 0);
    }

    #[test]
    fn the_room_is_bounded_and_nobody_waits_for_ever() {
        let room = WaitingRoom::new(1);
        let (first, told) = caller(&room, IN_FLIGHT_MAX, Instant::now());
        first.unwrap();
        assert_eq!(caller(&room, 1, later()).0, Err(Refusal::Busy));
        room.sweep(Instant::now());
        assert!(matches!(told.try_recv().unwrap(), Err(Refusal::Unknown(why)) if why.starts_with("0 of")));
        let (second, told) = caller(&room, 1, later());
        room.fail(second.unwrap(), Refusal::TooLarge(9));
        assert_eq!(told.try_recv().unwrap(), Err(Refusal::TooLarge(9)));
        let (third, told) = caller(&room, 1, later());
        third.unwrap();
        room.close();
        assert!(matches!(told.try_recv().unwrap(), Err(Refusal::Unknown(_))));
        assert_eq!(caller(&room, 1, later()).0, Err(Refusal::Closed("the node is shutting down".to_owned())));
    }
}
