//! Checkouts that tokens pay for: before a step of the payment side, this node locks tokens for the tries of its batch, as it
//! does for prepares. The step makes holds of them; what it does not take it gives back, and what it never came to lapses.
//!
//! Only a wallet that can never pay makes the payment side refuse. For what others hold, or what is not in memory yet, a short while is
//! waited; then the try is put off and comes again, until its deadline. Those of the batch that can be paid do not wait for it. If the vault cannot
//! answer, the whole batch comes again.

use std::time::Duration;

use holdfast_domain::shop::Met;
use holdfast_postgres::Error;
use holdfast_postgres::shop::{Bill, Pledge, Pledges};
use holdfast_tokens::{Name, Refusal};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use crate::node::StartError;
use crate::tokens::TokenVault;
use crate::tokens::limits::{FUNDING_LEASE_MS, FUNDING_WAIT_MS};

/// As soon as some of a batch can be paid, the others have so long, from one answer to the next, before they are put off.
const BESIDE_WAIT: Duration = Duration::from_millis(20);
/// As long as nobody can be paid, so long: a large wallet that is not in memory yet is loaded meanwhile, and goes on being loaded
/// when its try has been put off.
const ALONE_WAIT: Duration = Duration::from_secs(1);
/// So much longer than the try has time its tokens are locked, if its step never comes.
const LEASE_BEYOND_MS: i64 = 5_000;

/// The vault, as the payment side takes from it.
pub(crate) struct TokenCharges {
    vault: TokenVault,
    runtime: Runtime,
}

impl TokenCharges {
    pub(crate) fn new(vault: TokenVault) -> Result<TokenCharges, StartError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Ok(TokenCharges { vault, runtime: runtime.map_err(StartError::Thread)? })
    }

    /// Locks what the bills say, all at once. Those that others are in the way of are left out.
    pub(crate) fn pledge(&self, bills: Vec<Bill>) -> Result<Pledges, Error> {
        if bills.is_empty() {
            return Ok(Pledges::new());
        }
        self.runtime.block_on(async {
            let mut asked = JoinSet::new();
            for bill in bills {
                let vault = self.vault.clone();
                asked.spawn(async move { (bill.spender, pledge(&vault, &bill).await) });
            }
            let until = Instant::now() + Duration::from_millis(FUNDING_WAIT_MS.unsigned_abs());
            let mut pledges = Pledges::new();
            while let Some(answered) = next(&mut asked, !pledges.is_empty()).await {
                let (spender, pledge) = answered.map_err(|error| trouble(&error))?;
                if let Some(pledge) = pledge.map_err(|refusal| trouble(&refusal))? {
                    pledges.insert(spender, pledge);
                }
            }
            if pledges.is_empty() {
                // Whoever was refused at once comes again no sooner than whoever has waited.
                sleep_until(until).await;
            }
            Ok(pledges)
        })
    }
}

/// The next answer. If somebody `can_pay`, the others are not waited for: what they may have locked nevertheless is theirs when they
/// come again.
async fn next<T: 'static>(asked: &mut JoinSet<T>, can_pay: bool) -> Option<Result<T, JoinError>> {
    let patience = if can_pay { BESIDE_WAIT } else { ALONE_WAIT };
    timeout(patience, asked.join_next()).await.ok().flatten()
}

async fn pledge(vault: &TokenVault, bill: &Bill) -> Result<Option<Pledge>, Refusal> {
    let wallet = Name::from(bill.wallet.as_str());
    let (spender, currency) = (bill.spender.to_string(), bill.currency.to_string());
    // The same for each attempt of the try: another lease would be another request.
    let lease_ms = bill.time_ms.saturating_add(LEASE_BEYOND_MS).clamp(LEASE_BEYOND_MS, FUNDING_LEASE_MS);
    match vault.fund_for(lease_ms, &spender, wallet, &currency, bill.amount).await {
        Ok(funded) => {
            let ids = funded.selection.tokens.iter().map(|token| token.id.clone()).collect();
            Ok(Some(Pledge::Tokens(ids)))
        }
        // A name that no wallet can have.
        Err(Refusal::Invalid(_)) => Ok(Some(Pledge::Want)),
        Err(refusal) => match Met::of(&refusal) {
            Met::Want => Ok(Some(Pledge::Want)),
            Met::SameTry | Met::Others => Ok(None),
            Met::Trouble => match refusal {
                Refusal::StoreUnavailable(_) | Refusal::Loading { .. } => Err(refusal),
                // It will not pass by itself: one such wallet must not hold up the others of its partition.
                _ => Ok(Some(Pledge::Want)),
            },
        },
    }
}

fn trouble(cause: &dyn std::fmt::Display) -> Error {
    Error::Unavailable(format!("tokens for checkouts cannot be locked now: {cause}"))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    /// One wallet that others hold must not make all of its partition wait.
    #[tokio::test]
    async fn who_can_pay_does_not_wait_for_who_cannot() {
        let mut asked = JoinSet::new();
        asked.spawn(pending());
        asked.spawn(async { 1 });
        assert_eq!(next(&mut asked, false).await.map(Result::unwrap), Some(1));
        let began = Instant::now();
        assert!(next(&mut asked, true).await.is_none());
        assert!(began.elapsed() >= BESIDE_WAIT, "{:?}", began.elapsed());
        asked.spawn(async {
            sleep_until(Instant::now() + 3 * BESIDE_WAIT).await;
            2
        });
        assert_eq!(next(&mut asked, false).await.map(Result::unwrap), Some(2), "nobody else could pay");
        let began = Instant::now();
        assert!(next(&mut asked, false).await.is_none(), "also then not for ever");
        assert!(began.elapsed() >= ALONE_WAIT, "{:?}", began.elapsed());
    }
}
