//! The bounds of the edge.

use std::time::Duration;

use holdfast_domain::records::{PREPARE_LEN, batch};
pub use holdfast_wire::limits::{
    PAGE_ROWS_MAX, SHOP_ID_CHARS_MAX as IDEMPOTENCY_KEY_CHARS_MAX, SHOP_INIT_MAX,
};

/// Connections served at once; more wait in the kernel's queue until one ends.
pub const CONNECTIONS_MAX: usize = 1_024;
/// Connections that wait in the kernel's queue until the server accepts; the kernel bounds them by `net.core.somaxconn`
/// as well. Beyond the queue a client waits whole seconds and tries again.
pub const BACKLOG: u32 = 4_096;
/// How long a client may take to open TLS.
pub const HANDSHAKE_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long a client may take to send the head of a request.
pub const HEAD_READ_MAX: Duration = Duration::from_secs(15);
/// How long a client may take to send a body.
pub const BODY_READ_MAX: Duration = Duration::from_secs(30);
/// How long a client may leave an answer unread; then its connection is given up.
pub const WRITE_STALL_MAX: Duration = Duration::from_secs(30);
/// Bytes of batch bodies being read and parsed at once; more are refused as busy before they are read.
pub const BODY_BYTES_MAX: usize = 128 * 1024 * 1024;
/// An FSPIOP body up to this size does not count there.
pub const SMALL_BODY_BYTES: usize = 64 * 1024;
/// The unit in which that is counted.
pub const BODY_PERMIT_BYTES: usize = 1_024;
/// File descriptors kept free for the hub itself: segments, their folder, the epoll and the listener.
pub const OWN_FILES: u64 = 64;
/// How long a caller waits for its answer; then the outcome is unknown to it (504).
pub const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);
/// How long open requests may go on after the server was asked to end.
pub const SHUTDOWN_WAIT_MAX: Duration = Duration::from_secs(10);
/// The largest body of a batch, in bytes.
pub const BATCH_BODY_MAX: usize = batch::HEADER_LEN + batch::RECORDS_MAX * PREPARE_LEN;
/// Checkouts of one batch that tokens are chosen for at a time.
pub const BATCH_CHECKOUTS_TOGETHER: usize = 256;
/// Checkouts of one batch that are under way at a time at a node of the database profile.
pub const NODE_CHECKOUTS_TOGETHER: usize = 2_048;
/// What a refused caller is told to wait.
pub const RETRY_AFTER_SECONDS: u32 = 1;
/// The largest body on the admin paths, in bytes.
pub const ADMIN_BODY_MAX: usize = 64 * 1024;
/// The largest body of a transfers message, in bytes, as the standard has it.
pub const FSPIOP_BODY_MAX: usize = 5_242_880;
/// The headers of a transfers message together, in bytes, as the standard has it.
pub const FSPIOP_HEADER_BYTES_MAX: usize = 65_536;
/// The longest `Prefer: wait`, in seconds; who asks for more gets this.
pub const PREFER_WAIT_SECONDS_MAX: u32 = 30;
/// How far ahead of the hub's clock a payee's `completedTimestamp` may lie, in milliseconds.
pub const COMPLETED_AHEAD_MAX: i64 = 200;
/// How far behind it, in milliseconds.
pub const COMPLETED_BEHIND_MAX: i64 = 300_000;
/// The largest body on the token paths, in bytes: as many tokens as one call may carry, of ordinary size.
pub const TOKENS_BODY_MAX: usize = 8 * 1024 * 1024;
/// How long such a call may take; then what was made stays, and the caller does not know how much that is (504).
pub const SHOP_INIT_WAIT_MAX: Duration = Duration::from_secs(120);
