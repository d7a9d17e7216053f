//! The servers of this run, shared by all tests of this binary.

use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static SERVERS: RwLock<()> = RwLock::new(());

/// So many of those beside others at a time, however many threads there are: each starts three nodes.
const BESIDE_MAX: usize = 3;

static BESIDE: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// What a test has of the servers until this is dropped; by default nothing, where the caller has them already.
#[derive(Default)]
pub struct Servers {
    _alone: Option<RwLockWriteGuard<'static, ()>>,
    _beside: Option<Beside>,
}

struct Beside {
    _servers: RwLockReadGuard<'static, ()>,
}

impl Drop for Beside {
    fn drop(&mut self) {
        *BESIDE.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        BESIDE.1.notify_one();
    }
}

impl Servers {
    /// Those who stop servers, measure time or start many nodes have the servers to themselves.
    pub fn alone() -> Servers {
        let alone = SERVERS.write().unwrap_or_else(PoisonError::into_inner);
        Servers { _alone: Some(alone), _beside: None }
    }

    /// The others only need them to stay: they wait for leases and sessions to end most of the time.
    pub fn beside_others() -> Servers {
        let places = BESIDE.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |taken: &mut usize| *taken >= BESIDE_MAX;
        *BESIDE.1.wait_while(places, full).unwrap_or_else(PoisonError::into_inner) += 1;
        let servers = SERVERS.read().unwrap_or_else(PoisonError::into_inner);
        Servers { _alone: None, _beside: Some(Beside { _servers: servers }) }
    }
}
