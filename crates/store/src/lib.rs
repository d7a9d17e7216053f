//! State: the rows that decisions read and effects change.
//!
//! [`MemoryStore`] keeps them hot in memory, owned by the one thread that decides. The log is the history: after a
//! restart the rows are derived from it again. Rooms:
//!
//! | room | what happens there |
//! | --- | --- |
//! | `memory` | the rows, as [`View`] for decisions and [`Rows`] for effects |
//! | `pages` | a growing array that never copies itself |
//! | `id_index` | transfer id to row, safe against ids chosen to collide |
//! | `hold_index` | open holds by expiration; its cost follows what expires |
//! | `conformance` | what every store must do, as tests over the trait |

mod blocks;
pub mod conformance;
mod error;
mod hold_index;
mod id_index;
mod memory;
mod pages;
mod runs;

pub use error::StoreError;
pub use memory::MemoryStore;

use holdfast_domain::effects::{Effects, Rows};
use holdfast_domain::ids::{Currency, Millis, ParticipantId, TransferNo};
use holdfast_domain::participants::{Account, Participant};
use holdfast_domain::transfers::Transfer;
use holdfast_domain::view::View;

/// State that the loop can decide on, change, and show.
pub trait Store: View + Rows + Send {
    /// Takes over the effects of a frame that was decided at `now`: one atomic step.
    fn apply(&mut self, effects: &Effects, now: Millis)
    where
        Self: Sized,
    {
        effects.apply(now, self);
    }

    /// Lets the expiry index put what has come due by `now` in order. Changes nothing that a decision can see.
    fn sort_due(&mut self, now: Millis);

    /// No open hold runs out before this instant; `None` if there is none. Exact once [`Store::sort_due`] has
    /// been called with a time past it.
    fn next_expiration(&self) -> Option<Millis>;

    /// How many holds are open.
    fn open_holds(&self) -> usize;

    /// Open holds that run out before `before`, by expiration and number, after the one given, at most `max`.
    fn holds(&self, before: Millis, after: Option<(Millis, TransferNo)>, max: usize) -> Vec<&Transfer>;

    /// Shows every open hold, in no order.
    fn each_hold(&self, show: &mut dyn FnMut(&Transfer));

    /// Every participant by number.
    fn participants(&self) -> Vec<&Participant>;

    /// Every account by number.
    fn accounts(&self) -> Vec<&Account>;

    /// The endpoints of a participant, type and value, by type.
    fn endpoints(&self, participant: ParticipantId) -> Vec<(&str, &str)>;

    /// Whether anybody has registered an endpoint.
    fn has_endpoints(&self) -> bool;

    /// The endpoint of that type.
    fn endpoint(&self, participant: ParticipantId, kind: &str) -> Option<&str>;

    /// Transfers from number `from` on, at most `max`.
    fn transfers_from(&self, from: TransferNo, max: usize) -> Vec<&Transfer>;

    /// The sum of invariant 1 per currency: positions less what open transfers hold on them, plus settlement.
    fn conserved_sums(&self) -> Vec<(Currency, holdfast_domain::money::Balance)> {
        let mut sums = std::collections::BTreeMap::new();
        for account in self.accounts() {
            let sum: &mut holdfast_domain::money::Balance = sums.entry(account.currency).or_default();
            *sum = *sum + account.value;
        }
        self.each_hold(&mut |hold| {
            if hold.state.holds_value() {
                let sum = sums.entry(hold.currency).or_default();
                *sum = sum.minus(hold.amount);
            }
        });
        sums.into_iter().collect()
    }
}
