//! A side's books in memory.

use std::collections::BTreeMap;

use super::{Books, Branch, Effects, Side, handle};
use crate::alarm::Alarm;
use crate::ids::Key;
use crate::message::Message;
use crate::number::Whole;

/// The rows and the balances of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger<S: Side> {
    /// The rows of every try.
    pub branches: BTreeMap<Key, Branch<S::Value>>,
    /// What every holder has.
    pub balances: BTreeMap<S::Holder, Whole>,
}

impl<S: Side> Default for Ledger<S> {
    fn default() -> Ledger<S> {
        Ledger { branches: BTreeMap::new(), balances: BTreeMap::new() }
    }
}

impl<S: Side> Books<S> for Ledger<S> {
    fn branch(&self, key: &Key) -> Option<&Branch<S::Value>> {
        self.branches.get(key)
    }

    fn balance(&self, holder: &S::Holder) -> Option<Whole> {
        self.balances.get(holder).copied()
    }
}

impl<S: Side> Ledger<S> {
    /// Handles a message and keeps what it does. Gives back the answer and the alarms.
    pub fn take(&mut self, message: &Message) -> (Option<Message>, Vec<Alarm>) {
        let Effects { branch, balances, sent, alarms } = handle::<S>(self, message);
        self.branches.extend(branch);
        self.balances.extend(balances);
        (sent, alarms)
    }
}
