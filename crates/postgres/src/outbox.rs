//! The outbox: what the steps of a source want sent, in order, until the relay has sent it. It keeps the very bytes that
//! are sent, so the relay reads nothing in them.
//!
//! A step also hands out what it has put there ([`Done::outbox`](crate::Done)), so that a relay need not read it back. The
//! table is for whoever comes after a failure.

use holdfast_domain::shop::Tally;
use holdfast_messages::{DeadLetter, Message, PartitionBy, Topic};

use crate::guard::{Guard, signed};
use crate::session::Store;
use crate::types::most;
use crate::{Claim, Error};

/// A message that waits to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRow {
    /// Its number within its source, without gaps.
    pub number: u64,
    /// Where it goes.
    pub topic: Topic,
    /// What decides on its partition.
    pub by: PartitionBy,
    /// Its key.
    pub key: String,
    /// What is sent.
    pub value: Vec<u8>,
}

/// Some messages that follow each other, as one row of the table.
pub(crate) struct OutboxPiece {
    /// The number of the first.
    pub(crate) number: i64,
    pub(crate) messages: i32,
    pub(crate) body: String,
}

impl OutboxRow {
    /// A message that gets its number with all others of its step.
    pub(crate) fn of<M: Message>(message: &M) -> OutboxRow {
        let (key, value) = (message.key(), message.to_json());
        OutboxRow { number: 0, topic: M::TOPIC, by: PartitionBy::of(message), key, value }
    }
}

/// A message that nobody can process.
pub(crate) struct DeadRow<'a> {
    pub(crate) letter: DeadLetter,
    /// All of its bytes; the letter has only their beginning.
    pub(crate) body: &'a [u8],
}

/// What a step sends, in order. Dead letters are among it, and are kept besides.
#[derive(Default)]
pub(crate) struct Outbox<'a> {
    /// What is to be sent.
    pub(crate) outgoing: Vec<OutboxRow>,
    pub(crate) dead_letters: Vec<DeadRow<'a>>,
    /// What is sent about checkouts, counted.
    pub(crate) tally: Tally,
}

impl<'a> Outbox<'a> {
    pub(crate) fn send<M: Message>(&mut self, message: &M) {
        self.outgoing.push(OutboxRow::of(message));
    }

    /// The same to a partition of that number, whatever its key says.
    pub(crate) fn send_to<M: Message>(&mut self, partition: u32, message: &M) {
        self.outgoing.push(OutboxRow { by: PartitionBy::Number(partition), ..OutboxRow::of(message) });
    }

    /// A dead letter is kept here and told to whoever reads the topic.
    pub(crate) fn bury(&mut self, dead: DeadRow<'a>) {
        self.send(&dead.letter);
        self.dead_letters.push(dead);
    }

    /// What was to be sent, with the numbers that it got in the outbox before the guard's.
    pub(crate) fn numbered(self, after: &Guard) -> Vec<OutboxRow> {
        let first = after.outbox_next - signed(self.outgoing.len() as u64);
        let first = u64::try_from(first).expect("they were counted");
        (first..).zip(self.outgoing).map(|(number, row)| OutboxRow { number, ..row }).collect()
    }
}

/// What decides on the partition, where that is not the key: a text or a number, as JSON.
fn by_written(by: &PartitionBy) -> Option<String> {
    match by {
        PartitionBy::Key => None,
        PartitionBy::Other(other) => Some(serde_json::to_string(other).expect("a string is JSON")),
        PartitionBy::Number(number) => Some(number.to_string()),
    }
}

fn by_read(text: Option<&str>) -> Option<PartitionBy> {
    let Some(text) = text else { return Some(PartitionBy::Key) };
    match serde_json::from_str(text).ok()? {
        serde_json::Value::String(other) => Some(PartitionBy::Other(other)),
        serde_json::Value::Number(number) => u32::try_from(number.as_u64()?).ok().map(PartitionBy::Number),
        _ => None,
    }
}

/// The messages of a batch as one text.
pub(crate) fn written(messages: &[OutboxRow]) -> String {
    let bytes = messages.iter().map(|message| message.key.len() + message.value.len() + 24).sum();
    let mut text = Vec::with_capacity(bytes);
    for OutboxRow { topic, by, key, value, .. } in messages {
        assert!(
            !value.contains(&b'\n') && !key.contains(['\t', '\n']),
            "JSON in one line, under a plain key"
        );
        text.extend_from_slice(topic.name().as_bytes());
        text.push(b'\t');
        text.extend_from_slice(key.as_bytes());
        text.push(b'\t');
        text.extend_from_slice(value);
        // JSON has no tabs in it, so what stands behind one is no part of the value.
        if let Some(by) = by_written(by) {
            text.push(b'\t');
            text.extend_from_slice(by.as_bytes());
        }
        text.push(b'\n');
    }
    // JSON is text, and has its NULs escaped.
    String::from_utf8(text).expect("keys and JSON are text")
}

/// The messages of a text, numbered from `first` on.
fn read(first: u64, text: &str) -> Result<Vec<OutboxRow>, Error> {
    let line = |(number, line): (u64, &str)| {
        let mut parts = line.splitn(4, '\t');
        let (topic, key, value) = (parts.next()?, parts.next()?, parts.next()?);
        let (key, value) = (key.to_owned(), value.as_bytes().to_vec());
        Some(OutboxRow { number, topic: Topic::from_name(topic)?, by: by_read(parts.next())?, key, value })
    };
    (first..)
        .zip(text.lines())
        .map(|numbered| {
            line(numbered)
                .ok_or_else(|| Error::corrupt("outbox", format!("the line of number {}", numbered.0)))
        })
        .collect()
}

impl Store {
    /// Up to `max` messages of the source that are not known to be sent, in order. None if the claim is no longer the
    /// latest: somebody else sends them.
    ///
    /// # Errors
    /// If the database fails, or holds what nobody can read.
    pub fn unsent(&mut self, claim: &Claim, max: usize) -> Result<Vec<OutboxRow>, Error> {
        let rows = self.client.query(
            "SELECT u.outbox_no, u.body, u.outbox_sent FROM (
                 SELECT o.outbox_no, o.body, s.outbox_sent,
                     sum(o.messages) OVER (ORDER BY o.outbox_no) - o.messages AS before
                 FROM segment s JOIN outbox o ON o.segment_id = s.segment_id
                     AND o.outbox_no + o.messages > s.outbox_sent
                 WHERE s.segment_id = $1 AND s.epoch = $2
             ) u WHERE u.before < $3 ORDER BY u.outbox_no",
            &[&claim.segment_id, &claim.epoch, &most(max)],
        )?;
        let mut unsent = Vec::new();
        for row in &rows {
            let (first, sent) = (crate::guard::unsigned("outbox", row.get(0))?, row.get::<_, i64>(2));
            let sent = crate::guard::unsigned("segment", sent)?;
            // Of the first batch a part may be sent.
            unsent.extend(read(first, row.get(1))?.into_iter().filter(|message| message.number >= sent));
        }
        unsent.truncate(max);
        Ok(unsent)
    }

    /// Everything of the source below number `upto` was sent, and goes. `false`: the claim is no longer the latest, and
    /// nothing happened. It need not be on the disk at once: what is forgotten in a crash is sent once more.
    pub fn mark_sent(&mut self, claim: &Claim, upto: u64) -> Result<bool, Error> {
        let upto = signed(upto);
        let mut tx = self.client.transaction()?;
        let ours = tx.query_opt(
            "UPDATE segment SET outbox_sent = greatest(outbox_sent, $3)
             WHERE segment_id = $1 AND epoch = $2 AND outbox_next >= $3
             RETURNING set_config('synchronous_commit', 'off', true)",
            &[&claim.segment_id, &claim.epoch, &upto],
        )?;
        if ours.is_none() {
            return Ok(false);
        }
        tx.execute(
            "DELETE FROM outbox WHERE segment_id = $1 AND outbox_no + messages <= $2",
            &[&claim.segment_id, &upto],
        )?;
        tx.commit()?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let message = |number, topic, by, key: &str, value: &[u8]| OutboxRow {
            number,
            topic,
            by,
            key: key.into(),
            value: value.into(),
        };
        let messages = [
            message(40, Topic::Position, PartitionBy::Key, "7", br#"{"v":1,"text":"a\tb\nc"}"#),
            message(41, Topic::Notifications, PartitionBy::Key, "00-11", "{\"name\":\"Zoë\"}".as_bytes()),
            message(42, Topic::Pay, PartitionBy::Other("a\tb\n\"c".into()), "{}", b"{}"),
            message(43, Topic::Outcomes, PartitionBy::Number(7), "{}", b"{}"),
        ];
        assert_eq!(read(40, &written(&messages)).unwrap(), messages);
        assert!(read(0, "position\t7\n").is_err());
        assert!(read(0, "pay\t{}\t{}\t[]\n").is_err());
        assert!(read(0, "nowhere\t7\t{}\n").is_err());
        assert!(read(0, "").unwrap().is_empty());
    }
}
