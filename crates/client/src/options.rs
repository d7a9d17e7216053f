//! Every bound of the client, with its name, unit and default.

use std::time::Duration;

/// Where a hub listens unless told otherwise.
pub const ADDRESS_DEFAULT: &str = "127.0.0.1:4000";
/// Connections, and so requests in flight at once. More than a few only make batches smaller.
pub const CONNECTIONS_DEFAULT: usize = 3;
/// Records in one request; the hub takes no more than this.
pub const BATCH_RECORDS_MAX: usize = holdfast_domain::records::batch::RECORDS_MAX;
/// Calls that may wait for an answer at once; one more is refused at once, before anything is sent.
pub const CALLS_MAX_DEFAULT: usize = 65_536;
/// How long a call may take with all its attempts.
pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(10);
/// How long one attempt may take; then its connection is given up and another attempt made.
pub const ATTEMPT_MAX_DEFAULT: Duration = Duration::from_secs(3);
/// The pause after a first failed attempt, before jitter. It doubles with each further one.
pub const BACKOFF_MIN: Duration = Duration::from_millis(10);
/// The longest pause between two attempts, unless the hub asks for more with `Retry-After`.
pub const BACKOFF_MAX: Duration = Duration::from_millis(500);
/// Bytes of a view (`Client::get`) that are read at most.
pub const VIEW_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of a refusal's text that are kept.
pub const REFUSAL_BYTES_MAX: usize = 4_096;

/// How a client behaves.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientOptions {
    /// Host and port, see [`ADDRESS_DEFAULT`].
    pub address: String,
    /// The key that a hub with keys asks for.
    pub api_key: Option<String>,
    /// See [`CONNECTIONS_DEFAULT`].
    pub connections: usize,
    /// See [`BATCH_RECORDS_MAX`].
    pub batch_records_max: usize,
    /// See [`CALLS_MAX_DEFAULT`].
    pub calls_max: usize,
    /// See [`DEADLINE_DEFAULT`].
    pub deadline: Duration,
    /// See [`ATTEMPT_MAX_DEFAULT`].
    pub attempt_max: Duration,
    /// From where the jitter of the pauses comes: equal seeds pause equally.
    pub jitter_seed: u64,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            address: ADDRESS_DEFAULT.to_owned(),
            api_key: None,
            connections: CONNECTIONS_DEFAULT,
            batch_records_max: BATCH_RECORDS_MAX,
            calls_max: CALLS_MAX_DEFAULT,
            deadline: DEADLINE_DEFAULT,
            attempt_max: ATTEMPT_MAX_DEFAULT,
            jitter_seed: 0,
        }
    }
}

impl std::fmt::Debug for ClientOptions {
    /// The key is not shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientOptions").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ClientOptions {
    /// The defaults for a hub at `address`.
    #[must_use]
    pub fn to(address: impl Into<String>) -> ClientOptions {
        ClientOptions { address: address.into(), ..ClientOptions::default() }
    }

    /// The same options with every number in the range that the client can work with.
    pub(crate) fn bounded(mut self) -> ClientOptions {
        self.connections = self.connections.max(1);
        self.batch_records_max = self.batch_records_max.clamp(1, BATCH_RECORDS_MAX);
        self.calls_max = self.calls_max.clamp(1, u32::MAX as usize);
        self
    }
}
