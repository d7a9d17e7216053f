//! What the log has said about one try.

use super::Remembered;
use crate::ids::Offset;
use crate::items::Items;
use crate::message::Payment;
use crate::order::{Order, Undo};
use crate::participant::Forward;

/// What one side has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said<V> {
    /// Its forward outcome. The first one counts.
    pub outcome: Option<Forward<V>>,
    /// Whether its `csucc` or `asucc` is in the log.
    pub undone: bool,
}

impl<V> Default for Said<V> {
    fn default() -> Said<V> {
        Said { outcome: None, undone: false }
    }
}

impl<V> Said<V> {
    /// Whether it has refused.
    pub const fn refused(&self) -> bool {
        matches!(self.outcome, Some(Forward::Refused(_)))
    }

    /// What it has taken.
    #[must_use]
    pub const fn taken(&self) -> Option<&V> {
        match &self.outcome {
            Some(Forward::Taken(value)) => Some(value),
            Some(Forward::Refused(_)) | None => None,
        }
    }
}

/// How far a try has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// No decision is known.
    Gathering,
    /// Decided as paid; `trsucc` is not in the log yet.
    Paid,
    /// Decided as failed.
    Cancelling {
        /// What was sent to undo it.
        undo: Undo,
        /// Whether `trfail` is in the log.
        announced: bool,
    },
}

/// An open try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saga {
    /// Where its first message is.
    pub start: Offset,
    /// What the payment side has said.
    pub pay: Said<Payment>,
    /// What the stock side has said.
    pub stock: Said<Items>,
    /// How far it has come.
    pub stage: Stage,
}

impl Saga {
    pub(super) fn new(start: Offset, stage: Stage) -> Saga {
        Saga { start, pay: Said::default(), stock: Said::default(), stage }
    }

    /// The same for a try that is not decided, and of which the row knows something.
    pub(super) fn remembering(start: Offset, order: &Order, known: Remembered) -> Saga {
        fn with<V>(known: Option<Forward<()>>, value: impl FnOnce() -> V) -> Said<V> {
            let outcome = known.map(|known| match known {
                Forward::Taken(()) => Forward::Taken(value()),
                Forward::Refused(()) => Forward::Refused(value()),
            });
            Said { outcome, undone: false }
        }
        let pay = with(known.pay, || order.payment());
        let stock = with(known.stock, || order.items.merged());
        Saga { start, pay, stock, stage: Stage::Gathering }
    }

    /// Each side without a recorded failure has to be undone.
    pub(super) const fn undo(&self) -> Undo {
        Undo { can: !self.pay.refused(), add: !self.stock.refused() }
    }

    /// Each side that is known to have taken has to be undone. This is all that may be asked for a try that
    /// its order takes to be over.
    pub(super) const fn undo_of_taken(&self) -> Undo {
        Undo { can: self.pay.taken().is_some(), add: self.stock.taken().is_some() }
    }

    /// What was sent to undo it and is not answered.
    #[must_use]
    pub const fn owed(&self) -> Undo {
        match self.stage {
            Stage::Gathering | Stage::Paid => Undo { can: false, add: false },
            Stage::Cancelling { undo, .. } => {
                Undo { can: undo.can && !self.pay.undone, add: undo.add && !self.stock.undone }
            }
        }
    }

    /// The decision and every answer that it waits for are in the log.
    pub(super) const fn is_finished(&self) -> bool {
        matches!(self.stage, Stage::Cancelling { announced: true, .. }) && self.owed().is_nothing()
    }

    /// Both sides have answered.
    pub(super) const fn is_complete(&self) -> bool {
        self.pay.outcome.is_some() && self.stock.outcome.is_some()
    }
}
