//! One record of the log is added to what is known of its try.

use super::saga::{Saga, Said, Stage};
use super::{Coordinator, Orders, Record, Standing, StepEffects};
use crate::alarm::Alarm;
use crate::ids::{Key, TrNum};
use crate::message::{Answer, Body, Topic, Verdict};
use crate::order::{Moved, Order, Undo};
use crate::participant::{Forward, Pay, Side, Stock};

/// Whether the record is new, or read again to rebuild what was known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Live,
    Rebuild,
}

/// What becomes of the try after a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Keep,
    Forget,
}

impl Coordinator {
    pub(super) fn fold<O: Orders>(&mut self, effects: &mut StepEffects<'_, O>, record: &Record, mode: Mode) {
        self.next = self.next.max(record.offset.checked_add(1));
        let key = &record.message.key;
        let (key, mut slot) = match self.open.remove_entry(key) {
            Some((key, saga)) => (key, Some(saga)),
            None => (key.clone(), None),
        };
        let before = slot.as_ref().map(|saga| saga.start);
        fold_one(effects, &mut slot, record, mode);
        let after = slot.as_ref().map(|saga| saga.start);
        if before != after {
            before.iter().for_each(|start| drop(self.starts.remove(start)));
            after.iter().for_each(|start| drop(self.starts.insert(*start, key.clone())));
        }
        if let Some(saga) = slot {
            self.open.insert(key, saga);
        }
    }

    /// The try is over, or was taken over by its order row.
    pub(super) fn forget(&mut self, key: &Key) {
        if let Some((_, saga)) = self.open.remove_entry(key) {
            self.starts.remove(&saga.start);
        }
    }
}

/// Adds one record to what is known of its try: the saga in `slot`, if one is open.
pub(super) fn fold_one<O: Orders>(
    effects: &mut StepEffects<'_, O>,
    slot: &mut Option<Saga>,
    record: &Record,
    mode: Mode,
) {
    let key = &record.message.key;
    let message = record.message.body.type_name();
    if record.message.body.topic() != Topic::Outcomes {
        let topic = Topic::Outcomes;
        return effects.alarms.push(Alarm::Misplaced { key: key.clone(), message, topic });
    }
    let Some(order) = effects.order(&key.order_id) else {
        return effects.alarms.push(Alarm::UnknownOrder { key: key.clone(), message });
    };
    let standing = Standing::of(order, key.tr_num);
    if standing == Standing::NeverStarted {
        return effects.alarms.push(Alarm::NeverStarted { key: key.clone(), message });
    }
    // Only where the log was cut do rows of an undecided try know more than what was read of it.
    let remembered = (slot.is_none() && standing == Standing::Pending)
        .then(|| Saga::remembering(record.offset, order, effects.orders.remembered(key)));
    if mode == Mode::Live && slot.as_mut().is_some_and(|saga| catch_up(saga, standing) == Next::Forget) {
        *slot = None;
    }
    let mut step = Step { effects, key, standing, message, mode };
    if let Some(saga) = slot {
        if step.take(saga, &record.message.body) == Next::Forget {
            *slot = None;
        }
        return;
    }
    let mut saga = remembered.unwrap_or_else(|| Saga::new(record.offset, first_stage(standing, mode)));
    if step.take(&mut saga, &record.message.body) == Next::Keep && opens(standing, mode) {
        *slot = Some(saga);
    }
}

/// Someone else may have moved the order since the last record of this try.
fn catch_up(saga: &mut Saga, standing: Standing) -> Next {
    match (saga.stage, standing) {
        (Stage::Gathering, Standing::Paid) => saga.stage = Stage::Paid,
        (Stage::Gathering, Standing::Cancelling) => {
            saga.stage = Stage::Cancelling { undo: saga.undo(), announced: false };
        }
        (Stage::Gathering, Standing::Over) => return Next::Forget,
        (Stage::Gathering, Standing::Pending | Standing::NeverStarted)
        | (Stage::Paid | Stage::Cancelling { .. }, _) => {}
    }
    Next::Keep
}

/// A try that its order takes to be ended is not opened again by a late message. While rebuilding, everything
/// is kept until the end of the log is known.
const fn opens(standing: Standing, mode: Mode) -> bool {
    match standing {
        Standing::Pending | Standing::Cancelling => true,
        Standing::Paid | Standing::Over | Standing::NeverStarted => matches!(mode, Mode::Rebuild),
    }
}

/// A try whose order is cancelling before its first message was decided without one, so both sides were asked
/// to undo.
const fn first_stage(standing: Standing, mode: Mode) -> Stage {
    match (standing, mode) {
        (Standing::Cancelling, Mode::Live) => Stage::Cancelling { undo: Undo::BOTH, announced: false },
        _ => Stage::Gathering,
    }
}

/// With both outcomes and no decision, now is the time to decide.
pub(super) fn decide<O: Orders>(effects: &mut StepEffects<'_, O>, saga: &mut Saga, key: &Key) {
    if saga.stage != Stage::Gathering || !saga.is_complete() {
        return;
    }
    let Some(order) = effects.order(&key.order_id) else { return };
    let undo = saga.undo();
    let succeeded = undo == Undo::BOTH && effects.orders.is_settled(key);
    let moved = if succeeded { order.succeed(key.tr_num) } else { order.fail(key.tr_num, undo) };
    let Some(moved) = moved else { return };
    saga.stage = if succeeded { Stage::Paid } else { Stage::Cancelling { undo, announced: false } };
    effects.make(moved);
}

/// With every answer there, the order is not paid any more.
pub(super) fn settle<O: Orders>(effects: &mut StepEffects<'_, O>, saga: &Saga, key: &Key) {
    if matches!(saga.stage, Stage::Cancelling { .. })
        && saga.owed().is_nothing()
        && let Some(order) = effects.order(&key.order_id).and_then(|order| order.cancelled(key.tr_num))
    {
        effects.put(order);
    }
}

/// One message of one try, with all that it is judged by.
struct Step<'s, 'd, O> {
    effects: &'s mut StepEffects<'d, O>,
    key: &'s Key,
    standing: Standing,
    message: &'static str,
    mode: Mode,
}

impl<O: Orders> Step<'_, '_, O> {
    fn take(&mut self, saga: &mut Saga, body: &Body) -> Next {
        let next = match body {
            Body::Paid(answer) => {
                let as_asked = self.is_as_asked::<Pay>(answer, |order, value| order.payment() == *value);
                self.answer::<Pay>(&mut saga.pay, answer, as_asked, ("psucc", "pfail"));
                Next::Keep
            }
            Body::Stocked(answer) => {
                let as_asked = self.is_as_asked::<Stock>(answer, |order, value| order.items.same_as(value));
                self.answer::<Stock>(&mut saga.stock, answer, as_asked, ("ssucc", "sfail"));
                Next::Keep
            }
            Body::Decided(Verdict::Succeeded) => self.succeeded(saga),
            Body::Decided(Verdict::Failed) => self.failed(saga),
            Body::Pay(_) | Body::Stock(_) => unreachable!("only messages of the topic outcomes get here"),
        };
        if self.mode == Mode::Live {
            decide(self.effects, saga, self.key);
        }
        settle(self.effects, saga, self.key);
        // While rebuilding, a repeat further on in the log must find what was answered already.
        if saga.is_finished() && self.mode == Mode::Live { Next::Forget } else { next }
    }

    /// Whether a forward outcome is about what the order asked for. An order that is over may have other items by
    /// now, so nothing can be said about it.
    fn is_as_asked<S: Side>(
        &self,
        answer: &Answer<S::Value>,
        same: impl Fn(&Order, &S::Value) -> bool,
    ) -> bool {
        match answer {
            Answer::Taken(_) | Answer::Refused(_) if self.standing == Standing::Over => true,
            Answer::Taken(value) | Answer::Refused(value) => {
                self.effects.order(&self.key.order_id).is_some_and(|order| same(order, value))
            }
            Answer::Undone(_) => true,
        }
    }

    fn answer<S: Side>(
        &mut self,
        said: &mut Said<S::Value>,
        answer: &Answer<S::Value>,
        as_asked: bool,
        (taken, refused): (&'static str, &'static str),
    ) {
        if !as_asked {
            let alarm = Alarm::OtherValue { key: self.key.clone(), message: self.message };
            return self.effects.alarms.push(alarm);
        }
        match (&said.outcome, answer) {
            (_, Answer::Undone(_)) => match self.standing {
                Standing::Cancelling | Standing::Over => said.undone = true,
                Standing::Paid => self.contradicts("trsucc"),
                Standing::Pending | Standing::NeverStarted => self.alarm_unasked(),
            },
            (Some(Forward::Taken(first)), Answer::Taken(again))
            | (Some(Forward::Refused(first)), Answer::Refused(again))
                if S::same(first, again) => {}
            (Some(Forward::Taken(_)), Answer::Taken(_) | Answer::Refused(_)) => self.contradicts(taken),
            (Some(Forward::Refused(_)), Answer::Taken(_) | Answer::Refused(_)) => self.contradicts(refused),
            (None, Answer::Refused(_)) if self.standing == Standing::Paid => self.contradicts("trsucc"),
            (None, Answer::Taken(value)) => said.outcome = Some(Forward::Taken(value.clone())),
            (None, Answer::Refused(value)) => said.outcome = Some(Forward::Refused(value.clone())),
        }
    }

    fn succeeded(&mut self, saga: &mut Saga) -> Next {
        match self.standing {
            Standing::Pending if saga.pay.refused() => self.contradicts("pfail"),
            Standing::Pending if saga.stock.refused() => self.contradicts("sfail"),
            Standing::Pending if saga.pay.taken().is_none() || saga.stock.taken().is_none() => {
                self.alarm_undecided();
            }
            Standing::Pending if !self.effects.orders.is_settled(self.key) => self.contradicts("pfail"),
            Standing::Pending => {
                self.follow(|order, tr| order.succeed(tr));
                return Next::Forget;
            }
            Standing::Paid => return Next::Forget,
            Standing::Cancelling | Standing::Over | Standing::NeverStarted => self.contradicts("trfail"),
        }
        Next::Keep
    }

    fn failed(&mut self, saga: &mut Saga) -> Next {
        let undo = match self.standing {
            Standing::Paid => {
                self.contradicts("trsucc");
                return Next::Keep;
            }
            Standing::Pending => {
                let undo = saga.undo();
                self.follow(|order, tr| order.fail(tr, undo));
                if self.mode == Mode::Live {
                    // Whoever wrote it may not have asked the sides. A rebuild asks them behind the end of the log.
                    self.alarm_undecided();
                    let again = self
                        .effects
                        .order(&self.key.order_id)
                        .map(|order| order.undoing(self.key.tr_num, undo));
                    self.effects.sent.extend(again.into_iter().flatten());
                }
                undo
            }
            Standing::Cancelling => saga.undo(),
            Standing::Over | Standing::NeverStarted => saga.undo_of_taken(),
        };
        saga.stage = match saga.stage {
            Stage::Cancelling { undo, .. } => Stage::Cancelling { undo, announced: true },
            Stage::Gathering | Stage::Paid => Stage::Cancelling { undo, announced: true },
        };
        Next::Keep
    }

    /// The row follows a decision that is in the log; the messages were sent with it.
    fn follow(&mut self, decide: impl Fn(&Order, TrNum) -> Option<Moved>) {
        let order = self.effects.order(&self.key.order_id);
        if let Some(moved) = order.and_then(|order| decide(order, self.key.tr_num)) {
            self.effects.put(moved.order);
        }
    }

    fn contradicts(&mut self, recorded: &'static str) {
        let alarm = Alarm::Contradiction { key: self.key.clone(), message: self.message, recorded };
        self.effects.alarms.push(alarm);
    }

    fn alarm_undecided(&mut self) {
        self.effects.alarms.push(Alarm::Undecided { key: self.key.clone(), message: self.message });
    }

    fn alarm_unasked(&mut self) {
        self.effects.alarms.push(Alarm::Unasked { key: self.key.clone(), message: self.message });
    }
}
