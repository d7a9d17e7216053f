//! Shattered wallets, brought together in the background, a few at a time.

use holdfast_engine::{TokenError, Wallets};
use holdfast_tokens::ConsolidationOptions;

use super::HubVault;
use super::limits::WALLETS_PER_STEP;

impl HubVault {
    /// Looks at the wallets from place `from` on and brings some shattered ones together; from where to look next, and how
    /// many it were.
    pub async fn consolidate_some(&self, from: usize, options: &ConsolidationOptions) -> (usize, usize) {
        let (scopes, next) = self.index.selector.fragmented(options.tokens_min, from, WALLETS_PER_STEP);
        let mut done = 0;
        for scope in scopes {
            let spender = format!("consolidation-{:032x}", self.new_id());
            match self.consolidate(options.request(spender, scope)).await {
                Ok(Some(_)) => done += 1,
                Ok(None) => {}
                // The next look tries again; if the hub has stopped it says so itself.
                Err(TokenError::Hub(refusal)) => {
                    tracing::debug!(%refusal, "no consolidation now");
                    break;
                }
                Err(TokenError::Refused(refusal)) => {
                    tracing::debug!(%refusal, "a wallet stays shattered for now")
                }
            }
        }
        (next, done)
    }
}
