//! The shop: how long its callers wait, and what is wrong with sides that are outside.

use std::sync::{Arc, Mutex, PoisonError};

use holdfast_domain::shop::Side;
use holdfast_domain::shop::callers::WAIT_MS_DEFAULT;
use holdfast_domain::shop::limits::DEADLINE_MS_DEFAULT;

/// How long checkouts take whose callers say nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckoutTimes {
    /// How long a checkout may stay undecided (`shop.deadline_ms`).
    pub deadline_ms: u32,
    /// How long a caller waits for a checkout that stays open (`shop.wait_ms`).
    pub wait_ms: u32,
}

impl Default for CheckoutTimes {
    fn default() -> CheckoutTimes {
        CheckoutTimes { deadline_ms: DEADLINE_MS_DEFAULT, wait_ms: WAIT_MS_DEFAULT }
    }
}

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
