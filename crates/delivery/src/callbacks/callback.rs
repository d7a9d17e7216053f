//! A callback on its way.

use std::sync::Arc;

use holdfast_domain::callbacks::CallbackMessage;
use holdfast_domain::ids::TransferId;
use holdfast_hub::CallbackRow;

use super::requests::Written;
use crate::lanes::Job;

/// What must keep its order: the callbacks of a transfer. An alarm is about none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    Transfer(TransferId),
    Alone(u64),
}

impl Subject {
    const fn of(row: &CallbackRow) -> Subject {
        match row.message {
            CallbackMessage::Alarm { .. } => Subject::Alone(row.number),
            _ => Subject::Transfer(row.transfer),
        }
    }
}

/// A callback in its lane.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Callback {
    pub(super) row: CallbackRow,
    /// It comes from the dead letters, which remember it until it is delivered.
    pub(super) from_dead_letters: bool,
    /// What is sent and where, once it is written.
    pub(super) written: Option<Arc<Written>>,
}

impl Callback {
    pub(super) const fn new(row: CallbackRow) -> Callback {
        Callback { row, from_dead_letters: false, written: None }
    }
}

impl Job for Callback {
    type Key = Subject;

    fn key(&self) -> Subject {
        Subject::of(&self.row)
    }
}
