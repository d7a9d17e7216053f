//! Who takes part, as an edge asks about it: from live memory, or from rows that were loaded for the question.

use crate::ids::{AccountId, ParticipantId};
use crate::participants::{Account, Name, Participant};

/// Which rows a question needs. Where rows must be loaded first, a question about one participant should not cost as
/// much as one about all of them. Live memory has them all at hand and need not look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Everybody's, and the hub's endpoints.
    Everybody,
    /// Those of the participant with this name, without regard to case.
    Named(Name),
    /// Those of the participant with this number. The hub itself has only endpoints.
    Numbered(ParticipantId),
}

/// Participants, their accounts with positions and limits, and their endpoints, as they stood at one moment. It knows
/// the rows that the question asked for, and perhaps more.
pub trait Registry {
    /// The participant of that number.
    fn participant(&self, id: ParticipantId) -> Option<&Participant>;
    /// The participant of that name, without regard to case.
    fn participant_named(&self, name: Name) -> Option<&Participant>;
    /// Every participant by number.
    fn participants(&self) -> Vec<&Participant>;
    /// The account of that number.
    fn account(&self, id: AccountId) -> Option<&Account>;
    /// Every account by number.
    fn accounts(&self) -> Vec<&Account>;
    /// The endpoints of a participant, type and value, by type.
    fn endpoints(&self, participant: ParticipantId) -> Vec<(&str, &str)>;
    /// The endpoint of that type.
    fn endpoint(&self, participant: ParticipantId, kind: &str) -> Option<&str>;
}
