//! What is wrong with a side that is outside, as whoever asks it last saw: for people, beside what a checkout waits for.

use std::sync::{Arc, Mutex, PoisonError};

use holdfast_domain::shop::Side;

use super::desk::ShopDesk;

/// Why each side gave no answer when it was last asked; `None`: it did, or was not asked since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Troubles {
    pay: Option<Arc<str>>,
    stock: Option<Arc<str>>,
}

impl Troubles {
    /// That of one side.
    #[must_use]
    pub fn of(&self, side: Side) -> Option<&str> {
        match side {
            Side::Pay => self.pay.as_deref(),
            Side::Stock => self.stock.as_deref(),
        }
    }

    /// The same, with that of one side replaced.
    #[must_use]
    pub fn with(mut self, side: Side, why: Option<&str>) -> Troubles {
        let place = match side {
            Side::Pay => &mut self.pay,
            Side::Stock => &mut self.stock,
        };
        *place = why.map(Arc::from);
        self
    }
}

/// Where it is noted. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct NotedTroubles(Arc<Mutex<Troubles>>);

impl NotedTroubles {
    /// What is wrong with the sides that are outside.
    #[must_use]
    pub fn seen(&self) -> Troubles {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that a side gave no answer, and why; or, with `None`, that it did. Whether that is a change from well to not well.
    pub fn note(&self, side: Side, why: Option<&str>) -> bool {
        let mut troubles = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = why.is_some() && troubles.of(side).is_none();
        if troubles.of(side) != why {
            *troubles = std::mem::take(&mut *troubles).with(side, why);
        }
        is_new
    }
}

impl ShopDesk {
    /// What is wrong with the sides that are outside.
    #[must_use]
    pub fn troubles(&self) -> Troubles {
        self.troubles.seen()
    }

    /// As [`NotedTroubles::note`].
    pub fn note_trouble(&self, side: Side, why: Option<&str>) -> bool {
        self.troubles.note(side, why)
    }
}
