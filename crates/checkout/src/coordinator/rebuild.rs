//! Starting, and taking over a partition: the log is folded from `outcome_offset` to its end, without sending
//! anything. Then whatever was left half-way goes on: what has both outcomes is decided, and a `can` or `add`
//! that was never answered is sent again.

use super::fold::{self, Mode};
use super::saga::{Saga, Stage};
use super::{Coordinator, Effects, Orders, Record, Standing, StepEffects};
use crate::alarm::Alarm;
use crate::ids::{Key, Offset};
use crate::message::{Body, Message, Step};

/// What of the log is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogBounds {
    /// The first record.
    pub start: Offset,
    /// The place after the last one.
    pub end: Offset,
}

impl LogBounds {
    /// Where to read from, and the alarm if that is not where it should be.
    #[must_use]
    pub fn first_to_read(self, outcome_offset: Option<Offset>) -> (Offset, Option<Alarm>) {
        let LogBounds { start, end } = self;
        match outcome_offset {
            None => (start, None),
            Some(stored) if stored < start => (start, Some(Alarm::OffsetBelowLog { stored, start })),
            // What is there was not seen before, or not all of it.
            Some(stored) if stored > end => (start, Some(Alarm::OffsetAboveLog { stored, end })),
            Some(stored) => (stored, None),
        }
    }
}

impl Coordinator {
    /// A coordinator that knows what the log knows. `records` are those within the bounds, ascending;
    /// whatever lies before the first one to read is passed over.
    ///
    /// # Panics
    /// If the records do not ascend.
    #[must_use]
    pub fn rebuild<'r>(
        orders: &impl Orders,
        outcome_offset: Option<Offset>,
        log: LogBounds,
        records: impl IntoIterator<Item = &'r Record>,
    ) -> (Coordinator, Effects) {
        let mut coordinator = Coordinator { outcome_offset, ..Coordinator::default() };
        let mut effects = StepEffects::new(orders);
        let (first, alarm) = log.first_to_read(outcome_offset);
        effects.alarms.extend(alarm);
        let mut last = None;
        for record in records {
            assert!(last < Some(record.offset), "the log does not ascend at {}", record.offset);
            last = Some(record.offset);
            if record.offset >= first {
                coordinator.fold(&mut effects, record, Mode::Rebuild);
            }
        }
        coordinator.next = (log.start < log.end).then_some(log.end);
        let by_age: Vec<Key> = coordinator.starts.values().cloned().collect();
        for key in by_age {
            coordinator.go_on(&mut effects, key);
        }
        let effects = coordinator.close(effects);
        (coordinator, effects)
    }

    /// The log has no more to say about this try.
    fn go_on<O: Orders>(&mut self, effects: &mut StepEffects<'_, O>, key: Key) {
        let Some(saga) = self.open.get_mut(&key) else { return };
        let Some(order) = effects.order(&key.order_id) else { return };
        let keep = match (Standing::of(order, key.tr_num), saga.stage) {
            (Standing::Pending, _) => {
                fold::decide(effects, saga, &key);
                true
            }
            (Standing::Cancelling, stage) => {
                if stage == Stage::Gathering {
                    saga.stage = Stage::Cancelling { undo: saga.undo(), announced: false };
                }
                let again = order.undoing(key.tr_num, saga.owed());
                effects.sent.extend(again);
                true
            }
            (Standing::Over, Stage::Cancelling { .. }) => {
                effects.sent.extend(undoing_what_was_taken(saga, &key));
                true
            }
            (Standing::Over | Standing::Paid | Standing::NeverStarted, _) => false,
        };
        fold::settle(effects, saga, &key);
        if !keep || saga.is_finished() {
            self.forget(&key);
        }
    }
}

/// The order may have other items by now, so the recorded values count.
fn undoing_what_was_taken(saga: &Saga, key: &Key) -> impl Iterator<Item = Message> {
    let owed = saga.owed();
    let can = saga.pay.taken().filter(|_| owed.can).map(|taken| Body::Pay(Step::Rollback(taken.clone())));
    let add = saga.stock.taken().filter(|_| owed.add).map(|taken| Body::Stock(Step::Rollback(taken.clone())));
    let key = key.clone();
    can.into_iter().chain(add).map(move |body| Message { key: key.clone(), body })
}
