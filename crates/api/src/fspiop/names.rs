//! Names of participants and their numbers.
//!
//! A name gets its number once and keeps it, and nobody is ever removed, so what was found is remembered for good and
//! the writer is asked only about names not seen before. Names that nobody has are not remembered: they may be given
//! at any time, and could be made up without end.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use holdfast_domain::ids::ParticipantId;
use holdfast_domain::participants::Name;

use crate::Edge;
use crate::calls::number_of;
use crate::error::ApiError;

/// Stands for a participant that does not exist: the rules refuse what it is named in.
pub(super) const NOBODY: ParticipantId = ParticipantId(u32::MAX);

/// The numbers of the names seen so far, by folded name.
#[derive(Default)]
pub(crate) struct Names {
    known: RwLock<HashMap<Name, ParticipantId>>,
}

impl Names {
    fn known(&self, name: Name) -> Option<ParticipantId> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(&name).copied()
    }

    fn learn(&self, name: Name, id: ParticipantId) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(name, id);
    }
}

/// The participant of that name, compared without case; `None` if there is none.
pub(crate) async fn participant(edge: &Edge, text: &str) -> Result<Option<ParticipantId>, ApiError> {
    // A text that cannot be a name is nobody's.
    let Some(name) = Name::new(text).map(Name::folded) else { return Ok(None) };
    if let Some(id) = edge.names.known(name) {
        return Ok(Some(id));
    }
    let found = number_of(edge, name).await?;
    if let Some(id) = found {
        edge.names.learn(name, id);
    }
    Ok(found)
}
