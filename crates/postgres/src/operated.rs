//! The operator's messages that were decided: one that lies in its topic twice is decided once.
//!
//! Transfers and movements of funds have ids, and a repeat finds their rows. A limit, a flag or a withdrawal that was refused
//! leaves nothing that would tell a repeat, and an older limit must not come back over a newer one. So the digests of
//! these messages are kept for a while; their trace ids make them different from all others.

use std::collections::BTreeSet;

use holdfast_domain::ids::Millis;
use holdfast_messages::{PositionMessage, PositionWork, TraceId};
use postgres::Transaction;

use crate::Error;
use crate::incoming::Incoming;
use crate::types::Moment;

/// For how long a message that was decided is remembered.
pub const OPERATOR_MESSAGES_KEPT: Millis = 30 * 24 * 3_600_000;
/// How many old ones are forgotten at a time.
const FORGOTTEN_AT_ONCE: i64 = 1_000;

/// What tells a message from all others; none for a step of a transfer, or where nobody has given it a trace.
fn digest(incoming: &Incoming<PositionMessage>) -> Option<[u8; 32]> {
    let message = incoming.message.as_ref().ok()?;
    let counts = matches!(message.work, PositionWork::Admin(_)) && message.trace != TraceId::NOBODY;
    counts.then(|| *blake3::hash(&incoming.body).as_bytes())
}

/// The operator's messages of a batch, and which were met before.
#[derive(Default)]
pub(crate) struct Operated {
    known: BTreeSet<[u8; 32]>,
    new: BTreeSet<[u8; 32]>,
}

impl Operated {
    /// Looks which of these were decided before.
    pub(crate) fn load(
        tx: &mut Transaction<'_>,
        messages: &[Incoming<PositionMessage>],
    ) -> Result<Operated, Error> {
        let digests: Vec<[u8; 32]> = messages.iter().filter_map(digest).collect();
        if digests.is_empty() {
            return Ok(Operated::default());
        }
        let asked: Vec<&[u8]> = digests.iter().map(<[u8; 32]>::as_slice).collect();
        let rows = tx.query("SELECT digest FROM operator_message WHERE digest = ANY($1)", &[&asked])?;
        let known = rows
            .iter()
            .map(|row| row.get::<_, &[u8]>(0).try_into())
            .collect::<Result<_, _>>()
            .map_err(|_| Error::corrupt("operator_message", "a digest"))?;
        Ok(Operated { known, new: BTreeSet::new() })
    }

    /// Whether the message was decided before, in an earlier batch or in this one. If not, it is from now on.
    pub(crate) fn is_repeat(&mut self, incoming: &Incoming<PositionMessage>) -> bool {
        digest(incoming).is_some_and(|digest| self.known.contains(&digest) || !self.new.insert(digest))
    }

    /// Remembers the new ones, and forgets some old ones.
    pub(crate) fn store(&self, tx: &mut Transaction<'_>, now: Millis) -> Result<(), Error> {
        if self.new.is_empty() {
            return Ok(());
        }
        let digests: Vec<&[u8]> = self.new.iter().map(<[u8; 32]>::as_slice).collect();
        tx.execute(
            "INSERT INTO operator_message (digest, decided_date) SELECT unnest($1::bytea[]), $2",
            &[&digests, &Moment(now)],
        )?;
        tx.execute(
            "DELETE FROM operator_message WHERE digest IN (
                 SELECT digest FROM operator_message WHERE decided_date < $1 ORDER BY decided_date LIMIT $2)",
            &[&Moment(now - OPERATOR_MESSAGES_KEPT), &FORGOTTEN_AT_ONCE],
        )?;
        Ok(())
    }
}
