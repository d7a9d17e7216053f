//! What every selector must do, as functions over the contract. Each implementation runs all of [`suite`].

mod fixture;
mod funds;
mod leases;
mod owners;
mod spends;

pub use fixture::{Host, START};

use crate::contract::TokenSelector;

/// A promise and the function that checks it on fresh selectors.
pub type Promise<S> = (&'static str, fn(&dyn Fn() -> S));

/// All promises.
#[must_use]
pub fn suite<S: TokenSelector + Host>() -> Vec<Promise<S>> {
    vec![
        ("enough is locked, not enough is refused", funds::enough_and_not_enough),
        ("locked and insufficient are told apart with true numbers", funds::locked_against_insufficient),
        ("an unknown wallet has nothing", funds::unknown_wallet),
        ("zero and absurd amounts", funds::zero_and_absurd_amounts),
        ("the largest numbers and their sums", funds::largest_numbers),
        ("an exact token is found", funds::exact_hit),
        ("30 + 70 for 100 instead of three inputs", funds::thirty_and_seventy),
        ("the fewest inputs otherwise", funds::fewest_inputs),
        ("policies", funds::policies),
        ("too many inputs", funds::too_many_inputs),
        ("a shortfall on request", funds::shortfall),
        ("two requests of 4 against two tokens of 3", funds::two_of_four_against_two_threes),
        ("rollback", leases::rollback),
        ("a lease ends without a sweep", leases::lease_end_without_a_sweep),
        ("renew", leases::renew),
        ("fences", leases::fences),
        ("an expired holder cannot spend", leases::expired_holder_cannot_spend),
        ("restart with locks", leases::restart_with_locks),
        ("the same spender with the same and another body", leases::same_spender_twice),
        ("the lock list", leases::lock_list),
        ("a repeated spend", spends::repeated_spend),
        ("change and outputs", spends::change_and_outputs),
        ("issuers are kept apart in a spend", spends::issuers_kept_apart),
        ("redeem", spends::redeem),
        ("wrong spends change nothing", spends::wrong_spends),
        ("consume before produce", spends::consume_before_produce),
        ("a consumed token breaks its lock", spends::consumed_token_breaks_its_lock),
        ("issue is all or nothing", spends::issue_all_or_nothing),
        ("each index kind", owners::each_index_kind),
        ("one lock under all index kinds", owners::one_lock_under_all_kinds),
        ("type and currency", owners::type_and_currency),
        ("issuer, notary and attributes", owners::issuer_notary_attributes),
        ("predicate", owners::predicate),
        ("notaries are never mixed", owners::notaries_never_mixed),
    ]
}

/// Runs the whole suite, each promise on its own selectors.
pub fn run_all<S: TokenSelector + Host>(make: impl Fn() -> S) {
    for (name, promise) in suite::<S>() {
        eprintln!("conformance: {name}");
        promise(&make);
    }
    eprintln!("conformance: an exact hit in a wallet of {}", funds::LARGE_WALLET);
    funds::exact_hit_in_a_large_wallet(&make);
}

/// Makes a selector of a vault that is asked through `self.call(now, async |vault| …)`: what is alike in all of them. The
/// rest (issue, balance, locks) is given.
#[macro_export]
macro_rules! selector_by_calls {
    ($selector:ty { $($own:item)* }) => {
        impl $crate::TokenSelector for $selector {
            $($own)*

            fn update(
                &self,
                consumed: &[$crate::TokenId],
                produced: Vec<$crate::Token>,
                now: i64,
            ) -> Result<(usize, usize), $crate::Refusal> {
                let updated = self.call(now, async |vault| vault.update(consumed.to_vec(), produced).await);
                updated.map(|(came, went)| (went, came))
            }

            fn select_where(
                &self,
                request: &$crate::SelectRequest,
                predicate: Option<&$crate::Predicate>,
                now: i64,
                _: &mut $crate::Random,
            ) -> Result<$crate::Selection, $crate::Refusal> {
                self.call(now, async |vault| vault.select_where(request.clone(), predicate, 0).await)
            }

            fn spend(
                &self,
                request: &$crate::SpendRequest,
                now: i64,
            ) -> Result<$crate::Transaction, $crate::Refusal> {
                self.call(now, async |vault| vault.spend(request.clone()).await)
            }

            fn renew(
                &self,
                spender: &str,
                fence: Option<u64>,
                lease_ms: i64,
                now: i64,
            ) -> Result<$crate::Lease, $crate::Refusal> {
                self.call(now, async |vault| vault.renew(spender.into(), fence, lease_ms).await)
            }

            fn release(&self, spender: &str, fence: Option<u64>, now: i64) -> Result<usize, $crate::Refusal> {
                self.call(now, async |vault| vault.release(spender.into(), fence).await)
            }
        }
    };
}
