//! Every bound of delivery, with its name, unit and default.

use std::time::Duration;

/// Requests to one participant at once; as many idle connections to it are kept.
pub const LANE_IN_FLIGHT_MAX: usize = 32;
/// Callbacks of one participant that are held in memory. What comes on top stays in the store; the lane is filled up
/// from there when it has drained to the half.
pub const LANE_ROWS_MAX: usize = 8_192;
/// Callbacks of all participants together that are held in memory.
pub const LANES_ROWS_MAX: usize = 262_144;
/// So many of a participant may be held however many of the others are: if dead receivers fill the memory, those that
/// are well still get theirs.
pub const LANE_ROWS_MIN: usize = 4 * LANE_IN_FLIGHT_MAX;
/// Rows that are read from the store at a time.
pub const ROWS_READ_MAX: u64 = 4_096;
/// If rows cannot be read, try again after this.
pub const READ_AGAIN_PAUSE: Duration = Duration::from_secs(1);
/// Between two times that the hub is told which rows it may remove.
pub const REMOVE_INTERVAL: Duration = Duration::from_secs(5);
/// How long one attempt may take, from connecting to the end of the answer. The systems that participants know wait
/// as long.
pub const ATTEMPT_TIME_MAX: Duration = Duration::from_secs(20);
/// Attempts before a callback becomes a dead letter; with the pauses below about three minutes after the first.
pub const ATTEMPTS_MAX: u32 = 10;
/// The pause after the first failed attempt, before jitter. It doubles with each further one.
pub const PAUSE_MIN: Duration = Duration::from_millis(500);
/// The longest pause between two attempts.
pub const PAUSE_MAX: Duration = Duration::from_secs(60);
/// So many failures in a row, of whichever callbacks, and a participant counts as troubled until one succeeds.
pub const TROUBLED_AFTER_FAILURES: u32 = 16;
/// Between the starts of two requests to a troubled participant: an address that refuses everything at once must not
/// cost the others their share of the machine.
pub const TROUBLED_PAUSE: Duration = Duration::from_millis(20);
/// When the hub is too busy to say what a message must contain, ask again after this.
pub const HUB_BUSY_PAUSE: Duration = Duration::from_millis(100);
/// How long requests under way may go on after the server was asked to end.
pub const END_WAIT_MAX: Duration = Duration::from_secs(5);
/// Bytes of a participant's answer that are read, in order to use the connection again.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How long a participant may take for the rest of its answer after the status; then the connection is closed.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);
/// Connections to all participants together. Hanging receivers must not use up the files that the hub itself needs.
pub const CONNECTIONS_OUT_MAX: usize = 4_096;
/// How long a callback waits for a place among them before it rests a while.
pub const PLACE_WAIT_MAX: Duration = Duration::from_millis(200);
/// Bytes of large callbacks on their way to all participants together; what does not fit is tried again later.
pub const BYTES_OUT_MAX: usize = 128 * 1024 * 1024;
/// A callback up to this size does not count as large: the number of requests under way bounds those.
pub const SMALL_BODY_BYTES: usize = 64 * 1024;
/// An idle connection is not used again after this.
pub const CONNECTION_IDLE_MAX: Duration = Duration::from_secs(30);
/// Bytes of recent frames of the log that are kept for forwarding.
pub const FRAMES_KEPT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The reader that follows the log jumps ahead rather than read through more records than this.
pub const FRAMES_SKIPPED_RECORDS_MAX: u64 = 16_384;
/// With more than this waiting for a participant, the frames of new callbacks are not read ahead.
pub const READ_AHEAD_ROWS_MAX: usize = 4 * LANE_IN_FLIGHT_MAX;
/// Between two syncs of the files in `callbacks/`.
pub const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// The file of ended numbers is written anew when it is this long, in bytes.
pub const ENDED_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// It is also written anew when so many rows were read since: a restart reads them again.
pub const ENDED_ROWS_MAX: u64 = 1 << 20;
/// Characters that are kept of why an attempt failed.
pub const REASON_CHARS_MAX: usize = 256;

/// What an operator may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallbackOptions {
    /// See [`ATTEMPTS_MAX`].
    pub attempts_max: u32,
    /// See [`ATTEMPT_TIME_MAX`].
    pub attempt_time_max: Duration,
    /// See [`PAUSE_MIN`].
    pub pause_min: Duration,
    /// See [`PAUSE_MAX`].
    pub pause_max: Duration,
    /// See [`CONNECTIONS_OUT_MAX`].
    pub connections_max: usize,
    /// From where the jitter of the pauses comes: equal seeds pause equally.
    pub jitter_seed: u64,
}

impl Default for CallbackOptions {
    fn default() -> CallbackOptions {
        CallbackOptions {
            attempts_max: ATTEMPTS_MAX,
            attempt_time_max: ATTEMPT_TIME_MAX,
            pause_min: PAUSE_MIN,
            pause_max: PAUSE_MAX,
            connections_max: CONNECTIONS_OUT_MAX,
            jitter_seed: 0,
        }
    }
}
