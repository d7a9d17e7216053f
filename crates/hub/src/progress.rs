//! How far a log has been taken in: what a checkpoint holds besides the rows.

use holdfast_domain::effects::Effects;
use holdfast_domain::ids::Millis;
use holdfast_domain::transfers::TransferState;
use holdfast_log::FrameHeader;

/// Counters by state, by its number; 0 is nobody's.
const STATES: usize = TransferState::ALL.len() + 1;

/// What has happened since the log began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Frames.
    pub frames: u64,
    /// Records.
    pub records: u64,
    /// Transfers that ever reached each state, by the state's number.
    pub reached: [u64; STATES],
    /// Dead letters of the position step.
    pub dead_letters: u64,
    /// Limit alarms.
    pub alarms: u64,
    /// Messages for participants that have registered no endpoint for them.
    pub callbacks_without_endpoint: u64,
}

impl Counts {
    /// How many transfers ever reached that state.
    #[must_use]
    pub const fn reached(&self, state: TransferState) -> u64 {
        self.reached[state.number() as usize]
    }

    pub(crate) fn add(&mut self, header: &FrameHeader, effects: &Effects) {
        self.frames += 1;
        self.records += u64::from(header.count);
        self.dead_letters += effects.all(|step| &step.dead_letters).count() as u64;
        self.alarms += effects.all(|step| &step.alarms).count() as u64;
        for change in effects.all(|step| &step.state_changes) {
            self.reached[usize::from(change.state.number())] += 1;
        }
    }
}

/// How far a log has been taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The offset after the last record decided.
    pub end: u64,
    /// The running hash.
    pub chain: [u8; 32],
    /// The time of the last frame.
    pub last_time: Millis,
    /// The rules that decided the last frame.
    pub rules_version: u32,
    /// The number of the next callback.
    pub next_callback: u64,
    /// What has happened so far.
    pub counts: Counts,
    /// CRC-32C of the last frame's payload: tells a sibling of the log, with which it shares all but its end, from it.
    pub last_frame: u32,
}

/// The form in which a checkpoint keeps it.
const VERSION: u32 = 1;
const BYTES: usize = 4 + 8 + 32 + 8 + 4 + 8 + 8 * (5 + STATES) + 4;

impl Progress {
    /// The bytes that a checkpoint keeps: little-endian, in the order of the fields, after a version.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let Counts { frames, records, reached, dead_letters, alarms, callbacks_without_endpoint } =
            self.counts;
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.end.to_le_bytes());
        bytes.extend_from_slice(&self.chain);
        bytes.extend_from_slice(&self.last_time.to_le_bytes());
        bytes.extend_from_slice(&self.rules_version.to_le_bytes());
        bytes.extend_from_slice(&self.next_callback.to_le_bytes());
        let counts = [frames, records, dead_letters, alarms, callbacks_without_endpoint];
        counts.iter().chain(&reached).for_each(|count| bytes.extend_from_slice(&count.to_le_bytes()));
        bytes.extend_from_slice(&self.last_frame.to_le_bytes());
        bytes
    }

    /// Reads what [`Progress::to_bytes`] wrote; `None` if it is of another version.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Progress> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("eight bytes"));
        let half = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("four bytes"));
        let mut reached = [0; STATES];
        for (at, count) in reached.iter_mut().enumerate() {
            *count = word(64 + 8 * (5 + at));
        }
        (half(0) == VERSION).then(|| Progress {
            end: word(4),
            chain: *bytes[12..].first_chunk().expect("32 bytes"),
            last_time: i64::from_le_bytes(*bytes[44..].first_chunk().expect("eight bytes")),
            rules_version: half(52),
            next_callback: word(56),
            counts: Counts {
                frames: word(64),
                records: word(72),
                dead_letters: word(80),
                alarms: word(88),
                callbacks_without_endpoint: word(96),
                reached,
            },
            last_frame: half(BYTES - 4),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_from_its_bytes() {
        let mut reached = [0; STATES];
        (0..).zip(&mut reached).for_each(|(at, count)| *count = 100 + at);
        let counts = Counts {
            frames: 1,
            records: 2,
            reached,
            dead_letters: 3,
            alarms: 4,
            callbacks_without_endpoint: 5,
        };
        let progress = Progress {
            end: 6,
            chain: [7; 32],
            last_time: -8,
            rules_version: 9,
            next_callback: 10,
            counts,
            last_frame: 11,
        };
        let bytes = progress.to_bytes();
        assert_eq!(Progress::from_bytes(&bytes), Some(progress));
        assert_eq!(Progress::from_bytes(&bytes[1..]), None);
        let mut later = bytes;
        later[0] += 1;
        assert_eq!(Progress::from_bytes(&later), None);
    }
}
