//! State: the rows that decisions read and effects change.
//!
//! [`LocalStore`] is the store of the embedded profile: what is open in memory, what has ended on the disk.
//! [`MemoryStore`] keeps everything in memory; tools use it, and tests compare with it. The log is the history:
//! both can be derived from it again. Rooms:
//!
//! | room | what happens there |
//! | --- | --- |
//! | `local` | the store of the embedded profile |
//! | `checkpoint` | its state after one frame, in one file |
//! | `blocks` | records in append-only files: outcomes and callbacks |
//! | `runs` | ids of what has ended, in sorted files |
//! | `archive` | records that ended, found by their ids: `blocks` and `runs` together |
//! | `row`, `token_rows` | the bytes of a transfer; of tokens, locks and spends. Those of the shop lie with its rows |
//! | `memory` | the plain store |
//! | `books` | participants, accounts, funds and endpoints, in both |
//! | `hold_index` | open holds by expiration; its cost follows what expires |
//! | `conformance` | what every store must do, as tests over the trait |

mod archive;
mod blocks;
mod books;
mod checkpoint;
pub mod conformance;
mod error;
mod folder;
#[cfg(test)]
mod held;
mod hold_index;
mod local;
mod memory;
mod row;
mod runs;
#[cfg(test)]
mod shop_rows;
mod token_rows;

pub use archive::Sought;
pub use blocks::BlockReader;
pub use books::{Books, Roster};
pub use error::StoreError;
pub use folder::FOLDERS;
pub use local::{
    CheckpointFiles, Done, Held, History, Job, LocalStore, Recovered, StoreCheck, StoreFile, StoreFinding,
    StoreReport, files_of, reached, recover,
};
pub use memory::MemoryStore;

use std::sync::Arc;

use holdfast_domain::command::Key;
use holdfast_domain::effects::{Effects, Rows};
use holdfast_domain::ids::{Currency, Millis, TransferNo};
use holdfast_domain::shop::{CheckoutRow, ItemRow, OrderRow, UserRow};
use holdfast_domain::tokens::{LockRow, TokenRow};
use holdfast_domain::transfers::Transfer;
use holdfast_domain::view::View;

/// Callbacks as they were added to the store, for whoever delivers them.
pub type CallbackRows = BlockReader;

/// State that the loop can decide on, change, and show.
///
/// A frame passes it in this order: [`Store::load`], decide, [`Store::apply`], whatever is derived from the state
/// after the frame, [`Store::settle`].
pub trait Store: View + Rows + Tables + Send {
    /// Brings in what the frame's commands may read of what has ended: transfers, spends, consumed tokens, paid orders. It is there until
    /// [`Store::settle`]. Changes nothing that is stored.
    ///
    /// # Errors
    /// If what is on the disk cannot be read; the frame must not be decided then.
    fn load(&mut self, keys: &mut dyn Iterator<Item = Key<'_>>) -> Result<(), StoreError>;

    /// Takes over the effects of a frame that was decided at `now`: one atomic step.
    fn apply(&mut self, effects: &Effects, now: Millis)
    where
        Self: Sized,
    {
        effects.apply(now, self);
    }

    /// The frame is done: transfers that it ended, spends, consumed tokens and paid orders may leave memory.
    fn settle(&mut self, effects: &Effects);

    /// Keeps callbacks for whoever delivers them, and lets readers see them. A store that nothing is delivered from keeps none.
    fn keep_callbacks(&mut self, _: impl Iterator<Item = impl AsRef<[u8]>>)
    where
        Self: Sized,
    {
    }

    /// Lets the expiry index put what has come due by `now` in order. Changes nothing that a decision can see.
    fn sort_due(&mut self, now: Millis);

    /// Nothing is due at this instant or before; `None` if nothing will be. A hold or checkout is due after its expiration or
    /// deadline, a lease or key at its end, so this is at most the expiration, or a millisecond before the end. Exact once [`Store::sort_due`] has been called
    /// with a time past it.
    fn next_expiration(&self) -> Option<Millis>;
}

/// The tables of a store, shown whole: for figures, audits and views.
pub trait Tables {
    /// Participants, accounts, funds and endpoints.
    fn books(&self) -> &Books;

    /// How many holds are open.
    fn open_holds(&self) -> usize;

    /// Shows every live token, in no order.
    fn tokens(&self, show: &mut dyn FnMut(&TokenRow));

    /// Shows every lock, in no order. The lease of some may have run out.
    fn locks(&self, show: &mut dyn FnMut(&Arc<LockRow>));

    /// Shows every user of the shop, in no order.
    fn users(&self, show: &mut dyn FnMut(&UserRow));

    /// Shows every item of the shop, in no order.
    fn items(&self, show: &mut dyn FnMut(&ItemRow));

    /// Shows every order that is not paid, in no order.
    fn unpaid_orders(&self, show: &mut dyn FnMut(&OrderRow));

    /// Open checkouts by age, after the one that began at that place in the log, at most `max`.
    fn open_checkouts(&self, after: Option<u64>, max: usize) -> Vec<Arc<CheckoutRow>>;

    /// How many tokens live.
    fn token_count(&self) -> usize;

    /// How many locks end by themselves, the ones that transfers hold left out.
    fn open_leases(&self) -> usize;

    /// Open holds that run out before `before`, by expiration and number, after the one given, at most `max`.
    fn holds(&self, before: Millis, after: Option<(Millis, TransferNo)>, max: usize) -> Vec<&Transfer>;

    /// Shows every open hold, in no order.
    fn each_hold(&self, show: &mut dyn FnMut(&Transfer));

    /// Transfers from number `from` on that have not ended, by number, at most `max`.
    fn open_transfers(&self, from: TransferNo, max: usize) -> Vec<&Transfer>;

    /// The sum of invariant 1 per currency: positions less what open transfers hold on them, plus settlement.
    /// Transfers that tokens pay for hold nothing there.
    fn conserved_sums(&self) -> Vec<(Currency, holdfast_domain::money::Balance)> {
        let mut sums = std::collections::BTreeMap::new();
        for account in self.books().accounts() {
            let sum: &mut holdfast_domain::money::Balance = sums.entry(account.currency).or_default();
            *sum = *sum + account.value;
        }
        self.each_hold(&mut |hold| {
            if hold.holds_position() {
                let sum = sums.entry(hold.currency).or_default();
                *sum = sum.minus(hold.amount);
            }
        });
        sums.into_iter().collect()
    }
}
