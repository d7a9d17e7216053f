//! All that leaves Holdfast over HTTP: callbacks to participants, questions to the outside sides of checkouts, and the webhook.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `callbacks` | what participants are told, delivered |
//! | `courier` | what outside sides of checkouts are asked |
//! | `webhook` | how checkouts ended, told to one address |
//! | `shop` | courier and webhook, started and ended |
//! | `forward` | messages as they were sent, to be handed on |
//! | `fspiop` | what the standard says the same way in answers and in callbacks |
//! | `tls` | TLS for calls to others |

pub mod callbacks;
mod courier;
pub mod forward;
pub mod fspiop;
mod shop;
pub mod tls;
mod webhook;

pub use callbacks::options;
pub use callbacks::{
    CallbackError, CallbackMemory, Callbacks, DeadLetter, DeadLetters, RETRIED_AT_ONCE_MAX, Retried, Retry,
};
pub use courier::shared::troubled;
pub use shop::{ShopAddresses, ShopCalls};
