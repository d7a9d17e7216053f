//! A simulated participant: it speaks FSPIOP to a hub as a real one does, so that money can be seen moving.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `scheme` | how payer and payee come to the same fulfilment |
//! | `messages` | headers and bodies of the standard |
//! | `participant` | the participant itself: what it does with each message |
//! | `listen` | the small server that takes callbacks |
//! | `pay` | sending transfers and waiting for their ends |
//! | `diary` | one line for each message, in or out |

mod diary;
mod listen;
mod messages;
mod participant;
mod pay;
mod scheme;

pub(crate) use diary::Diary;
pub(crate) use listen::listen;
pub(crate) use participant::{Manner, Participant};
pub(crate) use pay::{Order, pay};
pub(crate) use scheme::DEFAULT_SECRET;
