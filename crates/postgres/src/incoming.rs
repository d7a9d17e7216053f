//! What comes in: the messages of one partition, with their bytes.

use holdfast_messages::{DeadLetter, Message, Place, Poison, TraceId};

use crate::batch::Readable;
use crate::guard::Source;
use crate::outbox::{DeadRow, Outbox};

/// One message of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming<M> {
    /// Where it lies in its partition.
    pub offset: u64,
    /// Its key, for the dead letters.
    pub key: Vec<u8>,
    /// Its bytes, for the dead letters.
    pub body: Vec<u8>,
    /// What it says, or why it cannot be read: then it becomes a dead letter.
    pub message: Result<M, Poison>,
}

impl<M: Message> Incoming<M> {
    /// Reads what lies there.
    #[must_use]
    pub fn read(offset: u64, key: Vec<u8>, body: Vec<u8>) -> Incoming<M> {
        let message = M::read(&key, &body);
        Incoming { offset, key, body, message }
    }

    /// The request it came with. Poison tells it too, if it can be made out.
    #[must_use]
    pub fn trace(&self) -> TraceId {
        self.message.as_ref().map_or_else(|_| TraceId::told_by(&self.body), Message::trace)
    }

    /// Its version, if that is newer than this program: such a message is no poison, it waits for a program that knows it.
    #[must_use]
    pub fn newer(&self) -> Option<u64> {
        self.message.as_ref().err().and_then(Poison::newer)
    }

    /// It cannot be processed.
    pub(crate) fn dead(&self, source: Source, reason: String) -> DeadRow<'_> {
        let Incoming { key, body, .. } = self;
        let mut letter = DeadLetter::of(source.table_name(), source.place(self.offset), key, body, reason);
        letter.trace = self.trace();
        DeadRow { letter, body }
    }
}

impl<'a> Outbox<'a> {
    /// What cannot be read becomes a dead letter, and all of them with a verdict; the others are to be decided.
    pub(crate) fn sort_out<M: Message>(
        &mut self,
        source: Source,
        messages: &'a [Incoming<M>],
        verdict: Option<&str>,
    ) -> Vec<Readable<'a, M>> {
        let mut readable = Vec::with_capacity(messages.len());
        for incoming in messages {
            match (&incoming.message, verdict) {
                (_, Some(verdict)) => self.bury(incoming.dead(source, verdict.to_owned())),
                (Err(poison), None) => self.bury(incoming.dead(source, poison.to_string())),
                (Ok(message), None) => readable.push((incoming, message)),
            }
        }
        readable
    }
}

impl Source {
    /// Where the message with that offset lies.
    pub(crate) fn place(self, offset: u64) -> Place {
        Place { partition: self.number(), offset }
    }
}
