//! The hub's vault keeps the contract of every selector, also over restarts.

use std::sync::{Arc, Mutex};

use holdfast_engine::clock::{Clock, Reading};
use holdfast_engine::{TokenError, Wallets as _};
use holdfast_hub::Hub;
use holdfast_hub::limits::HubOptions;
use holdfast_hub::tokens::HubVault;
use holdfast_log::SimFs;
use holdfast_tokens::conformance::{Host, START, run_all};
use holdfast_tokens::{Balance, LockView, Refusal, Scope, Token};

use crate::support::start;

/// Follows the times that the suite brings; never back, as a hub's time does not.
struct SuiteClock(Mutex<i64>);

impl SuiteClock {
    fn at(&self, now: i64) {
        let mut latest = self.0.lock().unwrap();
        *latest = now.max(*latest);
    }
}

impl Clock for SuiteClock {
    fn read(&self) -> Reading {
        let now = *self.0.lock().unwrap();
        Reading { wall: now, monotonic: now }
    }
}

/// A hub on a simulated disk, as a selector.
struct HubSelector {
    fs: SimFs,
    clock: Arc<SuiteClock>,
    hub: Hub,
    runtime: tokio::runtime::Runtime,
}

impl HubSelector {
    fn open(fs: SimFs, now: i64) -> HubSelector {
        let clock = Arc::new(SuiteClock(Mutex::new(now)));
        let hub = start(&fs, clock.clone(), HubOptions::default());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        HubSelector { fs, clock, hub, runtime }
    }

    fn call<T>(
        &self,
        now: i64,
        work: impl AsyncFnOnce(&HubVault) -> Result<T, TokenError>,
    ) -> Result<T, Refusal> {
        self.clock.at(now);
        let handle = self.hub.handle();
        self.runtime.block_on(work(handle.tokens())).map_err(|error| match error {
            TokenError::Refused(refusal) => refusal,
            TokenError::Hub(refusal) => panic!("the hub took nothing: {refusal}"),
        })
    }
}

impl Host for HubSelector {
    fn restart(self, now: i64) -> HubSelector {
        let HubSelector { fs, hub, .. } = self;
        hub.stop();
        HubSelector::open(fs, now)
    }
}

holdfast_tokens::selector_by_calls!(HubSelector {
    fn issue(&self, tokens: Vec<Token>, now: i64) -> Result<(), Refusal> {
        // What the edge bounds: the suite issues a large wallet at once.
        tokens.chunks(5_000).try_for_each(|page| self.call(now, async |vault| vault.issue(page.to_vec()).await))
    }

    fn balance(&self, scope: &Scope, now: i64) -> Result<Balance, Refusal> {
        self.call(now, async |vault| vault.balance(scope))
    }

    fn locks(&self, scope: Option<&Scope>, now: i64) -> Result<Vec<LockView>, Refusal> {
        self.call(now, async |vault| vault.locks(scope))
    }
});

#[test]
fn the_vault_of_a_hub_keeps_every_promise() {
    run_all(|| HubSelector::open(SimFs::new(1), START));
}
