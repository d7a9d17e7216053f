//! Records and the commands they say, kept together: what the log stores is what was decided.

use super::{RecordError, UNIT, batch, read_all, seal, write};
use crate::command::Command;

/// Records as the log keeps them, with the commands that they were parsed to. The two cannot differ: a frame whose
/// bytes say something else than what was decided could never be replayed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sealed {
    bytes: Vec<u8>,
    commands: Vec<Command>,
}

/// Why a client's records were not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each error's text says what its fields are")]
pub enum SealError {
    /// More than one request may carry.
    #[error("{0} records are too many for one request; at most {max}", max = batch::RECORDS_MAX)]
    TooMany(usize),
    /// One of them, counted from 0, is malformed.
    #[error("record {index}: {error}")]
    Bad { index: usize, error: RecordError },
    /// There are more or fewer than announced.
    #[error("the header counts {announced} records, the body has {found}")]
    Count { announced: usize, found: usize },
}

/// Most records are not longer, and are written without growing the buffer.
const RECORD_BYTES_USUAL: usize = 4 * UNIT;

fn write_all(commands: &[Command]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(commands.len() * RECORD_BYTES_USUAL);
    commands.iter().for_each(|command| write(command, &mut bytes));
    bytes
}

impl Sealed {
    /// Takes what a client sent: checks every record and fills in the hashes.
    ///
    /// # Errors
    /// The first record that cannot be taken, or a count that is wrong.
    pub fn from_client(mut bytes: Vec<u8>, count: usize) -> Result<Sealed, SealError> {
        if count > batch::RECORDS_MAX {
            return Err(SealError::TooMany(count));
        }
        let mut commands = Vec::with_capacity(count);
        let mut at = 0;
        while at < bytes.len() {
            if commands.len() == count {
                return Err(SealError::Count { announced: count, found: count + 1 });
            }
            let sealed = seal(&mut bytes[at..]);
            let (command, length) =
                sealed.map_err(|error| SealError::Bad { index: commands.len(), error })?;
            commands.push(command);
            at += length;
        }
        if commands.len() != count {
            return Err(SealError::Count { announced: count, found: commands.len() });
        }
        Ok(Sealed { bytes, commands })
    }

    /// Writes commands as records. They are read back, so that what is decided is what the bytes say.
    ///
    /// # Panics
    /// If a command cannot be written as a record; the edges check before.
    #[must_use]
    pub fn of(commands: &[Command]) -> Sealed {
        let bytes = write_all(commands);
        let commands = read_all(&bytes).expect("what was written can be read");
        Sealed { bytes, commands }
    }

    /// The same for token commands of names and numbers alone ([`crate::tokens::TokenCommand::is_plain`]): there is only one way to write and
    /// to read those, so they are read back in debug builds only.
    ///
    /// # Panics
    /// If a command is not of that kind.
    #[must_use]
    pub fn of_plain(commands: Vec<Command>) -> Sealed {
        let is_plain = |command: &Command| matches!(command, Command::Token(command) if command.is_plain());
        assert!(commands.iter().all(is_plain), "only plain token commands are taken as they are");
        let bytes = write_all(&commands);
        debug_assert_eq!(
            read_all(&bytes).as_ref(),
            Ok(&commands),
            "a plain command is read as it was written"
        );
        Sealed { bytes, commands }
    }

    /// The records as the log keeps them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The commands, in order.
    #[must_use]
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Both.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, Vec<Command>) {
        (self.bytes, self.commands)
    }
}
