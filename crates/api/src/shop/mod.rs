//! The shop: users with credit, items with stock, orders, and their checkout.
//!
//! Every path is there twice, with one handler for both. At the root it speaks as the course's template does: ids and numbers
//! in the path, empty bodies, every business failure 400 and text. Under `/shop` the same path answers in JSON, with a status
//! for each kind of failure and problems of RFC 9457.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `orders`, `payment`, `stock` | the paths, for either dialect |
//! | `checkouts` | `/hub/checkouts…`: what is open; cancelled, tried again, answered from outside |
//! | `rows` | the shop behind the paths, and its commands with the rows that they answer |
//! | `dialect` | what was done, and how it is said |
//! | `course`, `proper` | the two ways to say it |
//! | `failure` | why something was not done |
//! | `standing` | how a checkout stands, as JSON and in words |
//! | `path`, `key` | what a request names: ids, numbers, the idempotency key |

pub(crate) mod checkouts;
mod course;
mod dialect;
mod failure;
mod key;
pub(crate) mod orders;
mod path;
pub(crate) mod payment;
mod proper;
mod rows;
mod standing;
pub(crate) mod stock;

pub(crate) use course::Course;
pub(crate) use proper::Proper;
pub(crate) use rows::Shop;

use std::time::Duration;

use holdfast_engine::ShopError;
use tokio::time::timeout;

use crate::limits::{ANSWER_WAIT_MAX, SHOP_INIT_WAIT_MAX};
pub(crate) use failure::Failure;

/// Waits for the hub, and no longer than is sensible.
pub(crate) async fn answered<T>(asked: impl Future<Output = Result<T, ShopError>>) -> Result<T, Failure> {
    answered_within(ANSWER_WAIT_MAX, asked).await
}

/// The same for a call that has many rows made.
async fn filled(asked: impl Future<Output = Result<(), ShopError>>) -> Result<(), Failure> {
    answered_within(SHOP_INIT_WAIT_MAX, asked).await
}

async fn answered_within<T>(
    patience: Duration,
    asked: impl Future<Output = Result<T, ShopError>>,
) -> Result<T, Failure> {
    let answer = timeout(patience, asked).await.map_err(|_| Failure::NoAnswer)?;
    Ok(answer?)
}
