//! All that leaves Holdfast over HTTP: callbacks to participants, questions to the outside sides of checkouts, and the webhook.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `lanes` | the one loop by which everything goes out: order, bounds, attempts, pauses, stop |
//! | `callbacks` | a source: what participants are told |
//! | `courier` | a source: what outside sides of checkouts are asked |
//! | `webhook` | a source: how checkouts ended, told to one address |
//! | `shop` | courier and webhook, started and ended |
//! | `request`, `post` | what is sent, and HTTP on kept connections |
//! | `options` | every bound, with its name and default |
//! | `tls` | TLS for calls to others |

pub mod callbacks;
mod courier;
mod lanes;
pub mod options;
mod post;
mod request;
mod shop;
pub mod tls;
mod webhook;

pub use callbacks::{CallbackError, CallbackMemory, Callbacks, DeadLetters};
pub use shop::{ShopAddresses, ShopCalls};
