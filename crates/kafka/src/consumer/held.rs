//! A partition that is ours: its queue, and what may be handed out of it.

use std::collections::VecDeque;
use std::time::Duration;

use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::error::{KafkaError as ClientError, RDKafkaErrorCode};

use super::{Claim, Fault, GroupContext};
use crate::Record;

/// A claimed partition.
pub(super) struct Held {
    queue: PartitionQueue<GroupContext>,
    pub(super) epoch: i64,
    order: Order,
    /// The first offset that is not reported done.
    pub(super) done: u64,
    pub(super) paused: bool,
    pub(super) fault: Option<Fault>,
    /// What came behind the messages of the last batch.
    pending: Option<ClientError>,
}

/// What a partition has to give.
pub(super) enum Next {
    Nothing,
    Batch(Due),
    Error(ClientError),
    Outside { wanted: u64 },
}

/// Messages in order.
pub(super) struct Due {
    /// The offset that was due.
    pub(super) from: u64,
    pub(super) records: Vec<Record>,
    /// The first offset that was due and did not come, if there is one.
    pub(super) hole: Option<u64>,
}

impl Held {
    pub(super) fn new(queue: PartitionQueue<GroupContext>, claim: Claim) -> Held {
        Held {
            queue,
            epoch: claim.epoch,
            order: Order { next: claim.next_offset, waiting: VecDeque::new() },
            done: claim.next_offset,
            paused: false,
            fault: None,
            pending: None,
        }
    }

    /// A message that came by another way than the queue.
    pub(super) fn early(&mut self, record: Record) {
        self.order.waiting.push_back(record);
    }

    /// Up to so many messages and bytes, in order.
    pub(super) fn next(&mut self, messages_max: usize, bytes_max: usize) -> Next {
        if self.paused || self.fault.is_some() {
            return Next::Nothing;
        }
        if self.pending.is_none() {
            let (queue, pending) = (&self.queue, &mut self.pending);
            let next = self.order.batch(messages_max, bytes_max, || match queue.poll(Duration::ZERO)? {
                Ok(message) => Some(Record::of(&message)),
                Err(why) => {
                    *pending = Some(why);
                    None
                }
            });
            if !matches!(next, Next::Nothing) {
                return next;
            }
        }
        use RDKafkaErrorCode::{AutoOffsetReset, OffsetOutOfRange};
        match self.pending.take() {
            None => Next::Nothing,
            Some(error) => match error.rdkafka_error_code() {
                Some(AutoOffsetReset | OffsetOutOfRange) => Next::Outside { wanted: self.order.next },
                _ => Next::Error(error),
            },
        }
    }
}

/// Sees to it that each message comes once, and tells what did not come. That need not be a loss: the marks that Kafka's
/// transactions leave behind take an offset each, and so does every message of one that was given up.
struct Order {
    /// The offset that is due.
    next: u64,
    /// Taken from the queue and not handed out yet.
    waiting: VecDeque<Record>,
}

impl Order {
    fn batch(
        &mut self,
        messages_max: usize,
        bytes_max: usize,
        mut take: impl FnMut() -> Option<Record>,
    ) -> Next {
        let (from, mut hole, mut records) = (self.next, None, Vec::new());
        let mut bytes = 0_usize;
        while records.len() < messages_max {
            let Some(record) = self.waiting.pop_front().or_else(&mut take) else { break };
            if record.offset < self.next {
                // It comes a second time: from before the partition was claimed anew.
                continue;
            }
            if bytes.saturating_add(record.bytes()) > bytes_max && !records.is_empty() {
                self.waiting.push_front(record);
                break;
            }
            if record.offset > self.next {
                hole.get_or_insert(self.next);
            }
            bytes = bytes.saturating_add(record.bytes());
            self.next = record.offset + 1;
            records.push(record);
        }
        if records.is_empty() { Next::Nothing } else { Next::Batch(Due { from, records, hole }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(offset: u64, bytes: usize) -> Record {
        Record { partition: 0, offset, key: Vec::new(), value: vec![0; bytes], timestamp: 0 }
    }

    /// The offset that was due, those that came, and the first that did not.
    type Found = (u64, Vec<u64>, Option<u64>);

    fn found(order: &mut Order, bounds: (usize, usize), from: &mut VecDeque<Record>) -> Option<Found> {
        match order.batch(bounds.0, bounds.1, || from.pop_front()) {
            Next::Batch(Due { from, records, hole }) => {
                Some((from, records.iter().map(|record| record.offset).collect(), hole))
            }
            Next::Nothing => None,
            Next::Error(_) | Next::Outside { .. } => unreachable!("the order gives no such thing"),
        }
    }

    #[test]
    fn batches_keep_their_bounds_and_lose_nothing() {
        let mut order = Order { next: 5, waiting: VecDeque::new() };
        let mut from: VecDeque<Record> = [(5, 10), (6, 10), (7, 10), (8, 90), (9, 30), (10, 1)]
            .map(|(at, bytes)| record(at, bytes))
            .into();
        let taken: Vec<_> = std::iter::repeat_with(|| found(&mut order, (2, 25), &mut from))
            .take(6)
            .map(|found| found.map_or(Vec::new(), |(_, offsets, _)| offsets))
            .collect();
        assert_eq!(taken, [vec![5, 6], vec![7], vec![8], vec![9], vec![10], vec![]]);
    }

    #[test]
    fn what_comes_again_is_dropped_and_what_did_not_come_is_told() {
        let mut order = Order { next: 5, waiting: VecDeque::new() };
        let mut from: VecDeque<Record> = [3, 4, 5, 4, 5, 6, 9, 10, 12, 13].map(|at| record(at, 1)).into();
        assert_eq!(found(&mut order, (4, 100), &mut from), Some((5, vec![5, 6, 9, 10], Some(7))));
        assert_eq!(found(&mut order, (1, 100), &mut from), Some((11, vec![12], Some(11))));
        assert_eq!(found(&mut order, (9, 100), &mut from), Some((13, vec![13], None)));
        assert_eq!(found(&mut order, (9, 100), &mut from), None);
    }
}
