//! Measurements of Holdfast beside peers, over long histories and through real servers. `cargo run --release -p holdfast-bench`
//! runs them; what a user compares machines with is in the product, as `holdfast bench` and `holdfast load`.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `bins` | the position step alone |
//! | `depth` | payments over a long history: windows, restarts, mass expiry |
//! | `fspiop` | payments over the JSON path, with and without callbacks |
//! | `selector` | the selector of tokens alone, beside its peers' algorithms |
//! | `rebuild` | outcomes of checkouts folded again |
//! | `transfers`, `tokens`, `checkout`, `expiry` | the database profile, beside floors and peers |
//! | `database` | what these four need: servers, a node between them, costs |

pub mod bins;
pub mod checkout;
mod database;
pub mod depth;
pub mod expiry;
pub mod fspiop;
pub mod rebuild;
pub mod selector;
pub mod tokens;
pub mod transfers;
