//! The database's time, as this node estimates it: leases end by the database's clock, and whoever waits for an end here
//! should neither come too early nor late.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use holdfast_domain::ids::Millis;

pub(crate) enum TokenClock {
    /// What has passed since the start, and what to add to it.
    Database { started: Instant, offset: AtomicI64 },
    /// For tests: it is told.
    Standing(AtomicI64),
}

impl TokenClock {
    pub(crate) fn of_database() -> TokenClock {
        TokenClock::Database { started: Instant::now(), offset: AtomicI64::new(0) }
    }

    pub(super) const fn standing(now: Millis) -> TokenClock {
        TokenClock::Standing(AtomicI64::new(now))
    }

    pub(super) fn now(&self) -> Millis {
        match self {
            TokenClock::Database { started, offset } => {
                passed(started).saturating_add(offset.load(Ordering::Relaxed))
            }
            TokenClock::Standing(now) => now.load(Ordering::SeqCst),
        }
    }

    /// What statements are to take for now; `None`: the database's clock.
    pub(super) fn told(&self) -> Option<Millis> {
        match self {
            TokenClock::Database { .. } => None,
            TokenClock::Standing(now) => Some(now.load(Ordering::SeqCst)),
        }
    }

    /// The database has just told its time.
    pub(super) fn set(&self, time: Millis) {
        if let TokenClock::Database { started, offset } = self {
            offset.store(time.saturating_sub(passed(started)), Ordering::Relaxed);
        }
    }

    /// For tests: it is that time, also if it was later.
    pub(super) fn stand_back_at(&self, time: Millis) {
        if let TokenClock::Standing(now) = self {
            now.store(time, Ordering::SeqCst);
        }
    }

    /// For tests: time goes on to there.
    pub(super) fn stand_at(&self, time: Millis) {
        if let TokenClock::Standing(now) = self {
            now.fetch_max(time, Ordering::SeqCst);
        }
    }
}

fn passed(since: &Instant) -> i64 {
    i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX)
}
