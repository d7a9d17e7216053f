//! A participant: the side that keeps the users' credit, or the one that keeps the items' stock.
//!
//! Both follow the same rules, so there is one handler for both:
//!
//! - One row per (order, tr#, rollback) says what became of the message. A repeat changes nothing and gets
//!   the same answer.
//! - A rollback that comes before its forward message is recorded, and the forward message is refused when it
//!   comes.
//! - A rollback gives back what is recorded as taken, whatever it says itself.

mod ledger;
mod rows;

pub use ledger::Ledger;
pub use rows::{Row, RowsError};

use crate::alarm::Alarm;
use crate::ids::{ItemId, Key, UserId};
use crate::items::Items;
use crate::message::{Answer, Body, Message, Payment, Step, Topic};
use crate::number::Whole;

/// What is particular to a side.
pub trait Side {
    /// Whose balance it keeps.
    type Holder: Ord + Clone + std::fmt::Display + 'static;
    /// What its messages are about.
    type Value: Clone + 'static;

    /// The topic it reads.
    const TOPIC: Topic;

    /// How much a value moves for each holder, by ascending holder.
    fn parts(value: &Self::Value) -> impl Iterator<Item = (&Self::Holder, Whole)>;

    /// Whether two values move the same.
    fn same(one: &Self::Value, other: &Self::Value) -> bool;

    /// The step, if the message is one for this side.
    fn step(body: &Body) -> Option<&Step<Self::Value>>;

    /// The step as a message.
    fn ask(step: Step<Self::Value>) -> Body;

    /// The answer as a message.
    fn answer(answer: Answer<Self::Value>) -> Body;
}

/// The payment side: users and their credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pay {}

/// The stock side: items and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stock {}

impl Side for Pay {
    type Holder = UserId;
    type Value = Payment;
    const TOPIC: Topic = Topic::Pay;

    fn parts(value: &Payment) -> impl Iterator<Item = (&UserId, Whole)> {
        std::iter::once((&value.user_id, value.amnt))
    }

    fn same(one: &Payment, other: &Payment) -> bool {
        one == other
    }

    fn step(body: &Body) -> Option<&Step<Payment>> {
        match body {
            Body::Pay(step) => Some(step),
            Body::Stock(_) | Body::Paid(_) | Body::Stocked(_) | Body::Decided(_) => None,
        }
    }

    fn ask(step: Step<Payment>) -> Body {
        Body::Pay(step)
    }

    fn answer(answer: Answer<Payment>) -> Body {
        Body::Paid(answer)
    }
}

impl Side for Stock {
    type Holder = ItemId;
    type Value = Items;
    const TOPIC: Topic = Topic::Stock;

    fn parts(value: &Items) -> impl Iterator<Item = (&ItemId, Whole)> {
        value.sums().into_iter()
    }

    fn same(one: &Items, other: &Items) -> bool {
        one.same_as(other)
    }

    fn step(body: &Body) -> Option<&Step<Items>> {
        match body {
            Body::Stock(step) => Some(step),
            Body::Pay(_) | Body::Paid(_) | Body::Stocked(_) | Body::Decided(_) => None,
        }
    }

    fn ask(step: Step<Items>) -> Body {
        Body::Stock(step)
    }

    fn answer(answer: Answer<Items>) -> Body {
        Body::Stocked(answer)
    }
}

/// What became of a forward message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forward<V> {
    /// This was taken.
    Taken(V),
    /// This was asked for and not taken.
    Refused(V),
}

impl<V> Forward<V> {
    /// The recorded value.
    pub const fn value(&self) -> &V {
        match self {
            Forward::Taken(value) | Forward::Refused(value) => value,
        }
    }
}

/// The rows of one try at one side. A try without any row has no branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Branch<V> {
    /// The forward row alone.
    Done(Forward<V>),
    /// The forward row, and then the rollback row: what was taken is given back.
    Undone(Forward<V>),
    /// The rollback row, and no forward row yet. Nothing was taken and nothing will be.
    CancelledFirst,
    /// The rollback row, and then the forward row of the message that came too late and was refused.
    CancelledThenRefused(V),
}

/// What a side keeps, as the handler reads it.
pub trait Books<S: Side> {
    /// The rows of a try.
    fn branch(&self, key: &Key) -> Option<&Branch<S::Value>>;
    /// What a holder has; `None` if it is not there.
    fn balance(&self, holder: &S::Holder) -> Option<Whole>;
}

/// What one message does.
#[derive(Debug)]
pub struct Effects<S: Side> {
    /// The rows of the message's try after it, if it adds one.
    pub branch: Option<(Key, Branch<S::Value>)>,
    /// The new balances of those whose balance changes.
    pub balances: Vec<(S::Holder, Whole)>,
    /// The answer, for the topic `outcomes`.
    pub sent: Option<Message>,
    /// What somebody has to look at.
    pub alarms: Vec<Alarm>,
}

impl<S: Side> Effects<S> {
    fn none() -> Effects<S> {
        Effects { branch: None, balances: Vec::new(), sent: None, alarms: Vec::new() }
    }
}

/// Handles one message of the side's topic. All of its effects happen in one step, or none does.
#[must_use]
pub fn handle<S: Side>(books: &impl Books<S>, message: &Message) -> Effects<S> {
    let key = &message.key;
    let type_name = message.body.type_name();
    let mut effects = Effects::none();
    let Some(step) = S::step(&message.body) else {
        effects.alarms.push(Alarm::Misplaced { key: key.clone(), message: type_name, topic: S::TOPIC });
        return effects;
    };
    let branch = books.branch(key);
    if let (Step::Forward(said) | Step::Rollback(said), Some(recorded)) = (step, branch.and_then(recorded))
        && !S::same(said, recorded)
    {
        effects.alarms.push(Alarm::Differs { key: key.clone(), message: type_name });
    }
    let answer = match (step, branch) {
        (Step::Forward(value), None) => {
            let forward = match take(books, value) {
                Some(balances) => {
                    effects.balances = balances;
                    Forward::Taken(value.clone())
                }
                None => Forward::Refused(value.clone()),
            };
            let answer = outcome(&forward);
            effects.branch = Some((key.clone(), Branch::Done(forward)));
            answer
        }
        (Step::Forward(_), Some(Branch::Done(forward) | Branch::Undone(forward))) => outcome(forward),
        (Step::Forward(value), Some(Branch::CancelledFirst)) => {
            effects.branch = Some((key.clone(), Branch::CancelledThenRefused(value.clone())));
            Answer::Refused(value.clone())
        }
        (Step::Forward(_), Some(Branch::CancelledThenRefused(late))) => Answer::Refused(late.clone()),
        (Step::Rollback(value), None) => {
            effects.branch = Some((key.clone(), Branch::CancelledFirst));
            Answer::Undone(value.clone())
        }
        (Step::Rollback(_), Some(Branch::Done(forward))) => {
            if let Forward::Taken(taken) = forward {
                match give_back(books, taken) {
                    Ok(balances) => effects.balances = balances,
                    Err(holder) => {
                        let alarm = Alarm::Stuck { key: key.clone(), message: type_name, holder };
                        effects.alarms.push(alarm);
                        return effects;
                    }
                }
            }
            effects.branch = Some((key.clone(), Branch::Undone(forward.clone())));
            Answer::Undone(forward.value().clone())
        }
        (Step::Rollback(_), Some(Branch::Undone(forward))) => Answer::Undone(forward.value().clone()),
        (Step::Rollback(value), Some(Branch::CancelledFirst)) => Answer::Undone(value.clone()),
        (Step::Rollback(_), Some(Branch::CancelledThenRefused(late))) => Answer::Undone(late.clone()),
    };
    effects.sent = Some(Message { key: key.clone(), body: S::answer(answer) });
    effects
}

fn outcome<V: Clone>(forward: &Forward<V>) -> Answer<V> {
    match forward {
        Forward::Taken(value) => Answer::Taken(value.clone()),
        Forward::Refused(value) => Answer::Refused(value.clone()),
    }
}

/// The forward value that the rows have.
const fn recorded<V>(branch: &Branch<V>) -> Option<&V> {
    match branch {
        Branch::Done(forward) | Branch::Undone(forward) => Some(forward.value()),
        Branch::CancelledThenRefused(value) => Some(value),
        Branch::CancelledFirst => None,
    }
}

/// The balances after taking; `None` if somebody is not there or has not enough.
fn take<S: Side>(books: &impl Books<S>, value: &S::Value) -> Option<Vec<(S::Holder, Whole)>> {
    let less =
        |(holder, amnt): (&S::Holder, Whole)| Some((holder.clone(), books.balance(holder)?.minus(amnt)?));
    S::parts(value).map(less).collect()
}

/// The balances after giving back; or the one that cannot be given to.
fn give_back<S: Side>(books: &impl Books<S>, taken: &S::Value) -> Result<Vec<(S::Holder, Whole)>, String> {
    let more = |(holder, amnt): (&S::Holder, Whole)| {
        let sum = books.balance(holder).and_then(|balance| balance.plus(amnt).ok());
        sum.map(|sum| (holder.clone(), sum)).ok_or_else(|| holder.to_string())
    };
    S::parts(taken).map(more).collect()
}
