//! A wall clock that jumped is not taken over: no frame is closed and every command is refused until it is back or
//! confirmed. And the time of frames never goes back.

use holdfast_domain::ids::Millis;
use holdfast_engine::Refusal;
use holdfast_engine::clock::Reading;
use holdfast_hub::Turn;

use crate::process::{Arrival, CLOCK_JUMP_MAX};
use crate::witness::Decided;

/// What this life of the hub has believed so far.
#[derive(Debug, Default)]
pub struct JumpedClockIsRefused {
    believed: Option<Reading>,
    last_frame: Millis,
}

impl JumpedClockIsRefused {
    /// Frames go forward in time.
    pub fn see(&mut self, frame: &Decided<'_>) -> Result<(), String> {
        let before = std::mem::replace(&mut self.last_frame, frame.header.time_ms);
        if frame.header.time_ms < before {
            return Err(format!("a frame of {} follows one of {before}", frame.header.time_ms));
        }
        Ok(())
    }

    /// A new life has believed nothing yet.
    pub const fn restarted(&mut self) {
        self.believed = None;
    }

    /// The operator confirmed the clock as it stands.
    pub const fn confirmed(&mut self, now: Reading) {
        self.believed = Some(now);
    }

    /// Whether the clock is to be refused now.
    pub fn is_jumped(&self, now: Reading) -> bool {
        match self.believed {
            Some(then) => {
                let gone = now.monotonic - then.monotonic;
                (now.wall - then.wall - gone).abs() > CLOCK_JUMP_MAX
            }
            None => self.last_frame - now.wall > CLOCK_JUMP_MAX,
        }
    }

    /// Judges a turn of a hub whose log has not failed, before its frame is shown by [`see`](Self::see).
    pub fn turned(&mut self, now: Reading, turn: Turn, arrivals: &[Arrival]) -> Result<(), String> {
        let refused = arrivals.iter().filter(|(_, answer)| matches!(answer, Err(Refusal::Clock(_)))).count();
        if self.is_jumped(now) {
            return if turn == Turn::Idle && refused == arrivals.len() {
                Ok(())
            } else {
                Err(format!("{now:?} was taken over after {:?}: {turn:?}", self.believed))
            };
        }
        self.believed = Some(now);
        if refused == 0 { Ok(()) } else { Err(format!("{now:?} was refused after {:?}", self.believed)) }
    }

    /// The time that a frame closed now must carry.
    pub fn frame_time(&self, now: Reading) -> Millis {
        self.last_frame.max(now.wall)
    }
}
