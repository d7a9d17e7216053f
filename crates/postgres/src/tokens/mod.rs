//! Tokens that all nodes select from. Every command is one transaction; what happened goes into `token_change` in the same
//! (but that a lease was shortened, which others can do without).
//!
//! Nobody waits for a token: a claim takes all the tokens it names or none, and passes over those that another has in hand.
//! Names of spenders are waited for, by `INSERT … ON CONFLICT`; a statement that finds out too late that another was first
//! undoes itself (`token_race`) and is tried again.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `claim` | tokens locked for spenders, many requests in one statement |
//! | `spend` | inputs to outputs, many requests in one statement |
//! | `hold` | a lock renewed or given back |
//! | `funding` | tokens that pay for transfers, held and paid out in a transfer's own step |
//! | `supply` | tokens issued, and what another ledger did, told over HTTP or by Kafka |
//! | `changes` | what happened, in the order in which the topic is told, also in tables that came from another server |
//! | `unseen` | what happened and a node has not seen yet |
//! | `tidy` | what is over is removed, by one node at a time |
//! | `seen` | tokens, locks and balances as they are now |
//! | `verify` | whether the tokens still add up |
//! | `rows` | a token as columns, and back |

mod changes;
mod claim;
mod funding;
mod hold;
mod rows;
mod seen;
mod spend;
mod supply;
mod tidy;
mod unseen;
mod verify;

pub use changes::Position;
pub use claim::{ClaimVerdict, WantedClaim};
pub(crate) use funding::Pledged;
pub use hold::{HoldError, of_transfer};
pub use seen::{Holdings, ListedToken, SeenTokens, StoredSelection};
pub use spend::{SpendVerdict, WantedSpend};
pub use tidy::{GoneOutside, Tidied};
pub use unseen::{Next, Page, Seen, Unseen};
pub(crate) use verify::TOKEN_QUESTIONS;

use holdfast_domain::ids::Millis;

use crate::error::waited_in_vain;
use crate::session::Store;
use crate::types::Moment;
use crate::{Error, Settings};

/// The channel by which nodes hear that something has changed.
pub const CHANNEL: &str = "holdfast_token_change";

/// When something happens: by the database's clock, unless a test says otherwise.
fn moment(now: Option<Millis>) -> Option<Moment> {
    now.map(Moment)
}

impl Store {
    /// A connection for claims and spends, whose statements are planned once and for all: lists of thousands are joined by
    /// hash, never row by row, and tables are looked up by the lists' own keys.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_for_tokens(url: &str, settings: Settings) -> Result<Store, Error> {
        let mut store = Store::open(url, settings)?;
        store.client.batch_execute(
            "SET plan_cache_mode = force_generic_plan; SET enable_hashjoin = on; SET enable_nestloop = off",
        )?;
        Ok(store)
    }

    /// Reads several things as of one moment, each planned when it is asked.
    ///
    /// # Errors
    /// If the database fails, or what is read fails.
    pub fn at_one_moment<T, E: From<Error>>(
        &mut self,
        read: impl FnOnce(&mut Store) -> Result<T, E>,
    ) -> Result<T, E> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
             SET LOCAL plan_cache_mode = force_custom_plan";
        self.client.batch_execute(begin).map_err(Error::from)?;
        let answer = read(self);
        // There is nothing to commit. A connection that fails here is not used again.
        self.client.batch_execute("ROLLBACK").map_err(Error::from)?;
        answer
    }

    /// Tries as often as others may be in the way. Who has waited for a row as long as he may does not wait again.
    pub(crate) fn retrying<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Store) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let attempts_max = self.settings.attempts_max.max(1);
        for attempts in 1.. {
            match attempt(self) {
                Err(Error::Busy { cause, .. }) if attempts >= attempts_max || waited_in_vain(&cause) => {
                    return Err(Error::Busy { attempts, cause });
                }
                Err(Error::Busy { .. }) => {}
                other => return other,
            }
        }
        unreachable!("the last attempt returns")
    }
}
