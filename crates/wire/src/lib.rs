//! JSON as it goes over the wire: each shape once, with its schema. The edge reads and writes these types, the command
//! line writes and reads them, and the OpenAPI document says what they say.
//!
//! | room | what lives there |
//! | --- | --- |
//! | `text`, `number`, `list` | members with a rule: how each is read, how it is written, what its schema is |
//! | `amount`, `currencies` | amounts without a float on the way; the currencies that there are |
//! | `times` | instants as text |
//! | `read` | a shape from bytes or from a value; a failure names its member |
//! | `schema` | shapes as schemas of the document |
//! | `problem` | what every refusal of RFC 9457 says |
//! | `admin` | what operators send and get |
//! | `tokens` | what wallets send and get |
//! | `fspiop` | what the standard says the same way in answers and in callbacks |
//! | `forward` | messages as they were sent, to be handed on |
//! | `shop` | what a shop's programs send and get |
//! | `views` | what the hub shows of itself |
//! | `limits` | the bounds of the wire |

#[macro_use]
mod text;

pub mod admin;
pub mod amount;
pub mod currencies;
pub mod forward;
pub mod fspiop;
pub mod limits;
mod list;
mod number;
pub mod problem;
pub mod read;
pub mod schema;
pub mod shop;
pub mod times;
pub mod tokens;
pub mod views;

pub use list::{Attributes, List, Object};
pub use number::Count;
pub use schemars::JsonSchema;
pub use text::{Instant, Name, Nullable, PublicKey, Quantity, Rule, Sum, Whole, shortened};
