//! Commands of every kind, and questions about participants.

use holdfast_domain::effects::Outcome;
use holdfast_domain::records::Sealed;
use holdfast_domain::registry::{Registry, Whose};

use crate::refusal::{EngineError, Refusal};

/// Called once with the outcomes, one per command, when they are durable; or with the refusal.
pub type Answer = Box<dyn FnOnce(Result<Vec<Outcome>, Refusal>) + Send>;

/// Called when records are durable.
pub type Written = Box<dyn FnOnce() + Send>;

/// Called once with the rows that were asked for, or with the reason why there are none. Dropped without being called:
/// the engine has stopped.
pub type Question = Box<dyn FnOnce(Result<&dyn Registry, EngineError>) + Send>;

/// Has commands decided.
pub trait Payments {
    /// Has records decided. `answer` is called once with one outcome per record, when all are durable and decided; or
    /// with the refusal. An answer that is dropped without being called means that the engine has stopped.
    ///
    /// # Errors
    /// If they were not taken; the answer is not called then.
    fn decide(&self, records: Sealed, answer: Answer) -> Result<(), Refusal>;

    /// As [`Payments::decide`]; `written` is called when the records are durable, if that is known before they are decided.
    ///
    /// # Errors
    /// As [`Payments::decide`]; neither is called then.
    fn decide_telling(&self, records: Sealed, written: Written, answer: Answer) -> Result<(), Refusal> {
        // Where both come at once, the answer is what counts.
        drop(written);
        self.decide(records, answer)
    }

    /// Takes records into the log. `answer` is called once when they are durable, also if nothing is decided yet; whoever
    /// asks looks at no outcome, and there may be none.
    ///
    /// # Errors
    /// If they were not taken; the answer is not called then.
    fn take(&self, records: Sealed, answer: Answer) -> Result<(), Refusal> {
        self.decide(records, answer)
    }

    /// Asks about participants. The answer sees all that was answered before the question was asked.
    ///
    /// # Errors
    /// If the question was not taken; it is not called then.
    fn ask(&self, whose: Whose, question: Question) -> Result<(), Refusal>;
}
