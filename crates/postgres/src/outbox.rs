//! The outbox: what the steps of a source want sent, in order, until the relay has sent it. It keeps the very bytes that
//! are sent, so the relay reads nothing in them.

use holdfast_messages::{Message, Topic};

use crate::session::Store;
use crate::{Claim, Error};

/// A message that waits to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRow {
    /// Its number within its source, without gaps.
    pub number: u64,
    /// Where it goes.
    pub topic: Topic,
    /// What decides on its partition.
    pub key: String,
    /// What is sent.
    pub value: Vec<u8>,
}

/// A message on its way into the outbox.
pub(crate) struct Outgoing {
    pub(crate) topic: Topic,
    pub(crate) key: String,
    pub(crate) value: Vec<u8>,
}

impl Outgoing {
    pub(crate) fn of<M: Message>(message: &M) -> Outgoing {
        Outgoing { topic: M::TOPIC, key: message.key(), value: message.to_json() }
    }
}

impl Store {
    /// Up to `max` messages of the source that are not known to be sent, in order. None if the claim is no longer the
    /// latest: somebody else sends them.
    ///
    /// # Errors
    /// If the database fails, or holds a topic that nobody knows.
    pub fn unsent(&mut self, claim: &Claim, max: usize) -> Result<Vec<OutboxRow>, Error> {
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        let rows = self.client.query(
            "SELECT o.outbox_no, o.topic, o.key, o.body
             FROM segment s JOIN outbox o ON o.segment_id = s.segment_id AND o.outbox_no >= s.outbox_sent
             WHERE s.segment_id = $1 AND s.epoch = $2 ORDER BY o.outbox_no LIMIT $3",
            &[&claim.segment_id, &claim.epoch, &max],
        )?;
        rows.iter()
            .map(|row| {
                let topic: &str = row.get(1);
                Ok(OutboxRow {
                    number: crate::guard::unsigned("outbox", row.get(0))?,
                    topic: Topic::from_name(topic)
                        .ok_or_else(|| Error::corrupt("outbox", format!("the topic '{topic}'")))?,
                    key: row.get(2),
                    value: row.get::<_, String>(3).into_bytes(),
                })
            })
            .collect()
    }

    /// Everything of the source below number `upto` was sent, and goes. `false`: the claim is no longer the latest, and
    /// nothing happened.
    ///
    /// # Errors
    /// If the database fails.
    pub fn mark_sent(&mut self, claim: &Claim, upto: u64) -> Result<bool, Error> {
        let upto = crate::guard::signed(upto);
        let mut tx = self.client.transaction()?;
        let ours = tx.execute(
            "UPDATE segment SET outbox_sent = greatest(outbox_sent, $3)
             WHERE segment_id = $1 AND epoch = $2 AND outbox_next >= $3",
            &[&claim.segment_id, &claim.epoch, &upto],
        )?;
        if ours == 0 {
            return Ok(false);
        }
        tx.execute(
            "DELETE FROM outbox WHERE segment_id = $1 AND outbox_no < $2",
            &[&claim.segment_id, &upto],
        )?;
        tx.commit()?;
        Ok(true)
    }
}
