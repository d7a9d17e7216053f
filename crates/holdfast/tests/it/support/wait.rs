//! Looking for something until it is there.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Longer than anything here takes, unless it never comes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Looks until there is what was looked for; an error is what was seen in its place.
#[track_caller]
pub(crate) fn wait_for<T, S: Debug>(what: &str, mut look: impl FnMut() -> Result<T, S>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(Instant::now() < deadline, "in vain: {what}; seen: {seen:?}"),
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
}

/// Looks until what is seen will do.
#[track_caller]
pub(crate) fn await_that<T: Debug>(
    what: &str,
    mut look: impl FnMut() -> T,
    will_do: impl Fn(&T) -> bool,
) -> T {
    wait_for(what, || {
        let seen = look();
        if will_do(&seen) { Ok(seen) } else { Err(seen) }
    })
}
