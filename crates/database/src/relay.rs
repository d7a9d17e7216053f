//! The relay: what steps have put into the outbox is sent on, in order. It is sent from memory, of all sources together; after
//! a claim or a failure it begins again at the first row that is not known to be sent, as the table tells.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_kafka::{Producer, SendCause, SendError};
use holdfast_postgres::{Claim, Error, OutboxRow, Store};

use crate::health::Part;
use crate::meters::RelayMeters;
use crate::outboxes::{Outboxes, Work};
use crate::settings::{MARK_AFTER, NodeSettings, RELAY_ROWS, SEND_WAIT, TROUBLE_PAUSE};
use crate::stop::Stop;

/// How long the relay waits for something to send before it looks around.
const LOOK_EVERY: Duration = MARK_AFTER;

/// Why a source could not be sent for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error(transparent)]
    Store(#[from] Error),
    #[error("Kafka does not take what is to be sent: {0}")]
    Kafka(SendCause),
}

pub(crate) struct Relay {
    pub(crate) settings: Arc<NodeSettings>,
    pub(crate) outboxes: Arc<Outboxes>,
    pub(crate) producer: Producer,
    pub(crate) part: Arc<Part>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) meters: RelayMeters,
}

impl Relay {
    /// Sends until the outboxes has ended and nothing rings any more.
    pub(crate) fn run(mut self) {
        self.work();
        self.outboxes.abandon();
    }

    fn work(&mut self) {
        let mut store: Option<Store> = None;
        while let Some(works) = self.outboxes.take(LOOK_EVERY) {
            let (handed, to_look): (Vec<Work>, Vec<Work>) =
                works.into_iter().partition(|work| work.rows.is_some());
            let handed: Vec<(Claim, Vec<OutboxRow>)> =
                handed.into_iter().filter_map(|work| Some((work.claim, work.rows?))).collect();
            let mut went = if handed.is_empty() { Ok(()) } else { self.send_handed(&handed) };
            for work in to_look {
                let drained = self.drain(&mut store, &work.claim);
                if drained.is_err() {
                    self.outboxes.ring(&work.claim);
                }
                went = went.and(drained);
            }
            went = went.and_then(|()| self.mark(&mut store));
            match went {
                Ok(()) => self.part.works(),
                Err(trouble) => {
                    if matches!(trouble, Trouble::Store(_)) {
                        store = None;
                    }
                    self.part.fails(&trouble);
                    self.meters.failures.increment(1);
                    if self.stop.pause(TROUBLE_PAUSE) {
                        // Whoever claims the sources next goes on with them.
                        return;
                    }
                }
            }
        }
        if let Err(trouble) = self.mark(&mut store) {
            tracing::warn!(%trouble, "what was sent is not marked; whoever claims the sources next sends it again");
        }
    }

    /// Sends what was handed over, of all sources at once. What Kafka does not take is looked up again.
    fn send_handed(&mut self, handed: &[(Claim, Vec<OutboxRow>)]) -> Result<(), Trouble> {
        let rows: Vec<&OutboxRow> = handed.iter().flat_map(|(_, rows)| rows).collect();
        let sent = self.send(&rows);
        let mut left = sent.as_ref().map_or_else(|error| error.first_unsent, |()| rows.len());
        self.meters.sent.increment(left as u64);
        for (claim, rows) in handed {
            let of_this = left.min(rows.len());
            left -= of_this;
            if let Some(last) = rows[..of_this].last() {
                self.outboxes.note_sent(claim, last.number + 1);
            }
            if of_this < rows.len() {
                self.outboxes.ring(claim);
            }
        }
        match sent {
            Err(error) if error.cause.may_pass() => Err(Trouble::Kafka(error.cause)),
            // What never fits is left out where the table is read.
            Err(_) | Ok(()) => Ok(()),
        }
    }

    /// Sends all of a source that the table holds, or as much as its claim allows.
    fn drain(&mut self, store: &mut Option<Store>, claim: &Claim) -> Result<(), Trouble> {
        let store = self.settings.connected(store)?;
        // Or what was sent from memory would be read again. Also where nothing was: the mark waits for the guard row, and so for
        // a commit whose answer was lost while the server was still at it.
        let sent = self.outboxes.sent(claim);
        if !self.marked(store, claim, sent)? {
            return Ok(());
        }
        loop {
            let rows = store.unsent(claim, RELAY_ROWS)?;
            let Some(first) = rows.first() else { return Ok(()) };
            let (sent, trouble) = match self.send(&rows.iter().collect::<Vec<_>>()) {
                Ok(()) => (rows.len(), None),
                // It will never fit; its rows stay in the database, and nothing behind it may wait for ever.
                Err(error) if !error.cause.may_pass() => {
                    let row = &rows[error.first_unsent];
                    tracing::error!(number = row.number, cause = %error.cause, "a message cannot be sent and is left out");
                    self.meters.left_out.increment(1);
                    (error.first_unsent + 1, None)
                }
                Err(error) => (error.first_unsent, Some(Trouble::Kafka(error.cause))),
            };
            if sent > 0 {
                self.meters.sent.increment(sent as u64);
                let upto = first.number + sent as u64;
                self.outboxes.note_sent(claim, upto);
                if !self.marked(store, claim, upto)? {
                    return Ok(());
                }
            }
            if let Some(trouble) = trouble {
                return Err(trouble);
            }
        }
    }

    /// Marks what no step has marked for a while.
    fn mark(&self, store: &mut Option<Store>) -> Result<(), Trouble> {
        let unmarked = self.outboxes.unmarked();
        if unmarked.is_empty() {
            return Ok(());
        }
        let store = self.settings.connected(store)?;
        for (claim, upto) in unmarked {
            self.marked(store, &claim, upto)?;
        }
        Ok(())
    }

    /// Marks as sent; `false`: the source is no longer ours.
    fn marked(&self, store: &mut Store, claim: &Claim, upto: u64) -> Result<bool, Trouble> {
        let ours = store.mark_sent(claim, upto)?;
        if ours {
            self.outboxes.note_marked(claim, upto);
        } else {
            // Not sent by this claim as far as the database knows: nothing to remember for whoever comes next.
            self.outboxes.note_marked(claim, u64::MAX);
            self.outboxes.remove(claim);
        }
        Ok(ours)
    }

    fn send(&mut self, rows: &[&OutboxRow]) -> Result<(), SendError> {
        let topics = &self.settings.topics;
        let outgoing: Vec<_> = rows
            .iter()
            .map(|row| topics.outgoing_by(row.topic, &row.by, row.key.as_bytes(), &row.value))
            .collect();
        self.producer.send_all(&outgoing, Instant::now() + SEND_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use holdfast_kafka::{From, PartitionBy, ProducerSettings, Reader, Topic, TopicSettings};
    use holdfast_postgres::Source;
    use holdfast_services::{Database, PATIENCE};

    use super::*;
    use crate::scene::servers;
    use crate::settings::FRESH;

    struct Scene {
        database: Database,
        settings: Arc<NodeSettings>,
        claim: Claim,
    }

    impl Scene {
        /// A source that is claimed, with one message in its outbox.
        fn new() -> Option<Scene> {
            let (database, settings) = servers("relay", 1)?;
            let settings = Arc::new(settings);
            let claim = settings.connect().unwrap().claim(&Source::Timeout(0)).unwrap();
            let mut sql = database.sql();
            sql.execute(
                "INSERT INTO outbox (segment_id, outbox_no, messages, body) VALUES ($1, 0, 1, E'position\t7\t{}\n')",
                &[&claim.segment_id],
            )
            .unwrap();
            sql.execute("UPDATE segment SET outbox_next = 1 WHERE segment_id = $1", &[&claim.segment_id])
                .unwrap();
            Some(Scene { database, settings, claim })
        }

        /// Hands the message over under a claim and lets a relay work until it has nothing left to do, or fails. How many
        /// messages lie in the topic then, and how many the relay believes to have sent.
        fn relayed_by(&self, settings: &Arc<NodeSettings>, claim: &Claim, since: Instant) -> (u64, u64) {
            let outboxes: Arc<Outboxes> = Arc::default();
            outboxes.put(*claim);
            // Nothing was left by anybody before.
            outboxes.take(Duration::ZERO).unwrap();
            let row = OutboxRow {
                number: 0,
                topic: Topic::Position,
                by: PartitionBy::Key,
                key: "7".into(),
                value: b"{}".to_vec(),
            };
            outboxes.hand_over(claim, vec![row], since);
            outboxes.end();
            let NodeSettings { brokers, topics, .. } = &**settings;
            let producer = Producer::new(ProducerSettings::new(brokers.clone(), topics.clone())).unwrap();
            let stop: Arc<Stop> = Arc::default();
            stop.set();
            let relay = Relay {
                settings: Arc::clone(settings),
                outboxes: Arc::clone(&outboxes),
                producer,
                part: Part::new("relay"),
                stop,
                meters: RelayMeters::new("relay"),
            };
            relay.run();
            let name = topics.name(Topic::Position);
            let reader = Reader::open(brokers, &name, &From::End, Instant::now() + PATIENCE).unwrap();
            (reader.next_offsets().iter().sum(), outboxes.sent(claim))
        }

        fn relayed(&self, claim: &Claim, since: Instant) -> u64 {
            self.relayed_by(&self.settings, claim, since).0
        }

        /// What the database knows as sent, and what waits.
        fn stored(&self) -> (i64, i64) {
            let sent = "SELECT outbox_sent FROM segment WHERE segment_type = 'timeout'";
            (self.database.count(sent), self.database.count("SELECT count(*) FROM outbox"))
        }
    }

    #[test]
    fn a_relay_that_was_paused_and_has_lost_its_epoch_sends_nothing() {
        let Some(scene) = Scene::new() else { return };
        let other = scene.settings.connect().unwrap().claim(&Source::Timeout(0)).unwrap();
        assert!(other.epoch > scene.claim.epoch);
        let before_the_pause = Instant::now().checked_sub(FRESH).unwrap();
        assert_eq!(scene.relayed(&scene.claim, before_the_pause), 0, "it is another's to send");
        assert_eq!(scene.database.count("SELECT count(*) FROM outbox"), 1, "nor is it marked as sent");
        assert_eq!(scene.relayed(&other, before_the_pause), 1, "the other one finds it in the table");
        assert_eq!(scene.database.count("SELECT count(*) FROM outbox"), 0);
    }

    #[test]
    fn what_was_just_committed_is_sent_once_and_marked() {
        let Some(scene) = Scene::new() else { return };
        assert_eq!(scene.relayed(&scene.claim, Instant::now()), 1);
        assert_eq!(scene.stored(), (1, 0));
    }

    /// Neither where it is sent from memory nor where it is read from the table.
    #[test]
    fn what_kafka_does_not_take_is_not_taken_for_sent() {
        let Some(scene) = Scene::new() else { return };
        // The topic has one partition, and another one is written to.
        let topics = TopicSettings { position: 12, ..scene.settings.topics.clone() };
        let refused = Arc::new(NodeSettings { topics, ..NodeSettings::clone(&scene.settings) });
        let long_ago = Instant::now().checked_sub(FRESH).unwrap();
        for since in [Instant::now(), long_ago] {
            assert_eq!(scene.relayed_by(&refused, &scene.claim, since), (0, 0));
            assert_eq!(scene.stored(), (0, 1));
        }
        assert_eq!(scene.relayed(&scene.claim, long_ago), 1, "it is sent as soon as Kafka takes it");
        assert_eq!(scene.stored(), (1, 0));
    }
}
