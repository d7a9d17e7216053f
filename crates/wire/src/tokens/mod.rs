//! What wallets send and get. Quantities and sums are strings, instants are RFC 3339.
//!
//! | room | what lives there |
//! | --- | --- |
//! | `requests` | each body that a caller sends |
//! | `answers` | each body that a caller gets |
//! | `ask` | what a request asks of the selector |
//! | `problem` | refusals |

mod answers;
mod ask;
mod problem;
mod requests;
#[cfg(test)]
mod tests;

pub use answers::{
    Balance, Issued, Lease, ListedToken, Lock, LockPage, Pieces, Released, Selection, State, Token,
    TokenPage, Transaction, Updated,
};
pub use ask::{owner, scope};
pub use problem::{Funds, Holder, Problem};
pub use requests::{
    Consolidate, Issue, NewToken, Output, Policy, Redeem, Renew, Select, Spend, Sweep, Updates,
};
