//! Tries of which the log has said everything. Of a long log they are nearly all, and whoever rebuilds need not even ask for
//! their orders, unless one of those is still open.

use crate::ids::Key;
use crate::lookup::Lookup;
use crate::message::{Answer, Body, Message, Verdict};

/// What the log has said of each try.
#[derive(Debug, Default)]
pub struct Told<'r>(Lookup<&'r Key, Try>);

#[derive(Debug, Default)]
struct Try {
    pay: Side,
    stock: Side,
    succeeded: bool,
    failed: bool,
}

#[derive(Debug, Default)]
struct Side {
    /// Whether its first outcome was a refusal.
    refused: Option<bool>,
    undone: bool,
}

impl Side {
    fn hear<V>(&mut self, answer: &Answer<V>) {
        match answer {
            Answer::Taken(_) => _ = self.refused.get_or_insert(false),
            Answer::Refused(_) => _ = self.refused.get_or_insert(true),
            Answer::Undone(_) => self.undone = true,
        }
    }

    const fn has_nothing(&self) -> bool {
        self.undone || matches!(self.refused, Some(true))
    }
}

impl<'r> Told<'r> {
    /// Takes a message of the log in.
    pub fn hear(&mut self, message: &'r Message) {
        let heard = self.0.get_or_insert_with(&&message.key, Try::default);
        match &message.body {
            Body::Paid(answer) => heard.pay.hear(answer),
            Body::Stocked(answer) => heard.stock.hear(answer),
            Body::Decided(Verdict::Succeeded) => heard.succeeded = true,
            Body::Decided(Verdict::Failed) => heard.failed = true,
            Body::Pay(_) | Body::Stock(_) => {}
        }
    }

    /// Whether the try was paid, or has failed with all given back. What contradicts itself is for somebody to look at, and
    /// not over.
    #[must_use]
    pub fn is_over(&self, key: &Key) -> bool {
        self.0.get(&key).is_some_and(|heard| match (heard.succeeded, heard.failed) {
            (true, failed) => !failed,
            (false, true) => heard.pay.has_nothing() && heard.stock.has_nothing(),
            (false, false) => false,
        })
    }
}
