//! Every bound of the hub, with its name, unit and default.

use std::time::Duration;

use holdfast_domain::ids::Millis;
use holdfast_domain::positions::PrepareOrder;
use holdfast_domain::records::{self, batch};
use holdfast_engine::CheckoutTimes;
use holdfast_log::FRAME_PAYLOAD_MAX;

use crate::tokens::TokenOptions;

/// Records that one submission may carry.
pub const SUBMISSION_RECORDS_MAX: usize = batch::RECORDS_MAX;
/// Bytes of records that one submission may carry: one record of the longest kind.
pub const SUBMISSION_BYTES_MAX: usize = records::RECORD_BYTES_MAX;
/// Payload at which a frame is closed, in bytes. One submission may pass it; it is then a frame of its own.
pub const FRAME_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Commands that are decided one by one (tokens, operators) at which a frame is closed. They cost ten times what a payment
/// does: in frames of thousands, those who wait and the one who decides would take turns instead of working side by side.
pub const FRAME_LONE_COMMANDS_MAX: usize = 512;
/// Records that may wait in front of the writer; more are refused as busy.
pub const INTAKE_RECORDS_MAX: usize = 131_072;
/// Bytes of records that may wait in front of the writer.
pub const INTAKE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Submissions and queries that may wait in front of the writer.
pub const INTAKE_ITEMS_MAX: usize = 16_384;
/// Holds that one expiry record ends at most.
pub const EXPIRY_HOLDS_MAX: u32 = 4_096;
/// Where payments wait, an expiry record ends this part of that, so that mass expiry leaves room for them.
pub const EXPIRY_SHARE_BESIDE_PAYMENTS: u32 = 8;
/// How far the wall clock may move against the monotonic one between two frames.
pub const CLOCK_JUMP_MAX: Millis = 10_000;
/// Questions answered between two frames, at most; the others wait for the next turn.
pub const QUESTIONS_PER_TURN_MAX: usize = 64;
/// How often an idle hub looks at the clocks.
pub const CLOCK_LOOK_EVERY: Duration = Duration::from_secs(1);
/// Bytes of log after which a checkpoint is due. Fewer make a start faster and write more.
pub const CHECKPOINT_LOG_BYTES: u64 = 48 * 1024 * 1024;
/// A hold that expires counts as so many of them: a million bring a checkpoint of their own. More would be too many while
/// each copies what it shares with the holds that are still open.
pub const EXPIRED_LOG_BYTES: u64 = 64;
/// Bytes of log after which a checkpoint is due while a long log is replayed at the start.
pub const REPLAY_CHECKPOINT_BYTES: u64 = 4 * CHECKPOINT_LOG_BYTES;
/// Writes of the store that may wait for the disk, 256 KiB each; then the writer waits too.
pub const STORE_WRITES_WAITING_MAX: usize = 64;
/// How far checkpoints and merges step back behind payments: as `nice` has it.
pub const BACKGROUND_NICENESS: i32 = 10;
/// They rest after so much work.
pub const BACKGROUND_WORK_MIN: Duration = Duration::from_micros(500);
/// All rests of one job together: a checkpoint that takes long leaves more log for the next start.
pub const BACKGROUND_REST_MAX: Duration = Duration::from_millis(60);
/// Rows that one request of a filtered view looks at: it runs between two frames and must not hold up payments.
pub const ROWS_LOOKED_AT_MAX: usize = 10_000;

/// Whatever is taken fits a frame, with the expiry record in front of it.
const _: () = assert!(SUBMISSION_BYTES_MAX + records::UNIT <= FRAME_PAYLOAD_MAX);
const _: () = assert!(FRAME_BYTES_MAX + records::UNIT <= FRAME_PAYLOAD_MAX);

/// The bounds and options that can be configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HubOptions {
    /// In which order the prepares of a bin are tried (`position.order`).
    pub position_order: PrepareOrder,
    /// See [`FRAME_BYTES_MAX`].
    pub frame_bytes_max: usize,
    /// See [`INTAKE_RECORDS_MAX`].
    pub intake_records_max: usize,
    /// See [`INTAKE_BYTES_MAX`].
    pub intake_bytes_max: usize,
    /// See [`INTAKE_ITEMS_MAX`].
    pub intake_items_max: usize,
    /// See [`EXPIRY_HOLDS_MAX`].
    pub expiry_holds_max: u32,
    /// See [`CLOCK_JUMP_MAX`] (`clock.jump_max`).
    pub clock_jump_max: Millis,
    /// See [`CHECKPOINT_LOG_BYTES`] (`checkpoint.log_bytes`).
    pub checkpoint_log_bytes: u64,
    /// Days that the log is kept; 0: for ever (`retention.log_days`).
    pub retention_log_days: u32,
    /// The vault's own.
    pub tokens: TokenOptions,
    /// The shop's own.
    pub shop: CheckoutTimes,
}

impl Default for HubOptions {
    fn default() -> HubOptions {
        HubOptions {
            position_order: PrepareOrder::Arrival,
            frame_bytes_max: FRAME_BYTES_MAX,
            intake_records_max: INTAKE_RECORDS_MAX,
            intake_bytes_max: INTAKE_BYTES_MAX,
            intake_items_max: INTAKE_ITEMS_MAX,
            expiry_holds_max: EXPIRY_HOLDS_MAX,
            clock_jump_max: CLOCK_JUMP_MAX,
            checkpoint_log_bytes: CHECKPOINT_LOG_BYTES,
            retention_log_days: 0,
            tokens: TokenOptions::default(),
            shop: CheckoutTimes::default(),
        }
    }
}
