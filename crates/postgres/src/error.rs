//! What can go wrong with the database, sorted by what is to be done about it.

use postgres::error::SqlState;

/// Why a step could not be done. Nothing of it has happened, unless the connection was lost during the commit: then
/// the guard's offset tells.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server is not there, or cut the connection; in words. Connect again and claim anew.
    #[error("{0}")]
    Unavailable(String),
    /// The address says nothing that can be understood. It may hold a password, and is not repeated.
    #[error("the address of PostgreSQL cannot be read: {0}; write postgres://USER@HOST:PORT/DATABASE")]
    Address(String),
    /// Others were in the way, more often than is tolerated. Try again.
    #[error("gave up after {attempts} attempts because of concurrent work: {}", words(cause))]
    Busy {
        /// How often it was tried.
        attempts: u32,
        /// The last refusal.
        cause: postgres::Error,
    },
    /// A value that the database refuses.
    #[error("PostgreSQL refuses a value: {}", words(.0))]
    Refused(postgres::Error),
    /// The schema is not what this program expects, or the server is in trouble.
    #[error("PostgreSQL cannot do this: {}; check the schema's version and the server's log", words(.0))]
    Broken(postgres::Error),
    /// A stored number that cannot be.
    #[error("{table} holds what cannot be: {what}; run `holdfast verify`")]
    Corrupt {
        /// Where.
        table: &'static str,
        /// What.
        what: String,
    },
    /// A number that is fixed for life differs from the settings.
    #[error(
        "{name} is {stored} in this database and {wanted} in the settings; it is fixed for life, set it to {stored}"
    )]
    Fixed {
        /// The setting.
        name: String,
        /// What was stored when the database was first used.
        stored: i64,
        /// What the settings say.
        wanted: i64,
    },
    /// Other nodes work, or checkouts are open, with another opinion about who serves the sides of checkouts.
    #[error(
        "{how}; all nodes must say the same. To change it, start the nodes as \
         before until no checkout is open and all is sent (now {open} checkouts are open, {unsent} sources have unsent messages), \
         end all of them ({nodes} live), and start this one again, after kill -9 10 seconds later"
    )]
    Sides {
        /// In what they differ.
        how: String,
        /// How many checkouts are open.
        open: i64,
        /// How many sources of messages have not sent all of them.
        unsent: i64,
        /// How many nodes live, this one not included.
        nodes: i64,
    },
    /// Others claim a partition again and again.
    #[error(
        "partition {partition} of {topic} is claimed by other nodes again and again; start again when they have started"
    )]
    Contended {
        /// Its topic.
        topic: &'static str,
        /// Which one.
        partition: u32,
    },
    /// Checkouts cannot charge what this node was told to charge; in words.
    #[error("{0}")]
    Charging(String),
    /// A message of a version that this program does not know. Burying it would lose it for the program that does.
    #[error(
        "the message at offset {offset} has version {version}, this program knows {known}; nothing behind it is decided \
         until this node runs a newer holdfast",
        known = holdfast_messages::VERSION
    )]
    Newer {
        /// Where it lies in its partition.
        offset: u64,
        /// Its version.
        version: u64,
    },
    /// A data set that cannot be generated.
    #[error("cannot generate this: {0}")]
    DataSet(&'static str),
    /// Nobody has set up this database.
    #[error("there is no Holdfast schema in this database; check its name, or start a node on it once")]
    NoSchema,
    /// The schema is older than this program, and it is not for whoever only looks to change that.
    #[error(
        "the schema has version {found}, this program has {known}: use the holdfast that the nodes run, or start a newer node"
    )]
    TooOld {
        /// The schema's version.
        found: i32,
        /// This program's.
        known: i32,
    },
    /// The schema is newer than this program.
    #[error("the schema has version {found}, this program knows {known}; use a newer holdfast")]
    TooNew {
        /// The schema's version.
        found: i32,
        /// The newest one known.
        known: i32,
    },
}

/// Whether another transaction was first: once more, and if that does not help, it is the message's own fault.
pub(crate) fn is_conflict(error: &postgres::Error) -> bool {
    error.code() == Some(&SqlState::UNIQUE_VIOLATION)
}

/// Whether a statement was ended because it took too long. (A lock that is waited for in vain is told otherwise.)
pub(crate) fn took_too_long(error: &postgres::Error) -> bool {
    error.code() == Some(&SqlState::QUERY_CANCELED)
}

/// Whether a lock was waited for as long as this connection may.
pub(crate) fn waited_in_vain(error: &postgres::Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// The server's own words, or else the innermost reason: the client's alone say little more than where it stood.
pub(crate) fn words(error: &postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return said.message().to_owned();
    }
    let mut reason: &dyn std::error::Error = error;
    while let Some(deeper) = reason.source() {
        reason = deeper;
    }
    reason.to_string()
}

fn is_io(source: &(dyn std::error::Error + 'static)) -> bool {
    source.downcast_ref::<std::io::Error>().is_some()
}

impl From<postgres::Error> for Error {
    fn from(error: postgres::Error) -> Error {
        let lost =
            |error| Error::Unavailable(format!("the connection to PostgreSQL was lost: {}", words(error)));
        let Some(state) = error.code() else {
            // Values that cannot even be put into bytes are told by the client, not by the server.
            let is_lost = error.is_closed() || std::error::Error::source(&error).is_none_or(is_io);
            return if is_lost { lost(&error) } else { Error::Refused(error) };
        };
        match *state {
            SqlState::T_R_SERIALIZATION_FAILURE
            | SqlState::T_R_DEADLOCK_DETECTED
            | SqlState::LOCK_NOT_AVAILABLE
            | SqlState::QUERY_CANCELED => return Error::Busy { attempts: 1, cause: error },
            _ => {}
        }
        match state.code().get(..2) {
            Some("22" | "23" | "54") => Error::Refused(error),
            // Connection, resources, operator, system, and a transaction that idled for too long.
            Some("08" | "53" | "57" | "58" | "25") => lost(&error),
            _ => Error::Broken(error),
        }
    }
}

/// What the function `token_race` says.
const RACE: &str = "another node was first";

impl Error {
    /// Whether a statement undid itself because another node was first, again and again: what it is about is not as it
    /// thought. Anything else that keeps it from being done passes.
    #[must_use]
    pub fn is_race(&self) -> bool {
        let Error::Busy { cause, .. } = self else { return false };
        cause.as_db_error().is_some_and(|told| told.message() == RACE)
    }

    pub(crate) fn corrupt(table: &'static str, what: impl ToString) -> Error {
        Error::Corrupt { table, what: what.to_string() }
    }
}
