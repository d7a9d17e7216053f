//! Invariant 6. Deciding the log again gives the same rows and the same chain: beside the running hub, after every
//! restart, and at a second restart right after the first. Sending an earlier command again changes no row.

use std::collections::BTreeSet;

use holdfast_domain::ids::TransferId;
use holdfast_hub::Core;
use holdfast_store::MemoryStore;

use crate::rows::Rows;

/// A state to compare others with.
#[derive(Debug)]
pub struct ReplayChangesNothing {
    end: u64,
    chain: [u8; 32],
    rows: Rows,
}

impl ReplayChangesNothing {
    /// Remembers a state.
    #[must_use]
    pub fn remember(core: &Core<MemoryStore>, funds: &BTreeSet<TransferId>) -> ReplayChangesNothing {
        ReplayChangesNothing { end: core.end(), chain: core.chain(), rows: Rows::of(core.store(), funds) }
    }

    /// The offset of the state.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Another way to the same offset led to the same state.
    pub fn same_state(&self, other: &ReplayChangesNothing, whose: &str) -> Result<(), String> {
        if self.end != other.end {
            return Err(format!("{whose}: ends at {} and not at {}", other.end, self.end));
        }
        if let Some(difference) = self.rows.difference(&other.rows) {
            return Err(format!("{whose}, at offset {}: {difference}", self.end));
        }
        if self.chain != other.chain {
            return Err(format!("{whose}, at offset {}: another chain hash over the same rows", self.end));
        }
        Ok(())
    }

    /// Commands came a second time: the log went on and no row is another.
    pub fn same_rows(&self, later: &ReplayChangesNothing) -> Result<(), String> {
        if later.end <= self.end {
            return Err("the repeats were not decided at all".to_owned());
        }
        match self.rows.difference(&later.rows) {
            Some(difference) => Err(format!("repeats between {} and {}: {difference}", self.end, later.end)),
            None => Ok(()),
        }
    }
}
