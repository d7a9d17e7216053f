//! Which sources this node may send for, what they have to send, and how far that came.
//!
//! Whoever commits a step hands over what it has put into the outbox, so that the relay need not read it back; the table
//! tells only after a claim, after a failure, or when so much waits that it is not kept in memory. How much was sent goes
//! the other way: the next step of the source lets go of it in its own transaction.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use holdfast_engine::Monitor;
use holdfast_postgres::{Claim, OutboxRow};

use crate::settings::{FRESH, MARK_AFTER, RELAY_MEMORY_ROWS};

/// What was committed together.
#[derive(Debug)]
struct Handed {
    rows: Vec<OutboxRow>,
    /// When the step began: from then on the source may have got another owner.
    since: Instant,
}

/// A source, seen from the relay.
#[derive(Debug)]
struct SourceOutbox {
    claim: Claim,
    handed: VecDeque<Handed>,
    rows: usize,
    /// The table has to be asked.
    look: bool,
    /// All below this number was sent, as far as this node knows.
    sent: u64,
    /// All below this number is known as sent to the database.
    marked: u64,
    sent_at: Instant,
}

impl SourceOutbox {
    fn new(claim: Claim) -> SourceOutbox {
        let handed = VecDeque::new();
        SourceOutbox { claim, handed, rows: 0, look: true, sent: 0, marked: 0, sent_at: Instant::now() }
    }

    fn rings(&self) -> bool {
        self.look || !self.handed.is_empty()
    }

    /// What is in memory is in the table, too.
    fn look(&mut self) {
        self.handed.clear();
        self.rows = 0;
        self.look = true;
    }
}

#[derive(Debug, Default)]
struct OutboxesState {
    /// By the number of the source.
    sources: BTreeMap<i32, SourceOutbox>,
    /// Sent for claims that are given up, and not marked.
    farewells: Vec<(Claim, u64)>,
    over: bool,
    /// The relay is at work on what it took.
    at_work: bool,
    /// The relay has ended.
    abandoned: bool,
}

/// What a source has to send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) claim: Claim,
    /// In order, committed a moment ago; `None`: the table tells.
    pub(crate) rows: Option<Vec<OutboxRow>>,
}

/// Between those who claim sources and the relay that sends for them.
#[derive(Debug, Default)]
pub(crate) struct Outboxes {
    state: Monitor<OutboxesState>,
}

impl Outboxes {
    /// Does something to the source of that claim, if it is still the latest here.
    fn with<R>(&self, claim: &Claim, change: impl FnOnce(&mut SourceOutbox) -> R) -> Option<R> {
        let mut state = self.state.lock();
        let source = state.sources.get_mut(&claim.segment_id)?;
        (source.claim.epoch == claim.epoch).then(|| change(source))
    }

    /// A source was claimed. The one who had it before may have left something.
    pub(crate) fn put(&self, claim: Claim) {
        self.state.change(|state| state.sources.insert(claim.segment_id, SourceOutbox::new(claim)));
    }

    /// That claim is no longer ours; a later one of the same source stays.
    pub(crate) fn remove(&self, claim: &Claim) {
        let mut state = self.state.lock();
        if state.sources.get(&claim.segment_id).is_some_and(|known| known.claim.epoch == claim.epoch)
            && let Some(source) = state.sources.remove(&claim.segment_id)
            && source.sent > source.marked
        {
            state.farewells.push((source.claim, source.sent));
            drop(state);
            self.state.notify_all();
        }
    }

    /// A step that began then has committed this. It is in the table, so nothing is lost if there is no room here.
    pub(crate) fn hand_over(&self, claim: &Claim, rows: Vec<OutboxRow>, since: Instant) {
        if rows.is_empty() {
            return;
        }
        let taken = self.with(claim, |source| {
            if source.look || source.rows + rows.len() > RELAY_MEMORY_ROWS {
                source.look();
            } else {
                source.rows += rows.len();
                source.handed.push_back(Handed { rows, since });
            }
        });
        if taken.is_some() {
            self.state.notify_all();
        }
    }

    /// The source may have something in the table that was not handed over.
    pub(crate) fn ring(&self, claim: &Claim) {
        if self.with(claim, SourceOutbox::look).is_some() {
            self.state.notify_all();
        }
    }

    /// How much of the source's outbox was sent.
    pub(crate) fn sent(&self, claim: &Claim) -> u64 {
        self.with(claim, |source| source.sent).unwrap_or(0)
    }

    /// All below this number was sent.
    pub(crate) fn note_sent(&self, claim: &Claim, upto: u64) {
        self.with(claim, |source| {
            source.sent = source.sent.max(upto);
            source.sent_at = Instant::now();
        });
    }

    /// The database knows that all below this number was sent.
    pub(crate) fn note_marked(&self, claim: &Claim, upto: u64) {
        self.with(claim, |source| source.marked = source.marked.max(upto));
    }

    /// What was sent a while ago, and no step of its source has marked; and what was sent for claims that are given up.
    pub(crate) fn unmarked(&self) -> Vec<(Claim, u64)> {
        let mut state = self.state.lock();
        let over = state.over;
        let mut unmarked = std::mem::take(&mut state.farewells);
        let left = |source: &&SourceOutbox| {
            source.sent > source.marked && (over || source.sent_at.elapsed() >= MARK_AFTER)
        };
        unmarked.extend(state.sources.values().filter(left).map(|source| (source.claim, source.sent)));
        unmarked
    }

    /// Waits for sources with something to send, and takes it. `None` when it is over and nothing rings.
    pub(crate) fn take(&self, most: Duration) -> Option<Vec<Work>> {
        let rings = |state: &OutboxesState| state.sources.values().any(SourceOutbox::rings);
        let idle = |state: &mut OutboxesState| !rings(state) && state.farewells.is_empty() && !state.over;
        let mut state = self.state.lock();
        if std::mem::take(&mut state.at_work) {
            self.state.notify_all();
        }
        let mut state = self.state.wait_while_for(state, most, idle);
        if !rings(&state) && state.over {
            return None;
        }
        let ringing = state.sources.values_mut().filter(|source| source.rings());
        let works: Vec<Work> = ringing.map(SourceOutbox::take).collect();
        state.at_work = !works.is_empty();
        Some(works)
    }

    /// Waits until all that was handed over is sent, before its sources are given up: others would have to look for it.
    pub(crate) fn await_sent(&self, most: Duration) {
        let busy = |state: &mut OutboxesState| {
            !state.abandoned && (state.at_work || state.sources.values().any(SourceOutbox::rings))
        };
        drop(self.state.wait_while_for(self.state.lock(), most, busy));
    }

    /// The relay ends.
    pub(crate) fn abandon(&self) {
        self.state.change(|state| state.abandoned = true);
    }

    /// Nothing more will be claimed.
    pub(crate) fn end(&self) {
        self.state.change(|state| state.over = true);
    }
}

impl SourceOutbox {
    fn take(&mut self) -> Work {
        let look = std::mem::take(&mut self.look);
        self.rows = 0;
        let handed = std::mem::take(&mut self.handed);
        // A node that hung may have lost the source meanwhile, and the table knows. What was committed a moment ago, under
        // the lock of the guard row, is as sure as anything that was just read.
        let fresh = handed.iter().all(|one| one.since.elapsed() < FRESH);
        let rows: Vec<OutboxRow> = handed.into_iter().flat_map(|one| one.rows).collect();
        // Also before anything was sent: a step whose commit was never answered has handed nothing over.
        let gap = rows.first().is_some_and(|first| first.number > self.sent);
        let sure = !look && fresh && !gap;
        // Whoever looked into the table may have sent some of them.
        let rows = sure.then(|| rows.into_iter().filter(|row| row.number >= self.sent).collect());
        Work { claim: self.claim, rows }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_messages::PartitionBy;
    use holdfast_postgres::Source;

    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    fn claim(segment_id: i32, epoch: i64) -> Claim {
        Claim { source: Source::Timeout(segment_id), segment_id, epoch, offset: 0 }
    }

    fn rows(numbers: std::ops::Range<u64>) -> Vec<OutboxRow> {
        let topic = holdfast_messages::Topic::Position;
        let row = |number| {
            let (key, value) = (String::new(), Vec::new());
            OutboxRow { number, topic, by: PartitionBy::Key, key, value }
        };
        numbers.map(row).collect()
    }

    /// One source that was claimed.
    fn claimed() -> (Outboxes, Claim) {
        let (outboxes, mine) = (Outboxes::default(), claim(1, 1));
        outboxes.put(mine);
        (outboxes, mine)
    }

    fn handed(claim: Claim, numbers: std::ops::Range<u64>) -> Option<Vec<Work>> {
        Some(vec![Work { claim, rows: Some(rows(numbers)) }])
    }

    fn looked_up(claim: Claim) -> Option<Vec<Work>> {
        Some(vec![Work { claim, rows: None }])
    }

    #[test]
    fn what_was_claimed_rings_and_what_was_lost_does_not() {
        let outboxes = Outboxes::default();
        outboxes.put(claim(1, 1));
        outboxes.put(claim(2, 1));
        outboxes.remove(&claim(2, 1));
        outboxes.ring(&claim(2, 1));
        assert_eq!(outboxes.take(SOON), looked_up(claim(1, 1)));
        outboxes.put(claim(1, 2));
        outboxes.remove(&claim(1, 1));
        outboxes.hand_over(&claim(1, 1), rows(0..3), Instant::now());
        assert_eq!(outboxes.take(SOON), looked_up(claim(1, 2)), "the later claim stays");
        outboxes.ring(&claim(1, 2));
        outboxes.end();
        assert_eq!(outboxes.take(SOON), looked_up(claim(1, 2)), "what rings is still taken");
        assert_eq!(outboxes.take(SOON), None);
    }

    #[test]
    fn what_is_handed_over_comes_in_order_unless_the_table_has_to_tell() {
        let (outboxes, mine) = claimed();
        outboxes.hand_over(&mine, rows(0..2), Instant::now());
        assert_eq!(outboxes.take(SOON), looked_up(mine), "somebody may have left something before these");
        outboxes.note_sent(&mine, 2);
        outboxes.hand_over(&mine, rows(2..4), Instant::now());
        outboxes.hand_over(&mine, rows(4..5), Instant::now());
        assert_eq!(outboxes.take(SOON), handed(mine, 2..5));
        outboxes.hand_over(&mine, rows(5..6), Instant::now());
        outboxes.ring(&mine);
        assert_eq!(outboxes.take(SOON), looked_up(mine));
        outboxes.hand_over(&mine, rows(0..RELAY_MEMORY_ROWS as u64 + 1), Instant::now());
        assert_eq!(outboxes.take(SOON), looked_up(mine), "memory is bounded");
    }

    #[test]
    fn nothing_is_left_out_and_nothing_sent_again_that_the_table_gave() {
        let (outboxes, mine) = claimed();
        outboxes.take(SOON).unwrap();
        outboxes.hand_over(&mine, rows(3..6), Instant::now());
        outboxes.note_sent(&mine, 5);
        assert_eq!(outboxes.take(SOON), handed(mine, 5..6));
        outboxes.hand_over(&mine, rows(7..9), Instant::now());
        assert_eq!(outboxes.take(SOON), looked_up(mine), "what happened to 5 and 6?");
    }

    #[test]
    fn what_was_committed_without_an_answer_is_not_passed_over() {
        let (outboxes, mine) = claimed();
        assert_eq!(outboxes.take(SOON), looked_up(mine), "and the table is empty");
        // Of 0 to 2 nobody here has heard.
        outboxes.hand_over(&mine, rows(3..5), Instant::now());
        assert_eq!(outboxes.take(SOON), looked_up(mine));
    }

    #[test]
    fn nobody_leaves_before_all_is_sent_or_the_relay_has_gone() {
        let (outboxes, mine) = claimed();
        let outboxes = std::sync::Arc::new(outboxes);
        let (left, leaves) = std::sync::mpsc::channel();
        let leaver = std::thread::spawn({
            let outboxes = std::sync::Arc::clone(&outboxes);
            move || {
                outboxes.await_sent(Duration::from_secs(60));
                left.send(()).unwrap();
            }
        });
        outboxes.take(SOON).unwrap();
        assert!(leaves.try_recv().is_err(), "it is being sent");
        assert_eq!(outboxes.take(SOON), Some(Vec::new()), "the relay comes back for more");
        leaver.join().unwrap();
        outboxes.ring(&mine);
        outboxes.abandon();
        outboxes.await_sent(Duration::from_secs(60));
    }

    #[test]
    fn what_waited_too_long_is_not_sent_from_memory() {
        let (outboxes, mine) = claimed();
        outboxes.take(SOON).unwrap();
        outboxes.hand_over(&mine, rows(0..1), Instant::now());
        let long_ago = Instant::now().checked_sub(FRESH).unwrap();
        outboxes.with(&mine, |source| source.handed[0].since = long_ago).unwrap();
        assert_eq!(outboxes.take(SOON), looked_up(mine));
    }

    #[test]
    fn what_was_sent_is_marked_by_the_next_step_or_after_a_while() {
        let (outboxes, mine) = claimed();
        outboxes.note_sent(&mine, 7);
        outboxes.note_sent(&claim(1, 2), 9);
        assert_eq!(outboxes.sent(&mine), 7);
        assert_eq!(outboxes.unmarked(), [], "a step may come");
        let long_ago = Instant::now().checked_sub(MARK_AFTER).unwrap();
        outboxes.with(&mine, |source| source.sent_at = long_ago).unwrap();
        assert_eq!(outboxes.unmarked(), [(mine, 7)]);
        outboxes.note_marked(&mine, 7);
        assert_eq!(outboxes.unmarked(), []);
        outboxes.note_sent(&mine, 8);
        outboxes.remove(&mine);
        assert_eq!(outboxes.unmarked(), [(mine, 8)], "whoever comes next need not send it again");
        assert_eq!(outboxes.unmarked(), []);
    }
}
