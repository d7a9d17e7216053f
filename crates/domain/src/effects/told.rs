//! Who is told what, and by which command's doing.

use crate::ids::{ParticipantId, TransferId, TransferNo};
use crate::positions::Action;
use crate::transfers::{Code, CompletionKind, ErrorInformation};

/// One side of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
#[allow(missing_docs, reason = "said above")]
pub enum Party {
    Payer = 1,
    Payee = 2,
}

/// What a notification tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum NotificationKind {
    /// A prepare was reserved: the payee gets it.
    Prepared = 1,
    /// The transfer is committed.
    Committed = 2,
    /// The payee gave up the transfer, or could not show the preimage.
    Aborted = 3,
    /// It ran out.
    Expired = 4,
    /// The message was refused.
    Refused = 5,
}

/// A party is to be told what became of its transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notification {
    /// The command that caused it, by its index. What ran out has the expiry as its cause.
    pub cause: u32,
    /// About which transfer.
    pub transfer: TransferNo,
    /// Who is told.
    pub to: Party,
    /// What.
    pub kind: NotificationKind,
    /// What was done, or was to be done; `None` if it ran out before anything was reserved.
    pub action: Option<Action>,
    /// The fulfil or abort that the transfer took: a payee that said RESERVED is told in another way.
    pub completion: Option<CompletionKind>,
    /// With which error.
    pub error: Option<ErrorInformation>,
    /// Whoever sent the command settles it, and nobody is called: a prepare that a checkout made.
    pub silent: bool,
}

impl Notification {
    /// Whom it tells. Of a wrong preimage the payee must hear too, or it believes that it was paid.
    pub fn parties(&self) -> impl Iterator<Item = Party> + use<> {
        let by_hub = self.completion.is_some_and(|completion| completion != CompletionKind::Abort);
        let wrong_preimage = self.kind == NotificationKind::Aborted && by_hub;
        std::iter::once(self.to).chain(wrong_preimage.then_some(Party::Payee))
    }

    /// The code by which the hub itself refused or ended it. An abort has none: its error is the payee's.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        self.error.map(|(code, _)| code).filter(|_| self.kind != NotificationKind::Aborted)
    }
}

/// What a command asks for, of which its sender is told what it came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Asked {
    Prepare,
    Commit,
    Reserve,
    Abort,
    Lookup,
    /// A position step that came again.
    Position,
    /// Limits and funds.
    Admin,
}

/// A command about a transfer moved nothing: it was a repeat, a refusal or a question. What it is answered says its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The command, by its index.
    pub cause: u32,
    /// Who sent it.
    pub to: ParticipantId,
    /// The transfer that it names.
    pub transfer: TransferId,
    /// What it asked.
    pub asked: Asked,
    /// The same was asked before, and the outcome is the stored one.
    pub repeat: bool,
    /// The fulfil or abort that the transfer has taken.
    pub completion: Option<CompletionKind>,
}
