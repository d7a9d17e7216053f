//! A thread that wakes those who wait for tokens when a lease or their own patience ends. It sleeps until then.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use holdfast_engine::Monitor;
use holdfast_engine::clock::Clock;

use super::TokenIndex;
use crate::alarm::thread;

/// Nobody waits: it looks again when somebody does, and now and then.
const IDLE: Duration = Duration::from_secs(60);

/// Says when to look again.
#[derive(Default)]
pub(crate) struct Timer {
    state: Monitor<TimerState>,
}

#[derive(Default)]
struct TimerState {
    look: bool,
    ended: bool,
}

impl Timer {
    /// Starts the thread.
    pub(crate) fn start(
        self: &Arc<Timer>,
        index: Arc<TokenIndex>,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<JoinHandle<()>> {
        let timer = Arc::clone(self);
        thread("token timer", move || timer.run(&index, &*clock))
    }

    /// Somebody began to wait: the next end may be sooner now.
    pub(super) fn look(&self) {
        self.state.change(|state| state.look = true);
    }

    pub(crate) fn end(&self) {
        self.state.change(|state| state.ended = true);
    }

    fn run(&self, index: &TokenIndex, clock: &dyn Clock) {
        loop {
            let now = clock.read().wall;
            let wait = index.selector.next_wakeup().map_or(IDLE, |next| {
                Duration::from_millis(u64::try_from(next.saturating_sub(now)).unwrap_or(0)).min(IDLE)
            });
            let quiet = |state: &mut TimerState| !state.look && !state.ended;
            let mut state = self.state.wait_while_for(self.state.lock(), wait, quiet);
            if state.ended {
                return;
            }
            state.look = false;
            drop(state);
            index.selector.tick(clock.read().wall);
        }
    }
}
