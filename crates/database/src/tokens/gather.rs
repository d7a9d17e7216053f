//! Shattered wallets, brought together in the background by the node that keeps housekeeping.

use std::time::Instant;

use holdfast_engine::Wallets as _;
use holdfast_postgres::{Error, Store};
use holdfast_tokens::{ConsolidationOptions, Scope};
use tokio::runtime::{Builder, Runtime};

use super::TokenVault;
use super::limits::WALLETS_LOOKED_AT;
use crate::node::StartError;

/// Goes through all wallets, again and again, some at each look.
pub(crate) struct Gatherer {
    vault: TokenVault,
    options: ConsolidationOptions,
    runtime: Runtime,
    /// The last wallet that was looked at; `None`: begins with the first.
    after: Option<Scope>,
    looked: Option<Instant>,
}

impl Gatherer {
    pub(crate) fn new(vault: TokenVault, options: ConsolidationOptions) -> Result<Gatherer, StartError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(StartError::Thread)?;
        Ok(Gatherer { vault, options, runtime, after: None, looked: None })
    }

    /// Looks at some wallets, if it is time to, as long as `may_go_on`; how many were brought together.
    pub(crate) fn look(
        &mut self,
        store: &mut Store,
        mut may_go_on: impl FnMut() -> bool,
    ) -> Result<usize, Error> {
        if self.looked.is_some_and(|looked| looked.elapsed() < self.options.every) {
            return Ok(0);
        }
        self.looked = Some(Instant::now());
        let tokens_min = self.options.tokens_min;
        let seen = store.wallets_after(self.after.as_ref(), tokens_min, WALLETS_LOOKED_AT)?;
        let all = seen.len() < WALLETS_LOOKED_AT;
        let mut done = 0;
        for (scope, shattered) in seen {
            if !may_go_on() {
                return Ok(done);
            }
            if shattered {
                done += usize::from(self.gather(scope.clone()));
            }
            self.after = Some(scope);
        }
        if all {
            self.after = None;
        }
        Ok(done)
    }

    fn gather(&self, scope: Scope) -> bool {
        let spender = format!("consolidation-{:032x}", self.vault.new_id());
        let request = self.options.request(spender, scope);
        let gathered = self.runtime.block_on(self.vault.consolidate(request));
        gathered.map(|made| made.is_some()).unwrap_or_else(|error| {
            tracing::debug!(refusal = %error, "a wallet stays shattered for now");
            false
        })
    }
}
