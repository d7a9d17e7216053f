//! The shop of the database profile: the checkout's participants and its order consumer over PostgreSQL. What is decided is decided by the
//! pure code of `holdfast-checkout` and `holdfast-domain`; here are rows, locks and transactions.
//!
//! Whoever moves an order has locked its row: the consumer of `orders`, that of `outcomes`, and the scan for deadlines. So
//! each sees where the one before has left it, and the compare-and-set of the pure code is one over all nodes. Locks are taken
//! in this order, within each kind by ascending id: guard, orders, idempotency keys, items or users; then, as the handlers of
//! transfers take them, transfers, selections of tokens, accounts.
//!
//! The users' credit pays, or in its place transfers or tokens: `charging` says what. The payment side reserves, and whoever
//! decides settles, each within its own step. A side that is outside on Kafka simply has no consumer here; of one that is called
//! over HTTP the messages are only passed by (`outside`), and what it is asked is read from the orders.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `orders` | the topic `orders`: check out, cancel, retry |
//! | `pay` | the topic `pay`: credit, transfers or tokens are taken and given back |
//! | `sides` | what both participants have in common, and the topic `stock`: stock is taken and given back |
//! | `again` | tries that are put off, since others hold their tokens |
//! | `outside` | the same topics where a participant is called over HTTP, and who serves which side |
//! | `outcomes` | the topic `outcomes`: the order consumer |
//! | `settle` | what was reserved is settled by whoever decides |
//! | `rebuild` | what a consumer knows that takes over a partition |
//! | `deadlines` | checkouts that nobody decided in time, and keys whose time is over |
//! | `tellings` | ends that the webhook is to be told of |
//! | `commands` | what edges change, each in a transaction of its own |
//! | `seen` | what edges ask |
//! | `charging` | what checkouts charge, the same at all nodes |
//! | `charges` | what was reserved for tries |
//! | `open` | an open try, as its order's row keeps it |
//! | `rows`, `load`, `write` | rows to domain values and back |
//! | `verify` | whether the shop still adds up |

mod again;
mod charges;
mod charging;
mod commands;
mod deadlines;
mod load;
mod open;
mod orders;
mod outcomes;
mod outside;
mod pay;
mod rebuild;
mod rows;
mod seen;
mod settle;
mod sides;
mod tellings;
mod verify;
mod write;

pub use charging::WantedCharging;
pub use outside::{Served, Serving, setting_of};
pub use pay::{Bill, Pledge, Pledges};
pub use rebuild::Rebuilt;
pub(crate) use rows::ShopRows;
pub use seen::{OpenPage, OrderNow};
pub use tellings::{DueOutcome, FailedTelling};
pub(crate) use verify::SHOP_QUESTIONS;
pub(crate) use write::write;

use holdfast_domain::effects::Effects;
use holdfast_domain::shop::{
    Alarm, CheckoutAnswer, CheckoutEnd, Message as Said, OrderId, ShopEffect, Topic,
};
use holdfast_messages::{
    CheckoutNotice, Notice, Notification, OutcomeMessage, PayMessage, StockMessage, TraceId,
};

use crate::outbox::Outbox;

impl Outbox<'_> {
    /// Sends a message of a checkout to its topic, to the partition of its order.
    fn say(&mut self, said: Said) {
        let belongs = "a message is sent to its own topic";
        self.tally.add(&said.body);
        match said.body.topic() {
            Topic::Pay => self.send(&PayMessage::new(said).expect(belongs)),
            Topic::Stock => self.send(&StockMessage::new(said).expect(belongs)),
            Topic::Outcomes => self.send(&OutcomeMessage::new(said).expect(belongs)),
        }
    }

    /// Tells everybody who waits for the order how its try ended.
    fn tell_end(&mut self, order: &OrderId, answer: CheckoutAnswer) {
        let notice = CheckoutNotice { order: order.clone(), answer: Ok(answer) };
        self.send(&Notification { trace: TraceId::NOBODY, notice: Notice::Checkout(notice) });
    }

    /// What the shop's decision says to others.
    fn say_all(&mut self, effects: &Effects) {
        for message in effects.all(|step| &step.shop_messages) {
            self.say(message.message.clone());
        }
        for effect in effects.all(|step| &step.shop) {
            if let ShopEffect::Closed(CheckoutEnd { order, answer }) = effect {
                self.tell_end(order, *answer);
            }
        }
    }
}

/// Alarms stop nothing, but somebody has to look.
pub fn report(alarms: &[Alarm]) {
    for alarm in alarms {
        tracing::error!(alarm = alarm.name(), "{alarm}");
    }
}
